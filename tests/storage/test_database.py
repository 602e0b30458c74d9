"""Databases: what is committed is read, what is not is not, and what is damaged is refused."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from notes_database import NAME, SCHEMA, TABLE, add_note, leave_unfinished, open_notes, read_notes

from vrag.errors import CollectionBusy, CollectionError
from vrag.storage import database as database_module
from vrag.storage.connection import has_checksums
from vrag.storage.database import Database, Schema, open_databases
from vrag.storage.writer_lock import RefusedLock, WriterLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.storage.connection import Connection

WITH_COLOUR = Schema(
    SCHEMA.application,
    (TABLE, "ALTER TABLE notes ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'"),
    "notebook",
)


def insert(database: Database, text: str, then: Callable[[Connection], object]) -> None:
    """Add a note and do something else in one commit."""
    with database.write() as connection:
        connection.execute("INSERT INTO notes(text) VALUES (?)", (text,))
        then(connection)


def refuse(*_: object) -> bool:
    return False


def fail(_: Connection) -> None:
    raise KeyError


def look_at(directory: Path, schema: Schema = SCHEMA) -> Database:
    """Open the database of notes to read it, though it could be written."""
    lock = WriterLock(directory, 0.0, lambda holder, _: CollectionBusy(holder))
    return Database.open(directory / NAME, schema, lock, CollectionError, read_only=True)


def is_named(directory: Path) -> bool:
    """Return whether the damage of a database is named, when it is opened or checked."""
    try:
        with closing(open_notes(directory)) as database:
            return bool(database.check())
    except CollectionError:
        return True


class TestCommits:
    def test_are_read_by_others(self, notes: Database) -> None:
        add_note(notes, "one")
        with closing(open_notes(notes.path.parent)) as other:
            assert read_notes(other) == ["one"]
            add_note(other, "two")
        assert read_notes(notes) == ["one", "two"]

    def test_do_not_change_what_is_being_read(self, notes: Database) -> None:
        add_note(notes, "one")
        with closing(open_notes(notes.path.parent)) as other, notes.read() as connection:
            assert connection.execute("SELECT count(*) FROM notes").get == 1
            add_note(other, "two")
            assert not other.checkpoint()
            assert connection.execute("SELECT count(*) FROM notes").get == 1
            assert read_notes(notes) == ["one"]
        assert read_notes(notes) == ["one", "two"]

    def test_are_whole_or_absent(self, notes: Database) -> None:
        with pytest.raises(KeyError):
            insert(notes, "half", fail)
        with pytest.raises(CollectionError, match="could not be written"):
            insert(
                notes, "half", lambda connection: connection.execute("INSERT INTO notes(text) VALUES (NULL)")
            )
        assert read_notes(notes) == []
        add_note(notes, "whole")
        assert read_notes(notes) == ["whole"]

    def test_are_refused_while_another_one_writes(self, notes: Database) -> None:
        with (
            closing(open_notes(notes.path.parent)) as other,
            other.write(),
            pytest.raises(CollectionBusy),
        ):
            add_note(notes, "one")

    @pytest.mark.smoke
    def test_outlive_the_process(self, tmp_path: Path) -> None:
        leave_unfinished(tmp_path, 5, "of the dead")
        with closing(open_notes(tmp_path)) as database:
            assert [note[:13] for note in read_notes(database)] == [f"of the dead {n}" for n in range(5)]
            assert database.checkpoint()
            assert database.check() == []
        assert (tmp_path / f"{NAME}-wal").stat().st_size == 0

    def test_on_a_full_disk_change_nothing(self, notes: Database) -> None:
        add_note(notes, "one")
        with notes.read() as connection:
            connection.pragma("max_page_count", 3)
        with pytest.raises(CollectionError, match="full") as caught:
            add_note(notes, "w" * 100_000)
        assert "Free some disk space" in caught.value.hint
        assert read_notes(notes) == ["one"]

    def test_of_many_threads_are_all_there(self, tmp_path: Path) -> None:
        database = open_notes(tmp_path, create=True, wait=60)

        def write(number: int) -> None:
            for note in range(10):
                add_note(database, f"{number} {note}")
                read_notes(database)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(read_notes(database)) == sorted(f"{n} {note}" for n in range(6) for note in range(10))
        database.close()

    def test_move_a_long_log_to_the_database(self, notes: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database_module, "MAX_WAL_BYTES", 100_000)
        for _ in range(30):
            add_note(notes, "w" * 10_000)
        assert notes.path.with_name(f"{NAME}-wal").stat().st_size < 200_000
        assert len(read_notes(notes)) == 30

    def test_leave_no_byte_of_what_was_deleted(self, notes: Database) -> None:
        add_note(notes, "unforgettable" * 500)
        add_note(notes, "other")
        with notes.write() as connection:
            connection.execute("DELETE FROM notes WHERE text LIKE 'unforgettable%'")
        assert notes.checkpoint()
        files = [path.read_bytes() for path in notes.path.parent.iterdir()]
        assert not any(b"unforgettable" in data for data in files)


class TestOpeningAgain:
    OTHER = (
        "import sys\n"
        "from pathlib import Path\n"
        "from notes_database import add_note, open_notes\n"
        "database = open_notes(Path(sys.argv[1]))\n"
        "add_note(database, 'other')\n"
        "print(database.checkpoint())\n"
    )

    @pytest.mark.slow
    def test_in_the_same_process_keeps_what_is_being_read(self, notes: Database) -> None:
        """Closing any file of a database frees the locks that a process has on it."""
        add_note(notes, "one")
        with notes.read() as connection:
            assert connection.execute("SELECT count(*) FROM notes").get == 1
            with closing(open_notes(notes.path.parent)) as again:
                assert read_notes(again) == ["one"]
                assert again.check() == []
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            command = [sys.executable, "-c", self.OTHER, str(notes.path.parent)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            assert done.stdout == "False\n", "the log must not be cut off while it is read"
            assert connection.execute("SELECT count(*) FROM notes").get == 1

    def test_one_that_is_moved_away_is_told_and_found_again(self, notes: Database) -> None:
        add_note(notes, "one")
        place, elsewhere = notes.path.parent, notes.path.parent.with_name("elsewhere")
        place.rename(elsewhere)
        place.mkdir()
        with pytest.raises(CollectionError, match=f"The notebook {place} is gone"):
            read_notes(notes)
        with pytest.raises(CollectionError, match=f"The notebook {place} is gone"):
            add_note(notes, "two")
        shutil.rmtree(place)
        elsewhere.rename(place)
        add_note(notes, "two")
        assert read_notes(notes) == ["one", "two"]

    def test_another_file_in_its_place_is_read_once_what_is_being_read_is_over(
        self, notes: Database, tmp_path: Path
    ) -> None:
        """As a repair puts it there."""
        add_note(notes, "one")
        with closing(open_notes(tmp_path / "other", create=True)) as other:
            add_note(other, "of the other")
            assert other.checkpoint()
        with notes.read() as connection:
            assert connection.execute("SELECT count(*) FROM notes").get == 1
            for ending in ("-wal", "-shm"):
                notes.path.with_name(f"{NAME}{ending}").unlink()
            (tmp_path / "other" / NAME).replace(notes.path)
            assert read_notes(notes) == ["one"]
        assert read_notes(notes) == ["of the other"]
        add_note(notes, "two")
        with closing(open_notes(notes.path.parent)) as again:
            assert read_notes(again) == ["of the other", "two"]

    def test_after_it_was_finished_leaves_no_connection_and_no_log(self, notes: Database) -> None:
        add_note(notes, "one")
        assert notes.is_open
        notes.finish()
        assert not notes.is_open
        assert notes.path.with_name(f"{NAME}-wal").stat().st_size == 0
        assert notes in open_databases()
        assert read_notes(notes) == ["one"]


class TestOpening:
    def test_needs_a_database(self, tmp_path: Path) -> None:
        for content in (None, b""):
            if content is not None:
                (tmp_path / NAME).write_bytes(content)
            with pytest.raises(CollectionError, match="There is no notebook in"):
                open_notes(tmp_path)
        assert read_notes(open_notes(tmp_path, create=True)) == []

    def test_again_as_new_keeps_what_is_there(self, notes: Database) -> None:
        add_note(notes, "one")
        assert read_notes(open_notes(notes.path.parent, create=True)) == ["one"]

    @pytest.mark.parametrize("content", [b"x" * 10, b"x" * 5000, b"SQLite format 3\0" + b"x" * 8000])
    def test_refuses_another_file(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / NAME).write_bytes(content)
        for create in (False, True):
            with pytest.raises(CollectionError, match=NAME):
                open_notes(tmp_path, create=create)
        assert (tmp_path / NAME).read_bytes() == content

    def test_refuses_a_database_of_another_program(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / NAME)) as connection:
            connection.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT)")
        with pytest.raises(CollectionError, match="no notebook of this version"):
            open_notes(tmp_path)

    def test_refuses_another_kind_of_database(self, notes: Database) -> None:
        other = Schema(1, SCHEMA.steps, "diary")
        with pytest.raises(CollectionError, match="is no diary"):
            open_notes(notes.path.parent, other)

    def test_brings_older_tables_up_to_date_and_refuses_newer_ones(self, notes: Database) -> None:
        add_note(notes, "one")
        with closing(open_notes(notes.path.parent, WITH_COLOUR)) as newer, newer.read() as connection:
            assert list(connection.execute("SELECT text, colour FROM notes")) == [("one", "grey")]
        with pytest.raises(CollectionError, match=r"newer version of vrag \(layout 2\)"):
            open_notes(notes.path.parent)

    def test_undoes_a_failed_change_of_the_tables(self, notes: Database) -> None:
        add_note(notes, "one")
        broken = Schema(SCHEMA.application, (TABLE, "DROP TABLE notes; SELECT * FROM absent"), "notebook")
        with pytest.raises(CollectionError, match="absent"):
            open_notes(notes.path.parent, broken)
        assert read_notes(open_notes(notes.path.parent)) == ["one"]

    @pytest.mark.slow
    def test_by_a_forked_process_has_its_own_connection(self, notes: Database) -> None:
        add_note(notes, "one")
        child = os.fork()
        if child == 0:
            os._exit(0 if read_notes(notes) == ["one"] else 1)
        assert os.waitpid(child, 0)[1] == 0
        add_note(notes, "two")
        assert read_notes(notes) == ["one", "two"]


class TestDamage:
    def test_of_any_page_is_named(self, notes: Database, tmp_path: Path) -> None:
        for number in range(40):
            add_note(notes, f"{number} " + "word " * 200)
        assert notes.checkpoint()
        notes.close()
        content, chance = notes.path.read_bytes(), random.Random(1)
        target = tmp_path / "damaged"
        for trial in range(60):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            data = bytearray(content)
            place = chance.randrange(len(data))
            if trial % 3:
                data[place] ^= 1 << chance.randrange(8)
            else:
                del data[max(place, 1) :]
            (target / NAME).write_bytes(data)
            assert is_named(target), f"byte {place} changed, and nothing was named"

    def test_is_not_seen_where_there_is_none(self, notes: Database) -> None:
        add_note(notes, "one")
        assert notes.check() == []


class TestReadingOnly:
    @pytest.fixture
    def frozen(self, notes: Database, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A directory in which this process may not write, or believes so."""
        add_note(notes, "one")
        monkeypatch.setattr(os, "access", refuse)
        return notes.path.parent

    def test_beside_a_writer_sees_each_commit(self, notes: Database, frozen: Path) -> None:
        with closing(open_notes(frozen)) as reader:
            assert read_notes(reader) == ["one"]
            add_note(notes, "two")
            assert read_notes(reader) == ["one", "two"]
            assert notes.checkpoint()
            assert read_notes(reader) == ["one", "two"]
            with pytest.raises(CollectionError, match="could not be written"):
                add_note(reader, "three")

    def test_without_an_index_of_the_log_a_copy_is_read(self, notes: Database, frozen: Path) -> None:
        copy = frozen.parent / "copy"
        copy.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(frozen / f"{NAME}{ending}", copy)
        before = sorted(path.name for path in copy.iterdir())
        with closing(open_notes(copy)) as reader:
            assert read_notes(reader) == ["one"]
        assert sorted(path.name for path in copy.iterdir()) == before

    def test_without_a_log_the_file_is_read_until_it_changes(self, notes: Database, frozen: Path) -> None:
        assert notes.checkpoint()
        copy = frozen.parent / "copy"
        copy.mkdir()
        shutil.copy(frozen / NAME, copy)
        with closing(open_notes(copy)) as reader:
            assert read_notes(reader) == ["one"]
            add_note(notes, "two")
            assert notes.checkpoint()
            with pytest.raises(CollectionError, match="changed while it was being read"), reader.read():
                shutil.copy(frozen / NAME, copy)
            assert read_notes(reader) == ["one", "two"]
        assert [path.name for path in copy.iterdir()] == [NAME]

    def test_by_choice_writes_nothing_beside_the_file(self, notes: Database) -> None:
        add_note(notes, "one")
        assert notes.checkpoint()
        copy = notes.path.parent.with_name("copy")
        copy.mkdir()
        shutil.copy(notes.path, copy)
        with closing(look_at(copy)) as reader:
            assert read_notes(reader) == ["one"]
            with pytest.raises(CollectionError):
                add_note(reader, "two")
        names = {path.name for path in copy.iterdir()}
        assert not names & {f"{NAME}-wal", f"{NAME}-shm"}
        with closing(look_at(notes.path.parent)) as reader:
            add_note(notes, "in the log")
            assert read_notes(reader) == ["one", "in the log"]

    def test_by_choice_brings_older_tables_up_to_date_first(self, notes: Database) -> None:
        add_note(notes, "one")
        with closing(look_at(notes.path.parent, WITH_COLOUR)) as newer, newer.read() as connection:
            assert list(connection.execute("SELECT text, colour FROM notes")) == [("one", "grey")]


class TestCopying:
    def test_gives_the_state_that_is_read_and_equal_files_of_equal_states(
        self, notes: Database, tmp_path: Path
    ) -> None:
        for number in range(200):
            add_note(notes, f"{number} " + "word " * 300)
        first, second = tmp_path / "first" / NAME, tmp_path / "second" / NAME
        for path in (first, second):
            path.parent.mkdir()
        with notes.read():
            before = read_notes(notes)
            other = open_notes(notes.path.parent)
            add_note(other, "after")
            notes.copy(first)
            notes.copy(second)
        assert first.read_bytes() == second.read_bytes()
        with closing(open_notes(first.parent)) as copy:
            assert read_notes(copy) == before
            assert copy.check() == []
            add_note(copy, "of the copy")
        assert read_notes(notes) == [*before, "after"]

    def test_keeps_the_checksum_of_each_page(self, notes: Database, tmp_path: Path) -> None:
        for number in range(50):
            add_note(notes, f"{number} " + "word " * 300)
        path = tmp_path / NAME
        notes.copy(path)
        assert has_checksums(path)
        whole, seen = path.read_bytes(), random.Random(1)
        for page in range(1, len(whole) // 4096):
            data = bytearray(whole)
            data[4096 * page + seen.randrange(4096)] ^= 1
            path.write_bytes(data)
            with closing(open_notes(tmp_path)) as copy:
                assert any("checksum" in line for line in copy.check())

    def test_of_a_damaged_page_is_refused(self, notes: Database, tmp_path: Path) -> None:
        for number in range(50):
            add_note(notes, f"{number} " + "word " * 300)
        notes.checkpoint()
        notes.close()
        data = bytearray(notes.path.read_bytes())
        data[4096 * 20 + 100] ^= 1
        notes.path.write_bytes(data)
        with pytest.raises(CollectionError, match="checksum"):
            open_notes(notes.path.parent).copy(tmp_path / "copy.db")


def test_a_fixed_file_is_read_and_nothing_is_written_beside_it(notes: Database, tmp_path: Path) -> None:
    add_note(notes, "one")
    path = tmp_path / "fixed" / NAME
    path.parent.mkdir()
    notes.copy(path)
    refused = CollectionError("It is read-only.")
    with closing(Database.open(path, SCHEMA, RefusedLock(refused), CollectionError, fixed=True)) as fixed:
        assert read_notes(fixed) == ["one"]
        with pytest.raises(CollectionError, match="read-only"):
            add_note(fixed, "two")
    assert [entry.name for entry in path.parent.iterdir()] == [NAME]
