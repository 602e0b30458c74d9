"""Tables that a file has as tables are read by their heads, without a picture."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.sections import markdown_sections
from vrag.corpus.formats.text import passages
from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.geometry import Box
from vrag.item_facts import decode_facts, encode_facts
from vrag.reading.answer import ReadPage
from vrag.reading.reader import read
from vrag.reading.tables.finder import find_tables
from vrag.reading.verification.source_text import read_source
from vrag.types import Item, ItemFacts, ItemKind, TextCell, TextTable, Word

if TYPE_CHECKING:
    from vrag.reading.answer import Reading

TOLLS = """<h1>Tolls of the canal</h1><table>
<tr><th rowspan=2>Lock<th colspan=2>Barges<th colspan=2>Yachts</tr>
<tr><th>Day<th>Night<th>Day<th>Night</tr>
<tr><td>Hamm<td>41.20<td>55.00<td>12.10<td>17.30</tr>
<tr><td>Rethel<td>38.70<td>51.40<td>11.60<td>16.90</tr></table>"""
MARKDOWN = """# Tolls

| Lock | Barge | Yacht |
|---|---|---|
| Hamm | 41.20 | 12.10 |
| Rethel | 38.70 | 11.60 |
"""


def make_item(html: str = TOLLS, text: str | None = None) -> Item:
    sections = html_sections(html) if text is None else markdown_sections(text)
    passage = passages(sections, CorpusOptions())[-1]
    facts = decode_facts(encode_facts(ItemFacts(tables=passage.tables)))
    return Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="tolls",
        kind=ItemKind.PASSAGE,
        ordinal=1,
        text=passage.text,
        heading=passage.heading,
        facts=facts,
    )


def ask(question: str, item: Item) -> Reading:
    return read(question, [ReadPage(item)])[0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does a yacht pay at the Rethel lock at night?", "16.90"),
        ("What is the toll for barges at Hamm by day?", "41.20"),
    ],
)
def test_a_cell_below_two_rows_of_heads_is_read_by_them(question: str, answer: str) -> None:
    reading = ask(question, make_item())
    assert reading.text == answer
    assert reading.probability > 0.5


def test_a_cell_of_markdown_is_read_by_its_heads() -> None:
    reading = ask("What does a yacht pay at Rethel?", make_item(text=MARKDOWN))
    assert reading.text == "11.60"
    assert reading.probability > 0.5


@pytest.mark.parametrize(
    ("question", "is_certain"),
    [
        ("What does a yacht pay at the Rethel lock?", True),
        ("What does a canoe pay at the Rethel lock?", False),
        ("What does a yacht pay at the Sedan lock?", False),
        ("What did a yacht pay at the Rethel lock in 1999?", False),
    ],
)
def test_the_name_of_the_heads_of_rows_belongs_to_what_a_question_names(
    question: str, *, is_certain: bool
) -> None:
    assert ask(question, make_item(text=MARKDOWN)).is_certain == is_certain


TITLED = """<table><tr><th colspan=4>Loans of the port authority in all years</tr>
<tr><th>Lender<th>Signed on<th>Amount<th>Rate</tr>
<tr><th>Nordbank<td>14 March 2019<td>12,500,000.00 kr<td>3.75%</tr>
<tr><th>Kystfond<td>30 June 2023<td>9,440,000.00 kr<td>2.95%</tr></table>"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the rate of Kystfond?", "2.95%"),
        ("What is the amount of the loan of Nordbank?", "12,500,000.00 kr"),
    ],
)
def test_a_title_over_all_columns_is_no_part_of_their_heads(question: str, answer: str) -> None:
    reading = ask(question, make_item(TITLED))
    assert (reading.text, reading.is_certain) == (answer, True)


@pytest.mark.parametrize(
    "question", ["What is the ratio of Kystfond and Nordbank?", "What is the total rate?"]
)
def test_what_no_head_is_called_is_computed(question: str) -> None:
    assert not ask(question, make_item(TITLED)).is_certain


def test_the_title_above_a_table_is_its_caption() -> None:
    assert find_tables(make_item(), None)[0].caption == "Tolls of the canal"


def test_the_caption_that_the_file_marks_comes_first() -> None:
    item = make_item(TOLLS.replace("<table>", "<table><caption>Table 4. In EUR</caption>"))
    assert find_tables(item, None)[0].caption == "Table 4. In EUR"


def test_nothing_is_computed_from_a_part_of_a_table() -> None:
    item = make_item(text=MARKDOWN)
    table = replace(item.facts.tables[0], is_part=True)
    part = replace(item, id="0" * 16 + "-2", facts=ItemFacts(tables=(table,)))
    question = "What is the sum of all barge tolls?"
    whole = [reading.text for reading in read(question, [ReadPage(item)])]
    assert "79.90" in whole
    assert "79.90" not in [reading.text for reading in read(question, [ReadPage(part)])]


def test_cells_of_an_item_with_a_picture_have_the_boxes_of_their_words() -> None:
    text = "Lock Fee\nHamm 12"
    starts = [0, 5, 9, 14]
    words = tuple(
        Word(start, start + len(word), Box.unit(0.1 * at, 0.2, 0.1 * at + 0.05, 0.3))
        for at, (start, word) in enumerate(zip(starts, text.split(), strict=True))
    )
    cells = tuple(
        TextCell(at // 2, at % 2, 1, 1, start, start + len(word))
        for at, (start, word) in enumerate(zip(starts, text.split(), strict=True))
    )
    item = Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=words,
        facts=ItemFacts(tables=(TextTable(cells, 1),)),
    )
    (table,) = find_tables(item, None)
    assert [cell.box for cell in table.cells] == [word.box for word in words]


GROWING = """<table><tr><th>Town<th>Population<th>Area</tr>
<tr><th>Orla<td>4,210<td>31</tr><tr><th>Saltby<td>2,950<td>18</tr></table>"""


def test_the_growth_of_a_number_is_not_the_number() -> None:
    question = "What is the population of Orla?"

    assert ask(question, make_item(GROWING)).is_certain
    assert not ask(question, make_item(GROWING.replace("Population", "Population growth"))).is_certain


def test_a_statement_in_a_cell_has_the_words_of_its_heads_and_of_no_other_row() -> None:
    source = read_source(ReadPage(make_item()))
    at = next(
        number
        for number, part in enumerate(source.statements)
        if source.text[part.start : part.end] == "16.90"
    )
    terms = source.statements[at].terms
    assert {"yacht", "night", "rethel"} <= set(terms)
    assert "hamm" not in terms


@pytest.mark.parametrize(
    "cell",
    [[0, 0, 0, 1, 0, 1], [-1, 0, 1, 1, 0, 1], [0, 0, 10**9, 10**9, 0, 1], [10**9, 0, 1, 1, 0, 1]],
)
def test_places_that_no_table_has_are_refused(cell: list[int]) -> None:
    with pytest.raises(ValueError, match=r"without a place|too many places"):
        decode_facts(json.dumps({"tables": [{"cells": [cell]}]}))


def test_a_number_of_the_question_is_not_certain_and_others_stay_so() -> None:
    ferry = make_item("The ferry carried 48,200 passengers in 2024. That is more than ever before.")
    reading = ask("How many passengers did the ferry carry in 2024?", ferry)
    assert (reading.text, reading.is_certain) == ("48,200", True)
    group = make_item("A group of 10 or more pays less: EUR 1 150.")
    reading = ask("What does a group of 10 or more pay?", group)
    assert reading.text == "10"
    assert not reading.is_certain


INCOMES = """| Income | 2006 | 2007 |
|---|---|---|
| Net cash income | 16,717 | 17,542 |
| Farm income | 9,310 | 8,877 |
"""
OUTLAYS = """| State | Planned family outlay | {other} |
|---|---|---|
| Bihar | 21,016 | {value} |
| Goa | 4,055 | {value} |
"""


@pytest.mark.parametrize(
    ("text", "question", "is_certain"),
    [
        (INCOMES, "What was the net cash income in 2007?", True),
        (INCOMES, "What was Siobhan’s net cash income in 2007?", False),  # whose it is is not said
        (OUTLAYS.format(other="Roads", value="332"), "Which family outlay did Bihar have?", True),
        (
            OUTLAYS.format(other="Capital family outlay", value="332"),
            "Which family outlay did Bihar have?",
            False,
        ),
        (
            OUTLAYS.format(other="Family outlay share", value="32 %"),
            "Which family outlay did Bihar have?",
            True,
        ),
    ],
)
def test_a_cell_is_certain_with_all_names_and_without_a_rival(
    text: str, question: str, *, is_certain: bool
) -> None:
    assert ask(question, make_item(text=text)).is_certain == is_certain
