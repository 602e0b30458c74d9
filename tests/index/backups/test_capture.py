"""The state that a backup holds: of which moment it is, and what of it is damaged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_conversion import contents
from filled_collection import LONG_AGO, change_content, files_below, restored

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups import capture
from vrag.index.backups.backup import back_up
from vrag.index.backups.capture import StateCapture
from vrag.index.backups.held_files import HeldFiles
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.tables.copies import Manifest, newest_manifest


@pytest.mark.parametrize(
    ("moment", "changes"),
    [
        ("between the versions of the tables", "documents"),
        ("after index/items.lance/_versions/", "documents, versions"),
        ("before index/items.lance/data/", "documents, uploads, versions"),
        ("after collection.json", "documents, versions"),
        ("before uploads/sent.txt", "uploads"),
    ],
)
def test_a_writer_in_between_leaves_one_state(
    filled: Collection,
    backups: Path,
    docs: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    changes: str,
) -> None:
    """At some moment, around a file that is held, documents change or old versions are deleted."""
    states = [contents(filled)]

    def change(now: str) -> None:
        if now.startswith(moment) and len(states) == 1:
            states.append({})
            change_content(Collection.open(filled.directory), docs, changes)
            states[1] = contents(filled)

    def hold(self: HeldFiles, source: Path, name: str, original: Any = HeldFiles.hold) -> Path:  # noqa: ANN401
        change(f"before {name}")
        held = original(self, source, name)
        change(f"after {name}")
        return held

    def find(table: Path, original: Any = newest_manifest) -> Manifest | None:  # noqa: ANN401
        manifest = original(table)
        change("between the versions of the tables")
        return manifest

    monkeypatch.setattr(HeldFiles, "hold", hold)
    monkeypatch.setattr(capture, "newest_manifest", find)
    report = back_up(filled, backups)
    assert len(states) == 2
    copy = restored(backups)
    assert contents(copy) in states
    assert verify(copy).ok
    assert report.missing == ()
    uploads = {path.name: path.read_bytes() for path in (copy.directory / "uploads").iterdir()}
    rows = [row for row in copy.documents() if Path(row.path).parent.name == "uploads"]
    assert {row.name: row.id for row in rows} == {
        name: hashlib.sha256(content).hexdigest() for name, content in uploads.items()
    }


def test_a_collection_that_never_rests_is_busy(
    filled: Collection, backups: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = iter(range(10**6))

    def hold(self: HeldFiles, source: Path, name: str, original: Any = HeldFiles.hold) -> Path:  # noqa: ANN401
        if name.startswith("index/files.lance/_versions"):
            (docs / "b.txt").write_text(f"pic {next(number)}")
            add(filled, [docs])
        return original(self, source, name)

    monkeypatch.setattr(capture, "ATTEMPTS", 2)
    monkeypatch.setattr(HeldFiles, "hold", hold)
    with pytest.raises(CollectionBusy, match="faster"):
        back_up(filled, backups)
    assert BackupStore(backups).names() == []


@pytest.mark.parametrize("moment", ["events", "files"])
def test_a_run_that_is_deleted_meanwhile_is_left_out(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def hold(self: HeldFiles, source: Path, name: str, original: Any = HeldFiles.hold) -> Path:  # noqa: ANN401
        if name.startswith("runs/1/") and moment in name:
            (filled.runs_dir / "1").rename(filled.runs_dir / ".1.deleted")
        return original(self, source, name)

    monkeypatch.setattr(HeldFiles, "hold", hold)
    assert back_up(filled, backups).snapshot.runs == 1
    assert {path.name for path in restored(backups).runs_dir.iterdir()} == {"2"}


def test_an_upload_that_is_replaced_or_removed_keeps_its_hidden_file(
    filled: Collection, backups: Path
) -> None:
    uploads = filled.directory / "uploads"
    (uploads / "sent.txt").rename(uploads / ".sent.txt.before")
    (uploads / "sent.txt").write_text("the next content")
    (uploads / ".1234.part").write_text("not complete")
    back_up(filled, backups)
    found = files_below(restored(backups).directory / "uploads")
    assert found == {
        "early.txt": b"early",
        "sent.txt": b"the next content",
        ".sent.txt.before": b"-\n-\npic four",
    }


def test_damage_of_the_collection_is_reported_and_the_rest_backed_up(
    filled: Collection, backups: Path
) -> None:
    picture = next(filled.items_dir.rglob("*.png"))
    picture.unlink()
    report = back_up(filled, backups)
    assert report.missing == (f"items/{picture.relative_to(filled.items_dir).as_posix()}",)
    assert contents(restored(backups)) == contents(filled)


def test_a_collection_that_loses_its_header_meanwhile_is_named(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(self: StateCapture, original: Any = StateCapture._hold_tables) -> None:  # noqa: ANN401 # pyright: ignore[reportPrivateUsage]
        original(self)
        (filled.directory / "collection.json").unlink()

    monkeypatch.setattr(StateCapture, "_hold_tables", hold)
    with pytest.raises(CollectionError, match=r"collection\.json cannot be read: No such file"):
        back_up(filled, backups)


class TestTableDamage:
    """A table file that has changed since its commit was recorded, in a way that LanceDB does not notice."""

    @pytest.fixture(params=["items", "files"])
    def manifest(self, request: pytest.FixtureRequest, filled: Collection) -> Path:
        """The newest manifest of a table."""
        return min((filled.directory / "index" / f"{request.param}.lance" / "_versions").glob("*.manifest"))

    @staticmethod
    def flip(manifest: Path) -> str:
        """Flip a bit, and keep the modification time; return the name in the collection."""
        data = bytearray(manifest.read_bytes())
        data[40] ^= 1
        manifest.write_bytes(data)
        os.utime(manifest, ns=(LONG_AGO, LONG_AGO))
        return manifest.relative_to(manifest.parents[3]).as_posix()

    def test_it_is_reported_and_the_restored_collection_is_as_damaged(
        self, filled: Collection, backups: Path, manifest: Path
    ) -> None:
        name = self.flip(manifest)
        report = back_up(filled, backups)
        assert (report.damaged, report.missing) == ((name,), ())
        assert [record.name for record in BackupStore(backups).read(report.snapshot.name)[0].damaged] == [
            name
        ]
        copy = restored(backups)
        assert name in {problem.file for problem in verify(copy).problems}
        assert verify(copy, repair=True).ok
        assert contents(copy) == contents(filled)

    def test_a_sound_copy_in_its_place_is_backed_up_whatever_its_time(
        self, filled: Collection, backups: Path, manifest: Path
    ) -> None:
        self.flip(manifest)
        back_up(filled, backups)
        self.flip(manifest)
        assert back_up(filled, backups).damaged == ()
        assert verify(restored(backups)).ok

    @pytest.mark.parametrize("is_damaged", [True, False])
    def test_files_of_a_commit_that_is_recorded_meanwhile_are_compared(
        self,
        filled: Collection,
        backups: Path,
        manifest: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        is_damaged: bool,
    ) -> None:
        name = self.flip(manifest) if is_damaged else ""
        self.record_last_commit_while_storing(manifest, monkeypatch, lambda: None)
        assert back_up(filled, backups).damaged == ((name,) if is_damaged else ())

    def test_a_commit_that_was_undone_meanwhile_is_not_damage(
        self, filled: Collection, backups: Path, docs: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next commits have its number, and others."""

        def commit() -> None:
            self.flip(manifest)
            (docs / "c.txt").write_text("pic five")
            add(Collection.open(filled.directory), [docs])

        self.flip(manifest)
        self.record_last_commit_while_storing(manifest, monkeypatch, commit)
        assert back_up(filled, backups).damaged == ()
        assert contents(restored(backups)) == contents(filled)

    def record_last_commit_while_storing(
        self, manifest: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]
    ) -> None:
        journal = manifest.parents[1].with_suffix(".files")
        whole = journal.read_bytes()
        journal.write_bytes(
            b"".join(whole.splitlines(keepends=True)[:-2])
        )  # without its begin and its version
        store = StateCapture._store  # pyright: ignore[reportPrivateUsage]
        attempts: list[object] = []

        def record_and_store(self: Any) -> None:  # noqa: ANN401
            store(self)
            if not attempts:
                journal.write_bytes(whole)
                then()
            attempts.append(self)

        monkeypatch.setattr(StateCapture, "_store", record_and_store)  # pyright: ignore[reportPrivateUsage]

    def test_a_table_that_cannot_be_read_is_named_where_it_is(
        self, filled: Collection, backups: Path, manifest: Path
    ) -> None:
        for path in (manifest.parents[1] / "data").iterdir():
            path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(CollectionError) as error:
            back_up(filled, backups)
        assert f"in {filled.directory / 'index'}" in error.value.message
        assert BackupStore(backups).names() == []

    def test_snapshots_from_before_records_were_compared_are_restored(
        self, filled: Collection, backups: Path
    ) -> None:
        store, name = BackupStore(backups), back_up(filled, backups).snapshot.name
        path = backups / "snapshots" / f"{name}.jsonl"
        content = path.read_bytes().replace(b', "damaged": []', b"", 1)
        path.unlink()
        digest = hashlib.sha256(content).hexdigest()[:16]
        path.with_name(f"{name[:-16]}{digest}.jsonl").write_bytes(content)
        assert store.names() != [name]
        assert verify(restored(backups)).ok
