"""Every searcher draws parts of pages from the files that were indexed, and from no other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from server_harness import ask, serving
from source_collection import (
    CHANGES,
    REGION,
    SIZE,
    VIEW,
    collection_of,
    id_of,
    kept,
    path_of,
    write_files,
)

from vrag.corpus.formats.image import flatten, open_picture
from vrag.errors import SearchError, ServerError
from vrag.evaluation.retrieval import BlankSearcher
from vrag.factory.search import open_searcher
from vrag.geometry import Box, Size, Space, View, draw_view
from vrag.index import source_file
from vrag.index.collection import Collection
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.search.client import SearchClient
from vrag.search.engine import Engine
from vrag.search.multi import MultiSearcher
from vrag.search.searcher import StoredPictures
from vrag.server.app import create_app
from vrag.server.item_files import CollectionFiles
from vrag.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from PIL import Image

    from vrag.search.searcher import Searcher


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return collection_of(folder, tmp_path_factory.mktemp("collection") / "c")


@pytest.fixture(scope="module")
def id(collection: Collection) -> str:
    return id_of(collection, "report.pdf")


@pytest.fixture(scope="module")
def address(collection: Collection) -> Generator[str]:
    with serving(Engine(collection), files=CollectionFiles([collection])) as address:
        yield address


def drawn(searcher: Searcher, id: str, view: View = VIEW) -> Image.Image:
    part = searcher.part(id, view)
    assert part is not None
    assert (part.mode, part.size) == ("RGB", view.canvas)
    return part


def answering(status: int, content: bytes) -> httpx.MockTransport:
    """A server that always answers the same."""
    return httpx.MockTransport(lambda _: httpx.Response(status, stream=httpx.ByteStream(content)))


def sharpness(image: Image.Image) -> float:
    return float(np.abs(np.diff(np.asarray(image.convert("L"), np.float64), axis=1)).mean())


class TestEverySearcher:
    def test_draws_the_part_in_more_detail_than_is_stored(self, collection: Collection, id: str) -> None:
        part, stored = drawn(Engine(collection), id), draw_view(collection.image(id), VIEW)
        assert sharpness(part) > 1.5 * sharpness(stored)
        difference = np.asarray(part, np.float64) - np.asarray(stored, np.float64)
        assert abs(difference.mean()) < 5
        assert np.abs(difference).mean() < 25

    def test_draws_the_same_pixels(self, collection: Collection, id: str, address: str) -> None:
        expected = drawn(Engine(collection), id).tobytes()
        several = MultiSearcher({"a": Engine(collection), "b": Engine(collection)})
        for searcher in (collection, several, BatchedSearcher(Engine(collection))):
            part = searcher.part(id, VIEW)
            assert part is not None
            assert part.tobytes() == expected
        with SearchClient(address) as client:
            assert drawn(client, id).tobytes() == expected

    def test_draws_margins(self, collection: Collection, id: str, address: str) -> None:
        view = View(SIZE, REGION, Size(868, 224), Size(0, 56))
        expected = drawn(Engine(collection), id, view)
        assert expected.crop((0, 224, 868, 280)).getextrema() == ((255, 255),) * 3
        with SearchClient(address) as client:
            assert drawn(client, id, view).tobytes() == expected.tobytes()

    def test_raises_for_unknown_items(self, collection: Collection) -> None:
        with pytest.raises(SearchError):
            collection.part("nothing", VIEW)

    def test_has_nothing_of_blank_pages(self, collection: Collection, id: str) -> None:
        assert BlankSearcher(Engine(collection)).part(id, VIEW) is None

    @pytest.mark.parametrize("sources", [True, False])
    def test_draws_as_the_settings_say(self, collection: Collection, id: str, *, sources: bool) -> None:
        settings = Settings(collection=str(collection.directory), sources=sources)
        searcher = open_searcher(settings, {"c": collection})
        assert isinstance(searcher, StoredPictures) is not sources
        assert (searcher.part(id, VIEW) is not None) is sources
        assert searcher.version == Engine(collection).version


class TestOnlyThePageAsIndexed:
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_is_drawn(self, collection: Collection, id: str, change: Callable[[Path], None]) -> None:
        engine, path = Engine(collection), path_of(collection)
        before = drawn(engine, id).tobytes()
        with kept(path):
            change(path)
            assert engine.part(id, VIEW) is None
            assert collection.image(id).size == SIZE, "the stored page is there"
            fresh = Engine(Collection.open(collection.directory))
            assert fresh.part(id, VIEW) is None
        assert drawn(engine, id).tobytes() == before, "put back, it is drawn again"

    def test_is_drawn_when_only_its_times_changed(self, collection: Collection, id: str) -> None:
        with kept(path_of(collection)):
            path_of(collection).touch()
            drawn(Engine(collection), id)

    def test_is_hashed_once(self, collection: Collection, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = Engine(Collection.open(collection.directory))
        drawn(engine, id)
        monkeypatch.setattr(source_file, "read_source", None)
        monkeypatch.setattr(source_file.hashlib, "sha256", None)
        drawn(engine, id, View(SIZE, REGION, Size(600, 160)))

    @pytest.mark.parametrize("size", [Size(1223, 1584), Size(612, 792)])
    def test_is_drawn_on_its_own_grid(self, collection: Collection, id: str, size: Size) -> None:
        view = View(size, Box(10, 10, 100, 100, Space.ITEM), Size(300, 300))
        assert collection.part(id, view) is None

    def test_an_image_is_stored_with_all_its_pixels(self, collection: Collection) -> None:
        photo = id_of(collection, "photo.jpg")
        item = collection.item(photo)
        view = View(Size(900, 600), Box(0, 0, 90, 60, Space.ITEM), Size(900, 600))
        assert item.size == view.item, "upright"
        assert collection.part(photo, view) is None
        with open_picture(path_of(collection, "photo.jpg"), 10**7) as file:
            original = flatten(file)
        assert collection.image(photo).size == original.size
        stored = np.asarray(collection.image(photo), np.int16)
        assert np.abs(stored - np.asarray(original, np.int16)).mean() < 2


class TestOverHttp:
    BOX = ",".join(repr(side) for side in View.whole(SIZE, SIZE).convert(REGION, "unit").as_tuple())  # pyright: ignore[reportArgumentType]

    def part(self, collection: Collection, id: str, **query: Any) -> httpx.Response:  # noqa: ANN401
        app = create_app(Engine(collection), files=CollectionFiles([collection]))
        headers = query.pop("headers", None)
        params = {"box": self.BOX, "size": "868x224", **query}
        return ask(app, "GET", f"/items/{id}/part", params=params, headers=headers)

    def test_it_is_png_and_cached_by_what_it_shows(self, collection: Collection, id: str) -> None:
        first = self.part(collection, id)
        assert (first.status_code, first.headers["content-type"]) == (200, "image/png")
        tag = {"if-none-match": first.headers["etag"]}
        assert self.part(collection, id, headers=tag).status_code == 304
        assert self.part(collection, id, headers=tag, size="868x225").status_code == 200

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ({"size": "0x10"}, 422),
            ({"size": "10"}, 422),
            ({"size": "99999x99999"}, 422),
            ({"size": "4000x4000"}, 422),
            ({"size": "4000x10"}, 422),
            ({"size": "-5x10"}, 422),
            ({"box": "0,0,0,0"}, 422),
            ({"box": "a,b,c,d"}, 422),
            ({"box": "nan,0,1,1"}, 422),
        ],
    )
    def test_nonsense_is_refused(
        self, collection: Collection, id: str, query: dict[str, str], status: int
    ) -> None:
        assert self.part(collection, id, **query).status_code == status

    def test_without_the_file_it_is_refused_and_a_client_gets_none(
        self, collection: Collection, id: str, address: str
    ) -> None:
        with kept(path_of(collection)), SearchClient(address) as client:
            path_of(collection).unlink()
            refused = self.part(collection, id)
            assert refused.status_code == 404
            assert refused.json()["hint"] == "Show the page as it is stored."
            assert client.part(id, VIEW) is None
            assert client.image(id).size == SIZE

    def test_a_photograph_has_none(self, collection: Collection) -> None:
        assert self.part(collection, id_of(collection, "photo.jpg")).status_code == 404

    def test_older_servers_draw_none(self) -> None:
        transport = answering(404, b'{"detail": "Not Found"}')
        with SearchClient("http://old.example", transport=transport) as client:
            assert client.part("0123456789abcdef-1", VIEW) is None

    def test_a_client_that_may_not_asks_for_none(self) -> None:
        asked: list[httpx.Request] = []

        def refuse(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            return httpx.Response(404)

        transport = httpx.MockTransport(refuse)
        with SearchClient("http://far.example", transport=transport, parts=False) as client:
            assert client.part("0123456789abcdef-1", VIEW) is None
        assert asked == []

    def test_another_size_than_requested_is_an_error(self, collection: Collection, id: str) -> None:
        content = self.part(collection, id, size="400x100").content
        transport = answering(200, content)
        with (
            SearchClient("http://odd.example", transport=transport) as client,
            pytest.raises(ServerError, match="another size"),
        ):
            client.part(id, VIEW)

    def test_a_server_that_fails_draws_none(self) -> None:
        transport = answering(504, b'{"detail": "It took too long."}')
        with SearchClient("http://slow.example", transport=transport, retries=0) as client:
            assert client.part("0123456789abcdef-1", VIEW) is None


def test_in_several_collections_each_draws_from_its_own_files(
    collection: Collection, id: str, tmp_path: Path
) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    data = path_of(collection).read_bytes().replace(b"48,217", b"48,999")
    (folder / "other.pdf").write_bytes(data)
    other = collection_of(folder, tmp_path / "other")
    searcher = MultiSearcher({"a": Engine(collection), "b": Engine(other)})
    first, second = drawn(searcher, id), drawn(searcher, id_of(other, "other.pdf"))
    assert first.tobytes() != second.tobytes()
    (folder / "other.pdf").unlink()
    assert searcher.part(id_of(other, "other.pdf"), VIEW) is None
    assert drawn(searcher, id).tobytes() == first.tobytes()
    with contextlib.closing(SearchClient("http://127.0.0.1:9")) as away:
        assert away.part(id, VIEW) is None
