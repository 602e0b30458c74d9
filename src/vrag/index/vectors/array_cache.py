"""Directories of arrays that can be made again at any time: written beside, renamed, mapped into memory.

A cache directory appears whole or not at all. What is found in it is checked before it is used: the
length of every file, and sums over parts of it. What cannot be written in one place is written in
another, so that a collection that nobody may write to, or a full disk, does not end a search.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import shutil
import tempfile
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.atomic_io import write_file
from vrag.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["ArrayContent", "StoredArrays", "drop", "fetch", "find", "make", "sweep"]

_FORMAT = 1
"""Number of what is written; another number means: make it anew."""
_INDEX = "cache.json"
_MARK = "-new-"
"""In the name of a directory that is being written."""
_LOCK = "lock"
_PIECE = 4096
_PIECES = 64
"""Parts of a file that its sum goes over: reading all of it would take as long as making it."""
_STALE_SECONDS = 600.0
"""Age from which caches of other contents are deleted: another process may just be making one."""


@dataclass(frozen=True, slots=True)
class ArrayContent:
    """What a builder has written into its directory: each array as a file of bare numbers."""

    arrays: Mapping[str, tuple[type[np.generic], tuple[int, ...]]]
    """File name to type and shape."""
    facts: Mapping[str, Any]
    """What else is known, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredArrays:
    """A cache that can be used: its arrays are mapped and not read before they are needed."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]


def fetch(directory: Path, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
    """What a cache directory holds; made first if it is not there, or damaged.

    Where its place cannot be written to, it is made in the system's folder for temporary files, or in
    memory, for as long as this process uses it.

    Args:
        directory: Where it is kept.
        build: Writes the arrays into an empty directory; None when it cannot be done any more.

    Returns:
        None if `build` did.

    Raises:
        CollectionError: If there is no place with room for it.
    """
    found = find(directory)
    if found is not None:
        return found
    failures: list[OSError] = []
    for home in (directory.parent, Path(tempfile.gettempdir()), Path("/dev/shm")):  # noqa: S108
        try:
            return make(home, directory, build)
        except OSError as error:
            failures.append(error)
    raise CollectionError(
        f"There is no room for search structures: {'; '.join(map(str, failures))}.",
        "Make room on the disk of the collection, or in the folder for temporary files (TMPDIR).",
    ) from failures[0]


def find(directory: Path) -> StoredArrays | None:
    """What a cache directory holds; None when it is not there, damaged, or of another format."""
    try:
        content: Any = json.loads((directory / _INDEX).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            return None
        arrays = {name: _mapped(directory / name, mark) for name, mark in content["arrays"].items()}
        return StoredArrays(arrays, content["facts"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def drop(array: NDArray[Any]) -> None:
    """Lets go of the memory that a mapped array takes up so far; it is read from its file again."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def sweep(home: Path, kind: str, keep: str) -> None:
    """Deletes what nobody needs: caches of other contents once they are old, and what killed builds left.

    Args:
        home: The directory of caches.
        kind: How the names of these caches begin.
        keep: How the names of those begin that stay.
    """
    with suppress(OSError):
        for path in home.glob(f"{kind}*"):
            if _MARK in path.name:
                _sweep_scratch(path)
            elif not path.name.startswith(keep) and _age(path) > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def make(home: Path, directory: Path, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
    """Make a cache directory, to be found if `home` is the directory that it lies in.

    Args:
        home: Where it is written.
        directory: Where it is kept.
        build: Writes the arrays into an empty directory; None when it cannot be done any more.

    Returns:
        None if `build` did.

    Raises:
        OSError: If it cannot be written there.
    """
    from filelock import FileLock

    if home == directory.parent:
        home.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{directory.name}{_MARK}", dir=home))
    try:
        with FileLock(scratch / _LOCK):  # tells a build that is at work from one that was killed
            content = build(scratch)
            if content is None:
                return None
            _seal(scratch, content)
        made = find(scratch)
        if made is None:
            raise OSError(f"{scratch} was changed while it was made")
        # Mapped files stay readable when their names are gone: what is made elsewhere leaves nothing.
        return _published(made, scratch, directory) if home == directory.parent else made
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _published(made: StoredArrays, scratch: Path, directory: Path) -> StoredArrays:
    """Puts it into its place, unless another process has been there first with a good one."""
    (scratch / _LOCK).unlink(missing_ok=True)
    scratch.chmod(directory.parent.stat().st_mode)
    theirs = find(directory)
    if theirs is not None:
        return theirs
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):  # another process may put its own there in this moment
        scratch.replace(directory)
    return made


def _seal(scratch: Path, content: ArrayContent) -> None:
    """Writes what is there, once all of it is on the disk."""
    arrays: dict[str, Any] = {}
    for name, (number, shape) in content.arrays.items():
        path = scratch / name
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        arrays[name] = {"number": np.dtype(number).name, "shape": list(shape), "sum": _sum(path)}
    index = {"format": _FORMAT, "arrays": arrays, "facts": dict(content.facts)}
    write_file(scratch / _INDEX, json.dumps(index).encode())


def _mapped(path: Path, mark: Mapping[str, Any]) -> NDArray[Any]:
    number, shape = np.dtype(mark["number"]), tuple(int(side) for side in mark["shape"])
    size = math.prod(shape) * number.itemsize
    if path.stat().st_size != size or _sum(path) != mark["sum"]:
        raise ValueError(f"{path} is damaged.")
    if not size:  # nothing can be mapped
        return np.zeros(shape, number)
    return np.asarray(np.memmap(path, number, "r", shape=shape))


def _sum(path: Path) -> int:
    """CRC-32 over the beginning, the end and parts in between."""
    size, total = path.stat().st_size, 0
    with path.open("rb") as file:
        for piece in range(_PIECES + 1):
            file.seek(max(0, size - _PIECE) * piece // _PIECES)
            total = zlib.crc32(file.read(_PIECE), total)
    return total


def _sweep_scratch(path: Path) -> None:
    """Deletes a directory that no process is writing: its lock, if it has one, is free."""
    from filelock import FileLock, Timeout

    lock = path / _LOCK
    if not lock.exists() and _age(path) < _STALE_SECONDS:
        return
    with suppress(Timeout, OSError), FileLock(lock, timeout=0):
        shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
