"""Connections to databases of SQLite, whose pages have checksums.

apsw brings its own SQLite, the same on every machine, and `cksumvfs`, the extension of SQLite's authors
that puts a checksum at the end of every page and compares it at every read from the database file.
https://sqlite.org/cksumvfs.html
"""

from __future__ import annotations

import ctypes
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import apsw

from vrag.storage.wal import count_missing_bytes

if TYPE_CHECKING:
    from pathlib import Path

_CHECKSUM_BYTES = 8
"""Bytes of each page that are reserved for its checksum."""
_RESERVED_AT = 20
"""Place in the file of the number of bytes that are reserved."""
Connection: TypeAlias = Any
"""An `apsw.Connection`, whose own types need Python 3.12."""

BUSY_MILLISECONDS = 5_000
"""Longest wait for a recovery or a checkpoint of another process, which take no longer than a moment."""
_EXTENSION, _FILE_SYSTEM = "cksumvfs", "cksmvfs"
"""The extension, and the virtual file system that it registers."""


def connect(path: Path, *, write: bool, immutable: bool = False, durable: bool = True) -> Connection:
    """Open a database; with `write` it is created where there is none.

    What is committed through it is on the disk when the commit returns, deleted content is overwritten, and
    nothing is moved from the log to the database but by `checkpoint`. `immutable` is for a file that nobody
    changes and that has no log: nothing is locked then. Without `durable` commits do not wait for the disk.
    Raises `apsw.Error`.
    """
    load_checksums()
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_FULLMUTEX
    flags |= apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
    uri = f"file:{quote(path.as_posix())}" + ("?immutable=1" if immutable else "")
    connection: Connection = apsw.Connection(uri, flags=flags, vfs=_FILE_SYSTEM)
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("PRAGMA trusted_schema = OFF")  # a published database may be anybody's
        if write:
            _control(connection, apsw.SQLITE_FCNTL_RESERVE_BYTES, _CHECKSUM_BYTES)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("PRAGMA fullfsync = ON")  # of macOS: empties the memory of the drive as well
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            _control(connection, apsw.SQLITE_FCNTL_PERSIST_WAL, 1)  # others can read without writing then
    except BaseException:
        connection.close()
        raise
    return connection


def connect_copy(path: Path) -> Connection:
    """Open a new file to receive a copy of a database, by `Connection.backup`; the caller syncs it.

    Nothing can be read from it before that is complete. Raises `apsw.Error`.
    """
    load_checksums()
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection: Connection = apsw.Connection(f"file:{quote(path.as_posix())}", flags=flags, vfs=_FILE_SYSTEM)
    try:
        _control(connection, apsw.SQLITE_FCNTL_RESERVE_BYTES, _CHECKSUM_BYTES)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA user_version = 1")  # writes a page, by which checksums begin
    except BaseException:
        connection.close()
        raise
    return connection


def has_checksums(path: Path) -> bool:
    """Return whether the pages of a database have checksums; True for a file that is still empty.

    Raises `OSError` if it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_RESERVED_AT + 1)
    return not head or head[_RESERVED_AT:] == bytes([_CHECKSUM_BYTES])


def connect_damaged(path: Path) -> Connection:
    """Open a damaged database to read what can be read; the caller has set it aside, or is about to.

    SQLite takes what is cut off for zeros. So it is filled with bytes that have no right checksum before.
    Raises `apsw.Error` and `OSError`.
    """
    if missing := count_missing_bytes(path):
        with path.open("ab") as file:
            file.write(b"\xff" * missing)
    return connect(path, write=False)


@cache
def load_checksums() -> None:
    """Load the extension into apsw's SQLite, where it stays. Raises `apsw.Error`."""
    import apsw.sqlite_extra

    with closing(apsw.Connection(":memory:")) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(str(apsw.sqlite_extra.path(_EXTENSION)))


def _control(connection: Connection, operation: int, value: int) -> None:
    number = ctypes.c_int(value)
    connection.file_control("main", operation, ctypes.addressof(number))
