"""Finding the tables of a page: ruled, unruled, and what is no table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.reading.tables.drawn_pages import DrawnPage
from vrag.geometry import Box, Size
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.table import DocumentTable
from vrag.types import Item, ItemKind, TextSource, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = [
    ("Region", "2022", "2023"),
    ("North", "1,204", "1,310"),
    ("South", "880", "915"),
    ("West and East", "64", "7"),
    ("Total", "2,148", "2,232"),
]
PROSE = "The company sold more of its goods in the north than it had done in any year before that"


def texts(table: DocumentTable) -> list[list[str]]:
    """The texts of a table by row and column; a cell that spans stands at its first place."""
    rows = [[""] * table.width for _ in range(table.height)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def write_rows(page: DrawnPage, top: float = 300, pitch: float = 30) -> None:
    for row, (label, *values) in enumerate(ROWS):
        page.write(110, top + row * pitch, label)
        for column, value in enumerate(values):
            page.write(500 + 200 * column, top + row * pitch, value, end=True)


def write_prose(page: DrawnPage, x: float, y: float, lines: int, letters: int = 80) -> None:
    for line in range(lines):
        start = line * 7 % 20
        page.write(x, y + 24 * line, (PROSE + " " + PROSE)[start : start + letters].strip())


def test_aligned_words_are_a_table_between_running_text() -> None:
    page = DrawnPage()
    write_prose(page, 110, 100, 5)
    write_rows(page)
    write_prose(page, 110, 600, 5)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [list(row) for row in ROWS]
    assert (table.header_rows, table.header_columns) == (1, 1)


def test_a_full_grid_gives_cells_that_span_where_rules_are_missing() -> None:
    page = DrawnPage()
    for y in (200, 240, 280, 320):
        page.rule(100, y, 700, y)
    for x in (100, 300, 700):
        page.rule(x, 200, x, 320)
    page.rule(500, 240, 500, 320)
    page.write(110, 210, "Name")
    page.write(400, 210, "Scores of both")
    for row, line in enumerate((("Ada", "12", "9"), ("Bo", "7", "11"))):
        for column, text in enumerate(line):
            page.write(110 + 200 * column, 250 + 40 * row, text)

    (table,) = find_tables(page.item(), page.picture)

    head = table.cell_at(0, 2)
    assert head is not None
    assert (head.text, head.column, head.columns) == ("Scores of both", 1, 2)
    assert texts(table)[1:] == [["Ada", "12", "9"], ["Bo", "7", "11"]]


def test_lines_of_one_ruled_cell_stay_together() -> None:
    page = DrawnPage()
    for y in (200, 270, 310):
        page.rule(100, y, 500, y)
    for x in (100, 300, 500):
        page.rule(x, 200, x, 310)
    for x, y, text in ((110, 210, "Length of"), (110, 234, "the river"), (310, 210, "12 km")):
        page.write(x, y, text)
    page.write(110, 280, "Depth")
    page.write(310, 280, "3 m")

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [["Length of the river", "12 km"], ["Depth", "3 m"]]


def test_rows_of_figures_with_deviations_are_divided_without_rules() -> None:
    page = DrawnPage()
    for y in (200, 240, 380, 420):
        page.rule(100, y, 700, y)
    for x in (100, 300, 500, 700):
        page.rule(x, 200, x, 420)
    page.write(110, 210, "Method")
    page.write(310, 210, "Physics")
    page.write(510, 210, "Chemistry")
    lines = [(f"Model {n}", f"6{n}.4% (0.{n}%)", f"7{n}.9% (1.{n}%)") for n in range(1, 6)]
    for row, line in enumerate(lines):
        for column, text in enumerate(line):
            page.write(110 + 200 * column, 246 + 26 * row, text)
    page.write(110, 390, "Other")
    page.write(310, 390, "70.3% (2.3%)")
    page.write(510, 390, "79.9% (1.0%)")

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table)[1:6] == [list(line) for line in lines]


def test_horizontal_rules_alone_bound_a_table() -> None:
    page = DrawnPage()
    page.write(110, 240, "Table 2: Sales by region, in thousands")
    write_rows(page)
    for y in (290, 324, 450):
        page.rule(100, y, 720, y)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [list(row) for row in ROWS]
    assert table.header_rows == 1
    assert table.caption == "Table 2: Sales by region, in thousands"


@pytest.mark.parametrize("columns", [1, 2])
def test_running_text_is_no_table(columns: int) -> None:
    page = DrawnPage()
    for column in range(columns):
        write_prose(page, 80 + 440 * column, 200, 20, 80 // columns)

    assert find_tables(page.item(), page.picture) == ()


def test_a_list_and_a_contents_page_are_no_tables() -> None:
    page = DrawnPage()
    for row in range(8):
        page.write(100, 100 + 30 * row, f"{row + 1}.")
        page.write(150, 100 + 30 * row, f"Fill the tank number {row}")
    for row in range(8):
        page.write(100, 600 + 30 * row, f"Chapter about matters {row}")
        page.write(700, 600 + 30 * row, str(3 + 4 * row), end=True)

    assert find_tables(page.item(), page.picture) == ()


def test_without_a_picture_aligned_words_are_found() -> None:
    page = DrawnPage()
    write_rows(page)

    assert len(find_tables(page.item(), None)) == 1


def make_item(boxes: list[tuple[float, float, float, float]], letters: str = "ab 12,3\n") -> Item:
    text = letters * (len(boxes) + 1)
    words = tuple(Word(i * len(letters), i * len(letters) + 2, Box.unit(*box)) for i, box in enumerate(boxes))
    return Item(
        id="0-1",
        document="0",
        document_name="x",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=words,
        text_source=TextSource.OCR,
        size=Size(300, 400),
    )


SIDE = st.floats(0, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SIDE, SIDE, SIDE, SIDE), max_size=40))
def test_any_boxes_give_tables_whose_cells_do_not_overlap(
    sides: list[tuple[float, float, float, float]],
) -> None:
    boxes = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in sides]
    picture = Image.effect_noise((300, 400), 80)

    for table in find_tables(make_item(boxes), picture):
        assert table.height >= 2
        assert table.width >= 2


def test_a_huge_table_is_found() -> None:
    boxes = [
        (0.1 + 0.2 * column, row / 5000, 0.2 + 0.2 * column, (row + 0.5) / 5000)
        for row in range(5000)
        for column in range(4)
    ]

    assert all(table.width <= 4 for table in find_tables(make_item(boxes), None))


PIERS = [
    ("Boat", "Length", "Price"),
    ("Merlin", "9 m", "31"),
    ("Gannet", "7 m", "27"),
    ("Petrel", "8 m", "29"),
]


def write_broken_line(page: DrawnPage, y: float, parts: Sequence[str]) -> None:
    """Write a line of running text with gaps near the columns of `PIERS`, as raised marks leave them."""
    for x, part in zip((100, 400, 700), parts, strict=False):
        page.write(x, y, part)


@pytest.mark.parametrize(
    "lines",
    [
        [("Notice: six weeks", "to the end of a quarter. The crane", "lifts 480 tonnes.")],
        [("The fee of the old harbour", "is due on the first day of May", "for all guests.")],
        [
            ("The crane of the south pier", "lifts boats of up to nine tonnes", "on every day"),
            ("but Sunday. Guests pay less", "than members of the club do", "in winter."),
        ],
    ],
)
def test_running_text_above_a_table_is_none_of_its_heads(lines: Sequence[Sequence[str]]) -> None:
    page = DrawnPage()
    for number, parts in enumerate(lines):
        write_broken_line(page, 200 + 26 * number, parts)
    for number, row in enumerate(PIERS, len(lines)):
        write_broken_line(page, 200 + 26 * number, row)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [list(row) for row in PIERS]


def test_heads_with_abbreviations_and_sentences_in_cells_stay() -> None:
    rows = [
        ("Boat", "Max. Length", "Remarks"),
        ("Merlin", "9 m", "Sold. New sails"),
        ("Gannet", "7 m", "Hired. Old mast"),
        ("Petrel", "8 m", "Ours. No engine"),
    ]
    page = DrawnPage()
    for number, row in enumerate(rows):
        write_broken_line(page, 200 + 26 * number, row)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [list(row) for row in rows]
