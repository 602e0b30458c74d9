"""Recovery of a table whose writer died at some point, or whose machine lost power."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from vrag.atomic_io import read_lines, write_lines
from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import open_damaged, verify
from vrag.index.schema import arrow
from vrag.index.tables.file_records import (
    check_files,
    is_interrupted,
    journal_path,
    manifest_copy_path,
    read_records,
    read_table_records,
    recorded_deletion,
    restore_manifest,
)
from vrag.index.tables.layout import HINT, list_files, newest_version
from vrag.index.tables.store import Directory
from vrag.index.tables.table import Table
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

pa: Any = arrow()
SCHEMA = pa.schema([("id", pa.string())])


def make_table(folder: Path, *ids: str, durable: bool = True) -> tuple[Table, Path]:
    """A table with one commit for each id."""
    table = Table(Directory(folder, durable=durable), "rows", lambda: SCHEMA)
    for name in ids:
        table.append(pa.table({"id": [name]}, SCHEMA))
    return table, folder / "rows.lance"


def ids(folder: Path) -> list[str]:
    """What a new process reads."""
    return sorted(make_table(folder)[0].read(["id"]).data["id"].to_pylist())


def forget_last_record(table: Path) -> None:
    """The state in which a writer dies after its commit and before it is recorded."""
    lines = read_lines(journal_path(table))
    write_lines(journal_path(table), lines[:-1])
    manifest_copy_path(table).unlink()
    assert read_table_records(table).begun is not None


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def remove(path: Path) -> None:
    path.unlink()


def leave(path: Path) -> None:
    assert path.exists()


def recover(table: Table) -> bool:
    """Whether commits were undone, which is told until somebody has looked."""
    is_undone = table.recover()
    assert table.recover() == is_undone
    if is_undone:
        table.forget_undoing()
    assert not table.recover()
    return is_undone


def assert_sound(table: Path) -> None:
    records = read_records(table)
    assert records.keys() == list_files(table)
    assert check_files(table, records.values()) == []
    assert not is_interrupted(table)
    hint = table / "_versions" / HINT
    assert not hint.exists() or json.loads(hint.read_bytes())["version"] == newest_version(table)


@pytest.mark.parametrize("tear", [empty, fill_with_zeros, remove, leave])
@pytest.mark.parametrize("kind", ["manifest", "data"])
def test_a_commit_that_was_not_recorded_is_undone(
    tmp_path: Path, tear: Callable[[Path], None], kind: str
) -> None:
    table, folder = make_table(tmp_path, "a", "b")
    known = set(read_records(folder))
    make_table(tmp_path, "c")
    forget_last_record(folder)
    before = newest_version(folder)
    (late,) = (
        name
        for name in list_files(folder) - known
        if name.startswith("data/" if kind == "data" else "_versions/")
    )
    tear(folder / late)
    if kind == "manifest" and tear is not remove:
        copy = bytes(0 if tear is empty else (folder / late).stat().st_size)
        manifest_copy_path(folder).write_bytes(copy)  # which was not put on the disk either
    (folder / "_versions" / HINT).write_bytes(bytes(13))
    again, _ = make_table(tmp_path)
    assert recover(again) == (kind == "data" or tear is not remove)
    assert ids(tmp_path) == ["a", "b"]
    if kind == "data" or tear is not remove:
        assert newest_version(folder) > before, "a reader that saw the lost version would not notice"
    assert_sound(folder)
    again.append(pa.table({"id": ["d"]}, SCHEMA))
    assert ids(tmp_path) == ["a", "b", "d"]
    assert table.read(["id"]).data.num_rows == 3, "a process that had the table open sees it"


def undo(folder: Path) -> None:
    assert make_table(folder)[0].recover()


def write(folder: Path) -> None:
    make_table(folder, "c")


@pytest.mark.parametrize(("act", "left"), [(undo, ["a"]), (write, ["a", "b", "c"])])
def test_a_commit_is_not_acknowledged_where_another_process_did_not_see_the_lock(
    tmp_path: Path, act: Callable[[Path], None], left: list[str]
) -> None:
    make_table(tmp_path, "a")

    class Shared(Directory):
        @contextmanager
        def commit(self, table: str, made: Callable[[], int]) -> Generator[None]:
            with super().commit(table, made):
                yield
                act(tmp_path)

    table = Table(Shared(tmp_path), "rows", lambda: SCHEMA)
    with pytest.raises(CollectionError, match="another process has changed the table") as error:
        table.append(pa.table({"id": ["b"]}, SCHEMA))
    assert "shares locks" in error.value.hint
    assert ids(tmp_path) == left


def test_the_first_commit_is_undone_as_well(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a")
    lines = read_lines(journal_path(folder))
    write_lines(journal_path(folder), lines[:1])  # not even the empty table was recorded
    manifest_copy_path(folder).unlink()
    again, _ = make_table(tmp_path)
    assert recover(again)
    assert ids(tmp_path) == []
    again.append(pa.table({"id": ["b"]}, SCHEMA))
    assert ids(tmp_path) == ["b"]


def test_a_table_without_records_keeps_its_rows(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a", "b")
    journal_path(folder).unlink()
    assert not make_table(tmp_path)[0].recover()
    assert ids(tmp_path) == ["a", "b"]
    assert_sound(folder)


def test_a_commit_without_records_is_kept_and_the_next_one_alone_is_undone(tmp_path: Path) -> None:
    """Nobody recovered a table of an earlier release before the first commit to it."""
    _, folder = make_table(tmp_path, "a", "b")
    journal_path(folder).unlink()
    make_table(tmp_path, "c")
    forget_last_record(folder)
    assert recover(make_table(tmp_path)[0])
    assert ids(tmp_path) == ["a", "b"]
    assert_sound(folder)


def test_commits_of_an_earlier_release_are_kept(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a")
    lines = read_lines(journal_path(folder))
    make_table(tmp_path, "b", "c")
    write_lines(journal_path(folder), lines)
    assert not make_table(tmp_path)[0].recover()
    assert ids(tmp_path) == ["a", "b", "c"]
    assert_sound(folder)


@pytest.mark.parametrize(("torn", "left"), [(None, "abcd"), (3, "abc"), (2, "ab"), (0, "")])
def test_without_durable_the_last_version_whose_files_are_whole_stands(
    tmp_path: Path, torn: int | None, left: str
) -> None:
    _, folder = make_table(tmp_path, *"abcd", durable=False)
    commits = [
        commit
        for commit in read_table_records(folder).commits
        if any("data/" in f.name for f in commit.files)
    ]
    if torn is not None:
        (data,) = (file.name for file in commits[torn].files if file.name.startswith("data/"))
        fill_with_zeros(folder / data)
    again, _ = make_table(tmp_path, durable=False)
    assert recover(again) == (torn is not None)
    assert ids(tmp_path) == list(left)
    assert_sound(folder)


def test_a_damaged_entry_of_a_commit_that_was_on_the_disk_undoes_nothing(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a", "b", "c")
    journal = journal_path(folder)
    for at in range(0, journal.stat().st_size, 61):
        content = bytearray(journal.read_bytes())
        content[at] ^= 4
        copy = tmp_path / f"copy{at}"
        shutil.copytree(folder, copy / "rows.lance")
        (copy / "rows.files").write_bytes(content)
        assert not make_table(copy)[0].recover(), at
        assert_sound(copy / "rows.lance")
        assert newest_version(copy / "rows.lance") == newest_version(folder)


def test_the_newest_manifest_is_put_back_before_another_takes_its_place(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a", "b")
    min((folder / "_versions").glob("*.manifest")).unlink()
    assert ids(tmp_path) == ["a"]
    again, _ = make_table(tmp_path)
    assert not recover(again)
    again.append(pa.table({"id": ["c"]}, SCHEMA))
    assert ids(tmp_path) == ["a", "b", "c"]
    assert_sound(folder)


def test_a_recovery_keeps_the_copy_of_a_manifest_that_is_damaged(tmp_path: Path) -> None:
    _, folder = make_table(tmp_path, "a", "b")
    with suppress(KeyboardInterrupt), recorded_deletion(folder):
        min((folder / "_versions").glob("*.manifest")).write_bytes(b"")
        raise KeyboardInterrupt
    make_table(tmp_path)[0].recover()
    assert restore_manifest(folder)
    assert ids(tmp_path) == ["a", "b"]
    assert_sound(folder)


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_journal_that_was_cut_undoes_nothing_that_was_recorded(tmp_path: Path, is_torn: bool) -> None:
    names = [str(number) for number in range(8)]
    _, table = make_table(tmp_path, *names)
    entries = read_lines(journal_path(table))
    for kept in range(1, len(entries) - (1 if is_torn else 8)):
        if is_torn and b"begin" not in entries[kept - 1]:
            continue  # what is torn is the beginning of a commit, then
        torn = entries[kept][: len(entries[kept]) // 2] if is_torn else b""
        copy = tmp_path / f"copy {kept}"
        shutil.copytree(table, copy / table.name)
        journal_path(copy / table.name).write_bytes(b"".join(line + b"\n" for line in entries[:kept]) + torn)
        make_table(copy)[0].recover()
        assert ids(copy) == names


def test_the_end_of_a_journal_that_was_cut_anywhere_is_reported_and_undoes_nothing(tmp_path: Path) -> None:
    names = ["a.txt", "b.txt"]
    collection = Collection.create(tmp_path / "collection", CorpusOptions(ocr="never", workers=1))
    for name in names:
        (tmp_path / name).write_text(f"Text {name}.")
        add(collection, [tmp_path / name])
    original = journal_path(collection.directory / "index/items.lance")
    content = original.read_bytes()
    begin = content.rindex(b'"begin"') + len(b'"begin":1,"durable":true}\n')
    for size in (*range(begin, len(content), 40), len(content) - 1):
        copy = tmp_path / f"copy {size}"
        shutil.copytree(collection.directory, copy)
        (copy / "index/items.files").write_bytes(content[:size])
        found = verify(open_damaged(copy)).problems
        assert {problem.file for problem in found} == {"index/items.files"}, size
        assert [document.name for document in Collection.open(copy).documents()] == names
        assert len(Collection.open(copy).catalog().ids) == 2
        assert verify(open_damaged(copy)).problems == ()


@pytest.mark.parametrize("repair", [False, True])
def test_verify_reports_what_was_undone_once(tmp_path: Path, repair: bool) -> None:
    collection = Collection.create(tmp_path / "collection", CorpusOptions(ocr="never", workers=1))
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"Text {name}.")
        add(collection, [tmp_path / f"{name}.txt"])
    forget_last_record(collection.directory / "index/items.lance")

    report = verify(open_damaged(collection.directory), repair=repair)
    (problem,) = report.problems
    assert problem.detail == "An interrupted commit was undone: 1 document is no longer complete."
    assert (report.ok, report.worst) == (True, None if repair else ProblemKind.LEFTOVER)
    assert verify(open_damaged(collection.directory)).problems == ()
    again = Collection.open(collection.directory)
    add(again, [tmp_path / "b.txt"])
    assert len(again.catalog().ids) == 2


@pytest.mark.slow
def test_a_recovery_that_was_killed_looks_again_at_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.create(tmp_path / "collection", CorpusOptions(ocr="never", workers=1))
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"Text {name}.")
        add(Collection.open(collection.directory, durable=False), [tmp_path / f"{name}.txt"])
    items = collection.directory / "index/items.lance"
    lines = [line for line in read_lines(journal_path(items)) if b'"version"' in line or b"begin" in line]
    write_lines(journal_path(items), lines)
    last = read_table_records(items).commits[-1].files
    fill_with_zeros(items / next(file.name for file in last if file.name.startswith("data/")))

    def be_killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Table, "upsert", be_killed)
        with pytest.raises(KeyboardInterrupt):
            Collection.open(collection.directory)
    again = Collection.open(collection.directory)
    states = {document.name: document.status for document in again.documents()}
    assert states == {"a.txt": DocumentStatus.READY, "b.txt": DocumentStatus.PENDING}
    assert not again.is_interrupted
    add(collection, [tmp_path / "b.txt"])
    assert verify(collection).ok
