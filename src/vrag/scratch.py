"""Directories for files that are needed for a while. What killed processes leave, later ones remove.

A process holds a lock on each of its directories, which the system frees with the process, however that
ends. A directory whose lock is free belongs to nobody.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from collections.abc import Generator

_LOCK = ".vrag-scratch.lock"
_HELD = ".vrag-scratch"
"""File that appears once the lock is held: without it, a process may be about to take the lock."""
_PREFIX = "vrag-"
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names of the files that `vrag.atomic_io.atomic_file` writes."""


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
                    if _is_ours(directory) and (directory / _HELD).is_file():
                        _remove_if_free(directory)


def remove_unfinished_files(directory: Path) -> None:
    """Remove the files that killed processes were writing into a directory, to which nobody else writes."""
    with suppress(OSError):
        for path in directory.iterdir():
            if _UNFINISHED.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                with suppress(OSError):
                    path.unlink()


def _is_ours(directory: Path) -> bool:
    """Return whether it is a directory of this user: nobody else can have put links into it."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return sys.platform == "win32" or directory.lstat().st_uid == os.getuid()


def _remove_if_free(directory: Path) -> None:
    with suppress(Timeout):
        with FileLock(directory / _LOCK, timeout=0, is_singleton=False):
            pass  # nobody holds it, and nobody will: it is taken once; Windows could not delete it here
        shutil.rmtree(directory, ignore_errors=True)
