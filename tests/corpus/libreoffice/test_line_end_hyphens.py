"""Compounds keep their hyphen at the end of a line, and divided words have none."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import fromstring

from vrag.corpus.formats.libreoffice.line_end_hyphens import find_compounds, restore_hyphens
from vrag.corpus.formats.libreoffice.xml_parts import NAMES
from vrag.geometry import Box
from vrag.types import Item, ItemFacts, ItemKind, MarkedHeading, TurnedText, Word


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
