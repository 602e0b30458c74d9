"""Compounds keep their hyphen at the end of a line, divided words have none, and formulas their structure."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import fromstring

import pytest

from vrag.corpus.formats.libreoffice.equations import Formula
from vrag.corpus.formats.libreoffice.printed_text import (
    CheckBox,
    find_checks,
    find_compounds,
    find_unprinted,
    restore_formulas,
    restore_hyphens,
    write_checks,
)
from vrag.corpus.formats.libreoffice.xml_parts import NAMES
from vrag.geometry import Box
from vrag.types import Item, ItemFacts, ItemKind, MarkedHeading, TurnedText, Word

if TYPE_CHECKING:
    from collections.abc import Iterator


def compounds_of(*paragraphs: str) -> dict[str, int]:
    body = "".join(f"<text:p>{text}</text:p>" for text in paragraphs)
    return find_compounds(fromstring(f'<a xmlns:text="{NAMES["text"]}">{body}</a>'))


def make_item(*pieces: str) -> Item:
    """An item whose pieces have a box each; one that begins with "+" is joined to the one before."""
    text, words = "", list[Word]()
    for piece in pieces:
        text += "" if piece.startswith("+") or not text else " "
        start = len(text)
        text += piece.lstrip("+")
        words.append(Word(start, len(text), Box.unit(0, 0, 1, 1)))
    return Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a.docx",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(words),
    )


def test_a_compound_that_was_joined_at_the_end_of_a_line_has_its_hyphen_again() -> None:
    item = restore_hyphens(make_item("The", "one", "+concept", "rule"), compounds_of("a one-concept rule"))
    assert item.text == "The one-concept rule"
    assert [item.text[word.start : word.end] for word in item.words] == ["The", "one", "concept", "rule"]


def test_each_hyphen_of_a_compound_may_end_a_line() -> None:
    compounds = compounds_of("state-of-the-art")
    for pieces in (("state", "+of-the-art"), ("state-of", "+the-art"), ("state-of-the", "+art")):
        assert restore_hyphens(make_item(*pieces), compounds).text == "state-of-the-art"


def test_divided_words_and_words_on_one_line_stay_joined() -> None:
    compounds = compounds_of("re-sign, resign, develop-ment")
    divided = make_item("re", "+sign", "harbour", "har", "+bour")
    assert restore_hyphens(divided, compounds) == divided
    on_one_line = make_item("development")
    assert restore_hyphens(on_one_line, compounds) == on_one_line


def test_words_of_two_paragraphs_and_parts_of_words_are_no_compounds() -> None:
    assert compounds_of("Costs one-", "concept") == {}
    assert compounds_of("a <text:span>one</text:span>-concept rule") == {"oneconcept": 3}


def test_facts_move_with_the_text() -> None:
    item = make_item("one", "+concept", "two", "+part", "end")
    facts = ItemFacts(turned=(TurnedText(11, 22, 90),), headings=(MarkedHeading(0, 10, 1),))
    item = restore_hyphens(replace(item, facts=facts), compounds_of("one-concept two-part"))
    (turned,), (heading,) = item.facts.turned, item.facts.headings
    assert item.text == "one-concept two-part end"
    assert item.text[turned.start : turned.end] == "two-part end"[: turned.end - turned.start]
    assert item.text[heading.start : heading.end] == "one-concept"


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


def words_of(item: Item) -> list[str]:
    return [item.text[word.start : word.end] for word in item.words]


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


def box_of(state: str = "") -> str:
    checked = f'<field:param field:name="Checkbox_Checked" field:value="{state}"/>' if state else ""
    return (
        f'<field:fieldmark field:type="vnd.oasis.opendocument.field.FORMCHECKBOX">{checked}</field:fieldmark>'
    )


def checks_of(*paragraphs: str) -> tuple[CheckBox, ...]:
    names = " ".join(f'xmlns:{prefix}="{NAMES[prefix]}"' for prefix in ("text", "field", "table"))
    return find_checks(fromstring(f"<a {names}>{''.join(paragraphs)}</a>"))


def test_check_boxes_of_old_forms_have_their_state_in_the_text() -> None:
    row = "<table:table-row><b>{}</b><b>{}</b></table:table-row>"
    checks = checks_of(
        f"<text:p>{box_of('true')} Insured</text:p>",
        f"<text:p>Heated: {box_of()}</text:p>",
        f"<text:p>Water {box_of('false')} yes {box_of('true')} no</text:p>",
        row.format("<text:p>Crane needed</text:p>", f"<text:p>{box_of('true')}</text:p>"),
        row.format(f"<text:p>{box_of()}</text:p>", "<text:p>Dogs</text:p>"),
        row.format("<text:p>Mast</text:p>", f"<text:p>{box_of()}</text:p><text:p>{box_of('true')}</text:p>"),
    )
    page = make_item("Insured", "Heated:", "Water", "yes", "no", "Crane", "needed", "Dogs", "Mast")
    page = replace(page, text=page.text.replace(" Heated", "\nHeated").replace(" Water", "\nWater"))
    item = write_checks(page, checks)
    assert item.text == "☑ Insured\nHeated: ☐\nWater ☐ yes ☑ no Crane needed ☑ ☐ Dogs Mast ☐ ☑"
    assert words_of(item) == ["Insured", "Heated:", "Water", "yes", "no", "Crane", "needed", "Dogs", "Mast"]


def test_a_check_box_whose_place_is_not_sure_is_not_written() -> None:
    twice = checks_of(f"<text:p>{box_of('true')} Fee</text:p>")
    for page in (make_item("Fees", "of", "the", "pier"), make_item("Fee", "and", "Fee")):
        assert write_checks(page, twice) == page
    many = make_item(*("Fee paid in full by the owner of the boat " * 2).split())
    assert write_checks(many, checks_of(f"<text:p>{box_of('true')} Fee paid in full</text:p>")) == many


def test_a_check_box_at_the_begin_of_a_page_is_found_by_what_follows() -> None:
    follows = "Insurance is paid for the whole season of the year"
    checks = checks_of(
        "<text:p>Words of the page before this one</text:p>", f"<text:p>{box_of()} {follows}</text:p>"
    )
    assert write_checks(make_item(*follows.split()), checks).text == f"☐ {follows}"
