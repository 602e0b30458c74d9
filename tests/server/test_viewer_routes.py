"""What the page viewer asks for: words with their places, matches in a document, and the original file."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from hosting import Scripted
from server_harness import ask
from stored_items import forget_document, put_files, put_items

from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.search.engine import Engine
from vrag.server.app import Service, create_app
from vrag.server.collections.registry import OpenCollection
from vrag.server.item_files import CollectionFiles
from vrag.server.options import ServerOptions
from vrag.server.viewer.routes import DocumentTexts
from vrag.types import Document, DocumentStatus, Item, ItemFacts, ItemKind, item_id

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from fastapi import FastAPI

HOSTILE = 'a"b; filename=x.html\tﬁ\u202e%0d.pdf'
PAGES = (
    text_at(60, 700, "Net revenue grew by four", 12) + text_at(60, 680, "per cent. Revenue was high.", 12),
    text_at(60, 700, "Nothing of that kind.", 12),
    text_at(60, 700, "The NET", 12) + text_at(60, 680, "REVENUE of 2024", 12),
)
UNKNOWN = "0" * 64


@dataclass
class Open:
    """The open collections of a server."""

    open_collections: tuple[OpenCollection, ...]
    absent: str = ""

    def create(self, name: str) -> OpenCollection:
        raise NotImplementedError(name)

    def drop(self, name: str) -> None:
        raise NotImplementedError(name)


@dataclass
class Desk:
    """A server over some collections."""

    folder: Path
    """Where the files lie."""
    collections: tuple[Collection, ...]
    runs: Path
    options: ServerOptions | None = None

    @property
    def collection(self) -> Collection:
        return self.collections[0]

    @cached_property
    def app(self) -> FastAPI:
        opened = (OpenCollection(f"c{number}", each) for number, each in enumerate(self.collections))
        return create_app(
            Engine(self.collection),
            self.options,
            files=CollectionFiles(self.collections),
            service=Service(Scripted(self.runs), Open(tuple(opened))),
        )

    def get(self, path: str, **request: Any) -> httpx.Response:  # noqa: ANN401
        return ask(self.app, "GET", path, **request)

    def id(self, name: str) -> str:
        (document,) = (each for each in self.collection.documents() if each.name == name)
        return document.id

    def item(self, name: str, ordinal: int = 1) -> str:
        return item_id(self.id(name), ordinal)

    def found(self, name: str, text: str) -> list[tuple[int, int]]:
        """Page and number of matches of a search in a document."""
        answer = self.get(f"/documents/{self.id(name)}/find", params={"text": text}).raise_for_status().json()
        assert answer["matches"] == sum(page["matches"] for page in answer["pages"])
        assert [page["id"] for page in answer["pages"]] == [
            self.item(name, page["page"]) for page in answer["pages"]
        ]
        return [(page["page"], page["matches"]) for page in answer["pages"]]


def collection_of(folder: Path, directory: Path) -> Collection:
    collection = Collection.create(directory, CorpusOptions(ocr="never", workers=1))
    assert add(collection, [folder]).failed == 0
    return collection


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("files")
    (folder / "report.pdf").write_bytes(pdf_bytes(*(PdfPage(content) for content in PAGES)))
    (folder / HOSTILE).write_bytes(pdf_bytes(PdfPage(PAGES[1])))
    (folder / "page.html").write_text("<title>T</title><p>Revenue of a page</p><script>alert(1)</script>")
    (folder / "note.md").write_text("# Notes\n\nNet reve-\nnue in a note, and net revenue again.\n")
    collection = collection_of(folder, tmp_path_factory.mktemp("made") / "c")
    return Desk(folder, (collection,), tmp_path_factory.mktemp("runs"))


@pytest.fixture
def desk(read_only: Desk, tmp_path: Path) -> Desk:
    """The same files in a place of their own, to change them."""
    folder = shutil.copytree(read_only.folder, tmp_path / "files")
    return Desk(folder, (collection_of(folder, tmp_path / "c"),), tmp_path / "runs")


class TestWords:
    def test_are_lines_with_places(self, read_only: Desk) -> None:
        (first, second) = read_only.get(f"/items/{read_only.item('report.pdf')}/words").json()["lines"]
        assert "".join(word[0] + word[1] for word in first["words"]) == "Net revenue grew by four\n"
        assert "".join(word[0] + word[1] for word in second["words"]) == "per cent. Revenue was high."
        text, _, x1, y1, x2, y2 = first["words"][0]
        assert text == "Net"
        assert (x1, y2) == pytest.approx((60 / 612, 1 - 700 / 792), abs=0.003)
        assert 0 < x1 < x2 < 1
        assert 0 < y1 < y2 < 1

    def test_are_those_of_the_item(self, read_only: Desk) -> None:
        item = read_only.collection.item(read_only.item("report.pdf", 3))
        lines = read_only.get(f"/items/{item.id}/words").json()["lines"]
        words = [word for line in lines for word in line["words"]]
        assert "".join(word[0] + word[1] for word in words) == item.text
        for word, known in zip(words, item.words, strict=True):
            assert word[2:] == pytest.approx(known.box.as_tuple(), abs=1e-5)

    def test_of_a_text_are_none(self, read_only: Desk) -> None:
        assert read_only.get(f"/items/{read_only.item('note.md')}/words").json() == {"lines": []}

    def test_that_the_client_has_are_not_sent_again(self, read_only: Desk) -> None:
        path = f"/items/{read_only.item('report.pdf')}/words"
        first = read_only.get(path)
        assert "private" in first.headers["cache-control"]
        again = read_only.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    @pytest.mark.parametrize("id", ["0" * 16 + "-1", "0" * 16 + "-9999999999"])
    def test_of_an_unknown_item_are_not_found(self, read_only: Desk, id: str) -> None:
        assert read_only.get(f"/items/{id}/words").status_code == 404

    @pytest.mark.parametrize("id", ["x", "0" * 16, "0" * 16 + "-0", "..%2f..", "0" * 16 + "-1'--"])
    def test_of_what_is_no_id_are_refused(self, read_only: Desk, id: str) -> None:
        assert read_only.get(f"/items/{id}/words").status_code in {404, 422}


class TestFind:
    def test_counts_the_pages_and_places(self, read_only: Desk) -> None:
        assert read_only.found("report.pdf", "revenue") == [(1, 2), (3, 1)]
        assert read_only.found("report.pdf", "net  revenue") == [(1, 1), (3, 1)]
        assert read_only.found("report.pdf", "four per") == [(1, 1)]
        assert read_only.found("report.pdf", "absent") == []
        assert read_only.found("note.md", "net revenue") == [(1, 2)]

    def test_shows_the_words_around(self, read_only: Desk) -> None:
        path = f"/documents/{read_only.id('report.pdf')}/find"
        pages = read_only.get(path, params={"text": "net revenue"}).json()["pages"]
        assert [(page["before"], page["match"], page["after"]) for page in pages] == [
            ("", "Net revenue", " grew by four per cent. Revenue was high."),
            ("The ", "NET REVENUE", " of 2024"),
        ]

    def test_has_the_places_of_a_page(self, read_only: Desk) -> None:
        path = f"/items/{read_only.item('report.pdf', 3)}/find"
        (match,) = read_only.get(path, params={"text": "net revenue"}).json()["matches"]
        item = read_only.collection.item(read_only.item("report.pdf", 3))
        assert item.text[match["start"] : match["end"]] == "NET\nREVENUE"
        boxes = [item.words[1].box.as_tuple(), item.words[2].box.as_tuple()]
        assert match["boxes"] == [pytest.approx(box) for box in boxes]

    def test_has_the_places_of_a_text(self, read_only: Desk) -> None:
        path = f"/items/{read_only.item('note.md')}/find"
        matches = read_only.get(path, params={"text": "revenue"}).json()["matches"]
        text = read_only.collection.item(read_only.item("note.md")).text
        assert [" ".join(text[m["start"] : m["end"]].split()) for m in matches] == ["reve- nue", "revenue"]
        assert all(match["boxes"] == [] for match in matches)

    @pytest.mark.parametrize("text", ["", " ", "x" * 201, "\x1c"])
    def test_of_nothing_or_of_too_much_is_refused(self, read_only: Desk, text: str) -> None:
        for path in (
            f"/documents/{read_only.id('report.pdf')}/find",
            f"/items/{read_only.item('report.pdf')}/find",
        ):
            assert read_only.get(path, params={"text": text}).status_code == 422
            assert read_only.get(path).status_code == 422

    @pytest.mark.parametrize("text", ["-", "\u202e"])
    def test_of_what_is_not_compared_says_what_to_write(self, read_only: Desk, text: str) -> None:
        response = read_only.get(f"/documents/{read_only.id('report.pdf')}/find", params={"text": text})
        assert response.status_code == 422
        assert response.json()["hint"] == "Write letters or digits."

    @pytest.mark.parametrize("text", [".*", "a' OR 1=1 --", "\\", "(((", "%00", "🜚" * 200])
    def test_takes_hostile_words_for_words(self, read_only: Desk, text: str) -> None:
        assert read_only.found("report.pdf", text) == []

    def test_in_an_unknown_document_is_not_found(self, read_only: Desk) -> None:
        assert read_only.get(f"/documents/{UNKNOWN}/find?text=a").status_code == 404
        assert read_only.get("/documents/x/find?text=a").status_code == 422
        assert read_only.get("/items/0000000000000000-1/find?text=a").status_code == 404

    def test_in_a_document_that_was_removed_is_not_found(self, desk: Desk) -> None:
        id = desk.id("report.pdf")
        assert desk.get(f"/documents/{id}/find?text=net").status_code == 200
        forget_document(desk.collection, id)
        assert desk.get(f"/documents/{id}/find?text=net").status_code == 404

    def test_without_collections_says_so(self, read_only: Desk, tmp_path: Path) -> None:
        service = Service(Scripted(tmp_path), Open((), "They lie elsewhere."))
        app = create_app(Engine(read_only.collection), service=service)
        for what in ("find?text=a", "file"):
            response = ask(app, "GET", f"/documents/{UNKNOWN}/{what}")
            assert (response.status_code, response.json()["detail"]) == (409, "They lie elsewhere.")

    def test_of_a_page_that_could_not_be_made_leaves_it_out(self, tmp_path: Path) -> None:
        collection = Collection.create(tmp_path / "c")
        items = [
            Item(
                id=item_id("a" * 64, ordinal),
                document="a" * 64,
                document_name="a.pdf",
                kind=ItemKind.PAGE,
                ordinal=ordinal,
                text=f"page {ordinal}",
            )
            for ordinal in (1, 3)
        ]
        put_items(collection, items)
        row = Document(
            path="/a.pdf",
            id="a" * 64,
            name="a.pdf",
            size=1,
            mtime_ns=1,
            status=DocumentStatus.PARTIAL,
            items=3,
        )
        put_files(collection, [(row, 2)])
        desk = Desk(tmp_path, (collection,), tmp_path / "runs")
        assert desk.found("a.pdf", "page") == [(1, 1), (3, 1)]


class TestFile:
    def get(self, desk: Desk, name: str, **headers: str) -> httpx.Response:
        return desk.get(f"/documents/{desk.id(name)}/file", headers=headers)

    def test_of_a_pdf_opens_in_the_browser(self, read_only: Desk) -> None:
        response = self.get(read_only, "report.pdf")
        assert response.content == (read_only.folder / "report.pdf").read_bytes()
        assert response.headers["content-type"] == "application/pdf"
        assert response.headers["content-disposition"] == "inline; filename*=utf-8''report.pdf"
        assert response.headers["x-content-type-options"] == "nosniff"
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy

    @pytest.mark.parametrize("name", ["page.html", "note.md"])
    def test_of_anything_else_is_a_download_that_is_never_shown(self, read_only: Desk, name: str) -> None:
        response = self.get(read_only, name)
        assert response.content == (read_only.folder / name).read_bytes()
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment; ")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]

    def test_that_is_only_called_pdf_is_a_download(self, desk: Desk) -> None:
        html = b"<script>alert(1)</script>"
        path = desk.folder / "report.pdf"
        path.write_bytes(html)
        document = next(each for each in desk.collection.documents() if each.name == "report.pdf")
        row = replace(document, id=hashlib.sha256(html).hexdigest(), size=len(html))
        put_files(desk.collection, [(row, 3)])
        response = desk.get(f"/documents/{row.id}/file")
        assert response.content == html
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment; ")

    def test_with_a_hostile_name_has_one_plain_header(self, read_only: Desk) -> None:
        response = self.get(read_only, HOSTILE)
        value = response.headers["content-disposition"]
        assert value.startswith("inline; filename*=utf-8''a%22b%3B%20filename%3Dx.html_")
        assert value.isascii()
        assert value.count(";") == 1

    def test_comes_in_parts(self, read_only: Desk) -> None:
        content = (read_only.folder / "report.pdf").read_bytes()
        part = self.get(read_only, "report.pdf", range="bytes=5-9")
        assert (part.status_code, part.content) == (206, content[5:10])
        assert part.headers["content-range"] == f"bytes 5-9/{len(content)}"
        assert part.headers["content-type"] == "application/pdf"
        last = self.get(read_only, "report.pdf", range="bytes=-4")
        assert last.content == content[-4:]

    @pytest.mark.parametrize("range_", ["bytes=9999999-", "bytes=-0"])
    def test_out_of_range_is_refused(self, read_only: Desk, range_: str) -> None:
        assert self.get(read_only, "report.pdf", range=range_).status_code == 416

    @pytest.mark.parametrize("range_", ["bytes=1-2,4-5", "lines=1-2", "bytes=b-a", "bytes=9-1"])
    def test_of_a_range_that_is_none_is_whole(self, read_only: Desk, range_: str) -> None:
        assert self.get(read_only, "report.pdf", range=range_).status_code == 200

    def test_that_the_client_has_is_not_sent_again(self, read_only: Desk) -> None:
        tag = self.get(read_only, "report.pdf").headers["etag"]
        assert self.get(read_only, "report.pdf", **{"if-none-match": tag}).status_code == 304

    def test_that_is_gone_is_not_found_and_says_so(self, desk: Desk) -> None:
        assert self.get(desk, "report.pdf").status_code == 200
        (desk.folder / "report.pdf").unlink()
        response = self.get(desk, "report.pdf")
        assert response.status_code == 404
        assert "no longer where it was indexed" in response.json()["detail"]
        assert str(desk.folder) not in response.text

    def test_is_found_while_another_collection_is_deleted(self, desk: Desk, tmp_path: Path) -> None:
        """A request begins with the collections that there are; one of them is gone when it comes to it."""
        note = tmp_path / "other" / "note.md"
        note.parent.mkdir()
        note.write_text("Another.", encoding="utf-8")
        other = collection_of(note.parent, tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone")

        opened = OpenCollection("gone", other), OpenCollection("c", desk.collection)
        answers = iter((opened, opened[1:]))

        class Deleting(Open):
            def __getattribute__(self, name: str) -> object:
                return next(answers) if name == "open_collections" else super().__getattribute__(name)

        texts = DocumentTexts(Deleting(()))
        assert texts.collections_of(desk.id("note.md")) == [desk.collection]
        with pytest.raises(CollectionError):
            DocumentTexts(Open(opened)).collections_of(desk.id("note.md"))

    def test_that_changed_is_not_found_and_says_so(self, desk: Desk) -> None:
        path = desk.folder / "report.pdf"
        assert self.get(desk, "report.pdf").status_code == 200
        data, status = path.read_bytes(), path.stat()
        path.write_bytes(data[:-2] + b"\n ")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        response = self.get(desk, "report.pdf")
        assert (response.status_code, "has changed" in response.text) == (404, True)

    def test_that_is_a_link_now_is_not_opened(self, desk: Desk) -> None:
        path = desk.folder / "report.pdf"
        path.rename(desk.folder / "moved.pdf")
        path.symlink_to(desk.folder / "moved.pdf")
        assert self.get(desk, "report.pdf").status_code == 404

    def test_that_cannot_be_opened_is_a_sentence_for_people_who_follow_a_link(self, desk: Desk) -> None:
        (desk.folder / "report.pdf").unlink()
        response = self.get(
            desk, "report.pdf", **{"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
        )
        assert response.status_code == 404
        assert response.headers["content-type"].startswith("text/plain")
        assert response.text.startswith("The original cannot be opened. Its file is no longer")

    def test_is_taken_from_another_collection_that_has_it(self, desk: Desk, tmp_path: Path) -> None:
        other = shutil.copytree(desk.folder, tmp_path / "other")
        both = replace(desk, collections=(*desk.collections, collection_of(other, tmp_path / "d")))
        (desk.folder / "report.pdf").unlink()
        assert self.get(both, "report.pdf").content == (other / "report.pdf").read_bytes()

    @pytest.mark.parametrize("id", ["x", "../../etc/passwd", "0" * 63, "G" * 64, "0" * 64 + "x"])
    def test_of_what_is_no_id_is_refused(self, read_only: Desk, id: str) -> None:
        assert read_only.get(f"/documents/{id}/file").status_code in {404, 422}

    def test_of_an_unknown_document_is_not_found(self, read_only: Desk) -> None:
        assert read_only.get(f"/documents/{UNKNOWN}/file").status_code == 404

    def test_needs_the_token(self, read_only: Desk) -> None:
        guarded = replace(read_only, options=ServerOptions(token="secret"))
        id = guarded.id("report.pdf")
        for path in (f"/documents/{id}/file", f"/documents/{id}/find?text=a", f"/items/{id[:16]}-1/words"):
            assert guarded.get(path).status_code == 401
            assert guarded.get(path, headers={"authorization": "Bearer secret"}).status_code == 200


def test_printed_numbers_stand_beside_positions_where_they_are_others(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "c")
    items = [
        Item(
            id=item_id("a" * 64, ordinal),
            document="a" * 64,
            document_name="a.pdf",
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text="harbour fees",
            facts=ItemFacts(label=label),
        )
        for ordinal, label in enumerate(("iv", ""), 1)
    ]
    put_items(collection, items)
    row = Document(
        path="/a.pdf", id="a" * 64, name="a.pdf", size=1, mtime_ns=1, status=DocumentStatus.READY, items=2
    )
    put_files(collection, [(row, 2)])
    desk = Desk(tmp_path, (collection,), tmp_path / "runs")

    first, second = desk.get(f"/documents/{'a' * 64}").json()["items"]
    assert (first["ordinal"], first["page_label"]) == (1, "iv")
    assert "page_label" not in second
    assert [
        page["page_label"] for page in desk.get(f"/documents/{'a' * 64}/find?text=fees").json()["pages"]
    ] == [
        "iv",
        "",
    ]
    assert desk.get(f"/items/{desk.item('a.pdf')}").json()["page_label"] == "iv"
    hits = ask(desk.app, "POST", "/search", json={"queries": "page iv"}).json()["results"][0]["data"]
    assert [(hit["page"], hit.get("page_label")) for hit in hits] == [(1, "iv")]
