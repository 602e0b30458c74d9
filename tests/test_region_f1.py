"""Overlap of areas: properties, and a raster of pixels as another way to the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, iou
from vrag.metrics import region_f1, region_iou

PIXELS = 12


@st.composite
def boxes(draw: st.DrawFn, least: int = 0) -> list[Box]:
    """Boxes with an area, whose sides are on the grid."""
    found: list[Box] = []
    for _ in range(draw(st.integers(least, 4))):
        x1, y1 = (draw(st.integers(0, PIXELS - 1)) for _ in range(2))
        x2, y2 = (draw(st.integers(start + 1, PIXELS)) for start in (x1, y1))
        found.append(Box.unit(x1 / PIXELS, y1 / PIXELS, x2 / PIXELS, y2 / PIXELS))
    return found


def mask(zone: list[Box]) -> np.ndarray:
    """The pixels whose centre one of the boxes covers."""
    pixels = np.zeros((PIXELS, PIXELS), bool)
    for row in range(PIXELS):
        for column in range(PIXELS):
            centre = (column + 0.5) / PIXELS, (row + 0.5) / PIXELS
            pixels[row, column] = any(box.covers(*centre) for box in zone)
    return pixels


@given(boxes(), boxes())
def test_agrees_with_precision_and_recall_of_pixels(found: list[Box], gold: list[Box]) -> None:
    one, other = mask(found), mask(gold)
    common = (one & other).sum()
    precision, recall = common / max(one.sum(), 1), common / max(other.sum(), 1)
    expected = 2 * precision * recall / (precision + recall) if common else 0.0
    assert region_f1(found, gold) == pytest.approx(expected)
    assert region_iou(found, gold) == pytest.approx(common / max((one | other).sum(), 1))


@given(boxes(), boxes())
def test_is_symmetric_and_between_0_and_1(one: list[Box], other: list[Box]) -> None:
    for measure in (region_f1, region_iou):
        assert measure(one, other) == measure(other, one)
        assert 0 <= measure(one, other) <= 1
    assert region_iou(one, other) <= region_f1(one, other)


@given(boxes(least=1), boxes(least=1))
def test_is_1_exactly_where_both_cover_the_same(one: list[Box], other: list[Box]) -> None:
    same = bool((mask(one) == mask(other)).all())
    assert (region_f1(one, other) == 1) == same
    assert region_f1(one, [*one, one[0]]) == 1


@given(boxes(least=1), boxes(least=1))
def test_of_two_boxes_is_as_of_the_boxes(one: list[Box], other: list[Box]) -> None:
    assert region_iou(one[:1], other[:1]) == pytest.approx(iou(one[0], other[0]))
