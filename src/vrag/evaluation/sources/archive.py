"""Zip archives that data sets are published in: documents are read out of them, and none is unpacked.

No path is ever made of what an archive says: a document is its bytes, in pieces, to be written wherever the
reader likes. What an archive could do to a disk or to memory is bounded, as nobody has looked into it.
"""

from __future__ import annotations

import io
import stat
import weakref
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

__all__ = ["Member", "members"]

PIECE = 2**20
"""Bytes that are read at once."""
LONGEST_LIST = 8 * 2**20
"""Bytes of the list of what an archive holds: some ten thousands of files."""
LARGEST = 16 * 2**30
"""Bytes of a document."""
GROWTH = 100
"""How many times its own size an archive may hold. PDFs and videos hardly shrink; bombs do."""
SMALL = 64 * 2**20
"""Bytes that any archive may hold."""
_ENCRYPTED, _UTF8 = 0x1, 0x800
"""Flags of a file in an archive."""
_AGAIN = "Download it again. If it is one of several parts, or a program still opens it: unpack it beside it."
_BY_HAND = "Unpack it by hand, beside it."
_FAULTS = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)
"""What reading a damaged archive may raise, beside errors of the disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A document in an archive."""

    archive: Path
    path: PurePosixPath
    """Within the archive; for people, and to be compared."""
    info: ZipInfo
    """What the archive says of it."""
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
        """Its bytes, in pieces of a bounded length.

        Raises:
            CaseError: If they are damaged, or not as many as the archive says.
        """
        held = 0
        with _blamed(self.archive, str(self.path)), self._zip.open(self.info) as file:
            while piece := file.read(PIECE):
                held += len(piece)
                yield piece
            if held != self.info.file_size:
                raise BadZipFile("it is shorter than the archive says")


class _Bounded(io.FileIO):
    """A file of which nobody reads a huge piece at once: the list of an archive is read as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LONGEST_LIST:
            raise BadZipFile("its list of files is too long")
        return super().read(size) or b""


def members(archive: Path, endings: Collection[str]) -> list[Member]:
    """The documents in an archive, in order; the same one is there once.

    What archives bring along from the system they were packed on is passed over: files that begin with a
    dot, `__MACOSX/`, links.

    Args:
        archive: A zip file. It stays open as long as one of its members is held.
        endings: Of names of documents, in lower case, as in ".pdf".

    Raises:
        CaseError: If it is damaged, encrypted, packed in a way that is not read here, holds far more than
            its size, leads out of its folder, or holds two documents under one name.
    """
    with _blamed(archive):
        zipped = _opened(archive)
    found: dict[PurePosixPath, Member] = {}
    for info in zipped.infolist():
        path = _path(info, archive)
        if _passed_over(info, path) or path.suffix.lower() not in endings:
            continue
        _check(info, path, archive)
        first = found.setdefault(path, Member(archive, path, info, zipped)).info
        if (first.CRC, first.file_size) != (info.CRC, info.file_size):
            raise CaseError(f"{archive} holds two documents called {path}.", _AGAIN)
    _check_size(sum(one.info.file_size for one in found.values()), archive)
    return list(found.values())


def _opened(archive: Path) -> ZipFile:
    handle = _Bounded(archive)
    try:
        zipped = ZipFile(handle)
    except BaseException:
        handle.close()
        raise
    weakref.finalize(zipped, handle.close)
    return zipped


@contextmanager
def _blamed(archive: Path, what: str = "") -> Generator[None]:
    """Makes one error of all that a damaged archive may raise.

    Raises:
        CaseError: With its name.
    """
    place = f"{what:.120} in {archive}" if what else str(archive)
    try:
        yield
    except OSError as error:
        raise CaseError(f"{place} cannot be read: {error.strerror or error}.", _AGAIN) from error
    except _FAULTS as error:
        told = str(error).rstrip(".")
        raise CaseError(f"{place} is no whole archive: {told:.120}.", _AGAIN) from error


def _path(info: ZipInfo, archive: Path) -> PurePosixPath:
    """Where a file lies in an archive.

    Raises:
        CaseError: If that is outside of it.
    """
    name = _spelled(info).replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or name[1:2] == ":":
        raise CaseError(
            f"{archive} has a file that leads out of it: {name!r:.120}.",
            "It was tampered with: take it as it was published.",
        )
    return path


def _spelled(info: ZipInfo) -> str:
    """The name of a file. Some programs write UTF-8 and do not say so; without a flag it is code page 437."""
    name = info.orig_filename
    if not info.flag_bits & _UTF8:
        try:
            return name.encode("cp437").decode("utf-8")
        except ValueError:
            return name
    return name


def _passed_over(info: ZipInfo, path: PurePosixPath) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    return info.is_dir() or hidden or stat.S_ISLNK(info.external_attr >> 16)


def _check(info: ZipInfo, path: PurePosixPath, archive: Path) -> None:
    """Refuses a document that cannot be read, before any is.

    Raises:
        CaseError: If it is encrypted, packed in an unusual way, or huge.
    """
    if info.flag_bits & _ENCRYPTED:
        raise CaseError(f"{path!s:.120} in {archive} is encrypted.", _BY_HAND)
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others may take memory as they like
        raise CaseError(f"{path!s:.120} in {archive} is packed in a way that is not read here.", _BY_HAND)
    if info.file_size > LARGEST:
        raise CaseError(f"{path!s:.120} in {archive} is too large: {info.file_size:,} bytes.", _BY_HAND)


def _check_size(held: int, archive: Path) -> None:
    """Refuses a bomb.

    Raises:
        CaseError: If it is one.
    """
    if held > max(SMALL, GROWTH * archive.stat().st_size):
        raise CaseError(
            f"{archive} would grow to {held:,} bytes, more than {GROWTH} times its size.",
            "It may be made to fill disks. If you trust it, unpack it by hand, beside it.",
        )
