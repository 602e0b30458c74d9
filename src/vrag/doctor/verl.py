"""What training with verl needs, checked before hours of GPUs are spent: `vrag train doctor`."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.doctor.check import Check, CheckStatus
from vrag.doctor.runner import CheckStep, examine_steps
from vrag.doctor.verl_dry_run import MODEL_HINT, DryRun
from vrag.providers import reachable
from vrag.rl.trainers.verl import LOOPS
from vrag.rl.trainers.verl.preflight import (
    ENGINES,
    FLASH,
    INSTALL,
    PINS,
    choose_attention,
    count_parameters,
    engine,
    installed,
    least_memory,
    missing_columns,
    unknown_names,
)
from vrag.rl.trainers.verl.rollout import case_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.rl.trainers.verl.launch import Launch
    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["check_memory", "check_model", "examine_verl", "gpu_bytes"]

SHARED_MEMORY_BYTES = 8 * 2**30
"""Of /dev/shm, where Ray keeps objects and NCCL its buffers; containers have 64 MiB unless told otherwise."""
MARGIN = 1.5
"""How much more than the least a GPU should have: activations are not counted in it."""
REACH_SECONDS = 10
IMPORT_SECONDS = 300


def examine_verl(
    launch: Launch, options: VerlOptions, data: Sequence[Path], model: str, seconds: float
) -> Iterator[Check]:
    """Check everything, one thing after the other; those whose foundation has failed are skipped.

    Args:
        launch: The run that is to be started.
        options: What is searched and who judges.
        data: Parquet files of training and validation.
        model: The checkpoint to begin with; empty for the configuration's own.
        seconds: Time limit of each check.
    """
    run = DryRun(launch)
    steps = [
        *(CheckStep(package, lambda package=package: _package(package)) for package in PINS),
        CheckStep("names", _names, after="verl"),
        CheckStep("engine", _engine, after="torch", slow=True),
        CheckStep("attention", lambda: _attention(launch)),
        CheckStep("configuration", run.check_configuration, after="verl", slow=True),
        CheckStep("gpus", _gpus, after="torch"),
        CheckStep("model", lambda: check_model(run, model), after="configuration"),
        CheckStep("memory", lambda: check_memory(run), after="configuration"),
        CheckStep("shared memory", _shared_memory),
        *([CheckStep("ray", _ray)] if os.environ.get("RAY_ADDRESS") else []),
        *(CheckStep(f"data {path.name}", lambda path=path: _data(path)) for path in data),
        CheckStep("collection", lambda: _collection(options)),
        CheckStep("judge", lambda: _judge(options)),
    ]
    if not data:
        yield Check("data", CheckStatus.WARNING, "No data was named.", "Name it: --data train.parquet")
    yield from examine_steps(steps, seconds)


def _package(name: str) -> Check:
    """A package against the version that the lock file has."""
    found, pinned = installed(name), PINS[name]
    if found is None:
        others = [engine for engine in ENGINES if engine != name and installed(engine)]
        if name in ENGINES and others:
            return Check("", CheckStatus.SKIPPED, f"Not installed: {others[0]} serves the rollouts.")
        return Check("", CheckStatus.FAILED, f"{name} is not installed.", f"In a new environment: {INSTALL}")
    if found != pinned:
        said = f"{name} {found}; the lock file has {pinned}."
        return Check("", CheckStatus.WARNING, said, f"Run: pip install {name}=={pinned}", {"version": found})
    return Check("", CheckStatus.OK, f"{name} {found}.", details={"version": found})


def _names() -> Check:
    """Whether verl knows our names: both loops, the trainer, the reward manager."""
    if absent := unknown_names():
        off = os.environ.get("VERL_USE_EXTERNAL_PLUGINS")
        hint = (
            f"VERL_USE_EXTERNAL_PLUGINS is {off!r}: unset it."
            if off
            else "Install this package in verl's environment: pip install --no-deps -e ."
        )
        return Check("", CheckStatus.FAILED, f"verl does not know: {', '.join(absent)}.", hint)
    return Check("", CheckStatus.OK, f"Registered: {', '.join(LOOPS)}, the trainer, the reward manager.")


def _engine() -> Check:
    """Whether the inference engine can be imported: in a process of its own, since it may end it."""
    found = engine()
    if found is None:
        return Check("", CheckStatus.FAILED, "Neither vLLM nor SGLang is installed.", f"Run: {INSTALL}")
    command = [sys.executable, "-c", f"import {found}"]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=IMPORT_SECONDS
        )
    except subprocess.TimeoutExpired:
        said = f"{found} was not imported within {IMPORT_SECONDS} s."
        return Check("", CheckStatus.FAILED, said, f"Try it alone: python -c 'import {found}'")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        said = f"{found} {installed(found)} cannot be imported: {lines[-1]}"
        return Check("", CheckStatus.FAILED, said, f"In a new environment: {INSTALL}")
    return Check("", CheckStatus.OK, f"{found} {installed(found)} can be imported.")


def _attention(launch: Launch) -> Check:
    """The attention implementation of the trained model, and why it is this one."""
    chosen = launch.attention
    details = {"implementation": chosen.name}
    if chosen.name == FLASH and (found := choose_attention()).name != FLASH:
        hint = "Leave the choice to what is installed: --attention auto"
        return Check("", CheckStatus.FAILED, f"{FLASH} was asked for, and {found.reason}.", hint, details)
    return Check("", CheckStatus.OK, f"{chosen.name}: {chosen.reason}.", details=details)


def _gpus() -> Check:
    """The GPUs that torch sees."""
    torch: Any = importlib.import_module("torch")
    sizes = gpu_bytes()
    if not sizes:
        hint = "Training with verl needs some; a small model trains on a CPU: vrag train local"
        return Check("", CheckStatus.FAILED, f"torch {torch.__version__} sees no GPU.", hint)
    message = f"{len(sizes)} with {min(sizes) / 2**30:.0f} GiB or more; CUDA {torch.version.cuda}."
    return Check("", CheckStatus.OK, message, details={"bytes": sizes})


def gpu_bytes() -> list[int]:
    """Memory of each visible GPU."""
    torch: Any = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [int(torch.cuda.get_device_properties(number).total_memory) for number in range(count)]


def check_model(run: DryRun, given: str) -> Check:
    """Whether the model's folder is whole; a name of the hub is fetched when training starts."""
    name = given or str(run.config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if name.startswith((".", "/", "~")):
            return Check("", CheckStatus.FAILED, f"There is no folder {name}.", MODEL_HINT)
        offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}
        said = f"{name} is not a folder: it is taken from the hub or its cache."
        return Check("", CheckStatus.WARNING, said, MODEL_HINT if offline else "")
    missing = [file for file in ("config.json", "tokenizer_config.json") if not (folder / file).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if not any((folder / file).is_file() for file in ("preprocessor_config.json", "processor_config.json")):
        missing.append("preprocessor_config.json")
    if missing:
        return Check("", CheckStatus.FAILED, f"{name} lacks: {', '.join(missing)}.", "Fetch the model again.")
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return Check("", CheckStatus.OK, f"{name}: {size / 2**30:.1f} GiB of weights.")


def check_memory(run: DryRun) -> Check:
    """The memory of the GPUs against the least that the model takes."""
    name = str(run.config.actor_rollout_ref.model.path)
    counted = count_parameters(name)
    if counted is None:
        return Check("", CheckStatus.SKIPPED, f"The size of {name} is not known before it is fetched.")
    least = least_memory(run.config, *counted)
    needed = f"{least.bytes / 2**30:.1f} GiB of each GPU are needed, and activations on top"
    details = {"training": least.training, "rollouts": least.rollouts, "parameters": counted[0]}
    sizes = gpu_bytes() if installed("torch") else []
    if not sizes:
        return Check("", CheckStatus.SKIPPED, f"{needed}; there is no GPU to compare with.", details=details)
    said = f"{needed}; the smallest has {min(sizes) / 2**30:.1f}."
    if min(sizes) < least.bytes:
        hint = "Take more GPUs (trainer.n_gpus_per_node), a smaller model, or LoRA: vrag train verl lora_24gb"
        return Check("", CheckStatus.FAILED, said, hint, details)
    status = CheckStatus.OK if min(sizes) >= MARGIN * least.bytes else CheckStatus.WARNING
    hint = (
        ""
        if status is CheckStatus.OK
        else "Where it runs out: data.max_response_length, offloading, more GPUs."
    )
    return Check("", status, said, hint, details)


def _shared_memory() -> Check:
    """Room in /dev/shm."""
    place = Path("/dev/shm")  # noqa: S108 - where Ray and NCCL put theirs
    if not place.is_dir():
        return Check("", CheckStatus.SKIPPED, f"There is no {place} on this system.")
    free = shutil.disk_usage(place).free
    said = f"{free / 2**30:.1f} GiB are free in {place}."
    if free < SHARED_MEMORY_BYTES:
        return Check("", CheckStatus.WARNING, said, "In a container, give it more: docker run --shm-size=32g")
    return Check("", CheckStatus.OK, said)


def _ray() -> Check:
    """Whether the Ray cluster that RAY_ADDRESS names listens."""
    address = os.environ["RAY_ADDRESS"]
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        said = f"RAY_ADDRESS is {address}: it is looked for when training starts."
        return Check("", CheckStatus.SKIPPED, said)
    try:
        with socket.create_connection((host, int(port)), timeout=REACH_SECONDS):
            return Check("", CheckStatus.OK, f"{address} listens.")
    except OSError as error:
        said = f"RAY_ADDRESS is {address}, which cannot be reached: {error}."
        return Check("", CheckStatus.FAILED, said, "Start the cluster, or unset RAY_ADDRESS.")


def _data(path: Path) -> Check:
    if not path.is_file():
        return Check("", CheckStatus.FAILED, f"There is no {path}.", "Make it: vrag data convert")
    if absent := missing_columns(path):
        return Check(
            "", CheckStatus.FAILED, f"{path} lacks: {', '.join(absent)}.", "Make it anew: vrag data convert"
        )
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as table:
        count = int(table.metadata.num_rows)
        if not count:
            return Check("", CheckStatus.FAILED, f"{path} has no rows.", "Make it anew: vrag data convert")
        first = next(table.iter_batches(batch_size=1)).to_pylist()[0]
    if not case_of(first).reference_page:
        hint = "Without pages the retrieval part is 0, and GGPO cannot spare what found the evidence."
        return Check("", CheckStatus.WARNING, f"{count:,} questions; the first has no gold pages.", hint)
    return Check("", CheckStatus.OK, f"{count:,} questions.")


def _collection(options: VerlOptions) -> Check:
    from vrag.search.client import SearchClient

    if options.searcher:
        return Check("", CheckStatus.OK, f"{options.searcher} searches.")
    root = Path(options.image_root) if options.image_root else None
    with SearchClient(
        options.search_url, token=options.search_key, image_root=root, timeout=10, retries=0
    ) as searcher:
        found = searcher.version
    return Check("", CheckStatus.OK, f"{options.search_url} answers, version {found[:12]}.")


def _judge(options: VerlOptions) -> Check:
    asked = options.judge
    if asked.kind == "rules":
        hint = "The reference asks a model: --judge-url URL --judge-model NAME"
        return Check("", CheckStatus.WARNING, "Answers are compared by rules.", hint)
    if not asked.base_url or not asked.model:
        return Check("", CheckStatus.FAILED, "The judge has no address or no name.", "Name both.")
    import httpx

    headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    try:
        reply = httpx.get(f"{reachable(asked.base_url).rstrip('/')}/models", headers=headers, timeout=10)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = f"{asked.base_url} cannot be reached: {error or type(error).__name__}."
        return Check(
            "", CheckStatus.FAILED, said, "Does the server run, and is the address right? --judge-url"
        )
    if reply.is_success:
        return Check("", CheckStatus.OK, f"{asked.model} at {asked.base_url} answers.")
    said = f"{asked.base_url} answers {reply.status_code}."
    return Check("", CheckStatus.FAILED, said, f"Is the key in {asked.key_variable}?")
