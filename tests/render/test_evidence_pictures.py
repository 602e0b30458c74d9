"""Pictures of cited places: rectangles, words and numbers, pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
from annotated_pages import evidence_on, place_of, rectangle
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.agent.evidence import BoxSides
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.annotations.evidence_sources import PagePart
from vrag.render.annotations.pictures import (
    draw_evidence,
    draw_numbered,
    draw_page,
    draw_part,
    encode_png,
)

WHITE = Image.new("RGB", (800, 1000), "white")
TEAL, RED, YELLOW = (15, 118, 110), (185, 28, 28), (255, 224, 89)


def same(picture: Image.Image, color: tuple[int, int, int]) -> np.ndarray:
    return (np.asarray(picture) == color).all(axis=2)


def test_the_frame_lies_around_the_rectangle_and_the_words_are_highlighted() -> None:
    drawn = draw_page(WHITE, place_of(evidence_on()))
    shape = (1000, 800)
    frame = rectangle(shape, (0.2, 0.3, 0.7, 0.5), 2) & ~rectangle(shape, (0.2, 0.3, 0.7, 0.5))
    words = rectangle(shape, (0.25, 0.35, 0.4, 0.38))
    assert same(drawn, TEAL)[frame].all()
    assert same(drawn, YELLOW)[words].all()
    rows, columns = np.nonzero(~same(drawn, (255, 255, 255)) & ~frame & ~words)
    assert columns.max() < 160, "the number stands left of the frame"
    assert rows.min() >= 298
    assert rows.max() < 330
    assert same(WHITE, (255, 255, 255)).all(), "the picture itself is not drawn on"


def test_evidence_alone_is_drawn_without_a_number() -> None:
    drawn = draw_evidence(WHITE, evidence_on())
    frame = rectangle((1000, 800), (0.2, 0.3, 0.7, 0.5), 2) & ~rectangle((1000, 800), (0.2, 0.3, 0.7, 0.5))
    assert (same(drawn, TEAL) == frame).all()
    whole = draw_evidence(WHITE, evidence_on(box=(0, 0, 1, 1), marks=()))
    assert whole == WHITE


def test_words_that_are_marked_twice_are_not_darker() -> None:
    mark = (0.25, 0.35, 0.4, 0.38)
    once, twice = (draw_page(WHITE, place_of(evidence_on(marks=marks))) for marks in ([mark], [mark, mark]))
    assert once == twice


def test_what_is_contradicted_has_another_colour() -> None:
    drawn = draw_page(WHITE, place_of(evidence_on(), verdict=ClaimVerdict.DOUBTED))
    assert same(drawn, RED).any()
    assert not same(drawn, TEAL).any()


def test_a_part_has_its_words_highlighted_below_its_number() -> None:
    area = Box.unit(0.2, 0.3, 0.7, 0.5)
    part = PagePart(Image.new("RGB", (800, 400), "white"), area)
    drawn = draw_part(part, place_of(evidence_on()))
    assert drawn.width == 800
    below = drawn.crop((0, drawn.height - 400, 800, drawn.height))
    words = rectangle((400, 800), (0.1, 0.25, 0.4, 0.4))
    found = same(below, YELLOW)
    assert found[words].all()
    assert not found[~words].any()
    assert same(drawn.crop((0, 0, 800, drawn.height - 400)), TEAL).any()
    assert same(part.image, (255, 255, 255)).all()


def test_a_whole_page_has_its_number_in_the_corner() -> None:
    drawn = draw_page(WHITE, place_of(evidence_on(box=(0, 0, 1, 1), marks=())))
    rows, columns = np.nonzero(same(drawn, TEAL))
    assert max(rows.max(), columns.max()) < 40


def test_a_recorded_picture_keeps_its_pixels() -> None:
    part = Image.effect_noise((60, 30), 80).convert("RGB")
    drawn = draw_numbered(part, place_of(evidence_on()))
    assert (np.asarray(drawn)[-30:, :60] == np.asarray(part)).all()


sides = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).filter(lambda pair: pair[0] < pair[1])


@given(x=sides, y=sides, number=st.sampled_from(["1", "12.34"]), size=st.tuples(*2 * [st.integers(8, 300)]))
def test_any_place_can_be_drawn(x: list[float], y: list[float], number: str, size: tuple[int, int]) -> None:
    box: BoxSides = (x[0], y[0], x[1], y[1])
    page = Image.new("RGB", size, "white")
    place = place_of(evidence_on(box=box, marks=(box,)), number)
    assert draw_page(page, place).size == size
    part = draw_part(PagePart(page, Box.unit(*box)), place)
    assert min(part.size) >= 8
    with Image.open(io.BytesIO(encode_png(part))) as read:
        assert read.size == part.size
        assert read.format == "PNG"
