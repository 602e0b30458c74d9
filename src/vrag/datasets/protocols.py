"""The protocols of data sets, and what scorers share: words as SQuAD's script takes them, and ANLS.

`Benchmark` is a data set with its files and documents, `Rule` a scorer of answers.
"""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vrag.cases.annotations import UNANSWERABLE
from vrag.metrics import anls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vrag.types import Case

Images = Callable[[], Iterable[bytes | None]]
"""Reads the images of the pages of a document, from page 1; None for one that is missing."""
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
SMALL_NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBER_WORDS = (
    SMALL_NUMBERS
    | {word: 10 * tens for tens, word in enumerate(_TENS, start=2)}
    | {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
)
"""Words that scripts replace by numbers, each for itself: "twenty-one" is 20 and 1."""


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
        split, it is the one on which results are reported. Raises `CaseError` if files are missing, with a
        hint that names them; or one is not as published.
        """


class Rule(Protocol):
    """A scorer that compares an answer with the right ones, without a model and without state.

    The rules are those of the published scripts, down to apparent oversights, so that numbers can be compared
    with those of papers; each module names its deviations. They expect a short answer, as their authors have
    one extracted by a model first. A judge decides whether an answer in a sentence is right.
    """

    def __call__(self, case: Case, answer: str | None) -> Mapping[str, float]:
        """Return the measures by name, each 0 to 1; the best over `case.references` for each of them.

        The answer is the result of `vrag.reward.parts.answer_of`: "Not answerable" of a run that abstained,
        None of one that failed or never answered, which has 0 in every measure.
        """
        ...


def score_anls(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `anls`: the similarity to the nearest reference, 0 where half of the letters or more are wrong.

    ANLS (Biten et al. 2019, arXiv 1905.13648, eq. 1), of ST-VQA and DocVQA. At exactly one half papers
    differ. By the equation of ST-VQA, which is used here, it counts as 0, and so it does for
    MMLongBench-Doc; the text of DocVQA keeps it. An abstention is compared as "Not answerable".
    """
    if answer is None:
        return {"anls": 0.0}
    return {"anls": max(anls(answer, reference) for reference in case.references)}


def abstains(text: str) -> bool:
    """Return whether a text is "Not answerable" and nothing else."""
    return text.strip().rstrip(".").casefold() == UNANSWERABLE.casefold()


def without_punctuation(text: str) -> str:
    """Remove the punctuation of ASCII; that of other scripts and typographic quotes stay."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """Replace each "a", "an" and "the" in a lower-case text by a space."""
    return _ARTICLE.sub(" ", text)


def squad_words(text: str) -> list[str]:
    """Split a text into words in lower case, without the punctuation of ASCII and without articles.

    Rajpurkar et al. 2018 (arXiv 1806.03822), `evaluate-v2.0.py`. `vrag.metrics.normalised` removes all
    punctuation.

    >>> squad_words("The end-to-end “test”, an hour.")
    ['endtoend', '“test”', 'hour']
    """
    return without_articles(without_punctuation(text.lower())).split()


def shared_words(answer: Sequence[str], reference: Sequence[str]) -> int:
    """Count the words that both have; each as often as it occurs in both."""
    return (Counter(answer) & Counter(reference)).total()


def bag_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 over words, whatever their order; 0 where none is shared.

    >>> bag_f1(["red", "blue"], ["red"])
    0.666...
    """
    shared = shared_words(answer, reference)
    return 2 * shared / (len(answer) + len(reference)) if shared else 0.0
