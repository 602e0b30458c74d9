"""Lines of text that are one row of a table, and those that are rows of their own."""

from __future__ import annotations

from tests.reading.tables.drawn_pages import DrawnPage
from tests.reading.tables.test_finder import texts
from vrag.reading.tables.finder import find_tables


def start_table(page: DrawnPage) -> None:
    page.rule(100, 160, 900, 160)
    page.write(110, 170, "Measure")
    for x, year in ((600, "2021"), (740, "2022"), (880, "2023")):
        page.write(x, 170, year, end=True)
    page.rule(100, 196, 900, 196)


def write_values(page: DrawnPage, y: float, *values: str) -> None:
    for x, value in zip((600, 740, 880), values, strict=True):
        page.write(x, y, value, end=True)


def test_values_at_the_middle_of_a_name_of_two_lines_are_its_row() -> None:
    page = DrawnPage()
    start_table(page)
    for row in range(4):
        y = 210 + 60 * row
        page.write(110, y, f"Harbour {row} share of the")
        page.write(110, y + 20, "northern income")
        write_values(page, y + 10, f"1{row}", f"2{row}", f"3{row}")
    page.rule(100, 450, 900, 450)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table)[1:] == [
        [f"Harbour {row} share of the northern income", f"1{row}", f"2{row}", f"3{row}"] for row in range(4)
    ]


def test_a_name_between_two_rows_of_figures_joins_them_not() -> None:
    page = DrawnPage()
    start_table(page)
    for row in range(4):
        y = 210 + 60 * row
        page.write(330, y, "low")
        write_values(page, y, "10", "20", "30")
        page.write(110, y + 13, f"Harbour {row}")
        page.write(330, y + 26, "high")
        write_values(page, y + 26, "11", "21", "31")
    page.rule(100, 450, 900, 450)

    (table,) = find_tables(page.item(), page.picture)

    values = [cell.text for cell in table.cells if cell.column > 1 and cell.row > 0]
    assert sorted(set(values)) == ["10", "11", "20", "21", "30", "31"]


def test_a_name_that_begins_left_of_the_one_above_is_a_row() -> None:
    page = DrawnPage()
    start_table(page)
    y = 206.0
    for group in ("Kept by the crew", "Sold at the quay"):
        page.write(110, y, group)
        for name in ("Salmon", "Herring", "Cod and other"):
            y += 34
            page.write(130, y, name)
            write_values(page, y, "10", "20", "30")
        y += 24
        page.write(140, y, "white fish")
        y += 24
    page.rule(100, y + 10, 900, y + 10)

    (table,) = find_tables(page.item(), page.picture)

    names = [row[0] for row in texts(table)]
    assert "Cod and other white fish" in names
    assert {"Kept by the crew", "Sold at the quay"} <= set(names)
