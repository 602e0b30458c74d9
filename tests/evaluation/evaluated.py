"""What the statistics of evaluations are checked against."""

from __future__ import annotations

import math

__all__ = ["mcnemar"]


def mcnemar(first: int, second: int) -> float:
    """McNemar's mid-p, two-sided, of a table's two counts: by the tails of a fair coin.

    Of the heads of as many tosses: those farther from half than what was found, and half of those as far.
    """
    tosses, found = first + second, abs(first - second)
    weights = {heads: math.comb(tosses, heads) for heads in range(tosses + 1)}
    farther = sum(ways for heads, ways in weights.items() if abs(2 * heads - tosses) > found)
    as_far = sum(ways for heads, ways in weights.items() if abs(2 * heads - tosses) == found)
    return 1.0 if not tosses else (farther + as_far / 2) / 2**tosses
