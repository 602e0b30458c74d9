"""`vrag eval run` on a file of questions about a collection that is there."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from ferry_desk import ANSWER, SEARCH, lay_out
from typer.testing import CliRunner

from vrag.chat import OpenAIChat
from vrag.cli.eval import app
from vrag.errors import CaseError, RunError, SettingsError
from vrag.rollouts.rollout_store import read_entries

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


def asked_of(
    desk: Path, server: ChatServer, out: Path, *more: str, questions: str = "questions.json"
) -> Result:
    line = ["run", str(desk / questions), "--collection", str(desk / "notes"), "--out", str(out), *more]
    return CliRunner().invoke(app, [*line, "--model", "scripted", "--base-url", server.url])


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_questions_of_a_file_are_asked_measured_and_reported(desk: Path, tmp_path: Path) -> None:
    with ChatServer(said) as server:
        done = asked_of(desk, server, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "accuracy 0.667" in words(done.stdout)
    assert [record["outcome"] for record in records(tmp_path / "out")] == ["right", "right", "wrong"]
    conditions = json.loads((tmp_path / "out" / "conditions.json").read_text())
    assert [part["title"] for part in conditions["benchmarks"]] == ["questions.json"]
    assert "questions.json" in (tmp_path / "out" / "report.md").read_text()


def test_a_server_that_is_gone_is_told_and_not_asked_to_the_end(desk: Path, tmp_path: Path) -> None:
    with ChatServer(lambda _: Refuse(400, "no such model")) as server:
        done = asked_of(desk, server, tmp_path / "out", "--samples", "9", "--concurrency", "1")
        assert done.exit_code == 1
        assert len(server.requests) < 15, "27 runs were asked for"
    assert {record["outcome"] for record in records(tmp_path / "out")} == {"failed"}
    assert "no such model" in words(done.stderr)
    assert "Given up: the last 8 runs failed." in words(done.stderr)
    with ChatServer(said) as server:
        mended = asked_of(desk, server, tmp_path / "out", "--samples", "9", "--retry-failed", "--json")
    assert mended.exit_code == 0, mended.output
    assert json.loads(mended.stdout)["outcomes"]["failed"] == 0


def test_documents_that_are_not_searched_are_told(desk: Path, tmp_path: Path) -> None:
    text = (desk / "questions.json").read_text()
    (tmp_path / "q.json").write_text(text.replace("note.md", "gone.pdf", 1))
    with ChatServer(said) as server:
        told = asked_of(desk, server, tmp_path / "a", questions=str(tmp_path / "q.json"))
        quiet = asked_of(desk, server, tmp_path / "b")
    expected = "1 question is about documents that could not be read or are not searched: gone.pdf"
    assert expected in words(told.stderr)
    assert "not searched" not in quiet.stderr


def test_what_cannot_be_asked_or_written_shows_before_anything_is_asked(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with ChatServer(said) as server:
        assert isinstance(asked_of(desk, server, tmp_path / "file").exception, RunError)
        nothing = asked_of(desk, server, tmp_path / "out", questions="none.json")
        nowhere = asked_of(desk, server, tmp_path / "out", questions="nowhere.json")
        assert not server.requests
    for refused in (nothing, nowhere):
        assert isinstance(refused.exception, CaseError)
    assert "no questions" in str(nothing.exception)


def test_stopped_it_tells_of_what_was_answered_by_then_and_goes_on(desk: Path, tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if "1?" not in asked.question:
            return said(asked)
        os.kill(os.getpid(), signal.SIGINT)
        return Hang()

    out = tmp_path / "out"
    with ChatServer(script) as server:
        done = asked_of(desk, server, out, "--concurrency", "1")
    assert done.exit_code == 130
    assert "Stopped. Finished work is kept" in words(done.stderr)
    assert [entry.case for entry in read_entries(out)] == ["c0"]
    with ChatServer(said) as server:
        assert asked_of(desk, server, out).exit_code == 0
        assert len(server.requests) == 4
    assert len(records(out)) == 3


def test_runs_are_of_one_agent_and_one_collection_and_may_be_judged_otherwise(
    desk: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with ChatServer(said) as server:
        assert asked_of(desk, server, out).exit_code == 0
        for other, named in ((("--max-steps", "3"), "steps 10, not 3"), (("--blank",), "collection")):
            refused = asked_of(desk, server, out, *other).exception
            assert isinstance(refused, RunError)
            assert named in str(refused)
        assert asked_of(desk, server, out, "--exact").exit_code == 0
        assert len(server.requests) == 6


def test_with_a_seed_each_run_has_its_own_and_it_is_recorded(desk: Path, tmp_path: Path) -> None:
    def seeds(out: str, *more: str) -> list[tuple[str, int]]:
        with ChatServer(said) as server:
            done = asked_of(desk, server, tmp_path / out, "--samples", "2", *more)
        assert done.exit_code == 0, done.output
        return sorted((one.question, one.body["seed"]) for one in server.requests if one.turn == 0)

    first = seeds("one", "--seed", "7")
    assert len({seed for _, seed in first}) == 6
    assert seeds("two", "--seed", "7") == first != seeds("three", "--seed", "8")
    made = json.loads((tmp_path / "one" / "conditions.json").read_text())["made_with"]
    assert made["sampling"]["seed"] == 7
    with ChatServer(said) as server:
        refused = asked_of(desk, server, tmp_path / "one", "--samples", "2", "--seed", "8").exception
    assert isinstance(refused, RunError)


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
            done = asked_of(desk, server, tmp_path / "out", "--json")
            assert json.loads(done.stdout)["measures"]["accuracy"]["mean"] == 1.0, done.output
    assert [asked.body["model"] for asked in server.requests].count("judge") == 3
    assert sorted(closed) == ["judge", "judge", "scripted", "scripted"]


def test_a_judge_without_a_server_shows_before_anything_is_done(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(said) as server:
        assert isinstance(asked_of(desk, server, tmp_path / "out", "--extract").exception, SettingsError)
        monkeypatch.setenv("VRAG_JUDGE_MODEL", "judge")
        assert isinstance(asked_of(desk, server, tmp_path / "out").exception, SettingsError)
        assert not server.requests
    assert not (tmp_path / "out").exists()
