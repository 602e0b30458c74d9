"""Heads that stand above the rules of a table are its heads."""

from __future__ import annotations

import pytest

from tests.reading.tables.drawn_pages import DrawnPage
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.heads import without_marks

ROWS = [("PrOntoQA", "47.40", "67.80", "61.00", "51.80"), ("FOLIO", "45.09", "57.35", "62.74", "54.60")]
EDGES = (100, 300, 420, 540, 660, 780)


def ruled_body(page: DrawnPage, top: float = 300, rows: int = 4) -> None:
    """Write rows of figures between rules at all sides."""
    for row in range(rows):
        label, *values = ROWS[row % 2]
        y = top + 30 * row
        page.write(110, y + 6, label)
        for column, value in enumerate(values, 1):
            page.write(EDGES[column + 1] - 10, y + 6, value, end=True)
    for row in range(rows + 1):
        page.rule(EDGES[0], top + 30 * row, EDGES[-1], top + 30 * row)
    for edge in EDGES:
        page.rule(edge, top, edge, top + 30 * rows)


def test_a_row_of_heads_above_the_rules_belongs_to_the_table() -> None:
    page = DrawnPage()
    ruled_body(page)
    page.write(110, 276, "Dataset")
    for column, head in enumerate(("Standard", "CoT", "Logic", "Best"), 1):
        page.write(EDGES[column + 1] - 10, 276, head, end=True)
    (table,) = find_tables(page.item(), page.picture)
    assert table.header_rows == 1
    assert [cell.text for cell in table.cells if cell.row == 0] == [
        "Dataset",
        "Standard",
        "CoT",
        "Logic",
        "Best",
    ]
    assert table.height == 5


def test_heads_over_several_columns_span_them() -> None:
    page = DrawnPage()
    ruled_body(page)
    for column, head in enumerate(("Standard", "CoT", "Standard", "CoT"), 1):
        page.write(EDGES[column + 1] - 10, 276, head, end=True)
    page.write(370, 250, "Small model")
    page.write(610, 250, "Large model")
    (table,) = find_tables(page.item(), page.picture)
    assert [head.text for head in table.column_heads(2)] == ["Small model", "CoT"]
    assert [head.text for head in table.column_heads(3)] == ["Large model", "Standard"]


def test_a_title_and_a_sentence_above_are_no_heads() -> None:
    page = DrawnPage()
    page.write(110, 246, "It was better in the north than in any year before that one and cheaper too")
    page.write(110, 276, "Accuracy")
    ruled_body(page)
    (table,) = find_tables(page.item(), page.picture)
    assert table.height == 4


def test_figures_above_are_no_heads() -> None:
    page = DrawnPage()
    for column in range(1, 5):
        page.write(EDGES[column + 1] - 10, 276, "12.50", end=True)
    ruled_body(page)
    assert all(table.header_rows == 0 for table in find_tables(page.item(), page.picture))


@pytest.mark.parametrize("mark", ["*", "†", "**", "(a)", "[b]", "¹"])
def test_any_number_of_marks_is_taken_off_and_a_long_row_of_them_is_read_in_linear_time(mark: str) -> None:
    """With a pattern that reads a row in two ways, 40 marks before a letter take hours."""
    assert without_marks("84,210" + mark * 3) == "84,210"
    assert without_marks("84,210" + mark * 2000) == "84,210"
    text = f"84,210{mark * 2000}x"
    assert without_marks(text) == text


@pytest.mark.parametrize(
    ("values", "is_head"),
    [
        (("14 March 2019", "3 May 2021"), False),
        (("3.6.2023", "12.11.2024"), False),
        (("12,500.00 kr", "940,00 €"), False),
        (("North quay", "South quay"), True),
    ],
)
def test_dates_and_amounts_are_no_heads_of_rows(values: tuple[str, str], is_head: bool) -> None:
    page = DrawnPage()
    for row, cells in enumerate(
        [("Lender", "Loan", "Rate"), *zip(("Nordbank", "Kystfond"), values, (3, 4), strict=True)]
    ):
        for column, text in enumerate(cells):
            page.write(EDGES[2 * column] + 10, 306 + 30 * row, str(text))
    for row in range(4):
        page.rule(100, 300 + 30 * row, 780, 300 + 30 * row)
    for edge in (100, 420, 660, 780):
        page.rule(edge - 5, 300, edge - 5, 390)
    (table,) = find_tables(page.item(), page.picture)
    assert table.header_columns == (2 if is_head else 1)


def test_a_note_that_spans_rows_of_figures_beside_them_makes_these_no_heads() -> None:
    page = DrawnPage()
    rows = [("Boat", "Dues", "North quay"), ("Petrel", "410", ""), ("Heron", "655", ""), ("Skua", "300", "x")]
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            page.write(EDGES[column] + 10, 306 + 30 * number, text)
    for number in range(5):
        page.rule(EDGES[0], 300 + 30 * number, EDGES[2 if number in {1, 2} else 3], 300 + 30 * number)
    for edge in EDGES[:4]:
        page.rule(edge, 300, edge, 420)
    (table,) = find_tables(page.item(), page.picture)
    assert table.header_rows == 1
    assert [head.text for head in table.column_heads(1)] == ["Dues"]


@pytest.mark.parametrize(("second", "count"), [(("Boat", "Crew"), 2), (("Skua", "300"), 1)])
def test_a_blank_row_and_new_heads_in_a_grid_begin_another_table(second: tuple[str, str], count: int) -> None:
    page = DrawnPage()
    rows = [
        ("Boat", "Dues"),
        ("Petrel", "410"),
        ("Heron", "655"),
        ("", ""),
        second,
        ("Petrel", "4"),
        ("Heron", "6"),
    ]
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            page.write(EDGES[column] + 10, 306 + 30 * number, text)
    for number in range(8):
        page.rule(EDGES[0], 300 + 30 * number, EDGES[2], 300 + 30 * number)
    for edge in EDGES[:3]:
        page.rule(edge, 300, edge, 510)
    tables = find_tables(page.item(), page.picture)
    assert len(tables) == count
    heads = [[head.text for head in table.column_heads(1)] for table in tables]
    assert heads == [["Dues"], ["Crew"]][:count]
