"""Backups: what they hold, of which moment, and what of them is copied.

Backups under load and hundreds of moments of kills: `benchmarks/backups.py`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fake_conversion import FakeConversion, contents

from vrag import atomic_io
from vrag.errors import CollectionBusy, CollectionError
from vrag.index import embed_items
from vrag.index.array_cache import Manifest, newest_manifest
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.integrity import backup as backup_module
from vrag.index.integrity import backup_store
from vrag.index.integrity.backup import BackupReport, back_up
from vrag.index.integrity.backup_store import BackupStore, ObjectWriter
from vrag.index.integrity.held_files import HeldFiles
from vrag.index.integrity.restore import check_backups, restore
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact, remove
from vrag.scratch import scratch_directory

AT_ONCE = timedelta(milliseconds=1)
"""Age of old versions that compaction deletes."""
LONG_AGO = 1_700_000_000 * 10**9


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with files and a collection, and a copy of it. The manifest has the paths of the place."""
    place = tmp_path_factory.mktemp("place")
    folder, collection = place / "files", Collection.create(place / "collection")
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed_items, "convert_all", FakeConversion())
        (folder / "a.txt").write_text("pic one\ntwo")
        (folder / "b.txt").write_text("-\npic three")
        add(collection, [folder])
        upload(collection, "early.txt", "early")
        upload(collection, "sent.txt", "-\n-\npic four")
    (collection.directory / "served.json").write_text('{"beside": "first"}')
    write_run(collection, "1", b'{"type":"a"}\n{"type":"b"}\n')
    write_run(collection, "2", b'{"type":"a"}\n{"typ')
    age(collection.directory)
    shutil.copytree(place, place.with_name("copy"))
    return place


@pytest.fixture
def filled(pristine: Path, conversion: FakeConversion) -> Collection:
    """A collection with two documents, an uploaded one, a run that has ended and one in progress."""
    shutil.rmtree(pristine)
    shutil.copytree(pristine.with_name("copy"), pristine)
    return Collection.open(pristine / "collection")


@pytest.fixture
def folder(pristine: Path) -> Path:
    return pristine / "files"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def upload(collection: Collection, name: str, text: str) -> Path:
    """Add a file as a server does that was sent it."""
    path = collection.directory / "uploads" / name
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(".1.part")
    part.write_text(text)
    os.utime(part, ns=(LONG_AGO, LONG_AGO))
    part.replace(path)
    add_sources(collection, [path], local(None))
    return path


def write_run(collection: Collection, name: str, events: bytes) -> Path:
    run = collection.runs_dir / name
    (run / "files").mkdir(parents=True, exist_ok=True)
    (run / "files" / "picture.jpg").write_bytes(b"picture of " + name.encode())
    (run / "events.jsonl").write_bytes(events)
    (run / "meta.json").write_text('{"owner": "somebody"}')
    (run / "lock").touch()
    return run


def age(directory: Path) -> None:
    """Make all files old: one that has just changed is read again."""
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix != ".txt":  # the manifest has the times of documents
            os.utime(path, ns=(LONG_AGO, LONG_AGO))


def files_below(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def restored(backups: Path, snapshot: str = "last") -> Collection:
    target = backups.with_name("restored")
    shutil.rmtree(target, ignore_errors=True)
    restore(backups, target, snapshot)
    return Collection.open(target)


def test_a_restored_collection_is_the_one_that_was_backed_up(filled: Collection, backups: Path) -> None:
    report = back_up(filled, backups)
    copy = restored(backups)
    made = report.snapshot
    assert contents(copy) == contents(filled)
    assert (made.content_version, made.documents, made.items, made.runs) == (copy.content_version, 4, 8, 2)
    own, other = files_below(filled.directory), files_below(copy.directory)
    assert other["runs/2/events.jsonl"] == b'{"type":"a"}\n'  # whole lines of a run in progress
    left_out = {
        name for name in own if name.split("/")[0] in {"cache", "lock", "index"} or name.endswith("/lock")
    }
    kept = own.keys() - left_out - {"runs/2/events.jsonl"}
    assert kept == {name for name in other if not name.startswith("index/")} - {"runs/2/events.jsonl"}
    assert all(own[name] == other[name] for name in kept)
    status = (filled.directory / "uploads" / "sent.txt").stat()
    assert (copy.directory / "uploads" / "sent.txt").stat().st_mtime_ns == status.st_mtime_ns


def test_copies_of_manifests_are_not_backed_up_but_made_anew(filled: Collection, backups: Path) -> None:
    copies = {"index/files.manifest", "index/items.manifest"}
    name = back_up(filled, backups).snapshot.name
    stored = {file.name for file in BackupStore.open(backups).read(name)[1]}
    copy = restored(backups)
    assert copies <= files_below(filled.directory).keys() - stored
    assert copies <= files_below(copy.directory).keys()
    assert not any(problem.file in copies for problem in verify(copy).problems)


def test_a_restored_collection_is_written_to_like_any_other(
    filled: Collection, backups: Path, folder: Path
) -> None:
    back_up(filled, backups)
    copy = restored(backups)
    (folder / "c.txt").write_text("pic five")
    assert add(copy, [folder]).added == 1
    remove(copy, ["a.txt"])
    compact(copy, keep=AT_ONCE)
    assert verify(copy).ok
    assert {document.name for document in copy.documents()} == {"b.txt", "c.txt", "early.txt", "sent.txt"}


def test_what_is_stored_is_not_read_again(filled: Collection, backups: Path, folder: Path) -> None:
    first = back_up(filled, backups)
    second = back_up(filled, backups)
    assert (second.read, second.snapshot.added_bytes) == (1, 0)  # the torn run
    assert second.snapshot.bytes == first.snapshot.bytes
    (folder / "c.txt").write_text("pic five")
    add(filled, [folder])
    third = back_up(filled, backups)
    stored = BackupStore(backups).objects()
    assert 0 < third.snapshot.added_bytes < first.snapshot.added_bytes
    assert sum(stored.values()) == first.snapshot.added_bytes + third.snapshot.added_bytes
    assert restored(backups, second.snapshot.name).content_version == second.snapshot.content_version
    assert contents(restored(backups)) == contents(filled)


def test_content_is_stored_once_under_any_name(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    copy = shutil.copytree(filled.directory, tmp_path / "moved")
    with pytest.raises(CollectionError, match="another collection"):
        back_up(Collection.open(copy), backups)
    assert back_up(Collection.open(copy), backups, moved=True).snapshot.added_bytes == 0


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
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    changes: str,
) -> None:
    """At some moment, around a file that is held, documents change or old versions are deleted."""
    states = [contents(filled)]

    def change(now: str) -> None:
        if now.startswith(moment) and len(states) == 1:
            states.append({})
            change_content(Collection.open(filled.directory), folder, changes)
            states[1] = contents(filled)

    def hold(self: HeldFiles, source: Path, name: str, original: Any = HeldFiles.hold) -> Path:  # noqa: ANN401
        change(f"before {name}")
        held = original(self, source, name)
        change(f"after {name}")
        return held

    def find(folder: Path, original: Any = newest_manifest) -> Manifest | None:  # noqa: ANN401
        manifest = original(folder)
        change("between the versions of the tables")
        return manifest

    monkeypatch.setattr(HeldFiles, "hold", hold)
    monkeypatch.setattr(backup_module, "newest_manifest", find)
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


def change_content(collection: Collection, folder: Path, changes: str) -> None:
    if "documents" in changes:
        remove(collection, ["a.txt"])
        (folder / "b.txt").write_text("pic six\nseven")
        add(collection, [folder / "b.txt"])
    if "uploads" in changes:
        upload(collection, "early.txt", "this replaces it")
        sent = collection.directory / "uploads" / "sent.txt"
        remove(collection, [sent])
        sent.unlink()
    if "versions" in changes:
        compact(collection, keep=AT_ONCE)


def test_a_collection_that_never_rests_is_busy(
    filled: Collection, backups: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = iter(range(10**6))

    def hold(self: HeldFiles, source: Path, name: str, original: Any = HeldFiles.hold) -> Path:  # noqa: ANN401
        if name.startswith("index/files.lance/_versions"):
            (folder / "b.txt").write_text(f"pic {next(number)}")
            add(filled, [folder])
        return original(self, source, name)

    monkeypatch.setattr(backup_module, "ATTEMPTS", 2)
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


def refuse(*_: object) -> None:
    raise OSError(errno.EPERM, "refused")


class TestHolding:
    """How files are held where the file system has no hard links, or the collection is not ours."""

    @pytest.fixture(params=["no hard links", "no links", "nothing may be written to the collection"])
    def limits(
        self, request: pytest.FixtureRequest, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse_inside(parent: Path, *, hidden: bool) -> AbstractContextManager[Path]:
            if parent == filled.directory:
                refuse()
            return scratch_directory(parent, hidden=hidden)

        if request.param.startswith("nothing"):
            monkeypatch.setattr("vrag.index.integrity.held_files.scratch_directory", refuse_inside)
        else:
            monkeypatch.setattr("vrag.index.integrity.held_files.os.link", refuse)
        if request.param == "no links":
            monkeypatch.setattr(Path, "symlink_to", refuse)

    @pytest.mark.usefixtures("limits")
    def test_the_backup_is_the_same(self, filled: Collection, backups: Path) -> None:
        before = files_below(filled.directory)
        back_up(filled, backups)
        assert files_below(filled.directory) == before
        assert contents(restored(backups)) == contents(filled)
        assert not list(filled.directory.glob(".vrag-*")) + list(backups.glob(".vrag-*"))

    def test_what_is_deleted_behind_a_symbolic_link_is_listed_anew(
        self, filled: Collection, backups: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = backup_module._SnapshotBuilder._store  # pyright: ignore[reportPrivateUsage]
        attempts: list[object] = []

        def change_and_store(self: Any) -> None:  # noqa: ANN401
            if not attempts:
                change_content(Collection.open(filled.directory), folder, "documents, versions")
            attempts.append(self)
            store(self)

        monkeypatch.setattr("vrag.index.integrity.held_files.os.link", refuse)
        monkeypatch.setattr(backup_module._SnapshotBuilder, "_store", change_and_store)  # pyright: ignore[reportPrivateUsage]
        back_up(filled, backups)
        assert len(attempts) == 2
        assert contents(restored(backups)) == contents(filled)

    def test_what_a_killed_backup_held_is_removed(self, filled: Collection, backups: Path) -> None:
        for parent, clean in (
            (filled.directory, lambda: back_up(filled, backups)),
            (backups, lambda: back_up(filled, backups)),
            (filled.directory, lambda: compact(filled)),
        ):
            left = parent / ".vrag-scratch-killed"
            left.mkdir()
            (left / ".vrag-scratch").touch()
            clean()
            assert not left.exists()


def test_damage_of_the_collection_is_reported_and_the_rest_backed_up(
    filled: Collection, backups: Path
) -> None:
    picture = next(filled.items_dir.rglob("*.png"))
    picture.unlink()
    report = back_up(filled, backups)
    assert report.missing == (f"items/{picture.relative_to(filled.items_dir).as_posix()}",)
    assert contents(restored(backups)) == contents(filled)


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
        self, filled: Collection, backups: Path, folder: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next commits have its number, and others."""

        def commit() -> None:
            self.flip(manifest)
            (folder / "c.txt").write_text("pic five")
            add(Collection.open(filled.directory), [folder])

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
        store = backup_module._SnapshotBuilder._store  # pyright: ignore[reportPrivateUsage]
        attempts: list[object] = []

        def record_and_store(self: Any) -> None:  # noqa: ANN401
            store(self)
            if not attempts:
                journal.write_bytes(whole)
                then()
            attempts.append(self)

        monkeypatch.setattr(backup_module._SnapshotBuilder, "_store", record_and_store)  # pyright: ignore[reportPrivateUsage]

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


def test_a_full_disk_loses_nothing_and_the_next_backup_continues(
    filled: Collection, backups: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(filled, backups).snapshot
    (folder / "c.txt").write_text("\n".join(f"pic {number}" for number in range(9)))
    add(filled, [folder])
    age(filled.directory)
    monkeypatch.setattr(backup_store, "_BATCH_FILES", 4)
    added: list[str] = []

    def add_until(limit: int) -> Any:  # noqa: ANN401
        def add_object(self: ObjectWriter, source: Any, name: str, *sizes: int) -> Any:  # noqa: ANN401
            added.append(name)
            if len(added) > limit:
                patch.setattr(backup_store, "_copy", full)
            return original(self, source, name, *sizes)

        original = ObjectWriter.add
        return add_object

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(ObjectWriter, "add", add_until(9))
        with pytest.raises(CollectionError, match="No space left") as error:
            back_up(filled, backups)
    assert "it continues" in error.value.hint
    assert BackupStore(backups).names() == [first.name]
    assert check_backups(backups).problems == ()
    stored, added = added[:8], []  # two batches
    with monkeypatch.context() as patch:
        patch.setattr(ObjectWriter, "add", add_until(99))
        back_up(filled, backups)
    assert added
    assert not set(stored) & set(added)
    assert contents(restored(backups)) == contents(filled)


def test_a_backup_is_on_the_disk_whatever_the_durability_of_the_collection(
    filled: Collection, backups: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.open(filled.directory, durable=False)
    (folder / "c.txt").write_text("pic five")
    add(collection, [folder])
    synced: set[int] = set()

    def sync_handle(handle: int, original: Callable[[int], None] = atomic_io.sync_handle) -> None:
        synced.add(os.fstat(handle).st_ino)
        original(handle)

    monkeypatch.setattr(atomic_io, "sync_handle", sync_handle)
    back_up(collection, backups)
    paths = [path for path in backups.rglob("*") if path.name not in {"lock", "backups.json"}]
    assert len(paths) > 20
    assert {path.name for path in paths if path.stat().st_ino not in synced} == set()


@pytest.mark.parametrize("place", [".", "backups", "..", "../.."])
def test_backups_and_collection_lie_apart(filled: Collection, place: str) -> None:
    with pytest.raises(CollectionError, match="may contain the other"):
        back_up(filled, filled.directory / place)
    assert not (filled.directory.parent / "backups.json").exists()


def test_a_directory_of_something_else_is_refused(filled: Collection, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(CollectionError, match=r"not empty \(cat\.jpg\)"):
        back_up(filled, tmp_path / "photos")
    with pytest.raises(CollectionError, match="cannot be written to"):
        back_up(filled, tmp_path / "photos" / "cat.jpg" / "backups")


def test_one_process_writes_to_the_backups(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    with BackupStore(backups).lock(), pytest.raises(CollectionBusy, match="Another process"):
        back_up(filled, backups, wait=0.01)


def test_only_the_newest_backups_are_kept(filled: Collection, backups: Path, folder: Path) -> None:
    reports: list[BackupReport] = []
    for number in range(3):
        (folder / "c.txt").write_text(f"pic {number}")
        add(filled, [folder])
        reports.append(back_up(filled, backups, keep=2))
    names = [report.snapshot.name for report in reports]
    store = BackupStore(backups)
    assert store.names() == names[1:]
    assert reports[-1].deleted == (names[0],)
    assert reports[-1].freed_bytes > 0
    listed = {file.sha256 for name in names[1:] for file in store.read(name)[1]}
    assert set(store.objects()) == listed
    for name in names[1:]:
        assert restored(backups, name).content_version == store.read(name)[0].content_version


def test_the_newest_backup_is_the_last_one_made_whatever_the_clock_says(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(filled, backups).snapshot
    monkeypatch.setattr(backup_module.time, "time", lambda: first.created - 3600)
    second = back_up(filled, backups, keep=1).snapshot
    assert BackupStore(backups).names() == [second.name]


class TestPruning:
    def test_nothing_is_deleted_while_a_snapshot_cannot_be_read(
        self, filled: Collection, backups: Path
    ) -> None:
        name = back_up(filled, backups).snapshot.name
        path = backups / "snapshots" / f"{name}.jsonl"
        path.write_bytes(path.read_bytes().replace(b"items", b"itens"))
        store = BackupStore(backups)
        before = store.objects()
        report = back_up(filled, backups, keep=5)
        assert report.prune_failure.startswith(f"Nothing was deleted: The snapshot {path} is damaged.")
        assert (report.deleted, report.snapshot.name in store.names()) == ((), True)
        assert contents(restored(backups)) == contents(filled)
        with store.lock(), pytest.raises(CollectionError, match="Nothing was deleted"):
            store.prune(5)
        assert before.keys() <= store.objects().keys()
        path.unlink()
        assert not back_up(filled, backups, keep=5).prune_failure

    def test_fewer_backups_than_are_kept_stay(self, filled: Collection, backups: Path) -> None:
        names = [back_up(filled, backups).snapshot.name for _ in range(3)]
        back_up(filled, backups, keep=5)
        assert BackupStore(backups).names()[:3] == names

    def test_leftovers_go(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        store, unused = BackupStore(backups), "ab" * 32
        store.path(unused).parent.mkdir(exist_ok=True)
        store.path(unused).write_bytes(b"of a killed backup")
        (backups / "objects" / ".part-1").touch()
        (backups / "snapshots" / ".2026.0123abcd").touch()
        (backups / "partial.jsonl").touch()
        before = set(files_below(backups))
        with store.lock():
            assert store.prune(9) == ((), 18)
        assert before - set(files_below(backups)) == {
            f"objects/ab/{unused}", "objects/.part-1", "snapshots/.2026.0123abcd", "partial.jsonl",
        }  # fmt: skip


class TestRestoring:
    def test_nothing_is_overwritten(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        before = files_below(filled.directory)
        with pytest.raises(CollectionError, match="not empty"):
            restore(backups, filled.directory)
        assert files_below(filled.directory) == before
        assert not list(filled.directory.parent.glob(".*"))

    def test_one_process_restores_to_a_directory(
        self, filled: Collection, backups: Path, tmp_path: Path
    ) -> None:
        back_up(filled, backups)
        refused: list[int] = []

        def restore_as_well(done: int, _: int) -> None:
            with pytest.raises(CollectionBusy, match="Another process is restoring"):
                restore(backups, tmp_path / "new")
            refused.append(done)

        restore(backups, tmp_path / "new", progress=restore_as_well)
        assert refused
        assert contents(Collection.open(tmp_path / "new")) == contents(filled)

    def test_an_empty_directory_is_filled(self, filled: Collection, backups: Path, tmp_path: Path) -> None:
        back_up(filled, backups)
        (tmp_path / "new").mkdir()
        (tmp_path / ".new.partial" / "index").mkdir(parents=True)  # of a killed restoring
        restore(backups, tmp_path / "new")
        assert contents(Collection.open(tmp_path / "new")) == contents(filled)
        assert not (tmp_path / ".new.partial").exists()

    def test_a_snapshot_is_named_by_its_beginning(self, filled: Collection, backups: Path) -> None:
        first, second = (back_up(filled, backups).snapshot.name for _ in range(2))
        store = BackupStore(backups)
        assert (store.find(first), store.find("last")) == (first, second)
        with pytest.raises(CollectionError, match="2 snapshots have names"):
            store.find("20")
        with pytest.raises(CollectionError, match="No snapshot has a name"):
            store.find("1999")

    def test_damage_is_named_with_what_it_belongs_to(
        self, filled: Collection, backups: Path, tmp_path: Path
    ) -> None:
        back_up(filled, backups)
        flip(backups, "items/")
        target = tmp_path / "new"
        with pytest.raises(
            CollectionError, match=r"items/\w+/1\.png \(a picture of (a|b|sent)\.txt\)"
        ) as error:
            restore(backups, target)
        assert "--partial" in error.value.hint
        assert not target.exists()
        report = restore(backups, target, partial=True)
        assert len(report.missing) == 1
        assert not verify(Collection.open(target)).ok

    def test_a_damaged_table_is_never_restored(
        self, filled: Collection, backups: Path, tmp_path: Path
    ) -> None:
        back_up(filled, backups)
        flip(backups, "index/items.lance/data/")
        with pytest.raises(CollectionError, match=r"\(the table items\)") as error:
            restore(backups, tmp_path / "new", partial=True)
        assert "--partial" not in error.value.hint

    @pytest.mark.parametrize("name", ["../out", "/etc/out", "items/../../out", "", "a\\b", "C:/out"])
    def test_no_name_leads_out_of_the_directory(
        self, filled: Collection, backups: Path, tmp_path: Path, name: str
    ) -> None:
        snapshot = back_up(filled, backups).snapshot
        store = BackupStore(backups)
        files = store.read(snapshot.name)[1]
        changed = store.write(snapshot, [*files, files[0]._replace(name=name)])
        with pytest.raises(CollectionError, match="outside of the collection"):
            restore(backups, tmp_path / "new", changed.name)
        changed = store.write(snapshot, [files[0]._replace(sha256=f"../../{name}")])
        with pytest.raises(CollectionError, match="is damaged"):
            restore(backups, tmp_path / "new", changed.name)

    def test_what_a_newer_version_made_is_refused(
        self, filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(backup_store, "FORMAT", 2)
            back_up(filled, backups)
        with pytest.raises(CollectionError, match="newer version"):
            BackupStore.open(backups)
        (backups / "backups.json").write_text('{"format": 1}')
        with pytest.raises(CollectionError, match="newer version"):
            restored(backups)


class TestChecking:
    def test_every_flip_is_found_set_aside_and_stored_again(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        names = [flip(backups, part) for part in ("items/", "index/files.lance/_versions", "runs/1/meta")]
        problems = check_backups(backups).problems
        assert {problem.file for problem in problems} >= set(names)
        assert all("is damaged" in problem.detail for problem in problems)
        assert {problem.detail.split()[-1] for problem in check_backups(backups).problems} == {"missing."}
        back_up(filled, backups)
        assert check_backups(backups).problems == ()
        assert contents(restored(backups)) == contents(filled)

    def test_what_is_truncated_or_missing_is_stored_again(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        store = BackupStore(backups)
        one, other = (store.path(file.sha256) for file in store.read(store.find("last"))[1][:2])
        one.write_bytes(one.read_bytes()[:-1])
        other.unlink()
        back_up(filled, backups)
        assert check_backups(backups).problems == ()

    def test_a_damaged_snapshot_is_found(self, filled: Collection, backups: Path) -> None:
        name = back_up(filled, backups).snapshot.name
        path = backups / "snapshots" / f"{name}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
        (problem,) = check_backups(backups).problems
        assert (problem.snapshots, problem.file) == ((name,), "")

    def test_backups_on_a_read_only_disk_are_checked(
        self, filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        back_up(filled, backups)
        name = flip(backups, "items/")
        (backups / "lock").unlink()
        (backups / "lock").mkdir()  # no lock can be made
        before = files_below(backups)
        assert [problem.file for problem in check_backups(backups).problems] == [name]
        assert files_below(backups) == before


def flip(backups: Path, beginning: str) -> str:
    """Flip a bit of the object of the first file of such a name; return the name."""
    store = BackupStore(backups)
    files = store.read(store.find("last"))[1]
    file = next(file for file in files if file.name.startswith(beginning))
    path = store.path(file.sha256)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return file.name
