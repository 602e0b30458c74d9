"""Areas of boxes together: what several of them cover, counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.geometry import Box

__all__ = ["overlap"]


def overlap(one: Sequence[Box], other: Sequence[Box]) -> tuple[float, float]:
    """The area that both cover, and the area that either covers; within each, no area counts twice.

    Exact: the sides of all boxes cut the plane into cells, and a box is a set of them.

    Args:
        one: Boxes of one page, in one space.
        other: Boxes of the same page, in the same space.
    """
    boxes = {*one, *other}
    across = np.unique([side for box in boxes for side in (box.x1, box.x2)])
    down = np.unique([side for box in boxes for side in (box.y1, box.y2)])
    cells = np.outer(np.diff(down), np.diff(across))
    covered, covered_too = (_cells(those, across, down) for those in (one, other))
    return float(cells[covered & covered_too].sum()), float(cells[covered | covered_too].sum())


def _cells(boxes: Sequence[Box], across: NDArray[np.float64], down: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which cells boxes cover, (rows, columns)."""
    covered = np.zeros((max(len(down) - 1, 0), max(len(across) - 1, 0)), np.bool_)
    for box in boxes:
        left, right = np.searchsorted(across, (box.x1, box.x2))
        top, bottom = np.searchsorted(down, (box.y1, box.y2))
        covered[top:bottom, left:right] = True
    return covered
