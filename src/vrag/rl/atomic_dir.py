"""A folder of files that is there whole or not at all, also where libraries write it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vrag.atomic_io import replace_directory, sync
from vrag.embed.device import library
from vrag.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["placed", "refused"]


def placed(target: Path, write: Callable[[Path], None], hint: str) -> Path:
    """Makes a folder: written beside, put on the disk, then renamed; one that was there stands until then.

    Args:
        target: The folder.
        write: What writes its files, given where.
        hint: What to do about a disk that refuses.

    Raises:
        TrainingError: If the disk refuses.
    """
    # Weights and optimizer are written by Rust and C++, whose errors are no `OSError`.
    refusals = (OSError, RuntimeError, library("safetensors").SafetensorError)
    beside = target.with_name(f".{target.name}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        write(beside)
        for path in (*beside.iterdir(), beside):
            sync(path)
        replace_directory(beside, target)
    except refusals as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise refused(target, error, hint) from error
    return target


def refused(place: Path, error: Exception, hint: str) -> TrainingError:
    """What is said where the disk refuses."""
    reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0] or type(error).__name__
    return TrainingError(f"{place} cannot be written: {reason.rstrip('.')}.", hint)
