"""What is no table although its words stand in rows and columns: drawings, panels, forms, lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from tests.reading.tables.drawn_pages import HEIGHT, LINE, WIDTH, DrawnPage
from vrag.reading.tables.evidence import PageGround, is_amount, is_figure
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.grid import Area
from vrag.reading.tables.text_pieces import straighten_words

YEARS = ("2019", "2020", "2021", "2022")
VALUES = ("61.2", "62.4", "64.5", "63.8")


def write_grid(page: DrawnPage, rows: list[tuple[str, ...]], *, top: float = 300, pitch: float = 34) -> None:
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            page.write(120 + 230 * column, top + pitch * number, text)


def draw_curves(page: DrawnPage) -> None:
    draw = ImageDraw.Draw(page.picture)
    for shift, colour in ((0, "red"), (14, "blue"), (28, "green")):
        points = [(110 + 40 * n, 300 + shift + 50 * (n * 7 % 3) // 2) for n in range(20)]
        draw.line(points, fill=colour, width=5)


def test_labels_and_values_of_a_chart_are_no_table() -> None:
    page = DrawnPage()
    draw_curves(page)
    write_grid(page, [("Device", *YEARS[1:]), ("Mobile", *VALUES[1:]), ("Print", *VALUES[:3])])

    assert find_tables(page.item(), page.picture) == ()
    assert len(find_tables(page.item(), None)) == 1


def test_stripes_and_shaded_heads_are_no_drawing() -> None:
    page = DrawnPage()
    draw = ImageDraw.Draw(page.picture)
    draw.rectangle((100, 290, 900, 326), fill=(90, 120, 200))
    for row in (2, 4):
        draw.rectangle((100, 292 + 34 * row, 900, 325 + 34 * row), fill=(220, 225, 250))
    write_grid(page, [("Region", "2022", "2023"), *((f"Part {n}", f"{n}1", f"{n}2") for n in range(4))])

    (table,) = find_tables(page.item(), page.picture)

    assert (table.height, table.width, table.header_rows) == (5, 3, 1)


FORM = [
    ("Is this investment for technology", "Yes"),
    ("Has the plan been changed since then", "No"),
    ("Does it support a program", "Yes"),
    ("Did the manager review this exhibit", "Yes"),
]
PANELS = [
    ("Heat travels in waves", "Critical angle of light is the"),
    ("it can be felt", "angle at which none is reflected"),
    ("as warmth", "and all goes on inside"),
]
CONTENTS = [("Appendix about properties", "58"), ("References", "67"), ("Glossary", "70")]
PROCEEDINGS = [("Appendix about properties", "58–66"), ("References", "67–69"), ("Glossary", "70")]
CODE = [("(1,", "256,", "52,"), ("(1,", "512,", "26,"), ("(1,", "1024,", "13,")]
CONTACTS = [
    ("Contact us", "Follow us"),
    ("sale@appota.example", "/appota"),
    ("www.appota.example", "/appota"),
]


@pytest.mark.parametrize("rows", [FORM, PANELS, CONTENTS, PROCEEDINGS, CODE, CONTACTS], ids=range(6))
def test_rows_of_texts_without_figures_and_lines_are_no_table(rows: list[tuple[str, ...]]) -> None:
    page = DrawnPage()
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            page.write(100 + 460 * column, 300 + 34 * number, text)

    assert find_tables(page.item(), page.picture) == ()


CLASSES = [
    ("", "2019", "2023"),
    ("Youngest", "18 or less", "Up to 20"),
    ("Middle", "19–34", "21 to 35"),
    ("Oldest", "Over 34", "Older than 35"),
]


def test_ranges_and_bounds_of_classes_are_figures_of_a_table() -> None:
    page = DrawnPage()
    page.write(120, 260, "The members were divided into three classes by their age, as follows:")
    write_grid(page, CLASSES[:1], top=300)
    write_grid(page, CLASSES[1:], top=360)
    page.write(120, 490, "Members who gave no age are left out of all of the classes in this report.")

    (table,) = find_tables(page.item(), page.picture)

    assert (table.height, table.width) == (4, 3)
    cell = table.cell_at(2, 1)
    assert cell
    assert cell.text == "19–34"


@pytest.mark.parametrize(
    "text", ["$9,595–$17,992", "25 to 29 years", "Greater than $25,771", "≥ 5", "at least 12 m", "12"]
)
def test_amounts(text: str) -> None:
    assert is_amount(text)


@pytest.mark.parametrize(
    "text", ["over the sea", "from Larvik to Moss", "Terminal 2 to the quay", "up to you"]
)
def test_other_texts_are_no_amounts(text: str) -> None:
    assert not is_amount(text)


def test_lines_between_rows_of_texts_make_them_a_table() -> None:
    page = DrawnPage()
    write_grid(page, [("Color", "Milk"), ("green", "very cold"), ("white", "chilled"), ("brown", "not cold")])
    for row in range(5):
        page.rule(100, 293 + 34 * row, 600, 293 + 34 * row)

    (table,) = find_tables(page.item(), page.picture)

    assert (table.height, table.width) == (4, 2)


def test_a_sentence_between_two_tables_divides_them() -> None:
    page = DrawnPage()
    rows = [("", "2022", "2023"), ("North", "1,204", "1,310"), ("South", "880", "915")]
    write_grid(page, rows, top=200, pitch=30)
    page.write(120, 296, "Costs of leases were as follows in the year:")
    write_grid(page, rows, top=332, pitch=30)

    assert [table.height for table in find_tables(page.item(), page.picture)] == [3, 3]


def test_notes_and_page_numbers_below_a_ruled_table_are_left_out() -> None:
    page = DrawnPage()
    write_grid(page, [("Region", "2022", "2023"), ("North", "1,204", "1,310"), ("South", "880", "915")])
    page.write(120, 402, "Source: Survey of all regions")
    page.write(480, 460, "52")
    for y in (290, 326, 520):
        page.rule(100, y, 900, y)

    (table,) = find_tables(page.item(), page.picture)

    assert [cell.text for cell in table.cells][-3:] == ["South", "880", "915"]


def test_underlined_columns_belong_to_the_whole_table() -> None:
    page = DrawnPage()
    write_grid(page, [("", "Fair", "Carrying"), ("Debt", "1,205", "1,200"), ("Notes", "14", "15")])
    for y in (326, 394):
        page.rule(340, y, 480, y)

    (table,) = find_tables(page.item(), page.picture)

    assert table.width == 3


@pytest.mark.parametrize(
    "text", ["1,204", "FY 2019", "3 May 2024", "06:40", "2.9 points", "2024年3月5日", "16=100"]
)
def test_figures(text: str) -> None:
    assert is_figure(text)


@pytest.mark.parametrize("text", ["May", "Slide 16", "Item 1", "a 5", "", "Table 2 of 3"])
def test_other_texts_are_no_figures(text: str) -> None:
    assert not is_figure(text)


def draw_noise() -> PageGround:
    page = DrawnPage()
    page.write(100, 100, "one two")
    page.picture.paste(Image.effect_noise((WIDTH, HEIGHT - 10 * LINE), 90).convert("RGB"))
    return PageGround(page.picture, straighten_words(page.item()))


NOISE = draw_noise()
SIDE = st.floats(-100, 2000, allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(st.tuples(SIDE, SIDE, SIDE, SIDE))
def test_the_drawn_share_of_any_area_is_a_share(sides: tuple[float, float, float, float]) -> None:
    assert 0 <= NOISE.measure_drawing(Area(*sides)) <= 1
