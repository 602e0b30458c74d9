from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vrag.errors import CollectionError
from vrag.index.schema import ArrowSchema, ArrowTable, arrow
from vrag.index.tables.lance import import_lancedb
from vrag.index.tables.store import Directory
from vrag.index.tables.table import Table, any_of

if TYPE_CHECKING:
    from pathlib import Path


def schema() -> ArrowSchema:
    pa = arrow()
    return pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(*pairs: tuple[str, int]) -> ArrowTable:
    return arrow().Table.from_pylist([{"id": name, "n": n} for name, n in pairs], schema=schema())


def content(table: Table) -> dict[str, int]:
    found = table.read(["id", "n"]).data.to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["n"] for row in found}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(Directory(tmp_path / "index"), "things", schema)


def test_is_empty_and_makes_nothing_before_the_first_write(table: Table, tmp_path: Path) -> None:
    assert (table.version, content(table)) == (0, {})
    assert list(tmp_path.iterdir()) == []


def test_append_upsert_update_delete(table: Table) -> None:
    table.append(rows(("a", 1), ("b", 2)))
    table.upsert(rows(("b", 3), ("c", 4)), "id")
    assert content(table) == {"a": 1, "b": 3, "c": 4}
    table.update("id = 'a'", {"n": 9})
    table.delete("n = 4")
    assert content(table) == {"a": 9, "b": 3}


def test_every_commit_of_another_is_seen_however_soon_after_the_last(table: Table, tmp_path: Path) -> None:
    reader = Table(Directory(tmp_path / "index"), "things", schema)
    for number in range(12):
        table.append(rows((str(number), number)))
        assert reader.version == table.version
        if number % 4 == 3:
            time.sleep(0.07)  # long enough for a look at the clock to be believed
            assert reader.version == reader.version == table.version


def test_a_table_that_vanishes_is_told_and_found_again(table: Table, tmp_path: Path) -> None:
    table.append(rows(("a", 1)))
    assert content(table) == {"a": 1}
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    for ask in (lambda: table.version, lambda: table.read(["id"])):
        with pytest.raises(CollectionError, match="is gone"):
            ask()
    assert not (tmp_path / "index").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "index")
    assert content(table) == {"a": 1}


def test_a_version_that_has_not_changed_is_not_asked_for_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(("a", 1)))
    time.sleep(0.07)
    version = table.version
    monkeypatch.setattr(table, "_newest", lambda: pytest.fail("asked"))
    assert table.version == version


@pytest.mark.parametrize(
    "id", ["it's", "''", "a' OR 'a'='a", 'q"uote', "back\\slash", "%_", "语言", "new\nline"]
)
def test_any_text_is_a_literal(table: Table, id: str) -> None:
    table.append(rows((id, 1), ("other", 2)))
    (where,) = any_of("id", [id])
    assert table.read(["id"], where).data["id"].to_pylist() == [id]
    table.delete(where)
    assert content(table) == {"other": 2}


def test_long_lists_are_split(table: Table) -> None:
    ids = [str(n) for n in range(2500)]
    table.append(rows(*((name, 1) for name in ids)))
    conditions = any_of("id", ids)
    assert len(conditions) == 3
    assert sum(table.read(["id"], where).data.num_rows for where in conditions) == 2500


def test_sees_what_another_writes(table: Table, tmp_path: Path) -> None:
    other = Table(Directory(tmp_path / "index"), "things", schema)
    assert other.version == 0
    table.append(rows(("a", 1)))
    assert content(other) == {"a": 1}
    version = other.version
    table.append(rows(("b", 2)))
    assert other.version > version


def test_a_version_compacted_away_in_mid_read_is_read_anew(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        table.append(rows((str(n), n)))
    reader = Table(Directory(tmp_path / "index"), "things", schema)
    newest: Any = getattr(reader, "_newest")  # noqa: B009 - private on purpose: the moment in between
    compacted: list[int] = []

    def then_compact() -> object:
        handle = newest()
        if not compacted:
            compacted.append(table.version)
            table.compact(timedelta(milliseconds=1))
        return handle

    monkeypatch.setattr(reader, "_newest", then_compact)
    assert content(reader) == {str(n): n for n in range(5)}
    assert compacted


@pytest.mark.parametrize("name", ["1-x.txn", "18446744073709551612.manifest#1", ".tmpAbC"])
def test_what_killed_commits_leave_is_in_nobodys_way(table: Table, tmp_path: Path, name: str) -> None:
    """As seen when LanceDB is killed: a transaction, a manifest not yet linked, a temporary file."""
    table.append(rows(("a", 1)))
    assert table.version == 2
    folder = "_transactions" if name.endswith(".txn") else "_versions"
    (tmp_path / "index" / "things.lance" / folder / name).write_bytes(b"torn")
    table.append(rows(("b", 2)))
    table.append(rows(("c", 3)))
    assert content(table) == {"a": 1, "b": 2, "c": 3}
    table.compact(timedelta(milliseconds=1))
    assert content(table) == {"a": 1, "b": 2, "c": 3}


def test_damage_is_told(table: Table, tmp_path: Path) -> None:
    table.append(rows(("a", 1)))
    for path in (tmp_path / "index" / "things.lance" / "data").iterdir():
        path.unlink()
    with pytest.raises(CollectionError, match=r"things .* could not be read"):
        content(Table(Directory(tmp_path / "index"), "things", schema))


def test_what_is_remembered_of_versions_has_a_limit(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit leaves some ten kilobytes in the caches of LanceDB, of those who read, too."""
    lancedb = import_lancedb()
    sessions: list[Any] = []

    def open_session(**limits: int) -> object:
        sessions.append(Session(**limits))
        return sessions[-1]

    Session, limit = lancedb.Session, 50_000  # noqa: N806
    monkeypatch.setattr(lancedb, "Session", open_session)
    monkeypatch.setattr("vrag.index.tables.lance._CACHE_BYTES", limit)
    reader = Table(Directory(tmp_path / "index"), "things", schema)
    for number in range(25):
        table.append(rows((str(number), number)))
        assert len(content(reader)) == number + 1
    assert len(sessions) >= 2
    assert max(session.size_bytes for session in sessions) <= 3 * limit


@pytest.mark.slow
def test_the_clients_of_remote_catalogs_can_be_imported_after_a_table_was_opened(tmp_path: Path) -> None:
    """LanceDB is imported beside a stand-in for their package, which must not stay."""
    program = (
        "import sys, vrag.index.tables.lance\n"
        "database = vrag.index.tables.lance.import_lancedb().connect(sys.argv[1])\n"
        "database.create_table('a', [{'x': 1}])\n"
        "from lance_namespace_urllib3_client import ApiClient\n"
        "print(ApiClient.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("ApiClient", 0), done.stderr
