from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

import pytest
from fake_conversion import contents
from stored_items import delete_items

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import Modality, embeds_text_only
from vrag.embed.registry import DeferredEmbedder
from vrag.errors import CollectionBusy, CollectionError, FingerprintMismatch, SearchError
from vrag.index.build import add
from vrag.index.catalog import Catalog
from vrag.index.collection import Collection
from vrag.index.location import CollectionHeader, EmbedderRecord, LocalLocation, is_collection
from vrag.index.maintenance import prune, remove
from vrag.index.schema import SCHEMA
from vrag.index.store import CollectionStore
from vrag.testing import HashEmbedder
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from fake_conversion import FakeConversion


class TestOpening:
    def test_what_it_was_built_with_is_remembered(self, tmp_path: Path) -> None:
        options = CorpusOptions(dpi=100, ocr="never", workers=7)
        made = Collection.create(tmp_path / "c", options, embedder=HashEmbedder(dimension=3))

        header = Collection.open(tmp_path / "c").header

        assert (header.options.dpi, header.options.ocr, header.options.workers) == (100, "never", 0)
        assert header.corpus_fingerprint == options.fingerprint
        assert header.embedder == made.header.embedder
        assert header.embedder is not None
        assert header.embedder == EmbedderRecord.of(HashEmbedder(dimension=3))

    def test_a_creation_that_ends_early_leaves_no_collection(self, tmp_path: Path) -> None:
        lock, header = LocalLocation(tmp_path).writer_lock, cast("str", object())
        with pytest.raises(TypeError):  # as if it were killed before what it was built with was written
            CollectionStore.create(tmp_path, lock, header)
        assert not is_collection(tmp_path)
        assert Collection.open_or_create(tmp_path).documents() == []

    def test_the_settings_of_its_embedder_are_remembered(self, tmp_path: Path) -> None:
        settings = {"dtype": "bfloat16", "max_pixels": 602_112}
        Collection.create(tmp_path / "c", embedder=HashEmbedder(settings=settings))
        mark = Collection.open(tmp_path / "c").header.embedder
        assert mark is not None
        assert mark.settings == settings

    def test_the_inputs_of_its_embedder_are_remembered(self, tmp_path: Path) -> None:
        embedder = HashEmbedder(modalities=frozenset({Modality.TEXT}))
        Collection.create(tmp_path / "c", embedder=embedder)
        record = Collection.open(tmp_path / "c").header.embedder
        assert record is not None
        assert embeds_text_only(record)
        opened = DeferredEmbedder(record, lambda: embedder)
        assert opened.modalities == embedder.modalities, "the model itself says what it takes"

    @pytest.mark.parametrize("value", [["taste"], "text", 3, [None]])
    def test_inputs_of_its_embedder_that_do_not_exist_are_damage(self, tmp_path: Path, value: object) -> None:
        collection = Collection.create(tmp_path / "c", embedder=HashEmbedder())
        content = json.loads(collection.header.to_json())
        content["embedder"]["modalities"] = value
        put_header(collection, json.dumps(content))
        with pytest.raises(CollectionError, match="damaged"):
            Collection.open(tmp_path / "c")

    def test_opening_writes_nothing(self, tmp_path: Path) -> None:
        Collection.create(tmp_path / "c")
        before = sorted(tmp_path.rglob("*"))
        collection = Collection.open(tmp_path / "c")
        assert (collection.documents(), collection.items(["x-1"]), collection.version) == ([], {}, 0)
        assert collection.content_version
        assert sorted(tmp_path.rglob("*")) == before

    def test_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(CollectionError, match="no collection"):
            Collection.open(tmp_path / "c")
        with pytest.raises(CollectionError, match="no collection"):
            Collection.open(tmp_path)
        (tmp_path / "file").write_text("x")
        with pytest.raises(CollectionError, match="no collection"):
            Collection.open(tmp_path / "file")

    def test_open_or_create(self, tmp_path: Path) -> None:
        options = CorpusOptions(dpi=100)
        Collection.open_or_create(tmp_path / "c", options)
        assert Collection.open_or_create(tmp_path / "c").header.options.dpi == 100
        assert Collection.open_or_create(tmp_path / "c", options).header.options.dpi == 100
        with pytest.raises(FingerprintMismatch, match=r"dpi 100\.0, not 144\.0|dpi 100, not 144\.0"):
            Collection.open_or_create(tmp_path / "c", CorpusOptions())

    def test_a_directory_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("x")
        with pytest.raises(CollectionError, match=r"not empty \(thesis\.tex\)"):
            Collection.open_or_create(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_where_no_directory_can_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(CollectionError, match="cannot be created"):
            Collection.create(tmp_path / "file" / "c")
        with pytest.raises(CollectionError, match="cannot be stored"):
            Collection.create(tmp_path / os.fsdecode(b"\xff"))

    @pytest.mark.parametrize(
        "left", [[], ["writer.lock"], ["writer-next.lock", "writer.lock", "writer.json"]]
    )
    def test_a_creation_that_was_killed_is_begun_again(self, tmp_path: Path, left: list[str]) -> None:
        for name in left:
            (tmp_path / name).write_text("{")
        Collection.open_or_create(tmp_path)
        assert Collection.open(tmp_path).documents() == []

    def test_a_newer_layout_is_refused(self, tmp_path: Path) -> None:
        collection = Collection.create(tmp_path / "c")
        with collection.store.database.write() as connection:
            connection.pragma("user_version", SCHEMA.version + 1)
        with pytest.raises(CollectionError, match=r"newer version.*pip install"):
            Collection.open(tmp_path / "c")

    def test_an_older_layout_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "collection.json").write_text("{}")
        for open_one in (Collection.open, Collection.open_or_create):
            with pytest.raises(CollectionError, match=r"earlier version.*again"):
                open_one(tmp_path)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"corpus": {"x": 1}}', "null"])
    def test_a_damaged_header_is_told(self, tmp_path: Path, text: str) -> None:
        put_header(Collection.create(tmp_path / "c"), text)
        with pytest.raises(CollectionError, match="damaged"):
            Collection.open_or_create(tmp_path / "c")

    def test_header_round_trip(self) -> None:
        header = CollectionHeader.of(CorpusOptions(max_pages=3), HashEmbedder())
        assert CollectionHeader.parse(header.to_json(), "here") == header


def put_header(collection: Collection, text: str) -> None:
    with collection.store.change() as change:
        change.put_header(text)


class TestLock:
    def test_is_held_once_and_given_back(self, collection: Collection) -> None:
        with collection.build():
            with pytest.raises(CollectionBusy, match=str(os.getpid())), collection.build():
                pass
            with pytest.raises(CollectionBusy), Collection.open(collection.directory).build():
                pass
        with collection.build():
            pass
        assert not (collection.directory / "build.json").exists()

    @pytest.mark.slow
    def test_another_process_is_named(self, collection: Collection) -> None:
        code = (
            "import sys; from vrag.index.collection import Collection\n"
            "with Collection.open(sys.argv[1]).build(): print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(collection.directory)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            with pytest.raises(CollectionBusy, match=f"process {process.pid} on"), collection.build():
                pass
            process.kill()
            process.communicate()
        with collection.build():
            pass

    def test_another_process_is_waited_for_and_named(
        self, collection: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patient, messages = Collection.open(collection.directory, wait=60), list[str]()
        other = ExitStack()

        def warn(_level: int, message: str, *values: object) -> None:
            messages.append(message % values)
            other.close()

        monkeypatch.setattr("vrag.storage.writer_lock.log.log", warn)
        other.enter_context(collection.build())
        with patient.build():
            pass
        (message,) = messages
        assert re.search(rf" \(process {os.getpid()} on .*\)\. Waiting for it, up to 60 s\.$", message)

    def test_the_wait_has_an_end(self, collection: Collection, caplog: pytest.LogCaptureFixture) -> None:
        short = Collection.open(collection.directory, wait=0.05)
        with collection.build(), pytest.raises(CollectionBusy, match=r"did not end within 0\.05 s"):
            remove(short, ["a.txt"])
        assert "Waiting for it" in caplog.text


class TestReading:
    def test_items_that_do_not_exist_are_absent(
        self, collection: Collection, folder: Path, conversion: object
    ) -> None:
        (folder / "a.txt").write_text("one\ntwo")
        add(collection, [folder])
        (document,) = collection.documents()
        ids = [f"{document.id[:16]}-{n}" for n in (2, 1, 9)]
        assert set(collection.items([*ids, *ids])) == set(ids[:2])
        assert collection.item(ids[0]).text == "two"
        with pytest.raises(SearchError, match="no item"):
            collection.item(ids[2])

    def test_a_copy_is_a_collection_of_its_own(
        self, collection: Collection, folder: Path, tmp_path: Path, conversion: object
    ) -> None:
        import shutil

        (folder / "a.txt").write_text("one\npic two")
        add(collection, [folder])
        shutil.copytree(collection.directory, tmp_path / "copy")
        copy = Collection.open(tmp_path / "copy")
        assert contents(copy) == contents(collection)
        assert copy.content_version == collection.content_version
        (folder / "b.txt").write_text("three")
        add(copy, [folder])
        assert len(copy.documents()) == 2
        assert len(collection.documents()) == 1

    def test_content_version_depends_on_content_alone(
        self, tmp_path: Path, folder: Path, conversion: object
    ) -> None:
        first, second = Collection.create(tmp_path / "1"), Collection.create(tmp_path / "2")
        for name in ("a", "b"):
            (folder / f"{name}.txt").write_text(name)
            add(first, [folder])
        add(second, [folder])
        assert first.version != second.version
        assert first.content_version == second.content_version
        other = Collection.create(tmp_path / "3", embedder=HashEmbedder(dimension=3))
        assert other.content_version != Collection.create(tmp_path / "4").content_version

    def test_content_version_tells_a_new_name(
        self, collection: Collection, folder: Path, conversion: object
    ) -> None:
        path = folder / "a.txt"
        path.write_text("one")
        add(collection, [folder])
        before = collection.content_version
        path.rename(folder / "b.txt")
        add(collection, [folder])
        prune(collection)
        assert collection.content_version != before

    def test_content_version_tells_items_of_a_file_that_is_only_begun(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        (folder / "a.txt").write_text("one\ntwo\nthree")
        versions = [collection.content_version]

        def stop(id: str) -> None:
            if id.endswith(f"-{len(versions) + 1}"):
                raise KeyboardInterrupt

        conversion.before_item = stop
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                add(collection, [folder])
            versions.append(collection.content_version)
        assert collection.documents()[0].status is DocumentStatus.PENDING
        add(collection, [folder])
        versions.append(collection.content_version)
        assert len(set(versions)) == 4

    def test_content_version_tells_which_item_is_missing(
        self, tmp_path: Path, folder: Path, conversion: object
    ) -> None:
        (folder / "a.txt").write_text("one\ntwo")
        versions: set[str] = set()
        for missing in range(3):
            collection = Collection.create(tmp_path / str(missing))
            add(collection, [folder])
            gone = collection.store.read_items(["id"], "ordinal = ?", [missing]).column("id")
            delete_items(collection, *gone)
            versions.add(collection.content_version)
        assert len(versions) == 3

    def test_content_version_is_read_once_per_version_of_the_tables(
        self, collection: Collection, folder: Path, conversion: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        version = collection.content_version
        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "load", None)
            assert collection.content_version == version
        (folder / "a.txt").write_text("one")
        add(collection, [folder])
        assert collection.content_version != version


class TestDisk:
    @pytest.mark.slow
    def test_a_full_disk_is_told_and_what_is_committed_stays(
        self, collection: Collection, folder: Path, tmp_path: Path
    ) -> None:
        """A limit on the size of files stands for the full disk: both end in a failed write."""
        code = (
            "import resource, sys\n"
            "from vrag.errors import CollectionError\n"
            "from vrag.index.collection import Collection\n"
            "from vrag.types import Item, ItemKind, item_id\n"
            "import random\n"
            "def rows(document, n):\n"
            "    r = random.Random(1)\n"
            "    items = [Item(id=item_id(document, i), document=document, document_name='d', ordinal=i,\n"
            "        kind=ItemKind.PASSAGE, text=r.randbytes(500).hex()) for i in range(1, n + 1)]\n"
            "    with c.store.change() as change:\n"
            "        change.put_items((item, None) for item in items)\n"
            "c = Collection.open(sys.argv[1])\n"
            "rows('a' * 64, 3)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
            "try:\n"
            "    rows('b' * 64, 3000)\n"
            "except CollectionError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(collection.directory)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "could not be written" in done.stdout
        assert "Free some" in done.stdout
        assert collection.store.read_items(["document"]).column("document") == ["a" * 64] * 3
