"""`vrag eval list|prepare|run|report|compare`: from files as published to pages that tell what came of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from ferry_desk import ANSWER, SEARCH
from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.datasets.registry import BENCHMARKS
from vrag.errors import CaseError, RunError, SettingsError, VragError
from vrag.rollouts.rollout_store import read_entries

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SCRIPT = (SEARCH, ANSWER)
REFERENCES = ["48,200", "48,200", "12", "Not answerable"]


def invoked(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def said(asked: Asked) -> Reply:
    return Say(SCRIPT[asked.turn])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    (folder / "pdf").mkdir()
    (folder / "pdf" / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    rows = [
        {
            "uid": str(number),
            "query": f"How many passengers, {number}?",
            "reference_answer": reference,
            "meta_info": {"file_name": "note.md", "doc_type": "letter", "answer_format": "Str"},
        }
        for number, reference in enumerate(REFERENCES)
    ]
    (folder / "rag_dataset.json").write_text(json.dumps({"examples": rows}))
    done = invoked("prepare", f"dataset={folder}", "--out", str(folder / "out"))
    assert done.exit_code == 0, done.output
    assert "4 questions, 1 document." in " ".join(done.stdout.split())
    return folder / "out"


def run(prepared: Path, out: Path, server: ChatServer | None, *more: str) -> Result:
    served = ["--model", "scripted", "--base-url", server.url] if server else []
    return invoked("run", str(prepared), "--out", str(out), *more, *served)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def outcomes(out: Path) -> list[str]:
    return [record["outcome"] for record in records(out)]


def test_all_benchmarks_are_listed_with_what_to_mind() -> None:
    done = invoked("list")
    assert all(name in done.stdout for name in BENCHMARKS)
    for name, benchmark in BENCHMARKS.items():
        told = json.loads(invoked("list", name, "--json").stdout)[0]
        assert (told["name"], told["licence"]) == (name, benchmark.licence)
        assert told["source"] in " ".join(invoked("list", name).stdout.split())
    assert isinstance(invoked("list", "nothing").exception, SettingsError)


def test_questions_are_asked_judged_and_reported(prepared: Path, tmp_path: Path) -> None:
    with ChatServer(said) as server:
        done = run(prepared, tmp_path / "a", server)
    assert done.exit_code == 0, done.output
    assert "accuracy 0.500" in " ".join(done.stdout.split())
    assert outcomes(tmp_path / "a") == ["right", "right", "wrong", "wrong"]
    for suffix in ("html", "md", "json"):
        assert (tmp_path / "a" / f"report.{suffix}").stat().st_size > 500
    assert "Judged by rules" not in done.stdout, "the wrong answers are short"
    assert "without a model" not in done.output.lower()
    assert "short answers alone are right" in (tmp_path / "a" / "report.md").read_text()
    again = json.loads(invoked("report", str(tmp_path / "a"), "--json").stdout)
    assert again["outcomes"]["right"] == 2
    assert all(record["run"] for record in records(tmp_path / "a"))


def test_without_a_model_an_unanswerable_question_is_right_when_nothing_is_said(
    prepared: Path, tmp_path: Path
) -> None:
    done = run(prepared, tmp_path / "a", None, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["questions"], told["before"], told["stopped"]) == (4, 0, False)


PROCESS = "import sys; sys.argv[0] = 'vrag'; from vrag.cli.eval import app; app()"
TIMED = {"seconds", "model_seconds"}


def untimed(out: Path) -> list[dict[str, Any]]:
    """Records without what differs from run to run."""
    return [
        record | {"run": None, "measures": {n: v for n, v in record["measures"].items() if n not in TIMED}}
        for record in records(out)
    ]


@pytest.mark.slow
def test_killed_and_gone_on_with_it_tells_the_same(prepared: Path, tmp_path: Path) -> None:
    """A real process is killed when one run is on disk and another waits for the model."""
    out, whole = tmp_path / "killed", tmp_path / "whole"
    line = ["run", str(prepared), "--out", str(out), "--concurrency", "1"]
    with ChatServer(lambda asked: said(asked) if "0?" in asked.question else Hang()) as server:
        served = ["--model", "scripted", "--base-url", server.url]
        with subprocess.Popen([sys.executable, "-c", PROCESS, *line, *served]) as process:
            server.wait_for(3, 60)
            while not read_entries(out):
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL
    assert not (out / "records.jsonl").exists()
    with ChatServer(said) as server:
        done = run(prepared, out, server, "--concurrency", "1")
        assert len(server.requests) == 6, "the run that was kept is not made again"
        assert run(prepared, whole, server).exit_code == 0
    assert done.exit_code == 0, done.output
    assert "1 from earlier" in done.stdout
    assert untimed(out) == untimed(whole)


def test_a_judge_that_fails_leaves_questions_unjudged_and_not_wrong(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(asked: Asked) -> Reply:
        if "1?" in asked.question:
            return Refuse(400, "broken")
        return Say("<judge>false</judge>" if "3?" in asked.question else "<judge>True</judge>")

    with ChatServer(said) as server, ChatServer(judge) as court:
        monkeypatch.setenv("VRAG_JUDGE_MODEL", "scripted")
        monkeypatch.setenv("VRAG_JUDGE_URL", court.url)
        done = run(prepared, tmp_path / "a", server)
        assert done.exit_code == 0, done.output
        assert outcomes(tmp_path / "a") == ["right", "unjudged", "right", "wrong"]
        asked = len(court.requests)
        assert run(prepared, tmp_path / "a", server).exit_code == 0
        assert len(court.requests) - asked <= 4, "verdicts are kept"
    unjudged = records(tmp_path / "a")[1]
    assert unjudged["why"]
    assert "1 unjudged" in done.stdout
    told = " ".join(done.output.split())
    assert "1 answer without a verdict, for example: The judge scripted failed" in told
    assert "to ask the judge's model again" in told


def test_runs_that_fail_are_told_with_their_reason_and_count_as_wrong(prepared: Path, tmp_path: Path) -> None:
    with ChatServer(
        lambda asked: Refuse(400, "no such") if "1?" in asked.question else said(asked)
    ) as server:
        done = run(prepared, tmp_path / "a", server)
    assert done.exit_code == 0, done.output
    assert outcomes(tmp_path / "a") == ["right", "failed", "wrong", "wrong"]
    assert "no such" in records(tmp_path / "a")[1]["why"]
    with ChatServer(said) as server:
        run(prepared, tmp_path / "a", server, "--retry-failed")
        assert len(server.requests) == 2
    assert outcomes(tmp_path / "a")[1] == "right"


def test_two_runs_are_compared_question_by_question(prepared: Path, tmp_path: Path) -> None:
    other = (SEARCH, "<think>Seen.</think><answer>12</answer>")
    with ChatServer(said) as server, ChatServer(lambda asked: Say(other[asked.turn])) as second:
        run(prepared, tmp_path / "a", server)
        run(prepared, tmp_path / "b", second)
    done = invoked("compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "c"))
    assert done.exit_code == 0, done.output
    assert "Both right 0, only A 2, only B 1, neither 1." in " ".join(done.stdout.split())
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "comparison.html",
        "comparison.json",
        "comparison.md",
    }
    one = f"One={tmp_path / 'a'}"
    table = invoked("table", one, str(tmp_path / "b"), "--by", "document_type", "--markdown")
    assert table.stdout.splitlines()[0] == "|  | letter | all |"
    assert table.stdout.splitlines()[2:] == ["| One | **50.0** | **50.0** |", "| b | 25.0 | 25.0 |"]
    assert invoked("table", str(tmp_path / "a"), str(tmp_path / "a")).exit_code == 2
    line = ("compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json", "--measure")
    assert json.loads(invoked(*line, "searches").stdout)["measures"]["searches"]["n"] == 4
    unknown = invoked(*line, "no_such_measure")
    assert unknown.exit_code == 2
    assert "searches" in unknown.output, "those that there are are named"
    told = json.loads(invoked("compare", str(tmp_path / "a"), str(tmp_path / "a"), "--json").stdout)
    assert told["measures"]["accuracy"]["p"] == 1


def test_documents_of_an_earlier_preparation_are_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "pdf").mkdir(parents=True)
        (folder / "pdf" / f"{name}.md").write_text(f"The ferry of harbour {name}.\n")
        row = {"uid": name, "query": "Where?", "reference_answer": name}
        rows = {"examples": [row | {"meta_info": {"file_name": f"{name}.md"}}]}
        (folder / "rag_dataset.json").write_text(json.dumps(rows))
        assert invoked("prepare", f"dataset={folder}", "--out", str(tmp_path / "out")).exit_code == 0
        done = run(tmp_path / "out", tmp_path / f"runs_{name}", None)
        assert done.exit_code == 0, done.output
        message = "The search also covers 1 document that no question is about."
        assert (message in " ".join(done.output.split())) is (name == "two")


def test_documents_that_could_not_be_read_are_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "cut.pdf").write_bytes(b"%PDF-1.7 no more")
    (tmp_path / "pdf" / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    rows = [
        {"uid": name, "query": "How many?", "reference_answer": "48", "meta_info": {"file_name": name}}
        for name in ("cut.pdf", "note.md")
    ]
    (tmp_path / "rag_dataset.json").write_text(json.dumps({"examples": rows}))
    invoked("prepare", f"dataset={tmp_path}", "--out", str(tmp_path / "out"))
    done = run(tmp_path / "out", tmp_path / "runs", None)
    assert done.exit_code == 0, done.output
    told = "1 question is about documents that could not be read or are not searched: cut.pdf"
    assert told in " ".join(done.output.split())
    assert done.output.count("No model is set: questions are answered without a model") == 1
    assert "| model | none" in (tmp_path / "runs" / "report.md").read_text()
    kept = json.loads((tmp_path / "runs" / "conditions.json").read_text())
    assert kept["searched"] == {"documents": 1, "absent": ["cut.pdf"], "questions": 1}
    assert (kept["asked"], kept["measures"]) == (2, 2)
    for suffix in ("html", "md", "json"):
        fact = "1 searched; 1 gold document is not: cut.pdf"
        assert fact in (tmp_path / "runs" / f"report.{suffix}").read_text()


def test_wrong_use_is_told(prepared: Path, tmp_path: Path) -> None:
    assert invoked("prepare", "=folder", "--out", str(tmp_path / "x")).exit_code == 2
    cases: list[tuple[type[VragError], tuple[str, ...]]] = [
        (SettingsError, ("prepare", "nothing=.", "--out", str(tmp_path / "x"))),
        (CaseError, ("prepare", "dataset", "--out", str(tmp_path / "x"))),
        (CaseError, ("prepare", f"squad={tmp_path}", "--out", str(tmp_path / "x"))),
        (CaseError, ("run", str(tmp_path), "--out", str(tmp_path / "x"))),
        (RunError, ("report", str(tmp_path))),
        (RunError, ("compare", str(tmp_path), str(tmp_path))),
    ]
    for kind, line in cases:
        error = invoked(*line).exception
        assert isinstance(error, kind), line
        assert error.hint, line
    with ChatServer(said) as server:
        run(prepared, tmp_path / "a", server)
        changed = run(prepared, tmp_path / "a", server, "--max-steps", "3").exception
    assert isinstance(changed, RunError)
    assert "steps 10, not 3" in str(changed)


def test_a_folder_of_something_else_is_refused_before_documents_are_indexed(
    prepared: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    refused = run(prepared, tmp_path, None, "--collection", str(tmp_path / "c")).exception
    assert isinstance(refused, RunError)
    assert "not empty" in refused.message
    assert not (tmp_path / "c").exists()
    unprepared = invoked("run", str(tmp_path), "--out", str(tmp_path / "x")).exception
    assert isinstance(unprepared, CaseError)
    assert unprepared.hint == f"Prepare it: vrag eval prepare dataset={tmp_path} --out PREPARED"
