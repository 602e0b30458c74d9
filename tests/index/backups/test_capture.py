"""The state that a backup holds: of which moment it is, and what of it is damaged."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_conversion import contents
from filled_collection import (
    age,
    change_content,
    failure_of,
    files_below,
    flip_bit,
    flip_pages,
    restored,
    run_contents,
    write_run,
)

from vrag.agent.runs.run_store import RunStore
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups import capture
from vrag.index.backups.backup import back_up
from vrag.index.backups.check import check_backups
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import remove
from vrag.storage.blobs import BlobStore


@pytest.mark.parametrize("changes", ["documents", "documents, uploads, versions", "uploads"])
@pytest.mark.parametrize("moment", ["_store_blobs", "_list_units", "_check_uploads", "_settle_database"])
def test_a_writer_in_between_leaves_one_state(
    filled: Collection,
    backups: Path,
    docs: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    changes: str,
) -> None:
    """Once the database is copied, documents change, or are erased with their pictures."""
    states = [contents(filled)]

    original: Any = getattr(capture.StateCapture, moment)

    def change(self: object, *arguments: object) -> object:
        if len(states) == 1:
            states.append({})
            change_content(Collection.open(filled.directory), docs, changes)
            states[1] = contents(filled)
        return original(self, *arguments)

    monkeypatch.setattr(capture.StateCapture, moment, change)
    report = back_up(filled, backups)
    assert len(states) == 2
    copy = restored(backups)
    assert contents(copy) in states
    assert verify(LocalLocation(copy.directory)).ok
    assert report.snapshot.missing == ()
    uploads = {path.name: path.read_bytes() for path in (copy.directory / "uploads").iterdir()}
    rows = [row for row in copy.documents() if Path(row.path).parent.name == "uploads"]
    assert {row.name: row.id for row in rows}.items() <= {
        name: hashlib.sha256(content).hexdigest() for name, content in uploads.items()
    }.items()


def test_a_collection_that_never_rests_is_busy(
    filled: Collection, backups: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase_last(self: Any, *arguments: object, original: Any = capture.StateCapture._store_blobs) -> Any:  # noqa: ANN401 # pyright: ignore[reportPrivateUsage]
        remove(filled, ["b.txt"])
        (docs / "b.txt").write_text("-\n" * next(lines) + "pic five")
        add(filled, [docs])
        return original(self, *arguments)

    lines = iter(range(9, 99))
    monkeypatch.setattr(capture, "ATTEMPTS", 2)
    monkeypatch.setattr(capture.StateCapture, "_store_blobs", erase_last)
    with pytest.raises(CollectionBusy, match="faster"):
        back_up(filled, backups)
    assert BackupStore(backups).names() == []


def test_a_run_that_is_deleted_meanwhile_is_left_out(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store(self: object, path: Path, name: str, original: Any = capture.StateCapture._store_blob) -> Any:  # noqa: ANN401 # pyright: ignore[reportPrivateUsage]
        runs = RunStore(filled.runs_dir)
        if "runs" in path.parts and runs.has_run("1"):
            runs.delete("1")
        return original(self, path, name)

    monkeypatch.setattr(capture.StateCapture, "_store_blob", store)
    report = back_up(filled, backups)
    assert (report.snapshot.runs, report.snapshot.missing) == (1, ())
    assert run_contents(restored(backups)) == run_contents(filled)


def test_what_is_recorded_meanwhile_is_there_as_a_whole_or_not(filled: Collection, backups: Path) -> None:
    """The database of runs is copied out of its log too."""
    runs = RunStore(filled.runs_dir)
    with runs.record(run="3") as log:
        log.save(f"{hashlib.sha256(b'new').hexdigest()}.jpg", b"new")
        log.write(failure_of("3"))
        assert (filled.runs_dir / "runs.db-wal").stat().st_size
        assert back_up(filled, backups).snapshot.runs == 3
    found = run_contents(restored(backups))
    assert found.keys() == {"1", "2", "3"}
    assert not (backups.with_name("restored") / "runs" / "runs.db-wal").exists() or runs.has_run("3")


def test_files_of_runs_that_are_stored_are_not_read_again(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    write_run(filled, "3")
    report = back_up(filled, backups)
    database, picture = (filled.runs_dir / "runs.db").stat().st_size, len(b"picture of 3")
    assert report.snapshot.added_bytes <= database + picture + 4096
    assert report.read == 2


def test_damaged_runs_are_left_out_and_named(filled: Collection, backups: Path) -> None:
    (filled.runs_dir / "runs.db").write_bytes(b"x" * 4096)
    report = back_up(filled, backups)
    assert (report.snapshot.runs, report.snapshot.missing) == (0, ("runs/runs.db",))


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


class TestDamage:
    @pytest.mark.parametrize("damage", [Path.unlink, flip_bit])
    def test_of_a_picture_is_reported_and_the_rest_backed_up(
        self, filled: Collection, backups: Path, damage: Callable[[Path], None]
    ) -> None:
        name = min(filled.store.named_blobs())
        damage(filled.store.blobs.path(name))
        report = back_up(filled, backups)
        assert report.snapshot.missing == (f"blobs/{name[:2]}/{name}",)
        assert check_backups(backups).problems == ()  # it is as it was
        copy = restored(backups)
        assert copy.content_version == filled.content_version
        assert copy.store.blobs.absent(copy.store.named_blobs()) == [name]

    def test_that_was_repaired_since_is_mended_in_the_backup(self, filled: Collection, backups: Path) -> None:
        path = filled.store.blobs.path(min(filled.store.named_blobs()))
        flip_bit(path)
        first = back_up(filled, backups).snapshot.name
        flip_bit(path)
        back_up(filled, backups)
        assert contents(restored(backups, first)) == contents(filled)

    def test_of_the_database_is_refused_and_earlier_backups_stay(
        self, filled: Collection, backups: Path
    ) -> None:
        before = contents(filled)
        name = back_up(filled, backups).snapshot.name
        flip_pages(filled.directory / "collection.db")
        with pytest.raises(CollectionError, match="checksum"):
            back_up(Collection.open(filled.directory), backups)
        assert BackupStore(backups).names() == [name]
        assert contents(restored(backups)) == before


def test_nothing_needs_to_be_written_to_the_collection(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: BlobStore) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(BlobStore, "hold", refuse)
    back_up(filled, backups)
    assert contents(restored(backups)) == contents(filled)


def test_what_is_collected_meanwhile_is_held(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of a document that a killed process removed, so that nothing erased it."""
    counts: list[int] = []

    def store(self: object, *arguments: Any, original: Any = capture.StateCapture._store_blobs) -> Any:  # noqa: ANN401 # pyright: ignore[reportPrivateUsage]
        with filled.store.change() as change:
            change.delete_items(next(row.id for row in filled.documents() if row.name == "a.txt"))
        age(filled.directory / "blobs")
        counts.append(filled.store.collect())
        return original(self, *arguments)

    monkeypatch.setattr(capture.StateCapture, "_store_blobs", store)
    before = contents(filled)
    back_up(filled, backups)
    assert counts == [0]
    assert contents(restored(backups)) == before
    assert filled.store.collect() > 0
