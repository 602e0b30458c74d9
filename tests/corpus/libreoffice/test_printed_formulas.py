"""Formulas have their structure in the text of printed pages, and words of other text stay as they are."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from corpus.libreoffice.test_printed_text import make_item, words_of
from vrag.corpus.formats.libreoffice.equations import Formula
from vrag.corpus.formats.libreoffice.printed_formulas import find_unprinted, restore_formulas
from vrag.geometry import Box
from vrag.types import Item, ItemFacts, MarkedHeading, Word

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEED = Formula("v = s/t", "vst", "v=st")
"""A fraction."""


def make_page(*pieces: tuple[str, float]) -> Item:
    """An item whose pieces, each with the middle of its box, are words of a tenth of the page in height."""
    item = make_item(*(text for text, _ in pieces))
    words = (
        replace(word, box=Box.unit(0, middle - 0.05, 1, middle + 0.05))
        for word, (_, middle) in zip(item.words, pieces, strict=True)
    )
    return replace(item, words=tuple(words))


PRINTED = ("The", 0.5), ("speed", 0.5), ("v=", 0.5), ("s", 0.45), ("t", 0.58), ("is", 0.5), ("high.", 0.5)


def test_a_formula_is_written_with_its_structure_and_its_words_keep_their_boxes() -> None:
    page = make_page(*PRINTED)
    item = restore_formulas(page, [SPEED])
    assert item.text == "The speed v = s/t is high."
    assert words_of(item) == ["The", "speed", "v", "s", "t", "is", "high."]
    assert [word.box for word in item.words] == [word.box for word in page.words]


def test_what_stands_behind_a_formula_is_moved_with_it() -> None:
    page = make_page(*PRINTED)
    start = page.text.index("high")
    page = replace(page, facts=ItemFacts(headings=(MarkedHeading(start, start + 5, 2),)))
    item = restore_formulas(page, [SPEED])
    (heading,) = item.facts.headings
    assert item.text[heading.start : heading.end] == "high."


def test_each_of_several_formulas_is_written_where_it_stands() -> None:
    power = Formula("x² + 1", "x21", "x2+1")
    page = make_page(*PRINTED, ("x", 0.7), ("2+1", 0.66), ("and", 0.7), *PRINTED[2:5])
    assert restore_formulas(page, [power, SPEED]).text == "The speed v = s/t is high. x² + 1 and v = s/t"


def test_the_same_letters_of_other_words_are_no_formula() -> None:
    for pieces in (
        [("The", 0.5), ("half", 0.5), ("of", 0.5), ("12", 0.5), ("litres", 0.6)],
        [("a", 0.5), ("1,", 0.5), ("2", 0.58)],
        [("1", 0.5), ("2", 0.5)],
        [("x1", 0.45), ("2", 0.58)],
    ):
        page = make_page(*pieces)
        assert restore_formulas(page, [Formula("1/2", "12", "12")]) == page


HALF, SQUARE, OTHER_SQUARE = Formula("1/2", "12", "12"), Formula("a²", "a2", "a2"), Formula("y²", "y2", "y2")


def make_lines(*lines: str | tuple[tuple[str, float, float, float, float], ...]) -> Item:
    """An item of lines: words in a row with the heights of their ink, or words with their boxes.

    A line is 18 thousandths of the page high and a letter 8 wide. Boxes are left, top, right and bottom in
    thousandths.
    """
    text, words = "", list[Word]()
    for number, line in enumerate(lines):
        placed = list(place_words(line, 100 + 18 * number)) if isinstance(line, str) else line
        for at, (written, *box) in enumerate(placed):
            text += "" if not text else " " if at else "\n"
            words.append(Word(len(text), len(text) + len(written), Box.unit(*(each / 1000 for each in box))))
            text += written
    return replace(make_item(), text=text, words=tuple(words))


def place_words(line: str, baseline: float) -> Iterator[tuple[str, float, float, float, float]]:
    left = 120
    for word in line.split():
        top = 7 if set(word) <= set("acemnorsuvwxyz=") else 10
        bottom = 3 if set(word) & set("gjpqy") else 0
        yield word, left, baseline - top, left + 8 * len(word) - 1, baseline + bottom
        left += 8 * (len(word) + 1)


@pytest.mark.parametrize(
    "lines",
    [
        ("The fees are in table 1", "2 copies are kept."),
        ("1", "2", "3", "4"),
        ("1", "2"),
        ("In 1", "2 copies"),
        ("1 pier", "2 piers"),
        ("see annex a", "2 copies"),
        ("a", "2 copies"),
        ("a", "2"),
        ("of group y 2 copies",),
        ("annex a 2",),
    ],
)
def test_letters_at_the_end_of_a_line_and_at_the_begin_of_the_next_are_no_formula(lines: tuple[str]) -> None:
    page = make_lines(*lines)
    assert restore_formulas(page, [HALF, SQUARE, OTHER_SQUARE]) == page


@pytest.mark.parametrize(
    "lines",
    [
        ("It is a", "b long"),
        ("The speed of the boat is v=s", "t is the time"),
        ("v=s", "t"),
        ("sum y ab",),
        ("c+d", "2e is"),
    ],
)
def test_longer_formulas_are_not_found_in_lines_of_text(lines: tuple[str]) -> None:
    page = make_lines(*lines)
    formulas = [Formula("a/b", "ab", "ab"), SPEED, Formula("y = a/b", "yab", "y=ab")]
    assert restore_formulas(page, [*formulas, Formula("(c+d)/(2e)", "cd2e", "c+d2e")]) == page


def test_short_formulas_whose_boxes_are_certain_are_written() -> None:
    half = (("is", 182, 142, 191, 152), ("1", 200, 132, 207, 142)), (("2", 199, 151, 207, 161),)
    assert restore_formulas(make_lines(*half, (("of", 215, 142, 229, 152),)), [HALF]).text == "is 1/2\nof"
    power = (("y", 283, 174, 293, 184),), (("2", 295, 167, 299, 173),)
    assert restore_formulas(make_lines(*power), [OTHER_SQUARE]).text == "y²"


def test_a_fraction_with_signs_may_stand_alone() -> None:
    lines = (("c+d", 121, 258, 153, 268),), (("2", 127, 277, 135, 287), ("e", 139, 280, 147, 287))
    assert restore_formulas(make_lines(*lines), [Formula("(c+d)/(2e)", "cd2e", "c+d2e")]).text == "(c+d)/(2e)"


def test_pages_of_equal_letters_and_formulas_of_them_are_compared_within_a_bound() -> None:
    page = make_item(*["a"] * 2000)
    formulas = [Formula(f"a/{'a' * count}", "a" * (count + 1), "a" * (count + 1)) for count in range(1, 1900)]
    calls = 0

    def count_call(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 3_000_000:
            raise OverflowError

    sys.setprofile(count_call)
    try:
        item = restore_formulas(page, formulas)
    finally:
        sys.setprofile(None)
    assert item == page


def test_brackets_and_roots_around_a_formula_belong_to_it() -> None:
    root = Formula("√(x+1)", "x1", "√x+1")
    page = make_page(("is", 0.5), ("√", 0.5), ("x+1", 0.5), ("(m)", 0.5))
    assert restore_formulas(page, [root]).text == "is √(x+1) (m)"


def test_formulas_that_no_page_has_are_sections() -> None:
    assert find_unprinted([SPEED], "thespeedvstishigh") == ()
    (section,) = find_unprinted([SPEED, Formula("a/b", "ab", "ab")], "the speed vst".replace(" ", ""))
    assert (section.headings, section.text) == (("Formulas",), "a/b")
    assert find_unprinted([SPEED], None) == ()
