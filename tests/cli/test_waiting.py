"""Commands that find a collection busy: how long they wait, and how they end; and what they leave open."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag
from command_line import vrag as run_in

import vrag
from vrag.corpus.discover import read_source
from vrag.errors import CollectionBusy, SettingsError
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.server import Agents
from vrag.index.collection import Collection
from vrag.index.maintenance import count_unread
from vrag.index.manifest import Writer
from vrag.server.runs.schema import AgentSelection
from vrag.settings import load_settings
from vrag.storage.database import open_databases
from vrag.types import Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture
def busy(tmp_path: Path) -> Collection:
    """A collection with one document."""
    (tmp_path / "a.txt").write_text("The ferry sails at 9:15.")
    done = run_vrag("index", "add", "a.txt", "--collection", "c", cwd=tmp_path)
    assert done.status == 0, done.err
    return Collection.open(tmp_path / "c")


@pytest.mark.parametrize("command", ["add b.txt", "remove a.txt", "prune", "compact", "verify --repair"])
def test_a_busy_collection_has_its_own_exit_status(tmp_path: Path, busy: Collection, command: str) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.build():
        line = ["index", *command.split(), "-c", "c", "--wait", "0"]
        done = run_vrag(*line, cwd=tmp_path)
    assert done.status == 4
    assert f"(process {os.getpid()} on " in done.err
    assert "Waiting" not in done.err


def test_the_setting_is_how_long_a_command_waits(tmp_path: Path, busy: Collection) -> None:
    with busy.build():
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
    with busy.build(), pytest.raises(CollectionBusy, match=r"within 0\.05 s"):
        session.add(tmp_path / "b.txt")
    assert session.add(tmp_path / "b.txt").added == 1


def test_a_question_is_answered_from_what_is_indexed(tmp_path: Path, busy: Collection) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.build():
        line = ["ask", "a.txt", "b.txt", "When does the ferry sail?", "-c", "c", "--wait", "0.05"]
        done = run_vrag(*line, cwd=tmp_path)
    assert done.status == 0, done.err
    assert "9:15" in done.out


@pytest.mark.slow
def test_ctrl_c_ends_the_wait(tmp_path: Path, busy: Collection) -> None:
    command = [sys.executable, "-m", "vrag", "index", "prune", "-c", "c", "--wait", "600"]
    with (
        busy.build(),
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting,
    ):
        assert waiting.stderr is not None
        assert "Waiting for it, up to 600 s." in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait() == 130


def test_a_file_that_cannot_be_read_now_is_busy_not_unreadable(tmp_path: Path, busy: Collection) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.build():
        done = run_vrag("ask", "b.txt", "What is new?", "-c", "c", "--wait", "0.05", "--json", cwd=tmp_path)
    assert done.status == 4
    assert f"(process {os.getpid()} on " in done.json["failure"]
    assert "It did not end within 0.05 s." in done.json["failure"]
    assert "b.txt cannot be read now." in done.json["hint"]


def test_a_file_that_is_not_there_or_of_no_kind_is_not_busy(tmp_path: Path, busy: Collection) -> None:
    (tmp_path / "b.xyz").write_text("?")
    with busy.build():
        done = run_vrag("ask", "b.xyz", "What?", "-c", "c", "--wait", "0", cwd=tmp_path)
    assert (done.status, "Supported: " in done.err) == (1, True)


@pytest.fixture
def reading(tmp_path: Path, busy: Collection) -> Generator[Path]:
    """A folder of 3 files, of which another process is reading two."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("The ferry sails at 9:15.")
    assert run_vrag("index", "add", "folder", "-c", "c", cwd=tmp_path).status == 0
    for name in ("b", "c"):
        (folder / f"{name}.txt").write_text(f"The file {name}.")
    with busy.build() as staging:
        sources = map(read_source, sorted(folder.glob("[bc].txt")))
        begun = [
            Document(
                path=str(s.path), id=s.document, name=s.name, size=s.size, mtime_ns=s.mtime_ns,
                status=DocumentStatus.PENDING,
            )
            for s in sources
        ]  # fmt: skip
        Writer(busy, staging).begin(begun)
        yield folder


NOTICE = "2 of 3 files are still being read."


def test_an_answer_says_how_many_files_of_its_folder_are_still_being_read(
    tmp_path: Path, reading: Path
) -> None:
    line = ["ask", "folder", "When does the ferry sail?", "-c", "c", "--wait", "0"]
    assert run_vrag(*line, "--json", cwd=tmp_path).json["notices"] == [NOTICE]
    assert f"Note: {NOTICE}" in run_vrag(*line, cwd=tmp_path).out
    session = vrag.open(reading, collection=tmp_path / "c", wait=0)
    result = session.ask("When does the ferry sail?")
    assert result.notices == (NOTICE,)
    assert NOTICE in str(methodcaller("_repr_html_")(result))


def test_so_does_one_from_the_whole_collection(tmp_path: Path, reading: Path) -> None:
    (notice,) = run_vrag("ask", "When does the ferry sail?", "-c", "c", "--json", cwd=tmp_path).json[
        "notices"
    ]
    assert notice == "2 of 4 files are still being read."


def test_so_does_an_answer_of_a_server(tmp_path: Path, reading: Path) -> None:
    settings = load_settings(collection=tmp_path / "c").settings
    agents = Agents(settings, CollectionRegistry.open(settings))
    assert agents.agent(AgentSelection()).notices == ("2 of 4 files are still being read.",)


def test_files_that_nobody_reads_yet_are_said_to_wait(tmp_path: Path, busy: Collection) -> None:
    (tmp_path / "b.txt").write_text("new")
    with busy.build():
        session = vrag.open(tmp_path / "a.txt", tmp_path / "b.txt", collection=tmp_path / "c", wait=0)
        notices = session.ask("When does the ferry sail?").notices
    assert notices == ("1 of 2 files is not read yet: a process is writing.",)


@pytest.mark.slow
def test_what_a_dead_process_left_unfinished_is_not_being_read(tmp_path: Path, reading: Path) -> None:
    writer = tmp_path / "c" / "build.json"
    assert count_unread([Collection.open(tmp_path / "c")]) is not None
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    writer.write_text(json.dumps({"pid": gone.pid, "host": socket.gethostname()}))
    assert count_unread([Collection.open(tmp_path / "c")]) is None
    writer.write_text(json.dumps({"pid": gone.pid, "host": "another"}))
    assert count_unread([Collection.open(tmp_path / "c")]) is not None


def test_a_command_leaves_nothing_in_the_log_and_no_connection(home: Path) -> None:
    (home / "more.md").write_text("The harbour closes at ten.")
    before = set(map(id, open_databases()))
    for line in (
        ["index", "add", "more.md"],
        ["search", "harbour"],
        ["ask", "When does the harbour close?"],
        ["index", "remove", "more.md"],
        ["runs", "rename", "last", "Harbour"],
        ["runs", "delete", "last", "--yes"],
        ["index", "add", "more.md"],
        ["index", "prune"],
        ["index", "compact"],
        ["index", "verify", "--repair"],
    ):
        done = run_in(home, *line)
        assert done.status == 0, (line, done)
        logs = {path.name: path.stat().st_size for path in home.rglob("*-wal")}
        assert logs.keys() <= {"collection.db-wal", "runs.db-wal"}
        assert not any(logs.values()), (line, logs)
        opened = [each for each in open_databases() if id(each) not in before]
        assert not any(map(attrgetter("is_open"), opened)), line


def test_a_killed_writer_does_not_keep_the_log(home: Path) -> None:
    """The next command that reads moves it to the database."""
    collection = Collection.open(home / "collection")
    with collection.store.change() as change:
        change.put_header(collection.header.to_json())
    wal = home / "collection" / "collection.db-wal"
    assert wal.stat().st_size
    assert run_in(home, "search", "ferry").status == 0
    assert wal.stat().st_size == 0
