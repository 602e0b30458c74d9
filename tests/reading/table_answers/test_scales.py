"""The scale and the unit of numbers are those that heads, captions and lines above a table state."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.questions.answer_form import measure_answer, read_form
from vrag.reading.table_answers.scales import UNMEASURED, CellMeasure, measure_of_cells
from vrag.reading.table_answers.values import parse_cell
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.numerals import NumberStyle


def make(rows: list[list[str]], caption: str = "", note: str = "") -> DocumentTable:
    cells = [
        Cell(row=row, column=column, text=text)
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]
    return DocumentTable(
        cells=tuple(cells), header_rows=1, header_columns=1, caption=caption, measure_note=note
    )


def measure(
    cell: str, *, row: str = "Fares", head: str = "2024", corner: str = "", caption: str = ""
) -> CellMeasure:
    table = make([[corner, head, "Other (kg)"], [row, cell, "5"]], caption)
    return measure_of_cells(table, [cell for cell in table.cells if (cell.row, cell.column) == (1, 1)])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (measure("4,182", caption="In thousands of euros"), CellMeasure("thousand", "euros")),
        (measure("4,182", caption="Sales (EUR million)"), CellMeasure("million", "EUR")),
        (measure("4,182", caption="$ in millions, except per share amounts"), CellMeasure("million", "$")),
        (measure("$ 4,182", caption="$ in millions"), CellMeasure("million")),
        (measure("4,182", head="2024 (€ m)"), CellMeasure("million", "€")),
        (measure("4,182", corner="EUR '000"), CellMeasure("thousand", "EUR")),
        (measure("4,182", caption="Budget of Tamm (EUR)"), CellMeasure("", "EUR")),
        (measure("4,182", caption="Budget of Tamm, in euros"), CellMeasure("", "euros")),
        (measure("12.5", head="Weight (kg)"), CellMeasure("", "kg")),
        (measure("12.5", head="%"), CellMeasure("", "%")),
        (measure("12.5 %", head="Share (%)"), UNMEASURED),
        (measure("2019", caption="In thousands of euros"), UNMEASURED),
        (measure("4,182 in all", caption="In thousands of euros"), UNMEASURED),
        (measure("4,182"), UNMEASURED),
    ],
)
def test_the_nearest_words_state_the_measure(found: CellMeasure, expected: CellMeasure) -> None:
    assert found == expected


@pytest.mark.parametrize(
    "row",
    ["Number of stores", "Employees", "Earnings per share", "Gross margin", "Shares outstanding", "Tax rate"],
)
def test_what_is_no_money_is_not_in_millions(row: str) -> None:
    assert measure("4,182", row=row, caption="In millions of euros") == UNMEASURED
    assert measure("4,182", row="Fares", caption="In millions of euros") != UNMEASURED


def test_a_line_above_states_it_where_the_caption_does_not() -> None:
    table = make([["", "2024"], ["Fares", "4,182"]], "Income of Orla", "in thousands of euros")
    fares = [table.cells[-1]]

    assert measure_of_cells(table, fares) == CellMeasure("thousand", "euros")
    assert measure_of_cells(replace(table, measure_note=""), fares) == UNMEASURED


@pytest.mark.parametrize(
    ("question", "measure", "text", "shown"),
    [
        ("What were the sales?", CellMeasure("thousand", "euros"), "9,180", "(in thousands of euros)"),
        ("What were the sales in euros?", CellMeasure("thousand", "EUR"), "9,180,000 euros", ""),
        ("What were the sales in million euros?", CellMeasure("thousand", "EUR"), "9.18 million euros", ""),
        ("What were the sales in thousands?", CellMeasure("thousand", "EUR"), "9,180 thousand EUR", ""),
        ("What were the sales in EUR?", CellMeasure("thousand"), "9,180,000 EUR", ""),
        ("What were the sales in dollars?", CellMeasure("thousand", "EUR"), "9,180", "(in thousands of EUR)"),
        ("What were the sales in euros?", CellMeasure("", "EUR"), "9,180", "EUR"),
        ("What were the sales in euros?", UNMEASURED, "9,180", ""),
        ("What were the sales? Answer in million.", CellMeasure("thousand", "EUR"), "9,180", ""),
    ],
)
def test_a_scale_that_is_asked_for_is_applied(
    question: str, measure: CellMeasure, text: str, shown: str
) -> None:
    found = measure_answer("9,180", read_form(question), measure)

    assert (found.text, found.measure) == (text, shown)


def test_the_conversion_is_shown() -> None:
    found = measure_answer("(425)", read_form("What is it in euros?"), CellMeasure("thousand", "euros"))
    german = measure_answer(
        "84.210", read_form("What is it in euros?"), CellMeasure("thousand", "EUR"), style=NumberStyle(",")
    )

    assert found.arithmetic == "(425) × 1,000 = -425,000 euros"
    assert german.text == "84.210.000 euros"


@given(
    st.decimals(-(10**9), 10**9, places=2),
    st.sampled_from(["", "thousand", "million", "billion"]),
    st.sampled_from(["thousand", "million", "billion"]),
)
def test_a_conversion_keeps_the_amount(number: Decimal, asked: str, own: str) -> None:
    wanted = f"{asked} euros".strip()
    form = read_form(f"What is it in {wanted}?")
    powers = {"": 0, "thousand": 3, "million": 6, "billion": 9}
    found = measure_answer(f"{number:,.2f}", form, CellMeasure(own, "EUR"))
    read = parse_cell(found.text.split(" ")[0]).number

    assert read is not None
    assert read == number.scaleb(powers[own] - powers[asked])
    assert found.text.endswith(f" {wanted}")
