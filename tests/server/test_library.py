"""Collections and documents are listed, made, removed and deleted over HTTP, and nothing else is."""

from __future__ import annotations

import hashlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NoReturn

import httpx
import pytest
from library_harness import FIRST, Lines, first_collection, library, until
from stored_items import count_items

from vrag.errors import CollectionBusy, CollectionError, SearchError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.server.collections import service
from vrag.server.collections.uploads import UploadLimits
from vrag.types import Query

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.server.collections.registry import DocumentPages, OpenCollection

UNKNOWN = "0" * 64


def refuse(*_: object) -> NoReturn:
    """What a full disk does."""
    raise CollectionError("There is no room.", "Make some.")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class TestCollections:
    def test_are_listed_with_what_can_be_found_in_them(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "one\ntwo")
            assert desk.client.get("/collections").json() == {
                "collections": [
                    {
                        "name": FIRST,
                        "documents": 1,
                        "items": 2,
                        "readable": True,
                        "writable": True,
                        "removable": False,
                        "embedder": None,
                        "reason": None,
                    }
                ],
                "creatable": True,
                "reason": None,
                "not_creatable": None,
            }

    def test_made_ones_can_be_filled_and_searched_at_once(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            made = desk.client.post("/collections", json={"name": "slides"})
            assert (made.status_code, made.json()["removable"]) == (201, True)
            desk.added("deck.md", "whales", "slides")
            assert desk.found("whales") == ["deck.md"]
            body = {"queries": "whales", "search_corpus": "slides"}
            assert desk.client.post("/search", json=body).json()["results"][0]["data"]
            body["search_corpus"] = FIRST
            assert not desk.client.post("/search", json=body).json()["results"][0]["data"]

    def test_made_ones_are_there_at_the_next_start(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            desk.added("deck.md", "whales", "slides")
        with library(tmp_path) as desk:
            assert desk.shelf.names == (FIRST, "slides")
            assert desk.found("whales") == ["deck.md"]

    @pytest.mark.parametrize(
        "name", ["", "A", "../up", "a/b", "a b", ".a", "-a", "a" * 65, "ä", "a\n", "a\0", "con.", None, 7, []]
    )
    def test_of_impossible_names_are_not_made(self, tmp_path: Path, name: object) -> None:
        with library(tmp_path) as desk:
            answer = desk.client.post("/collections", json={"name": name})
            assert answer.status_code == 422
            assert [path.name for path in (tmp_path / "shelves").iterdir()] == [FIRST]

    def test_do_not_take_a_name_that_is_taken(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            (tmp_path / "shelves" / "mine").mkdir()
            for name in (FIRST, "mine"):
                answer = desk.client.post("/collections", json={"name": name})
                assert (answer.status_code, answer.json()["detail"]) == (409, f"The name {name} is taken.")

    def test_made_ones_can_be_deleted_with_all_that_is_in_them(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            desk.added("deck.md", "whales", "slides")
            assert desk.client.delete("/collections/slides").status_code == 204
            assert desk.found("whales") == []
            assert desk.client.get("/collections/slides/documents").status_code == 404
            until(lambda: [path.name for path in (tmp_path / "shelves").iterdir()] == [FIRST])

    def test_can_be_deleted_while_one_of_their_documents_is_read(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            lines.go.clear()
            desk.put("deck.md", "one\ntwo\nthree", "slides")
            assert lines.began.acquire(timeout=120)
            threading.Timer(0.3, lines.go.set).start()
            assert desk.client.delete("/collections/slides").status_code == 204
            assert desk.shelf.names == (FIRST,)

    def test_that_cannot_be_deleted_now_go_on_with_what_waits(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines, limits=UploadLimits(stop_seconds=0.2)) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            lines.go.clear()
            jobs = [desk.put(name, "whales\ndive", "slides") for name in ("a.md", "b.md")]
            assert lines.began.acquire(timeout=120)
            assert desk.client.delete("/collections/slides").status_code == 409
            lines.go.set()
            assert [desk.ended(job)["state"] for job in jobs] == ["finished"] * 2
            desk.wait_for_writer("slides")
            assert desk.client.delete("/collections/slides").status_code == 204

    def test_deleted_by_several_at_once_with_documents_removed_meanwhile(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk, ThreadPoolExecutor(6) as pool:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            lines.go.clear()
            desk.put("a.md", "whales\ndive", "slides")
            assert lines.began.acquire(timeout=120)
            paths = ["/collections/slides", f"/collections/slides/documents/{UNKNOWN}"] * 3
            answers = [pool.submit(desk.client.delete, path) for path in paths]
            threading.Timer(0.5, lines.go.set).start()
            told = [answer.result().status_code for answer in answers]
            assert told[::2].count(204) == 1
            assert set(told) <= {204, 404, 409, 503}
            assert desk.shelf.names == (FIRST,)

    def test_deleted_while_a_document_is_looked_for_do_not_have_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        find_pages = service._pages  # pyright: ignore[reportPrivateUsage]

        def delete_and_find(open_collection: OpenCollection, id: str) -> DocumentPages | None:
            while open_collection.name == "slides" and "slides" in desk.shelf.names:
                with suppress(CollectionBusy):  # the thread that added the document may not be done
                    desk.shelf.drop("slides")
            return find_pages(open_collection, id)

        with library(tmp_path) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            desk.added("a.md", "whales", "slides")
            monkeypatch.setattr(service, "_pages", delete_and_find)
            assert desk.client.get(f"/documents/{UNKNOWN}").status_code == 404
            assert desk.shelf.names == (FIRST,)

    def test_made_again_under_the_same_name_are_written_to_anew(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for text in ("whales", "birds"):
                desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
                desk.added("a.md", text, "slides")
                assert desk.found(text) == ["a.md"]
                assert len(desk.jobs("slides")) == 1
                desk.client.delete("/collections/slides").raise_for_status()

    def test_that_another_process_writes_to_are_not_deleted(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            with Collection.open(tmp_path / "shelves" / "slides").build():
                assert desk.client.delete("/collections/slides").status_code == 409
            desk.added("deck.md", "whales", "slides")
            assert desk.found("whales") == ["deck.md"]

    def test_named_at_the_start_are_never_deleted(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            answer = desk.client.delete(f"/collections/{FIRST}")
            assert answer.status_code == 409
            assert Collection.open(tmp_path / "shelves" / FIRST)

    def test_that_are_unknown_are_not_found(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for method, path in (
                ("DELETE", "/collections/none"),
                ("GET", "/collections/none/documents"),
                ("GET", "/collections/none/jobs"),
                ("PUT", "/collections/none/documents/a.md"),
                ("DELETE", f"/collections/none/documents/{UNKNOWN}"),
            ):
                assert desk.client.request(method, path, content=b"x").status_code == 404

    def test_of_another_server_are_not_managed_here(self, tmp_path: Path) -> None:
        with library(tmp_path, search_url="http://127.0.0.1:9/search") as desk:
            listed = desk.client.get("/collections").json()
            assert (listed["collections"], listed["creatable"]) == ([], False)
            assert "forwards searches" in listed["reason"]
            for method, path in (
                ("DELETE", f"/collections/{FIRST}"),
                ("GET", f"/collections/{FIRST}/documents"),
                ("PUT", f"/collections/{FIRST}/documents/a.md"),
                ("GET", f"/documents/{UNKNOWN}"),
            ):
                answer = desk.client.request(method, path, content=b"x")
                assert (answer.status_code, answer.json()["detail"]) == (409, listed["reason"])
            assert desk.client.post("/collections", json={"name": "a"}).status_code == 409


class TestACollectionThatIsGoneFromTheDisk:
    def test_is_told_of_and_leaves_the_others_as_they_are(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            kept = desk.added("a.md", "whales")
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            lost = desk.added("b.md", "birds", "slides")
            desk.wait_for_writer("slides")
            shutil.rmtree(tmp_path / "shelves" / "slides")
            first, slides = desk.client.get("/collections").json()["collections"]
            assert (first["documents"], first["writable"], first["reason"]) == (1, True, None)
            assert (slides["documents"], slides["writable"]) == (0, False)
            assert slides["reason"]
            assert str(tmp_path) not in slides["reason"]
            assert desk.client.get(f"/documents/{kept}").status_code == 200
            for method, path in (
                ("GET", f"/documents/{lost}"),
                ("GET", "/collections/slides/documents"),
                ("PUT", "/collections/slides/documents/c.md"),
                ("DELETE", f"/collections/slides/documents/{lost}"),
            ):
                answer = desk.client.request(method, path, content=b"x" if method == "PUT" else b"")
                assert answer.status_code in {404, 503}
                assert str(tmp_path) not in answer.text
            body = {"queries": "whales", "search_corpus": FIRST}
            answer = desk.client.post("/search", json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json()["results"][0]["data"]

    def test_can_be_deleted_and_made_again(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.client.post("/collections", json={"name": "slides"}).raise_for_status()
            desk.added("b.md", "birds", "slides")
            desk.wait_for_writer("slides")
            shutil.rmtree(tmp_path / "shelves" / "slides")
            assert desk.client.delete("/collections/slides").status_code == 204
            assert desk.client.post("/collections", json={"name": "slides"}).status_code == 201
            desk.added("b.md", "whales", "slides")
            assert desk.found("whales") == ["b.md"]


class TestDocuments:
    def test_are_listed_by_name_with_how_they_stand(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for name, text in (("b.md", "one\n!torn"), ("A.md", "one"), ("c.txt", "BAD It is torn.")):
                desk.ended(desk.put(name, text))
            assert [
                (d["name"], d["status"], d["items"], d["problems"], d["uploaded"]) for d in desk.documents()
            ] == [
                ("A.md", "ready", 1, [], True),
                ("b.md", "partial", 1, ["Part 2: torn"], True),
                ("c.txt", "failed", 0, ["It is torn."], True),
            ]

    def test_are_listed_in_parts(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for name in "abc":
                desk.added(f"{name}.md", name)
            answer = desk.client.get(f"/collections/{FIRST}/documents?offset=1&limit=1").json()
            assert ([d["name"] for d in answer["documents"]], answer["total"]) == (["b.md"], 3)

    def test_that_wait_are_listed_as_pending(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            desk.put("a.md", "one")
            assert lines.began.acquire(timeout=120)
            desk.put("b.md", "two")
            assert [(d["name"], d["status"], d["id"]) for d in desk.documents()] == [
                ("a.md", "pending", sha("one")),
                ("b.md", "pending", sha("two")),
            ]

    def test_tell_their_items_in_order(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            document = desk.added("a.md", "\n".join(f"line {n}" for n in range(12)))
            told = desk.client.get(f"/documents/{document}").json()
            assert (told["id"], told["name"], told["collection"]) == (document, "a.md", FIRST)
            assert [item["ordinal"] for item in told["items"]] == list(range(1, 13))
            assert told["items"][0] == {"id": f"{document[:16]}-1", "kind": "passage", "ordinal": 1}

    @pytest.mark.parametrize("id", [UNKNOWN, "0" * 63, "Z" * 64, "' OR 1=1 --", "..%2f..", "%00"])
    def test_that_are_unknown_are_not_found(self, tmp_path: Path, id: str) -> None:
        with library(tmp_path) as desk:
            assert desk.client.get(f"/documents/{id}").status_code in {400, 404, 422}
            removed = desk.client.delete(f"/collections/{FIRST}/documents/{id}")
            assert removed.status_code in {400, 404, 405, 422}

    def test_that_failed_have_no_pages(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            job = desk.ended(desk.put("c.txt", "BAD It is torn."))
            assert desk.client.get(f"/documents/{job['document']}").status_code == 404


class TestRemoval:
    def test_takes_document_items_and_file(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            gone, kept = desk.added("a.md", "whales sing"), desk.added("b.md", "whales dive")
            assert desk.client.delete(f"/collections/{FIRST}/documents/{gone}").status_code == 204
            assert [d["id"] for d in desk.documents()] == [kept]
            assert desk.found("whales") == ["b.md"]
            assert desk.files() == ["b.md"]
            assert desk.client.get(f"/documents/{gone}").status_code == 404

    def test_leaves_files_alone_that_were_not_uploaded(self, tmp_path: Path) -> None:
        own = tmp_path / "own.md"
        own.write_text("whales", encoding="utf-8")
        add(Collection.open(first_collection(tmp_path)), [own])
        with library(tmp_path) as desk:
            [document] = desk.documents()
            assert not document["uploaded"]
            desk.client.delete(f"/collections/{FIRST}/documents/{document['id']}").raise_for_status()
            assert desk.documents() == []
        assert own.read_text(encoding="utf-8") == "whales"

    def test_of_one_content_takes_all_its_names_or_the_one_that_is_meant(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for name in ("a.md", "b.md", "c.md"):
                document = desk.added(name, "the same")
            path = f"/collections/{FIRST}/documents/{document}"
            assert [(d["name"], d["id"]) for d in desk.documents()] == [
                (name, document) for name in ("a.md", "b.md", "c.md")
            ]
            assert desk.client.delete(path, params={"file": "b.md"}).status_code == 204
            assert [d["name"] for d in desk.documents()] == ["a.md", "c.md"] == desk.files()
            assert desk.found("same") == ["a.md"]
            assert desk.client.delete(path, params={"file": "a.md"}).status_code == 204
            assert [d["name"] for d in desk.documents()] == ["c.md"] == desk.files() == desk.found("same")
            assert desk.client.get(f"/documents/{document}").json()["name"] == "c.md"
            assert desk.client.delete(path, params={"file": "b.md"}).status_code == 404
            assert desk.client.delete(path).status_code == 204
            assert desk.documents() == []

    def test_of_what_waits_comes_before_it_is_read(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            first = desk.put("a.md", "one\ntwo")
            assert lines.began.acquire(timeout=120)
            second = desk.put("b.md", "three")
            threading.Timer(0.3, lines.go.set).start()
            answer = desk.client.delete(f"/collections/{FIRST}/documents/{second.json()['document']}")
            assert answer.status_code == 204
            assert desk.ended(second)["message"] == "It was removed."
            assert desk.ended(first)["state"] == "finished"
            assert "three" not in lines.made
            assert desk.files() == ["a.md"]

    def test_of_what_is_being_read_does_not_wait_for_its_end(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            job = desk.put("a.md", "\n".join(f"line {n}" for n in range(500)))
            assert lines.began.acquire(timeout=120)
            threading.Timer(0.3, lines.go.set).start()
            document = job.json()["document"]
            assert desk.client.delete(f"/collections/{FIRST}/documents/{document}").status_code == 204
            assert desk.ended(job)["state"] == "failed"
            assert (desk.documents(), desk.files()) == ([], [])
            assert desk.found("line") == []

    def test_while_another_process_writes_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            document = desk.added("a.md", "whales")
            with desk.locked():
                answer = desk.client.delete(f"/collections/{FIRST}/documents/{document}")
                assert answer.status_code == 409
                assert str(tmp_path) not in answer.text
            assert desk.found("whales") == ["a.md"] == desk.files()

    def test_that_fails_half_way_is_finished_by_the_next_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full disk: the row of the file could be deleted, its items could not."""
        with library(tmp_path) as desk:
            gone = desk.added("a.md", "whales sing")
            with monkeypatch.context() as full:
                full.setattr("vrag.index.maintenance.settle", refuse)
                assert desk.client.delete(f"/collections/{FIRST}/documents/{gone}").status_code == 204
            assert (desk.documents(), desk.files(), desk.found("whales")) == ([], [], [])
            desk.added("b.md", "birds")
            until(lambda: count_items(desk.shelf.collection) == 1)

    def test_that_fails_at_once_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with library(tmp_path) as desk:
            kept = desk.added("a.md", "whales sing")
            with monkeypatch.context() as full:
                full.setattr("vrag.server.collections.index_worker.remove", refuse)
                assert desk.client.delete(f"/collections/{FIRST}/documents/{kept}").status_code == 503
            assert [d["id"] for d in desk.documents()] == [kept]
            assert desk.found("whales") == ["a.md"] == desk.files()

    def test_during_a_run_ends_it_with_nothing_worse_than_a_missing_item(self, tmp_path: Path) -> None:
        faults: list[BaseException] = []
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                try:
                    for hit in desk.shelf.search([Query("whales")], 5)[0]:
                        with suppress(SearchError, CollectionError):
                            desk.shelf.item(hit.item)
                except BaseException as error:  # noqa: BLE001
                    faults.append(error)
                    return

        with library(tmp_path) as desk:
            reader = threading.Thread(target=read)
            reader.start()
            for n in range(6):
                document = desk.added("a.md", f"whales {n}")
                desk.client.delete(f"/collections/{FIRST}/documents/{document}").raise_for_status()
            over.set()
            reader.join(30)
        assert faults == []

    def test_that_a_kill_broke_off_is_finished_at_the_next_start(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            desk.added("b.md", "birds")
            uploads = desk.uploads
        (uploads / "a.md").rename(uploads / ".a.md.gone")
        with library(tmp_path) as desk:
            until(lambda: [d["name"] for d in desk.documents()] == ["b.md"])
            until(lambda: desk.files() == ["b.md"])

    def test_erases_at_the_next_start_what_a_kill_left_of_replaced_contents(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            desk.added("b.md", "birds")
            directory, path = desk.shelf.collection.directory, desk.uploads / "a.md"
        with closing(Collection.open(directory)) as collection:
            with collection.store.change() as change:  # its items go in the next commit
                change.delete_files([str(path)])
            path.unlink()
            assert len(collection.store.read_items(["id"]).values) == 2
        with library(tmp_path) as desk:
            until(lambda: len(desk.shelf.collection.store.read_items(["id"]).values) == 1)

    def test_is_not_what_a_missing_file_means(self, tmp_path: Path) -> None:
        """A disk that is not mounted must not empty the index."""
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            uploads = desk.uploads
        (uploads / "a.md").unlink()
        with library(tmp_path) as desk:
            desk.added("b.md", "birds")
            assert desk.found("whales") == ["a.md"]


class TestMoved:
    def test_collections_keep_what_was_uploaded_to_them(self, tmp_path: Path) -> None:
        with library(tmp_path / "old") as desk:
            document = desk.added("a.md", "whales")
        (tmp_path / "new").mkdir()
        shutil.move(tmp_path / "old" / "shelves", tmp_path / "new" / "shelves")
        with library(tmp_path / "new") as desk:
            until(lambda: [d["uploaded"] for d in desk.documents()] == [True])
            assert desk.lines.made == [], "it is not read again"
            assert desk.found("whales") == ["a.md"]
            desk.client.delete(f"/collections/{FIRST}/documents/{document}").raise_for_status()
            assert (desk.documents(), desk.files()) == ([], [])


def closed(*_: object) -> bool:
    return False


class TestReadOnly:
    def test_collections_say_why_and_refuse(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rights themselves are not asked of the disk: a test may run as one who has them all."""
        first_collection(tmp_path)
        monkeypatch.setattr("os.access", closed)
        with library(tmp_path) as desk:
            [told] = desk.client.get("/collections").json()["collections"]
            assert (told["writable"], told["reason"]) == (
                False,
                "The server has no permission to write to it.",
            )
            for answer in (
                desk.put("a.md", "x"),
                desk.client.delete(f"/collections/{FIRST}/documents/{UNKNOWN}"),
                desk.client.post("/collections", json={"name": "more"}),
            ):
                assert answer.status_code == 409
                assert answer.json()["hint"] == told["reason"]


def test_nothing_of_it_is_told_without_the_token(tmp_path: Path) -> None:
    from vrag.server.options import ServerOptions

    with library(tmp_path, options=ServerOptions(token="secret")) as desk:
        for method, path in (
            ("GET", "/collections"),
            ("POST", "/collections"),
            ("PUT", f"/collections/{FIRST}/documents/a.md"),
            ("GET", f"/documents/{UNKNOWN}"),
            ("GET", "/jobs/0123456789abcdef"),
        ):
            assert desk.client.request(method, path, content=b"x").status_code == 401
        assert desk.files() == []


def test_lists_come_while_a_document_is_read(tmp_path: Path) -> None:
    lines = Lines()
    with library(tmp_path, lines=lines) as desk:
        lines.go.clear()
        desk.put("a.md", "one")
        assert lines.began.acquire(timeout=120)
        with httpx.Client(base_url=desk.address, timeout=120) as other:
            for path in ("/healthz", "/collections", f"/collections/{FIRST}/documents", "/search?queries=a"):
                assert other.get(path).status_code == 200
