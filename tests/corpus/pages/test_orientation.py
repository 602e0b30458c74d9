"""Pictures are read in the direction in which their lines run."""

from __future__ import annotations

from functools import cache
from typing import NoReturn

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from vrag.corpus.pages import orientation
from vrag.corpus.pages.orientation import read_directions
from vrag.corpus.pages.page_pass import PageReading, read_picture
from vrag.types import TurnedText

LINES = ["Office of the harbour master", "your mooring permit has", "the number 7741-B."]


def refuse(*_: object, **__: object) -> NoReturn:
    """Stands for what must not be called."""
    pytest.fail("it was called")


@cache
def letter() -> Image.Image:
    image = Image.new("RGB", (460, 260), "white")
    for number, line in enumerate(LINES):
        font = ImageFont.load_default(26)
        ImageDraw.Draw(image).text((40, 40 + 60 * number), line, "black", font)
    return image


@cache
def read_turned(angle: int) -> PageReading:
    """Read the letter, turned clockwise."""
    return read_picture(letter().rotate(-angle, expand=True))


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_a_turned_scan_reads_as_the_upright_one(angle: int) -> None:
    reading = read_turned(angle)
    assert reading.text.split("\n") == LINES
    turned = (TurnedText(0, len(reading.text), angle),) if angle else ()
    assert reading.facts.turned == turned


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_words_lie_where_they_are_on_the_turned_picture(angle: int) -> None:
    width, height = letter().size
    for upright, word in zip(read_turned(0).words, read_turned(angle).words, strict=True):
        box = upright.box
        x, y = (box.x1 + box.x2) / 2 * width, (box.y1 + box.y2) / 2 * height
        match angle:
            case 90:
                x, y, size = height - y, x, (height, width)
            case 180:
                x, y, size = width - x, height - y, (width, height)
            case _:
                x, y, size = y, width - x, (height, width)
        assert abs((word.box.x1 + word.box.x2) / 2 * size[0] - x) < 8
        assert abs((word.box.y1 + word.box.y2) / 2 * size[1] - y) < 8


def test_a_typed_line_on_a_scan_that_stands_upside_down_does_not_hide_its_direction() -> None:
    scan = letter().rotate(180)
    ImageDraw.Draw(scan).text((20, 8), "Scanned by the harbour office", "black", ImageFont.load_default(20))
    lines = read_picture(scan).text.split("\n")
    assert set(LINES) <= set(lines)


def test_a_turned_part_of_an_upright_page_is_read_in_its_own_direction() -> None:
    page = Image.new("RGB", (900, 700), "white")
    page.paste(letter(), (20, 20))
    page.paste(letter().rotate(90, expand=True), (600, 200))
    text = read_picture(page).text
    assert text.split("\n") == [*LINES, *LINES]


def test_an_upright_page_that_reads_well_is_not_tried_in_other_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orientation._known_readings.clear()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(orientation, "read_strip", refuse)
    (reading,) = read_directions(np.asarray(letter()))
    assert (reading.angle, len(reading.lines)) == (0, len(LINES))


def test_a_part_that_stands_on_many_pages_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = read_directions(np.asarray(letter()), (10, 20))
    monkeypatch.setattr(orientation, "read_lines", refuse)
    (again,) = read_directions(np.asarray(letter()), (300, 400))
    assert again == first._replace(origin=(300, 400))
