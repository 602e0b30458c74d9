from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from server_harness import ask, dial, serving
from stored_collection import FILM, SECRET, Stored, id_of, stored
from stored_items import blob_path

from vrag.geometry import Size, View, draw_view, smart_resize
from vrag.search.engine import Engine
from vrag.search.schema import ItemInfo
from vrag.server.app import create_app
from vrag.server.item_files import CollectionFiles, in_folder, linked, plain_name
from vrag.server.items import file_response
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI

    from vrag.server.item_files import Naming

TEXT, SCAN, CHART, CLIP = id_of("note.md"), id_of("scan.pdf"), id_of("chart.png"), id_of("film.mp4")
OUTSIDE = ["away.pdf", "root.pdf", "link.pdf"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("desk"))


def app_of(desk: Stored, naming: Naming = plain_name) -> FastAPI:
    files = CollectionFiles([desk.collection])
    return create_app(Engine(desk.collection), files=files, naming=naming)


def get(desk: Stored, path: str, **request: Any) -> httpx.Response:  # noqa: ANN401
    return ask(app_of(desk), "GET", path, **request)


def entries(desk: Stored, naming: Naming) -> dict[str, dict[str, Any]]:
    body = {"queries": "ferry", "top_k": 20}
    found = ask(app_of(desk, naming), "POST", "/search", json=body).json()["results"][0]["data"]
    return {entry["document_name"]: entry for entry in found}


class TestItem:
    def test_tells_all_that_is_known(self, desk: Stored) -> None:
        told = get(desk, f"/items/{SCAN}", params={"words": True}).json()
        assert told["words"] == [[0, 5, 0.125, 0.25, 0.5, 0.75]]
        assert (told["kind"], told["page"], told["width"], told["height"]) == ("page", 1, 400, 300)
        assert told["image"] == f"/items/{SCAN}/image"

    def test_lists_words_only_when_asked(self, desk: Stored) -> None:
        assert "words" not in get(desk, f"/items/{SCAN}").json()

    def test_tells_of_a_clip_its_times(self, desk: Stored) -> None:
        assert get(desk, f"/items/{CLIP}").json()["clip"] == {
            "start": 60.0,
            "end": 120.0,
            "frames": [60.0, 75.5],
            "url": f"/items/{CLIP}/clip",
        }

    def test_comes_back_as_it_was(self, desk: Stored) -> None:
        for name in (SCAN, TEXT):
            told = ItemInfo.model_validate_json(get(desk, f"/items/{name}?words=1").content).as_item()
            known = desk.collection.item(name)
            assert (told.text, told.words, told.size, told.uid) == (
                known.text,
                known.words,
                known.size,
                known.uid,
            )
            assert (told.heading, told.text_source, told.kind) == (
                known.heading,
                known.text_source,
                known.kind,
            )

    def test_of_an_unknown_id_is_not_found(self, desk: Stored) -> None:
        for part in ("", "/image", "/clip"):
            assert get(desk, f"/items/{'0' * 16}-1{part}").status_code == 404


class TestImage:
    def test_in_full_is_the_stored_file(self, desk: Stored) -> None:
        for name, kind in ((SCAN, "image/jpeg"), (CHART, "image/png")):
            response = get(desk, f"/items/{name}/image")
            path = desk.collection.item(name).image
            assert response.headers["content-type"] == kind
            assert response.content == blob_path(desk.collection, path).read_bytes()

    def test_smaller_is_drawn_by_the_one_rule(self, desk: Stored) -> None:
        response = get(desk, f"/items/{CHART}/image", params={"max_pixels": 20_000})
        size = smart_resize(Size(400, 300), factor=1, min_pixels=1, max_pixels=20_000)
        whole = desk.collection.image(CHART)
        with Image.open(io.BytesIO(response.content)) as image:
            assert image.size == size
            assert image.tobytes() == draw_view(whole, View.whole(Size(400, 300), size)).tobytes()

    def test_keeps_its_format_when_made_smaller(self, desk: Stored) -> None:
        assert get(desk, f"/items/{SCAN}/image?max_pixels=999").headers["content-type"] == "image/jpeg"

    def test_is_not_made_larger(self, desk: Stored) -> None:
        whole = get(desk, f"/items/{SCAN}/image").content
        assert get(desk, f"/items/{SCAN}/image?max_pixels=120000").content == whole

    def test_that_the_client_has_is_not_sent_again(self, desk: Stored) -> None:
        for query in ("", "?max_pixels=5000"):
            tag = get(desk, f"/items/{SCAN}/image{query}").headers["etag"]
            again = get(desk, f"/items/{SCAN}/image{query}", headers={"if-none-match": f'"x", W/{tag}'})
            assert (again.status_code, again.content) == (304, b"")
        other = get(desk, f"/items/{SCAN}/image", headers={"if-none-match": tag})
        assert other.status_code == 200

    def test_may_be_kept_by_the_client_alone(self, desk: Stored) -> None:
        assert "private" in get(desk, f"/items/{SCAN}/image").headers["cache-control"]

    def test_of_text_is_not_found_and_says_why(self, desk: Stored) -> None:
        response = get(desk, f"/items/{TEXT}/image")
        assert response.status_code == 404
        assert "passage of text" in response.json()["detail"]

    def test_of_a_damaged_file_is_a_fault_without_a_path(self, desk: Stored) -> None:
        response = get(desk, f"/items/{id_of('torn.pdf')}/image?max_pixels=5")
        assert response.status_code in {404, 503}
        assert str(desk.secret.parent) not in response.text

    @pytest.mark.parametrize("pixels", ["0", "-1", "x", "1e9", "99999999999999999999"])
    def test_of_absurd_size_is_refused(self, desk: Stored, pixels: str) -> None:
        assert get(desk, f"/items/{SCAN}/image?max_pixels={pixels}").status_code == 422

    def test_of_a_searcher_without_files_is_drawn_as_png(self) -> None:
        searcher = tiny_corpus()
        response = ask(create_app(searcher), "GET", f"/items/{searcher.items[0].id}/image")
        with Image.open(io.BytesIO(response.content)) as image:
            assert image.tobytes() == searcher.image(searcher.items[0].id).tobytes()

    def test_of_a_clip_is_one_of_its_frames(self, desk: Stored) -> None:
        assert get(desk, f"/items/{CLIP}/image").status_code == 200


class TestClip:
    def clip(self, desk: Stored, range_: str | None = None) -> httpx.Response:
        return get(desk, f"/items/{CLIP}/clip", headers={"range": range_} if range_ else {})

    def test_whole(self, desk: Stored) -> None:
        response = self.clip(desk)
        assert (response.status_code, response.headers["content-type"]) == (200, "video/mp4")
        assert response.headers["accept-ranges"] == "bytes"
        assert response.content == FILM

    @pytest.mark.parametrize(
        ("asked", "start", "end"),
        [
            ("bytes=0-0", 0, 1),
            ("bytes=100-199", 100, 200),
            ("bytes=10000-", 10000, 10240),
            ("bytes=-10", 10230, 10240),
            ("bytes=5-99999999", 5, 10240),
            ("bytes=-99999999", 0, 10240),
        ],
    )
    def test_part(self, desk: Stored, asked: str, start: int, end: int) -> None:
        response = self.clip(desk, asked)
        assert response.status_code == 206
        assert response.headers["content-range"] == f"bytes {start}-{end - 1}/10240"
        assert response.content == FILM[start:end]

    @pytest.mark.parametrize("asked", ["bytes=10240-", "bytes=99999-99999999", "bytes=-0"])
    def test_a_part_that_is_not_there(self, desk: Stored, asked: str) -> None:
        assert self.clip(desk, asked).status_code == 416

    @pytest.mark.parametrize(
        "asked", ["bytes=-", "bytes=5-1", "bytes=0-1,5-9", "items=0-1", "bytes=a-b", "x" * 999]
    )
    def test_a_range_that_means_nothing_gives_the_whole(self, desk: Stored, asked: str) -> None:
        assert self.clip(desk, asked).content == FILM

    def test_of_a_page_is_not_found(self, desk: Stored) -> None:
        assert get(desk, f"/items/{SCAN}/clip").status_code == 404


def test_a_file_is_closed_though_the_client_leaves_before_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(b"frames")
    file = path.open("rb")
    response = file_response(file, None, {}, "video/mp4")

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        await asyncio.sleep(60)

    asyncio.run(response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send))
    assert file.closed


class TestNothingOutsideIsServed:
    @pytest.mark.parametrize("name", OUTSIDE)
    @pytest.mark.parametrize("query", ["", "?max_pixels=10"])
    def test_whatever_the_table_says(self, desk: Stored, name: str, query: str) -> None:
        response = get(desk, f"/items/{id_of(name)}/image{query}")
        assert response.status_code == 404
        assert SECRET not in response.content
        assert "secret" not in response.text

    def test_nor_as_a_clip(self, desk: Stored) -> None:
        response = get(desk, f"/items/{id_of('away.mp4')}/clip")
        assert response.status_code == 404
        assert SECRET not in response.content

    @pytest.mark.parametrize(
        "path",
        [
            "/items/../../secret.jpg",
            "/items/%2e%2e/%2e%2e/secret.jpg/image",
            "/items/..%2f..%2fsecret.jpg/image",
            "/items/..%252f..%252fsecret.jpg/image",
            "/items/%00/image",
            "/items/0011223344556677-1%00/image",
            "/items/0011223344556677-1%2f..%2f..%2fsecret/image",
            "/items/0011223344556677-1\\..\\secret/image",
            "/items//etc/passwd",
            "/items/0011223344556677-1%0a/image",
            "//items/..;/secret.jpg",
            "/../secret.jpg",
        ],
    )
    def test_whatever_the_address_says(self, desk: Stored, path: str) -> None:
        """Sent as it stands: a client's library would tidy it up."""
        files = CollectionFiles([desk.collection])
        with serving(Engine(desk.collection), files=files) as address, dial(address) as connection:
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.split(b" ")[1] in {b"404", b"422", b"400"}
        assert SECRET not in answer

    def test_nor_does_a_link_to_it_get_a_name(self, desk: Stored, tmp_path: Path) -> None:
        told = entries(desk, linked(tmp_path / "links"))
        for name in OUTSIDE:
            assert told[name]["file_path"] == name.replace(".pdf", "_1.jpg")


class TestNames:
    def test_plain(self, desk: Stored) -> None:
        told = entries(desk, plain_name)
        assert told["scan.pdf"]["file_path"] == "scan_1.jpg"
        assert told["chart.png"]["file_path"] == "chart.png", "a picture has a name already"
        assert told["film.mp4"]["file_path"] == "film_1.mp4"
        assert (told["note.md"]["file_path"], told["note.md"]["uid"]) == ("note.md", "note-1")

    def test_in_a_folder(self, desk: Stored) -> None:
        assert entries(desk, in_folder("/corpus/img/"))["scan.pdf"]["file_path"] == "/corpus/img/scan_1.jpg"

    def test_that_can_be_opened(self, desk: Stored, tmp_path: Path) -> None:
        for _ in range(2):
            told = entries(desk, linked(tmp_path / "links"))
            for name, base, kind in (("scan.pdf", "scan_1.jpg", "JPEG"), ("chart.png", "chart.png", "PNG")):
                path = told[name]["file_path"]
                assert os.path.basename(path) == base  # noqa: PTH119
                with Image.open(path) as image:
                    assert (image.format, image.size) == (kind, (400, 300))
            assert Path(told["film.mp4"]["file_path"]).read_bytes() == FILM

    def test_are_made_again_when_their_folder_was_deleted(self, desk: Stored, tmp_path: Path) -> None:
        naming = linked(tmp_path / "links")
        for _ in range(2):
            path = Path(entries(desk, naming)["scan.pdf"]["file_path"])
            assert path.exists()
            path.unlink()

    def test_are_those_of_the_files_where_no_link_can_be_made(self, desk: Stored, tmp_path: Path) -> None:
        (tmp_path / "links").write_text("a file stands in the way")
        told = entries(desk, linked(tmp_path / "links"))
        with Image.open(told["scan.pdf"]["file_path"]) as image:
            assert image.size == (400, 300)

    def test_never_lead_out_of_their_folder(self, tmp_path: Path) -> None:
        from vrag.server.item_files import ItemDetails
        from vrag.types import Hit, ItemKind

        for name in ("../../up.pdf", "/etc/passwd", "a\0b.pdf", "..\\up.pdf", "é" * 400 + ".pdf", ".pdf"):
            hit = Hit("0" * 16 + "-1", 1.0, 1, "0" * 64, name, 1, ItemKind.PAGE)
            made = plain_name(hit, ItemDetails(""))
            assert "/" not in made
            assert "\\" not in made
            assert len(made.encode()) < 255
            assert (tmp_path / made).parent == tmp_path
