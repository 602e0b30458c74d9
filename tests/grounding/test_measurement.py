"""The verdict on coordinate conventions, on simulated models: no server, many seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from vrag.geometry import Box, Size, Space
from vrag.grounding.conventions import (
    CONVENTIONS,
    BoxSample,
    Convention,
    Fit,
    Measurement,
    Numbers,
    measure,
    separates,
)
from vrag.grounding.questions import COLORS, CONFUSION, ProbePage, draw, make_pages
from vrag.model_profiles import PROFILES, Profile

Sides = tuple[float, float, float, float]
Model = Callable[[np.random.Generator, ProbePage, Box], "Numbers | None"]
"""What a model answers, given the page and the rectangle that it is asked for (in fractions)."""

QWEN = PROFILES["qwen2.5-vl"]


def unit(box: Box, size: Size) -> Box:
    return BoxSample(box, size, None).unit


@cache
def pages(profile: Profile, seed: int) -> list[ProbePage]:
    return make_pages(profile, seed=seed)


def interview(model: Model, seed: int, profile: Profile = QWEN) -> Measurement:
    chance = np.random.default_rng(seed)
    return measure(
        [
            BoxSample(one.box, page.size, model(chance, page, unit(one.box, page.size)))
            for page in pages(profile, seed)
            for one in page.rectangles
        ]
    )


def seeing(convention: Convention, noise: float = 0.02, missing: float = 0.0) -> Model:
    """A model that sees the rectangle, each side off by so much of the page (standard deviation)."""

    def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers | None:
        if chance.random() < missing:
            return None
        sides = np.array(box.as_tuple()) + chance.normal(0, noise, 4)
        written = convention.write(Box.unit(*sides.tolist()), page.size)
        digits = 3 if convention.space is Space.RELATIVE else 0
        return Numbers(*(round(side, digits) for side in written))

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_every_convention_is_told_with_noise_and_missing_boxes(
    convention: Convention, profile: Profile
) -> None:
    model = seeing(convention, missing=0.3)
    for seed in range(8):
        found = interview(model, seed, profile)
        assert found.convention == convention, found.reason
        assert found.scaled is None
        assert found.answered < found.asked == 24


def any_box(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    (x1, x2), (y1, y2) = np.sort(chance.random((2, 2))).tolist()
    return x1, y1, x2, y2


def alike_box(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    """As large as the one that was asked for, anywhere."""
    x, y = chance.random(2) * (1 - box.width, 1 - box.height)
    return float(x), float(y), float(x + box.width), float(y + box.height)


def middle_box(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    x1, y1, x2, y2 = (np.array([0.3, 0.3, 0.7, 0.7]) + chance.normal(0, 0.05, 4)).tolist()
    return x1, y1, x2, y2


def same_box(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    return 0.2, 0.2, 0.8, 0.8


def whole_page(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    return 0, 0, 1, 1


def any_rectangle(chance: np.random.Generator, page: ProbePage, box: Box) -> Sides:
    """Sees rectangles and does not know their colors."""
    one = page.rectangles[chance.integers(len(page.rectangles))]
    return unit(one.box, page.size).as_tuple()


GUESSES = [any_box, alike_box, middle_box, same_box, whole_page, any_rectangle]


@pytest.mark.slow
@pytest.mark.parametrize("guess", GUESSES, ids=lambda guess: guess.__name__)
def test_a_model_that_guesses_is_undecided(
    guess: Callable[[np.random.Generator, ProbePage, Box], Sides],
) -> None:
    """None of 60 × 6: with 95 % confidence fewer than one interview in a hundred goes wrong."""
    for seed in range(60):
        mixed = seed % 5 == 0
        convention = CONVENTIONS[seed % len(CONVENTIONS)]

        def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers:
            spoken = CONVENTIONS[chance.integers(len(CONVENTIONS))] if mixed else convention  # noqa: B023
            return spoken.write(Box.unit(*guess(chance, page, box)), page.size)

        found = interview(answer, seed)
        assert found.convention is None, found
        assert found.scaled is None, found
        assert found.reason


def test_a_model_that_sees_badly_is_undecided_and_the_reason_says_so() -> None:
    found = interview(seeing(CONVENTIONS[0], noise=0.2), 1)
    assert found.convention is None
    assert "guesses" in found.reason


def test_few_answers_decide_nothing_however_good() -> None:
    rest = iter([True] * 7)

    def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers | None:
        return CONVENTIONS[0].write(box, page.size) if next(rest, False) else None

    found = interview(answer, 2)
    assert (found.convention, found.answered) == (None, 7)
    assert found.reason == "Only 7 of 24 answers contain a box."


def test_no_answers_decide_nothing() -> None:
    found = interview(seeing(CONVENTIONS[0], missing=1.0), 3)
    assert (found.convention, found.scores, found.reason) == (None, (), "No answer contains a box.")


def test_pages_of_a_thousand_pixels_do_not_tell_pixels_from_thousandths() -> None:
    size, boxes = Size(1000, 1000), [Box(x, 50, x + 200, 300, Space.SHOWN) for x in range(400, 640, 20)]
    found = measure([BoxSample(box, size, Numbers(*box.as_tuple())) for box in boxes])
    assert found.convention is None
    assert found.scores[0].overlap == 1
    assert "leads the next one by only 0.00" in found.reason


def test_one_answer_to_everything_is_no_convention_even_where_it_is_right() -> None:
    box, size = Box(300, 50, 400, 150, Space.SHOWN), Size(448, 672)
    found = measure([BoxSample(box, size, Numbers(300, 50, 400, 150))] * 12)
    assert found.convention is None
    assert found.chance == 1
    assert "Permuted answers" in found.reason


@pytest.mark.parametrize("y_first", [False, True])
@pytest.mark.parametrize("scale", [0.5, 0.85, 1.2, 2.0])
def test_pixels_of_a_picture_that_the_server_resized_are_recognised(scale: float, y_first: bool) -> None:
    def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers | None:
        resized = Size(round(page.size.width * scale), round(page.size.height * scale))
        return seeing(Convention(Space.SHOWN, y_first), missing=0.2)(chance, ProbePage(resized, ()), box)

    for seed in range(5):
        found = interview(answer, seed)
        assert found.convention is None
        assert found.scaled is not None, found
        assert (found.scaled.y_first, found.scaled.range) == (y_first, None)
        for size, extent in found.scaled.extents.items():
            assert np.allclose(extent, np.array(size) * scale, rtol=0.1)
        assert "The server resizes" in found.reason


def test_a_scale_is_not_fitted_to_the_answer_that_it_reads() -> None:
    boxes = [Box(x, 50, x + 100, 200, Space.SHOWN) for x in (100, 150, 200, 250)]
    answers = [Numbers(*(2 * side for side in box.as_tuple())) for box in boxes]
    answers[1] = Numbers(*(9 * side for side in boxes[1].as_tuple()))
    size = Size(448, 672)
    fit = Fit.of([BoxSample(*one) for one in zip(boxes, [size] * 4, answers, strict=True)], y_first=False)
    factors = fit.read[:, 2] / [unit(box, size).x2 for box in boxes]
    assert factors == pytest.approx([1, 4.5, 1, 1])
    assert fit.extent == pytest.approx((2 * 448, 2 * 672))


def test_a_grid_of_a_hundred_is_recognised_as_a_grid() -> None:
    def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers:
        return Numbers(*(round(side * 100) for side in box.as_tuple()))

    found = interview(answer, 4)
    assert found.convention is None
    assert found.scaled is not None
    assert found.scaled.range == pytest.approx(100, rel=0.05)
    assert "from 0 to about" in found.reason


def test_a_grid_of_1024_passes_as_thousandths() -> None:
    def answer(chance: np.random.Generator, page: ProbePage, box: Box) -> Numbers:
        return Numbers(*(round(side * 1024) for side in box.as_tuple()))

    assert interview(answer, 5).convention == Convention(Space.MILLE)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_pages_are_shown_as_they_are_and_separate_all_conventions(profile: Profile) -> None:
    for seed in range(10):
        assert len({page.size for page in pages(profile, seed)}) == 4
        for page in pages(profile, seed):
            assert profile.shown_size(page.size) == page.size
            assert page.size.width != page.size.height
            assert len({one.color for one in page.rectangles}) == len(page.rectangles) == 3
            assert all(separates(one.box, page.size, CONFUSION) for one in page.rectangles)


def test_drawn_rectangles_lie_where_they_are_said_to() -> None:
    for page in make_pages(QWEN, seed=6):
        pixels = np.asarray(draw(page))
        assert pixels.shape == (page.size.height, page.size.width, 3)
        for one in page.rectangles:
            rows, columns = np.nonzero((pixels == COLORS[one.color]).all(axis=2))
            around = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            assert around == one.box.as_tuple()


def test_a_box_on_the_diagonal_of_a_square_page_separates_nothing() -> None:
    box = Box(100, 100, 300, 300, Space.SHOWN)
    assert not separates(box, Size(560, 560), 0.9)
    assert separates(Box(300, 20, 420, 150, Space.SHOWN), Size(448, 672), CONFUSION)
