"""Options of the conversion of files to items, and its interface to the converters of single formats."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from vrag.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.types import Item

SCHEMA = 2
"""Raised whenever the same bytes and settings come to give other items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusOptions:
    """Options of the conversion of files to items. The defaults are the tested setting."""

    dpi: float = 144.0
    """Resolution of rendered pages, in pixels per inch: two pixels per PDF point."""
    ocr: bool = True
    """True if pictures without usable text are read by OCR."""
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
    """Absolute path."""
    document: str
    """SHA-256 of its bytes in hexadecimal: the id of the document."""
    name: str
    """File name, for people: valid Unicode whatever the bytes on disk are."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time in nanoseconds when it was read."""


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


@dataclass(frozen=True, slots=True)
class ConversionContext:
    """Output directory and settings of a converter."""

    items_dir: Path
    options: CorpusOptions
    scratch: Path | None = None
    """Directory of this run for what workers leave for each other, named by the first 16 digits of the
    document; None where there is one process."""


def store_item_file(
    context: ConversionContext, source: SourceFile, ordinal: int, suffix: str, write: Callable[[Path], None]
) -> str:
    """Store the image or clip of an item: write it beside its final name, then rename it.

    A reader therefore never sees half a file. Returns the path relative to the items directory. Raises
    `CollectionError` if it cannot be written.
    """
    name = f"{source.document[:16]}/{ordinal}{suffix}"
    path = context.items_dir / name
    part = path.with_suffix(f".{os.getpid()}{suffix}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        part.replace(path)
    except OSError as error:
        raise CollectionError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Free some disk space or fix the permissions.",
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return name


class OpenFile(ABC):
    """A file that a converter has opened; a context manager that closes it."""

    count: int
    """Number of items in the file."""

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
    """A function or class at module level that opens files of one format. It travels to worker processes."""

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
