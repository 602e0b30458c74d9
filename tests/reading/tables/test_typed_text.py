"""Tables as typewriters set them: letters of one width, rows of dots before values, rules of dashes."""

from __future__ import annotations

import pytest

from tests.reading.tables.drawn_pages import HEIGHT, LINE, WIDTH, DrawnPage
from tests.reading.tables.test_finder import texts
from vrag.geometry import Box
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.text_pieces import straighten_words
from vrag.types import Word

PITCH = 11.0
"""Width of a typed letter in pixels."""


def type_line(page: DrawnPage, y: float, line: str, left: float = 80) -> None:
    """Write a line of letters of one width; the ink of a letter is narrower than its place."""
    page.text += "\n" if page.text else ""
    column = 0
    for part in line.split(" "):
        if part:
            start = len(page.text)
            page.text += part
            x = left + PITCH * column
            right = x + PITCH * len(part) - 3
            low = y + (LINE / 2 if part[0] == "-" else LINE)
            high = low - (2 if part[0] in "-." else LINE)
            box = Box.unit(x / WIDTH, high / HEIGHT, right / WIDTH, low / HEIGHT)
            page.words.append(Word(start, start + len(part), box))
            page.text += " "
        column += len(part) + 1


TYPED = (
    "Sampling of vessels in northern harbours during winter",
    "",
    "Age of vessel            Catch     Share",
    "-----------------------------------------",
    "Under 1 year .......... 12,880      11.5",
    "1 - 2 years ...........  9,120      10.1",
    "3 - 19 years ..........    812       0.9",
    "20 years and over .....  1,040       1.4",
)


def test_words_with_one_blank_between_them_are_one_cell_of_typed_text() -> None:
    page = DrawnPage()
    for number, line in enumerate(TYPED):
        type_line(page, 100 + 26 * number, line)
    item = page.item()

    (table,) = find_tables(item, page.picture)

    assert straighten_words(item).monospaced
    assert texts(table) == [
        ["Age of vessel", "Catch", "Share"],
        ["Under 1 year", "12,880", "11.5"],
        ["1 - 2 years", "9,120", "10.1"],
        ["3 - 19 years", "812", "0.9"],
        ["20 years and over", "1,040", "1.4"],
    ]


def test_figures_with_one_blank_between_them_are_two_cells() -> None:
    page = DrawnPage()
    lines = (
        *TYPED[:4],
        "Small vessels             880      40",
        "Large vessels          12,000 2,080",
        *TYPED[6:],
    )
    for number, line in enumerate(lines):
        type_line(page, 100 + 26 * number, line)
    item = page.item()

    (table,) = find_tables(item, page.picture)

    assert texts(table)[2] == ["Large vessels", "12,000", "2,080"]


@pytest.mark.parametrize(
    ("values", "is_table"),
    [
        (["17.9 0.4", "19.0 0.3", "18.1 0.4", "16.2 0.2"], True),
        (["$120", "$8", "$1,040", "$64"], True),
        (["120", "8", "640", "64"], True),
        (["3", "8", "12", "40"], False),
        (["iv", "8", "12", "A-3"], False),
    ],
)
def test_dots_lead_to_the_values_of_a_table_or_to_pages(values: list[str], *, is_table: bool) -> None:
    page = DrawnPage()
    names = ("Male members", "Female members", "Visitors of ports", "Guests at sea")
    for number, (name, line) in enumerate(zip(names, values, strict=True)):
        page.write(110, 200 + 30 * number, name + "." * (40 - len(name)))
        for column, value in enumerate(line.split()):
            page.write(620 + 150 * column, 200 + 30 * number, value, end=True)

    tables = find_tables(page.item(), page.picture)

    expected = [[[name, *line.split()] for name, line in zip(names, values, strict=True)]]
    assert [texts(table) for table in tables] == (expected if is_table else [])


def test_values_that_are_two_dots_stay() -> None:
    page = DrawnPage()
    for number, name in enumerate(("Region", "North", "South", "West")):
        page.write(110, 200 + 30 * number, name)
        for column, x in enumerate((400, 520, 640)):
            value = (
                f"201{column}" if number == 0 else ".." if number == column + 1 else f"{7 * number + column}"
            )
            page.write(x, 200 + 30 * number, value, end=True)

    (table,) = find_tables(page.item(), page.picture)

    assert [row[number] for number, row in enumerate(texts(table)) if number > 0] == ["..", "..", ".."]


def test_dots_far_apart_are_no_leader() -> None:
    page = DrawnPage()
    for number, name in enumerate(("Region", "North", "South", "West")):
        page.write(110, 200 + 30 * number, name)
        page.write(400, 200 + 30 * number, f"{number * 12 + 5}", end=True)
        if number != 2:
            page.write(800, 200 + 30 * number, f"{number * 7 + 31}", end=True)
    start = len(page.text) + 1
    page.text += " ......"
    page.words.append(Word(start, start + 6, Box.unit(0.6, 273 / HEIGHT, 0.8, 276 / HEIGHT)))

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table)[2] == ["South", "29", "......"]


def test_proportional_text_is_not_typed() -> None:
    page = DrawnPage()
    for number, word in enumerate(
        ("will", "common", "little", "women", "fill", "mammal", "tilt", "wagon", "still", "moon")
    ):
        start = len(page.text)
        width = sum(4 if letter in "ilft" else 13 for letter in word)
        page.text += word + " "
        box = Box.unit(0.1, (100 + 30 * number) / HEIGHT, 0.1 + width / WIDTH, (118 + 30 * number) / HEIGHT)
        page.words.append(Word(start, start + len(word), box))

    assert not straighten_words(page.item()).monospaced


def test_figures_under_figures_are_a_table_whose_corner_names_them_and_repeated_heads_begin_another() -> None:
    page = DrawnPage()
    lines = ["Sampling of northern vessels during winter months and spring tides of harbours", ""]
    for first in (1.0, 2.0):
        lines += ["Share        " + "   ".join(f"{first + step / 10:.1f}" for step in range(4)), "-" * 40]
        lines += [
            f"0.{9 - row}5         " + "   ".join(f"{100 * row + 131 + n}" for n in range(4))
            for row in range(5)
        ]
        lines.append("")
    for number, line in enumerate(lines):
        type_line(page, 100 + 26 * number, line)

    tables = find_tables(page.item(), page.picture)

    assert [texts(table)[0] for table in tables] == [
        ["Share", "1.0", "1.1", "1.2", "1.3"],
        ["Share", "2.0", "2.1", "2.2", "2.3"],
    ]
    assert [table.height for table in tables] == [6, 6]
