"""What training with verl needs: an engine, data with all columns, and a verl that knows our names.

verl tells of a plugin that fails in its debug log alone, so the names are asked for here.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vrag.rl.trainers.verl import LOOPS, MANAGER, TRAINER, VERSION

__all__ = [
    "COLUMNS",
    "ENGINES",
    "INSTALL",
    "PINS",
    "engine",
    "installed",
    "missing_columns",
    "shipped",
    "unknown_names",
]

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


def shipped() -> dict[str, Path]:
    """The configurations that come with this package, by name."""
    folder = Path(__file__).parents[2] / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def installed(package: str) -> str | None:
    """The version of a distribution without its local part (`+cu130`); None where it is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None


def engine() -> str | None:
    """The inference engine that is installed; None without one."""
    return next((name for name in ENGINES if installed(name)), None)


def missing_columns(path: Path) -> tuple[str, ...]:
    """The columns that a parquet file lacks.

    Raises:
        OSError, ValueError: If it cannot be read or is no such file.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    names: set[str] = set(parquet.read_schema(path).names)
    return tuple(column for column in COLUMNS if column not in names)


def unknown_names() -> list[str]:
    """What of ours verl does not know: loops, the trainer, the reward manager.

    Raises:
        ImportError: Without verl.
    """
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
