"""A converted document is its text in order, with tables as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.cli.convert.converted_document import ConvertedItem, document_facts, write_document
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.sections import markdown_sections
from vrag.corpus.formats.text import passages
from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.geometry import Box, Size
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.types import Item, ItemFacts, ItemKind, MarkedHeading, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.corpus.formats.texts.outline import Section


def convert(sections: Iterable[Section], size: int = 1200) -> list[ConvertedItem]:
    found = passages(sections, CorpusOptions(passage_chars=size))
    items = [
        Item(
            id="0" * 16 + f"-{number}",
            document="0" * 64,
            document_name="a",
            kind=ItemKind.PASSAGE,
            ordinal=number,
            text=passage.text,
            heading=passage.heading,
            facts=ItemFacts(tables=passage.tables),
        )
        for number, passage in enumerate(found, 1)
    ]
    return [ConvertedItem(item, find_tables(item, None)) for item in items]


def test_markdown_becomes_what_it_was() -> None:
    text = (
        "Preface.\n\n# Piers\n\nThree piers.\n\n## Holm\n\n| Boat | Fee |\n| --- | --- |\n| Sloop | 12 |\n"
        "| Ketch | 15 |\n\nAfter the table.\n\n## Vik\n\nNo boats.\n"
    )
    assert write_document(convert(markdown_sections(text))) == text


def test_a_table_cut_into_passages_is_one_table() -> None:
    rows = "".join(f"| Boat {number} | {number}.50 |\n" for number in range(100))
    text = f"# Fees\n\n| Boat | Fee |\n| --- | --- |\n{rows}\nAfter.\n"
    assert write_document(convert(markdown_sections(text), 300)) == text


def test_a_caption_stands_once_above_its_table() -> None:
    html = (
        "<h1>Piers</h1><table><caption>Table 1. Fees</caption><tr><th>Boat<th>Fee<tr><td>Sloop<td>12</table>"
    )
    text = write_document(convert(html_sections(html)))
    assert text == "# Piers\n\n**Table 1. Fees**\n\n| Boat | Fee |\n| --- | --- |\n| Sloop | 12 |\n"


def make_page() -> ConvertedItem:
    text = "Fees of 2026\nBoat Fee\nSloop 12\nAsk the keeper."
    words: list[Word] = []
    at = 0
    for row, line in enumerate(text.split("\n")):
        for column, word in enumerate(line.split()):
            start = text.index(word, at)
            at = start + len(word)
            box = Box.unit(0.2 * column, 0.1 * row, 0.2 * column + 0.1, 0.1 * row + 0.05)
            words.append(Word(start, at, box))
    item = Item(
        id="0" * 16 + "-3",
        document="0" * 64,
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=3,
        text=text,
        words=tuple(words),
        size=Size(100, 100),
        image="x/3.png",
        facts=ItemFacts(label="iv", unread=("A map.",)),
    )
    cells = tuple(
        Cell(row=at // 2, column=at % 2, text=text[word.start : word.end], box=word.box)
        for at, word in enumerate(words[3:7])
    )
    table = DocumentTable(cells=cells, header_rows=1, caption="Fees of 2026", box=Box.unit(0, 0.1, 0.3, 0.25))
    return ConvertedItem(item, (table,))


def test_the_words_of_a_table_on_a_page_stand_in_the_table_alone() -> None:
    assert write_document([make_page()]) == (
        "<!-- page 3 (printed iv) -->\n\nFees of 2026\n\n| Boat | Fee |\n| --- | --- |\n| Sloop | 12 |\n\n"
        "Ask the keeper.\n"
    )


def test_json_has_words_and_cells_with_boxes() -> None:
    page = make_page()
    facts = replace(page.item.facts, headings=(MarkedHeading(0, 12, 1),))
    page = replace(page, item=replace(page.item, facts=facts))
    (item,) = document_facts("a.pdf", [page])["items"]
    assert (item["number"], item["label"], item["size"]) == (3, "iv", [100, 100])
    assert item["unread"] == ["A map."]
    assert item["headings"] == [{"start": 0, "end": 12, "level": 1}]
    assert item["words"][4] == {"start": 18, "end": 21, "box": [0.2, 0.1, 0.3, 0.15]}
    assert item["tables"][0]["cells"][3]["box"] == [0.2, 0.2, 0.3, 0.25]


def test_lists_of_web_pages_are_lists() -> None:
    text = write_document(convert(html_sections("<h1>Fees</h1><ul><li>Sloop<li>Ketch</ul><ol><li>Ask</ol>")))
    assert [line for line in text.splitlines() if line] == ["# Fees", "- Sloop", "- Ketch", "1. Ask"]


def make_slide(number: int, heading: str = "", text: str = "words", worksheet: str = "") -> ConvertedItem:
    item = Item(
        id="0" * 16 + f"-{number}",
        document="0" * 64,
        document_name="a",
        kind=ItemKind.PASSAGE if heading else ItemKind.PAGE,
        ordinal=number,
        text=text,
        heading=heading,
        image=None if heading else "x/1.png",
        facts=ItemFacts(worksheet=worksheet),
    )
    return ConvertedItem(item, ())


def test_notes_of_a_slide_stand_behind_it() -> None:
    slides = [make_slide(1), make_slide(2), make_slide(3, "Slide 1 › Speaker notes", "Smile.")]
    assert write_document(slides) == (
        "<!-- page 1 -->\n\nwords\n\n## Speaker notes\n\nSmile.\n\n<!-- page 2 -->\n\nwords\n"
    )


def test_a_sheet_begins_with_its_name_and_ends_with_its_comments() -> None:
    pages = [make_slide(number, worksheet=name) for number, name in ((1, "Fees"), (2, "Fees"), (3, "Piers"))]
    text = write_document([*pages, make_slide(4, "Sheet Fees › Comments", "B2: Check.")])
    assert text == (
        "<!-- page 1 -->\n\n# Fees\n\nwords\n\n<!-- page 2 -->\n\nwords\n\n## Comments\n\nB2: Check.\n\n"
        "<!-- page 3 -->\n\n# Piers\n\nwords\n"
    )


def test_passages_of_a_text_that_is_called_like_a_slide_stay_in_order() -> None:
    sections = [make_slide(1, "Slide 2", "Slide 2\n\none"), make_slide(2, "Slide 1", "Slide 1\n\ntwo")]
    assert write_document(sections) == "# Slide 2\n\none\n\n# Slide 1\n\ntwo\n"


def test_a_cell_over_several_columns_of_the_last_row_stands_once() -> None:
    rows = "<tr><th>Hall<th>From<th>To<tr><td>North<td>8:00<td>20:00<tr><td>West<td colspan=2>closed"
    text = write_document(convert(html_sections(f"<h1>Hours</h1><table>{rows}</table><p>Behind.</p>")))
    assert text.count("closed") == 1
    assert text.endswith("Behind.\n")
