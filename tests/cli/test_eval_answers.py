"""`vrag eval answers`: what it measures and says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from ferry_desk import ANSWER, SEARCH, lay_out
from typer.testing import CliRunner

from vrag.chat import OpenAIChat
from vrag.cli.evaluate import app
from vrag.errors import CaseError, RunError
from vrag.rollouts.campaign import read_entries

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


PROCESS = "import sys; sys.argv[0] = 'vrag'; from vrag.cli.evaluate import app; app()"


def test_killed_it_goes_on_with_the_runs_that_it_kept(desk: Path, tmp_path: Path) -> None:
    """A real process is killed when one run is on disk and another waits for the model."""
    runs, out = tmp_path / "runs", tmp_path / "report.json"
    more = ("--runs", str(runs), "--concurrency", "1", "--out", str(out))
    line = ["answers", str(desk / "questions.json"), "--collection", str(desk / "notes"), *more]
    with ChatServer(lambda asked: said(asked) if "0?" in asked.question else Hang()) as server:
        served = ["--model", "scripted", "--base-url", server.url]
        with subprocess.Popen([sys.executable, "-c", PROCESS, *line, *served]) as process:
            server.wait_for(3, 60)
            while not read_entries(runs):
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL
    (before,) = read_entries(runs)
    assert (before.case, out.exists()) == ("c0", False)
    with ChatServer(said) as server:
        done = asked_of(desk, server, *more)
        assert [asked.question[-2:] for asked in server.requests if asked.turn == 0] == ["1?", "2?"]
        again = asked_of(desk, server, *more, "--json")
        assert len(server.requests) == 4
    assert (done.exit_code, again.exit_code) == (0, 0), done.output
    assert "1 of the runs were made before" in done.stdout
    assert read_entries(runs)[0] == before
    told = json.loads(out.read_text())
    assert (told["questions"], told["before"], told["runs"]) == (3, 3, str(runs))
    assert [one["uid"] for one in told["answers"]] == ["c0", "c1", "c2"]
    assert [one["reward"]["correct"] for one in told["answers"]] == [True, True, False]


def test_kept_runs_are_of_one_agent_and_one_collection(desk: Path, tmp_path: Path) -> None:
    kept = ("--runs", str(tmp_path / "runs"))
    with ChatServer(said) as server:
        assert asked_of(desk, server, *kept).exit_code == 0
        for other, named in ((("--max-steps", "3"), "limits"), (("--blank",), "collection")):
            refused = asked_of(desk, server, *kept, *other).exception
            assert isinstance(refused, RunError)
            assert f"another {named}" in str(refused)
            assert "--out" not in str(refused)  # that is the report here
        assert asked_of(desk, server, *kept, "--exact").exit_code == 0  # judges the same runs otherwise
        assert len(server.requests) == 6


def test_runs_that_failed_stay_until_they_are_asked_again(desk: Path, tmp_path: Path) -> None:
    kept = ("--runs", str(tmp_path / "runs"))
    with ChatServer(lambda asked: Refuse(400, "no") if "1?" in asked.question else said(asked)) as server:
        assert "--retry-failed" in asked_of(desk, server, *kept).stdout
    with ChatServer(said) as server:
        left = asked_of(desk, server, *kept, "--json")
        assert not server.requests
        mended = asked_of(desk, server, *kept, "--retry-failed", "--json")
        assert len(server.requests) == 2
    assert [json.loads(one.stdout)["failed"] for one in (left, mended)] == [1, 0]


def test_nothing_is_asked_again_where_no_runs_are_kept(desk: Path) -> None:
    refused = asked_of(desk, None, "--retry-failed")
    assert refused.exit_code == 2
    assert "--runs" in refused.output


def test_the_judge_is_asked_once_about_kept_runs_and_closed(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = OpenAIChat.aclose

    async def noted(self: OpenAIChat) -> None:
        closed.append(self.name)
        await close(self)

    monkeypatch.setattr(OpenAIChat, "aclose", noted)

    def script(asked: Asked) -> Reply:
        return Say("<judge>true</judge>") if asked.body["model"] == "judge" else said(asked)

    with ChatServer(script, models=None) as server:
        monkeypatch.setenv("VRAG_JUDGE_MODEL", "judge")
        monkeypatch.setenv("VRAG_JUDGE_URL", server.url)
        for _ in range(2):
            done = asked_of(desk, server, "--runs", str(tmp_path / "runs"), "--json")
            assert json.loads(done.stdout)["accuracy"] == 1.0, done.output
    assert [asked.body["model"] for asked in server.requests].count("judge") == 3
    assert sorted(closed) == ["judge", "judge", "scripted", "scripted"]
