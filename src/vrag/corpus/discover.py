"""Discovery of the files to convert, and of their content hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.converter import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CLOCK_NS = 2 * 10**9
"""The coarsest resolution of the clock of a file system."""

_COLLECTIONS = {
    "collection.db": ("writer.lock", "blobs", "backup.json"),
    "collection.json": ("items", "index"),
}
"""The file of a collection, or of a backup, and of a collection of vrag 0.2, and what is beside it."""
_ADVICE = {
    ".msg": "Save mail of Outlook as .eml.",
    **dict.fromkeys((".svg", ".xml", ".pages", ".numbers", ".key", ".xps", ".wpd"), "Save it as PDF."),
    **dict.fromkeys((".zip", ".7z", ".rar", ".gz", ".tar", ".tgz"), "Unpack it, and add what is in it."),
}
"""How to have files read whose suffix is not supported."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that was left out."""

    path: Path
    reason: str
    """The reason that the path was skipped, for people. Never empty."""


def find(paths: Sequence[Path]) -> Iterator[Path | Skipped]:
    """Find the files to convert under `paths`, each once, sorted within each of `paths`.

    Folders are searched at any depth. Hidden files and folders (names that begin with a dot) below a
    folder given are left out silently; whatever else is left out is yielded as `Skipped`. A symbolic
    link is followed to a file or folder within the folder given, never out of it; what is named in
    `paths` itself may be a link to anywhere. Paths are absolute.
    """
    seen: set[Path] = set()
    for path in paths:
        root = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links
        for found in _find_under(root):
            key = found.path if isinstance(found, Skipped) else found
            if key not in seen:
                seen.add(key)
                yield found


def _find_under(root: Path) -> Iterator[Path | Skipped]:
    """Search a path depth first; without recursion, since folders may be thousands deep."""
    try:
        real = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        yield Skipped(root, _reason(error))
        return
    stack = [root]
    while stack:
        path = stack.pop()
        try:
            problem = _link_problem(path, real) if path != root and path.is_symlink() else ""
            if problem:
                yield Skipped(path, problem)
            elif not path.is_dir():
                problem = _file_problem(path)
                yield Skipped(path, problem) if problem else path
            elif _is_collection(path):
                yield Skipped(path, "It is a collection of vrag.")
            else:
                with os.scandir(path) as entries:
                    names = [entry.name for entry in entries if not entry.name.startswith(".")]
                stack += [path / name for name in sorted(names, reverse=True)]
        except OSError as error:
            yield Skipped(path, _reason(error))


def _is_collection(folder: Path) -> bool:
    """Return whether images and texts in a folder are items, made of documents that lie elsewhere."""
    return any(
        (folder / name).is_file() and any((folder / beside).exists() for beside in others)
        for name, others in _COLLECTIONS.items()
    )


def _link_problem(path: Path, root: Path) -> str:
    """Return why a link is not followed; "" when it is.

    Links to folders are not followed at all: within the tree, their targets are found anyway.
    """
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "It is a symbolic link that leads nowhere."
    if not target.is_relative_to(root):
        return "It is a symbolic link out of the folder."
    return "It is a symbolic link to a folder that is searched anyway." if target.is_dir() else ""


def _file_problem(path: Path) -> str:
    """Return why a file cannot be converted; "" when it can."""
    from vrag.corpus.convert import CONVERTERS  # loads those of all formats: reading one file needs none

    suffix = path.suffix.lower()
    if not stat.S_ISREG(path.stat().st_mode):
        return "It is not a regular file."
    if suffix not in CONVERTERS:
        kind = f"Files of type {suffix}" if suffix else "Files without a suffix"
        return f"{kind} are not supported. {_ADVICE.get(suffix, '')}".rstrip()
    return ""


def _reason(error: OSError | RuntimeError) -> str:
    if isinstance(error, FileNotFoundError):
        return "It does not exist."
    return f"It cannot be read: {getattr(error, 'strerror', None) or error}."


def change_time_ns(status: os.stat_result) -> int:
    """Return when the content or status of a file changed last, in nanoseconds; 0 where that is not known.

    No program can set this time. Windows has the time of creation in its place.
    """
    return 0 if os.name == "nt" else status.st_ctime_ns


def read_source(path: Path) -> SourceFile:
    """Read a file once for its hash, in constant memory. Raises `OSError` if it cannot be read."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links
    # A file may have become a pipe since it was found: opening that would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status, now_ns = os.fstat(descriptor), time.time_ns()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = os.fsencode(path.name).decode("utf-8", "replace")
    ctime_ns = change_time_ns(status)
    return SourceFile(
        path,
        digest,
        name,
        status.st_size,
        status.st_mtime_ns,
        inode=status.st_ino,
        ctime_ns=ctime_ns if ctime_ns + _CLOCK_NS < now_ns else 0,
    )
