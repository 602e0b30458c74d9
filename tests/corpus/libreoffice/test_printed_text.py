"""Compounds keep their hyphen at the end of a line, check boxes their state, and cut boxes are passages."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import fromstring

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.formats.libreoffice import printed_text
from vrag.corpus.formats.libreoffice.printed_text import (
    CheckBox,
    find_checks,
    find_compounds,
    find_cut_boxes,
    read_boxes,
    read_printed_letters,
    restore_hyphens,
    write_checks,
)
from vrag.corpus.formats.libreoffice.xml_parts import NAMES
from vrag.geometry import Box
from vrag.types import Item, ItemFacts, ItemKind, MarkedHeading, TurnedText, Word

if TYPE_CHECKING:
    pass

SPACES = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMES.items())


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


def words_of(item: Item) -> list[str]:
    return [item.text[word.start : word.end] for word in item.words]


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


def printed(*lines: str) -> str | None:
    content = "".join(text_at(72, 700 - 30 * number, line) for number, line in enumerate(lines))
    return read_printed_letters(io.BytesIO(pdf_bytes(PdfPage(content))))


def test_texts_of_boxes_and_shapes_are_read_once() -> None:
    box = "<draw:text-box><text:p>Harbour</text:p><text:p>office</text:p></draw:text-box>"
    root = fromstring(
        f"<a {SPACES}><text:p>Body{box}{box}</text:p>"
        "<draw:custom-shape><text:p>Pier</text:p></draw:custom-shape><draw:text-box/></a>"
    )
    assert read_boxes(root) == ("Harbour\noffice", "Pier")


def test_a_box_that_is_printed_whole_is_no_passage_however_its_lines_are_broken() -> None:
    letters = printed("Ask the har-", "bour office", "before noon.")
    assert find_cut_boxes(["Ask the harbour office before noon."], letters) == ()


def test_a_box_that_is_cut_off_is_a_passage_with_all_of_its_text() -> None:
    text = "Ask the harbour office.\nFees are 12 euro."
    (section,) = find_cut_boxes([text, "Ask"], printed("Ask the harbour office."))
    assert (section.headings, section.text) == (("Text box",), text)


def test_lines_below_the_end_of_a_box_are_cut_off_though_the_file_has_them() -> None:
    text = "Ask the harbour office.\nFees are 12 euro."
    lines = text_at(72, 700, "Ask the harbour office.") + text_at(72, 670, "Fees are 12 euro.")
    for top, sections in ((690, 1), (660, 0)):
        file = pdf_bytes(PdfPage(f"q 60 {top} 400 {740 - top} re W n {lines} Q"))
        assert len(find_cut_boxes([text], read_printed_letters(io.BytesIO(file)))) == sections


def test_a_document_of_too_many_pages_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_text, "MAX_PAGES", 0)
    assert find_cut_boxes(["Gone"], printed("Ask")) == ()
