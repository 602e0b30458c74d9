"""The words of a page are put into lines that have its text, whatever way they run."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.server.viewer.page_lines import list_lines
from vrag.types import Item, ItemFacts, ItemKind, TextSource, TurnedText, Word

Sides: TypeAlias = tuple[float, float, float, float]


def page(text: str, boxes: list[Sides], source: TextSource = TextSource.LAYER) -> Item:
    """A page of 1000 by 1000 pixels; the words of its text have these boxes."""
    words: list[Word] = []
    end = 0
    for word, box in zip(text.split(), boxes, strict=True):
        start = text.index(word, end)
        end = start + len(word)
        words.append(Word(start, end, Box.unit(*box)))
    return Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(words),
        text_source=source,
        size=Size(1000, 1000),
    )


def texts(item: Item) -> list[str]:
    return ["".join(word.text + word.separator for word in line.words) for line in list_lines(item)]


def across(x: float, y: float, letters: int) -> Sides:
    return x, y, x + 0.01 * letters, y + 0.02


def test_lines_end_where_the_text_says_so() -> None:
    item = page("one two\nthree", [across(0.1, 0.1, 3), across(0.2, 0.1, 3), across(0.1, 0.2, 5)])
    assert texts(item) == ["one two\n", "three"]


def test_a_word_that_is_parted_stays_whole_in_the_text() -> None:
    item = page("government", [(0.8, 0.1, 0.9, 0.12)])
    item = replace(
        item,
        words=(Word(0, 6, Box.unit(0.8, 0.1, 0.9, 0.12)), Word(6, 10, Box.unit(0.1, 0.13, 0.15, 0.15))),
    )
    assert texts(item) == ["govern", "ment"]


def test_words_of_which_the_next_stands_elsewhere_are_two_lines() -> None:
    item = page("top bottom", [across(0.1, 0.1, 3), across(0.1, 0.5, 6)])
    assert texts(item) == ["top ", "bottom"]


@pytest.mark.parametrize(("tops", "angle"), [([0.8, 0.7, 0.6], 270), ([0.2, 0.3, 0.4], 90)])
def test_a_line_written_sideways_is_turned(tops: list[float], angle: int) -> None:
    item = page("share of revenue", [(0.05, top, 0.07, top + 0.08) for top in tops])
    (line,) = list_lines(item)
    assert line.angle == angle


def test_short_words_follow_the_line_that_they_stand_on() -> None:
    item = page("total (%) il", [(0.05, 0.5, 0.07, 0.6), (0.05, 0.46, 0.07, 0.49), (0.05, 0.43, 0.07, 0.45)])
    assert [line.angle for line in list_lines(item)] == [270]
    upright = page("ill il", [(0.1, 0.1, 0.114, 0.12), (0.12, 0.1, 0.128, 0.12)])
    assert [line.angle for line in list_lines(upright)] == [0]


def test_arabic_and_hebrew_run_leftwards() -> None:
    item = page("שלום עולם 2024", [across(0.8, 0.1, 4), across(0.7, 0.1, 4), across(0.6, 0.1, 4)])
    assert [line.leftwards for line in list_lines(item)] == [True]
    assert not list_lines(page("hello שלום world", [across(x, 0.1, 5) for x in (0.1, 0.2, 0.3)]))[0].leftwards


PROSE = "the morning boat leaves", "before anyone has risen"


def two_columns(left: str, right: str, rows: int = 6) -> Item:
    text = "\n".join(f"{left} {right}" for _ in range(rows))
    boxes: list[Sides] = []
    for row in range(rows):
        for side, words in ((0.05, left), (0.55, right)):
            at = side
            for word in words.split():
                boxes.append(across(at, 0.1 + 0.03 * row, len(word)))
                at += 0.01 * len(word) + 0.01
    return page(text, boxes, TextSource.OCR)


def test_columns_that_were_read_across_are_read_one_after_the_other() -> None:
    left, right = PROSE
    assert texts(two_columns(left, right)) == [f"{left} "] * 6 + [f"{right}\n"] * 5 + [right]


def test_the_rows_of_a_table_are_left_whole() -> None:
    assert texts(two_columns("Orla", "84,210")) == ["Orla 84,210\n"] * 5 + ["Orla 84,210"]


BOXES = st.tuples(*[st.floats(-0.5, 1.5, allow_nan=False)] * 4)


@given(
    st.lists(st.tuples(st.text("abéא日 \n-", min_size=1, max_size=6), BOXES), max_size=25),
    st.sampled_from([TextSource.LAYER, TextSource.OCR]),
)
def test_no_word_is_lost_and_none_is_twice(pieces: list[tuple[str, Sides]], source: TextSource) -> None:
    pieces = [(word, box) for text, box in pieces for word in text.split()]
    item = page(" ".join(word for word, _ in pieces), [box for _, box in pieces], source)
    placed = [word for line in list_lines(item) for word in line.words]
    assert sorted(word.text for word in placed) == sorted(item.text.split())
    assert all(0 <= side <= 1 for word in placed for side in word[2:])
    if source is TextSource.LAYER:
        assert "".join(word.text + word.separator for word in placed) == item.text


def with_turned(item: Item, angle: int) -> Item:
    return replace(item, facts=ItemFacts(turned=(TurnedText(0, len(item.text), angle),)))


def test_the_page_says_how_its_lines_are_turned() -> None:
    item = page("il la\nof", [(0.1, 0.5, 0.12, 0.52), (0.1, 0.47, 0.12, 0.49), (0.14, 0.5, 0.16, 0.52)])
    assert [line.angle for line in list_lines(with_turned(item, 270))] == [270, 270]
    item = page("one two", [(0.8, 0.5, 0.83, 0.52), (0.75, 0.5, 0.78, 0.52)])
    (line,) = list_lines(with_turned(item, 180))
    assert (line.angle, [word.text for word in line.words]) == (180, ["one", "two"])


def test_a_turned_line_ends_where_upright_text_begins() -> None:
    item = page("up on", [(0.1, 0.1, 0.14, 0.12), (0.15, 0.1, 0.19, 0.12)])
    item = replace(item, facts=ItemFacts(turned=(TurnedText(0, 2, 90),)))
    assert [line.angle for line in list_lines(item)] == [90, 0]
