"""Recovery of a table after its writer was killed, or the machine lost power: back to what was acknowledged.

The journal of `file_records` says what the writer was doing:

- A commit was interrupted. Versions after the one that stood were never acknowledged, and their files may be
  torn: their manifests are deleted, then their other files. When only the writer died, a reader may have seen
  such a version, and remembers by the number what it read: the version that stood is committed again until
  its number is beyond those.
- Older versions were being deleted. Some of their files may be gone; the newest version was on the disk
  before. What is there is recorded.
- Commits were recorded but not put on the disk, as without `durable`. Each of their files is compared with
  its record, and the table goes back to the last version whose files are all as they should be.
- The newest manifest is missing, though it was recorded: a new commit would take its place. It is put back
  from its copy.
- An entry is damaged, though the files of its commit were on the disk: what is there is recorded again.
- There are newer versions, or no records at all, and nothing was interrupted: an earlier release of vrag
  wrote them. What is there is recorded.

The names, from the outside in:

- `Collection.recover` is called when a collection is opened, and takes the lock if a table `is_interrupted`.
- `Collection.undo_interrupted` is called whenever the lock is taken. It recovers both tables, and marks the
  documents as begun whose items have gone with what was undone: the next `add` makes them again.
- `recover_table` brings one table back. Since the process may be killed before documents are marked, the
  journal says so from the beginning of the undoing on: `TableRecords.is_undone`, and `recover_table` returns
  true again and again.
- `forget_undoing` ends that, when the documents are marked.

What is damaged is another matter: `inspection` finds it, and `TableState.is_incomplete` says that rows are
gone.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import restore_former_directory, sync
from vrag.index.tables.file_records import (
    check_files,
    journal_path,
    read_table_records,
    record_present,
    record_undoing,
    recorded_commit,
    restore_manifest,
    sync_records,
)
from vrag.index.tables.layout import hint_path, is_hint_wrong, list_files, newest_version, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from vrag.index.tables.file_records import TableRecords


def recover_table(table: Path, open_table: Callable[[], Any]) -> bool:
    """Bring the table in a directory back to a version that is whole; return whether commits were undone.

    Each call returns true for them until `forget_undoing`. `open_table` opens it with LanceDB. The caller is
    the one writer. Raises `OSError`, and what LanceDB raises.
    """
    restore_former_directory(table)
    records, newest = read_table_records(table), newest_version(table)
    if not table.is_dir():
        return records.is_undone
    if newest < records.version and restore_manifest(table):
        newest = newest_version(table)
    version = _last_whole(table, records)
    if is_hint_wrong(table):
        _forget_hint(table)
    is_undone = version < records.version or (records.begun is not None and newest > version)
    if is_undone and not version:
        record_undoing(table, 0, ())
        shutil.rmtree(table)
    elif is_undone:
        _go_back(table, version, records, open_table)
        record_present(table, is_undone=True)
    elif records.begun is not None or records.is_damaged or records.is_deleting or newest > version:
        if records.begun == records.version and not records.is_damaged:
            _delete_all_but(table, records.files)
        record_present(table, is_undone=records.is_undone)
    else:
        sync_records(table)
    return is_undone or records.is_undone


def forget_undoing(table: Path) -> None:
    """Record that what went with undone commits has been looked at. Raises `OSError`."""
    if table.is_dir():
        record_present(table)
    else:
        journal_path(table).unlink(missing_ok=True)


def _last_whole(table: Path, records: TableRecords) -> int:
    """Return the last version all of whose files are as they were recorded, or were on the disk by then."""
    faults = {fault.name for fault in check_files(table, records.unsynced())}
    if not faults:
        return records.version if records.begun is None else records.begun
    version = records.synced
    for commit in records.commits:
        if commit.version > version:
            if not faults.isdisjoint(file.name for file in commit.files):
                break
            version = commit.version
    return version


def _go_back(table: Path, version: int, records: TableRecords, open_table: Callable[[], Any]) -> None:
    """Delete newer versions, and commit this one under a number that none of them had."""
    newest, known = newest_version(table), records.files
    if version < records.version:
        kept = (file for commit in records.commits if commit.version <= version for file in commit.files)
        known = {file.name: file for file in kept if file.name in known}
    record_undoing(table, version, known.values())
    late = {name: number for name in list_files(table) if (number := version_of(name) or 0) > version}
    for name in sorted(late, key=lambda name: late[name], reverse=True):
        (table / name).unlink()
    _forget_hint(table)
    if version <= records.version and not records.is_damaged:  # else not all of its files are recorded
        _delete_all_but(table, known)
    handle = open_table()
    with recorded_commit(table, lambda: handle.version, durable=True):
        advance_version(handle, newest)


def advance_version(handle: Any, version: int) -> None:  # noqa: ANN401 - LanceDB has no types
    """Commit the newest version of an open table again until its number is greater than `version`."""
    while handle.version <= version:
        handle.checkout(handle.version)
        handle.restore()


def _forget_hint(table: Path) -> None:
    hint_path(table).unlink(missing_ok=True)
    sync(hint_path(table).parent)


def _delete_all_but(table: Path, known: Container[str]) -> None:
    for name in list_files(table):
        if name not in known:
            (table / name).unlink()
