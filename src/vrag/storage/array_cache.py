"""Caches of arrays in directories, mapped into memory; they can be rebuilt at any time.

A cache directory appears whole or not at all. Its content is checked before it is used: the length of every
file, its checksum, and in a large file the checksums of parts of it. A cache that cannot be written in one
place is written in another, so that a read-only collection, or a full disk, does not end a search.
"""

from __future__ import annotations

import json
import math
import mmap
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

from vrag.atomic_io import replace_file, sync, write_file
from vrag.errors import CollectionError
from vrag.parsing import parse_json
from vrag.scratch import is_scratch, remove_abandoned, scratch_directory
from vrag.storage.sealed_json import is_sealed, seal_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    from numpy.typing import NDArray

_FORMAT = 2
"""Version of the format; a cache of another version is rebuilt."""
_INDEX = "cache.json"
_FORMER_SCRATCH = "-new-"
"""In the names of unfinished directories that killed processes of earlier versions left."""
_PIECE_BYTES = 4096
_BLOCK_BYTES = 1 << 20
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
            return make(home, directory, build)
        except OSError as error:
            failures.append(error)
    raise CollectionError(
        f"There is no disk space for search structures: {'; '.join(map(str, failures))}.",
        "Free some space on the disk of the collection, or in the folder for temporary files (TMPDIR).",
    ) from failures[0]


def find(directory: Path, *, whole: bool = False) -> StoredArrays | None:
    """Open a cache directory; None when it is missing, damaged, or of another format.

    With `whole`, every byte is checked: of 40 MB in some 20 ms.
    """
    try:
        data = (directory / _INDEX).read_bytes()
        content: Any = parse_json(data)
        if content["format"] != _FORMAT or not is_sealed(data):
            return None
        entries = content["arrays"].items()
        arrays = {name: _map(directory / name, entry, whole=whole) for name, entry in entries}
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
        if not is_sealed(data):
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
                if _file_checksum(file) != entry["crc"]:
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


def is_unfinished_cache(name: str) -> bool:
    """Return whether a directory of this name is not written in full, and will not be used."""
    return is_scratch(name) or _FORMER_SCRATCH in name


def sweep(home: Path, kind: str, keep: str | tuple[str, ...]) -> None:
    """Delete caches of other contents once they are old or many, and what killed builds left.

    Of the caches in `home` whose names begin with `kind`, those whose names begin with `keep`, or with one of
    these, stay.
    """
    remove_abandoned(home)
    with suppress(OSError):
        paths = home.glob(f"{kind}*")
        others = [path for path in paths if not path.name.startswith(keep) or is_unfinished_cache(path.name)]
        for number, path in enumerate(sorted(others, key=_age)):
            if number >= _MAX_OTHERS or _age(path) > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def make(home: Path, directory: Path, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
    """Build a cache in `home`; if that is the parent of `directory`, it is kept there for others to find.

    Returns None if `build` does. Raises `OSError` if it cannot be written there.
    """
    is_kept = home == directory.parent
    if is_kept:
        home.mkdir(parents=True, exist_ok=True)
    with scratch_directory(home, hidden=True) as scratch:
        written = scratch / "cache"
        written.mkdir()
        content = build(written)
        if content is None:
            return None
        _write_index(written, content)
        if find(written) is None:  # nothing stays mapped: Windows would not rename the folder
            raise OSError(f"{written} was changed while it was written")
        if is_kept:
            _keep(written, directory)
        # Mapped files stay readable when their names are gone; what Windows keeps, a later process removes.
        return (find(directory) if is_kept else None) or find(written)


def _write_index(directory: Path, content: ArrayContent) -> None:
    """Put the arrays of a cache on the disk, and write what they are and their checksums."""
    arrays: dict[str, Any] = {}
    for name, (number, shape) in content.arrays.items():
        path = directory / name
        sync(path)
        with path.open("rb") as file:
            whole = _file_checksum(file)
        kind = np.dtype(number).name
        arrays[name] = {"number": kind, "shape": list(shape), "sum": _sample(path), "crc": whole}
    index = {"format": _FORMAT, "arrays": arrays, "facts": dict(content.facts)}
    write_file(directory / _INDEX, seal_json(index))


def _keep(written: Path, directory: Path) -> None:
    """Give a cache its name, unless another process has just made a valid one."""
    written.chmod(directory.parent.stat().st_mode)
    if find(directory) is None:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # another process may rename its own at this moment
            replace_file(written, directory)


def _map(path: Path, entry: Mapping[str, Any], *, whole: bool) -> NDArray[Any]:
    number, shape = np.dtype(entry["number"]), tuple(int(side) for side in entry["shape"])
    size = math.prod(shape) * number.itemsize
    if path.stat().st_size != size or not _is_sound(path, size, entry, whole=whole):
        raise ValueError(f"{path} is damaged.")
    if not size:  # nothing can be mapped
        return np.zeros(shape, number)
    return np.asarray(np.memmap(path, number, "r", shape=shape))


def _is_sound(path: Path, size: int, entry: Mapping[str, Any], *, whole: bool) -> bool:
    if size > _MAX_CHECKED_BYTES and not whole:
        return _sample(path) == entry["sum"]
    with path.open("rb") as file:
        return _file_checksum(file) == entry["crc"]


def _sample(path: Path) -> int:
    """Compute a CRC-32 over the beginning, the end and parts in between."""
    size, total = path.stat().st_size, 0
    with path.open("rb") as file:
        for piece in range(_PIECES + 1):
            file.seek(max(0, size - _PIECE_BYTES) * piece // _PIECES)
            total = zlib.crc32(file.read(_PIECE_BYTES), total)
    return total


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _file_checksum(file: BinaryIO) -> int:
    """Compute the CRC-32 of an open file from its position to its end."""
    total = 0
    while block := file.read(_BLOCK_BYTES):
        total = zlib.crc32(block, total)
    return total
