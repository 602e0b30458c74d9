"""Measures of a search: the gold among its hits, and the gold area that the regions of hits cover.

Each function returns numbers by name, 0 to 1 unless stated; what cannot be measured is missing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from vrag.metrics import ndcg, overlap, recall, reciprocal_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.evaluation.relevance import Gold, Spot
    from vrag.geometry import Box

    Placed = tuple[Hashable, Box]

RANKING: Mapping[str, Callable[[Sequence[Spot], Mapping[Spot, int]], float]] = {
    "ndcg@5": lambda found, gold: ndcg(found, gold, 5),
    "ndcg@10": lambda found, gold: ndcg(found, gold, 10),
    "recall@1": lambda found, gold: recall(found, gold.keys(), 1),
    "recall@3": lambda found, gold: recall(found, gold.keys(), 3),
    "recall@5": lambda found, gold: recall(found, gold.keys(), 5),
    "recall@10": lambda found, gold: recall(found, gold.keys(), 10),
    "mrr": lambda found, gold: reciprocal_rank(found, gold.keys()),
}
"""Measures of a ranking and the grades of the gold; see `vrag.metrics`."""

DOCUMENT_RECALL = "document_recall@10"
_DEPTH = 10


def ranking_measures(found: Sequence[Spot], documents: Sequence[str], gold: Gold) -> dict[str, float]:
    """Return all measures of a ranking, best first, with the document of each; none without gold."""
    if not gold.grades:
        return {}
    measured = {name: measure(found, gold.grades) for name, measure in RANKING.items()}
    return measured | {DOCUMENT_RECALL: document_recall(documents, gold.documents, _DEPTH)}


def document_recall(documents: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return the share of the gold documents of which something is among the first `k`, 0 without gold.

    As in M3DocRAG (Cho et al. 2024, arXiv 2411.04952) a document takes up a place with each of its pages.

    >>> document_recall(["a.pdf", "a.pdf", "b.pdf"], {"a.pdf", "b.pdf"}, 2)
    0.5
    """
    return recall(documents, gold, k)


def region_measures(offered: Sequence[Placed], gold: Sequence[Placed]) -> dict[str, float]:
    """Return recall and precision at each place, by the names of `REGIONS`; nothing without gold regions."""
    return {name: measure(offered, gold) for name, measure in REGIONS.items()} if gold else {}


def region_recall(offered: Sequence[Placed], gold: Sequence[Placed], k: int) -> float:
    """Return the share of the gold area that the first `k` regions cover: Σ |O ∩ G| / Σ |G| over the pages.

    O is what the regions on a page cover together, and G what the gold there covers. MMDocIR's recall of
    layouts (Dong et al. 2025, arXiv 2501.08828, `metric_eval.py`), with these deviations. There layouts that
    were cut beforehand are ranked, within the document of the question; here any regions, over all documents
    that were searched. There what two boxes cover counts twice, so that more than all can be found; here
    once, as regions made for a question may overlap, and showing a place again finds nothing: the same where
    no boxes overlap. There areas are in points, here in shares of their page.

    A page that is offered whole covers all gold on it: read it beside `region_precision`. Pages are compared
    by `==`; without any gold area the result is 0.

    >>> from vrag.geometry import Box
    >>> region_recall([("p", Box.unit(0, 0.25, 1, 1))], [("p", Box.unit(0, 0, 1, 0.5))], 1)
    0.5
    """
    return _share(_common(offered[:k], gold), _area(gold))


def region_precision(offered: Sequence[Placed], gold: Sequence[Placed], k: int) -> float:
    """Return the share of the area of the first `k` regions that is gold: Σ |O ∩ G| / Σ |O| over the pages.

    With O and G of `region_recall`. An addition, as regions here can have any size: larger regions that cover
    more pay for it, and a page offered whole earns the share of it that is gold. Where
    `k` regions are larger than the gold, none reaches 1: compare it at the same `k`. Without any area among
    the first `k` the result is 0.

    >>> from vrag.geometry import Box
    >>> region_precision([("p", Box.unit(0, 0.25, 1, 1))], [("p", Box.unit(0, 0, 1, 0.5))], 1)
    0.333...
    """
    return _share(_common(offered[:k], gold), _area(offered[:k]))


def _share(common: float, area: float) -> float:
    """Return the ratio; at most 1, which sums of cells may exceed by a rounding."""
    return min(1.0, common / area) if area > 0 else 0.0


def _area(placed: Iterable[Placed]) -> float:
    return math.fsum(overlap(boxes, ())[1] for boxes in _by_page(placed).values())


def _common(one: Iterable[Placed], other: Iterable[Placed]) -> float:
    others = _by_page(other)
    return math.fsum(
        overlap(boxes, others[page])[0] for page, boxes in _by_page(one).items() if page in others
    )


def _by_page(placed: Iterable[Placed]) -> dict[Hashable, list[Box]]:
    boxes: defaultdict[Hashable, list[Box]] = defaultdict(list)
    for page, box in placed:
        boxes[page].append(box)
    return boxes


_PLACES = (1, 5, 10)
"""The places that MMDocIR reports."""
REGIONS: Mapping[str, Callable[[Sequence[Placed], Sequence[Placed]], float]] = {
    **{f"region_recall@{k}": partial(region_recall, k=k) for k in _PLACES},
    **{f"region_precision@{k}": partial(region_precision, k=k) for k in _PLACES},
}
"""Measures of offered regions and gold ones."""
