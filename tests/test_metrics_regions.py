"""How much of the gold area boxes cover, by hand and by counting points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Space
from vrag.metrics import coverage

LEFT, RIGHT, TOP = Box.unit(0, 0, 0.5, 1), Box.unit(0.5, 0, 1, 1), Box.unit(0, 0, 1, 0.5)
WHOLE = Box.unit(0, 0, 1, 1)

_Placed = tuple[int, Box]


def boxes() -> st.SearchStrategy[list[_Placed]]:
    """Of whole numbers, on two pages, some of them empty."""
    at, long = st.integers(0, 5), st.integers(0, 4)
    return st.lists(st.tuples(st.integers(1, 2), st.builds(box, at, at, long, long)), max_size=4)


def box(x: int, y: int, width: int, height: int) -> Box:
    return Box(x, y, x + width, y + height, Space.ITEM)


def points(placed: _Placed) -> set[tuple[int, int, int]]:
    """The unit squares of a box, with its page."""
    page, box = placed
    across, down = range(int(box.x1), int(box.x2)), range(int(box.y1), int(box.y2))
    return {(page, x, y) for x in across for y in down}


@given(boxes(), boxes())
def test_coverage_is_the_share_of_points_that_each_pair_has_in_common(
    found: list[_Placed], gold: list[_Placed]
) -> None:
    area = sum(len(points(region)) for region in gold)
    common = sum(len(points(box) & points(region)) for box in found for region in gold)
    assert coverage(found, gold) == pytest.approx(min(1, common / area) if area else 0)


@given(boxes())
def test_the_gold_covers_itself(gold: list[_Placed]) -> None:
    assert coverage(gold, gold) == float(any(box.area for _, box in gold))


@pytest.mark.parametrize(
    ("found", "gold", "share"),
    [
        ([(1, LEFT)], [(1, TOP)], 1 / 2),
        ([(2, LEFT)], [(1, TOP)], 0),
        ([(1, LEFT), (1, RIGHT)], [(1, TOP)], 1),
        # each region weighs what its area is: a quarter of 1.5 pages
        ([(1, LEFT)], [(1, TOP), (2, WHOLE)], 0.25 / 1.5),
        # found twice counts twice, as published
        ([(1, LEFT), (1, Box.unit(0, 0, 0.25, 1))], [(1, TOP)], 3 / 4),
        # but all of it is the most there is: published it would be 1.5
        ([(1, WHOLE), (1, LEFT)], [(1, TOP)], 1),
        # touching is not covering; an empty gold box has nothing to cover
        ([(1, LEFT)], [(1, RIGHT)], 0),
        ([(1, WHOLE)], [(1, Box.unit(0.3, 0.1, 0.3, 0.9))], 0),
        ([(1, WHOLE)], [(1, Box.unit(0.3, 0.1, 0.3, 0.9)), (1, TOP)], 1),
        ([(1, WHOLE)], [], 0),
        ([], [(1, TOP)], 0),
    ],
)
def test_coverage_by_hand(found: list[_Placed], gold: list[_Placed], share: float) -> None:
    assert coverage(found, gold) == pytest.approx(share)


def test_boxes_of_two_spaces_on_a_page_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot intersect"):
        coverage([(1, LEFT)], [(1, Box(0, 0, 100, 100, Space.ITEM))])


def test_what_is_found_may_be_read_once() -> None:
    assert coverage(iter([(1, LEFT), (2, LEFT)]), iter([(1, TOP), (2, TOP)])) == 1 / 2
