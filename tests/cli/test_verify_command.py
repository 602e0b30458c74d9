"""`vrag index verify`: the lines that it prints, and its exit statuses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from command_line import vrag
from PIL import Image
from stored_items import blob_path, put_blob

from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path


def test_leftovers_have_an_exit_status_and_are_removed(home: Path) -> None:
    collection = Collection.open(home / "collection")
    stray = blob_path(collection, put_blob(collection, b"x"))
    os.utime(stray, (0, 0))
    found = vrag(home, "index", "verify")
    assert found.status == 3
    assert "  ! blobs: 1 stored files are named by nothing: a killed process left them.\n" in found.out
    assert "To remove leftovers: vrag index verify --repair" in found.out
    assert stray.exists()
    repaired = vrag(home, "index", "verify", "--repair")
    assert repaired.status == 0, repaired
    assert not stray.exists()


def test_damage_has_an_exit_status_and_is_repaired(home: Path) -> None:
    Image.new("RGB", (80, 60)).save(home / "a.png")
    assert vrag(home, "index", "add", "a.png").status == 0
    collection = Collection.open(home / "collection")
    (image,) = collection.store.read_items(["image"], "image IS NOT NULL").column("image")
    blob_path(collection, image).write_bytes(b"x")
    found = vrag(home, "index", "verify")
    assert found.status == 1
    assert "  ! page 1 of a.png: Its picture is damaged." in found.out
    assert vrag(home, "index", "verify", "--repair").status == 0
    assert vrag(home, "index", "verify").status == 0


def test_a_damaged_database_is_named_and_repaired_from_the_documents(home: Path) -> None:
    Collection.open(home / "collection").close()
    path = home / "collection" / "collection.db"
    data = bytearray(path.read_bytes())
    data[data.index(b"48,200 passengers")] ^= 1
    path.write_bytes(data)
    found = vrag(home, "index", "verify")
    assert found.status == 1
    assert "collection.db: " in found.out
    assert "checksum" in found.out
    assert vrag(home, "search", "passengers").status == 1
    repaired = vrag(home, "index", "verify", "--repair")
    assert repaired.status == 0, repaired
    assert "48,200" in vrag(home, "search", "passengers").out


def flip_run_bit(runs: Path) -> Path:
    """Flip a bit of the first event in a directory of runs; return the file."""
    path = runs / "runs.db"
    data = bytearray(path.read_bytes())
    data[data.index(b'"run_started"')] ^= 1
    path.write_bytes(data)
    return path


def test_runs_are_checked_where_the_settings_keep_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vrag(home, "ask", "How many passengers?").status == 0
    own = flip_run_bit(home / "collection" / "runs")
    monkeypatch.setenv("VRAG_RUNS_DIR", str(home / "elsewhere"))
    assert vrag(home, "ask", "How many passengers?").status == 0
    other = flip_run_bit(home / "elsewhere")
    found = vrag(home, "index", "verify")
    assert found.status == 1
    assert f"(also those in {home / 'elsewhere'})." in found.out
    problems = vrag(home, "index", "verify", "--json").json["problems"]
    files = list(dict.fromkeys(problem["file"] for problem in problems))
    assert files == [own.relative_to(home / "collection").as_posix(), other.as_posix()]
    repaired = vrag(home, "index", "verify", "--repair")
    assert (repaired.status, "damaged beyond repair" in repaired.err) == (1, True), "it had one run"


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
    assert (found.status, found.json["runs"]) == (1 if apart else 0, 1)
    assert found.json["runs_dir"] == (str(apart) if apart else "")


def test_a_collection_of_an_earlier_version_is_refused_with_what_to_do(home: Path) -> None:
    old = home / "old"
    old.mkdir()
    (old / "collection.json").write_text("{}")
    for line in (["index", "verify"], ["index", "verify", "--repair"], ["search", "ferry"], ["ask", "Who?"]):
        done = vrag(home, *line, "-c", "old")
        assert done.status == 1
        assert "was created by an earlier version of vrag" in done.err
        assert "vrag index add DOCUMENTS --collection NEW" in done.err
