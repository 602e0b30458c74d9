"""A database of notes, written by this process or by one that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from vrag.errors import CollectionBusy, CollectionError
from vrag.storage.database import Database, Schema
from vrag.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT"
SCHEMA = Schema(0x6E6F7465, (TABLE,), "notebook")
NAME = "notes.db"

_WRITER = """
import sys
from pathlib import Path
from notes_database import add_note, open_notes
database = open_notes(Path(sys.argv[1]), create=True)
for number in range(int(sys.argv[2])):
    add_note(database, f"{sys.argv[3]} {number} " + "word " * 300)
print("written", flush=True)
sys.stdin.read()
"""


def open_notes(
    directory: Path, schema: Schema = SCHEMA, *, create: bool = False, wait: float = 0.0
) -> Database:
    """Open the database of notes in a directory."""
    lock = WriterLock(directory, wait, lambda holder, waited: CollectionBusy(holder, f"{waited:g} s"))
    make = Database.create if create else Database.open
    return make(directory / NAME, schema, lock, CollectionError)


def add_note(database: Database, text: str) -> None:
    """Commit a note."""
    with database.write() as connection:
        connection.execute("INSERT INTO notes(text) VALUES (?)", (text,))


def read_notes(database: Database) -> list[str]:
    """Return the texts of all notes, in their order."""
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY id")]


def leave_unfinished(directory: Path, count: int, begin: str = "note") -> None:
    """Commit notes in a process that is killed: they stay in the log."""
    command = [sys.executable, "-c", _WRITER, str(directory), str(count), begin]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.kill()
