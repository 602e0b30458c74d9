"""Published collections: in memory, in a directory, and over HTTP on an S3-compatible server."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from object_storage import BUCKET, Storage, serve, use

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionBusy, CollectionError, FingerprintMismatch, MissingExtra, SearchError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.location import IMPORTED, EmbedderRecord
from vrag.index.maintenance import compact, prune, remove, status
from vrag.index.opening import open_collection
from vrag.index.remote import object_storage, publication, remote_collection
from vrag.index.remote import publish as publishing
from vrag.index.remote.object_storage import Objects
from vrag.index.remote.publication import PublishedHead
from vrag.index.remote.publish import publish
from vrag.index.schema import blob_of
from vrag.index.vectors.vector_index import read_vectors
from vrag.search.engine import Engine
from vrag.storage.sealed_json import seal_json
from vrag.testing import HashEmbedder
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from fake_conversion import FakeConversion

S3 = f"s3://{BUCKET}/reports"
URL = "memory://reports"
ALL = timedelta(0)


@pytest.fixture(scope="module")
def server() -> Generator[Storage]:
    yield from serve()


@pytest.fixture
def storage(server: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    use(server, monkeypatch)
    return server


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of a reader's caches; readers look for a publication at each read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user-data"))
    monkeypatch.setattr(remote_collection, "FRESH_SECONDS", 0.0)
    memory: Any = importlib.import_module("fsspec").filesystem("memory")
    memory.store.clear()
    return tmp_path / "user-cache" / "vrag" / "published"


@pytest.fixture
def filled(collection: Collection, folder: Path, conversion: FakeConversion) -> Collection:
    """A collection of three files, with a history: commits, a deletion, blobs of a killed writer."""
    (folder / "a.txt").write_text("pic red apple\ngreen apple\npic blue plum")
    (folder / "b.txt").write_text("old pear\nold plum")
    add(collection, [folder])
    (folder / "b.txt").write_text("yellow pear\npic brown pear")
    (folder / "c.txt").write_text("!not this\nwhite cherry")
    add(collection, [folder])
    collection.store.blobs.put(b"of a killed writer")
    collection.store.blobs.sync()
    return collection


def everything(collection: Collection) -> dict[str, object]:
    """All that readers see, pictures included."""
    ids: list[str] = sorted(collection.store.read_items(["id"]).column("id"))
    items = collection.items(ids)
    pictures = {item.id: collection.image(item.id).tobytes() for item in items.values() if item.image}
    vectors = (
        {id: found.tobytes() for id, found in read_vectors(collection)} if has_vectors(collection) else {}
    )
    return {
        "items": items,
        "documents": collection.documents(),
        "content": collection.content_version,
        "hash": collection.store.item_hash,
        "pictures": pictures,
        "vectors": vectors,
    }


def has_vectors(collection: Collection) -> bool:
    return collection.header.embedder is not None


def found(collection: Collection, text: str) -> list[str]:
    (hits,) = Engine(collection).search([Query(text)], 10)
    return [f"{hit.document_name} {hit.ordinal}" for hit in hits]


def a_picture(collection: Collection) -> tuple[str, str]:
    """The id of an item with a picture, and the name of the object of that."""
    rows = collection.store.read_items(["id", "image"], "image IS NOT NULL ORDER BY id").values
    blob = blob_of(rows[0][1])
    return rows[0][0], f"blobs/{blob[:2]}/{blob}"


def names_of(kind: str, url: str = URL) -> set[str]:
    return {name for name in Objects(url).list() if name.startswith(f"{kind}/")}


def change(collection: Collection, folder: Path, text: str) -> None:
    """Add a file of one line."""
    (folder / f"{text}.txt").write_text(text)
    add(collection, [folder / f"{text}.txt"])


def never(_verb: str, _name: str) -> None:
    """Nothing fails."""


class Watch:
    """What is read, written and deleted, by name; `fail` decides which fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.changed: list[str] = []
        self.fail: Callable[[str, str], BaseException | None] = never
        for verb in ("read", "write", "upload", "delete"):
            monkeypatch.setattr(Objects, verb, self._wrap(verb, getattr(Objects, verb)))

    def _wrap(self, verb: str, call: Callable[..., object]) -> Callable[..., object]:
        def watched(objects: Objects, *arguments: Any) -> object:  # noqa: ANN401 - the method's
            name = str(arguments[1 if verb == "upload" else 0])
            if error := self.fail(verb, name):
                raise error
            (self.read if verb == "read" else self.changed).append(name)
            return call(objects, *arguments)

        return watched


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setattr(publishing, "AT_ONCE", 1)
    monkeypatch.setattr(remote_collection, "AT_ONCE", 1)
    return Watch(monkeypatch)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "PIECE_BYTES", 4096)


class TestReading:
    @pytest.mark.parametrize("url", [URL, S3, "file://{}/reports"])
    def test_a_published_collection_reads_as_the_one_on_disk(
        self, url: str, storage: Storage, filled: Collection, tmp_path: Path
    ) -> None:
        url = url.format(tmp_path)
        report = publish(filled, url)
        remote = open_collection(url)
        assert everything(remote) == everything(filled)
        assert (report.number, report.fresh, report.files > 4, report.bytes > 1000) == (1, True, True, True)
        assert status(remote).items == 6
        assert status(remote).bytes == remote.location.size() > 1000
        assert (remote.address, remote.version) == (url, filled.version)
        assert publish(filled, url).files == 0

    @pytest.mark.parametrize("kind", list(VectorKind))
    def test_vectors_are_read_and_searched_from_there(
        self, kind: VectorKind, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        embedder = HashEmbedder(kind, 8)
        local = Collection.create(tmp_path / "vectors", embedder=embedder)
        (folder / "a.txt").write_text("red apple\ngreen apple\nblue plum")
        add(local, [folder], embedder=embedder)
        publish(local, URL)
        remote = open_collection(URL)
        assert remote.header == local.header
        assert everything(remote)["vectors"]
        assert everything(remote) == everything(local)
        here, there = Engine(local, embedder), Engine(remote, embedder)
        assert here.search([Query("blue plum")], 3) == there.search([Query("blue plum")], 3)

    def test_is_searched_with_caches_in_the_users_cache_directory(
        self, filled: Collection, home: Path
    ) -> None:
        publish(filled, URL)
        assert found(open_collection(URL), "pear") == found(filled, "pear") == ["b.txt 1", "b.txt 2"]
        (cache,) = home.iterdir()
        assert cache.name.startswith("reports-")
        assert {path.name.split("-")[0] for path in cache.iterdir()} == {"lexical", "database"}
        assert open_collection(f"{URL}/").cache_dir == cache

    def test_an_empty_collection_can_be_published_and_grows(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(collection, URL)
        remote = open_collection(URL)
        assert everything(remote)["items"] == {}
        change(collection, folder, "one")
        publish(collection, URL)
        assert found(remote, "one") == ["one.txt 1"]

    def test_a_read_that_has_begun_sees_one_state(self, filled: Collection, folder: Path) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        before = everything(remote)
        with remote.store.snapshot() as version:
            for word in ("grape", "melon"):
                change(filled, folder, word)
                publish(filled, URL, prune=ALL)
            assert everything(remote) == before
            assert remote.version == version
        assert everything(remote) == everything(filled) != before
        assert remote.version > version

    def test_writing_is_refused_and_says_where_to_write(
        self, filled: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        (folder / "d.txt").write_text("new")
        for write in (
            lambda: add(remote, [folder]),
            lambda: remove(remote, ["a.txt"]),
            lambda: prune(remote),
            lambda: compact(remote),
            lambda: publish(remote, f"{URL}/copy"),
            lambda: remote.store.change().__enter__(),
            remote.store.compact,
        ):
            with pytest.raises(CollectionError, match=r"published and read-only.*vrag index publish"):
                write()
        assert everything(remote) == everything(filled)
        with pytest.raises(CollectionError, match="vrag index publish"):
            Collection.create(URL)

    def test_no_picture_leads_out_of_the_blobs(self, filled: Collection) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        for name in (
            "",
            ".",
            "../HEAD",
            "/etc/passwd",
            "a\0b",
            "%2e%2e/b",
            "a?versionId=1",
            "b" * 63,
            "B" * 64,
        ):
            with pytest.raises(CollectionError):
                remote.stored(name)

    def test_items_are_found_by_id_and_others_are_not(self, filled: Collection) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        ids = filled.store.read_items(["id"]).column("id")
        asked = [ids[3], "nobody", ids[0], ids[3], "", "it's", f"{ids[0]}\0"]
        assert remote.items(asked).keys() == {ids[0], ids[3]}
        assert remote.items([]) == {}
        with pytest.raises(SearchError, match="There is no item"):
            remote.item(f"{ids[0]}\0")

    def test_a_head_that_was_replaced_while_it_was_read_is_read_again(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read that began before the new one was written is cut at the length of the old one."""
        publish(filled, URL)
        whole, cuts = Objects(URL).read("HEAD") or b"", iter([100, 200])
        monkeypatch.setattr(Objects, "read", lambda _objects, _name: whole[: next(cuts, None)])  # pyright: ignore
        head = PublishedHead.read(Objects(URL))
        assert head is not None
        assert head.current.number == 1


@pytest.mark.usefixtures("small_pieces")
class TestFetching:
    def test_the_database_is_fetched_once_and_then_only_what_changed(
        self, filled: Collection, folder: Path, watch: Watch
    ) -> None:
        for number in range(40):
            (folder / f"{number}.txt").write_text("\n".join(f"line {line} of {number}" for line in range(20)))
        add(filled, [folder])
        publish(filled, URL)
        assert found(open_collection(URL), "pear")
        pieces = names_of("pieces")
        assert {name for name in watch.read if name.startswith("pieces/")} == pieces
        watch.read.clear()
        assert found(open_collection(URL), "pear")
        assert set(watch.read) == {"HEAD"}
        change(filled, folder, "melon")
        publish(filled, URL)
        new = names_of("pieces") - pieces
        watch.read.clear()
        assert found(open_collection(URL), "melon")
        assert {name for name in watch.read if name.startswith("pieces/")} == new
        assert len(new) < len(pieces) / 2

    def test_pictures_are_fetched_when_they_are_shown_and_kept(
        self, filled: Collection, watch: Watch
    ) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        id, blob = a_picture(remote)
        assert not any(name.startswith("blobs/") for name in watch.read)
        for _ in range(2):
            assert remote.image(id).size == (40, 30)
        assert watch.read.count(blob) == 1
        kept = remote.store.blobs.path(blob[-64:])
        kept.write_bytes(b"damaged")
        assert remote.image(id).size == (40, 30)
        assert watch.read.count(blob) == 2

    def test_kept_pictures_have_a_limit(self, filled: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
        publish(filled, URL)
        monkeypatch.setattr(remote_collection, "MAX_CACHE_BYTES", 1)
        remote = open_collection(URL)
        everything(remote)
        assert not list(remote.store.blobs.names())
        assert everything(remote) == everything(filled)

    def test_the_copy_may_be_deleted_at_any_time(self, filled: Collection, home: Path) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        shutil.rmtree(home)
        assert everything(remote) == everything(filled)

    def test_former_databases_are_deleted(self, filled: Collection, folder: Path, home: Path) -> None:
        publish(filled, URL)
        remote = open_collection(URL)
        for number in range(5):
            change(filled, folder, f"word{number}")
            publish(filled, URL)
            assert found(remote, f"word{number}")
        assert len(list(home.rglob("*.db"))) == 2
        assert not list(home.rglob("*.part"))
        assert len(remote.store.database._files) == 1  # pyright: ignore

    @pytest.mark.parametrize("fault", ["lost", "damaged", "cut"])
    @pytest.mark.parametrize("kind", ["pieces", "blobs", "manifests"])
    def test_an_object_that_is_lost_or_damaged_is_named_and_mended_as_it_says(
        self, kind: str, fault: str, filled: Collection
    ) -> None:
        publish(filled, URL)
        objects = Objects(URL)
        name = a_picture(filled)[1] if kind == "blobs" else max(names_of(kind))
        data = objects.read(name) or b""
        match fault:
            case "lost":
                objects.delete(name)
            case "cut":
                objects.write(name, data[:-1])
            case _:
                objects.write(name, bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(CollectionError, match=rf"{name} is (missing|damaged).*[Pp]ublish it again"):
            everything(open_collection(URL))
        if fault == "damaged":
            objects.delete(name)
        report = publish(filled, URL)
        assert (report.files, report.fresh) == (1, False)
        assert everything(open_collection(URL)) == everything(filled)

    def test_what_was_fetched_before_the_network_failed_is_not_fetched_again(
        self, filled: Collection, watch: Watch
    ) -> None:
        publish(filled, URL)
        names, allowed = names_of("pieces"), 3
        assert len(names) > allowed + 2
        left = iter(range(allowed))

        def fail(_verb: str, name: str) -> BaseException | None:
            is_over = name.startswith("pieces/") and next(left, None) is None
            return CollectionError("The network failed.") if is_over else None

        watch.fail = fail
        with pytest.raises(CollectionError, match="The network failed"):
            open_collection(URL)
        first = [name for name in watch.read if name.startswith("pieces/")]
        watch.fail = never
        watch.read.clear()
        assert everything(open_collection(URL)) == everything(filled)
        assert {name for name in watch.read if name.startswith("pieces/")} == names - set(first)
        assert len(first) == allowed

    def test_every_damage_to_the_copy_on_this_machine_is_mended(
        self, filled: Collection, home: Path, watch: Watch
    ) -> None:
        """The first command may say so; the next one has fetched the damaged piece again."""
        publish(filled, URL)
        here = everything(filled)
        assert everything(open_collection(URL)) == here
        (path,) = home.rglob("*.db")
        whole = path.read_bytes()
        chance = random.Random(1)
        places = [0, 20, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(60))]
        for place in (*places, None):
            damaged = bytearray(whole)
            if place is None:
                damaged = damaged[:-100]
            else:
                damaged[place] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            for _ in range(3):
                read_or_told(here)
            watch.read.clear()
            with closing(open_collection(URL)) as remote:
                assert everything(remote) == here
            assert set(watch.read) <= {"HEAD"}

    def test_where_the_cache_cannot_be_written_a_temporary_copy_is_read(
        self, filled: Collection, folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        home.parent.mkdir(parents=True)
        home.write_text("a file where a directory should be")
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        remote = open_collection(URL)
        assert everything(remote) == everything(filled)
        change(filled, folder, "melon")
        publish(filled, URL)
        assert everything(remote) == everything(filled)
        remote.close()
        assert not list((tmp_path / "temporary").iterdir())
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
        with pytest.raises(CollectionError, match=r"no disk space for the database.*TMPDIR"):
            open_collection(URL)

    def test_a_full_disk_is_told_and_nothing_partial_is_read(
        self, filled: Collection, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)

        def refuse(_path: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(remote_collection, "sync", refuse)
            with pytest.raises(CollectionError, match=r"no disk space.*No space left"):
                open_collection(URL)
        assert not list(home.rglob("*.db"))
        assert everything(open_collection(URL)) == everything(filled)


def read_or_told(content: dict[str, object]) -> None:
    """Open what is published: this is the content, or an error says that it is fetched again."""
    try:
        with closing(open_collection(URL)) as remote:
            read = everything(remote)
    except CollectionError as error:
        if "fetched again" not in str(error):
            raise
    else:
        assert read == content


class TestPublishing:
    @pytest.mark.usefixtures("small_pieces")
    def test_only_what_is_missing_is_uploaded(self, filled: Collection, folder: Path) -> None:
        publish(filled, URL)
        again = publish(filled, URL)
        assert (again.number, again.fresh, again.files, again.bytes) == (1, False, 0, 0)
        change(filled, folder, "pic black berry")
        before = Objects(URL).list().keys()
        more = publish(filled, URL)
        assert (more.number, more.fresh) == (2, True)
        assert more.files == len(Objects(URL).list().keys() - before)
        assert more.present > 3
        assert everything(open_collection(URL)) == everything(filled)

    def test_blobs_that_no_item_names_are_not_uploaded(self, filled: Collection) -> None:
        publish(filled, URL)
        assert {name[-64:] for name in names_of("blobs")} == filled.store.named_blobs()
        assert len(list(filled.store.blobs.names())) > len(names_of("blobs"))

    def test_progress_is_told_file_by_file(self, filled: Collection) -> None:
        told: list[tuple[int, int]] = []
        report = publish(filled, URL, progress=lambda done, of: told.append((done, of)))
        assert told == [(done, report.files) for done in range(1, report.files + 1)]

    def test_pruning_leaves_what_is_published_and_takes_the_rest(
        self, filled: Collection, folder: Path
    ) -> None:
        publish(filled, URL)
        before = Objects(URL).list().keys()
        (folder / "a.txt").write_text("red apple")
        remove(filled, [folder / "b.txt"])
        add(filled, [folder / "a.txt"])
        compact(filled)
        Objects(URL).write("notes.txt", b"somebody else's")
        kept = publish(filled, URL, prune=timedelta(hours=1))
        assert kept.pruned == 0
        assert before <= Objects(URL).list().keys()
        report = publish(filled, URL, prune=ALL)
        after = Objects(URL).list()
        assert report.pruned == len(before - after.keys()) > 3
        assert "notes.txt" in after
        assert everything(open_collection(URL)) == everything(filled)
        head = PublishedHead.read(Objects(URL))
        assert head is not None
        assert head.former == ()

    def test_an_old_object_that_nothing_names_is_made_young_before_it_is_named(
        self, filled: Collection, folder: Path, tmp_path: Path
    ) -> None:
        """Another publisher may be about to delete it, as left over."""
        url = f"file://{tmp_path}/reports"
        (folder / "melon.txt").write_text("1\n2\n3\n4\npic melon")
        add(filled, [folder])
        publish(filled, url)
        blob = filled.store.named_blobs()
        remove(filled, [folder / "melon.txt"])
        publish(filled, url)
        (name,) = blob - filled.store.named_blobs()
        path = tmp_path / "reports" / "blobs" / name[:2] / name
        old = time.time() - 3000
        for each in (tmp_path / "reports").rglob("*"):
            os.utime(each, (old, old))
        add(filled, [folder / "melon.txt"])
        publish(filled, url)
        assert path.stat().st_mtime > old + 1000
        lasting = tmp_path / "reports" / a_picture(filled)[1]
        assert lasting.stat().st_mtime < old + 1000

    def test_pruning_leaves_young_objects_that_somebody_may_be_about_to_name(
        self, filled: Collection
    ) -> None:
        publish(filled, URL)
        name = f"blobs/ab/{'ab' * 32}"
        Objects(URL).write(name, b"of another publisher")
        assert publish(filled, URL, prune=timedelta(hours=1)).pruned == 0
        assert name in names_of("blobs")
        assert publish(filled, URL, prune=ALL).pruned == 1
        assert name not in names_of("blobs")

    def test_the_clock_of_the_storage_may_be_behind(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed = Objects.list

        def list_old(objects: Objects) -> dict[str, object_storage.StoredObject]:
            return {name: each._replace(modified=0.0) for name, each in listed(objects).items()}

        monkeypatch.setattr(Objects, "list", list_old)
        assert publish(filled, URL).fresh
        assert publish(filled, URL).files == 0

    def test_a_network_that_fails_while_pruning_deletes_nothing(
        self, filled: Collection, folder: Path, watch: Watch
    ) -> None:
        publish(filled, URL)
        change(filled, folder, "melon")
        publish(filled, URL)
        error = CollectionError("No network.")
        watch.fail = lambda verb, name: error if verb == "read" and name.startswith("manifests") else None
        before = Objects(URL).list().keys()
        with pytest.raises(CollectionError, match="No network"):
            publish(filled, URL, prune=ALL)
        assert Objects(URL).list().keys() == before

    def test_a_reader_whose_publication_is_pruned_goes_on_with_the_newest(
        self, filled: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has read `HEAD` and not yet fetched what that names."""
        publish(filled, URL)
        read = PublishedHead.read
        heads = [read(Objects(URL))]
        change(filled, folder, "melon")
        compact(filled)
        publish(filled, URL, prune=ALL)

        def read_stale(objects: Objects) -> PublishedHead | None:
            return heads.pop() if heads else read(objects)

        monkeypatch.setattr(PublishedHead, "read", read_stale)
        assert everything(open_collection(URL)) == everything(filled)
        assert not heads

    def test_other_settings_are_refused(
        self, filled: Collection, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(filled, URL)
        before = Objects(URL).list().keys()
        other = Collection.create(tmp_path / "other", CorpusOptions(dpi=72))
        with pytest.raises(FingerprintMismatch, match="another URL"):
            publish(other, URL)
        assert Objects(URL).list().keys() == before
        assert everything(open_collection(URL)) == everything(filled)

    def test_an_import_that_got_its_embedder_is_published_in_place(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        embedder = HashEmbedder(VectorKind.SINGLE, 8)
        mark = replace(EmbedderRecord.of(embedder), name="imported", fingerprint=f"{IMPORTED}old")
        local = Collection.create(tmp_path / "imported", embedder=mark)
        publish(local, URL)
        header = replace(local.header, embedder=EmbedderRecord.of(embedder))
        with local.store.change() as made:
            made.put_header(header.to_json())
        report = publish(Collection.open(tmp_path / "imported"), URL)
        assert (report.number, report.fresh) == (2, True)
        assert open_collection(URL).header.embedder == header.embedder
        third = Collection.create(tmp_path / "third", embedder=HashEmbedder(VectorKind.SINGLE, 8, 1))
        with pytest.raises(FingerprintMismatch):
            publish(third, URL)

    def test_a_copy_that_went_its_own_way_replaces_the_other_whole(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        """Both have the same version numbers, which name different things; those of readers grow."""
        copies = [Collection.create(tmp_path / name) for name in ("one", "two")]
        remote, versions = None, [0]
        for number, copy in enumerate(copies):
            (folder / "a.txt").write_text(f"pic apple {number}")
            add(copy, [folder])
        assert copies[0].version == copies[1].version
        for copy in (copies[0], copies[1], copies[0], copies[1]):
            assert publish(copy, URL).fresh
            assert not publish(copy, URL).fresh
            remote = remote or open_collection(URL)
            assert everything(remote) == everything(copy)
            versions.append(remote.version)
        assert versions == sorted(set(versions))

    @pytest.mark.parametrize("fault", ["lost", "damaged"])
    def test_a_lost_or_damaged_picture_on_this_machine_is_told_and_nothing_changes(
        self, fault: str, filled: Collection
    ) -> None:
        path = filled.store.blobs.path(a_picture(filled)[1][-64:])
        path.unlink() if fault == "lost" else path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(CollectionError, match=rf"{path.name} cannot be read.*vrag index verify --repair"):
            publish(filled, URL)
        assert not [name for name in names_of("blobs") if name.endswith(path.name)]
        with pytest.raises(CollectionError, match="No collection is published"):
            open_collection(URL)

    def test_a_build_is_waited_for(self, filled: Collection) -> None:
        with filled.build(), pytest.raises(CollectionBusy):
            publish(Collection.open(filled.directory), URL)
        assert publish(filled, URL).fresh

    def test_what_is_committed_meanwhile_is_no_part_of_it(
        self, filled: Collection, folder: Path, watch: Watch
    ) -> None:
        before = everything(filled)

        def commit(_verb: str, name: str) -> None:
            if name.startswith("pieces/"):
                with filled.store.change() as made:
                    made.rename_document(filled.documents()[0].id, f"renamed {len(watch.changed)}")

        watch.fail = commit
        publish(filled, URL)
        watch.fail = never
        assert everything(open_collection(URL)) == before != everything(filled)


class TestInterruption:
    @pytest.mark.usefixtures("small_pieces")
    def test_killed_at_any_step_readers_see_the_former_state_and_the_next_run_mends_it(
        self, filled: Collection, folder: Path, watch: Watch
    ) -> None:
        publish(filled, URL)
        change(filled, folder, "pic melon")
        store: dict[str, Any] = importlib.import_module("fsspec").filesystem("memory").store
        saved, before, after = dict(store), everything(open_collection(URL)), everything(filled)
        watch.changed.clear()
        publish(filled, URL, prune=ALL)
        steps = len(watch.changed)
        assert steps > 6
        seen: list[bool] = []
        for step in range(steps):
            store.clear()
            store.update(saved)
            watch.changed.clear()

            def fail(verb: str, _name: str, step: int = step) -> BaseException | None:
                return KeyboardInterrupt() if verb != "read" and len(watch.changed) >= step else None

            watch.fail = fail
            with pytest.raises(KeyboardInterrupt):
                publish(filled, URL, prune=ALL)
            watch.fail = never
            state = everything(open_collection(URL))
            assert state in [before, after]
            seen.append(state == after)
            publish(filled, URL, prune=ALL)
            assert everything(open_collection(URL)) == after
        assert seen == sorted(seen)
        assert {True, False} == set(seen)

    @pytest.mark.slow
    def test_a_killed_process_leaves_the_former_state_or_the_new_one(
        self, filled: Collection, folder: Path, tmp_path: Path
    ) -> None:
        url, chance, killed = f"file://{tmp_path}/reports", random.Random(3), 0
        states: list[object] = []
        for attempt in range(6):
            change(filled, folder, f"pic attempt {attempt}")
            command = [sys.executable, "-c", CHILD, str(filled.directory), url]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                for _ in range(chance.randint(1, 12)):
                    process.stdout.readline()
                if process.poll() is None:
                    process.kill()
                    killed += 1
            state = everything(open_collection(url)) if PublishedHead.read(Objects(url)) else None
            assert state in [None, *states[-1:], everything(filled)]
            publish(filled, url, prune=ALL)
            states.append(everything(filled))
            assert everything(open_collection(url)) == states[-1]
        assert killed

    def test_two_publishers_at_once_leave_one_whole_state(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copies = [Collection.create(tmp_path / name) for name in ("one", "two")]
        publish(copies[0], URL)
        failed: list[CollectionError] = []

        def run(copy: Collection) -> None:
            try:
                publish(copy, URL, prune=timedelta(seconds=60))
            except CollectionError as error:
                failed.append(error)

        for turn in range(8):
            for number, copy in enumerate(copies):
                (folder / "a.txt").write_text(f"turn {turn}\npic of {number}")
                add(copy, [folder])
            threads = [threading.Thread(target=run, args=(copy,)) for copy in copies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert everything(open_collection(URL)) in [everything(copy) for copy in copies]
        assert all("at the same time" in error.message for error in failed)

    def test_who_was_overtaken_publishes_after_the_other(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion, watch: Watch
    ) -> None:
        copies = [Collection.create(tmp_path / name) for name in ("one", "two")]
        for number, copy in enumerate(copies):
            (folder / "a.txt").write_text(f"pic {number}")
            add(copy, [folder])
        publish(copies[0], URL)
        change(copies[1], folder, "melon")

        def overtake(verb: str, name: str) -> None:
            if verb == "write" and name.startswith("pieces/"):
                watch.fail = never
                change(copies[0], folder, "grape")
                assert publish(copies[0], URL).number == 2

        watch.fail = overtake
        assert publish(copies[1], URL).number == 3
        assert everything(open_collection(URL)) == everything(copies[1])
        head = PublishedHead.read(Objects(URL))
        assert head is not None
        assert [each.number for each in (*head.former, head.current)] == [1, 2, 3]

    def test_readers_while_publishing_see_whole_states_only(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        """Every version of the file has so many lines as its lines say: a torn state would not.

        A file that was replaced is not found at all while a version that takes long to load is loading.
        """
        collection = Collection.create(tmp_path / "moving")
        (folder / "a.txt").write_text("of 1 line")
        add(collection, [folder])
        publish(collection, URL)
        over = threading.Event()
        seen: list[set[int]] = [set(), set()]
        shared = open_collection(URL)
        torn: list[object] = []

        def read(mine: set[int]) -> None:
            engine = Engine(shared)
            while not over.is_set() or len(mine) < 1:
                (hits,) = engine.search([Query("line")], 10)
                try:
                    texts = [engine.item(hit.item).text for hit in hits]
                except SearchError:
                    continue  # published and replaced between the two calls
                if texts:
                    mine.add(len(texts))
                if {text.split()[1] for text in texts} - {str(len(texts))}:
                    torn.append(texts)

        readers = [threading.Thread(target=read, args=(mine,)) for mine in seen]
        for reader in readers:
            reader.start()
        try:
            for lines in range(2, 10):
                (folder / "a.txt").write_text("\n".join(f"of {lines} lines {n}" for n in range(lines)))
                add(collection, [folder])
                publish(collection, URL, prune=timedelta(seconds=30))
                end = time.monotonic() + 60
                while lines % 3 == 0 and not all(lines in mine for mine in seen) and time.monotonic() < end:
                    time.sleep(0.01)
        finally:
            over.set()
            for reader in readers:
                reader.join()
        assert torn == []
        assert all({3, 6, 9} <= mine for mine in seen)


CHILD = """
import sys
from vrag.index.collection import Collection
from vrag.index.remote import publish
from vrag.index.remote.object_storage import Objects
publish.AT_ONCE = 1
publish.PIECE_BYTES = 4096
for verb in ("write", "upload"):
    def told(*arguments, call=getattr(Objects, verb)):
        print(verb, flush=True)
        call(*arguments)
    setattr(Objects, verb, told)
publish.publish(Collection.open(sys.argv[1]), sys.argv[2])
"""


def reading(data: bytes) -> Callable[[Objects, str], bytes]:
    """What reads this from every object."""
    return lambda _objects, _name: data


class TestFailures:
    def test_a_missing_bucket_is_named(self, filled: Collection, storage: Storage) -> None:
        for act in (lambda: open_collection("s3://nowhere/x"), lambda: publish(filled, "s3://nowhere/x")):
            with pytest.raises(CollectionError, match="There is no bucket nowhere"):
                act()

    @pytest.mark.parametrize("url", [S3, URL, "file:///nowhere/at/all"])
    def test_nothing_published_says_how_to(self, url: str, storage: Storage) -> None:
        with pytest.raises(CollectionError, match=r"No collection is published at .*vrag index publish"):
            open_collection(f"{url}/nothing")

    @pytest.mark.parametrize(
        "url",
        [
            "s3://", "s3:///x", "ftp://x/y", "s3://b/../c", "s3://b/c?x=1", "http://b/c", "file://", "file:///",
            "file://data/x", "memory://", "s3://key:secret@host/x", "s3://b//c",
        ],
    )  # fmt: skip
    def test_an_address_that_is_none_is_refused(self, url: str) -> None:
        with pytest.raises(CollectionError, match="not an address in object storage") as caught:
            open_collection(url)
        assert "secret" not in str(caught.value)

    def test_a_driver_that_is_not_installed_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("s3fs", "gcsfs", "adlfs"):
            monkeypatch.setitem(sys.modules, module, None)
        registry: Any = importlib.import_module("fsspec.registry")
        for scheme in ("s3", "gs", "az"):
            monkeypatch.delitem(registry._registry, scheme, raising=False)
        with pytest.raises(MissingExtra, match=r"s3fs is not installed.*vrag-agent\[s3\]"):
            open_collection(S3)
        for scheme, driver in (("gs", "gcsfs"), ("az", "adlfs")):
            with pytest.raises(CollectionError, match=f"{driver} is not installed.*pip install {driver}"):
                open_collection(f"{scheme}://bucket/x")

    def test_a_directory_that_cannot_be_written_is_told(self, filled: Collection, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no directory")
        with pytest.raises(CollectionError, match=r"could not be (read|written): .*fix the permissions"):
            publish(filled, f"file://{tmp_path}/file/reports")

    def test_a_full_disk_leaves_an_object_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        objects = Objects(f"file://{tmp_path}/reports")
        objects.write("HEAD", b"old")

        def refuse(_handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("vrag.atomic_io.sync_handle", refuse)
        with pytest.raises(
            CollectionError, match=r"could not be written: No space left.*Free some disk space"
        ):
            objects.write("HEAD", b"new")
        assert objects.read("HEAD") == b"old"
        assert objects.list().keys() == {"HEAD"}

    def test_wrong_keys_are_told(self, filled: Collection, storage: Storage) -> None:
        publish(filled, S3)
        remote = open_collection(S3)
        storage.demand_keys()
        for act in (lambda: open_collection(S3), lambda: publish(filled, S3), remote.documents):
            with pytest.raises(CollectionError, match="AWS_ACCESS_KEY_ID"):
                act()

    def test_missing_keys_are_told(
        self, filled: Collection, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        with pytest.raises(CollectionError, match="AWS_ACCESS_KEY_ID"):
            publish(filled, S3)

    def test_a_damaged_head_and_a_newer_one_are_told(self, filled: Collection) -> None:
        newer = seal_json({"format": 9, "header": "", "current": {}, "former": []})
        for content, message in (
            (b"", "damaged"), (b"{", "damaged"), (b"[]", "damaged"), (b'{"format": 1}', "damaged"),
            (newer, "newer version"),
        ):  # fmt: skip
            Objects(URL).write("HEAD", content)
            with pytest.raises(CollectionError, match=message):
                open_collection(URL)
        with pytest.raises(CollectionError, match="newer version"):
            publish(filled, URL)

    def test_every_flipped_bit_of_the_head_shows_and_publishing_again_mends_it(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        objects = Objects(URL)
        whole = objects.read("HEAD") or b""
        monkeypatch.setattr(publication, "_ATTEMPTS", 1)
        with monkeypatch.context() as patched:
            for bit in range(8 * len(whole)):
                flipped = bytearray(whole)
                flipped[bit // 8] ^= 1 << bit % 8
                patched.setattr(Objects, "read", reading(bytes(flipped)))
                with pytest.raises(CollectionError, match=r"HEAD is damaged.*Publish it again"):
                    PublishedHead.read(objects)
        objects.write("HEAD", whole[:-9])
        assert publish(filled, URL).fresh
        assert everything(open_collection(URL)) == everything(filled)

    def test_wrong_types_in_a_head_are_told(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        head = json.loads(Objects(URL).read("HEAD") or b"")
        wrong: tuple[object, ...] = (None, [], {}, "x", True, float("inf"))
        contents = [
            head | {"current": head["current"] | {name: value}} for name in head["current"] for value in wrong
        ]
        for name in ("format", "header", "current", "former"):
            contents += [head | {name: value} for value in (None, [1], 0.5, {"a": 1})]
            contents.append({each: value for each, value in head.items() if each != name})
        for data in map(seal_json, contents):
            monkeypatch.setattr(Objects, "read", reading(data))
            with pytest.raises(CollectionError, match=r"HEAD is damaged"):
                PublishedHead.read(Objects(URL))

    @pytest.mark.parametrize(
        "content",
        [
            [],
            {"pieces": [], "blobs": []},
            {"piece_bytes": 1, "pieces": [], "blobs": []},
            {"piece_bytes": 4096, "pieces": ["../../HEAD"], "blobs": []},
            {"piece_bytes": 4096, "pieces": [1], "blobs": []},
            {"piece_bytes": 4096, "pieces": [], "blobs": "none"},
        ],
    )
    def test_a_manifest_that_is_none_is_told(self, content: object, filled: Collection) -> None:
        publish(filled, URL)
        data = json.dumps(content).encode()
        sha256 = hashlib.sha256(data).hexdigest()
        Objects(URL).write(f"manifests/{sha256[:2]}/{sha256}", data)
        head = PublishedHead.read(Objects(URL))
        assert head is not None
        replace(head, current=replace(head.current, manifest=sha256)).write(Objects(URL))
        with pytest.raises(CollectionError, match="is not a manifest"):
            open_collection(URL)

    @pytest.mark.slow
    def test_a_server_that_goes_and_comes_back_is_told_and_read_again(
        self, filled: Collection, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(object_storage, "_ATTEMPTS", 1)
        server: Any = importlib.import_module("moto.server").ThreadedMotoServer
        first = server(ip_address="127.0.0.1", port=0, verbose=False)
        first.start()
        host, port = first.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        publish(filled, S3)
        here = everything(filled)
        remote = open_collection(S3)
        id, _ = a_picture(remote)
        first.stop()
        with pytest.raises(CollectionError, match="Check the network"):
            remote.documents()
        monkeypatch.setattr(remote_collection, "FRESH_SECONDS", 3600.0)
        assert remote.documents() == here["documents"]
        with pytest.raises(CollectionError, match="Check the network"):
            remote.image(id)
        monkeypatch.setattr(remote_collection, "FRESH_SECONDS", 0.0)
        second = server(ip_address="127.0.0.1", port=port, verbose=False)
        second.start()
        assert everything(remote) == here
        second.stop()

    def test_an_unreachable_server_is_told(
        self, filled: Collection, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, S3)
        monkeypatch.setattr(object_storage, "_ATTEMPTS", 1)
        with monkeypatch.context() as gone:
            gone.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            for act in (lambda: open_collection(S3), lambda: publish(filled, S3)):
                with pytest.raises(CollectionError, match=r"Check the network, AWS_ENDPOINT_URL"):
                    act()
        assert everything(open_collection(S3)) == everything(filled)
