"""Reading of data sets over tables, the comparison of answers, and a small training."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from vrag.reading.scorer import TrainingOptions
from vrag.reading.training.table_data import (
    TableCase,
    matches_answer,
    normalise_answer,
    read_tat_cases,
    read_tat_table,
    read_wiki_cases,
)
from vrag.reading.training.tat_measure import compare_spans, write_scaled
from vrag.reading.training.train_tables import TableTrainingOptions, train_table_scorer

CSV = '"Year","Team, \\"A\\"","Points"\n"2001","Fulmar","1,204"\n"2002","Tern","990"\n"2003","Auk","1,310"\n'
TSV = (
    "id\tutterance\tcontext\ttargetValue\n"
    "n-0\twhich team had the most points?\tcsv/0.csv\tAuk\n"
    "n-1\thow many points did tern have?\tcsv/0.csv\t990\n"
    "n-2\tname the teams before 2003\tcsv/0.csv\tFulmar|Tern\n"
)
TAT = [
    {
        "table": {
            "uid": "t",
            "table": [
                ["", "Years ended", ""],
                ["", "2019", "2018"],
                ["Sales", "$ 44.1", "$ 40.0"],
                ["Other", "3", "(2)"],
            ],
        },
        "paragraphs": [{"uid": "p", "order": 1, "text": "Amounts are in millions. Nothing else."}],
        "questions": [
            {
                "uid": "q",
                "question": "What is the change in Sales from 2018 to 2019?",
                "answer": 4.1,
                "answer_type": "arithmetic",
                "answer_from": "table",
                "scale": "million",
            }
        ],
    }
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    wiki, tat = tmp_path / "WikiTableQuestions", tmp_path / "TAT-QA" / "dataset_raw"
    for made in (wiki / "csv", wiki / "data", tat):
        made.mkdir(parents=True)
    (wiki / "csv" / "0.csv").write_text(CSV, encoding="utf-8")
    for name in ("training", "pristine-unseen-tables"):
        (wiki / "data" / f"{name}.tsv").write_text(TSV, encoding="utf-8")
    for name in ("dev", "test_gold"):
        (tat / f"tatqa_dataset_{name}.json").write_text(json.dumps(TAT), encoding="utf-8")
    return tmp_path


def test_cells_of_wiki_tables_keep_escaped_quotes(folder: Path) -> None:
    case = read_wiki_cases(folder / "WikiTableQuestions", "training")[2]
    head = case.table.cell_at(0, 1)

    assert case.answers == ("Fulmar", "Tern")
    assert head is not None
    assert head.text == 'Team, "A"'


def test_a_file_that_is_cut_off_gives_its_whole_records(folder: Path) -> None:
    path = folder / "TAT-QA" / "dataset_raw" / "tatqa_dataset_dev.json"
    path.write_text(json.dumps(TAT * 2)[:-40], encoding="utf-8")

    assert [case.id for case in read_tat_cases(path)] == ["q"]


def test_heads_sections_and_unit_of_financial_tables() -> None:
    rows = [["", "Years ended", ""], ["", "2019", "2018"], ["Income", "", ""], ["Sales", "4", "3"]]
    table = read_tat_table(rows, ["Amounts are in millions. Nothing else."])

    assert table.header_rows == 2
    assert [cell.text for cell in table.column_heads(2)] == ["Years ended", "2018"]
    assert [cell.text for cell in table.row_heads(3)] == ["Income", "Sales"]
    assert table.caption == "Amounts are in millions."


@pytest.mark.parametrize(
    ("values", "number", "answers", "right"),
    [
        (("12,467",), None, ("12467",), True),
        (("Tern [3]",), None, ("tern",), True),
        (("June 4, 1998",), None, ("June 4 1998",), True),
        ((), Decimal(3), ("3",), True),
        ((), Decimal(3), ("3", "4"), False),
        (("b", "a"), None, ("a", "b"), True),
        (("a",), None, ("a", "b"), False),
        (("São Tomé",), None, ("sao tome",), True),
    ],
)
def test_answers_are_compared_as_the_official_evaluation_does(
    values: tuple[str, ...], number: Decimal | None, answers: tuple[str, ...], right: bool
) -> None:
    case = TableCase("n", "?", read_tat_table([["a"]], []), answers)

    assert matches_answer(values, number, case) is right


def test_normalised_answers() -> None:
    assert normalise_answer("“Orla – Saltby” (ferry)[1]") == "orla - saltby"


def test_scaled_numbers_and_spans() -> None:
    assert write_scaled("$1,496.5", "million") == "1496500000.0000"
    assert write_scaled("-22.22", "percent") == write_scaled("(22.22)%", "")
    assert compare_spans(["total net sales"], ["the net sales"]) == (0.0, 0.8)
    assert compare_spans(["a1", "b"], ["b", "a1"]) == (1.0, 1.0)


def test_a_small_training_learns_its_questions(folder: Path) -> None:
    options = TableTrainingOptions(network=TrainingOptions(units=8, epochs=150, batch=4))
    scorer, figures = train_table_scorer(folder, options)

    assert figures.wiki.questions == 3
    assert figures.wiki.oracle == 1
    assert figures.wiki.accuracy == 1
    assert figures.tat.f1 == 1
    assert len(scorer.linear) == len(scorer.names)
