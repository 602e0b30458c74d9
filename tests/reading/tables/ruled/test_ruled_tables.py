"""Tables between rules: their titles, their notes, their shaded heads, and several of one width on a page."""

from __future__ import annotations

from itertools import pairwise

from PIL import ImageDraw

from tests.reading.tables.drawn_pages import DrawnPage
from tests.reading.tables.test_finder import texts
from vrag.reading.tables.finder import find_tables


def draw_frame(page: DrawnPage, tops: list[float], columns: list[float], full: tuple[int, ...] = ()) -> None:
    """Draw a grid; rows in `full` have no rules between their columns."""
    for y in tops:
        page.rule(columns[0], y, columns[-1], y)
    for number, x in enumerate(columns):
        for row, (y1, y2) in enumerate(pairwise(tops)):
            if row not in full or number in {0, len(columns) - 1}:
                page.rule(x, y1, x, y2)


def write_grid(page: DrawnPage, top: float) -> list[list[str]]:
    rows = [["State", "Schools", "Share"], ["Ohio", "120", "34%"], ["Iowa", "88", "21%"]]
    for row, line in enumerate(rows):
        for column, text in enumerate(line):
            page.write(110 + 200 * column, top + 40 * row, text)
    return rows


def test_title_and_note_inside_the_frame_are_no_rows() -> None:
    page = DrawnPage()
    draw_frame(page, [200, 240, 280, 320, 360, 400], [100, 300, 500, 700], full=(0, 4))
    page.write(110, 210, "Exhibit 4 Schools of two states")
    rows = write_grid(page, 250)
    page.write(110, 370, "Note: shares are those of schools that replied")

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == rows
    assert table.caption == "Exhibit 4 Schools of two states"


def test_a_head_over_all_columns_of_a_frame_stays() -> None:
    page = DrawnPage()
    draw_frame(page, [200, 240, 280, 320, 360], [100, 300, 500, 700], full=(0,))
    page.write(300, 210, "Replies of schools")
    rows = write_grid(page, 250)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [["Replies of schools", "", ""], *rows]


def test_a_numbered_title_divides_two_tables_of_one_width() -> None:
    page = DrawnPage()
    for top, number in ((200, 1), (400, 2)):
        page.write(110, top - 30, f"Table {number}. Catch of vessels")
        for y in (top, top + 34, top + 130):
            page.rule(100, y, 700, y)
        page.write(110, top + 8, "Vessel")
        page.write(500, top + 8, "Tonnes", end=True)
        page.write(680, top + 8, "Days", end=True)
        for row in range(3):
            page.write(110, top + 42 + 30 * row, f"Boat {number}{row}")
            page.write(500, top + 42 + 30 * row, f"{row + 12}", end=True)
            page.write(680, top + 42 + 30 * row, f"{row + 30}", end=True)

    tables = find_tables(page.item(), page.picture)

    assert [table.caption for table in tables] == ["Table 1. Catch of vessels", "Table 2. Catch of vessels"]
    assert [[row[0] for row in texts(table)] for table in tables] == [
        ["Vessel", "Boat 10", "Boat 11", "Boat 12"],
        ["Vessel", "Boat 20", "Boat 21", "Boat 22"],
    ]


def test_shaded_heads_of_two_rows_beside_white_ones_are_no_drawing() -> None:
    page = DrawnPage()
    draw = ImageDraw.Draw(page.picture)
    draw.rectangle((100, 200, 340, 270), fill="orange")
    draw.rectangle((340, 200, 900, 235), fill="orange")
    for y in (200, 270, 310, 350, 390):
        page.rule(100, y, 900, y)
    page.rule(340, 235, 900, 235)
    page.write(120, 226, "Country")
    for number, year in enumerate(("2006", "2007")):
        page.write(455 + 280 * number, 208, year)
        page.write(420 + 280 * number, 245, "N", end=True)
        page.write(580 + 280 * number, 245, "Pos", end=True)
    for row, name in enumerate(("Austria", "Spain", "Italy")):
        page.write(120, 280 + 40 * row, name)
        for column, x in enumerate((420, 580, 700, 860)):
            page.write(x, 280 + 40 * row, f"{7 * row + column + 1}", end=True)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table)[-1] == ["Italy", "15", "16", "17", "18"]


TERMS = (
    ("Number of members", "The register of members counts all persons of the harbour"),
    ("Members under twenty", "The yearly survey of the port counts those who were asked"),
    ("Members over sixty five", "The register of the state counts those who were born here"),
    ("Visitors from islands", "The ferry line counts tickets that were sold on the ships"),
    ("Guests of the harbour", "The hotels of the town count the nights that guests stay"),
)


def write_terms(page: DrawnPage, *, titled: bool) -> None:
    page.write(110, 170, "Table A-1. Sources of figures" if titled else "Sources of figures")
    for y in (196, 230, 400):
        page.rule(100, y, 940, y)
    page.write(110, 204, "Variable")
    page.write(400, 204, "Source")
    for number, (name, text) in enumerate(TERMS):
        page.write(110, 240 + 30 * number, name)
        page.write(400, 240 + 30 * number, text)


def test_columns_of_sentences_under_a_title_and_heads_between_rules_are_a_table() -> None:
    page = DrawnPage()
    write_terms(page, titled=True)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [["Variable", "Source"], *map(list, TERMS)]


def test_columns_of_sentences_without_a_title_are_running_text() -> None:
    page = DrawnPage()
    write_terms(page, titled=False)

    assert not find_tables(page.item(), page.picture)
