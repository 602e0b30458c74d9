from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.errors import CollectionError
from vrag.index.array_cache import sweep
from vrag.index.schema import ArrowSchema, ArrowTable, arrow
from vrag.index.tables.copies import MAX_TABLE_BYTES, TableCopies, newest_manifest
from vrag.index.tables.store import Directory
from vrag.index.tables.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ["id", "n"]


def schema() -> ArrowSchema:
    pa = arrow()
    return pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(*pairs: tuple[str, int]) -> ArrowTable:
    return arrow().Table.from_pylist([{"id": name, "n": n} for name, n in pairs], schema=schema())


def opened(home: Path, *, copies: bool = True) -> Table:
    """The table as another process opens it."""
    kept = TableCopies(home / "cache", "things") if copies else None
    return Table(Directory(home / "index"), "things", schema, kept)


def content(table: Table) -> tuple[int, dict[str, int]]:
    found = table.read(COLUMNS)
    pairs = {row["id"]: row["n"] for row in found.data.to_pylist()}
    names = [*pairs, "nothing"]
    assert sorted(table.find("id", names, ["n"])["n"].to_pylist()) == sorted(pairs.values())
    assert table.version == found.version
    return found.version, pairs


def save(home: Path) -> None:
    """What a search leaves behind that had to open the table itself."""
    table = opened(home)
    table.read(COLUMNS)
    table.save_copy(COLUMNS)


def copies_of(home: Path) -> list[Path]:
    return sorted((home / "cache").glob("*")) if (home / "cache").is_dir() else []


@pytest.fixture
def no_lancedb(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, the import of LanceDB fails."""
    return lambda: monkeypatch.setitem(sys.modules, "lancedb", None)


def test_a_copy_is_read_without_lancedb(tmp_path: Path, no_lancedb: Callable[[], None]) -> None:
    opened(tmp_path).append(rows(("a", 1), ("b", 2)))
    save(tmp_path)
    no_lancedb()
    assert content(opened(tmp_path)) == (2, {"a": 1, "b": 2})
    with pytest.raises(ImportError):
        content(opened(tmp_path, copies=False))


COMMITS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.sampled_from("abcd"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("save"), st.just(""), st.just(0)),
        st.tuples(st.just("compact"), st.just(""), st.just(0)),
    ),
    min_size=2,
    max_size=8,
)


@pytest.mark.slow
@given(commits=COMMITS)
@settings(max_examples=12)
def test_whoever_opens_it_sees_the_newest_version(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[str, str, int]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    writer, follower = opened(home), opened(home)
    writer.append(rows(("a", 1)))
    for act, name, number in commits:
        if act == "upsert":
            writer.upsert(rows((name, number)), "id")
        elif act == "delete":
            writer.delete(f"id = '{name}'")
        elif act == "compact":
            writer.compact(timedelta(milliseconds=1))
        else:
            save(home)
        expected = content(opened(home, copies=False))
        assert content(opened(home)) == expected
        assert content(follower) == expected, "one that is open already"


def test_a_version_number_that_is_given_out_again_does_not_find_the_old_copy(tmp_path: Path) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    shutil.copytree(tmp_path / "index", tmp_path / "backup")
    opened(tmp_path).append(rows(("b", 2)))
    save(tmp_path)
    long_open = opened(tmp_path)
    before = content(long_open)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "backup").rename(tmp_path / "index")
    opened(tmp_path).append(rows(("c", 3)))
    assert content(opened(tmp_path)) == (before[0], {"a": 1, "c": 3})


def test_a_collection_that_was_copied_is_read_from_its_copy(
    tmp_path: Path, no_lancedb: Callable[[], None]
) -> None:
    opened(tmp_path / "one").append(rows(("a", 1)))
    save(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    no_lancedb()
    assert content(opened(tmp_path / "two")) == (2, {"a": 1})


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "emptied", "index gone"])
def test_a_damaged_copy_is_not_read(tmp_path: Path, damage: str) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    save(tmp_path)
    (copy,) = copies_of(tmp_path)
    data = copy / "rows"
    match damage:
        case "truncated":
            data.write_bytes(data.read_bytes()[:-7])
        case "overwritten":
            data.write_bytes(b"x" * data.stat().st_size)
        case "emptied":
            data.write_bytes(b"")
        case _:
            (copy / "cache.json").unlink()
    assert content(opened(tmp_path)) == (2, {"a": 1})


KILLED = """
import os, signal, sys
from pathlib import Path
from vrag.index import array_cache
import test_copies as t

original = array_cache.{moment}

def die(path, *rest):
    if ".vrag-scratch-" in str(path):  # in the directory that is being written
        os.kill(os.getpid(), signal.SIGKILL)
    return original(path, *rest)

array_cache.{moment} = die
t.save(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["file_checksum", "write_file", "find"])
def test_a_process_that_is_killed_while_it_writes_leaves_no_copy(tmp_path: Path, moment: str) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    line = [sys.executable, "-c", KILLED.format(moment=moment), str(tmp_path)]
    killed = subprocess.run(line, cwd=Path(__file__).parent, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert copies_of(tmp_path), "it had begun"
    manifest = newest_manifest(tmp_path / "index" / "things.lance")
    assert manifest is not None
    assert TableCopies(tmp_path / "cache", "things").read(manifest) is None
    assert content(opened(tmp_path)) == (2, {"a": 1})
    save(tmp_path)
    assert TableCopies(tmp_path / "cache", "things").read(manifest) is not None


def test_a_commit_while_the_copy_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    reader = opened(tmp_path)
    reader.read(COLUMNS)
    read = Table._read  # pyright: ignore[reportPrivateUsage]

    def read_and_commit(self: Table, *given: object) -> object:
        found = read(self, *given)  # pyright: ignore[reportArgumentType]
        opened(tmp_path).append(rows(("b", 2)))
        return found

    monkeypatch.setattr(Table, "_read", read_and_commit)
    reader.save_copy(COLUMNS)
    assert copies_of(tmp_path) == []


def test_none_is_kept_where_nothing_can_be_written_or_the_table_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    (tmp_path / "cache").write_text("not a directory")
    save(tmp_path)
    assert content(opened(tmp_path)) == (2, {"a": 1})
    (tmp_path / "cache").unlink()
    monkeypatch.setattr("vrag.index.tables.table.MAX_TABLE_BYTES", 10)
    save(tmp_path)
    assert copies_of(tmp_path) == []
    monkeypatch.setattr("vrag.index.tables.table.MAX_TABLE_BYTES", MAX_TABLE_BYTES)
    save(tmp_path)
    assert len(copies_of(tmp_path)) == 1


def test_who_opens_the_table_itself_reads_no_copy(tmp_path: Path) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    save(tmp_path)
    for file in (tmp_path / "index" / "things.lance" / "data").iterdir():
        file.unlink()
    assert content(opened(tmp_path)) == (2, {"a": 1})
    table = opened(tmp_path)
    table.reopen()
    with pytest.raises(CollectionError):
        table.read(COLUMNS)


def test_manifests_of_an_unknown_naming_scheme_tell_nothing(tmp_path: Path) -> None:
    opened(tmp_path).append(rows(("a", 1)))
    table = tmp_path / "index" / "things.lance"
    known = newest_manifest(table)
    assert known is not None
    assert known.version == 2
    (table / "_versions" / "3.manifest").write_bytes(b"")
    assert newest_manifest(table) is None
    assert newest_manifest(tmp_path / "nothing") is None


def test_of_the_copies_of_older_versions_a_few_are_kept(tmp_path: Path) -> None:
    """A server to which documents come all the time does not fill the disk until they are old."""
    for number in range(12):
        folder = tmp_path / f"table-items-{number:032x}"
        folder.mkdir()
        written = time.time() - 100 + number
        os.utime(folder, (written, written))
    sweep(tmp_path, "table-items-", keep=f"table-items-{0:032x}")
    kept = sorted(int(path.name[-2:], 16) for path in tmp_path.iterdir())
    assert kept == [0, *range(4, 12)]


def test_what_an_earlier_version_left_unfinished_goes_once_it_is_old(tmp_path: Path) -> None:
    kept, left = tmp_path / "table-items-1", tmp_path / "table-items-1-new-x"
    for folder in (kept, left):
        folder.mkdir()
        os.utime(folder, (1, 1))
    sweep(tmp_path, "table-items-", keep=kept.name)
    assert list(tmp_path.iterdir()) == [kept]
