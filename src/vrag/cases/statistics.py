"""What data sets hold, and what two of them share."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from vrag.cases.case_format import UNANSWERABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.types import Case

__all__ = ["Overlap", "Statistics", "count_cases", "find_overlaps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counts over one data set."""

    cases: int
    documents: int
    answerable: int
    """Cases whose answer is not "Not answerable"."""
    with_regions: int
    """Cases with a gold box."""
    source_types: Mapping[str, int]
    """Cases by what they are answered from; a case with two counts in both, one with none under ""."""
    query_types: Mapping[str, int]
    pages: Mapping[int, int]
    """Cases by their number of gold pages."""
    answer_words: tuple[int, float, int]
    """Fewest, median and most words of an answer, of the answerable; 0 without any."""
    repeated: int
    """Cases whose question about the same document came before, however it is spelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What two data sets share: where both are not 0, one must not be trained on to measure the other."""

    one: str
    other: str
    documents: tuple[str, ...]
    """File names in both."""
    questions: int
    """Different questions in both, however they are spelled and whatever document they are about."""


def count_cases(cases: Sequence[Case]) -> Statistics:
    """Counts what a data set holds."""
    from statistics import median

    answers = [case.reference_answer for case in cases if not _unanswerable(case)]
    words = [len(answer.split()) for answer in answers] or [0]
    asked = {(case.file_name, spelled_alike(case.query)) for case in cases}
    return Statistics(
        cases=len(cases),
        documents=len({case.file_name for case in cases}),
        answerable=len(answers),
        with_regions=sum(bool(case.regions) for case in cases),
        source_types=_counted(kind for case in cases for kind in dict.fromkeys(case.source_type or ("",))),
        query_types=_counted(case.query_type for case in cases),
        pages=dict(sorted(Counter(len(case.reference_page) for case in cases).items())),
        answer_words=(min(words), float(median(words)), max(words)),
        repeated=len(cases) - len(asked),
    )


def find_overlaps(files: Mapping[str, Sequence[Case]]) -> list[Overlap]:
    """What each two of some data sets share; those that share nothing are in it as well."""
    found: list[Overlap] = []
    for (one, these), (other, those) in combinations(files.items(), 2):
        documents = {case.file_name for case in these} & {case.file_name for case in those}
        questions = {spelled_alike(case.query) for case in these} & {
            spelled_alike(case.query) for case in those
        }
        found.append(
            Overlap(one=one, other=other, documents=tuple(sorted(documents)), questions=len(questions))
        )
    return found


def spelled_alike(question: str) -> str:
    """A question without case, punctuation and runs of blanks.

    >>> spelled_alike("What is  it?") == spelled_alike("what is it")
    True
    """
    return " ".join(re.findall(r"\w+", question.casefold()))


def _unanswerable(case: Case) -> bool:
    return spelled_alike(case.reference_answer) == spelled_alike(UNANSWERABLE)


def _counted(labels: Iterable[str]) -> dict[str, int]:
    """How often each label comes, the most frequent first."""
    counts = Counter(labels)
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
