"""One cell of a table of the file answers a question that has all words of its row and its column."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reading.places.placed_pages import set_page

from vrag.reading.answer import ReadPage
from vrag.reading.places.named_cells import find_named_cell
from vrag.reading.reader import read
from vrag.reading.tables.finder import find_tables
from vrag.types import Item, ItemFacts, TextCell, TextTable

ROWS = (
    ("Berth", "Fee", "Crane fee", "Keeper"),
    ("Alder", "410", "25", "Ida Holm"),
    ("Birch", "525", "30", "Per Lie"),
    ("Total", "1935", "55", ""),
)


def sheet(rows: tuple[tuple[str, ...], ...] = ROWS, ordinal: int = 1) -> Item:
    """A page of a table that its file has as one."""
    page = set_page(
        *((0.1, 0.1 + 0.04 * at, " ".join(filter(None, row))) for at, row in enumerate(rows)), ordinal=ordinal
    )
    cells: list[TextCell] = []
    at = 0
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            if text:
                at = page.text.index(text, at)
                cells.append(TextCell(number, column, 1, 1, at, at + len(text)))
                at += len(text)
    return replace(page, facts=ItemFacts(tables=(TextTable(tuple(cells), 1, 1),)))


def answer(question: str, *pages: Item) -> str | None:
    found = find_named_cell(question, [(page, find_tables(page, None)) for page in pages])
    return found and found.text


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the total fee?", "1935"),
        ("What is the fee of Alder?", "410"),
        ("How much is the crane fee for Birch?", "30"),
        ("What is the total of the crane fee?", "55"),
        ("Who is the keeper of Birch?", "Per Lie"),
        ("What is the fee?", None),
        ("What is the fee of Cedar?", None),
        ("What is the winter fee of Alder?", None),
        ("What is the average fee of Alder?", None),
        ("What is the difference of the fee of Alder?", None),
        ("When is the fee of Alder?", None),
        ("Is the fee of Alder 410?", None),
        ("Who is the keeper of the total?", None),
        ("Why is the fee of Alder 410?", None),
    ],
)
def test_a_cell_is_named_by_all_words_of_its_row_and_its_column(question: str, expected: str | None) -> None:
    assert answer(question, sheet()) == expected


LIST = (
    ("Item", "Value"),
    ("Share of the ferry", "12.3 %"),
    ("Day of opening", "14 March 2027"),
    ("Crane fee", "25"),
    ("Crane fee in winter", "30"),
    ("Name", "Alder"),
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the share of the ferry?", "12.3 %"),
        ("What is the value of the share of the ferry?", "12.3 %"),
        ("What is the day of opening?", "14 March 2027"),
        ("What is the crane fee?", "25"),
        ("What is the crane fee in winter?", "30"),
        ("What is the crane fee in summer?", None),
        ("What is the share of the bus?", None),
        ("How many shares has the ferry?", None),
        ("What is the name?", None),
        ("What is the difference of the share of the ferry?", None),
    ],
)
def test_the_only_column_of_values_needs_no_name(question: str, expected: str | None) -> None:
    assert answer(question, sheet(LIST)) == expected


def test_cells_that_differ_answer_nothing() -> None:
    other = sheet((ROWS[0], ("Alder", "415", "25", "Ida Holm")), ordinal=2)
    assert answer("What is the fee of Alder?", sheet(), other) is None
    assert answer("What is the crane fee of Alder?", sheet(), other) == "25"


def test_tables_that_are_only_seen_are_read_as_before() -> None:
    page = replace(sheet(), facts=ItemFacts())
    assert answer("What is the total fee?", page) is None


def test_the_reader_gives_a_named_cell_first() -> None:
    reading = read("What is the total fee?", [ReadPage(sheet())])[0]
    assert (reading.text, reading.is_certain) == ("1935", True)
    assert reading.marks
