"""What training with verl needs, looked at before hours of GPUs are spent: `vrag train doctor`.

verl tells of a plugin that fails in its debug log alone, so the names are asked for here.
"""

from __future__ import annotations

import importlib
import logging
import os
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.errors import VragError
from vrag.rl.trainers.verl import LOOPS, MANAGER, TRAINER, VERSION
from vrag.rl.trainers.verl.options import VerlOptions
from vrag.rl.trainers.verl.playing import case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["COLUMNS", "INSTALL", "Finding", "Status", "engine", "examine", "missing_columns", "shipped"]

INSTALL = "pip install 'vrag-agent[verl]' vllm"
"""In an environment of its own."""
COLUMNS = ("id", "prompt", "data_source", "reward_model", "extra_info", "file_name", "reference_page")
"""Of the parquet that verl reads and the reward needs."""
ENGINES = ("vllm", "sglang")


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    """It is as it should be."""
    WARN = "warn"
    """Training can start, and something of it will not be as wanted."""
    FAIL = "fail"
    """Training cannot start."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    status: Status
    message: str
    hint: str = ""
    """What to do."""


def shipped() -> dict[str, Path]:
    """The configurations that come with this package, by name."""
    folder = Path(__file__).parents[2] / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def engine() -> str | None:
    """The inference engine that is installed; None without one."""
    return next((name for name in ENGINES if _version(name)), None)


def missing_columns(path: Path) -> tuple[str, ...]:
    """The columns that a parquet file lacks.

    Raises:
        OSError, ValueError: If it cannot be read or is no such file.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    names: set[str] = set(parquet.read_schema(path).names)
    return tuple(column for column in COLUMNS if column not in names)


def examine(options: VerlOptions, data: Sequence[Path]) -> Iterator[Finding]:
    """Looks at everything, one thing after the other; what raises is a finding too.

    Args:
        options: What is searched and who judges.
        data: Parquet files of training and validation.
    """
    looks: list[tuple[str, Callable[[], Finding]]] = [
        ("verl", _verl),
        ("names", _names),
        ("engine", _engine),
        ("gpus", _gpus),
        *((f"data {path.name}", lambda path=path: _data(path)) for path in data),
        ("collection", lambda: _collection(options)),
        ("judge", lambda: _judge(options)),
    ]
    if not data:
        yield Finding("data", Status.WARN, "No data was named.", "Name it: --data train.parquet")
    for name, look in looks:
        try:
            yield look()
        except VragError as error:
            yield Finding(name, Status.FAIL, error.message, error.hint)
        except Exception as error:  # a check that breaks is a finding, and the others go on
            logging.getLogger("vrag.rl").debug("The check %s failed.", name, exc_info=True)
            yield Finding(name, Status.FAIL, f"{type(error).__name__}: {error}")


def _verl() -> Finding:
    found = _version("verl")
    if found is None:
        return Finding("verl", Status.FAIL, "verl is not installed.", f"In a new environment: {INSTALL}")
    if found != VERSION:
        return Finding(
            "verl", Status.WARN, f"verl {found}; tested with {VERSION}.", f"Run: pip install verl=={VERSION}"
        )
    return Finding("verl", Status.OK, f"verl {found}.")


def _names() -> Finding:
    """Whether verl knows our names: both loops, the trainer, the reward manager."""
    if _version("verl") is None:
        return Finding("names", Status.FAIL, "Without verl nothing is registered.", f"Run: {INSTALL}")
    importlib.import_module("verl")
    loops: Any = importlib.import_module("verl.experimental.agent_loop.agent_loop")
    trainers: Any = importlib.import_module("verl.trainer.ppo.v1.trainer_sync")
    base: Any = importlib.import_module("verl.trainer.ppo.v1.trainer_base")
    managers: Any = importlib.import_module("verl.experimental.reward_loop.reward_manager.registry")
    importlib.import_module("verl.experimental.reward_loop.reward_manager")
    del trainers
    absent = [f"agent loop {name}" for name in LOOPS if name not in loops._agent_loop_registry]  # noqa: SLF001
    absent += [f"trainer {TRAINER}"] if TRAINER not in base.TRAINER_REGISTRY else []
    absent += [f"reward manager {MANAGER}"] if MANAGER not in managers.REWARD_MANAGER else []
    if absent:
        off = os.environ.get("VERL_USE_EXTERNAL_PLUGINS")
        hint = (
            f"VERL_USE_EXTERNAL_PLUGINS is {off!r}: unset it." if off else "Run: pip install -e . --no-deps"
        )
        return Finding("names", Status.FAIL, f"verl does not know: {', '.join(absent)}.", hint)
    return Finding("names", Status.OK, f"Registered: {', '.join(LOOPS)}, the trainer, the reward manager.")


def _engine() -> Finding:
    found = engine()
    if found is None:
        return Finding(
            "engine", Status.FAIL, "Neither vLLM nor SGLang is installed.", "Run: pip install vllm"
        )
    return Finding("engine", Status.OK, f"{found} {_version(found)}.")


def _gpus() -> Finding:
    if _version("torch") is None:
        return Finding("gpus", Status.FAIL, "torch is not installed.", f"Run: {INSTALL}")
    torch: Any = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return Finding(
            "gpus",
            Status.FAIL,
            f"torch {torch.__version__} sees no GPU.",
            "Training with verl needs some; a small model trains on a CPU: vrag train local",
        )
    memory = min(torch.cuda.get_device_properties(number).total_memory for number in range(count))
    message = f"{count} with {memory / 2**30:.0f} GiB or more."
    if memory < 60 * 2**30:
        return Finding("gpus", Status.WARN, message, "For cards of 24 GB: vrag train verl lora_24gb")
    return Finding("gpus", Status.OK, message)


def _data(path: Path) -> Finding:
    name = f"data {path.name}"
    if not path.is_file():
        return Finding(name, Status.FAIL, f"There is no {path}.", "Make it: vrag data convert")
    absent = missing_columns(path)
    if absent:
        return Finding(
            name, Status.FAIL, f"{path} lacks: {', '.join(absent)}.", "Make it anew: vrag data convert"
        )
    parquet: Any = importlib.import_module("pyarrow.parquet")
    table = parquet.ParquetFile(path)
    count = int(table.metadata.num_rows)
    if not count:
        return Finding(name, Status.FAIL, f"{path} has no rows.", "Make it anew: vrag data convert")
    first = next(table.iter_batches(batch_size=1)).to_pylist()[0]
    case = case_of(first)
    if not case.reference_page:
        return Finding(
            name,
            Status.WARN,
            f"{count:,} questions; the first has no gold pages.",
            "Without pages the retrieval part is 0, and GGPO cannot spare what found the evidence.",
        )
    return Finding(name, Status.OK, f"{count:,} questions.")


def _collection(options: VerlOptions) -> Finding:
    from vrag.search.client import SearchClient

    if options.searcher:
        return Finding("collection", Status.OK, f"{options.searcher} searches.")
    root = Path(options.image_root) if options.image_root else None
    with SearchClient(
        options.search_url, token=options.search_key, image_root=root, timeout=10, retries=0
    ) as searcher:
        found = searcher.version
    return Finding("collection", Status.OK, f"{options.search_url} answers, version {found[:12]}.")


def _judge(options: VerlOptions) -> Finding:
    asked = options.judge
    if asked.kind == "rules":
        return Finding(
            "judge",
            Status.WARN,
            "Answers are compared by rules.",
            "The reference asks a model: --judge-url URL --judge-model NAME",
        )
    if not asked.base_url or not asked.model:
        return Finding("judge", Status.FAIL, "The judge has no address or no name.", "Name both.")
    import httpx

    headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    reply = httpx.get(f"{asked.base_url.rstrip('/')}/models", headers=headers, timeout=10)
    if reply.is_success:
        return Finding("judge", Status.OK, f"{asked.model} at {asked.base_url} answers.")
    said = f"{asked.base_url} answers {reply.status_code}."
    return Finding("judge", Status.FAIL, said, f"Is the key in {asked.key_variable}?")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
