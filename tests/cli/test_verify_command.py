"""`vrag index verify`: the lines that it prints, and its exit statuses."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from command_line import vrag

from vrag.atomic_io import read_lines, write_lines
from vrag.index.tables.file_records import journal_path, manifest_copy_path

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_named_once_and_called_deleted_when_it_was(home: Path) -> None:
    stray = home / "collection" / "items" / "stray.jpg"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    found = vrag(home, "index", "verify")
    assert found.status == 3
    assert "  ! items/stray.jpg: No item uses this picture.\n" in found.out
    assert "To remove leftovers: vrag index verify --repair" in found.out
    repaired = vrag(home, "index", "verify", "--repair")
    assert repaired.status == 0
    assert "  ! items/stray.jpg: No item uses this picture. (deleted)\n" in repaired.out


def flip_run_bit(runs: Path) -> tuple[Path, bytes]:
    """Flip a bit of the events of the one run in a directory; return the file, and what it had."""
    [events] = runs.glob("*/events.jsonl")
    sound = events.read_bytes()
    events.write_bytes(bytes([sound[0] ^ 1]) + sound[1:])
    return events, sound


def test_runs_are_checked_where_the_settings_keep_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vrag(home, "ask", "How many passengers?").status == 0
    own, _ = flip_run_bit(home / "collection" / "runs")
    monkeypatch.setenv("VRAG_RUNS_DIR", str(home / "elsewhere"))
    assert vrag(home, "ask", "How many passengers?").status == 0
    other, sound = flip_run_bit(home / "elsewhere")
    found = vrag(home, "index", "verify")
    assert found.status == 1
    assert f"2 runs (also those in {home / 'elsewhere'})." in found.out
    problems = vrag(home, "index", "verify", "--json").json["problems"]
    files = [problem["file"] for problem in problems]
    assert files == [own.relative_to(home / "collection").as_posix(), other.as_posix()]
    assert vrag(home, "index", "verify", "--repair").status == 0
    assert other.read_bytes() == sound
    monkeypatch.delenv("VRAG_RUNS_DIR")
    assert "1 runs.\n" in vrag(home, "index", "verify").out


@pytest.mark.parametrize("is_recorded_apart", [False, True])
def test_runs_of_a_read_only_collection_are_checked_there_and_in_the_data_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, is_recorded_apart: bool
) -> None:
    assert vrag(home, "ask", "How many passengers?").status == 0

    def is_writable(*_: object) -> bool:
        return False

    def data_path(*_: object, **__: object) -> Path:
        return home / "data"

    monkeypatch.setattr("vrag.factory.session._is_writable", is_writable)
    monkeypatch.setattr("vrag.factory.session.user_data_path", data_path)
    apart = None
    if is_recorded_apart:
        assert vrag(home, "ask", "How many passengers?").status == 0
        [apart] = (home / "data" / "read-only").iterdir()
        flip_run_bit(apart)
    found = vrag(home, "index", "verify", "--json")
    assert (found.status, found.json["runs"]) == ((1, 2) if apart else (0, 1))
    assert found.json["runs_dir"] == (str(apart) if apart else "")


def test_an_undone_commit_is_reported_with_what_to_do(home: Path) -> None:
    journal = journal_path(home / "collection" / "index" / "items.lance")
    lines = read_lines(journal)
    last = max(number for number, line in enumerate(lines) if b'"version"' in line)
    write_lines(journal, lines[:last])
    manifest_copy_path(journal).unlink()  # which is written last
    found = vrag(home, "index", "verify")
    assert found.status == 3
    assert "interrupted commit was undone: 1 document" in found.out
    assert "The next `vrag index add` reads what is missing." in found.out
    assert "--repair" not in found.out
    assert vrag(home, "index", "verify").status == 0
    assert vrag(home, "index", "add", "notes.md", "--json").json["items"] == 1


def test_a_document_whose_path_is_lost_is_named_in_words(home: Path) -> None:
    shutil.rmtree(home / "collection" / "index" / "files.lance")
    (home / "notes.md").unlink()
    found = vrag(home, "index", "verify")
    assert "! notes.md: 1 items have no entry in the list of files." in found.out
    repaired = vrag(home, "index", "verify", "--repair")
    assert repaired.status == 1
    assert "! notes.md: Its entry in the list of files is lost" in repaired.out
    removed = vrag(home, "index", "remove", "notes.md")
    assert "  notes.md (path unknown, id " in removed.out
    assert "lost:/" not in found.out + repaired.out + removed.out
