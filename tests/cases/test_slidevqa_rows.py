"""SlideVQA as it comes: decks of twenty pages, numbered from 1."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from published_rows import SLIDEVQA, read

from vrag.cases.rows import read_rows
from vrag.datasets.registry import open_cases
from vrag.errors import CaseError
from vrag.types import Case

if TYPE_CHECKING:
    pass

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")


def test_slidevqa_counts_pages_from_1(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", [SLIDEVQA])

    assert case == Case(
        uid="12",
        query="What is the sum?",
        reference_answer="7",
        file_name="budget-talk.pdf",
        reference_page=(1, 20),
        query_type="Multi-Hop",
    )


@pytest.mark.parametrize("pages", [[0], [21], ["3"], "[0]"])
def test_a_page_outside_of_a_deck_is_refused(tmp_path: Path, pages: object) -> None:
    with pytest.raises(CaseError, match="from 1 to 20"):
        read(tmp_path / "a.json", [SLIDEVQA | {"evidence_pages": pages}])


def test_the_pictures_of_a_deck_are_not_read_with_its_questions(tmp_path: Path) -> None:
    row = SLIDEVQA | {f"page_{page}": {"bytes": b"x" * 1000} for page in range(1, 21)}
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")

    (read_row,) = read_rows(tmp_path / "a.parquet")
    found, cases = open_cases(tmp_path / "a.parquet")

    assert read_row == SLIDEVQA
    assert found.name == "slidevqa"
    assert [case.uid for case in cases] == ["12"]


def test_slidevqa_may_have_no_gold_page_and_may_say_what_reasoning_it_takes(tmp_path: Path) -> None:
    rows = [SLIDEVQA | {"evidence_pages": None}, SLIDEVQA | {"qa_id": "13", "reasoning_type": "Numerical"}]

    _, cases = read(tmp_path / "a.json", rows)

    assert [case.reference_page for case in cases] == [(), (1, 20)]
    assert [case.query_type for case in cases] == ["Single-Hop", "Numerical"]
