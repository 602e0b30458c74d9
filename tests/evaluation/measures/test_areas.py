from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box
from vrag.metrics import overlap

SIDE = st.integers(0, 8)


@st.composite
def boxes(draw: st.DrawFn) -> list[Box]:
    found: list[Box] = []
    for _ in range(draw(st.integers(0, 4))):
        (x1, x2), (y1, y2) = (sorted((draw(SIDE), draw(SIDE))) for _ in range(2))
        found.append(Box.unit(x1 / 8, y1 / 8, x2 / 8, y2 / 8))
    return found


def painted(those: list[Box]) -> np.ndarray:
    """On a grid of 8 by 8: another way to the same."""
    grid = np.zeros((8, 8), bool)
    for row in range(8):
        for column in range(8):
            grid[row, column] = any(box.covers((column + 0.5) / 8, (row + 0.5) / 8) for box in those)
    return grid


@given(boxes(), boxes())
def test_is_what_painting_them_gives(one: list[Box], other: list[Box]) -> None:
    common, united = overlap(one, other)
    assert common == pytest.approx((painted(one) & painted(other)).sum() / 64)
    assert united == pytest.approx((painted(one) | painted(other)).sum() / 64)


def test_what_overlaps_counts_once() -> None:
    twice = [Box.unit(0, 0, 0.5, 1), Box.unit(0.25, 0, 0.75, 1)]
    assert overlap(twice, [Box.unit(0, 0, 1, 1)]) == (0.75, 1.0)
