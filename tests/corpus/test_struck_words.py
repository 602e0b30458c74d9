"""Words that a rule strikes out are kept apart; words beside, above and between rules are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from corpus.test_pdf import items_of
from vrag.corpus.converter import CorpusOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.types import Item, OcrMode

OLD, NEW = "EUR 4,500", "EUR 5,200"
OLD_WIDTH = 117
"""Points that the old price takes at a size of 24."""
WITHOUT_OCR = CorpusOptions(ocr="never")


def rule_at(x1: float, x2: float, y: float, width: float = 1.2) -> str:
    """Draws a level line."""
    return f"{width} w {x1} {y} m {x2} {y} l S\n"


def bar_at(x1: float, x2: float, y: float, height: float = 1.2) -> str:
    """Fills a thin rectangle."""
    return f"{x1} {y} {x2 - x1} {height} re f\n"


def prices(mark: str) -> str:
    """Two prices in one line, and what is drawn over them."""
    return text_at(72, 600, OLD) + text_at(72 + OLD_WIDTH + 7, 600, NEW) + mark


def read_item(tmp_path: Path, content: str, entries: str = "/MediaBox [0 0 612 792]") -> Item:
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content, entries)), WITHOUT_OCR)
    return item


@pytest.mark.parametrize("y", [605, 607, 609])
@pytest.mark.parametrize("draw", [rule_at, bar_at])
def test_words_under_a_rule_are_kept_apart(
    tmp_path: Path, draw: Callable[[float, float, float], str], y: float
) -> None:
    item = read_item(tmp_path, prices(draw(71, 72 + OLD_WIDTH, y)))
    assert item.text == NEW
    assert item.facts.hidden_text == OLD
    assert not item.facts.unread  # the ink of struck words is no picture that nothing has read


def test_a_page_that_is_shown_turned_has_its_rules_turned(tmp_path: Path) -> None:
    content = "0 1 -1 0 700 0 cm\n" + prices(rule_at(71, 72 + OLD_WIDTH, 607))
    item = read_item(tmp_path, content, "/MediaBox [0 0 612 792] /Rotate 90")
    assert item.text == NEW
    assert item.facts.hidden_text == OLD


def test_a_rule_in_pieces_is_one(tmp_path: Path) -> None:
    pieces = "".join(bar_at(72 + 12 * n, 84 + 12 * n, 607) for n in range(9)) + bar_at(180, 189, 607)
    item = read_item(tmp_path, prices(pieces))
    assert item.facts.hidden_text == OLD


def test_a_sign_behind_the_rule_belongs_to_the_word(tmp_path: Path) -> None:
    item = read_item(tmp_path, text_at(72, 600, f"{OLD}; {NEW}") + rule_at(72, 72 + OLD_WIDTH, 607))
    assert item.text == NEW


@pytest.mark.parametrize(
    "mark",
    [
        rule_at(72, 187, 597),  # an underline
        rule_at(72, 187, 600),
        rule_at(72, 187, 620),  # a line above
        rule_at(20, 580, 607),  # a line of a table or a chart
        rule_at(72, 100, 607),  # through a part of a word
        rule_at(100, 300, 607),
        "0.9 g " + bar_at(72, 187, 600, 18),  # a highlight
        rule_at(72, 180, 607, 9),
        "1 G " + rule_at(72, 187, 607),  # white
        "".join(rule_at(60, 62, y) for y in (605, 607, 609)),
    ],
)
def test_other_rules_strike_nothing_out(tmp_path: Path, mark: str) -> None:
    item = read_item(tmp_path, mark + "0 g 0 G " + prices(""))
    assert OLD in item.text
    assert not item.facts.hidden_text


def test_the_bar_of_a_fraction_strikes_nothing_out(tmp_path: Path) -> None:
    fraction = text_at(72, 606, "12", 8) + text_at(72, 596, "25", 8) + rule_at(71, 82, 604.2, 0.5)
    item = read_item(tmp_path, text_at(40, 600, "is", 12) + fraction)
    assert not item.facts.hidden_text
    assert "12" in item.text
    assert "25" in item.text


def test_a_single_letter_with_a_stroke_is_a_letter(tmp_path: Path) -> None:
    item = read_item(tmp_path, text_at(72, 600, "D 7") + rule_at(72, 90, 607))
    assert item.text == "D 7"


def test_ocr_does_not_read_struck_words_again(tmp_path: Path) -> None:
    content = text_at(72, 600, OLD) + rule_at(71, 72 + OLD_WIDTH, 607) + text_at(72, 500, NEW)
    modes: tuple[OcrMode, ...] = ("auto", "always")
    for mode in modes:
        (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)), CorpusOptions(ocr=mode))
        assert "4,500" not in item.text
        assert "5,200" in item.text
        assert item.facts.hidden_text == OLD


def test_a_page_of_struck_words_alone_has_no_text(tmp_path: Path) -> None:
    content = text_at(72, 600, OLD) + rule_at(71, 72 + OLD_WIDTH, 607)
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content)), CorpusOptions())
    assert item.text == ""
    assert item.facts.hidden_text == OLD


TURNS = {
    "down": "0 -1 1 0 100 780 cm\n",
    "up": "0 1 -1 0 700 20 cm\n",
    "upside down": "-1 0 0 -1 600 900 cm\n",
}
"""Turn what is drawn after it, so that its lines run in these directions."""


@pytest.mark.parametrize("direction", TURNS)
def test_turned_words_under_a_rule_are_kept_apart(tmp_path: Path, direction: str) -> None:
    content = TURNS[direction] + prices(rule_at(71, 72 + OLD_WIDTH, 607)).replace(" 600 ", " 300 ")
    content = content.replace(" 607 ", " 307 ")
    item = read_item(tmp_path, content)
    assert item.text == NEW
    assert item.facts.hidden_text == OLD


@pytest.mark.parametrize("direction", TURNS)
def test_other_rules_beside_turned_words_strike_nothing_out(tmp_path: Path, direction: str) -> None:
    marks = rule_at(72, 187, 297) + rule_at(20, 580, 307) + rule_at(72, 100, 307)
    item = read_item(tmp_path, TURNS[direction] + prices(marks).replace(" 600 ", " 300 "))
    assert OLD in item.text
    assert not item.facts.hidden_text


def test_a_rule_along_turned_words_does_not_strike_out_level_ones(tmp_path: Path) -> None:
    """The same place is another one where a line is turned."""
    content = prices("") + "q " + TURNS["down"] + text_at(72, 300, "Sheet 7") + rule_at(71, 160, 307) + "Q "
    item = read_item(tmp_path, content)
    assert item.text == f"{OLD} {NEW}"
    assert item.facts.hidden_text == "Sheet 7"


def struck_by_annotation(left: float, right: float, flags: int = 4) -> str:
    """Entries of a page with an annotation that strikes out a part of the line of prices."""
    quad = f"{left} 620 {right} 620 {left} 594 {right} 594"
    return (
        "/MediaBox [0 0 612 792] /Annots [<< /Type /Annot /Subtype /StrikeOut /C [1 0 0] "
        f"/F {flags} /Rect [{left} 594 {right} 620] /QuadPoints [{quad}] >>]"
    )


def test_words_that_an_annotation_strikes_out_are_kept_apart(tmp_path: Path) -> None:
    item = read_item(tmp_path, prices(""), struck_by_annotation(71, 72 + OLD_WIDTH))
    assert item.text == NEW
    assert item.facts.hidden_text == OLD


def test_an_annotation_with_a_rectangle_for_each_letter_strikes_out_words(tmp_path: Path) -> None:
    """Such are marks that were made letter by letter."""
    quads = " ".join(f"{x} 620 {x + 9} 620 {x} 594 {x + 9} 594" for x in range(71, 188, 9))
    entries = re.sub(r"/QuadPoints \[.*?\]", f"/QuadPoints [{quads}]", struck_by_annotation(71, 190))
    assert read_item(tmp_path, prices(""), entries).text == NEW


def test_annotations_that_are_hidden_or_cover_little_strike_nothing_out(tmp_path: Path) -> None:
    hidden = read_item(tmp_path, prices(""), struck_by_annotation(71, 72 + OLD_WIDTH, flags=2))
    assert hidden.text == f"{OLD} {NEW}"
    part = read_item(tmp_path, prices(""), struck_by_annotation(150, 165))
    assert part.text == f"{OLD} {NEW}"
