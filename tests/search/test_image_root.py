"""A server that names files: what it names is looked for below one directory, and nowhere else."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from corpus.video_files import Film, film_bytes, number_of
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.errors import CollectionError, SearchError, ServerError, SettingsError
from vrag.geometry import Size
from vrag.search.client import SearchClient
from vrag.search.local_items import ImageRoot
from vrag.search.schema import ID_PATTERN
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.types import Hit

RED, BLUE = (200, 0, 0), (0, 0, 200)


def put(path: Path, colour: tuple[int, int, int] = RED, size: tuple[int, int] = (64, 48), **how: Any) -> None:  # noqa: ANN401
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **how)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`img/report_12.jpg`, `img/photo.png`, and a secret beside the directory."""
    put(tmp_path / "secret_1.jpg", BLUE)
    put(tmp_path / "root" / "img" / "report_12.jpg")
    put(tmp_path / "root" / "img" / "photo.png", (0, 200, 0))
    return tmp_path / "root"


def newer(*entries: dict[str, str]) -> Callable[[httpx.Request], httpx.Response]:
    """A server of the newer shape, as the reference's: entries without ids, no other routes."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/search":
            return httpx.Response(404, stream=httpx.ByteStream(b'{"detail": "Not Found"}'))
        count = len(json.loads(request.content)["queries"])
        numbers = list(range(len(entries)))
        result = {"score": [1.0 - n / 9 for n in numbers], "indice": numbers, "data": entries}
        return httpx.Response(
            200, stream=httpx.ByteStream(json.dumps({"results": [result] * count}).encode())
        )

    return answer


def older(*files: str) -> Callable[[httpx.Request], httpx.Response]:
    """A server that knows GET alone."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            return httpx.Response(405, stream=httpx.ByteStream(b'{"detail": "Method Not Allowed"}'))
        if request.url.path != "/search":
            return httpx.Response(404, stream=httpx.ByteStream(b'{"detail": "Not Found"}'))
        found = [{"idx": n, "image_file": file} for n, file in enumerate(files)]
        body = [found for _ in request.url.params.get_list("queries")]
        return httpx.Response(200, stream=httpx.ByteStream(json.dumps(body).encode()))

    return answer


def client_of(answer: Callable[[httpx.Request], httpx.Response], root: Path | None) -> SearchClient:
    return SearchClient("http://server", image_root=root, transport=httpx.MockTransport(answer), retries=0)


def first(root: Path, named: str) -> tuple[SearchClient, Hit]:
    client = client_of(newer({"type": "image", "file_path": named}), root)
    return client, client.search([Query("a")], 1)[0][0]


class TestWhatIsShown:
    @pytest.mark.parametrize(
        "named",
        [
            "img/report_12.jpg",
            "search_engine/corpus/img/report_12.jpg",
            "/data/corpus/img/report_12.jpg",
            "./img//report_12.jpg",
            "C:\\data\\img\\report_12.jpg",
            "\\\\server\\share\\img\\report_12.jpg",
        ],
    )
    def test_is_the_longest_end_of_the_path_that_is_there(self, root: Path, named: str) -> None:
        client, hit = first(root, named)
        item = client.item(hit.item)
        assert client.image(hit.item).getpixel((5, 5)) == Image.open(root / "img/report_12.jpg").getpixel(
            (5, 5)
        )
        assert (item.document_name, item.ordinal, item.size, item.kind) == (
            "report",
            12,
            Size(64, 48),
            ItemKind.PAGE,
        )
        assert (hit.document_name, hit.ordinal, hit.document) == ("report", 12, item.document)

    def test_a_file_that_lies_in_the_directory_itself_is_found_by_its_name(self, root: Path) -> None:
        put(root / "plan_3.webp")
        client, hit = first(root, "/somewhere/else/plan_3.webp")
        assert client.item(hit.item).name == "plan_3"

    def test_ids_are_like_all_ids_and_known_to_a_new_client(self, root: Path) -> None:
        client, hit = first(root, "/data/img/report_12.jpg")
        assert re.fullmatch(ID_PATTERN, hit.item)
        other = client_of(newer(), root)
        assert other.item(hit.item) == client.item(hit.item)
        assert other.image(hit.item).tobytes() == client.image(hit.item).tobytes()

    def test_pages_of_one_stem_in_one_folder_are_one_document(self, root: Path) -> None:
        for name in ("img/report_1.jpg", "other/report_1.jpg", "img/report.jpg", "img/report_1.png"):
            put(root / name)
        names = [
            "img/report_12.jpg",
            "img/report_1.jpg",
            "img/report_1.png",
            "other/report_1.jpg",
            "img/report.jpg",
        ]
        client = client_of(newer(*({"type": "image", "file_path": name} for name in names)), root)
        hits = client.search([Query("a")], 9)[0]
        documents = [hit.document for hit in hits]
        assert documents[0] == documents[1] == documents[2]
        assert len(set(documents)) == 3
        assert len({hit.item for hit in hits}) == 5

    def test_pictures_are_upright_and_on_white(self, root: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        put(root / "turned_1.jpg", size=(640, 480), exif=exif)
        Image.new("RGBA", (30, 20), (0, 0, 0, 0)).save(root / "clear_1.png")
        client, hit = first(root, "turned_1.jpg")
        assert client.item(hit.item).size == (480, 640)
        assert client.image(hit.item).size == (480, 640)
        assert client.image(hit.item, least=Size(200, 300)).size == (240, 320)
        client, hit = first(root, "clear_1.png")
        assert client.image(hit.item).getpixel((3, 3)) == (255, 255, 255)

    def test_passages_are_what_the_server_sent(self, root: Path) -> None:
        text = {"type": "text", "file_path": "/etc/notes.txt"}
        client = client_of(newer({**text, "content": "At noon."}, {**text, "content": "At one."}), root)
        one, two = client.search([Query("a")], 9)[0]
        assert [client.item(hit.item).text for hit in (one, two)] == ["At noon.", "At one."]
        assert one.document == two.document == client.item(one.item).document
        for ask in (client.image, partial(client.frames, fps=1, most=2)):
            with pytest.raises(SearchError, match="it is a passage"):
                ask(one.item)

    def test_videos_have_frames(self, root: Path) -> None:
        require("video", "av")
        (root / "talk_2.mp4").write_bytes(film_bytes(Film(times=range(0, 3000, 100))))
        client = client_of(newer({"type": "video", "file_path": "/videos/talk_2.mp4"}), root)
        (hit,) = client.search([Query("a")], 9)[0]
        item = client.item(hit.item)
        assert item.clip
        assert (item.kind, item.clip.start, item.clip.end) == (ItemKind.CLIP, 0.0, 3.0)
        frames = client.frames(hit.item, fps=1, most=9)
        assert [(frame.seconds, number_of(frame.image)) for frame in frames] == [(0, 0), (1, 10), (2, 20)]
        assert number_of(client.image(hit.item)) == 0
        assert client.image(hit.item).size == item.size

    def test_of_a_server_that_knows_get_alone(self, root: Path) -> None:
        client = client_of(older("/data/img/report_12.jpg", "/data/img/photo.png", "gone_1.jpg"), root)
        lists = client.search([Query("a"), Query("b")], 2)
        assert [len(hits) for hits in lists] == [2, 2]
        assert [(hit.rank, hit.score, hit.row) for hit in lists[0]] == [(1, 1.0, -1), (2, 0.5, -1)]
        assert client.image(lists[1][1].item).getpixel((0, 0)) == (0, 200, 0)
        with pytest.raises(SearchError, match="too old"):
            client.search([Query("a", kinds=frozenset({ItemKind.PAGE}))], 2)

    def test_the_version_says_that_there_is_none(self, root: Path, tmp_path: Path) -> None:
        version = client_of(newer(), root).version
        assert version.startswith("unversioned-")
        assert version == client_of(older(), root).version
        assert version != client_of(newer(), tmp_path).version


class TestNothingOutside:
    @pytest.mark.parametrize(
        "named",
        [
            "../secret_1.jpg",
            "img/../../secret_1.jpg",
            "img/../report_12.jpg",
            "img/../img/report_12.jpg",
            "..\\secret_1.jpg",
            "/secret_1.jpg",
            "secret_1.jpg",
            "file:///secret_1.jpg",
            "http://server/secret_1.jpg",
            "img/report_12.jpg:stream",
            "img/report_12.jpg\0.png",
            "img\n/report_12.jpg",
            "~/secret_1.jpg",
            "$HOME/secret_1.jpg",
            "img",
            "",
            "/",
            ".",
            "..",
            "a" * 4000 + ".jpg",
        ],
    )
    def test_is_opened_whatever_the_server_names(
        self, root: Path, named: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(root.parent))
        client, hit = first(root, named)
        with pytest.raises(SearchError):
            client.image(hit.item)
        with pytest.raises(SearchError):
            client.item(hit.item)

    def test_the_absolute_path_of_a_secret_is_not_opened(self, root: Path) -> None:
        client, hit = first(root, str(root.parent / "secret_1.jpg"))
        with pytest.raises(SearchError):
            client.image(hit.item)

    def test_nor_through_links(self, root: Path) -> None:
        (root / "img" / "link_1.jpg").symlink_to(root.parent / "secret_1.jpg")
        (root / "up").symlink_to(root.parent)
        (root / "loop_1.jpg").symlink_to(root / "loop_1.jpg")
        for named in ("img/link_1.jpg", "up/secret_1.jpg", "loop_1.jpg"):
            client, hit = first(root, named)
            with pytest.raises(SearchError):
                client.image(hit.item)
        assert not [name for name in ImageRoot(root)._files() if "link" in name or "up" in name]  # pyright: ignore[reportPrivateUsage]

    def test_nor_when_the_link_comes_after_the_search(self, root: Path) -> None:
        client, hit = first(root, "img/report_12.jpg")
        (root / "img/report_12.jpg").unlink()
        with pytest.raises(CollectionError, match="no longer"):
            client.image(hit.item)
        (root / "img/report_12.jpg").symlink_to(root.parent / "secret_1.jpg")
        for ask in (client.image, client.item):
            with pytest.raises(CollectionError, match="no longer"):
                ask(hit.item)

    def test_links_within_the_directory_are_followed(self, root: Path) -> None:
        (root / "again_2.jpg").symlink_to(root / "img/report_12.jpg")
        client, hit = first(root, "again_2.jpg")
        assert client.item(hit.item).ordinal == 2

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    def test_what_is_no_file_is_not_opened(self, root: Path) -> None:
        os.mkfifo(root / "pipe_1.jpg")
        (root / "folder_1.jpg").mkdir()
        (root / "notes_1.txt").write_text("text")
        for named in ("pipe_1.jpg", "folder_1.jpg", "notes_1.txt"):
            client, hit = first(root, named)
            with pytest.raises(SearchError):
                client.image(hit.item)

    @given(st.text(max_size=60))
    def test_whatever_is_named_leads_to_a_file_below_or_nowhere(
        self, tmp_path_factory: pytest.TempPathFactory, named: str
    ) -> None:
        place = ImageRoot(tmp_path_factory.getbasetemp())
        assert place.id_of(named) is None

    def test_no_file_is_opened_elsewhere(self, root: Path) -> None:
        """By what the interpreter reports: every path that is opened while a hostile server is used."""
        opened: list[str] = []
        recording = True

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if recording and event == "open" and isinstance(arguments[0], str | bytes):
                opened.append(os.fsdecode(arguments[0]))

        sys.addaudithook(audit)
        names = ("/etc/passwd", str(root.parent / "secret_1.jpg"), "../secret_1.jpg", "img/report_12.jpg")
        client = client_of(newer(*({"type": "image", "file_path": name} for name in names)), root)
        for hit in client.search([Query("a")], 9)[0]:
            for ask in (client.item, client.image):
                try:
                    ask(hit.item)
                except SearchError:
                    continue
        recording = False
        assert opened
        assert all(
            Path(path).is_relative_to(root)
            for path in opened
            if "site-packages" not in path and not path.endswith((".py", ".pyc"))
        )


class TestDamage:
    def test_pictures_are_said_to_be_damaged(self, root: Path) -> None:
        (root / "torn_1.jpg").write_bytes((root / "img/report_12.jpg").read_bytes()[:200])
        (root / "text_1.jpg").write_bytes(b"GET / HTTP/1.1")
        (root / "torn_1.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
        for named in ("torn_1.jpg", "text_1.jpg"):
            client, hit = first(root, named)
            with pytest.raises(CollectionError, match="cannot be opened"):
                client.image(hit.item)
        client, hit = first(root, "torn_1.mp4")
        with pytest.raises(CollectionError, match="cannot be opened"):
            client.frames(hit.item, fps=1, most=3)

    def test_bombs_are_refused_by_their_header(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        buffer = io.BytesIO()
        Image.new("1", (3000, 3000)).save(buffer, "PNG")
        (root / "bomb_1.png").write_bytes(buffer.getvalue())
        monkeypatch.setattr("vrag.search.local_items.MAX_PIXELS", 1_000_000)
        client, hit = first(root, "bomb_1.png")
        for ask in (client.item, client.image):
            with pytest.raises(CollectionError, match="limit is 1,000,000"):
                ask(hit.item)

    def test_a_directory_that_is_none_is_said_so(self, root: Path) -> None:
        for place in (root / "none", root / "img" / "report_12.jpg"):
            with pytest.raises(SettingsError, match="not a directory"):
                client_of(newer(), place)


class TestWithoutADirectory:
    def test_the_flag_is_named(self) -> None:
        client = client_of(newer({"type": "image", "file_path": "img/report_12.jpg"}), None)
        (hit,) = client.search([Query("a")], 1)[0]
        for ask in (client.item, client.image, partial(client.frames, fps=1, most=1)):
            with pytest.raises(SearchError, match="--image-root DIR"):
                ask(hit.item)
        with pytest.raises(ServerError, match="--image-root DIR"):
            assert client.version


def test_a_server_with_ids_is_asked_for_its_items_as_ever(root: Path) -> None:
    entry = {"type": "image", "file_path": "img/report_12.jpg", "id": f"{'0' * 16}-1"}
    client = client_of(newer(entry), root)
    (hit,) = client.search([Query("a")], 1)[0]
    assert hit.item == f"{'0' * 16}-1"
    with pytest.raises(SearchError, match="Not Found"):
        client.item(hit.item)
