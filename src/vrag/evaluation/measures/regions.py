"""How much of the gold regions a search offers, where it offers regions, and how much else with them."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from vrag.evaluation.measures.box_union import overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from vrag.geometry import Box

    Placed = tuple[Hashable, Box]

__all__ = ["REGIONS", "region_measures", "region_precision", "region_recall"]


def region_measures(offered: Sequence[Placed], gold: Sequence[Placed]) -> dict[str, float]:
    """Recall and precision at each place, by the names of `REGIONS`; nothing without gold regions."""
    return {name: measure(offered, gold) for name, measure in REGIONS.items()} if gold else {}


def region_recall(offered: Sequence[Placed], gold: Sequence[Placed], k: int) -> float:
    """Share of the gold area that the first `k` regions cover, 0 to 1: Σ |O ∩ G| / Σ |G| over the pages.

    O is what the regions on a page cover together, and G what the gold there covers. MMDocIR's recall of
    layouts (Dong et al. 2025, arXiv 2501.08828, `metric_eval.py`), with these deviations. There layouts that
    were cut beforehand are ranked, within the document of the question; here any regions, over all documents
    that were searched. There what two boxes cover counts twice, so that more than all can be found; here
    once, as regions made for a question may overlap, and showing a place again finds nothing: the same where
    no boxes overlap. There areas are in points, here in shares of their page.

    A page that is offered whole covers all gold on it: read it beside `region_precision`.

    Args:
        offered: Page and box of each, best first; pages are compared by `==`.
        gold: Page and box of each; without any area the result is 0.
        k: How many regions count.

    >>> from vrag.geometry import Box
    >>> region_recall([("p", Box.unit(0, 0.25, 1, 1))], [("p", Box.unit(0, 0, 1, 0.5))], 1)
    0.5
    """
    return _share(_common(offered[:k], gold), _area(gold))


def region_precision(offered: Sequence[Placed], gold: Sequence[Placed], k: int) -> float:
    """Share of the area of the first `k` regions that is gold, 0 to 1: Σ |O ∩ G| / Σ |O| over the pages.

    With O and G of `region_recall`. Ours, as regions here are as large as whoever offers them likes: what
    offers more to cover more pays for it, and a page offered whole earns the share of it that is gold. Where
    `k` regions are larger than the gold, none reaches 1: compare it at the same `k`.

    Args:
        offered: Page and box of each, best first; without any area among the first `k` the result is 0.
        gold: Page and box of each.
        k: How many regions count.

    >>> from vrag.geometry import Box
    >>> region_precision([("p", Box.unit(0, 0.25, 1, 1))], [("p", Box.unit(0, 0, 1, 0.5))], 1)
    0.333...
    """
    return _share(_common(offered[:k], gold), _area(offered[:k]))


def _share(common: float, area: float) -> float:
    """At most 1, which sums of cells may miss by a rounding."""
    return min(1.0, common / area) if area > 0 else 0.0


def _area(placed: Iterable[Placed]) -> float:
    return math.fsum(overlap(boxes, ())[1] for boxes in _by_page(placed).values())


def _common(one: Iterable[Placed], other: Iterable[Placed]) -> float:
    those = _by_page(other)
    return math.fsum(overlap(boxes, those[page])[0] for page, boxes in _by_page(one).items() if page in those)


def _by_page(placed: Iterable[Placed]) -> dict[Hashable, list[Box]]:
    boxes: defaultdict[Hashable, list[Box]] = defaultdict(list)
    for page, box in placed:
        boxes[page].append(box)
    return boxes


_PLACES = (1, 5, 10)
"""Those that MMDocIR reports."""
REGIONS: Mapping[str, Callable[[Sequence[Placed], Sequence[Placed]], float]] = {
    **{f"region_recall@{k}": partial(region_recall, k=k) for k in _PLACES},
    **{f"region_precision@{k}": partial(region_precision, k=k) for k in _PLACES},
}
"""What is measured of regions offered and gold ones."""
