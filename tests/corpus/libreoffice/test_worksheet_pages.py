"""Cells of a workbook have their addresses where they are sure, and none where they are not."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import fromstring

from vrag.corpus.formats.libreoffice.worksheet_pages import (
    WorksheetPage,
    find_worksheet_pages,
    locate_cells,
    order_rows,
    read_page_rows,
)
from vrag.corpus.formats.libreoffice.worksheets import Worksheet, WorksheetCell, column_name
from vrag.corpus.formats.libreoffice.xml_parts import NAMES
from vrag.geometry import Box
from vrag.types import Item, ItemFacts, ItemKind, TurnedText, Word, item_id

ROWS = [("Name", "Fee", "Share"), ("North", "410", "5"), ("South", "5", "410")]


def cells_of(rows: list[tuple[str, ...]]) -> list[WorksheetCell]:
    return [
        WorksheetCell(row, column, text, is_hidden=False)
        for row, cells in enumerate(rows)
        for column, text in enumerate(cells)
        if text
    ]


def page(lines: list[list[str]], lefts: dict[str, float] | None = None) -> Item:
    """A page with lines of cells, as far to the right as they are in their line."""
    text, words = "", list[Word]()
    for n, line in enumerate(lines):
        for column, cell in enumerate(line):
            for part in cell.split():
                left = (lefts or {}).get(part, column / 10)
                words.append(
                    Word(len(text), len(text) + len(part), Box.unit(left, n / 50, left + 0.05, n / 50 + 0.01))
                )
                text += f"{part} "
        text = f"{text[:-1]}\n"
    document = "ab" * 32
    return Item(
        id=item_id(document, 1),
        document=document,
        document_name="a.xlsx",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(words),
    )


def addresses(item: Item, cells: list[WorksheetCell]) -> dict[str, str]:
    return {cell.address: item.text[cell.start : cell.end] for cell in locate_cells(item, cells)}


def test_equal_values_have_the_addresses_of_their_rows_and_columns() -> None:
    item, cells = page([list(row) for row in ROWS]), cells_of(ROWS)
    assert addresses(item, cells) == {cell.address: cell.text for cell in cells}
    fees = [cell for cell in locate_cells(item, cells) if cell.address in {"B2", "C3"}]
    assert [item.text[: cell.start].count("\n") for cell in fees] == [1, 2]


def test_cells_with_several_lines_that_are_drawn_last_are_found() -> None:
    rows = [("Remark", "Year"), ("closed by the storms of the winter", "2025"), ("ok", "2026")]
    lines = [["Remark", "Year"], ["2025"], ["ok", "2026"], ["closed by the storms"], ["of the winter"]]
    item = page(lines, {"2025": 0.1})
    found = addresses(item, cells_of(rows))
    assert found["A2"].split() == rows[1][0].split()
    assert found["B2"] == "2025"
    assert len(found) == 6


def test_the_text_of_a_page_is_by_rows_with_its_words_and_facts_in_their_places() -> None:
    rows = [("Remark", "Year"), ("closed by storms of last winter", "2025"), ("ok", "2026")]
    lines = [
        ["Dues"],
        ["Remark", "Year"],
        ["2025"],
        ["ok", "2026"],
        ["closed by storms"],
        ["of last winter"],
    ]
    item = page([*lines, ["Page 1"]], {"2025": 0.1})
    cells = cells_of(rows)
    facts = ItemFacts(
        cells=locate_cells(item, cells), turned=(TurnedText(*range_of(item, "Year\n2025"), 90),)
    )
    ordered = order_rows(replace(item, facts=facts), len(cells))
    assert ordered.text == ("Dues\nRemark Year\nclosed by storms\nof last winter 2025\nok 2026\nPage 1")
    texts = [ordered.text[word.start : word.end] for word in ordered.words]
    assert texts == ordered.text.split()
    boxes = {item.text[word.start : word.end]: word.box for word in item.words}
    assert [word.box for word in ordered.words] == [boxes[text] for text in texts]
    assert {cell.address: ordered.text[cell.start : cell.end] for cell in ordered.facts.cells} == addresses(
        item, cells
    )
    assert [ordered.text[part.start : part.end] for part in ordered.facts.turned] == ["Year", "2025"]


def test_a_page_with_a_cell_whose_place_is_not_sure_keeps_its_order() -> None:
    rows = [("Remark", "Year"), ("closed by storms", "2025"), ("ok", "2026")]
    item = page([["Remark", "Year"], ["2025"], ["ok", "2026"], ["closed by storms"]], {"2025": 0.1})
    cells = cells_of(rows)
    item = replace(item, facts=ItemFacts(cells=locate_cells(item, cells)))
    assert order_rows(item, len(cells) + 1) is item
    assert order_rows(item, len(cells)) is not item


def range_of(item: Item, text: str) -> tuple[int, int]:
    start = item.text.index(text)
    return start, start + len(text)


def test_a_part_of_a_word_is_no_cell() -> None:
    rows = [("Total", "10"), ("Sum", "1")]
    assert addresses(page([["Total", "10"], ["Sum", "100"]]), cells_of(rows)) == {
        "A1": "Total",
        "B1": "10",
        "A2": "Sum",
    }


def test_a_cell_at_the_left_of_one_before_it_in_its_row_is_another() -> None:
    rows = [("a", "b", "c")]
    assert "B1" not in addresses(page([["a", "b", "c"]], {"b": 0.0}), cells_of(rows))


def test_a_page_in_another_order_has_no_addresses() -> None:
    rows = [(f"n{n}", f"v{n}") for n in range(9)]
    item = page([[f"x{n}"] for n in range(9)] + [[cell] for cell, _ in rows[:5]])
    assert locate_cells(item, cells_of(rows)) == ()


def test_a_stored_value_is_kept_where_it_is_not_what_is_shown() -> None:
    cells = [WorksheetCell(0, 0, "9.0 %", False, "0.0904"), WorksheetCell(0, 1, "7", False, "7")]
    assert [cell.value for cell in locate_cells(page([["9.0 %", "7"]]), cells)] == ["0.0904", ""]


def test_pages_have_the_rows_that_libreoffice_noted_of_the_sheets_that_are_shown() -> None:
    worksheets = [
        Worksheet("Old", True, (WorksheetCell(0, 0, "gone", False),)),
        Worksheet("Fees", False, tuple(WorksheetCell(row, 0, f"r{row}", row == 3) for row in range(6))),
        Worksheet("Plan", False, (WorksheetCell(2, 1, "x", False),)),
    ]
    pages = find_worksheet_pages(worksheets, {1: [0, 4, 6], 2: [2, 3]}, [("Fees", 1), ("Plan", 3)], 3)
    shown = {number: (page.worksheet, [cell.text for cell in page.cells]) for number, page in pages.items()}
    assert shown == {1: ("Fees", ["r0", "r1", "r2"]), 2: ("Fees", ["r4", "r5"]), 3: ("Plan", ["x"])}


def test_pages_whose_rows_are_not_sure_have_their_sheet_alone() -> None:
    worksheets = [Worksheet("Fees", False, (WorksheetCell(0, 0, "a", False),))]
    pages = find_worksheet_pages(worksheets, {0: [0, 1]}, [("Fees", 1)], 2)
    assert pages == {1: WorksheetPage("Fees", ()), 2: WorksheetPage("Fees", ())}
    assert find_worksheet_pages(worksheets, {}, [("Another", 1)], 1) == {}


def test_rows_of_pages_are_numbers_or_unknown() -> None:
    entries = "".join(
        f'<meta:user-defined meta:name="{name}">{text}</meta:user-defined>'
        for name, text in (("vrag rows 0", "0 47 92"), ("vrag rows 1", "0 x"), ("Author", "1"))
    )
    assert read_page_rows(fromstring(f'<m xmlns:meta="{NAMES["meta"]}">{entries}</m>')) == {0: [0, 47, 92]}
    assert read_page_rows(None) == {}


def test_columns_are_named_as_in_a_sheet() -> None:
    assert [column_name(n) for n in (0, 25, 26, 51, 52, 16383)] == ["A", "Z", "AA", "AZ", "BA", "XFD"]
