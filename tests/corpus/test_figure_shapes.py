"""The figures that a font draws, by the shapes of its glyphs."""

from __future__ import annotations

import numpy as np
import pytest

from vrag.corpus.formats.pdf_text.figure_shapes import FIGURES, draw_shape, find_drawn


def likeness(drawn: dict[str, str], score: float = 0.95, rest: float = 0.5) -> dict[str, list[float]]:
    """The likeness of each figure that a font says to all figures: `score` to the one that it draws."""
    return {said: [score if figure == shown else rest for figure in FIGURES] for said, shown in drawn.items()}


def test_a_font_that_draws_its_own_figures_is_right() -> None:
    assert find_drawn(likeness({figure: figure for figure in FIGURES})) == {}


@pytest.mark.parametrize("drawn", [{"0": "7", "7": "0"}, {"1": "2", "2": "3", "3": "1"}, {"5": "6"}])
def test_other_figures_are_found(drawn: dict[str, str]) -> None:
    assert find_drawn(likeness(drawn)) == drawn


@pytest.mark.parametrize(("score", "rest"), [(0.7, 0.1), (0.95, 0.9)])
def test_shapes_that_are_like_none_or_several_say_nothing(score: float, rest: float) -> None:
    assert find_drawn(likeness({"1": "2", "2": "1"}, score, rest)) == {}


def test_a_figure_that_is_like_two_is_the_one_that_no_other_is() -> None:
    scores = likeness({"1": "8", "3": "0"})
    scores["3"][8] = 0.951
    assert find_drawn(scores) == {"1": "8", "3": "0"}


def test_several_figures_with_one_shape_say_nothing() -> None:
    assert find_drawn(likeness({"3": "8", "4": "8", "7": "8"})) == {}


def test_no_figures_say_nothing() -> None:
    assert find_drawn({}) == {}


def test_a_shape_is_the_same_at_any_size_and_place() -> None:
    ring = [(0.0, 0.0), (4.0, 0.0), (4.0, 10.0), (0.0, 10.0)]
    hole = [(0.5, 1.0), (3.5, 1.0), (3.5, 9.0), (0.5, 9.0)]
    small = draw_shape([ring, hole])
    large = draw_shape([[(3 * x + 50, 3 * y - 20) for x, y in contour] for contour in (ring, hole)])
    filled = draw_shape([ring])
    assert small is not None
    assert large is not None
    assert filled is not None
    assert small @ large == pytest.approx(1.0, abs=0.01)
    assert small @ filled < 0.8


@pytest.mark.parametrize("contours", [[], [[(0.0, 0.0), (5.0, 0.0)]]])
def test_a_glyph_without_area_has_no_shape(contours: list[list[tuple[float, float]]]) -> None:
    assert draw_shape(contours) is None


def test_a_shape_has_length_one() -> None:
    shape = draw_shape([[(0.0, 0.0), (4.0, 0.0), (2.0, 6.0)]])
    assert shape is not None
    assert np.linalg.norm(shape) == pytest.approx(1.0)
