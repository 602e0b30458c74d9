"""Measures of DocScope (arXiv 2605.08888) of a run: its citations against gold pages, boxes and facts.

The rules are those of `vrag.datasets.docscope`. Regions and facts are reported as shares of all gold boxes
and facts on pages that are both gold and cited, as published: ratios of sums over questions, of which records
have the counts (`RATIOS`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from vrag.cases import gold_pages
from vrag.datasets.docscope import BoxLabel, box_label, page_scores
from vrag.geometry import Box
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames
    from vrag.types import Case, GoldFact

BENCHMARK = "docscope"
PAGES: Mapping[str, str] = {
    "docscope/page_precision": "share of the cited pages that are gold; 1 without a cited page",
    "docscope/page_recall": "share of the gold pages that are cited",
    "docscope/page_f1": "harmonic mean of both, the mean over questions",
}
COUNTED: Mapping[str, str] = {
    "docscope/cited_pages": "pages that are cited",
    "docscope/gold_pages": "pages that are gold",
    "docscope/true_pages": "pages that are both",
    "docscope/boxes": "gold boxes on pages that are both gold and cited",
    "docscope/boxes_covered": "of these, those that cited boxes cover",
    "docscope/boxes_imprecise": "of these, those that cited boxes cover in part",
    "docscope/facts": "gold facts of pages that are both gold and cited, with a verdict",
    "docscope/facts_stated": "of these, those that the answer states with a citation of the page",
}
"""Counts of a question, and their definitions."""


class Ratio(NamedTuple):
    """A ratio of sums of counts over questions."""

    above: tuple[tuple[str, float], ...]
    """Counts above the line, each with its factor."""
    below: tuple[str, ...]
    definition: str


RATIOS: Mapping[str, Ratio] = {
    "docscope/page_f1_micro": Ratio(
        (("docscope/true_pages", 2.0),),
        ("docscope/cited_pages", "docscope/gold_pages"),
        "F1 of all cited pages together",
    ),
    "docscope/covered": Ratio(
        (("docscope/boxes_covered", 1.0),),
        ("docscope/boxes",),
        "share of the gold boxes on pages cited that cited boxes cover",
    ),
    "docscope/imprecise": Ratio(
        (("docscope/boxes_imprecise", 1.0),),
        ("docscope/boxes",),
        "share of the same that cited boxes cover in part",
    ),
    "docscope/facts_consistent": Ratio(
        (("docscope/facts_stated", 1.0),),
        ("docscope/facts",),
        "share of the gold facts of pages cited that the answer states",
    ),
}
"""Measures of all questions together."""


class PageFacts(NamedTuple):
    """The gold facts of a page, and what an answer says about the page."""

    page: int
    facts: tuple[GoldFact, ...]
    statements: tuple[str, ...]
    """The parts of the answer with a citation of the page."""


def cited_facts(case: Case, run: RunResult, names: DocumentNames) -> Iterator[PageFacts]:
    """Yield the gold facts of each page that is both gold and cited, in the order of the pages.

    As published, only what the answer says right before a citation of the page counts for its facts. An
    answer without citations in its text says all of it about all its evidence.
    """
    facts: defaultdict[int, list[GoldFact]] = defaultdict(list)
    for fact in case.facts:
        facts[fact.page].append(fact)
    cited = {page for _, page in _cited(case, run, names) & gold_pages(case)}
    for page in sorted(cited & facts.keys()):
        yield PageFacts(page, tuple(facts[page]), tuple(_statements(case, run, names, page)))


def _statements(case: Case, run: RunResult, names: DocumentNames, page: int) -> Iterator[str]:
    text = run.answer or ""
    if not any(citation.numbers for citation in run.citations):
        yield text
    for citation in run.citations:
        places = (run.evidence[number - 1] for number in citation.numbers if 0 < number <= len(run.evidence))
        if any(
            item.page == page and names.among({case.file_name}, item.document_id, item.document)
            for item in places
        ):
            yield text[citation.start : citation.end]


def _cited_evidence(run: RunResult) -> tuple[Evidence, ...]:
    return () if run.answer is None else run.rests


def _cited(case: Case, run: RunResult, names: DocumentNames) -> set[tuple[str, int]]:
    """Return the cited pages; those of the document of the question under the name that it has there."""
    wanted = {case.file_name}
    return {
        (names.among(wanted, item.document_id, item.document) or item.document_id, item.page)
        for item in _cited_evidence(run)
    }


def docscope(
    case: Case, run: RunResult, names: DocumentNames, facts: Sequence[bool] | None = None
) -> dict[str, float]:
    """Measure a run by the names of `PAGES` and `COUNTED`; nothing for cases of other data sets.

    `facts` are the verdicts on the facts of `cited_facts`, in order; None where none could be had.
    """
    if case.benchmark != BENCHMARK:
        return {}
    cited, gold = _cited(case, run, names), set(gold_pages(case))
    scores = page_scores(cited, gold)
    boxes: defaultdict[tuple[str, int], list[Box]] = defaultdict(list)
    for item in _cited_evidence(run):
        name = names.among({case.file_name}, item.document_id, item.document)
        if name is not None and item.kind is ItemKind.PAGE and item.box is not None:
            boxes[name, item.page].append(Box.unit(*item.box))
    labels = Counter(
        box_label(region.box, boxes[case.file_name, region.page])
        for region in case.regions
        if (case.file_name, region.page) in cited & gold
    )
    counts = {
        "docscope/cited_pages": len(cited),
        "docscope/gold_pages": len(gold),
        "docscope/true_pages": len(cited & gold),
        "docscope/boxes": labels.total(),
        "docscope/boxes_covered": labels[BoxLabel.COVERED],
        "docscope/boxes_imprecise": labels[BoxLabel.IMPRECISE],
    }
    if facts is not None:
        counts |= {"docscope/facts": len(facts), "docscope/facts_stated": sum(facts)}
    return {**dict(zip(PAGES, scores, strict=True)), **{name: float(n) for name, n in counts.items()}}
