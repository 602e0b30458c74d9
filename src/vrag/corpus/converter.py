"""Options of the conversion of files to items, and its interface to the converters of single formats."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Literal, Protocol, Self, cast, runtime_checkable

from vrag.atomic_io import replace_file
from vrag.corpus.neighbours import open_neighbour
from vrag.errors import CollectionError
from vrag.types import OcrMode, parse_ocr_mode

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.corpus.sniff import Openable
    from vrag.types import Item

_COPIED_BYTES = 2**20
SCHEMA = 3
"""Raised whenever the same bytes and settings come to give other items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusOptions:
    """Options of the conversion of files to items. The defaults are the tested setting."""

    dpi: float = 144.0
    """Resolution of rendered pages, in pixels per inch: two pixels per PDF point."""
    ocr: OcrMode = "auto"
    """What OCR reads."""
    max_pixels: int = 50_000_000
    """Pixels of one picture beyond which a file is refused. Vector pages are rendered smaller instead."""
    page_seconds: float = 60.0
    """Time limit for opening a file, and for each of its items, in seconds of processor time (on Windows: of
    wall time). What is blocked is given up after ten times as long."""
    workers: int = 0
    """Number of processes; 0 for the number of cores that this process may use."""
    max_pages: int = 20_000
    """Items of one file beyond which it is refused."""
    passage_chars: int = 1200
    """Length in characters that a passage of a text file aims at; twice that is the most."""
    clip_seconds: float = 60.0
    """Length that the clips of a video aim at, in seconds: each begins at a key frame."""
    office_seconds: float = 180.0
    """Time limit for the conversion of an office document by LibreOffice, as `page_seconds` counts."""

    def __post_init__(self) -> None:
        """Check what OCR reads. Raises `ValueError` if it is none of the modes."""
        object.__setattr__(self, "ocr", parse_ocr_mode(self.ocr))

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits over those settings on which the content of an item depends."""
        content = [SCHEMA, float(self.dpi), self.ocr, self.max_pixels, self.passage_chars]
        content.append(float(self.clip_seconds))
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def processes(self) -> int:
        """The number of worker processes, at least 1."""
        return self.workers or usable_cores()


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    if sys.platform == "linux":  # fewer than the machine's under taskset or in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file whose bytes are known."""

    path: Path
    """Absolute path. Worker processes cannot open it: they read the file by `open`."""
    document: str
    """SHA-256 of its bytes in hexadecimal: the id of the document."""
    name: str
    """File name, for people: valid Unicode whatever the bytes on disk are."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time in nanoseconds when it was read."""
    inode: int = field(default=0, compare=False)
    """Number of the file on its disk when it was read; 0 where it is not known."""
    ctime_ns: int = field(default=0, compare=False)
    """Time of its last change when it was read, in nanoseconds, which no program can set; 0 where it is not
    known, or so recent that the file may change again without changing it."""

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open the file at its start. Raises `OSError` if it cannot be read."""
        return self.path.open(mode)

    def open_neighbour(self, name: str) -> BinaryIO:
        """Open a picture in the folder of the file or below; see `vrag.corpus.neighbours.open_neighbour`."""
        return open_neighbour(self.path.parent, name)


@dataclass(frozen=True, slots=True)
class ItemCount:
    """A file was opened. Comes first, and not at all for a file that cannot be opened."""

    source: SourceFile
    items: int
    """Number of items, including those that exist already and those that will fail."""


@dataclass(frozen=True, slots=True)
class Converted:
    """An item was made; its image lies in the items directory."""

    source: SourceFile
    item: Item


@dataclass(frozen=True, slots=True)
class Failed:
    """An item, or a whole file, could not be made."""

    source: SourceFile
    ordinal: int | None
    """Number of the item from 1; None when it concerns the whole file."""
    reason: str
    """The reason of the failure, for people. Never empty."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing more comes of this file. Exactly one per source, after all else of it."""

    source: SourceFile


Conversion = ItemCount | Converted | Failed | Finished


@dataclass(frozen=True)
class ConversionContext:
    """Options of a converter, and what it does with files besides reading its source.

    Worker processes have a subclass, which has the parent process do it.
    """

    items_dir: Path
    options: CorpusOptions

    def store_picture(self, source: SourceFile, ordinal: int, suffix: str, data: bytes) -> str:
        """Store the picture of an item, a file of format JPEG or PNG.

        Returns the path relative to the items directory. Raises `CollectionError` if it cannot be written.
        """
        return store_item_file(self.items_dir, source.document, ordinal, suffix, data)

    def store_clip(self, source: SourceFile, ordinal: int, suffix: str, clip: ClipFile) -> str:
        """Store the clip of an item; returns and raises the same."""
        return store_item_file(self.items_dir, source.document, ordinal, suffix, clip.file)

    def open_clip(self) -> ClipFile:
        """Open a file for a clip. Raises `CollectionError` if it cannot be made."""
        return ClipFile(open_unnamed(self.items_dir))

    def print_source(self, source: SourceFile) -> PrintedDocument | None:
        """Have another process print a document to PDF by LibreOffice.

        None where this process may do that itself. Raises as `vrag.corpus.formats.office.print_document`.
        """
        del source
        return None

    def notes(self, source: SourceFile) -> bytes:
        """Return what another process found out when it opened the file (`OpenFile.notes`), or nothing."""
        del source
        return b""


@dataclass(frozen=True, slots=True)
class PrintedDocument:
    """The files that LibreOffice made of a document."""

    pdf: Openable
    contents: Openable
    """The document as an OpenDocument file; empty where it could not be stored as one."""


class ClipFile:
    """A file for a clip, which is written and then read. It has no name and goes when it is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it at its start. One reader at a time."""
        self.file.seek(0)
        return os.fdopen(os.dup(self.file.fileno()), mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def open_unnamed(folder: Path) -> BinaryIO:
    """Open an empty file without a name, to be written and read. Raises `CollectionError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return cast("BinaryIO", TemporaryFile(dir=folder))
    except OSError as error:
        raise _unwritable(folder, error) from error


def store_item_file(
    items_dir: Path, document: str, ordinal: int, suffix: str, content: bytes | BinaryIO
) -> str:
    """Store the picture or clip of an item: write it beside its final name, then rename it.

    A reader therefore never sees half a file. Returns the path relative to the items directory. Raises
    `CollectionError` if it cannot be written.
    """
    name = f"{document[:16]}/{ordinal}{suffix}"
    path = items_dir / name
    part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}{suffix}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content.seek(0)
                shutil.copyfileobj(content, file, _COPIED_BYTES)
        replace_file(part, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return name


def _unwritable(path: Path, error: OSError) -> CollectionError:
    return CollectionError(
        f"{path} cannot be written: {error.strerror or error}.",
        "Free some disk space or fix the permissions.",
    )


class OpenFile(ABC):
    """A file that a converter has opened; a context manager that closes it."""

    count: int
    """Number of items in the file."""
    notes: bytes = b""
    """Facts that were found out on opening it, for other processes that open the same file."""
    reads_neighbours: ClassVar[bool] = False
    """True if it reads pictures in the folder of the file: `SourceFile.open_neighbour`."""
    is_printed: ClassVar[bool] = False
    """True if it reads what LibreOffice prints of the file: `ConversionContext.print_source`."""

    @abstractmethod
    def item(self, ordinal: int) -> Item:
        """Make item number `ordinal`, from 1 to `count`, and store its image.

        The same bytes and options give the same item. Raises `CorpusError` if this item cannot be made;
        others may still be.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Converter(Protocol):
    """A function or class at module level that opens files of one format. It travels to worker processes.

    These import its module before they restrict themselves; later, they read Python's own folders and those
    of installed packages, and no others.
    """

    def __call__(self, source: SourceFile, context: ConversionContext, /) -> OpenFile:
        """Open a file.

        Raises `CorpusError` if nothing can be made of the file and `OSError` if it cannot be read.
        """
        ...


@runtime_checkable
class Slow(Protocol):
    """A converter whose files may take longer to open than a page takes to make."""

    def opening_seconds(self, source: SourceFile, options: CorpusOptions) -> float:
        """Return the processor seconds that opening may take beyond `options.page_seconds`."""
        ...
