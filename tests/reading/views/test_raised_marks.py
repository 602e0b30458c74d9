"""Marks of footnotes are left out of a text without moving anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box
from vrag.reading.views.raised_marks import leave_out_marks, without_raised_marks
from vrag.types import Item, ItemFacts, ItemKind, TurnedText, Word


def page(text: str) -> Item:
    """A page; the words of its text, in order, stand side by side."""
    words: list[Word] = []
    at = 0
    for number, word in enumerate(text.split()):
        at = text.index(word, at)
        words.append(Word(at, at + len(word), Box.unit(number / 100, 0.1, (number + 1) / 100, 0.2)))
        at += len(word)
    return Item(
        id="0-1",
        document="0",
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(words),
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The crane lifts 480 ¹ tonnes.", "The crane lifts 480 tonnes."),
        ("Built in 1931 ²,³.", "Built in 1931."),
        ("EUR 75 ᵃ a day", "EUR 75 a day"),
        ("Sales ⁽¹⁾ 12", "Sales 12"),
        ("84,210¹", "84,210"),
        ("² Without schools\n³ Corrected", "Without schools\nCorrected"),
        ("an area of 5,200 m²", "an area of 5,200 m²"),
        ("3 × 10 ⁶ and 10 ⁻⁸", "3 × 10 ⁶ and 10 ⁻⁸"),
        ("x² + y²", "x² + y²"),
    ],
)
def test_marks_of_notes_go_and_powers_stay(text: str, plain: str) -> None:
    assert without_raised_marks(text) == plain
    assert leave_out_marks(page(text)).text == plain


@given(
    st.lists(st.sampled_from(["480", "¹", "tonnes", "m²", "²,³", "10", "\n", "84,210¹", "ᵃ"]), max_size=12)
)
def test_words_keep_their_text_and_their_place(parts: list[str]) -> None:
    item = page(" ".join(parts))
    found = leave_out_marks(item)
    assert found.text == without_raised_marks(item.text)
    boxes = {word.box: item.text[word.start : word.end] for word in item.words}
    for word in found.words:
        shown = found.text[word.start : word.end]
        assert shown
        assert shown in {boxes[word.box], without_raised_marks(boxes[word.box])}


def test_turned_parts_move_with_their_text() -> None:
    item = page("480 ¹ tonnes\nup here")
    item = replace(item, facts=ItemFacts(turned=(TurnedText(13, 20, 270),)))
    (turned,) = leave_out_marks(item).facts.turned
    assert leave_out_marks(item).text[turned.start : turned.end] == "up here"


def test_a_text_without_marks_is_the_same_item() -> None:
    item = page("nothing raised, 12 m²")
    assert leave_out_marks(item) is item
