"""Where the gold stands among what was found, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.metrics import ndcg, recall, reciprocal_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.evaluation.relevance import Gold, Spot

__all__ = ["DOCUMENT_RECALL", "RANKING", "document_recall", "ranking_measures"]

RANKING: Mapping[str, Callable[[Sequence[Spot], Mapping[Spot, int]], float]] = {
    "ndcg@5": lambda found, gold: ndcg(found, gold, 5),
    "ndcg@10": lambda found, gold: ndcg(found, gold, 10),
    "recall@1": lambda found, gold: recall(found, gold.keys(), 1),
    "recall@3": lambda found, gold: recall(found, gold.keys(), 3),
    "recall@5": lambda found, gold: recall(found, gold.keys(), 5),
    "recall@10": lambda found, gold: recall(found, gold.keys(), 10),
    "mrr": lambda found, gold: reciprocal_rank(found, gold.keys()),
}
"""What is measured of a ranking and the grades of what is gold; see `vrag.metrics`."""

DOCUMENT_RECALL = "document_recall@10"
_DEPTH = 10


def ranking_measures(found: Sequence[Spot], documents: Sequence[str], gold: Gold) -> dict[str, float]:
    """All measures of one ranking; none where nothing is gold.

    Args:
        found: What was found, best first.
        documents: Of what document each is; see `Gold.document`.
        gold: What is wanted.
    """
    if not gold.grades:
        return {}
    measured = {name: measure(found, gold.grades) for name, measure in RANKING.items()}
    return measured | {DOCUMENT_RECALL: document_recall(documents, gold.documents, _DEPTH)}


def document_recall(documents: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Share of the gold documents of which something is among the first `k`, 0 without gold.

    As in M3DocRAG (Cho et al. 2024, arXiv 2411.04952) a document takes up a place with each of its pages.

    >>> document_recall(["a.pdf", "a.pdf", "b.pdf"], {"a.pdf", "b.pdf"}, 2)
    0.5
    """
    return recall(documents, gold, k)
