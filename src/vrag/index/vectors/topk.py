"""The best of many scores, in one order whatever way they came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["alike", "best", "named", "shortlist"]


def best(rows: NDArray[np.int64], scores: NDArray[np.floating], top_k: int) -> list[tuple[int, float]]:
    """The `top_k` rows with the highest scores, best first, ties by row. Scores that are not finite go.

    >>> best(np.array([3, 5, 7]), np.array([1.0, 2.0, 1.0]), 2)
    [(5, 2.0), (3, 1.0)]
    """
    kept = shortlist(scores, top_k, 0.0)
    order = np.lexsort((rows[kept], -scores[kept]))[:top_k]
    return [(int(rows[at]), float(scores[at])) for at in kept[order]]


def shortlist(scores: NDArray[np.floating], top_k: int, margin: float) -> NDArray[np.int64]:
    """Places of the finite scores that are at most `margin` below the `top_k`-th highest, ascending."""
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite) <= top_k:
        return finite
    among = scores[finite]
    least = np.partition(among, len(among) - top_k)[len(among) - top_k]
    return finite[among >= least - margin]


def named(ids: Sequence[str], found: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
    """Rows by the ids of their items."""
    return [(ids[row], score) for row, score in found]


def alike(masks: Sequence[NDArray[np.bool_]], together: int) -> Iterator[list[int]]:
    """Numbers of the masks in groups that are equal, of at most `together`: what can be scored at once."""
    groups: dict[bytes, list[int]] = {}
    for number, mask in enumerate(masks):
        groups.setdefault(mask.tobytes(), []).append(number)
    for numbers in groups.values():
        for at in range(0, len(numbers), together):
            yield numbers[at : at + together]
