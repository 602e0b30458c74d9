"""Evaluations on disk: what is read is what was written, and damage is told with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vrag.errors import RunError
from vrag.evaluation.record import CaseOutcome, CaseRecord, Subject
from vrag.evaluation.result_store import Conditions, read_evaluation, write_evaluation

if TYPE_CHECKING:
    from pathlib import Path

CONDITIONS = Conditions(version="1", benchmarks=(), cases="0", samples=1, judge="rules", made_with={})


def record(uid: str) -> CaseRecord:
    subject = Subject(
        benchmark="b", uid=uid, question="Why\u2028?", references=("a",), answerable=True, document="a.pdf"
    )
    return CaseRecord(subject=subject, outcome=CaseOutcome.RIGHT, measures={"em": 1.0})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_evaluation(tmp_path, CONDITIONS, [record("1"), record("2")])
    return tmp_path


def test_what_was_written_is_read(folder: Path) -> None:
    read = read_evaluation(folder)
    assert read.conditions == CONDITIONS
    assert read.records == (record("1"), record("2"))
    write_evaluation(folder, CONDITIONS, [])
    assert read_evaluation(folder).records == ()


@pytest.mark.parametrize(
    ("part", "instead", "told"),
    [
        (rb".{20}\Z", b"", "ends in the middle of a line"),
        (rb"\n\Z", b"", "ends in the middle of a line"),
        (rb"1\.0", b"NaN", "line 1: measures.em: "),
        (rb"1\.0", b"1e999", "line 1: measures.em: "),
        (rb"\Z", b"{}\n", "line 3: subject: "),
        (rb"\Z", b"\xff\n", "line 3: "),
        (rb"\Z", b"\n", "line 3: "),
    ],
)
def test_damaged_records_are_refused_with_their_place(
    folder: Path, part: bytes, instead: bytes, told: str
) -> None:
    path = folder / "records.jsonl"
    path.write_bytes(re.sub(part, instead, path.read_bytes(), count=1, flags=re.DOTALL))
    with pytest.raises(RunError) as caught:
        read_evaluation(folder)
    assert told in caught.value.message
    assert "vrag eval run" in caught.value.hint


def test_damaged_or_missing_conditions_are_told(folder: Path) -> None:
    path = folder / "conditions.json"
    path.write_text(path.read_text().replace('"samples"', '"simples"'))
    with pytest.raises(RunError, match=r"conditions\.json: s[ai]mples: "):
        read_evaluation(folder)
    path.unlink()
    with pytest.raises(RunError, match="holds no evaluation"):
        read_evaluation(folder)
