"""Candidates for answers over a table, and their order, on tables like those of pages."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.reading.table_answers.candidates import (
    TableCandidate,
    load_table_scorer,
    rank_answers,
    solve_table,
    table_candidates,
)
from vrag.reading.table_answers.features import TABLE_FEATURES
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.programs import MAX_PROGRAMS
from vrag.reading.table_answers.question import analyse_question
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.numerals import NumberStyle


def make(rows: list[list[str]], *, header_rows: int = 1, header_columns: int = 1) -> DocumentTable:
    return DocumentTable(cells=place(rows), header_rows=header_rows, header_columns=header_columns)


def place(rows: list[list[str]]) -> tuple[Cell, ...]:
    return tuple(Cell(row=r, column=c, text=text) for r, row in enumerate(rows) for c, text in enumerate(row))


LINES = make(
    [
        ["Line", "Ship", "2022", "2023", "2024", "Change"],
        ["Orla – Saltby", "Fulmar", "2,920", "86,040", "84,210", "−2.1 %"],
        ["Hessel – Orla", "Tern", "31,000", "40,120", "44,350", "+10.5 %"],
        ["Saltby – Fennick", "Auk", "12,010", "11,870", "12,400", "+4.5 %"],
        ["Total", "", "45,930", "138,030", "140,960", "+2.1 %"],
    ]
)
BOATS = make(
    [
        ["航线", "首班船", "末班船", "票价"],
        ["赫塞尔港—奥拉岛", "06:40", "21:15", "12元"],
        ["奥拉岛—索尔比", "07:10", "20:30", "9元"],
        ["索尔比—芬尼克", "08:00", "18:45", "15元"],
    ]
)
MEDALS = make(
    [
        ["Nation", "Gold", "Silver", "Year"],
        ["Norway", "5", "4", "1994"],
        ["Kenya", "2", "6", "1998"],
        ["Japan", "9", "1", "2002"],
        ["Peru", "9", "3", "2006"],
    ]
)


def find(question: str, table: DocumentTable, operation: TableOperation, text: str) -> TableCandidate:
    found = [c for c in table_candidates(question, table) if c.operation is operation and c.text == text]
    assert found, f"no {operation} {text!r}"
    return found[0]


def test_a_cell_is_found_by_the_head_of_its_row_and_of_its_column() -> None:
    candidate = find(
        "How many passengers from Orla to Saltby in 2024?", LINES, TableOperation.LOOKUP, "84,210"
    )

    assert [cell.text for cell in candidate.cells] == ["84,210"]
    assert {cell.text for cell in candidate.heads} >= {"2024", "Orla – Saltby"}
    assert not candidate.arithmetic
    assert candidate.number is None


@pytest.mark.parametrize(
    ("question", "table", "text"),
    [
        ("How many passengers travelled on the line from Orla to Saltby in 2024?", LINES, "84,210"),
        ("How many passengers travelled from Saltby to Fennick in 2023?", LINES, "11,870"),
        ("从赫塞尔港到奥拉岛的末班船几点开？", BOATS, "21:15"),
        ("奥拉岛到索尔比的票价是多少？", BOATS, "9元"),
        ("How many silver medals did Kenya win?", MEDALS, "6"),
        ("Which nation won the most silver medals?", MEDALS, "Kenya"),
        ("Which ship sails from Hessel to Orla?", LINES, "Tern"),
    ],
)
def test_the_likeliest_answer_is_right(question: str, table: DocumentTable, text: str) -> None:
    answers = rank_answers(question, table)

    assert answers[0].candidate.text == text
    assert 0 < answers[0].probability <= 1


def test_a_change_in_per_cent_shows_its_operands() -> None:
    question = "By how many percent did passengers from Hessel to Orla change between 2023 and 2024?"
    candidate = find(question, LINES, TableOperation.PERCENT_CHANGE, "+10.5 %")

    assert candidate.arithmetic == "40,120 → 44,350: +10.5 %"
    assert [cell.text for cell in candidate.operands] == ["44,350", "40,120"]
    assert not candidate.cells


@pytest.mark.parametrize(
    ("question", "table", "operation", "text"),
    [
        ("How many nations won more than 4 gold medals?", MEDALS, TableOperation.COUNT, "3"),
        ("What is the total of gold medals of all nations?", MEDALS, TableOperation.SUM, "25"),
        ("What is the average number of silver medals?", MEDALS, TableOperation.AVERAGE, "3.50"),
        ("How many more gold medals did Japan win than Kenya?", MEDALS, TableOperation.DIFFERENCE, "7"),
        ("Who won more silver medals, Kenya or Peru?", MEDALS, TableOperation.WHICH_OF, "Kenya"),
        ("Which nation is listed after Kenya?", MEDALS, TableOperation.LOOKUP, "Japan"),
        ("Which nation won the least gold medals?", MEDALS, TableOperation.MINIMUM, "Kenya"),
        ("Which nations won the most gold medals?", MEDALS, TableOperation.MAXIMUM, "Japan, Peru"),
        ("哪条航线的票价最高？", BOATS, TableOperation.MAXIMUM, "索尔比—芬尼克"),
        ("In which year did Orla – Saltby have the highest number?", LINES, TableOperation.MAXIMUM, "2023"),
    ],
)
def test_programs_compute_answers(
    question: str, table: DocumentTable, operation: TableOperation, text: str
) -> None:
    find(question, table, operation, text)


def test_a_total_is_no_maximum_of_its_parts() -> None:
    found = table_candidates("Which line had the most passengers in 2024?", LINES)
    maxima = {candidate.text for candidate in found if candidate.operation is TableOperation.MAXIMUM}

    assert "Orla – Saltby" in maxima
    assert "Total" not in maxima


def test_a_line_from_one_place_to_another_is_no_difference() -> None:
    found = table_candidates("How many passengers travelled from Orla to Saltby in 2024?", LINES)

    assert all(candidate.operation is not TableOperation.DIFFERENCE for candidate in found)


def test_sections_name_the_rows_below_them() -> None:
    rows = [
        ["", "2023", "2024"],
        ["Income", "", ""],
        ["Tickets", "40", "44"],
        ["Expenses", "", ""],
        ["Tickets", "3", "5"],
    ]
    table = DocumentTable(cells=place(rows), header_rows=1, header_columns=1, sections=frozenset({1, 3}))

    assert rank_answers("How high were the expenses for tickets in 2024?", table)[0].candidate.text == "5"


def test_a_row_of_units_does_not_hide_the_years() -> None:
    rows = [["", "2019", "2018"], ["", "£m", "£m"], ["Opening", "9", "8"], ["Additions", "5", "7"]]
    table = make(rows, header_rows=2)

    find("In which year were additions the highest?", table, TableOperation.MAXIMUM, "2018")


@pytest.mark.parametrize(
    ("caption", "head", "scale"),
    [("In thousands of euros", "2019", "thousand"), ("", "2019 (€ m)", "million"), ("", "2019", "")],
)
def test_caption_and_heads_give_the_scale(caption: str, head: str, scale: str) -> None:
    rows = [["", head, "2018"], ["Fares", "4,182", "3,926"], ["Share", "12 %", "13 %"]]
    table = DocumentTable(cells=place(rows), header_rows=1, header_columns=1, caption=caption)
    fares = find("How high were fares in 2019?", table, TableOperation.LOOKUP, "4,182")
    share = find("How high was the share in 2019?", table, TableOperation.LOOKUP, "12 %")

    assert fares.scale == scale
    assert share.scale == "percent"


def test_a_question_with_is_is_answered_by_comparison() -> None:
    found = rank_answers("Did Japan win more gold medals than Kenya?", MEDALS)

    assert found[0].candidate.text == "yes"
    assert {cell.text for cell in found[0].candidate.cells} == {"9", "2"}


def test_without_operations_there_are_only_cells() -> None:
    found = table_candidates("How many nations won more than 4 gold medals?", MEDALS, operations=False)

    assert found
    assert all(
        candidate.number is None or candidate.operation is TableOperation.NUMBER for candidate in found
    )


def test_features_have_a_column_for_each_name() -> None:
    found = table_candidates("How many silver medals did Kenya win?", MEDALS)

    assert all(candidate.features.shape == (len(TABLE_FEATURES),) for candidate in found)
    assert all(np.isfinite(candidate.features).all() for candidate in found)
    assert len(set(TABLE_FEATURES)) == len(TABLE_FEATURES)


@pytest.mark.parametrize(
    "cells",
    [
        ("1e400", "-1e400", "1e-400", "nan"),
        ("9" * 400, "0." + "0" * 400 + "1", "inf", "∞"),
        ("", " ", "–", "0"),
        ("99 %", "1/0", "24:61", "31.2.0000"),
    ],
)
def test_features_are_finite_whatever_the_cells_hold(cells: tuple[str, str, str, str]) -> None:
    """Nor is anything that is not finite computed with on the way."""
    table = make([["Line", "Fares in 2023", "Fares in 2024"], ["Orla", *cells[:2]], ["Tern", *cells[2:]]])
    questions = (
        "What is the difference between the fares of Orla and Tern in 2024?",
        "By what percentage did the fares of Orla change from 2023 to 2024?",
        f"Which line has fares of {cells[0]} in total?",
        " ".join(f"Orla{n}" for n in range(80)) + " fares?",
    )
    with np.errstate(all="raise"):
        for question in questions:
            features = solve_table(question, table).features
            assert len(features)
            assert np.isfinite(features).all()


def test_the_weights_of_the_package_belong_to_the_features() -> None:
    assert load_table_scorer().names == TABLE_FEATURES


def test_a_huge_table_has_a_limited_number_of_candidates() -> None:
    rows = [
        ["Name", "Score", "Year"],
        *([f"Player {n}", str(n * 7 % 1000), str(1900 + n % 100)] for n in range(5000)),
    ]
    found = table_candidates(
        "Which player had the highest score after 1950, and who was next to Player 77?", make(rows)
    )

    assert 0 < len(found) <= 2 * MAX_PROGRAMS


@pytest.mark.parametrize("question", ["", "?", "of the", "多少", "a" * 5000, "5 " * 400], ids=range(6))
@pytest.mark.parametrize(
    "table", [DocumentTable(cells=()), make([["", ""], ["", ""]]), make([["a"]]), MEDALS]
)
def test_any_question_over_any_table_is_no_error(question: str, table: DocumentTable) -> None:
    assert len(rank_answers(question, table)) <= 10


SAMPLES = ["5", "1,200", "$ (3.4)", "3 May 2024", "12 %", "–", "三十", "2:10"]
QUESTIONS = ["how many more 5 than 1,200 total?", "最高的是多少？"]
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(SAMPLES))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.lists(TEXTS, min_size=3, max_size=3), min_size=1, max_size=6),
    question=st.one_of(st.text(max_size=60), st.sampled_from(QUESTIONS)),
    header_rows=st.integers(0, 3),
    header_columns=st.integers(0, 3),
)
def test_any_texts_are_no_error(
    rows: list[list[str]], question: str, header_rows: int, header_columns: int
) -> None:
    table = make(rows, header_rows=header_rows, header_columns=header_columns)

    assert all(answer.candidate.text for answer in rank_answers(question, table))


ACCOUNTS = make(
    [
        ["", "2024", "2023"],
        ["Revenue", "9,180.10", "8,410.20"],
        ["Wages", "(5,325.00)", "(4,990.00)"],
        ["Fuel", "(3,870)", "(2,655)"],
        ["Net result", "(425)", "370"],
        ["Net loss of Saltby", "(120)", "(150)"],
        ["Result after all costs", "(425)", "(370)"],
    ]
)


@pytest.mark.parametrize(
    ("question", "text", "arithmetic"),
    [
        ("By how many percent did fuel costs rise from 2023 to 2024?", "+45.8 %", "2,655 → 3,870: +45.8 %"),
        ("How much did fuel costs change from 2023 to 2024?", "1,215", "3,870 − 2,655 = 1,215"),
        ("By how many percent did wages change?", "+6.7 %", "4,990.00 → 5,325.00: +6.7 %"),
    ],
)
def test_a_cost_that_grows_is_a_growth(question: str, text: str, arithmetic: str) -> None:
    """Accounts write what is spent as negative numbers, in brackets."""
    operation = TableOperation.PERCENT_CHANGE if "%" in text else TableOperation.DIFFERENCE

    assert find(question, ACCOUNTS, operation, text).arithmetic == arithmetic


def test_a_loss_keeps_its_sign() -> None:
    question = "How much did the net loss of Saltby change from 2023 to 2024?"

    assert find(question, ACCOUNTS, TableOperation.DIFFERENCE, "30").arithmetic == "(120) − (150) = 30"
    rose = "By how many percent did the result after all costs rise from 2023 to 2024?"
    find(rose, ACCOUNTS, TableOperation.PERCENT_CHANGE, "-14.9 %")
    changed = find("What is the change in net result?", ACCOUNTS, TableOperation.DIFFERENCE, "-795")
    assert changed.arithmetic == "(425) − 370 = -795"


PRICES = make([["Item", "Price"], ["Rope", "0.10"], ["Hook", "0.20"], ["Buoy", "1.05"]])


def test_sums_and_means_are_exact() -> None:
    total = find("What is the total price of all?", PRICES, TableOperation.SUM, "1.35")
    both = find("What do rope and hook cost in total?", PRICES, TableOperation.SUM, "0.30")
    mean = find("What is the average price?", PRICES, TableOperation.AVERAGE, "0.45")

    assert (total.number, both.number, mean.number) == (
        Decimal("1.35"), Decimal("0.30"), Decimal("0.45")
    )  # fmt: skip
    assert mean.arithmetic == "(0.10 + 0.20 + 1.05) ÷ 3 = 0.45"


def test_a_half_is_rounded_up() -> None:
    table = make([["Item", "Price"], ["Rope", "0.1"], ["Hook", "0.2"]])

    find("What is the average price?", table, TableOperation.AVERAGE, "0.2")


@pytest.mark.parametrize(
    ("style", "total", "smallest"),
    [(NumberStyle(","), "13.684", "987"), (NumberStyle(), "1,000.684", "1.204")],
)
def test_numbers_are_read_and_written_as_the_document_writes_them(
    style: NumberStyle, total: str, smallest: str
) -> None:
    rows = [["Area", "2024"], ["Harbour", "1.204"], ["School", "12.480"], ["Fire brigade", "987"]]
    table = replace(make(rows), number_style=style)
    chosen = "What is the total of harbour and school in 2024?"
    expected = total if style.decimal_sign else "13.684"

    find(chosen, table, TableOperation.SUM, expected)
    find("Which is the lowest in 2024?", table, TableOperation.MINIMUM, smallest)


@pytest.mark.parametrize(
    ("question", "operation", "is_asked"),
    [
        ("What does error 88 mean?", TableOperation.AVERAGE, False),
        ("What is meant by E4, and what do they mean?", TableOperation.AVERAGE, False),
        ("What is the mean of the errors?", TableOperation.AVERAGE, True),
        ("What is the average error?", TableOperation.AVERAGE, True),
        ("Which line has the most passengers?", TableOperation.MAXIMUM, True),
        ("Which line has the most passengers?", TableOperation.MINIMUM, False),
        ("Which line has the fewest passengers?", TableOperation.MAXIMUM, False),
        ("Which line is the cheapest?", TableOperation.MINIMUM, True),
        ("Which line is the best?", TableOperation.MAXIMUM, False),
        ("What was the first line?", TableOperation.MAXIMUM, True),
        ("What were the sales in 2024?", TableOperation.SUM, False),
        ("What were the sales in 2024?", TableOperation.COUNT, False),
        ("What were the sales in 2024?", TableOperation.SHARE, False),
        ("What were the sales in 2024?", TableOperation.DIFFERENCE, False),
    ],
)
def test_nothing_is_computed_unless_it_is_asked_for(
    question: str, operation: TableOperation, is_asked: bool
) -> None:
    assert analyse_question(question).asks_for(operation) is is_asked


@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=2, max_size=12))
def test_the_sum_of_a_column_is_that_of_its_numbers(numbers: list[Decimal]) -> None:
    rows = [[f"Ship {number}", f"{amount:,.2f}"] for number, amount in enumerate(numbers)]
    found = table_candidates("What is the total of all fares?", make([["Ship", "Fares"], *rows]))
    sums = {one.number for one in found if one.operation is TableOperation.SUM}

    assert sum(numbers) in sums


@pytest.mark.parametrize(
    ("question", "operation", "arithmetic"),
    [
        ("How much did Orla – Saltby change?", TableOperation.DIFFERENCE, "86,040 − 2,920 = 83,120"),
        ("How many more passengers in all?", TableOperation.RANGE, "86,040 − 11,870 = 74,170"),
    ],
)
def test_a_difference_is_shown_from_the_larger_number_down(
    question: str, operation: TableOperation, arithmetic: str
) -> None:
    found = table_candidates(question, LINES)

    assert arithmetic in {one.arithmetic for one in found if one.operation is operation}
