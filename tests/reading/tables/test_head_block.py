"""Heads of tables without walls that stand over several columns."""

from __future__ import annotations

from tests.reading.tables.drawn_pages import DrawnPage
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.table import DocumentTable

RIGHT = (400, 520, 640, 760)
"""Right sides of the columns of values."""


def write_body(page: DrawnPage, top: float) -> None:
    for row, name in enumerate(("Salmon", "Herring", "Cod", "Trout")):
        page.write(110, top + 30 * row, name)
        for column, x in enumerate(RIGHT):
            page.write(x, top + 30 * row, f"{10 * row + column + 11}", end=True)


def heads_of(table: DocumentTable, column: int) -> list[str]:
    return [cell.text for cell in table.column_heads(column)]


def read_page(page: DrawnPage) -> DocumentTable:
    (table,) = find_tables(page.item(), page.picture)
    return table


def test_a_head_takes_the_columns_over_the_rule_under_it() -> None:
    page = DrawnPage()
    page.rule(100, 190, 780, 190)
    page.write(560, 200, "Year")
    page.rule(360, 224, 780, 224)
    page.write(110, 240, "Fish")
    for column, x in enumerate(RIGHT):
        page.write(x, 240, f"{2019 + column}", end=True)
    page.rule(100, 266, 780, 266)
    write_body(page, 280)
    page.rule(100, 400, 780, 400)

    table = read_page(page)

    assert [heads_of(table, column) for column in range(1, 5)] == [
        ["Year", str(year)] for year in range(2019, 2023)
    ]


def test_a_rule_as_long_as_the_table_spans_nothing() -> None:
    page = DrawnPage()
    page.rule(100, 190, 780, 190)
    page.write(110, 200, "Fish")
    page.write(410, 200, "Weights", end=True)
    page.rule(100, 224, 780, 224)
    write_body(page, 240)
    page.rule(100, 360, 780, 360)

    table = read_page(page)

    assert all(cell.columns == 1 for cell in table.cells)


def test_a_head_of_several_lines_is_one_beside_heads_over_columns() -> None:
    page = DrawnPage()
    page.rule(100, 170, 780, 170)
    for line, text in enumerate(("Total", "weight", "landed")):
        page.write(400, 188 + 26 * line, text, end=True)
    page.write(575, 180, "Share of ports")
    page.rule(450, 206, 770, 206)
    page.write(110, 240, "Fish")
    for x, text in zip(RIGHT[1:], ("North", "South", "West"), strict=True):
        page.write(x, 240, text, end=True)
    page.rule(100, 266, 780, 266)
    write_body(page, 280)
    page.rule(100, 400, 780, 400)

    table = read_page(page)

    assert heads_of(table, 1) == ["Total weight landed"]
    assert heads_of(table, 2) == ["Share of ports", "North"]
    assert heads_of(table, 4) == ["Share of ports", "West"]


def test_a_line_on_the_centre_of_the_values_is_a_section_over_them() -> None:
    page = DrawnPage()
    page.rule(100, 190, 780, 190)
    page.write(110, 200, "Fish")
    for column, x in enumerate(RIGHT):
        page.write(x, 200, f"{2019 + column}", end=True)
    page.rule(100, 224, 780, 224)
    page.write(520, 240, "In tonnes")
    write_body(page, 270)
    page.write(502, 400, "Change in %")
    write_body(page, 430)
    page.rule(100, 550, 780, 550)

    table = read_page(page)

    sections = [cell for cell in table.cells if cell.columns > 1]
    assert [(cell.text, cell.column, cell.columns) for cell in sections] == [
        ("In tonnes", 1, 4),
        ("Change in %", 1, 4),
    ]
    assert table.sections == {cell.row for cell in sections}


def write_blocks(page: DrawnPage, heads: tuple[str, str]) -> None:
    for left in (100, 340, 580):
        page.write(left, 200, heads[0])
        page.write(left + 180, 200, heads[1], end=True)
        for row in range(5):
            page.write(left, 230 + 30 * row, f"Age {left // 10 + row}")
            page.write(left + 180, 230 + 30 * row, f"{left + 7 * row}", end=True)


def test_blocks_of_columns_with_the_same_heads_are_tables_side_by_side() -> None:
    page = DrawnPage()
    write_blocks(page, ("Group", "Members"))

    tables = find_tables(page.item(), page.picture)

    assert [(table.width, table.height) for table in tables] == [(2, 6)] * 3
    assert [table.row_heads(1)[0].text for table in tables] == ["Age 10", "Age 34", "Age 58"]


def test_columns_of_years_that_repeat_are_one_table() -> None:
    page = DrawnPage()
    write_body(page, 280)
    for column, x in enumerate(RIGHT):
        page.write(x, 250, ("2021", "2022")[column % 2], end=True)

    (table,) = find_tables(page.item(), page.picture)

    assert table.width == 5
