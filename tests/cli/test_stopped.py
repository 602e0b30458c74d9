"""Work that ends before its end: by Ctrl-C, at whatever moment, or with its process."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from chat_server import ChatServer, Hang
from typer.testing import CliRunner

from vrag.cli import app

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

COLLECTION = "my notes"
QUESTION = "How many passengers did the ferry carry in 2024?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("desk")
    (path / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    assert vrag(path, "index", "add", "note.md", "-c", COLLECTION).returncode == 0
    return path


@pytest.fixture
def server() -> Generator[ChatServer]:
    with ChatServer(lambda _: Hang()) as started:
        yield started


def environment(desk: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(desk), "COLUMNS": "200"}


def vrag(desk: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "vrag", *arguments]
    return subprocess.run(
        line, capture_output=True, text=True, cwd=desk, env=environment(desk), check=False, timeout=120
    )


def ended_by(number: signal.Signals, desk: Path, server: ChatServer, *arguments: str) -> tuple[int, str, str]:
    """Sends a signal while the model is being waited for; status and what was printed."""
    line = [sys.executable, "-m", "vrag", "ask", QUESTION, "-c", COLLECTION, "--model", "scripted"]
    with subprocess.Popen(
        [*line, "--base-url", server.url, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=desk,
        env=environment(desk),
    ) as process:
        while not server.requests:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_ctrl_c_leaves_one_object_where_json_was_asked_for(desk: Path, server: ChatServer) -> None:
    status, out, err = ended_by(signal.SIGINT, desk, server, "--json")
    assert status == 130
    told = json.loads(out)
    assert (told["answer"], told["stop_reason"], told["question"]) == (None, "cancelled", QUESTION)
    assert told["run"] in err
    assert "Traceback" not in err


def test_so_does_ctrl_c_before_the_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vrag.cli.ask.open_for_asking", pressed)
    done = CliRunner().invoke(app, ["ask", QUESTION, "--json"])
    assert done.exit_code == 130
    assert json.loads(done.stdout).keys() == {"failure", "hint"}


def test_what_is_said_on_ctrl_c_leads_to_the_run(desk: Path, server: ChatServer) -> None:
    status, _, err = ended_by(signal.SIGINT, desk, server)
    assert status == 130
    command = shlex.split(" ".join(err.split("What was done is kept: ")[1].split()))
    shown = vrag(desk, *command[1 : command.index(COLLECTION) + 2])
    assert shown.returncode == 0, (err, shown.stderr)
    assert "It was stopped before there was an answer." in shown.stdout


def test_a_run_that_ended_with_its_process_is_called_interrupted_everywhere(
    desk: Path, server: ChatServer
) -> None:
    assert ended_by(signal.SIGKILL, desk, server)[0] == -signal.SIGKILL
    here = ("-c", COLLECTION)
    listed = json.loads(vrag(desk, "runs", "list", "--json", *here).stdout)
    assert listed[0]["ended"] == "interrupted"
    assert "Interrupted: " in vrag(desk, "runs", "show", "last", *here).stdout
    assert vrag(desk, "runs", "export", "last", "-o", "cut.html", *here).returncode == 0
    assert ">Interrupted<" in (desk / "cut.html").read_text(encoding="utf-8")
    told = vrag(desk, "report", "--run", "last", "-o", "told.html", *here)
    assert "1 question, 0 answered, 1 interrupted" in told.stdout
    assert told.returncode == 1, "nobody has found that the documents hold no answer"
    assert "Interrupted" in (desk / "told.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["typer", "vrag.cli.ask", "vrag.settings", "vrag.cli.program"])
def test_ctrl_c_while_the_program_loads_ends_it_quietly(module: str) -> None:
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from vrag.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_loading_all_commands_loads_no_models_and_no_index_engine() -> None:
    code = "import vrag.cli.program, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "lancedb", "pyarrow", "onnxruntime", "cv2", "fastapi"}
    assert not heavy.intersection(done.stdout.split())
