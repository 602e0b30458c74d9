"""How measures, groups and outcomes are called in a report, and how their values are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.measures.citations import CITING
from vrag.evaluation.measures.cost import CONDUCT, COUNTS
from vrag.evaluation.measures.grounding import GROUNDING
from vrag.evaluation.measures.page_recall import LOOKING
from vrag.evaluation.record import CaseOutcome
from vrag.render.text_format import amount, money, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.evaluation.statistics.estimates import ReportEstimate

__all__ = [
    "CELLS",
    "FAMILIES",
    "FILTERS",
    "FURTHER",
    "MOODS",
    "OF_ANSWERS",
    "described",
    "families",
    "grouping_name",
    "interval_text",
    "is_share",
    "label_of",
    "more_name",
    "more_text",
    "note_of",
    "p_text",
    "signed_text",
    "value_text",
]

MOODS = {
    CaseOutcome.RIGHT: "good",
    CaseOutcome.WRONG: "bad",
    CaseOutcome.ABSTAINED: "calm",
    CaseOutcome.UNJUDGED: "fair",
    CaseOutcome.FAILED: "lost",
}
"""How good an outcome is: a class of the style sheet."""
CELLS = {"both": "Both right", "a": "Only A right", "b": "Only B right", "neither": "Neither right"}
"""What two runs made of a question; those that one of them has no verdict on are in none."""
OF_ANSWERS = (
    *("accuracy", "em", "f1", "anls", "mmlongbench", "mmlongbench/f1"),
    *("hotpotqa/f1", "hotpotqa/precision", "hotpotqa/recall", "slidevqa/em", "slidevqa/f1"),
    *("m3docvqa/em", "m3docvqa/f1", "lvbench", "lvbench/official", "webqa/acc"),
)
"""Measures of answers, in the order in which they are told."""
FAMILIES = {
    "Answers": OF_ANSWERS,
    "Search: pages": ("ndcg@5", "ndcg@10", "recall@1", "recall@3", "recall@5", "recall@10", "mrr"),
    "Search: documents": ("document_recall@10",),
    "Search: regions": (
        *("region_recall@1", "region_recall@5", "region_recall@10"),
        *("region_precision@1", "region_precision@5", "region_precision@10"),
    ),
    "What the agent looked at": ("seen_recall", "seen_ndcg"),
    "What the answer cites": (
        *("cited_em", "cited_f1", "cited_precision", "cited_recall"),
        *("hotpotqa/joint_paragraph_em", "hotpotqa/joint_paragraph_f1"),
    ),
    "Grounding": ("evidence_page", "centre", "iou", "box_area"),
    "Abstention": ("abstention_recall", "abstention_precision", "false_abstention"),
    "Conduct": ("answered", "abstained", "invalid", "repaired"),
    "Cost of a question": (
        *("turns", "searches", "crops", "prompt_tokens", "completion_tokens", "visual_tokens", "pixels"),
        *("seconds", "model_seconds", "cost"),
    ),
}
"""Measures that are told together; those of no family are told with the answers."""
FURTHER = frozenset({"Search: documents", "Search: regions", "Conduct"})
"""Families that the headline leaves to the tables."""
_NOTES = {
    "Search: pages": "What a search for the question, word for word, finds of the gold pages.",
    "Search: documents": "What the same search finds of the gold documents.",
    "Search: regions": "Recall: how much of the gold boxes the regions cover that it offers; precision: how "
    "much of these regions is gold. A page offered whole has all recall: read the two together.",
    "What the agent looked at": "Gold pages among those that the model was shown.",
    "Grounding": "Of answers with an evidence box, to questions with a gold box. What covers much of the "
    "page covers centres by chance: read them together.",
    "Abstention": "Recall is of questions that cannot be answered, precision of answers that were declined.",
}
FILTERS = frozenset({"benchmark", "source_type", "query_type", "document_type"})
"""Properties that the list of cases can be narrowed by."""
_TOLD = {
    **CITING,
    **CONDUCT,
    **GROUNDING,
    **LOOKING,
    "abstention_recall": "of questions that cannot be answered, the share that was declined",
    "abstention_precision": "of those declined, the share that cannot be answered",
    "false_abstention": "of questions with an answer, the share that was declined all the same",
}
_LABELS = {
    "p50": "Half take at most",
    "p90": "90 % take at most",
    "p95": "95 % take at most",
    "p99": "99 % take at most",
    "em": "Exact match",
    "f1": "Token F1",
    "anls": "ANLS",
    "mmlongbench": "MMLongBench-Doc",
    "mmlongbench/f1": "MMLongBench-Doc F1",
    "mrr": "MRR",
    "seen_recall": "Gold pages shown",
    "seen_ndcg": "nDCG of what was shown",
    "evidence_page": "First evidence on a gold page",
    "centre": "Box covers a gold centre",
    "iou": "Overlap with gold (IoU)",
    "box_area": "Share of the page covered",
    "abstention_precision": "Abstention precision",
    "abstention_recall": "Abstention recall",
    "false_abstention": "Abstained though answerable",
    "answered": "Came to its end",
    "invalid": "Invalid actions",
    "repaired": "Repaired replies",
    "hotpotqa/f1": "HotpotQA F1",
    "hotpotqa/precision": "HotpotQA precision",
    "hotpotqa/recall": "HotpotQA recall",
    "hotpotqa/joint_paragraph_em": "HotpotQA joint exact match (paragraphs)",
    "hotpotqa/joint_paragraph_f1": "HotpotQA joint F1 (paragraphs)",
    "m3docvqa/em": "M3DocVQA list exact match",
    "m3docvqa/f1": "M3DocVQA list F1",
    "cited_em": "Cited exactly the gold documents",
    "cited_f1": "Cited documents, F1",
    "slidevqa/em": "SlideVQA exact match",
    "slidevqa/f1": "SlideVQA F1",
    "lvbench": "LVBench",
    "lvbench/official": "LVBench, as its script reads letters",
    "webqa/acc": "WebQA accuracy (approximation)",
}


def label_of(name: str) -> str:
    """What a measure is called.

    >>> label_of("ndcg@5"), label_of("prompt_tokens"), label_of("document_recall@10")
    ('nDCG@5', 'Prompt tokens', 'Document recall@10')
    """
    if name.startswith("ndcg@"):
        return f"nDCG{name[4:]}"
    words = name.replace("_", " ")
    return _LABELS.get(name, words[:1].upper() + words[1:])


def grouping_name(name: str) -> str:
    """What a property is called that questions are grouped by.

    >>> grouping_name("source_type")
    'Source type'
    """
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def is_share(name: str) -> bool:
    """Whether a measure lies between 0 and 1."""
    return name not in COUNTS


def described(name: str) -> str:
    """What a measure is, in a few words; empty where its name says it."""
    told = _TOLD.get(name, "")
    return told[:1].upper() + told[1:]


def families(names: Iterable[str]) -> dict[str, list[str]]:
    """Measures by family, as they are told; a family without one is left out."""
    given = list(names)
    known = {name for family in FAMILIES.values() for name in family}
    sorted_in = {family: [name for name in told if name in given] for family, told in FAMILIES.items()}
    sorted_in["Answers"] += [name for name in given if name not in known]
    return {family: told for family, told in sorted_in.items() if told}


def note_of(family: str) -> str:
    """What is to be known of a family of measures; empty where its names say it."""
    return _NOTES.get(family, "")


def value_text(name: str, value: float | None) -> str:
    """A value of a measure.

    >>> value_text("ndcg@5", 0.61234), value_text("pixels", 1e6), value_text("f1", None)
    ('0.612', '1,000,000', '–')
    """
    if value is None:
        return "–"
    if name in {"seconds", "model_seconds"}:
        return seconds(value)
    if name == "cost":
        return money(value)
    if name in COUNTS:
        return amount(value) if value >= 100 else f"{value:.1f}"
    return f"{value:.3f}"


def interval_text(name: str, estimate: ReportEstimate) -> str:
    """The interval of an estimate, with a star where documents were few; empty where there is none.

    >>> from vrag.evaluation.statistics.estimates import Estimate
    >>> interval_text("em", Estimate(0.5, 0.41, 0.6, 90))
    '0.410–0.600'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{value_text(name, estimate.low)}–{value_text(name, estimate.high)}{'*' if estimate.few else ''}"


def signed_text(name: str, value: float) -> str:
    """A difference of a measure.

    >>> signed_text("f1", 0.0831), signed_text("seconds", -3), signed_text("em", -0.0001)
    ('+0.083', '−3.0 s', '0.000')
    """
    told = value_text(name, abs(value))
    sign = "+" if value > 0 else "−"
    return f"{sign}{told}" if any(digit in told for digit in "123456789") else told


def more_name(name: str) -> str:
    """What other numbers stand under."""
    return "Seconds, by rank" if name == "seconds" else grouping_name(name)


def more_text(name: str, value: float | None) -> str:
    """One of the other numbers; a dash where it is undefined."""
    return value_text("seconds" if name == "seconds" else "", value)


def p_text(p: float | None) -> str:
    """A p value; never 0.

    >>> p_text(0.04231), p_text(0.00001), p_text(None)
    ('0.042', '< 0.001', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
