"""Tables as annual reports print them: heads over heads, signs of currencies apart, sections, notes."""

from __future__ import annotations

import pytest

from tests.reading.tables.drawn_pages import LETTER, DrawnPage
from tests.reading.tables.test_finder import texts
from vrag.reading.tables.finder import find_tables

ENDS = (520, 680, 840, 1000)
"""Right sides of the columns of figures."""
ROWS = [("Revenue", "42,794", "47,830"), ("Costs", "(9,106)", "(10,702)"), ("Result", "1,634", "2,795")]


def write_body(page: DrawnPage, top: float, rows: list[tuple[str, ...]], left: float = 60) -> None:
    for number, (label, *values) in enumerate(rows):
        page.write(left, top + 30 * number, label)
        for end, value in zip(ENDS, values, strict=False):
            page.write(end, top + 30 * number, value, end=True)


def write_centred(page: DrawnPage, middle: float, y: float, text: str) -> None:
    page.write(middle - LETTER * len(text) / 2, y, text)


def write_statement(page: DrawnPage, top: float, rows: list[tuple[str, ...]]) -> None:
    """Write years above short rules, a currency sign far from the figures, and a rule below."""
    for year, end in zip(("2023", "2022"), ENDS, strict=False):
        write_centred(page, end - 60, top, year)
        page.rule(end - 130, top + 24, end + 5, top + 24)
    write_body(page, top + 34, rows)
    for number in (next(number for number, row in enumerate(rows) if len(row) > 1), len(rows) - 1):
        for end in ENDS[:2]:
            page.write(end - 125, top + 34 + 30 * number, "$")
    page.rule(60, top + 38 + 30 * len(rows), 690, top + 38 + 30 * len(rows))


def test_signs_of_currencies_stay_with_their_figures_below_the_years() -> None:
    page = DrawnPage()
    write_statement(page, 300, ROWS)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table) == [
        ["", "2023", "2022"],
        ["Revenue", "$ 42,794", "$ 47,830"],
        ["Costs", "(9,106)", "(10,702)"],
        ["Result", "$ 1,634", "$ 2,795"],
    ]
    assert (table.header_rows, table.header_columns) == (1, 1)


def test_a_rule_below_a_head_says_which_columns_it_spans() -> None:
    page = DrawnPage()
    rows = [("North", "11", "12", "13", "14"), ("South", "21", "22", "23", "24")]
    write_body(page, 334, rows)
    for first, last, text in ((0, 1, "Mix of goods"), (2, 3, "Change")):
        write_centred(page, (ENDS[first] - 60 + ENDS[last]) / 2, 270, text)
        page.rule(ENDS[first] - 110, 292, ENDS[last] + 5, 292)
        for column, year in ((first, "2023"), (last, "2022")):
            page.write(ENDS[column], 300, year, end=True)
    page.rule(60, 324, 1000, 324)
    page.rule(60, 394, 1000, 394)

    (table,) = find_tables(page.item(), page.picture)

    heads = [[cell.text for cell in table.column_heads(column)] for column in range(1, 5)]
    assert heads == [
        ["Mix of goods", "2023"],
        ["Mix of goods", "2022"],
        ["Change", "2023"],
        ["Change", "2022"],
    ]


def test_lines_of_a_head_above_the_others_are_one_head() -> None:
    page = DrawnPage()
    write_body(page, 334, [("Granted", "227", "112.62"), ("Left", "(35)", "91.31"), ("All", "514", "96.61")])
    for y, line in ((258, "Weighted"), (278, "Average Price"), (298, "per Share")):
        write_centred(page, ENDS[1] - 27, y, line)
    page.write(ENDS[0], 298, "Shares", end=True)
    page.write(60, 298, "Awards")
    for y in (324, 424):
        page.rule(60, y, 720, y)

    (table,) = find_tables(page.item(), page.picture)

    assert texts(table)[0] == ["Awards", "Shares", "Weighted Average Price per Share"]
    assert table.header_rows == 1


def test_a_section_above_the_first_figures_is_no_head_of_columns() -> None:
    page = DrawnPage()
    write_statement(page, 300, [("Assets",), *ROWS])
    page.rule(60, 360, 690, 360)

    (table,) = find_tables(page.item(), page.picture)

    assert table.header_rows == 1
    assert table.sections == frozenset({1})
    assert [cell.text for cell in table.row_heads(2)] == ["Assets", "Revenue"]


def test_a_sentence_divides_two_tables_with_the_same_rules() -> None:
    page = DrawnPage()
    write_statement(page, 300, ROWS)
    page.write(60, 460, "Payments for leases in both years were as follows ($ in millions):")
    write_statement(page, 510, [("Paid", "781", "814"), ("Due", "18", "1")])

    first, second = find_tables(page.item(), page.picture)

    assert [row[0] for row in texts(first)] == ["", "Revenue", "Costs", "Result"]
    assert texts(second)[1:] == [["Paid", "$ 781", "$ 814"], ["Due", "$ 18", "$ 1"]]
    assert second.caption.endswith("($ in millions):")


def test_long_labels_beside_figures_are_no_running_text() -> None:
    labels = (
        "Shares of all kinds outstanding",
        "Effect of the plans of the staff",
        "Shares after all effects of it",
    )
    page = DrawnPage()
    write_statement(page, 300, [(label, "224.8", "246.8") for label in labels])

    (table,) = find_tables(page.item(), page.picture)

    assert [row[0] for row in texts(table)] == ["", *labels]


def test_a_note_behind_its_mark_is_no_row() -> None:
    page = DrawnPage()
    write_statement(page, 300, ROWS)
    page.write(60, 440, "(1)")
    page.write(110, 440, "It excludes stores that were closed for a time")

    (table,) = find_tables(page.item(), page.picture)

    assert table.height == 4


def test_a_narrow_head_spans_the_columns_on_whose_centre_it_stands() -> None:
    page = DrawnPage()
    rows = [(name, "99.4%", "84.9", "99.0%", "83.2") for name in ("One", "Two", "Three")]
    write_body(page, 364, rows)
    page.write(60, 300, "Name")
    for first, last, text in ((0, 1, "M3"), (2, 3, "M4")):
        write_centred(page, (ENDS[first] - 45 + ENDS[last]) / 2, 300, text)
        page.write(ENDS[first], 330, "Rate", end=True)
        page.write(ENDS[last], 330, "Acc", end=True)
    for y in (290, 354, 460):
        page.rule(60, y, 1000, y)

    (table,) = find_tables(page.item(), page.picture)

    assert [[head.text for head in table.column_heads(column)] for column in range(1, 5)] == [
        ["M3", "Rate"],
        ["M3", "Acc"],
        ["M4", "Rate"],
        ["M4", "Acc"],
    ]


def test_consecutive_numbers_above_figures_are_heads() -> None:
    page = DrawnPage()
    write_body(
        page,
        300,
        [("Rounds", "0", "1", "2"), ("Small", "66.7%", "79.4%", "82.4%"), ("Big", "79%", "85%", "86%")],
    )

    (table,) = find_tables(page.item(), page.picture)

    assert table.header_rows == 1


def test_ranges_of_numbers_are_heads_of_rows() -> None:
    page = DrawnPage()
    write_body(
        page,
        300,
        [
            ("Size", "Holders", "Shares"),
            ("1-500", "49", "52"),
            ("501-1000", "3", "26"),
            ("1001-2000", "1", "9"),
        ],
    )

    (table,) = find_tables(page.item(), page.picture)

    assert (table.header_rows, table.header_columns) == (1, 1)


@pytest.mark.parametrize("rules", [(), (80, 1300)], ids=["none", "at head and foot"])
def test_parts_of_a_text_are_no_table(rules: tuple[int, ...]) -> None:
    page = DrawnPage()
    for number in range(8):
        page.write(60, 300 + 30 * number, f"Item {number + 1}.")
        page.write(
            200, 300 + 30 * number, ("Business.", "Properties.", "Controls and Procedures.")[number % 3]
        )
    for y in rules:
        page.rule(60, y, 940, y)

    assert find_tables(page.item(), page.picture) == ()
