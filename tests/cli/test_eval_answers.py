"""`vrag eval answers`: what it measures and says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from ferry_desk import ANSWER, SEARCH, lay_out
from typer.testing import CliRunner

from vrag.cli.evaluate import app
from vrag.errors import CaseError, RunError

if TYPE_CHECKING:
    from typer.testing import Result

SCRIPT = (SEARCH, ANSWER)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay_out(tmp_path_factory.mktemp("desk"), ["48,200", "48,200", "12"])
    (folder / "none.json").write_text("[]")
    return folder


def said(asked: Asked) -> Reply:
    return Say(SCRIPT[asked.turn])


def asked_of(desk: Path, server: ChatServer | None, *more: str, questions: str = "questions.json") -> Result:
    line = ["answers", str(desk / questions), "--collection", str(desk / "notes"), *more]
    served = ["--model", "scripted", "--base-url", server.url] if server else []
    return CliRunner().invoke(app, [*line, *served])


def test_answers_are_measured_and_written(desk: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    with ChatServer(said) as server:
        done = asked_of(desk, server, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "accuracy 0.667" in " ".join(done.stdout.split())
    assert "3 questions, all with a verdict" in done.stdout
    told = json.loads(out.read_text())
    assert (told["questions"], told["unjudged"], told["failed"], told["stopped"]) == (3, 0, 0, False)
    assert [one["reward"]["correct"] for one in told["answers"]] == [True, True, False]


def test_a_server_that_is_gone_is_no_accuracy_of_0(desk: Path) -> None:
    with ChatServer(lambda _: Refuse(400, "no such model")) as server:
        done = asked_of(desk, server)
        machine = asked_of(desk, server, "--json")
    assert (done.exit_code, machine.exit_code) == (1, 1)
    assert "accuracy 0" not in " ".join(done.stdout.split())
    assert "3 failed, 3 without a verdict" in done.stdout
    assert "no such model" in done.stdout
    assert "accuracy" not in json.loads(machine.stdout)


def test_documents_that_are_not_searched_are_told(desk: Path, tmp_path: Path) -> None:
    text = (desk / "questions.json").read_text()
    (tmp_path / "q.json").write_text(text.replace("note.md", "gone.pdf", 1))
    with ChatServer(said) as server:
        told = asked_of(desk, server, questions=str(tmp_path / "q.json"))
        quiet = asked_of(desk, server)
    assert "1 of 2 documents that questions are about are not searched: gone.pdf" in " ".join(
        told.stderr.split()
    )
    assert "not searched" not in quiet.stderr


def test_a_place_that_cannot_be_written_and_no_questions_show_before_anything_is_asked(
    desk: Path, tmp_path: Path
) -> None:
    with ChatServer(said) as server:
        for place in (tmp_path, tmp_path / "nowhere" / "report.json"):
            assert isinstance(asked_of(desk, server, "--out", str(place)).exception, RunError)
        nothing = asked_of(desk, server, questions="none.json")
        assert not server.requests
    assert isinstance(nothing.exception, CaseError)
    assert "holds no questions" in str(nothing.exception)


def test_stopped_it_tells_of_what_was_answered_by_then(desk: Path, tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if "1?" not in asked.question:
            return said(asked)
        os.kill(os.getpid(), signal.SIGINT)
        return Hang()

    out = tmp_path / "report.json"
    with ChatServer(script) as server:
        done = asked_of(desk, server, "--concurrency", "1", "--out", str(out))
    assert done.exit_code == 130
    assert "of the 1 questions that were answered, not of all 3" in done.stderr
    told = json.loads(out.read_text())
    assert (told["questions"], told["stopped"], told["accuracy"]) == (1, True, 1.0)
