"""`vrag train rollout`: what it makes and says, and how it ends."""

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
import typer
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from ferry_desk import ANSWER, SEARCH, lay_out
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cli.train import rollout
from vrag.rollouts.rollout_store import RUNS, read_entries

if TYPE_CHECKING:
    from typer.testing import Result

CASES = 4
SCRIPT = (SEARCH, ANSWER)


app = typer.Typer()
app.command("rollout")(rollout)
app.command("other")(lambda: None)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("desk"), ["48,200"] * CASES)


def said(asked: Asked) -> Say:
    return Say(SCRIPT[asked.turn], prompt_ids=(1, 2), ids=(5, 6, 7), logprobs=(-0.5, -0.25, -0.125))


def line_of(desk: Path, out: Path, server: ChatServer | None, *more: str) -> list[str]:
    line = ["rollout", str(desk / "questions.json"), "--out", str(out), "--collection", str(desk / "notes")]
    served = ["--model", "scripted", "--base-url", server.url] if server else []
    return [*line, *served, *more]


def invoke(desk: Path, out: Path, server: ChatServer | None, *more: str) -> Result:
    return CliRunner().invoke(app, line_of(desk, out, server, *more))


def test_every_question_is_rolled_out_so_often_with_tokens_and_once(desk: Path, tmp_path: Path) -> None:
    with ChatServer(said) as server:
        result = invoke(desk, tmp_path / "out", server, "--samples", "3", "--json")
        assert result.exit_code == 0, result.output
        again = invoke(desk, tmp_path / "out", server, "--samples", "3")
    told = json.loads(result.stdout)
    assert (told["attempts"], told["done"], told["made"], told["failed"]) == (12, 12, 12, {})
    assert (told["steps"], told["tokens"]) == (24, 72)
    assert len(read_entries(tmp_path / "out")) == 12
    body = server.requests[0].body
    assert (body["temperature"], body["return_token_ids"], body["logprobs"]) == (1.0, True, True)
    assert "seed" not in body
    assert (again.exit_code, len(server.requests)) == (0, 24)
    assert "0 rollouts made" in again.stdout
    assert "12/12 rollouts" in again.stdout


def test_documents_are_not_compared_in_runs_to_train_on(desk: Path, tmp_path: Path) -> None:
    """A model that is asked about conflicts would take other turns, and get other rewards."""
    with ChatServer(said) as server:
        result = invoke(desk, tmp_path / "out", server, "--samples", "1")
    assert result.exit_code == 0, result.output
    store = RunStore(tmp_path / "out" / RUNS)
    starts = [store.read(id).started for id in store.ids()]
    assert len(starts) == CASES
    assert not any(start.settings.conflicts for start in starts)


def test_with_a_seed_each_rollout_has_its_own_and_the_same_each_time(desk: Path, tmp_path: Path) -> None:
    def seeds(out: str) -> list[tuple[str, int]]:
        with ChatServer(said) as server:
            result = invoke(desk, tmp_path / out, server, "--samples", "2", "--seed", "7")
        assert result.exit_code == 0, result.output
        return sorted((asked.question, asked.body["seed"]) for asked in server.requests if asked.turn == 0)

    first = seeds("one")
    assert len({seed for _, seed in first}) == 2 * CASES
    assert seeds("two") == first


@pytest.mark.slow
def test_failures_are_listed_by_reason_and_made_again_when_asked(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    broken = True

    def script(asked: Asked) -> Reply:
        if broken and "1?" in asked.question:
            return Refuse(400, "no such thing")
        return Hang() if broken and "2?" in asked.question else said(asked)

    out = tmp_path / "out"
    with ChatServer(script) as server:
        result = invoke(desk, out, server, "--samples", "1", "--seconds", "3.0")
        assert result.exit_code == 0
        assert {"ModelError", "Deadline"} <= set(result.stdout.split())
        reasons = " ".join(entry.failure or "" for entry in read_entries(out))
        assert "no such thing" in reasons
        assert "longer than 3" in reasons
        assert "--retry-failed" in result.stdout
        broken = False
        mended = invoke(desk, out, server, "--samples", "1", "--retry-failed", "--json")
    told = json.loads(mended.stdout)
    assert (told["made"], told["done"], told["failed"]) == (2, CASES, {})
    assert {entry.failure for entry in read_entries(out)} == {None}


def test_failures_of_before_are_not_passed_over(desk: Path, tmp_path: Path) -> None:
    broken = [f"{number}?" for number in range(CASES)]

    def script(asked: Asked) -> Reply:
        return Refuse(400, "no") if any(word in asked.question for word in broken) else said(asked)

    out = tmp_path / "out"
    with ChatServer(script) as server:
        assert invoke(desk, out, server, "--samples", "1").exit_code == 1
        again = invoke(desk, out, server, "--samples", "1")
        assert again.exit_code == 1
        assert f"{CASES} earlier rollouts failed" in again.output
        broken.pop()
        assert invoke(desk, out, server, "--samples", "1", "--retry-failed").exit_code == 0
        told = invoke(desk, out, server, "--samples", "1", "--json")
    assert (told.exit_code, json.loads(told.stdout)["failed_before"]) == (0, CASES - 1)


def test_a_server_that_fails_always_is_given_up(desk: Path, tmp_path: Path) -> None:
    with ChatServer(lambda _: Refuse(400, "no")) as server:
        result = invoke(desk, tmp_path / "out", server, "--samples", "20", "--concurrency", "2")
    assert result.exit_code == 1
    assert "Given up" in result.output
    assert 8 <= len(read_entries(tmp_path / "out")) < 20


def test_a_server_that_tells_no_tokens_is_told_of(desk: Path, tmp_path: Path) -> None:
    with ChatServer(lambda asked: Say(SCRIPT[asked.turn])) as server:
        result = invoke(desk, tmp_path / "out", server, "--samples", "1")
    assert result.exit_code == 0
    assert "no token ids" in result.output


def test_without_a_model_rollouts_are_made_by_the_reader(desk: Path, tmp_path: Path) -> None:
    result = invoke(desk, tmp_path / "out", None, "--samples", "1")
    assert result.exit_code == 0, result.output
    assert f"{CASES}/{CASES} rollouts" in result.stdout
    assert "token ids" not in result.output


def test_no_questions_are_refused(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"examples": []}')
    result = CliRunner().invoke(app, ["rollout", str(tmp_path / "none.json"), "--out", str(tmp_path / "out")])
    assert "no questions" in str(result.exception)


PROCESS = "import sys; sys.argv[0] = 'vrag'; from test_rolling_cli import app; app()"


@pytest.mark.slow
def test_what_was_stopped_goes_on_from_there(desk: Path, tmp_path: Path) -> None:
    """A real process gets Ctrl-C when two of its rollouts are recorded and two others wait for the model."""
    out, here = tmp_path / "out", Path(__file__).parent
    home = {"PYTHONPATH": os.pathsep.join((str(here), str(here.parent))), "COLUMNS": "300"}
    with ChatServer(lambda asked: said(asked) if "0?" in asked.question else Hang()) as server:
        line = [sys.executable, "-c", PROCESS, *line_of(desk, out, server, "--concurrency", "2", "-n", "2")]
        with subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **home}
        ) as process:
            server.wait_for(6, 60)
            while len(read_entries(out)) < 2:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert all(asked.gone.wait(60) for asked in server.requests[4:])
    assert "Run the same command again to continue" in output
    assert "Traceback" not in output
    before = read_entries(out)
    assert {entry.case for entry in before} == {"c0"}
    with ChatServer(said) as server:
        result = invoke(desk, out, server, "-n", "2", "--json")
    assert json.loads(result.stdout)["made"] == 2 * CASES - 2
    assert read_entries(out)[:2] == before
    assert len(read_entries(out)) == 2 * CASES
