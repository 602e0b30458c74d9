"""What a command loads, and how often it opens its collection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag

from vrag.index.store import DATABASE
from vrag.storage import database

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.storage.connection import Connection


HEAVY = {"pandas", "pyarrow", "torch", "fastapi", "httpx", "vrag.agent.events"}
LOADED = (
    "import atexit, json, sys\n"
    "from vrag.cli import main\n"
    "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
    "main()\n"
)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose documents are indexed and were never searched."""
    path = tmp_path_factory.mktemp("indexed")
    (path / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    (path / "list.txt").write_text("Shore power is switched on.\n")
    assert status(path, "index", "add", "note.md", "list.txt") == 0
    return path


@pytest.fixture
def home(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the folder for one test."""
    return shutil.copytree(indexed, tmp_path / "home")


def run(home: Path, *arguments: str) -> tuple[int, str, set[str]]:
    """Exit status, output, and the modules that were loaded."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments, "-c", "collection"],
        capture_output=True,
        text=True,
        cwd=home,
        env={**os.environ, "HOME": str(home)},
        check=False,
    )
    return done.returncode, done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


def status(home: Path, *arguments: str) -> int:
    """Exit status in this process, where what was loaded is not asked for."""
    return run_vrag(*arguments, "-c", "collection", cwd=home, HOME=str(home)).status


def found(output: str) -> list[str]:
    return [hit["document_name"] for hit in json.loads(output)["hits"]]


@pytest.mark.slow
def test_a_search_loads_nothing_that_it_does_not_need_also_after_a_change(home: Path) -> None:
    first = run(home, "search", "ferry shore", "--json")
    second = run(home, "search", "ferry shore", "--json")
    assert first[:2] == second[:2]
    (home / "more.md").write_text("Another ferry to the shore.\n")
    assert status(home, "index", "add", "more.md") == 0
    third = run(home, "search", "ferry shore", "--json")
    assert set(found(third[1])) == {*found(first[1]), "more.md"}
    for each in (first, second, third):
        assert not HEAVY.intersection(each[2])


@pytest.mark.slow
def test_adding_and_asking_load_no_engine_for_data_frames(home: Path) -> None:
    question = "How many passengers did the ferry carry in 2024?"
    (home / "more.md").write_text("Another ferry to the shore.\n")
    added = run(home, "index", "add", "more.md")
    first, second = (run(home, "ask", "note.md", question, "--json") for _ in range(2))
    assert added[0] == first[0] == second[0] == 0
    assert json.loads(first[1])["answer"] == json.loads(second[1])["answer"]
    for each in (added, first, second):
        assert not {"pandas", "pyarrow", "torch"}.intersection(each[2])


@pytest.mark.parametrize(
    ("line", "opened"),
    [
        (["search", "ferry"], 1),
        (["ask", "How many passengers did the ferry carry?"], 1),
        (["index", "add", "note.md"], 1),
        (["index", "status"], 1),
    ],
)
def test_a_command_opens_the_database_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: list[str], opened: int
) -> None:
    places: list[Path] = []
    connect = database.connect

    def note(path: Path, **options: bool) -> Connection:
        if path.name == DATABASE and threading.current_thread() is threading.main_thread():
            places.append(path)
        return connect(path, **options)

    monkeypatch.setattr(database, "connect", note)
    assert status(home, *line) == 0
    assert len(places) <= opened


def test_verify_looks_at_the_database_and_not_at_caches(home: Path) -> None:
    for _ in range(2):
        assert status(home, "search", "ferry") == 0
    assert status(home, "index", "verify") == 0
    path = home / "collection" / DATABASE
    data = bytearray(path.read_bytes())
    data[data.index(b"48,200 passengers")] ^= 1
    path.write_bytes(data)
    assert status(home, "index", "verify") == 1
