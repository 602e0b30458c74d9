"""Zip archives that data sets are published in: documents are read out of them, and none is unpacked.

No path is ever made of what an archive says: a document is its bytes, in pieces, to be written wherever the
reader likes. What an archive could do to a disk or to memory is bounded, as nobody has looked into it.
"""

from __future__ import annotations

import io
import stat
import weakref
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

PIECE_BYTES = 2**20
"""Size of one read."""
MAX_DIRECTORY_BYTES = 8 * 2**20
"""Size of the directory of an archive: some ten thousands of files."""
MAX_DOCUMENT_BYTES = 16 * 2**30
MAX_GROWTH = 100
"""Ratio of the unpacked size to the size of an archive. PDFs and videos hardly shrink; bombs do."""
SMALL_BYTES = 64 * 2**20
"""Unpacked size that any archive may have."""
_ENCRYPTED, _UTF8 = 0x1, 0x800
"""Flags of a file in an archive."""
_AGAIN = "Download it again. If it is one of several parts, or a program still opens it: unpack it beside it."
_BY_HAND = "Unpack it by hand, beside it."
_FAULTS = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)
"""Errors of reading a damaged archive, beside those of the disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A document in an archive."""

    archive: Path
    path: PurePosixPath
    """Path within the archive, for messages and comparisons."""
    info: ZipInfo
    """Its entry in the directory of the archive."""
    _zip: ZipFile

    @property
    def name(self) -> str:
        """Its file name."""
        return self.path.name

    @property
    def parent(self) -> PurePosixPath:
        """The folder that it would be unpacked into."""
        return PurePosixPath(self.archive.as_posix()) / self.path.parent

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes, in pieces of a bounded length.

        Raises `CaseError` if they are damaged, or not as many as the archive says.
        """
        size = 0
        with _blamed(self.archive, str(self.path)), self._zip.open(self.info) as file:
            while piece := file.read(PIECE_BYTES):
                size += len(piece)
                yield piece
            if size != self.info.file_size:
                raise BadZipFile("it is shorter than the archive says")


class _Bounded(io.FileIO):
    """A file that refuses huge reads: the directory of an archive is read as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise BadZipFile("its directory is too long")
        return super().read(size) or b""


def members(archive: Path, endings: Collection[str]) -> list[Member]:
    """List the documents in an archive, in order; the same one is there once.

    Files of the system that packed it are passed over: names that begin with a dot, `__MACOSX/`, links.
    The archive stays open as long as one of its members is held. Endings are in lower case, as in ".pdf".
    Raises `CaseError` if it is damaged, encrypted, packed in a way that is not read here, holds far more than
    its size, leads out of its folder, or holds two documents under one name.
    """
    with _blamed(archive):
        handle = _Bounded(archive)
        try:
            zipped = ZipFile(handle)
        except BaseException:
            handle.close()
            raise
        weakref.finalize(zipped, handle.close)
    found: dict[PurePosixPath, Member] = {}
    for info in zipped.infolist():
        path = _path(info, archive)
        hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
        if info.is_dir() or hidden or stat.S_ISLNK(info.external_attr >> 16):
            continue
        if path.suffix.lower() not in endings:
            continue
        _check(info, path, archive)
        first = found.setdefault(path, Member(archive, path, info, zipped)).info
        if (first.CRC, first.file_size) != (info.CRC, info.file_size):
            raise CaseError(f"{archive} holds two documents called {path}.", _AGAIN)
    unpacked = sum(member.info.file_size for member in found.values())
    if unpacked > max(SMALL_BYTES, MAX_GROWTH * archive.stat().st_size):
        raise CaseError(
            f"{archive} would grow to {unpacked:,} bytes, more than {MAX_GROWTH} times its size.",
            "It may be made to fill disks. If you trust it, unpack it by hand, beside it.",
        )
    return list(found.values())


@contextmanager
def _blamed(archive: Path, member: str = "") -> Generator[None]:
    """Convert all errors of a damaged archive to a `CaseError` with its name."""
    place = f"{member:.120} in {archive}" if member else str(archive)
    try:
        yield
    except OSError as error:
        raise CaseError(f"{place} cannot be read: {error.strerror or error}.", _AGAIN) from error
    except _FAULTS as error:
        reason = str(error).rstrip(".")
        raise CaseError(f"{place} is not a complete archive: {reason:.120}.", _AGAIN) from error


def _path(info: ZipInfo, archive: Path) -> PurePosixPath:
    """Return the path of a file in an archive; an error if it leads out of it.

    Some programs write UTF-8 without its flag; else a name is code page 437.
    """
    name = info.orig_filename
    if not info.flag_bits & _UTF8:
        with suppress(ValueError):
            name = name.encode("cp437").decode("utf-8")
    name = name.replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or name[1:2] == ":":
        raise CaseError(
            f"{archive} has a file that leads out of it: {name!r:.120}.",
            "It was tampered with: take it as it was published.",
        )
    return path


def _check(info: ZipInfo, path: PurePosixPath, archive: Path) -> None:
    """Refuse a document that is encrypted, packed in an unusual way, or huge, before any is read."""
    if info.flag_bits & _ENCRYPTED:
        raise CaseError(f"{path!s:.120} in {archive} is encrypted.", _BY_HAND)
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others may take memory as they like
        raise CaseError(f"{path!s:.120} in {archive} is packed in a way that is not read here.", _BY_HAND)
    if info.file_size > MAX_DOCUMENT_BYTES:
        raise CaseError(f"{path!s:.120} in {archive} is too large: {info.file_size:,} bytes.", _BY_HAND)
