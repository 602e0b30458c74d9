"""The check of write-ahead logs: what SQLite would drop without a word is named."""

from __future__ import annotations

import shutil
import struct
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notes_database import NAME, add_note, leave_unfinished, open_notes, read_notes

from vrag.errors import CollectionError
from vrag.storage import wal
from vrag.storage.connection import connect_damaged
from vrag.storage.wal import continue_checksums, describe_cut, describe_wal_damage

if TYPE_CHECKING:
    from pathlib import Path

FRAME_BYTES = 24 + 4096


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with twelve commits in its log, whose writer was killed."""
    directory = tmp_path_factory.mktemp("unfinished")
    leave_unfinished(directory, 12)
    return directory


@pytest.fixture
def copy(unfinished: Path, tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    shutil.copytree(unfinished, target)
    return target


def change_byte(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.smoke
def test_a_log_of_a_killed_writer_is_whole(copy: Path) -> None:
    assert describe_wal_damage(copy / NAME) == ""
    assert len(read_notes(open_notes(copy))) == 12


@pytest.mark.slow
@pytest.mark.parametrize("place", [3, 20, 28, 32, 44, 48, 60, 3000, FRAME_BYTES * 5 + 500, -1, -4000])
def test_a_changed_bit_is_named_before_commits_are_lost(copy: Path, place: int) -> None:
    change_byte(copy / f"{NAME}-wal", place)
    assert describe_wal_damage(copy / NAME)
    with pytest.raises(CollectionError, match="is damaged: of the log"):
        open_notes(copy)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 31, 32, 100, 32 + FRAME_BYTES, 32 + 3 * FRAME_BYTES + 7])
def test_a_log_that_was_cut_is_named(copy: Path, size: int) -> None:
    path = copy / f"{NAME}-wal"
    path.write_bytes(path.read_bytes()[:size])
    assert describe_wal_damage(copy / NAME)


@pytest.mark.slow
def test_without_the_index_damage_in_front_of_other_commits_is_named(copy: Path) -> None:
    (copy / f"{NAME}-shm").unlink()
    assert describe_wal_damage(copy / NAME) == ""
    change_byte(copy / f"{NAME}-wal", 32 + 2 * FRAME_BYTES + 100)
    assert "page 3 cannot be read" in describe_wal_damage(copy / NAME)


@pytest.mark.slow
def test_a_commit_that_was_interrupted_is_none(copy: Path) -> None:
    path = copy / f"{NAME}-wal"
    data = path.read_bytes()
    salts = data[16:24]
    unfinished_frame = struct.pack(">II", 2, 0) + salts + bytes(8 + 4096)
    path.write_bytes(data + unfinished_frame[:2000])
    assert describe_wal_damage(copy / NAME) == ""
    path.write_bytes(data + unfinished_frame)
    assert describe_wal_damage(copy / NAME) == ""
    assert len(read_notes(open_notes(copy))) == 12


@pytest.mark.slow
def test_an_index_from_before_the_machine_started_is_not_believed(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / f"{NAME}-wal").write_bytes(b"")
    assert describe_wal_damage(copy / NAME)
    monkeypatch.setattr(wal, "_boot_time", lambda: (copy / f"{NAME}-shm").stat().st_mtime + 1)
    assert describe_wal_damage(copy / NAME) == ""


def test_there_is_no_damage_without_a_log(tmp_path: Path) -> None:
    assert describe_wal_damage(tmp_path / "absent.db") == ""
    database = open_notes(tmp_path / "notes", create=True)
    assert describe_wal_damage(database.path) == ""
    add_note(database, "one")
    assert describe_wal_damage(database.path) == ""
    assert database.checkpoint()
    assert describe_wal_damage(database.path) == ""


@given(st.binary(min_size=8, max_size=400), st.tuples(*[st.integers(0, 2**32 - 1)] * 2))
def test_the_checksum_is_that_of_the_file_format(data: bytes, seed: tuple[int, int]) -> None:
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u4")
    first, second = seed
    for a, b in words.reshape(-1, 2).tolist():
        first = (first + a + second) & 0xFFFFFFFF
        second = (second + b + first) & 0xFFFFFFFF
    sums = continue_checksums(words.astype(np.uint32)[None], np.asarray([seed], np.uint32))
    assert sums.tolist() == [[first, second]]


@pytest.mark.parametrize("left", [-1, -3000, -4096, -9000])
def test_a_database_that_is_cut_off_is_refused(tmp_path: Path, left: int) -> None:
    """SQLite would read zeros: the last pages hold the rest of a long note."""
    with closing(open_notes(tmp_path, create=True)) as database:
        add_note(database, "x" * 20_000)
        database.checkpoint()
    path = tmp_path / NAME
    assert describe_cut(path) == ""
    path.write_bytes(path.read_bytes()[:left])
    assert "missing" in describe_cut(path)
    with pytest.raises(CollectionError, match="is cut off"):
        open_notes(tmp_path)


@pytest.mark.slow
def test_what_an_interrupted_checkpoint_leaves_is_whole(copy: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(copy, moved)
    with closing(open_notes(moved)) as database:
        database.checkpoint()
    data = (moved / NAME).read_bytes()
    (copy / NAME).write_bytes(data[: len(data) // 2])  # the log still has the pages
    assert describe_cut(copy / NAME) == ""
    assert len(read_notes(open_notes(copy))) == 12


def test_what_is_cut_off_is_not_read_as_zeros(tmp_path: Path) -> None:
    with closing(open_notes(tmp_path, create=True)) as database:
        add_note(database, "first")
        add_note(database, "x" * 20_000)
        database.checkpoint()
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes()[:-3000])
    with closing(connect_damaged(path)) as connection:
        assert connection.execute("SELECT text FROM notes WHERE id = 1").get == "first"
        with pytest.raises(apsw.Error):
            connection.execute("SELECT text FROM notes WHERE id = 2").fetchall()
