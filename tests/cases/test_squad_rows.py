"""SQuAD as it comes: in JSON, and in the parquet of the hub."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from published_rows import SQUAD, read

from vrag.datasets.registry import open_cases
from vrag.errors import CaseError

if TYPE_CHECKING:
    pass

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")


def test_squad_gives_the_first_answer_and_tells_what_has_none(tmp_path: Path) -> None:
    _, cases = read(tmp_path / "a.json", {"version": "v2.0", "data": [SQUAD]})

    assert [(case.reference_answer, case.query_type) for case in cases] == [
        ("Normans", "Single-Hop"),
        ("Not answerable", "Unanswerable"),
    ]
    assert {case.file_name for case in cases} == {"Normandy"}


def test_squad_gives_other_right_answers_each_once_and_never_a_plausible_one(tmp_path: Path) -> None:
    article = copy.deepcopy(SQUAD)
    one, other = article["paragraphs"][0]["qas"]
    one["answers"] = [{"text": text} for text in ("Normans", "the Normans", "Normans", "")]
    other["plausible_answers"] = [{"text": "the Normans", "answer_start": 0}]

    _, cases = read(tmp_path / "a.json", {"data": [article]})

    assert [case.references for case in cases] == [("Normans", "the Normans"), ("Not answerable",)]


def test_a_test_set_without_answers_is_no_set_of_questions_that_have_none(tmp_path: Path) -> None:
    hidden = {"context": "c", "qas": [{"id": "1", "question": "?"}]}

    with pytest.raises(CaseError, match="'answers' is not a list"):
        read(tmp_path / "a.json", {"data": [{"title": "Normandy", "paragraphs": [hidden]}]})


def test_the_parquet_of_squad_reads_as_its_json(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "1",
            "title": "Normandy",
            "context": "…",
            "question": "Who?",
            "answers": {"text": ["Normans"]},
        },
        {"id": "2", "title": "Normandy", "context": "…", "question": "Why?", "answers": {"text": []}},
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")

    assert list(open_cases(tmp_path / "a.parquet")[1]) == read(tmp_path / "a.json", {"data": [SQUAD]})[1]
