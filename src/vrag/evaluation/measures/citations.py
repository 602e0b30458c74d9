"""Measures of citations: the documents of the evidence against those that are gold.

HotpotQA and WebQA score the sources of a system in this way, with documents in the place of HotpotQA's
sentences. Sentences are not scored: an agent points at a passage as a whole, of which the run keeps the first
600 characters. The sentences in them would measure how long paragraphs are, not how it chose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.cases import gold_documents, gold_pages
from vrag.evaluation.relevance import Gold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.relevance import DocumentNames
    from vrag.types import Case

CITING: Mapping[str, str] = {
    "cited_em": "the documents of the evidence are the gold ones, all of them and no other",
    "cited_f1": "harmonic mean of the next two",
    "cited_precision": "share of the documents of the evidence that are gold",
    "cited_recall": "share of the gold documents that are in the evidence",
    "hotpotqa/joint_paragraph_em": "the answer is exact and so are the paragraphs of its evidence",
    "hotpotqa/joint_paragraph_f1": "F1 of the answer and the paragraphs of its evidence together",
}
"""Names and definitions."""


def citing(case: Case, run: RunResult, names: DocumentNames) -> dict[str, float]:
    """Measure how well the documents of the evidence agree with the gold ones; nothing for a case without.

    By the sets that `hotpot_evaluate_v1.py` (arXiv 1809.09600) takes precision and recall of, a document
    for a fact. Without an answer or without evidence all are 0, as of a missing prediction there. The same
    bytes under several names are one document, and pages or passages of a document are that document.

    Args:
        case: Its gold: documents as a whole. Cases with gold pages are measured by `grounding`.
        run: Its answer and evidence.
        names: Names of the documents that were searched.
    """
    wanted = gold_documents(case)
    if not wanted or gold_pages(case):
        return {}
    gold = Gold.of(case, names)
    right = frozenset(names.distinct(wanted).values())
    evidence = () if run.answer is None else run.evidence
    cited = frozenset(gold.document(item.document_id, item.document) for item in evidence)
    precision = len(cited & right) / len(cited) if cited else 0.0
    recall = len(cited & right) / len(right)
    return {
        "cited_em": float(cited == right),
        "cited_f1": _f1(precision, recall),
        "cited_precision": precision,
        "cited_recall": recall,
    }


def joint(measures: Mapping[str, float]) -> dict[str, float]:
    """Return HotpotQA's joint measures, of answer and evidence: with paragraphs in the place of sentences.

    Precision and recall of both are multiplied, and so are both exact matches; F1 is of the products.

    Args:
        measures: Of one question: `em`, `hotpotqa/precision` and `hotpotqa/recall` of its answer, and those
            of `citing`.

    Returns:
        Nothing where one of them is missing.
    """
    parts = ("em", "hotpotqa/precision", "hotpotqa/recall", "cited_em", "cited_precision", "cited_recall")
    if any(name not in measures for name in parts):
        return {}
    em, precision, recall, cited_em, cited_precision, cited_recall = (measures[name] for name in parts)
    return {
        "hotpotqa/joint_paragraph_em": em * cited_em,
        "hotpotqa/joint_paragraph_f1": _f1(precision * cited_precision, recall * cited_recall),
    }


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
