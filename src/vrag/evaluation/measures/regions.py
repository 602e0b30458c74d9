"""How much of the gold regions a search offers, where it offers regions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.types import Region

__all__ = ["REGIONS", "region_measures", "region_recall"]

REGIONS: Mapping[str, int] = {"region_recall@1": 1, "region_recall@5": 5, "region_recall@10": 10}
"""The names, and how many regions count; the places that MMDocIR reports."""


def region_measures(offered: Sequence[Region], gold: Sequence[Region]) -> dict[str, float]:
    """`region_recall` at each place; nothing without gold regions."""
    return {name: region_recall(offered, gold, k) for name, k in REGIONS.items()} if gold else {}


def region_recall(offered: Sequence[Region], gold: Sequence[Region], k: int) -> float:
    """Share of the gold area that the first `k` regions cover, 0 to 1.

    MMDocIR (Dong et al. 2025, arXiv 2501.08828), whose script sums the area common to each pair of a region
    and a gold one on the same page, over the area of all gold regions. There a question can earn more than
    1, as what overlaps counts twice; here that is cut to 1. And there areas are in square points; here a
    page is 1, whatever its size.

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
    area = math.fsum(one.box.area for one in gold)
    common = math.fsum(
        region.box.intersect(one.box).area
        for region in offered[:k]
        for one in gold
        if (region.document, region.page) == (one.document, one.page)
    )
    return min(1.0, common / area) if area > 0 else 0.0
