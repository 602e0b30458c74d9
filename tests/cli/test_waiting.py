"""Commands that find a collection busy: how long they wait, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag

import vrag
from vrag.errors import CollectionBusy, SettingsError
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def busy(tmp_path: Path) -> Collection:
    """A collection with one document."""
    (tmp_path / "a.txt").write_text("The ferry sails at 9:15.")
    done = run_vrag("index", "add", "a.txt", "--collection", "c", cwd=tmp_path)
    assert done.status == 0, done.err
    return Collection.open(tmp_path / "c")


@pytest.mark.parametrize("command", ["add b.txt", "remove a.txt", "prune", "compact", "verify"])
def test_a_busy_collection_has_its_own_exit_status(tmp_path: Path, busy: Collection, command: str) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.lock():
        line = ["index", *command.split(), "-c", "c", "--wait", "0"]
        done = run_vrag(*line, cwd=tmp_path)
    assert done.status == 4
    assert f"(process {os.getpid()} on " in done.err
    assert "Waiting" not in done.err


def test_the_setting_is_how_long_a_command_waits(tmp_path: Path, busy: Collection) -> None:
    with busy.lock():
        done = run_vrag("index", "remove", "a.txt", "-c", "c", cwd=tmp_path, VRAG_WAIT="0.05")
    assert done.status == 4
    assert "It did not end within 0.05 s." in done.err
    assert [document.name for document in busy.documents()] == ["a.txt"]


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon"])
def test_no_other_wait_is_accepted(tmp_path: Path, seconds: str) -> None:
    assert run_vrag("index", "prune", "--wait", seconds, cwd=tmp_path).status == 2
    with pytest.raises(SettingsError, match="'wait'"):
        vrag.open(wait=float(seconds) if seconds != "soon" else seconds)


def test_python_waits_as_the_setting_says(tmp_path: Path, busy: Collection) -> None:
    session = vrag.open(collection=tmp_path / "c", wait=0.05)
    (tmp_path / "b.txt").write_text("new")
    with busy.lock(), pytest.raises(CollectionBusy, match=r"within 0\.05 s"):
        session.add(tmp_path / "b.txt")
    assert session.add(tmp_path / "b.txt").added == 1


def test_a_question_is_answered_from_what_is_indexed(tmp_path: Path, busy: Collection) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.lock():
        line = ["ask", "a.txt", "b.txt", "When does the ferry sail?", "-c", "c", "--wait", "0.05"]
        done = run_vrag(*line, cwd=tmp_path)
    assert done.status == 0, done.err
    assert "9:15" in done.out


@pytest.mark.slow
def test_ctrl_c_ends_the_wait(tmp_path: Path, busy: Collection) -> None:
    command = [sys.executable, "-m", "vrag", "index", "prune", "-c", "c", "--wait", "600"]
    with (
        busy.lock(),
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting,
    ):
        assert waiting.stderr is not None
        assert "Waiting for it, up to 600 s." in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait() == 130
