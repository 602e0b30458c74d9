"""The protocols of a data set: its files and documents (`Benchmark`), and its scorer of answers (`Rule`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vrag.types import Case

Images = Callable[[], Iterable[bytes | None]]
"""Reads the images of the pages of a document, from page 1; None for one that is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The place where the files of a data set are published."""

    repo: str
    """A data set of the Hugging Face hub, or an address outside of it."""
    files: tuple[str, ...] = ()
    """Patterns of the files that are read; none for all."""
    splits: tuple[str, ...] = ()
    """Splits that these files hold; none for all."""
    note: str = ""
    """Further steps in a sentence: agree to terms, unpack, fetch videos."""


@dataclass(frozen=True, slots=True)
class FileDocument:
    """A document that exists as a file: a PDF, an image, a video."""

    name: str
    """Its name in the cases."""
    path: Path


@dataclass(frozen=True, slots=True)
class PageDocument:
    """A document that was published as images of its pages."""

    name: str
    """Ends in `.pdf`: it becomes one, so that its pages have numbers."""
    pages: Images
    """JPEG or PNG of each page."""


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A document that is a text."""

    name: str
    """Ends in `.txt` or `.md`."""
    text: str


@dataclass(frozen=True, slots=True)
class StreamDocument:
    """A document that is read as bytes: from an archive, or made of the fields of the data set."""

    name: str
    """Its name in the cases; the ending says which kind of file it is."""
    pieces: Callable[[], Iterator[bytes]]
    """Reads its bytes, piece by piece. Raises `CaseError` where they are damaged."""


DocumentSource = FileDocument | PageDocument | TextDocument | StreamDocument


@dataclass(frozen=True, slots=True)
class OpenBenchmark:
    """A benchmark whose files were found. Cases are read before documents, each once."""

    cases: Iterable[Case]
    """Their uids are unique within the benchmark and begin with its name."""
    documents: Iterable[DocumentSource]
    """The documents that cases ask about, and the distractors of the benchmark."""
    notes: list[str] = field(default_factory=list[str])
    """Sentences about what was dropped or corrected; complete when both have been read."""
    title: str = ""
    """Title of these files; empty for the title of the benchmark."""


class Benchmark(ABC):
    """A published data set with its documents."""

    __slots__ = ()
    name: str
    """Name in commands."""
    title: str
    """Name that its authors use, with their paper."""
    about: str
    """Content in a few words, for a table."""
    licence: str
    """Licence of questions and documents; the stricter one where its authors name two."""
    hub: Hub
    """Place of its files."""
    measures: tuple[str, ...]
    """Names of the measures that its authors report, their main one first."""

    @abstractmethod
    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the files, and read them while cases and documents are taken.

        The folder holds the files as published or downloaded; documents may lie in zip archives. Without a
        split, it is the one on which results are reported.

        Raises `CaseError` if files are missing, with a hint that names them; or one is not as published.
        """


class Rule(Protocol):
    """A scorer that compares an answer with the right ones, without a model and without state.

    The rules are those of the published scripts, down to apparent oversights, so that numbers can be compared
    with those of papers; each module names its deviations. They expect a short answer, as their authors have
    one extracted by a model first. A judge decides whether an answer in a sentence is right.
    """

    def __call__(self, case: Case, answer: str | None) -> Mapping[str, float]:
        """Return the measures by name, each 0 to 1; the best over `case.references` for each of them.

        Args:
            case: The question.
            answer: The result of `vrag.reward.parts.answer_of`: the answer; "Not answerable" of a run that
                abstained; None of one that failed or never answered, which has 0 in every measure.
        """
        ...
