"""The command that starts a training run with verl, and its requirements.

The requirements are packages, data columns, registered names, attention and GPU memory. verl reports a plugin
that fails in its debug log alone, so the registered names are checked here.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vrag.errors import SettingsError
from vrag.parsing import parse_json
from vrag.rl.trainers.verl import LOOPS, MANAGER, TRAINER, VERSION
from vrag.rl.trainers.verl.options import library

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Launch:
    """A configuration of this package and the settings that override it."""

    configuration: str
    """One of `shipped`."""
    settings: tuple[str, ...]
    """In the order of Hydra: later ones win."""
    attention: Attention

    @property
    def command(self) -> list[str]:
        """The command line of verl's entry point."""
        folder = str(shipped()[self.configuration].parent)
        command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", folder]
        return [*command, "--config-name", self.configuration, *self.settings]

    def compose(self) -> Any:  # noqa: ANN401 - a DictConfig
        """Compose the configuration with verl's own Hydra, which raises for a setting that no section has."""
        library("verl")
        hydra = library("hydra")
        folder = str(shipped()[self.configuration].parent)
        with hydra.initialize_config_dir(folder, version_base=None):
            return hydra.compose(self.configuration, overrides=list(self.settings))


def prepare_launch(
    configuration: str,
    *,
    agent: str = "vrag",
    attention: str = AUTO,
    settings: tuple[str, ...] = (),
    overrides: tuple[str, ...] = (),
) -> Launch:
    """Check the names and choose the attention implementation; raise `SettingsError` if a name is unknown.

    `auto` goes by what is installed, unless `overrides`, the further settings of the user, name another one.
    """
    if configuration not in shipped():
        raise SettingsError(
            f"There is no configuration {configuration!r}.", f"Known: {', '.join(shipped())}."
        )
    if agent not in LOOPS:
        raise SettingsError(f"There is no agent {agent!r}.", f"Known: {', '.join(LOOPS)}.")
    names = [override.partition("=")[2] for override in overrides if override.startswith("attention=")]
    name = names[-1] if names else attention
    if name not in (*IMPLEMENTATIONS, *(() if names else (AUTO,))):
        known = ", ".join((AUTO, *IMPLEMENTATIONS))
        raise SettingsError(f"There is no attention implementation {name!r}.", f"Known: {known}.")
    chosen = choose_attention() if name == AUTO else Attention(name, "it was asked for")
    group = () if names else (f"attention={chosen.name}",)
    return Launch(configuration, (f"agent={agent}", *group, *settings, *overrides), chosen)


def judge_settings(url: str, model: str) -> tuple[str, ...]:
    """Write the judge as settings of verl.

    Raises `SettingsError` if only its server or only its name is given: every rollout would fail.
    """
    if not url and not model:
        return ()
    if not url or not model:
        raise SettingsError("A judge has a server and a name.", "Give both: --judge-url and --judge-model.")
    named = (f"vrag.judge.base_url={quote(url)}", f"vrag.judge.model={quote(model)}")
    return ("vrag.judge.kind=endpoint", *named)


def quote(value: str | Path) -> str:
    """Quote a value of any characters for Hydra."""
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


INSTALL = "pip install 'vrag-agent[verl]'"
"""In an environment of its own."""
PINS = {
    "verl": VERSION,
    "vllm": "0.24.0",
    "torch": "2.11.0",
    "torchvision": "0.26.0",
    "transformers": "5.9.0",
    "ray": "2.60.0",
    "tensordict": "0.10.0",
    "TransferQueue": "0.1.11",
    "qwen-vl-utils": "0.0.14",
    "peft": "0.21.2",
}
"""The versions of requirements-verl.lock. The first five are those that verl was released with."""
COLUMNS = ("id", "prompt", "data_source", "reward_model", "extra_info", "file_name", "reference_page")
"""Of the parquet that verl reads and the reward needs."""
ENGINES = ("vllm", "sglang")

FLASH, SDPA = "flash_attention_2", "sdpa"
IMPLEMENTATIONS = (FLASH, SDPA)
"""Names of the configurations in the group `attention`."""
MIN_CAPABILITY = 8
"""Major compute capability that flash-attn 2 needs: Ampere and newer."""
PROBE_SECONDS = 120.0
_PROBE = """
import flash_attn.flash_attn_interface, flash_attn.bert_padding, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(min((torch.cuda.get_device_capability(number)[0] for number in range(count)), default=0))
"""
"""Run by a process of its own: CUDA takes memory of a GPU for as long as the process lives."""

PARAMETERS = {
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_755_000_000,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_000_000,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_000_000,
}
"""Weights of the models that the configurations name, which may not lie on this machine."""
FULL_BYTES = 16
"""Of a trained weight: 4 each for the weight, its gradient and the two moments of Adam."""
HALF_BYTES = 2
"""Of a weight in bfloat16."""
VOCABULARY = 151_936
"""Of the Qwen families, where the checkpoint does not say."""


def shipped() -> dict[str, Path]:
    """List the configurations that come with this package, by name."""
    folder = Path(__file__).parents[2] / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def installed(package: str) -> str | None:
    """Return the version of a distribution without its local part (`+cu130`); None if not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None


def engine() -> str | None:
    """Find the installed inference engine."""
    return next((name for name in ENGINES if installed(name)), None)


def missing_columns(path: Path) -> tuple[str, ...]:
    """List the columns that a parquet file lacks; raise OSError or ValueError if it cannot be read."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    names: set[str] = set(parquet.read_schema(path).names)
    return tuple(column for column in COLUMNS if column not in names)


def unknown_names() -> list[str]:
    """List our names that verl does not know; raise ImportError without verl."""
    importlib.import_module("verl")
    loops: Any = importlib.import_module("verl.experimental.agent_loop.agent_loop")
    importlib.import_module("verl.trainer.ppo.v1.trainer_sync")
    base: Any = importlib.import_module("verl.trainer.ppo.v1.trainer_base")
    managers: Any = importlib.import_module("verl.experimental.reward_loop.reward_manager.registry")
    importlib.import_module("verl.experimental.reward_loop.reward_manager")
    absent = [f"agent loop {name}" for name in LOOPS if name not in loops._agent_loop_registry]  # noqa: SLF001
    absent += [f"trainer {TRAINER}"] if TRAINER not in base.TRAINER_REGISTRY else []
    absent += [f"reward manager {MANAGER}"] if MANAGER not in managers.REWARD_MANAGER else []
    return absent


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention implementation of the trained model.

    verl's default, `flash_attention_2`, needs the package flash-attn, which neither verl nor vLLM installs:
    it is built for one version of torch and CUDA, mostly on the machine itself. That of torch (`sdpa`) needs
    nothing.
    """

    name: str
    """One of `IMPLEMENTATIONS`."""
    reason: str
    """The reason for the choice, as the end of a sentence."""


def choose_attention() -> Attention:
    """Choose flash-attn if it can be imported and every GPU supports it, and that of torch otherwise."""
    if find_spec("flash_attn") is None:
        return Attention(SDPA, "flash-attn is not installed")
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Attention(SDPA, f"flash-attn was not imported within {PROBE_SECONDS:g} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Attention(SDPA, f"flash-attn cannot be imported ({lines[-1]})")
    capability = int(done.stdout.split()[-1])
    if not capability:
        return Attention(SDPA, "flash-attn is installed, but no GPU is visible")
    if capability < MIN_CAPABILITY:
        return Attention(
            SDPA, f"flash-attn needs compute capability {MIN_CAPABILITY}.0, and a GPU has {capability}"
        )
    return Attention(FLASH, "flash-attn is installed, and every GPU supports it")


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """A lower bound of the memory that a configuration takes of one GPU, in bytes.

    Training and rollouts take turns on the same GPUs, so the larger of both counts. Not counted are
    activations, the fragments of the allocator and what CUDA itself takes: a GPU of exactly this size is too
    small.
    """

    training: int
    """Its share of weights, gradients and optimizer, and the logits of a micro-batch with their gradient."""
    rollouts: int
    """The share of the weights of the server; its cache comes on top."""

    @property
    def bytes(self) -> int:
        """The memory that a GPU must have."""
        return max(self.training, self.rollouts)


def least_memory(config: Any, parameters: int, vocabulary: int = VOCABULARY) -> LeastMemory:  # noqa: ANN401
    """Estimate the memory of one GPU for a composed configuration of verl and a model of so many weights."""
    model, rollout = config["actor_rollout_ref"]["model"], config["actor_rollout_ref"]["rollout"]
    actor, trainer = config["actor_rollout_ref"]["actor"], config["trainer"]
    gpus = int(trainer["n_gpus_per_node"]) * int(trainer["nnodes"])
    weight_bytes = HALF_BYTES if int(model["lora_rank"]) else FULL_BYTES
    longest = int(config["data"]["max_prompt_length"]) + int(config["data"]["max_response_length"])
    tokens = int(actor["ppo_max_token_len_per_gpu"]) if actor["use_dynamic_bsz"] else longest
    logits = 2 * HALF_BYTES * tokens * vocabulary
    share = HALF_BYTES * parameters // int(rollout["tensor_model_parallel_size"])
    return LeastMemory(
        training=weight_bytes * parameters // gpus + logits,
        rollouts=int(share / float(rollout["gpu_memory_utilization"])),
    )


def count_parameters(model: str) -> tuple[int, int] | None:
    """Count the weights and the vocabulary of a model: a folder, or a name of the hub that we configure.

    None if neither files nor the table tell.
    """
    folder = Path(model).expanduser()
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    if not sizes:
        known = PARAMETERS.get(model)
        return None if known is None else (known, VOCABULARY)
    try:
        config = parse_json((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return sum(sizes) // HALF_BYTES, VOCABULARY
    text = config.get("text_config", config)
    stored = str(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or "bfloat16")
    width = 4 if stored == "float32" else HALF_BYTES
    vocabulary = text.get("vocab_size") or config.get("vocab_size") or VOCABULARY
    return sum(sizes) // width, int(vocabulary)
