"""How much of the gold regions a search offers, where it offers regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.metrics import coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vrag.geometry import Box
    from vrag.types import Region

__all__ = ["REGIONS", "region_measures", "region_recall"]

REGIONS: Mapping[str, int] = {"region_recall@1": 1, "region_recall@5": 5, "region_recall@10": 10}
"""The names, and how many regions count; the places that MMDocIR reports."""


def region_measures(offered: Sequence[Region], gold: Sequence[Region]) -> dict[str, float]:
    """`region_recall` at each place; nothing without gold regions."""
    return {name: region_recall(offered, gold, k) for name, k in REGIONS.items()} if gold else {}


def region_recall(offered: Sequence[Region], gold: Sequence[Region], k: int) -> float:
    """`vrag.metrics.coverage` of the first `k` regions: share of the gold area that they cover, 0 to 1.

    Args:
        offered: Best first, each with the name of its document.
        gold: Each with the name of its document; without any area the result is 0.
        k: How many regions count.

    >>> from vrag.geometry import Box
    >>> from vrag.types import Region
    >>> gold = [Region(1, Box.unit(0, 0, 1, 0.5), "a.pdf")]
    >>> region_recall([Region(1, Box.unit(0, 0.25, 1, 1), "a.pdf")], gold, 1)
    0.5
    """
    return coverage(_placed(offered[:k]), _placed(gold))


def _placed(regions: Iterable[Region]) -> Iterator[tuple[tuple[str, int], Box]]:
    return (((region.document, region.page), region.box) for region in regions)
