"""Regions offered against gold ones: shares of area by hand, and by counting the squares of a grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.evaluation.measures.search_measures import REGIONS, region_measures, region_precision, region_recall
from vrag.geometry import Box

Placed = tuple[str, Box]

WHOLE = ("a", Box.unit(0, 0, 1, 1))
TOP = ("a", Box.unit(0, 0, 1, 0.5))
LEFT = ("a", Box.unit(0, 0, 0.5, 1))
ELSEWHERE = ("b", Box.unit(0, 0, 1, 1))
SMALL = ("a", Box.unit(0.1, 0.6, 0.2, 0.8))


def test_recall_is_the_share_of_the_gold_area_that_is_covered() -> None:
    # the left half covers half of the upper one
    assert region_recall([LEFT], [TOP], 1) == 0.5
    # two gold boxes of 0.5 and 0.02; of the second one all is covered: (0.25 + 0.02) / 0.52
    assert region_recall([LEFT], [TOP, SMALL], 1) == pytest.approx(0.27 / 0.52)


def test_precision_is_the_share_of_the_area_offered_that_is_gold() -> None:
    assert region_precision([LEFT], [TOP], 1) == 0.5
    assert region_precision([SMALL], [LEFT], 1) == 1
    # of the half offered, 0.25 + 0.02 is gold
    assert region_precision([LEFT], [TOP, SMALL], 1) == pytest.approx(0.27 / 0.5)


def test_whole_pages_cover_all_and_earn_the_share_of_them_that_is_gold() -> None:
    assert region_recall([WHOLE], [SMALL], 1) == 1
    assert region_precision([WHOLE], [SMALL], 1) == pytest.approx(0.02)
    assert region_precision([WHOLE, ELSEWHERE], [SMALL], 5) == pytest.approx(0.01)


def test_only_the_first_count() -> None:
    for measure in (region_recall, region_precision):
        assert measure([ELSEWHERE, TOP], [TOP], 1) == 0
    assert region_recall([ELSEWHERE, TOP], [TOP], 2) == 1
    assert region_precision([ELSEWHERE, TOP], [TOP], 2) == pytest.approx(0.5 / 1.5)


def test_other_pages_cover_nothing() -> None:
    assert set(region_measures([ELSEWHERE], [TOP]).values()) == {0.0}


def test_what_is_covered_twice_counts_once() -> None:
    """Unlike in the published script, where the left half twice is all of the upper half."""
    assert region_recall([LEFT, LEFT], [TOP], 5) == 0.5
    assert region_precision([LEFT, LEFT], [TOP], 5) == 0.5
    assert region_recall([LEFT], [TOP, TOP], 5) == 0.5


def test_boxes_without_an_area_are_neither_gold_nor_offered() -> None:
    line = ("a", Box.unit(0.1, 0.1, 0.1, 0.4))
    assert region_recall([LEFT], [line], 1) == 0
    assert region_precision([line], [LEFT], 1) == 0


def test_nothing_is_measured_without_gold() -> None:
    assert region_measures([LEFT], []) == {}
    assert region_measures([], [TOP]) == dict.fromkeys(REGIONS, 0.0)


def test_the_places_are_those_that_the_authors_of_the_measure_tell() -> None:
    offered = [*[ELSEWHERE] * 4, TOP, *[ELSEWHERE] * 4, LEFT]
    found = region_measures(offered, [TOP])
    assert [found[f"region_recall@{k}"] for k in (1, 5, 10)] == [0, 1, 1]
    # half a page of one and a half; with the left half three quarters of one and three quarters are offered
    assert [found[f"region_precision@{k}"] for k in (1, 5, 10)] == [
        0,
        pytest.approx(1 / 3),
        pytest.approx(2 / 7),
    ]


GRID = 6


def regions() -> st.SearchStrategy[list[Placed]]:
    """Boxes along a grid, some empty, on two pages."""
    at, long = st.integers(0, GRID), st.integers(0, GRID)

    def placed(page: str, x: int, y: int, width: int, height: int) -> Placed:
        sides = (x, y, min(x + width, GRID), min(y + height, GRID))
        return page, Box.unit(*(side / GRID for side in sides))

    return st.lists(st.builds(placed, st.sampled_from("ab"), at, at, long, long), max_size=4)


def squares(placed: list[Placed]) -> set[tuple[str, int, int]]:
    """The squares of the grid that boxes cover, with their page."""
    cells = [(x, y) for x in range(GRID) for y in range(GRID)]
    return {
        (page, x, y)
        for page, box in placed
        for x, y in cells
        if box.covers((x + 0.5) / GRID, (y + 0.5) / GRID)
    }


@given(regions(), regions(), st.integers(1, 4))
def test_both_count_the_squares_that_boxes_cover(offered: list[Placed], gold: list[Placed], k: int) -> None:
    shown, wanted = squares(offered[:k]), squares(gold)
    common = len(shown & wanted)
    assert region_recall(offered, gold, k) == pytest.approx(common / len(wanted) if wanted else 0)
    assert region_precision(offered, gold, k) == pytest.approx(common / len(shown) if shown else 0)


@given(regions(), regions())
def test_more_is_never_worse_for_recall_and_what_is_not_gold_never_helps_precision(
    offered: list[Placed], gold: list[Placed]
) -> None:
    more = [*offered, WHOLE]
    assert region_recall(more, gold, len(more)) >= region_recall(offered, gold, len(more))
    page = region_precision([WHOLE], gold, 1)
    inside = [(name, box) for name, box in gold if name == "a"]
    if squares(inside):
        assert region_precision(inside, gold, len(inside)) == pytest.approx(1)
        assert page == pytest.approx(len(squares(inside)) / GRID**2)
    far = [*offered, ("elsewhere", WHOLE[1])]
    assert region_precision(far, gold, len(far)) <= region_precision(offered, gold, len(far))
