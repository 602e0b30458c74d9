"""What a search loads: the second of an unchanged collection opens no database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


HEAVY = {"lancedb", "pandas", "pyarrow.dataset", "torch", "fastapi", "httpx", "vrag.agent.events"}
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
def test_only_after_a_change_a_search_opens_the_tables(home: Path) -> None:
    first = run(home, "search", "ferry shore", "--json")
    second = run(home, "search", "ferry shore", "--json")
    assert first[:2] == second[:2]
    assert not HEAVY.intersection(second[2])
    assert "lancedb" in first[2], "the copies come from somewhere"
    (home / "more.md").write_text("Another ferry to the shore.\n")
    assert status(home, "index", "add", "more.md") == 0
    third = run(home, "search", "ferry shore", "--json")
    assert set(found(third[1])) == {*found(first[1]), "more.md"}
    fourth = run(home, "search", "ferry shore", "--json")
    assert (third[1], "lancedb" in third[2], "lancedb" in fourth[2]) == (fourth[1], True, False)


def test_asking_a_folder_in_which_nothing_has_changed_opens_no_tables(home: Path) -> None:
    question = "How many passengers did the ferry carry in 2024?"
    first, second = (run(home, "ask", "note.md", question, "--json") for _ in range(2))
    assert first[0] == second[0] == 0
    assert json.loads(first[1])["answer"] == json.loads(second[1])["answer"]
    assert not {"lancedb", "pandas"}.intersection(second[2])


def test_verify_looks_at_the_tables_and_not_at_copies(home: Path) -> None:
    for _ in range(2):
        assert status(home, "search", "ferry") == 0
    assert status(home, "index", "verify") == 0
    for file in (home / "collection" / "index" / "items.lance" / "data").iterdir():
        file.unlink()
    assert status(home, "index", "verify") == 1
