"""The records of a table's files: what is recorded, when, and what is found changed."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vrag.atomic_io import read_lines
from vrag.index.schema import arrow
from vrag.index.tables.file_records import (
    check_files,
    check_manifest_copy,
    is_interrupted,
    journal_path,
    manifest_copy_path,
    read_records,
    read_table_records,
    recorded_commit,
    restore_manifest,
)
from vrag.index.tables.layout import list_files, newest_version
from vrag.index.tables.store import Directory
from vrag.index.tables.table import Table

if TYPE_CHECKING:
    from pathlib import Path

pa: Any = arrow()
SCHEMA = pa.schema([("id", pa.string()), ("number", pa.int64())])


def rows(*ids: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.table({"id": list(ids), "number": list(range(len(ids)))}, SCHEMA)


def make_table(folder: Path, *, durable: bool = True) -> tuple[Table, Path]:
    return Table(Directory(folder, durable=durable), "rows", lambda: SCHEMA), folder / "rows.lance"


def test_every_commit_is_recorded_with_all_its_files(tmp_path: Path) -> None:
    table, folder = make_table(tmp_path)
    for write in (
        lambda: table.append(rows("a", "b", "c")),
        lambda: table.upsert(rows("c", "d"), "id"),
        lambda: table.update("id = 'a'", {"number": 9}),
        lambda: table.delete("id = 'b'"),
        lambda: table.compact(timedelta(days=1)),
        lambda: table.compact(timedelta(milliseconds=1)),
        lambda: table.append(rows("e")),
    ):
        write()
        records = read_table_records(folder)
        assert records.version == records.synced == newest_version(folder) == table.version
        assert records.files.keys() == list_files(folder)
        assert not records.is_deleting
        assert check_files(folder, records.files.values()) == []
        newest = min((folder / "_versions").glob("*.manifest"))
        assert manifest_copy_path(folder).read_bytes() == newest.read_bytes()


def test_a_manifest_that_has_the_name_of_a_lost_one_is_recorded_anew(tmp_path: Path) -> None:
    make_table(tmp_path)[0].append(rows("a"))
    folder = make_table(tmp_path)[1]
    min((folder / "_versions").glob("*.manifest")).unlink()
    manifest_copy_path(folder).unlink()
    make_table(tmp_path)[0].append(rows("b"))
    records = read_table_records(folder)
    assert check_files(folder, records.files.values()) == []
    assert check_manifest_copy(folder, records) == ""


def test_a_copy_of_another_manifest_is_not_put_in_its_place(tmp_path: Path) -> None:
    table, folder = make_table(tmp_path)
    table.append(rows("a"))
    earlier = manifest_copy_path(folder).read_bytes()
    table.append(rows("b"))
    manifest_copy_path(folder).write_bytes(earlier)
    newest = min((folder / "_versions").glob("*.manifest"))
    newest.unlink()
    assert not restore_manifest(folder)
    assert not newest.exists()


def test_a_changed_file_is_found(tmp_path: Path) -> None:
    table, folder = make_table(tmp_path)
    table.append(rows("a", "b"))
    records = read_records(folder)
    (data,) = (folder / "data").iterdir()
    manifest = max((folder / "_versions").glob("*.manifest"))
    (transaction, _) = sorted((folder / "_transactions").iterdir())
    flipped = bytearray(data.read_bytes())
    flipped[7] ^= 16
    data.write_bytes(flipped)
    manifest.write_bytes(manifest.read_bytes()[:-1])
    transaction.unlink()
    faults = {fault.name: fault.detail for fault in check_files(folder, records.values())}
    assert faults == {
        f"data/{data.name}": "Its content has changed.",
        f"_versions/{manifest.name}": f"It has {manifest.stat().st_size} bytes instead of "
        f"{manifest.stat().st_size + 1}.",
        f"_transactions/{transaction.name}": "It is missing.",
    }


def test_a_commit_that_fails_is_not_recorded(tmp_path: Path) -> None:
    table, folder = make_table(tmp_path)
    table.append(rows("a"))
    before = read_table_records(folder)
    with pytest.raises(RuntimeError), recorded_commit(folder, lambda: table.version, durable=True):
        raise RuntimeError
    after = read_table_records(folder)
    assert (after.files, after.version) == (before.files, before.version)
    assert after.begun == before.version


def test_without_durable_files_count_as_on_the_disk_once_older_ones_are_deleted(tmp_path: Path) -> None:
    table, folder = make_table(tmp_path, durable=False)
    table.append(rows("a"))
    table.append(rows("b"))
    records = read_table_records(folder)
    assert records.synced == 0
    assert {file.name for file in records.unsynced()} == list_files(folder)
    table.compact(timedelta(milliseconds=1))
    records = read_table_records(folder)
    assert records.synced == records.version == newest_version(folder)


@pytest.mark.parametrize(
    "content",
    [
        "7",
        "[]",
        "{}",
        "not JSON",
        "[" * 100_000,
        '{"version": 3}',
        '{"version": 3, "files": {}}',
        '{"version": "3", "files": {}, "gone": []}',
        '{"version": 3, "files": [], "gone": []}',
        '{"version": 3, "files": {"data/a.lance": 4}, "gone": []}',
        '{"version": 3, "files": {"data/a.lance": ["4", "a"]}, "gone": []}',
        '{"version": 3, "files": {}, "gone": [[]]}',
        '{"begin": "3"}',
        '{"begin": 3, "durable": 1}',
        '{"synced": null}',
    ],
)
def test_a_line_that_makes_no_sense_is_a_damaged_entry(tmp_path: Path, content: str) -> None:
    make_table(tmp_path)[0].append(rows("a"))
    table, folder = make_table(tmp_path)
    before = read_table_records(folder)
    with journal_path(folder).open("ab") as journal:
        journal.write(f"{zlib.crc32(content.encode()):08x} {content}\n".encode())
    records = read_table_records(folder)
    assert records.is_damaged
    assert (records.files, records.version) == (before.files, before.version)
    assert not is_interrupted(folder)
    assert not table.recover()
    assert not read_table_records(folder).is_damaged


@pytest.mark.parametrize(("durable", "version"), [(True, 4), (False, 2)])
def test_a_damaged_entry_ends_the_records_unless_its_files_were_on_the_disk(
    tmp_path: Path, durable: bool, version: int
) -> None:
    table, folder = make_table(tmp_path, durable=durable)
    for name in "abc":
        table.append(rows(name))
    journal = journal_path(folder)
    lines = read_lines(journal)
    (at,) = (number for number, line in enumerate(lines) if b'"version":3' in line)
    content = bytearray(journal.read_bytes())
    content[sum(len(line) + 1 for line in lines[:at]) + 40] ^= 1
    journal.write_bytes(content)
    records = read_table_records(folder)
    assert records.is_damaged
    assert records.version == version
    assert bool(list_files(folder) - records.files.keys())
