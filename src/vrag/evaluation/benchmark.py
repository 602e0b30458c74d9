"""What a benchmark is: a published data set, from its files to cases and the documents they ask about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from vrag.types import Case

__all__ = [
    "Benchmark",
    "DocumentSource",
    "FileDocument",
    "Hub",
    "OpenBenchmark",
    "PageDocument",
    "StreamDocument",
    "TextDocument",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Where the files can be had."""

    repo: str
    """Of the Hugging Face hub, a data set; or an address, where it is on none."""
    files: tuple[str, ...] = ()
    """Patterns of the files that are read; none: all."""
    splits: tuple[str, ...] = ()
    """Splits whose files those are; none: all splits."""
    note: str = ""
    """What else has to be done: agree to terms, unpack, fetch videos; a sentence."""


@dataclass(frozen=True, slots=True)
class FileDocument:
    """A document that lies there as a file: a PDF, a picture, a video."""

    name: str
    """How cases call it."""
    path: Path


@dataclass(frozen=True, slots=True)
class PageDocument:
    """A document that was published as pictures of its pages."""

    name: str
    """Ends in `.pdf`: that is what it becomes, so that its pages have numbers."""
    pages: Callable[[], Iterator[bytes | None]]
    """JPEG or PNG of each page, from 1; None for one that is missing."""


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A document that is a text."""

    name: str
    """Ends in `.txt` or `.md`."""
    text: str


@dataclass(frozen=True, slots=True)
class StreamDocument:
    """A document that comes as its bytes: out of an archive, or made of what the data set has about it."""

    name: str
    """How cases call it; its ending says what it is."""
    pieces: Callable[[], Iterator[bytes]]
    """Takes its bytes, piece by piece. Raises `CaseError` where they are damaged."""


DocumentSource = FileDocument | PageDocument | TextDocument | StreamDocument


@dataclass(frozen=True, slots=True)
class OpenBenchmark:
    """A benchmark whose files were found. Cases are read before documents, each once."""

    cases: Iterable[Case]
    """Their uids are unique within the benchmark and begin with its name."""
    documents: Iterable[DocumentSource]
    """Those that cases ask about, and those that the benchmark has to distract from them."""
    notes: list[str] = field(default_factory=list[str])
    """What was dropped or mended, in sentences; whole when both have been read."""
    title: str = ""
    """How these files are called; empty for the title of the benchmark."""


class Benchmark(Protocol):
    """A published data set."""

    @property
    def name(self) -> str:
        """How commands call it."""
        ...

    @property
    def title(self) -> str:
        """How its authors call it, and where they describe it."""
        ...

    @property
    def about(self) -> str:
        """What it asks, in a few words: for a table."""
        ...

    @property
    def licence(self) -> str:
        """Of questions and documents; the stricter one where its authors say two things."""
        ...

    @property
    def hub(self) -> Hub:
        """Where its files are."""
        ...

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that its authors report, their main one first; see `vrag.evaluation`."""
        ...

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the files; reads them while cases and documents are taken.

        Args:
            folder: As they were published or downloaded; documents may lie in zip archives.
            split: One of several; None for the one that results are reported on.

        Raises:
            CaseError: If files are missing, with a hint that names them; or one is not as published.
        """
        ...
