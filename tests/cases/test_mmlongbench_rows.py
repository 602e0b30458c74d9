"""MMLongBench-Doc as it comes: lists as text, pages from 1, a page 0 that is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_rows import MMLONGBENCH, read

from vrag.cases.rows import literal_list
from vrag.errors import CaseError
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    pass


def test_mmlongbench_counts_pages_from_1_and_its_page_0_is_no_page(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", [MMLONGBENCH])

    assert case.reference_page == (3, 5)
    assert case.source_type == ("Chart", "Table")
    assert case.reference_answer == "['red', 'blue']"


def test_a_question_of_mmlongbench_without_an_answer_says_so(tmp_path: Path) -> None:
    row = MMLONGBENCH | {"answer": "Not answerable", "evidence_pages": "[]"}

    _, (case,) = read(tmp_path / "a.json", [row])

    assert (case.query_type, case.reference_page) == ("Unanswerable", ())


def test_a_question_without_an_answer_has_no_gold_page_whatever_its_row_says(tmp_path: Path) -> None:
    row = MMLONGBENCH | {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[10]"}

    _, (case,) = read(tmp_path / "a.json", [row])

    assert (case.answer_format, case.document_type) == (AnswerFormat.NONE, "Research report")
    assert case.reference_page == ()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('pathlib').Path('pwned').touch()",
        "[__import__('pathlib').Path('pwned').touch()]",
        "[3, ",
        "3",
        "",
        "{'a': 1}",
        "[" * 5_000,
        "[" + "1," * 10_000 + "]",
        "\x00",
    ],
)
def test_a_list_as_text_is_read_and_never_run(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CaseError, match="evidence_pages"):
        read(tmp_path / "a.json", [MMLONGBENCH | {"evidence_pages": text}])

    assert not (tmp_path / "pwned").exists()


@given(value=st.lists(st.integers() | st.text(max_size=9), max_size=9))
def test_a_list_comes_back_from_its_text_in_python(value: list[object]) -> None:
    assert literal_list({"pages": repr(value)}, "pages") == value


def test_a_list_of_what_no_list_may_hold_is_refused() -> None:
    with pytest.raises(CaseError, match="is not a list"):
        literal_list({"pages": "[{[]: 1}]"}, "pages")
