"""Collections in object storage: over HTTP, against an S3-compatible server on this machine."""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from object_storage import BUCKET, Storage, environment, serve, use
from PIL import Image

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError, FingerprintMismatch, SearchError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.sealed_json import seal_json
from vrag.index.integrity.verification import verify
from vrag.index.location import IMPORTED, EmbedderRecord
from vrag.index.maintenance import compact, prune, remove, status
from vrag.index.remote import remote_collection
from vrag.index.remote.object_storage import Objects
from vrag.index.remote.publish import publish
from vrag.index.remote.remote_collection import PublishedRecord, stored_name
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from fake_conversion import FakeConversion

URL = f"s3://{BUCKET}/reports"
ALL = timedelta(0)
AT_ONCE = timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def server() -> Generator[Storage]:
    yield from serve()


@pytest.fixture
def storage(server: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Storage:
    use(server, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user-data"))
    monkeypatch.setattr(remote_collection, "FRESH_SECONDS", 0.0)
    return server


@pytest.fixture
def filled(storage: Storage, collection: Collection, folder: Path, conversion: FakeConversion) -> Collection:
    """A collection of three files, with a history: commits, a deletion, leftovers of a killed writer."""
    (folder / "a.txt").write_text("pic red apple\ngreen apple\npic blue plum")
    (folder / "b.txt").write_text("old pear\nold plum")
    add(collection, [folder])
    (folder / "b.txt").write_text("yellow pear\npic brown pear")
    (folder / "c.txt").write_text("!not this\nwhite cherry")
    add(collection, [folder])
    (collection.directory / "index" / "items.lance" / "data" / "leftover.lance").write_bytes(b"killed")
    return collection


def everything(collection: Collection) -> dict[str, object]:
    """All that readers see, pictures included."""
    ids = sorted(collection.scan(["id"]).data["id"].to_pylist())
    items = collection.items(ids)
    pictures = {item.id: collection.image(item.id).tobytes() for item in items.values() if item.image}
    return {
        "items": items,
        "documents": collection.documents(),
        "content": collection.content_version,
        "pictures": pictures,
        "vectors": {
            row["id"]: row.get("vector", row.get("vectors"))
            for row in collection.scan(collection.item_table.schema.names).data.to_pylist()
        },
    }


def found(collection: Collection, text: str) -> list[str]:
    (hits,) = Engine(collection).search([Query(text)], 10)
    return [f"{hit.document_name} {hit.ordinal}" for hit in hits]


def reading(data: bytes) -> Callable[[Objects, str], bytes]:
    """What reads this from every object."""

    def read(_: Objects, name: str) -> bytes:
        assert name
        return data

    return read


class TestReading:
    def test_a_published_collection_reads_as_the_one_on_disk(self, filled: Collection) -> None:
        report = publish(filled, URL)
        remote = Collection.open(URL)
        assert everything(remote) == everything(filled)
        assert (report.number, report.fresh, report.files > 5, report.bytes > 1000) == (1, True, True, True)
        assert status(remote).items == 6
        assert status(remote).bytes == remote.location.size() > 1000
        assert remote.address == URL

    @pytest.mark.parametrize("kind", list(VectorKind))
    def test_vectors_are_read_and_searched_from_there(
        self, kind: VectorKind, storage: Storage, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        embedder = HashEmbedder(kind, 8)
        local = Collection.create(tmp_path / "vectors", embedder=embedder)
        (folder / "a.txt").write_text("red apple\ngreen apple\nblue plum")
        add(local, [folder], embedder=embedder)
        publish(local, f"{URL}/{kind}")
        remote = Collection.open(f"{URL}/{kind}")
        assert remote.header == local.header
        assert everything(remote) == everything(local)
        here, there = Engine(local, embedder), Engine(remote, embedder)
        assert here.search([Query("blue plum")], 3) == there.search([Query("blue plum")], 3)

    def test_is_searched_with_caches_in_the_users_cache_directory(
        self, filled: Collection, tmp_path: Path
    ) -> None:
        publish(filled, URL)
        assert found(Collection.open(URL), "pear") == found(filled, "pear") == ["b.txt 1", "b.txt 2"]
        (cache,) = (tmp_path / "user-cache" / "vrag" / "published").iterdir()
        assert cache.name.startswith("reports-")
        assert [path.name.split("-")[0] for path in cache.iterdir()] == ["lexical"]
        assert Collection.open(f"{URL}/").cache_dir == cache

    def test_an_empty_collection_can_be_published_and_grows(
        self, storage: Storage, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(collection, URL)
        remote = Collection.open(URL)
        assert everything(remote)["items"] == {}
        (folder / "a.txt").write_text("one")
        add(collection, [folder])
        publish(collection, URL)
        assert found(remote, "one") == ["a.txt 1"]

    def test_writing_is_refused_and_says_where_to_write(
        self, filled: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(filled, URL)
        remote = Collection.open(URL)
        (folder / "d.txt").write_text("new")
        for write in (
            lambda: add(remote, [folder]),
            lambda: remove(remote, ["a.txt"]),
            lambda: prune(remote),
            lambda: compact(remote),
            lambda: verify(remote),
            lambda: publish(remote, f"{URL}/copy"),
            lambda: remote.item_table.delete("true"),
        ):
            with pytest.raises(CollectionError, match=r"published and read-only.*vrag index publish"):
                write()
        assert everything(remote) == everything(filled)
        with pytest.raises(CollectionError, match="vrag index publish"):
            Collection.create(URL)

    def test_no_picture_leads_out_of_the_items(self, filled: Collection) -> None:
        publish(filled, URL)
        remote = Collection.open(URL)
        for name in (
            "", ".", "..", "../collection.json", "a/../../b", "/etc/passwd", "a//b", "a/./b", "..\\b",
            "a\0b", "%2e%2e/b", "a?versionId=1", "a/", "a/..",
        ):  # fmt: skip
            for stored in (remote.stored, stored_name):
                with pytest.raises(CollectionError, match="outside"):
                    stored(name)

    def test_a_missing_picture_says_what_to_do(self, filled: Collection) -> None:
        publish(filled, URL)
        remote = Collection.open(URL)
        item = next(
            item for item in filled.items(filled.scan(["id"]).data["id"].to_pylist()).values() if item.image
        )
        Objects(URL).delete(f"items/{item.image}")
        with pytest.raises(CollectionError, match=r"cannot be opened.*vrag index publish"):
            remote.image(item.id)
        assert publish(filled, URL).files == 1
        assert remote.image(item.id).size == (40, 30)

    def test_items_are_found_by_id_and_others_are_not(self, filled: Collection) -> None:
        publish(filled, URL)
        remote = Collection.open(URL)
        ids = filled.scan(["id"]).data["id"].to_pylist()
        asked = [ids[3], "nobody", ids[0], ids[3], "", "it's", "\ud800", f"{ids[0]}\0"]
        assert remote.items(asked).keys() == {ids[0], ids[3]}
        assert remote.items([]) == {}
        with pytest.raises(SearchError, match="There is no item"):
            remote.item(f"{ids[0]}\0")

    def test_a_record_that_was_replaced_while_it_was_read_is_read_again(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read that began before the new record was written is cut at the length of the old one."""
        publish(filled, URL)
        whole, cuts = Objects(URL).read("published.json") or b"", iter([100, 200])

        def read(_objects: Objects, _name: str) -> bytes:
            return whole[: next(cuts, None)]

        monkeypatch.setattr(Objects, "read", read)
        record = PublishedRecord.read(Objects(URL))
        assert record is not None
        assert record.current.number == 1

    @pytest.mark.slow
    def test_a_large_picture_is_read_in_parts(self, filled: Collection) -> None:
        publish(filled, URL)
        noise = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8).tobytes()
        Objects(URL).write("items/big.bin", noise)
        with Collection.open(URL).stored("big.bin") as file:
            file.seek(2_000_000)
            assert file.read(10) == noise[2_000_000:2_000_010]
            file.seek(0)
            assert file.read() == noise


class TestPublishing:
    def test_only_what_is_missing_is_uploaded(self, filled: Collection, folder: Path) -> None:
        publish(filled, URL)
        again = publish(filled, URL)
        assert (again.number, again.fresh, again.files, again.bytes) == (1, False, 0, 0)
        (folder / "d.txt").write_text("black berry")
        add(filled, [folder])
        more = publish(filled, URL)
        assert (more.number, more.fresh) == (2, True)
        assert 1 <= more.files < 6
        assert more.present > 3
        assert everything(Collection.open(URL)) == everything(filled)

    def test_nothing_that_belongs_to_no_version_is_uploaded(self, filled: Collection) -> None:
        publish(filled, URL)
        names = Objects(URL).list()
        assert not [name for name in names if "leftover" in name or "_transactions" in name]
        assert sum("_versions" in name for name in names) == 2
        compact(filled, AT_ONCE)
        publish(filled, URL, prune=ALL)
        there = [name for name in Objects(URL).list() if "/data/" in name]
        assert len(there) == 2, "one file for each table; on the disk older ones may wait to be cleared"

    @pytest.mark.slow
    def test_many_small_files_are_merged_before(
        self, filled: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("vrag.index.remote.publish.MAX_PIECES", 4)
        for number in range(4):
            (folder / f"more {number}.txt").write_text(f"more {number}")
            add(filled, [folder / f"more {number}.txt"])
        report = publish(filled, URL)
        data = [name for name in Objects(URL).list() if "/items.lance/data/" in name]
        assert (len(data), report.fresh) == (1, True)
        assert everything(Collection.open(URL)) == everything(filled)

    def test_progress_is_told_file_by_file(self, filled: Collection) -> None:
        told: list[tuple[int, int]] = []
        report = publish(filled, URL, progress=lambda done, of: told.append((done, of)))
        assert told == [(done, report.files) for done in range(1, report.files + 1)]

    @pytest.mark.slow
    def test_pruning_leaves_what_is_published_and_takes_the_rest(
        self, filled: Collection, folder: Path
    ) -> None:
        publish(filled, URL)
        before = Objects(URL).list().keys()
        (folder / "a.txt").write_text("red apple")
        remove(filled, [folder / "b.txt"])
        add(filled, [folder / "a.txt"])
        compact(filled, AT_ONCE)
        Objects(URL).write("notes.txt", b"somebody else's")
        kept = publish(filled, URL, prune=timedelta(hours=1))
        assert kept.pruned == 0
        assert before <= Objects(URL).list().keys()
        report = publish(filled, URL, prune=ALL)
        after = Objects(URL).list()
        assert report.pruned == len(before - after.keys()) > 3
        assert "notes.txt" in after
        assert everything(Collection.open(URL)) == everything(filled)
        record = PublishedRecord.read(Objects(URL))
        assert record is not None
        assert record.former == ()

    @pytest.mark.slow
    def test_a_reader_whose_version_is_pruned_goes_on_with_the_newest(
        self, filled: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        monkeypatch.setattr(remote_collection, "FRESH_SECONDS", 3600.0)
        remotes = [Collection.open(URL) for _ in range(3)]
        (folder / "b.txt").write_text("purple pear")
        add(filled, [folder])
        compact(filled, AT_ONCE)
        publish(filled, URL, prune=ALL)
        assert found(remotes[0], "pear") == ["b.txt 1"]
        (rows,) = remotes[1].item_table.batches(["id"], 100)
        assert sorted(rows["id"].to_pylist()) == sorted(filled.scan(["id"]).data["id"].to_pylist())
        assert everything(remotes[2]) == everything(filled)

    def test_other_settings_are_refused(
        self, filled: Collection, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        publish(filled, URL)
        other = Collection.create(tmp_path / "other", CorpusOptions(dpi=72))
        with pytest.raises(FingerprintMismatch, match="another URL"):
            publish(other, URL)
        assert everything(Collection.open(URL)) == everything(filled)

    def test_an_import_that_got_its_embedder_is_published_in_place(
        self, storage: Storage, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        embedder = HashEmbedder(VectorKind.SINGLE, 8)
        mark = replace(EmbedderRecord.of(embedder), name="imported", fingerprint=f"{IMPORTED}old")
        local = Collection.create(tmp_path / "imported", embedder=mark)
        publish(local, URL)
        header = replace(local.header, embedder=EmbedderRecord.of(embedder))
        header.write(local.directory)
        report = publish(Collection.open(local.directory), URL)
        assert (report.number, report.fresh) == (2, True)
        assert Collection.open(URL).header.embedder == header.embedder
        with pytest.raises(FingerprintMismatch):
            publish(local_with(tmp_path / "third", HashEmbedder(VectorKind.SINGLE, 8, 1)), URL)

    @pytest.mark.slow
    def test_a_copy_that_went_its_own_way_replaces_the_other_whole(
        self, storage: Storage, tmp_path: Path, folder: Path, conversion: FakeConversion
    ) -> None:
        """Both have the same version numbers, which name different things."""
        copies = [Collection.create(tmp_path / name) for name in ("one", "two")]
        remote = None
        for number, copy in enumerate(copies):
            (folder / "a.txt").write_text(f"pic apple {number}")
            add(copy, [folder])
            publish(copy, URL)
            remote = remote or Collection.open(URL)
            assert everything(remote) == everything(copy)
        assert copies[0].table_version == copies[1].table_version
        publish(copies[0], URL, prune=ALL)
        assert remote is not None
        assert everything(remote) == everything(copies[0])
        tables = {name.split("/")[0] for name in Objects(URL).list() if ".lance" in name}
        assert len(tables) == 1

    def test_a_missing_picture_on_this_machine_is_told_and_nothing_changes(self, filled: Collection) -> None:
        next(filled.items_dir.rglob("*.png")).unlink()
        with pytest.raises(CollectionError, match="vrag index verify --repair"):
            publish(filled, URL)
        with pytest.raises(CollectionError, match="No collection is published"):
            Collection.open(URL)

    @pytest.mark.slow
    def test_what_cannot_be_read_back_is_not_made_public(
        self, filled: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when LanceDB came to name its files in another way."""
        publish(filled, URL)
        before = everything(Collection.open(URL))
        (folder / "d.txt").write_text("black berry")
        add(filled, [folder])
        monkeypatch.setattr("vrag.index.tables.version_files.refers", refers_to_nothing)
        with pytest.raises(CollectionError):
            publish(filled, URL)
        assert everything(Collection.open(URL)) == before


def local_with(directory: Path, embedder: HashEmbedder) -> Collection:
    return Collection.create(directory, embedder=embedder)


def refers_to_nothing(_manifest: bytes, _name: str) -> bool:
    return False


CHILD = """
import sys, time
from vrag.index.remote import publish
from vrag.index.collection import Collection
publish.AT_ONCE = 1
publish.publish(Collection.open(sys.argv[1]), sys.argv[2])
"""


def start(collection: Collection, storage: Storage) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(collection.directory), URL]
    return subprocess.Popen(command, env={**os.environ, **environment(storage)}, start_new_session=True)


@pytest.mark.slow
class TestInterruption:
    @pytest.mark.slow
    def test_killed_anywhere_readers_see_the_old_or_the_new_state(
        self, storage: Storage, tmp_path: Path, folder: Path
    ) -> None:
        collection = Collection.create(tmp_path / "big", CorpusOptions(ocr="never", workers=1))
        chance = random.Random(3)
        for number in range(12):
            Image.new("RGB", (64, 48), (number, 0, 0)).save(folder / f"{number}.png")
        add(collection, [folder])
        states: list[object] = [None]
        killed = 0
        for attempt in range(3):
            process, goal = start(collection, storage), len(Objects(URL).list()) + chance.randint(1, 14)
            while process.poll() is None and len(Objects(URL).list()) < goal:
                time.sleep(0.005)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                killed += 1
            process.wait()
            state = everything(Collection.open(URL)) if PublishedRecord.read(Objects(URL)) else None
            assert state in [states[-1], everything(collection)]
            if state == everything(collection):
                states.append(state)
                (folder / f"{attempt}.txt").write_text(f"attempt {attempt}")
                add(collection, [folder])
        publish(collection, URL, prune=ALL)
        assert everything(Collection.open(URL)) == everything(collection)
        assert killed

    def test_two_readers_while_publishing_see_whole_states_only(
        self, storage: Storage, tmp_path: Path, folder: Path, conversion: FakeConversion
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
        torn: list[object] = []

        def read(mine: set[int]) -> None:
            engine = Engine(Collection.open(URL))
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
            for lines in (2, 3, 4, 5, 6):
                (folder / "a.txt").write_text("\n".join(f"of {lines} lines {n}" for n in range(lines)))
                add(collection, [folder])
                publish(collection, URL, prune=timedelta(seconds=30))
        finally:
            over.set()
            for reader in readers:
                reader.join()
        assert torn == []
        assert all(len(mine) >= 2 for mine in seen)


class TestFailures:
    def test_a_missing_bucket_is_named(self, filled: Collection) -> None:
        for act in (lambda: Collection.open("s3://nowhere/x"), lambda: publish(filled, "s3://nowhere/x")):
            with pytest.raises(CollectionError, match="There is no bucket nowhere"):
                act()

    def test_nothing_published_says_how_to(self, storage: Storage) -> None:
        with pytest.raises(CollectionError, match=r"No collection is published at .*vrag index publish"):
            Collection.open(f"{URL}/nothing")

    @pytest.mark.parametrize(
        "url", ["s3://", "s3:///x", "ftp://x/y", "s3://b/../c", "s3://b/c?x=1", "http://b/c"]
    )
    def test_an_address_that_is_none_is_refused(self, url: str, storage: Storage) -> None:
        with pytest.raises(CollectionError, match="not an address in object storage"):
            Collection.open(url)

    def test_wrong_keys_are_told(
        self, filled: Collection, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        remote = Collection.open(URL)
        storage.demand_keys()
        for act in (lambda: Collection.open(URL), lambda: publish(filled, URL), lambda: remote.scan(["id"])):
            with pytest.raises(CollectionError, match="AWS_ACCESS_KEY_ID"):
                act()

    def test_a_damaged_record_and_a_newer_one_are_told(self, filled: Collection) -> None:
        for content, message in ((b"{", "damaged"), (b'{"schema": 9}', "newer version"), (b"[]", "damaged")):
            Objects(URL).write("published.json", content)
            with pytest.raises(CollectionError, match=message):
                Collection.open(URL)

    @pytest.mark.slow
    def test_every_flipped_bit_of_the_record_shows_and_publishing_again_mends_it(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        objects = Objects(URL)
        whole = objects.read("published.json") or b""
        with monkeypatch.context() as patched:
            for bit in range(8 * len(whole)):
                flipped = bytearray(whole)
                flipped[bit // 8] ^= 1 << bit % 8
                patched.setattr(Objects, "read", reading(bytes(flipped)))
                with pytest.raises(CollectionError, match=r"published\.json is damaged.*Publish it again"):
                    PublishedRecord.read(objects)
        objects.write("published.json", whole[:-9])
        assert publish(filled, URL).fresh
        assert everything(Collection.open(URL)) == everything(filled)

    def test_a_record_of_an_earlier_version_of_vrag_is_read(self, filled: Collection) -> None:
        publish(filled, URL)
        record = json.loads(Objects(URL).read("published.json") or b"")
        del record["checksum"]
        Objects(URL).write("published.json", json.dumps(record, indent=2).encode())
        assert everything(Collection.open(URL)) == everything(filled)
        assert not publish(filled, URL).fresh

    def test_wrong_types_in_a_record_are_told(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        objects = Objects(URL)
        record = json.loads(objects.read("published.json") or b"")
        for name in record["current"]:
            wrong: tuple[object, ...] = (None, [], {}, "x", True, float("inf"))
            for value in wrong:
                data = seal_json(record | {"current": record["current"] | {name: value}})
                monkeypatch.setattr(Objects, "read", reading(data))
                with pytest.raises(CollectionError, match=r"published\.json is damaged"):
                    PublishedRecord.read(objects)

    @pytest.mark.slow
    def test_a_server_that_goes_and_comes_back_is_told_and_read_again(
        self, filled: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("vrag.index.remote.object_storage._ATTEMPTS", 1)
        server: Any = importlib.import_module("moto.server").ThreadedMotoServer
        first = server(ip_address="127.0.0.1", port=0, verbose=False)
        first.start()
        host, port = first.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        publish(filled, URL)
        here = everything(filled)
        remote = Collection.open(URL)
        assert everything(remote) == here
        first.stop()
        for fresh in (0.0, 3600.0):  # the record cannot be read; the tables cannot
            monkeypatch.setattr(remote_collection, "FRESH_SECONDS", fresh)
            with pytest.raises(CollectionError, match="Check the network"):
                remote.scan(["id", "text"])
            with pytest.raises(CollectionError, match="Check the network"):
                remote.stored("2babc0f779d34e7f/1.png").read()
        second = server(ip_address="127.0.0.1", port=port, verbose=False)
        second.start()
        assert everything(remote) == here
        second.stop()

    def test_an_unreachable_server_is_told_and_reading_goes_on_when_it_is_back(
        self, filled: Collection, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(filled, URL)
        monkeypatch.setattr("vrag.index.remote.object_storage._ATTEMPTS", 1)
        with monkeypatch.context() as gone:
            gone.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            for act in (lambda: Collection.open(URL), lambda: publish(filled, URL)):
                with pytest.raises(CollectionError, match=r"Check the network, AWS_ENDPOINT_URL"):
                    act()
        assert everything(Collection.open(URL)) == everything(filled)
