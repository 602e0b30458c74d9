"""Commands that take questions take them from every kind of file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ferry_desk import lay_out
from typer.testing import CliRunner

from vrag.cases import ParquetOptions, row_of, write_parquet
from vrag.cli.eval import app as evaluate
from vrag.cli.terminal.files import read_questions
from vrag.cli.train import app as train
from vrag.datasets.registry import read_cases
from vrag.errors import CaseError, TrainingError


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same two questions in three kinds of files."""
    folder = lay_out(tmp_path_factory.mktemp("desk"), ["48,200", "12"])
    cases = read_cases(folder / "questions.json")
    rows = [row_of(case) for case in cases]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "questions").write_text(json.dumps(rows))
    write_parquet(folder / "questions.parquet", [("rag", case) for case in cases], ParquetOptions())
    return folder


@pytest.mark.parametrize("name", ["questions.json", "questions.jsonl", "questions", "questions.parquet"])
def test_the_questions_are_the_same_in_every_kind_of_file(desk: Path, name: str) -> None:
    wanted = read_cases(desk / "questions.json")
    assert [replace(case, regions=()) for case in read_questions(desk / name)] == wanted
    assert [case.uid for case in read_questions(desk / name, 1)] == ["c0"]


def test_a_published_set_is_read_as_it_is(tmp_path: Path) -> None:
    answers = {"text": ["Ann"], "answer_start": [0]}
    row = {"id": "1", "title": "Ferry", "context": "Ann sails.", "question": "Who sails?", "answers": answers}
    (tmp_path / "squad.jsonl").write_text(json.dumps(row))
    (case,) = read_questions(tmp_path / "squad.jsonl")
    assert (case.query, case.reference_answer) == ("Who sails?", "Ann")


def test_what_holds_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"examples": []}')
    with pytest.raises(CaseError, match="no questions"):
        read_questions(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.parquet"])
def test_answers_are_measured_and_rollouts_made_of_them(desk: Path, tmp_path: Path, name: str) -> None:
    place = ["--collection", str(desk / "notes")]
    measured = CliRunner().invoke(
        evaluate, ["run", str(desk / name), "-o", str(tmp_path / "run"), *place, "--json"]
    )
    assert json.loads(measured.stdout)["questions"] == 2
    line = ["rollout", str(desk / name), "--out", str(tmp_path / "out"), "-n", "1", *place, "--json"]
    assert json.loads(CliRunner().invoke(train, line).stdout)["done"] == 2


def test_training_reads_them_before_the_model(desk: Path, tmp_path: Path) -> None:
    def told(cases: Path, held_out: Path) -> BaseException | None:
        line = ["local", "rl", str(cases), "--held-out", str(held_out), "--model", str(tmp_path / "gone")]
        return CliRunner().invoke(train, [*line, "--out", str(tmp_path / "run")]).exception

    (tmp_path / "none.jsonl").touch()
    assert isinstance(told(desk / "questions.parquet", tmp_path / "none.jsonl"), CaseError)
    read = told(desk / "questions.parquet", desk / "questions.jsonl")
    assert not isinstance(read, CaseError | UnicodeDecodeError)
    assert isinstance(read, TrainingError), repr(read)
