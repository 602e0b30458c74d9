"""Values of slides and forms are found with the labels beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading.answer import MarkRole
from vrag.reading.labelled_values import LabelSide, match_values
from vrag.reading.page_text import read_page_text
from vrag.types import Item, ItemKind, Word

PLACED = tuple[float, float, float, str]
"""Left, top and height, as shares of a square page, and words."""


def page(*lines: PLACED) -> Item:
    text, words = "", list[Word]()
    for left, top, height, line in lines:
        at = 0
        for word in line.split():
            at = line.index(word, at)
            x = left + at * height / 2
            box = Box.unit(x, top, min(x + len(word) * height / 2, 1.0), top + height)
            words.append(Word(len(text) + at, len(text) + at + len(word), box))
            at += len(word)
        text += line + "\n"
    return Item(
        id="slide-1", document="s", document_name="s.pdf", kind=ItemKind.PAGE, ordinal=1, text=text,
        words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


SLIDE = page(
    (0.1, 0.05, 0.05, "What you told us"),
    (0.1, 0.30, 0.06, "58"), (0.5, 0.30, 0.06, "34 %"),
    (0.1, 0.37, 0.02, "miss the bakery on"), (0.5, 0.37, 0.02, "want shelves"),
    (0.1, 0.395, 0.02, "board"), (0.5, 0.395, 0.02, "for kayaks"),
    (0.1, 0.70, 0.02, "Opening hours:"), (0.3, 0.70, 0.02, "9.30"),
    (0.6, 0.60, 0.02, "First crossing"), (0.6, 0.63, 0.04, "3 May 2027"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("side", "value", "label"),
    [
        (LabelSide.BELOW, "58", "miss the bakery on board"),
        (LabelSide.BELOW, "34 %", "want shelves for kayaks"),
        (LabelSide.LEFT, "9.30", "Opening hours:"),
        (LabelSide.ABOVE, "3 May 2027", "First crossing"),
    ],
)
def test_a_value_is_found_with_its_label(side: LabelSide, value: str, label: str) -> None:
    found = {(one.side, one.text): one.label for one in read_page_text(SLIDE).values}
    assert found[side, value] == label


def test_the_value_and_its_label_are_marked() -> None:
    (bakery,) = (one for one in read_page_text(SLIDE).values if one.text == "58")
    value, label = bakery.marks
    assert (value.role, label.role) == (MarkRole.ANSWER, MarkRole.HEAD)
    assert value.box.covers(0.12, 0.33)
    assert label.box.covers(0.12, 0.40)
    assert bakery.size == pytest.approx(3.0)


def test_the_value_whose_label_has_the_question_comes_first() -> None:
    weights = {"bakery": 0.5, "miss": 0.3, "board": 0.1, "kayak": 0.1}
    first, second = match_values(read_page_text(SLIDE).values, weights, 5)
    assert (first.value.text, second.value.text) == ("58", "34 %")
    assert first.cover == pytest.approx(0.9)
    assert match_values(read_page_text(SLIDE).values, {"whale": 1.0}, 5) == []


def test_words_that_only_hold_a_number_are_no_values() -> None:
    item = page((0.1, 0.1, 0.02, "more than in 2023"), (0.1, 0.13, 0.02, "passengers carried"))
    assert read_page_text(item).values == ()


lines = st.lists(
    st.tuples(
        st.floats(0, 0.9),
        st.floats(0, 0.9),
        st.floats(0.001, 0.1),
        st.sampled_from(["12 %", "2027", "ferry", "a b"]),
    ),
    max_size=12,
)


@given(lines)
def test_any_page_gives_values_with_labels_on_it(placed: list[PLACED]) -> None:
    item = page(*placed)
    for found in read_page_text(item).values:
        assert found.label
        assert found.gap >= 0
        for mark in found.marks:
            assert 0 <= mark.box.x1 <= mark.box.x2 <= 1
            assert 0 <= mark.box.y1 <= mark.box.y2 <= 1
