"""Caches of arrays in directories, mapped into memory; they can be rebuilt at any time.

A cache directory appears whole or not at all. Its content is checked before it is used: the length of every
file, its checksum, and in a large file the checksums of parts of it. A cache that cannot be written in one
place is written in another, so that a read-only collection, or a full disk, does not end a search.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import shutil
import sys
import tempfile
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.atomic_io import replace_file, write_file
from vrag.errors import CollectionError
from vrag.index.integrity.checksums import file_checksum
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_FORMAT = 2
"""Version of the format; a cache of another version is rebuilt."""
_INDEX = "cache.json"
_SCRATCH = "-new-"
"""In the name of a directory that is being written."""
_ELSEWHERE = "vrag-cache-"
"""Beginning of the name of a directory in a folder that is not one of caches."""
_LOCK = "lock"
_PIECE = 4096
_PIECES = 64
"""Parts of a large file that are checked before it is used: reading all would take as long as making it."""
_MAX_CHECKED_BYTES = 4 << 20
"""Size of a file up to which all of it is checked before it is used: some two milliseconds."""
_STALE_SECONDS = 600.0
"""Age from which caches of other contents are deleted: another process may just be making one."""
_MAX_OTHERS = 8
"""The newest caches of other contents that are kept until then: where documents come and go all the time,
there would be many."""


@dataclass(frozen=True, slots=True)
class ArrayContent:
    """Arrays that a builder has written into its directory, each as a file of bare numbers."""

    arrays: Mapping[str, tuple[type[np.generic], tuple[int, ...]]]
    """File name to type and shape."""
    facts: Mapping[str, Any]
    """Other values, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredArrays:
    """A valid cache: its arrays are mapped and not read before they are needed."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]


def fetch(directory: Path, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
    """Open a cache directory; build it first if it is missing or damaged.

    Where its parent cannot be written to, it is built in the system's folder for temporary files, or in
    memory, for as long as this process uses it. `build` writes the arrays into an empty directory, or returns
    None when it no longer can; then None is returned. Raises `CollectionError` if there is no place with
    space for it.
    """
    stored = find(directory)
    if stored is not None:
        return stored
    failures: list[OSError] = []
    for home in (directory.parent, Path(tempfile.gettempdir()), Path("/dev/shm")):  # noqa: S108
        try:
            if home != directory.parent:
                sweep(home, f"{_ELSEWHERE}*{_SCRATCH}", keep="")
            return make(home, directory, build)
        except OSError as error:
            failures.append(error)
    raise CollectionError(
        f"There is no disk space for search structures: {'; '.join(map(str, failures))}.",
        "Free some space on the disk of the collection, or in the folder for temporary files (TMPDIR).",
    ) from failures[0]


def find(directory: Path) -> StoredArrays | None:
    """Open a cache directory; None when it is missing, damaged, or of another format."""
    try:
        data = (directory / _INDEX).read_bytes()
        content: Any = parse_json(data)
        if content["format"] != _FORMAT or check_seal(data) is not Seal.SOUND:
            return None
        arrays = {name: _map(directory / name, entry) for name, entry in content["arrays"].items()}
        return StoredArrays(arrays, content["facts"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None


def find_damaged_file(directory: Path) -> Path | None:
    """Check every byte of a cache directory; return the first file that is damaged, None if there is none.

    A cache of another format, which is not used, counts as sound.
    """
    index = directory / _INDEX
    try:
        data = index.read_bytes()
        if check_seal(data) is Seal.BROKEN:
            return index
        content: Any = json.loads(data)
        if content["format"] != _FORMAT:
            return None
        entries: dict[str, Any] = content["arrays"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return index
    for name, entry in entries.items():
        try:
            with (directory / name).open("rb") as file:
                if file_checksum(file) != entry["crc"]:
                    return directory / name
        except (OSError, KeyError, TypeError):
            return directory / name
    return None


def drop(array: NDArray[Any]) -> None:
    """Release the memory of a mapped array; it is read from its file again."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and sys.platform != "win32":
        base.madvise(mmap.MADV_DONTNEED)


def sweep(home: Path, kind: str, keep: str) -> None:
    """Delete caches of other contents once they are old or many, and what killed builds left.

    Of the caches in `home` whose names begin with `kind`, those whose names begin with `keep` stay.
    """
    from filelock import FileLock, Timeout

    with suppress(OSError):
        paths = list(home.glob(f"{kind}*"))
        others = [path for path in paths if _SCRATCH not in path.name and not path.name.startswith(keep)]
        for number, path in enumerate(sorted(others, key=_age)):
            if number >= _MAX_OTHERS or _age(path) > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        for path in paths:
            lock = path / _LOCK
            if (
                _SCRATCH in path.name
                and not path.is_symlink()
                and (lock.exists() or _age(path) > _STALE_SECONDS)
            ):
                with suppress(Timeout, OSError):
                    with FileLock(lock, timeout=0):
                        pass  # no process is writing it; the lock itself could not be deleted here on Windows
                    shutil.rmtree(path, ignore_errors=True)


def sweep_unfinished(home: Path) -> None:
    """Delete what killed builds left in a directory of caches."""
    sweep(home, f"*{_SCRATCH[:-1]}", keep="")


def make(home: Path, directory: Path, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
    """Build a cache in `home`; if that is the parent of `directory`, it is kept there for others to find.

    Returns None if `build` does. Raises `OSError` if it cannot be written there.
    """
    from filelock import FileLock

    name = directory.name if home == directory.parent else f"{_ELSEWHERE}{directory.name}"
    if home == directory.parent:
        home.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}{_SCRATCH}", dir=home))
    try:
        with FileLock(scratch / _LOCK):  # tells a build that is at work from one that was killed
            content = build(scratch)
            if content is None:
                return None
            arrays: dict[str, Any] = {}
            for name, (number, shape) in content.arrays.items():
                path = scratch / name
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
                kind, sides = np.dtype(number).name, list(shape)
                with path.open("rb") as file:
                    whole = file_checksum(file)
                arrays[name] = {"number": kind, "shape": sides, "sum": _sample(path), "crc": whole}
            index = {"format": _FORMAT, "arrays": arrays, "facts": dict(content.facts)}
            write_file(scratch / _INDEX, seal_json(index))
        if find(scratch) is None:  # nothing stays mapped: Windows would not rename the folder
            raise OSError(f"{scratch} was changed while it was written")
        if home == directory.parent:
            _keep(scratch, directory)
        # Mapped files stay readable when their names are gone; what Windows keeps is left to `sweep`.
        return (find(directory) if home == directory.parent else None) or find(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _keep(scratch: Path, directory: Path) -> None:
    """Give a cache its name, unless another process has just made a valid one."""
    (scratch / _LOCK).unlink(missing_ok=True)
    scratch.chmod(directory.parent.stat().st_mode)
    if find(directory) is None:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # another process may rename its own at this moment
            replace_file(scratch, directory)


def _map(path: Path, entry: Mapping[str, Any]) -> NDArray[Any]:
    number, shape = np.dtype(entry["number"]), tuple(int(side) for side in entry["shape"])
    size = math.prod(shape) * number.itemsize
    if path.stat().st_size != size or not _is_sound(path, size, entry):
        raise ValueError(f"{path} is damaged.")
    if not size:  # nothing can be mapped
        return np.zeros(shape, number)
    return np.asarray(np.memmap(path, number, "r", shape=shape))


def _is_sound(path: Path, size: int, entry: Mapping[str, Any]) -> bool:
    if size > _MAX_CHECKED_BYTES:
        return _sample(path) == entry["sum"]
    with path.open("rb") as file:
        return file_checksum(file) == entry["crc"]


def _sample(path: Path) -> int:
    """Compute a CRC-32 over the beginning, the end and parts in between."""
    size, total = path.stat().st_size, 0
    with path.open("rb") as file:
        for piece in range(_PIECES + 1):
            file.seek(max(0, size - _PIECE) * piece // _PIECES)
            total = zlib.crc32(file.read(_PIECE), total)
    return total


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
