"""Putting a new database in the place of a damaged one, with what can be read of it.

The damaged one is kept beside it, under names that end in `.damaged`. A process may be killed at any moment:
then the damaged database is still there, or the new one is complete and `finish_rescue` puts it in its place.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import apsw

from vrag.atomic_io import replace_file, sync
from vrag.storage.connection import Connection, connect, connect_damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vrag.errors import VragError
    from vrag.storage.database import Schema

T = TypeVar("T")
DAMAGED = ".damaged"
"""Ending of the names under which the files of a damaged database are kept."""
_ENDINGS = ("", "-wal", "-shm")
"""Ends of the names of the files of a database."""


def rescue_database(
    path: Path, schema: Schema, copy: Callable[[Connection, Connection], T], unreadable: VragError
) -> T:
    """Replace a damaged database by a new one, and return what `copy` returns.

    `copy` receives connections to the damaged database and to the new one, whose tables are empty, and writes
    to it what it can read, in one commit. The caller holds the lock for writing. Raises `unreadable` if
    `copy` fails to read what it cannot do without, and an error of the same type if the disk is full; nothing
    has changed then.
    """
    new = _new_path(path)
    _remove(new, _ENDINGS)
    try:
        with closing(connect_damaged(path)) as damaged, closing(connect(new, write=True)) as connection:
            with schema.migrating(connection):
                result = copy(damaged, connection)
            for _ in connection.execute("VACUUM"):  # rows that were copied and deleted again
                pass
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.FullError as error:
        _remove(new, _ENDINGS)
        raise type(unreadable)(f"{new} cannot be written: {error}.", "Free some disk space.") from error
    except apsw.Error as error:
        _remove(new, _ENDINGS)
        raise unreadable from error
    except BaseException:
        _remove(new, _ENDINGS)
        raise
    _remove(new, _ENDINGS[1:])
    _exchange(path, new)
    return result


def is_rescue_interrupted(path: Path) -> bool:
    """Return whether a process died between taking a damaged database away and putting the new one there."""
    return _new_path(path).is_file() and not path.exists()


def finish_rescue(path: Path) -> None:
    """Put the new database in its place if a process died over it. The caller holds the lock for writing."""
    if is_rescue_interrupted(path):
        _exchange(path, _new_path(path))


def _new_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.rescued")


def _exchange(path: Path, new: Path) -> None:
    """Replace a database by another one that is complete.

    Its log goes after it, since that must not be applied to another database, nor the database be read
    without it.
    """
    for ending in _ENDINGS:
        old = path.with_name(path.name + ending)
        if old.exists():
            os.replace(old, old.with_name(f"{old.name}{DAMAGED}"))  # noqa: PTH105 - replaces an older one
        sync(path.parent)
    replace_file(new, path)
    sync(path.parent)


def _remove(path: Path, endings: Sequence[str]) -> None:
    for ending in endings:
        path.with_name(path.name + ending).unlink(missing_ok=True)
