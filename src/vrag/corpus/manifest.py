"""Which files there are, and what their bytes are."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.base import Source
from vrag.corpus.convert import CONVERTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Skipped", "find", "read_source"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that no items are made of."""

    path: Path
    reason: str
    """Why, for people. Never empty."""


def find(paths: Sequence[Path]) -> Iterator[Path | Skipped]:
    """The files to convert under `paths`, each once, sorted within each of `paths`.

    Folders are searched at any depth. Left out in silence are hidden files and folders (names that
    begin with a dot) below a folder given; everything else that is left out is yielded as `Skipped`.

    Args:
        paths: Files and folders.

    Yields:
        Absolute paths of files with a known suffix, or what was skipped and why.
    """
    seen: set[str] = set()
    for path in paths:
        root = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links
        for found in _walk(root, root):
            key = os.fspath(found.path if isinstance(found, Skipped) else found)
            if key not in seen:
                seen.add(key)
                yield found


def _walk(path: Path, root: Path) -> Iterator[Path | Skipped]:
    try:
        if path != root and path.is_symlink():
            yield from _linked(path, root)
        elif path.is_dir():
            with os.scandir(path) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
            for name in names:
                yield from _walk(path / name, root)
        else:
            yield _judge(path)
    except OSError as error:
        yield Skipped(path, f"It cannot be read: {error.strerror or error}.")


def _linked(path: Path, root: Path) -> Iterator[Path | Skipped]:
    yield Skipped(path, "It is a symbolic link.")


def _judge(path: Path) -> Path | Skipped:
    if not stat.S_ISREG(path.stat().st_mode):
        return Skipped(path, "It is not a regular file.")
    if path.suffix.lower() not in CONVERTERS:
        return Skipped(path, f"Files of type {path.suffix or '(none)'} are not supported.")
    return path


def read_source(path: Path) -> Source:
    """Reads a file through once for its hash, in constant memory.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = os.fsencode(path.name).decode("utf-8", "replace")
    return Source(path, digest, name, status.st_size, status.st_mtime_ns)
