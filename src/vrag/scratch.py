"""Temporary directories. Those that killed processes leave are removed by later ones.

A process holds a lock on each of its directories, which the system frees with the process, however that
ends. A directory whose lock is free belongs to nobody. One that has no lock yet has just been created, or its
process was killed at that moment: it is empty, and is removed after an hour.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from vrag.atomic_io import is_unfinished

if TYPE_CHECKING:
    from collections.abc import Generator

_LOCK = ".vrag-scratch.lock"
_HELD = ".vrag-scratch"
"""File that appears once the lock is held: without it, a process may be about to take the lock."""
_PREFIX = "vrag-scratch-"
_NEW_SECONDS = 3600.0
"""Age up to which a directory without `_HELD` may belong to a process that is about to take the lock."""


@contextmanager
def scratch_directory(parent: Path | None = None, *, hidden: bool = False) -> Generator[Path]:
    """Create a directory in `parent`, or in the system's temporary folder, and remove it in the end.

    What killed processes left there is removed first. Raises `OSError` if it cannot be created.
    """
    parent, prefix = parent or Path(tempfile.gettempdir()), f".{_PREFIX}" if hidden else _PREFIX
    remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with FileLock(directory / _LOCK, is_singleton=False):
            (directory / _HELD).touch()
            yield directory


def remove_abandoned(parent: Path | None = None) -> None:
    """Remove the scratch directories of this user in a folder whose processes were killed.

    `parent` is the system's folder for temporary files by default. What cannot be removed is left.
    """
    parent = parent or Path(tempfile.gettempdir())
    for prefix in (_PREFIX, f".{_PREFIX}"):
        with suppress(OSError):
            for directory in parent.glob(f"{prefix}*"):
                with suppress(OSError):
                    if _is_ours(directory):
                        _remove_if_free(directory)


def is_scratch(name: str) -> bool:
    """Return whether a directory has a name that `scratch_directory` gives."""
    return name.removeprefix(".").startswith(_PREFIX)


def remove_unfinished_files(directory: Path) -> None:
    """Remove the files that killed processes were writing into a directory, to which nobody else writes."""
    with suppress(OSError):
        for path in directory.iterdir():
            if is_unfinished(path.name) and path.is_file() and not path.is_symlink():
                with suppress(OSError):
                    path.unlink()


def _is_ours(directory: Path) -> bool:
    """Return whether it is a directory of this user: nobody else can have put links into it."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return sys.platform == "win32" or directory.lstat().st_uid == os.getuid()


def _remove_if_free(directory: Path) -> None:
    if not (directory / _HELD).is_file():
        if time.time() - directory.stat().st_mtime > _NEW_SECONDS:
            (directory / _LOCK).unlink(missing_ok=True)
            directory.rmdir()
        return
    with suppress(Timeout):
        with FileLock(directory / _LOCK, timeout=0, is_singleton=False):
            pass  # nobody holds it, and nobody will: it is taken once; Windows could not delete it here
        shutil.rmtree(directory, ignore_errors=True)
