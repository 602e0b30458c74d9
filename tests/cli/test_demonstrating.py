"""`vrag data demonstrate`: runs of a script on synthetic questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cases import ParquetOptions, write_cases, write_parquet
from vrag.cli.data import app
from vrag.datasets.registry import read_cases
from vrag.errors import CaseError, RunError
from vrag.rollouts.rollout_store import RUNS, read_entries, stored_rollouts
from vrag.synthesis import SynthesisOptions, synthesize, write

if TYPE_CHECKING:
    from typer.testing import Result

    from vrag.types import Case


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of emblems, indexed."""
    from vrag.corpus.converter import CorpusOptions
    from vrag.index.build import add
    from vrag.index.collection import Collection

    folder = tmp_path_factory.mktemp("desk")
    templates = ("emblem", "emblem_pair")
    write(synthesize(SynthesisOptions(documents=4, pages=4, templates=templates)), folder)
    add(Collection.create(folder / "collection", CorpusOptions(ocr="never")), [folder / "documents"])
    return folder


def demonstrated(desk: Path, out: Path, *more: str, cases: Path | None = None) -> Result:
    line = ["demonstrate", str(cases or desk / "train.json"), "--out", str(out)]
    return CliRunner().invoke(app, [*line, "--collection", str(desk / "collection"), *more])


def right(desk: Path, out: Path) -> list[bool]:
    cases = read_cases(desk / "train.json")
    rollouts = list(stored_rollouts(out, cases))
    return [one.trajectory.answer == one.attempt.case.reference_answer for one in rollouts]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_a_skilled_script_is_always_right(desk: Path, tmp_path: Path, agent: str) -> None:
    out = tmp_path / "out"
    skilled = ("--agent", agent, "--searching", "1", "--reading", "1", "--detours", "0.5", "-n", "6")
    done = demonstrated(desk, out, *skilled)
    assert done.exit_code == 0, done.output
    assert right(desk, out) == [True] * 6
    steps = [
        step for one in stored_rollouts(out, read_cases(desk / "train.json")) for step in one.trajectory.steps
    ]
    assert not [step.invalid for step in steps if step.invalid is not None]
    store = RunStore(out / RUNS)
    assert not any(store.read(id).started.settings.conflicts for id in store.ids())


def test_it_goes_on_with_the_same_options_and_refuses_others(desk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cases = [("synthetic", case) for case in read_cases(desk / "train.json")]
    write_parquet(tmp_path / "q.parquet", cases, ParquetOptions())
    assert demonstrated(desk, out, "-n", "2", cases=tmp_path / "q.parquet").exit_code == 0
    more = demonstrated(desk, out, "-n", "5", "--json")
    assert json.loads(more.stdout) == {"folder": str(out), "runs": 5, "new": 3, "failed": 0}
    assert len({entry.key for entry in read_entries(out)}) == 5
    for other in (("--searching", "0.5"), ("--hits", "2"), ("--seed", "1"), ("--agent", "vimrag")):
        assert isinstance(demonstrated(desk, out, *other).exception, RunError), other


@pytest.mark.parametrize(
    ("query", "answer", "why"),
    [
        ("How many?", "red", "no names in quotes"),
        ('colour of "amber harbour" ?', "dark red", "one colour of each name"),
        ('colour of "amber harbour" ?', "", "one colour of each name"),
    ],
)
def test_other_questions_are_refused(desk: Path, tmp_path: Path, query: str, answer: str, why: str) -> None:
    write_cases(tmp_path / "cases.json", [case(query, answer)])
    done = demonstrated(desk, tmp_path / "out", cases=tmp_path / "cases.json")
    assert isinstance(done.exception, CaseError)
    assert why in str(done.exception)
    assert not (tmp_path / "out").exists()


def case(query: str, answer: str) -> Case:
    from vrag.types import Case

    return Case(uid="c", query=query, reference_answer=answer, file_name="a.pdf")
