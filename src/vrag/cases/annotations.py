"""Annotations of cases: the gold that holds an answer, counts over a data set, and the overlap of two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from vrag.types import Case, Hit, ItemKind

UNANSWERABLE = "Not answerable"
"""The answer to a question that the documents do not answer, as MMLongBench-Doc writes it."""


def gold_pages(case: Case) -> frozenset[tuple[str, int]]:
    """Return the gold pages, each as the file name of its document and its number from 1."""
    return frozenset(graded_pages(case))


def graded_pages(case: Case) -> Mapping[tuple[str, int], int]:
    """Return the gold pages with their relevance; 1 where the data set has no grades."""
    if not case.gold:
        return dict.fromkeys(((case.file_name, page) for page in case.reference_page), 1)
    return {(gold.document, gold.page): gold.relevance for gold in case.gold if gold.page is not None}


def gold_documents(case: Case) -> frozenset[str]:
    """Return file names of documents of which every item is gold, as their pages are not annotated."""
    return frozenset(gold.document for gold in case.gold if gold.page is None)


def is_gold(hit: Hit, case: Case) -> bool:
    """Return whether a hit is an annotated page, or an item of a document that is annotated as a whole."""
    if hit.document_name in gold_documents(case):
        return True
    return hit.kind is ItemKind.PAGE and (hit.document_name, hit.ordinal) in gold_pages(case)


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
    """Cases by the kind of their evidence; a case with two kinds counts in both, one with none under ""."""
    query_types: Mapping[str, int]
    pages: Mapping[int, int]
    """Cases by their number of gold pages."""
    answer_words: tuple[int, float, int]
    """Fewest, median and most words of an answer, of the answerable; 0 without any."""
    repeated: int
    """Cases whose question about the same document came before, compared by `normalise_question`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The overlap of two data sets: train on one and measure on the other only if it is empty."""

    one: str
    other: str
    documents: tuple[str, ...]
    """File names in both."""
    questions: int
    """Distinct questions in both, whatever document they are about."""


def count_cases(cases: Sequence[Case]) -> Statistics:
    """Count the content of a data set."""
    from statistics import median

    unanswerable = normalise_question(UNANSWERABLE)
    answers = [case.reference_answer for case in cases]
    words = [len(answer.split()) for answer in answers if normalise_question(answer) != unanswerable]
    lengths = words or [0]
    questions = {(case.file_name, normalise_question(case.query)) for case in cases}
    return Statistics(
        cases=len(cases),
        documents=len({case.file_name for case in cases}),
        answerable=len(words),
        with_regions=sum(bool(case.regions) for case in cases),
        source_types=_count(kind for case in cases for kind in dict.fromkeys(case.source_type or ("",))),
        query_types=_count(case.query_type for case in cases),
        pages=dict(sorted(Counter(len(case.reference_page) for case in cases).items())),
        answer_words=(min(lengths), float(median(lengths)), max(lengths)),
        repeated=len(cases) - len(questions),
    )


def find_overlaps(files: Mapping[str, Sequence[Case]]) -> list[Overlap]:
    """Return the overlap of each two data sets, also where it is empty."""
    contents = {
        name: ({case.file_name for case in cases}, {normalise_question(case.query) for case in cases})
        for name, cases in files.items()
    }
    overlaps: list[Overlap] = []
    for one, other in combinations(contents, 2):
        documents = contents[one][0] & contents[other][0]
        questions = contents[one][1] & contents[other][1]
        overlaps.append(
            Overlap(one=one, other=other, documents=tuple(sorted(documents)), questions=len(questions))
        )
    return overlaps


def normalise_question(question: str) -> str:
    """Remove case, punctuation and repeated spaces.

    >>> normalise_question("What is  it?") == normalise_question("what is it")
    True
    """
    return " ".join(re.findall(r"\w+", question.casefold()))


def _count(labels: Iterable[str]) -> dict[str, int]:
    """Count each label, the most frequent first."""
    counts = Counter(labels)
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
