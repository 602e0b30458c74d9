"""The slope of a page, and strokes of letters that are no ruling lines."""

from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from vrag.geometry import Box, Size
from vrag.reading.tables.ruled.ruling_lines import find_rules
from vrag.reading.tables.text_pieces import join_words, straighten_words
from vrag.types import Item, ItemFacts, ItemKind, TextSource, TurnedText, Word

SIZE = 1000


def make_lines(slope: float, *, rising: bool = False) -> Item:
    """Lines of words with and without stems; in rising ones every second word stands higher."""
    chance = random.Random(7)
    words: list[Word] = []
    for line in range(20):
        for number in range(8):
            x, width = 60 + 110 * number, 60 + chance.randrange(40)
            top, bottom = chance.choice((0, 5)), chance.choice((15, 20))
            if rising and number % 2:
                top, bottom = 0, 15
            y = 100 + 35 * line + slope * (x + width / 2)
            box = Box.unit(x / SIZE, (y + top) / SIZE, (x + width) / SIZE, (y + bottom) / SIZE)
            words.append(Word(0, 2, box))
    return Item(
        id="0-1",
        document="0",
        document_name="x",
        kind=ItemKind.PAGE,
        ordinal=1,
        text="ab",
        words=tuple(words),
        text_source=TextSource.LAYER,
        size=Size(SIZE, SIZE),
    )


@pytest.mark.parametrize("rising", [False, True])
def test_letters_of_different_heights_do_not_tilt_a_page(rising: bool) -> None:
    assert straighten_words(make_lines(0.0, rising=rising)).slope == 0.0


@pytest.mark.parametrize("slope", [-0.03, 0.02])
def test_a_tilted_page_is_set_straight(slope: float) -> None:
    page = straighten_words(make_lines(slope))

    assert page.slope == pytest.approx(slope, abs=0.002)
    firsts = page.straight[::8, 3] - page.straight[7::8, 3]
    assert abs(float(np.median(firsts))) < 3


def test_the_stem_at_the_side_of_a_word_is_no_rule_but_a_line_beside_it_is() -> None:
    picture = Image.new("L", (400, 200), "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((149, 82, 150, 98), fill="black")
    draw.line((200, 60, 200, 120), fill="black")
    words = np.array([[100.0, 80.0, 151.0, 100.0], [201.0, 80.0, 260.0, 100.0]])

    rules = find_rules(picture, 400, 200, words, 14, 0.0)

    assert [round(rule.at) for rule in rules.vertical] == [200]


def test_the_parts_of_a_turned_word_in_a_cell_are_in_their_order() -> None:
    parts = ((0, 1, 0.9), (1, 6, 0.5), (6, 7, 0.4))
    words = tuple(Word(start, end, Box.unit(0.5, top, 0.52, top + 0.1)) for start, end, top in parts)
    item = Item(
        id="0-1",
        document="0",
        document_name="x",
        kind=ItemKind.PAGE,
        ordinal=1,
        text="Rotated pier",
        words=(*words, Word(8, 12, Box.unit(0.6, 0.4, 0.7, 0.5))),
        facts=ItemFacts(turned=(TurnedText(0, 7, 270),)),
    )
    assert join_words(item, [2, 1, 0]) == "Rotated"
    assert join_words(item, [3]) == "pier"
    assert join_words(item, [3, 0, 1, 2]) == "pier Rotated"
