"""What every converter takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.corpus.options import CorpusOptions
    from vrag.types import Item

__all__ = [
    "Conversion",
    "ConversionContext",
    "Converted",
    "Converter",
    "Failed",
    "Finished",
    "ItemCount",
    "OpenFile",
    "Slow",
    "SourceFile",
]


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
    """How many items its content has, those included that are had already or will fail."""


@dataclass(frozen=True, slots=True)
class Converted:
    """An item was made; its picture lies in the items directory."""

    source: SourceFile
    item: Item


@dataclass(frozen=True, slots=True)
class Failed:
    """An item, or a whole file, could not be made."""

    source: SourceFile
    ordinal: int | None
    """Number of the item from 1; None when it concerns the whole file."""
    reason: str
    """Why, for people. Never empty."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing more comes of this file. Exactly one per source, after all else of it."""

    source: SourceFile


Conversion = ItemCount | Converted | Failed | Finished


@dataclass(frozen=True, slots=True)
class ConversionContext:
    """Where a converter puts pictures, and by which settings it works."""

    items_dir: Path
    options: CorpusOptions
    scratch: Path | None = None
    """Directory of this run for what workers hand each other, named by the first 16 digits of the document;
    None where there are no others."""


class OpenFile(Protocol):
    """A file that a converter has opened; a context manager that closes it."""

    @property
    def count(self) -> int:
        """How many items the file has."""
        ...

    def item(self, ordinal: int) -> Item:
        """Makes one item and stores its picture. The same bytes and options give the same item.

        Args:
            ordinal: From 1 to `count`.

        Raises:
            CorpusError: If this item cannot be made; others may still be.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Converter(Protocol):
    """Opens files of one format. A module-level function, since it travels to worker processes."""

    def __call__(self, source: SourceFile, context: ConversionContext, /) -> OpenFile:
        """Opens a file.

        Raises:
            CorpusError: If nothing can be made of the file.
            OSError: If it cannot be read.
        """
        ...


@runtime_checkable
class Slow(Protocol):
    """A converter whose files may take longer to open than a page takes to make."""

    def opening_seconds(self, source: SourceFile, options: CorpusOptions) -> float:
        """Seconds that opening may take beyond `options.page_seconds`, of processor time."""
        ...
