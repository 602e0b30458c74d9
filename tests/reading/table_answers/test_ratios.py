"""A ratio is computed where question, lines and period leave nothing open, and else it is not."""

from __future__ import annotations

import ast
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box
from vrag.reading.answer import MarkRole
from vrag.reading.places.named_cells import find_named_ratio
from vrag.reading.table_answers.ratios import (
    RatioAnswer,
    StatementPage,
    compute_ratio,
    load_ratios,
    name_lines,
    names_other_company,
    read_ratio_question,
    simplify_name,
)
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.types import Item, ItemKind

BALANCE = (
    ("", "December 31, 2023", "December 31, 2022"),
    ("Cash and cash equivalents", "200", "150"),
    ("Accounts receivable, net", "300", "250"),
    ("Inventories", "400", "360"),
    ("Total current assets", "1,000", "900"),
    ("Property, plant and equipment, net", "700", "650"),
    ("Total assets", "2,000", "1,800"),
    ("Accounts payable", "250", "230"),
    ("Total current liabilities", "500", "480"),
    ("Total liabilities", "1,200", "1,100"),
    ("Total equity", "800", "700"),
    ("Total liabilities and equity", "2,000", "1,800"),
)
INCOME = (
    ("", "2023", "2022"),
    ("Net sales", "4,000", "3,600"),
    ("Cost of sales", "(2,400)", "(2,200)"),
    ("Gross profit", "1,600", "1,400"),
    ("Operating income", "600", "500"),
    ("Interest expense", "(40)", "(50)"),
    ("Income before income taxes", "560", "450"),
    ("Income tax expense", "140", "110"),
    ("Net income", "420", "340"),
)
CASH = (
    ("", "2023", "2022"),
    ("Net cash provided by operating activities", "650", "500"),
    ("Capital expenditures", "(150)", "(120)"),
    ("Net cash used in investing activities", "(170)", "(130)"),
    ("Dividends paid", "(84)", "(80)"),
)
YEAR = "for FY2023"


def statement(rows: tuple[tuple[str, ...], ...], caption: str = "(in millions of euros)") -> DocumentTable:
    cells = (
        Cell(
            row=row, column=column, text=text,
            box=Box.unit(0.1 + 0.3 * column, 0.1 + 0.04 * row, 0.3 + 0.3 * column, 0.13 + 0.04 * row),
        )
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    )  # fmt: skip
    return DocumentTable(cells=tuple(cells), header_rows=1, header_columns=1, caption=caption)


def change(rows: tuple[tuple[str, ...], ...], name: str, *values: str) -> tuple[tuple[str, ...], ...]:
    return tuple((name, *values) if row[0] == name else row for row in rows)


def page(
    table: DocumentTable, number: int, document: str = "d", name: str = "ORLA_2023_10K.pdf"
) -> StatementPage:
    return StatementPage(document, name, f"{document}-{number}", "Orla Ferries plc", [table])


PAGES = [page(statement(rows), number) for number, rows in enumerate((BALANCE, INCOME, CASH), start=1)]


def ask(question: str, pages: list[StatementPage] = PAGES) -> RatioAnswer | None:
    return compute_ratio(question, pages)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("current ratio", "2.00"),
        ("quick ratio", "1.00"),
        ("working capital", "500"),
        ("debt to equity ratio", "1.50"),
        ("debt-to-assets ratio", "0.60"),
        ("gross margin", "40.0 %"),
        ("operating margin", "15.0 %"),
        ("net profit margin", "10.5 %"),
        ("effective tax rate", "25.0 %"),
        ("return on assets", "22.1 %"),  # 420 ÷ 1,900
        ("return on equity", "56.0 %"),  # 420 ÷ 750
        ("return on capital employed", "40.0 %"),
        ("asset turnover", "2.11"),
        ("inventory turnover", "6.32"),  # 2,400 ÷ 380
        ("days payable outstanding", "36.5 days"),  # 365 × 240 ÷ 2,400
        ("days sales outstanding", "25.1 days"),
        ("interest coverage", "15.00"),
        ("dividend payout ratio", "20.0 %"),
        ("free cash flow", "500"),
    ],
)
def test_ratios_are_those_of_their_definitions(name: str, expected: str) -> None:
    answer = ask(f"What is Orla's {name} {YEAR}?")

    assert answer is not None
    assert answer.text == expected
    assert answer.arithmetic.endswith(f"= {expected}")


def test_the_answer_states_formula_and_figures() -> None:
    answer = ask(f"What was the inventory turnover {YEAR}?")

    assert answer is not None
    assert answer.arithmetic == (
        "inventory turnover = cost of sales ÷ average inventories = 2,400 ÷ ((360 + 400) ÷ 2) = 6.32"
    )


@pytest.mark.parametrize(
    "question",
    [
        "What is the current ratio?",
        "What is the current ratio for FY2021?",
        "What is the current ratio for 2022 and 2023?",
        "What is the current ratio of Tamm for FY2023?",
        "What is the current ratio of the ferries segment for FY2023?",
        "How did the current ratio change in FY2023?",
        "What is the average current ratio for FY2023?",
        "What are the current ratio and the quick ratio for FY2023?",
        "What is the adjusted operating margin for FY2023?",
        "What is the current ratio for Q2 of FY2023?",
        "What is the current ratio for FY2023? Current ratio is defined as cash / total current liabilities.",
        "What is the inventory turnover for FY2022?",
        "What is the price to earnings ratio for FY2023?",
        "Compare the current ratio of FY2023 with that of other companies.",
    ],
)
def test_a_question_that_leaves_something_open_is_not_answered(question: str) -> None:
    assert ask(question) is None


def test_a_date_names_a_period_as_a_year_does() -> None:
    assert ask("What was the current ratio at December 31, 2022?").number == Decimal("1.875")  # type: ignore[union-attr]
    assert ask("What was the current ratio at June 30, 2022?") is None


@pytest.mark.parametrize(
    "balance",
    [
        statement(change(BALANCE, "Total current liabilities", "n/a", "480")),
        statement(change(BALANCE, "Total current liabilities", "0", "480")),
        statement(change(BALANCE, "Total current liabilities", "1", "480")),  # beyond the bounds
        statement(change(BALANCE, "", "January 28, 2023", "January 29, 2022")),
        statement(change(BALANCE, "", "December 31, 2023", "September 30, 2023")),
        statement(change(BALANCE, "Inventories", "400", "360"), caption="Three months ended (in millions)"),
        statement(BALANCE[:8]),
        statement((*BALANCE, ("Current ratio", "2.1", "1.9"))),  # as the company computes it
        replace(statement(BALANCE), is_part=True),
        replace(statement(BALANCE), chart="bar chart"),
    ],
)
def test_a_table_that_leaves_something_open_gives_no_ratio(balance: DocumentTable) -> None:
    assert ask(f"What is the current ratio {YEAR}?", [page(statement(BALANCE), 1)]) is not None
    assert ask(f"What is the current ratio {YEAR}?", [page(balance, 1)]) is None


def test_a_ratio_that_the_company_states_is_the_computed_one() -> None:
    stated = statement((*BALANCE, ("Current ratio", "2.0", "1.9")))

    assert ask(f"What is the current ratio {YEAR}?", [page(stated, 1)]) is not None


def test_an_amount_of_an_unknown_scale_is_not_given() -> None:
    question = f"What is the working capital {YEAR}?"
    large = tuple((row[0], *(f"{text},000,000" for text in row[1:])) for row in BALANCE[1:])

    assert ask(question, [page(statement(BALANCE, caption=""), 1)]) is None
    answer = ask(question, [page(statement((BALANCE[0], *large), caption=""), 1)])
    assert answer is not None
    assert answer.text == "500,000,000"


def test_lines_that_differ_between_tables_or_in_scale_give_no_ratio() -> None:
    question = f"What is the current ratio {YEAR}?"
    other = page(statement(change(BALANCE, "Total current assets", "1,001", "900")), 2)
    income = page(statement(INCOME, caption="(in thousands of euros)"), 2)

    assert ask(question, [PAGES[0], page(statement(BALANCE), 2)]) is not None
    assert ask(question, [PAGES[0], other]) is None
    assert ask(f"What is the return on assets {YEAR}?", [PAGES[0], income]) is None


def test_documents_that_differ_give_no_ratio() -> None:
    other = statement(change(BALANCE, "Total current assets", "1,100", "900"))

    assert ask(f"What is the current ratio {YEAR}?", [PAGES[0], page(other, 1, "e", "TAMM.pdf")]) is None
    assert (
        ask(
            f"What is Orla's current ratio {YEAR}?", [PAGES[0], replace_text(page(other, 1, "e", "TAMM.pdf"))]
        )
        is not None
    )


def replace_text(page: StatementPage) -> StatementPage:
    return page._replace(text="Tamm Shipping plc")


def test_securities_of_an_unknown_name_keep_the_quick_ratio_from_being_computed() -> None:
    at = next(number for number, row in enumerate(BALANCE) if row[0].startswith("Accounts receivable"))
    known = (*BALANCE[:at], ("Marketable securities", "100", "90"), *BALANCE[at:])
    unknown = (*BALANCE[:at], ("Time deposits", "100", "90"), *BALANCE[at:])
    question = f"What is the quick ratio {YEAR}?"

    assert ask(question, [page(statement(known), 1)]).text == "1.20"  # type: ignore[union-attr]
    assert ask(question, [page(statement(unknown), 1)]) is None


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_current_ratio_is_exact(assets: int, liabilities: int) -> None:
    rows = change(BALANCE, "Total current assets", f"{assets:,}", "1")
    rows = change(rows, "Total current liabilities", f"{liabilities:,}", "1")
    answer = ask(f"What is the current ratio {YEAR}?", [page(statement(rows), 1)])
    expected = Decimal(assets) / Decimal(liabilities)

    assert (answer is None) == (not Decimal("0.02") <= expected <= 50)
    assert answer is None or abs(answer.number - expected) < Decimal("1e-20")


def test_a_page_about_another_company_is_told_by_its_words_and_its_name() -> None:
    question = f"What is Orla's free cash flow {YEAR}?"

    assert names_other_company(question, "TAMM_10K.pdf", "Tamm Shipping plc")
    assert not names_other_company(question, "ORLA_10K.pdf", "")
    assert not names_other_company(question, "annual.pdf", "Orla Ferries plc")
    assert not names_other_company("What did Orla earn in 2023?", "TAMM_10K.pdf", "Tamm Shipping plc")


def test_each_operand_is_marked_on_its_page() -> None:
    pages = [
        (
            Item(
                id=f"d-{number}",
                document="d",
                document_name="ORLA.pdf",
                kind=ItemKind.PAGE,
                ordinal=number,
                text="Orla",
            ),
            [statement(rows)],
        )
        for number, rows in enumerate((BALANCE, INCOME), start=1)
    ]

    reading = find_named_ratio(
        "What is the inventory turnover for FY2023? Round to one decimal place.", pages
    )

    assert reading is not None
    assert (reading.text, reading.is_certain, reading.item) == ("6.3", True, "d-2")
    assert [mark.role for mark in reading.marks].count(MarkRole.OPERAND) == 1
    (further,) = reading.further
    assert further.item == "d-1"
    assert [mark.role for mark in further.marks].count(MarkRole.OPERAND) == 2
    assert find_named_ratio("Is the inventory turnover for FY2023 6.3?", pages) is None


def test_the_table_of_ratios_is_consistent() -> None:
    table = load_ratios()
    names = [name for ratio in table.ratios for name in ratio.names]

    assert len(set(names)) == len(names)
    assert all(simplify_name(name) == name for name in names)
    assert all(simplify_name(name) == name for line in table.lines.values() for name in line.names)
    assert {line.statement for line in table.lines.values()} == set(table.statements) == set(table.search)
    for ratio in table.ratios:
        assert ratio.source in table.sources
        assert (ratio.bounds is None) == (ratio.unit == "amount")
        for formula in ratio.formulas:
            used = {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)} - {
                "average"
            }
            assert used <= set(table.lines)


def test_lines_are_named_for_the_search_of_ratios_alone() -> None:
    assert "total current assets" in name_lines(f"What is the current ratio {YEAR}?")
    assert name_lines("What were the net sales for FY2023?") == ()
    assert read_ratio_question("Which berth is the current one in 2023?") is None
