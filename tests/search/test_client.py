from __future__ import annotations

import contextlib
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.errors import SearchError, ServerError, VragError
from vrag.search.client import SearchClient
from vrag.server.app import create_app
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.options import ServerOptions
from vrag.testing import MemorySearcher, page, tiny_corpus
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

FERRY = tiny_corpus()
ID = FERRY.items[0].id


@contextlib.contextmanager
def serving(searcher: MemorySearcher, **options: Any) -> Generator[str]:  # noqa: ANN401
    ready = threading.Event()
    server = make_server(create_app(searcher, ServerOptions(**options)), ServerOptions(), ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert ready.wait(20)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(40)


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    with serving(tiny_corpus()) as address:
        yield address


@pytest.fixture
def client(address: str) -> Generator[SearchClient]:
    with SearchClient(address) as client:
        yield client


class TestIsASearcher:
    """Each answer equals that of the searcher behind the server."""

    def test_search(self, client: SearchClient) -> None:
        queries = [Query("passengers in 2024"), Query("ice because"), Query("nothing"), Query("ferry")]
        assert client.search(queries, 3) == FERRY.search(queries, 3)

    def test_filters_travel_with_their_query(self, client: SearchClient) -> None:
        document = FERRY.items[3].document
        queries = [
            Query("ferry"),
            Query("ferry", documents=frozenset({document})),
            Query("ferry", kinds=frozenset({ItemKind.PAGE})),
            Query("ice", kinds=frozenset({ItemKind.PAGE, ItemKind.PASSAGE})),
            Query("ferry", documents=frozenset()),
            Query("ferry", kinds=frozenset()),
        ]
        assert client.search(queries, 5) == FERRY.search(queries, 5)
        assert len({str(hits) for hits in client.search(queries, 5)}) > 3

    def test_many_queries_with_many_hits_travel_in_parts(self, client: SearchClient) -> None:
        queries = [Query(f"ferry {number}") for number in range(300)]
        assert client.search(queries, 100) == FERRY.search(queries, 100)

    def test_item(self, client: SearchClient) -> None:
        for item in FERRY.items:
            told = client.item(item.id)
            assert (told.text, told.words, told.size, told.kind) == (
                item.text,
                item.words,
                item.size,
                item.kind,
            )
            assert (told.document, told.document_name, told.ordinal) == (
                item.document,
                item.document_name,
                item.ordinal,
            )

    def test_image(self, client: SearchClient) -> None:
        assert client.image(ID).tobytes() == FERRY.image(ID).tobytes()

    def test_version_and_corpora(self, client: SearchClient) -> None:
        assert client.version == FERRY.version
        assert client.corpora == ()

    def test_no_queries_find_nothing(self, client: SearchClient) -> None:
        assert client.search([], 3) == []

    def test_the_address_may_be_that_of_search(self, address: str) -> None:
        for given_ in (f"{address}/", f"{address}/search", f"{address}/search/"):
            with SearchClient(given_) as client:
                assert client.version == FERRY.version

    def test_threads_share_it(self, client: SearchClient) -> None:
        words = ["passengers", "crowns.", "ice", "ferry"]
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(client.search, [[Query(word)] for word in words * 50], [3] * 200))
        assert found == [FERRY.search([Query(word)], 3) for word in words * 50]


class TestRefusals:
    def test_what_no_searcher_can_answer_is_not_sent(self) -> None:
        with SearchClient("http://127.0.0.1:1", retries=0) as client:
            for query, top_k in ((" ", 3), ("a", 0), ("a", 1001), ("a" * 9000, 3)):
                with pytest.raises(SearchError) as raised:
                    client.search([Query(query)], top_k)
                assert not isinstance(raised.value, ServerError)

    def test_unknown_items_are_said_so(self, client: SearchClient) -> None:
        for ask in (client.item, client.image):
            with pytest.raises(SearchError, match="There is no page or passage"):
                ask("0" * 16 + "-1")

    def test_of_text_there_is_no_picture(self, client: SearchClient) -> None:
        with pytest.raises(SearchError, match="A passage of text has no picture"):
            client.image(FERRY.items[3].id)

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "a/b", "0011223344556677-1/../x", "", "ferry_1.jpg"]
    )
    def test_what_is_no_id_is_not_sent(self, name: str) -> None:
        with (
            SearchClient("http://127.0.0.1:1", retries=0) as client,
            pytest.raises(SearchError, match="not an id"),
        ):
            client.item(name)

    def test_a_missing_token_is_said_so(self) -> None:
        with serving(tiny_corpus(), token="secret") as address:
            with SearchClient(address) as client, pytest.raises(ServerError, match="VRAG_SEARCH_KEY"):
                client.search([Query("ferry")], 3)
            with SearchClient(address, token="secret") as client:
                assert client.search([Query("ferry")], 1)[0]

    @pytest.mark.parametrize(
        "url", ["", "localhost:port", "ftp://a", "file:///etc/passwd", "http://", "http://[x"]
    )
    def test_what_is_no_address_is_said_so(self, url: str) -> None:
        with pytest.raises(ServerError, match="not the URL"):
            SearchClient(url)


ENTRY = {"type": "image", "file_path": "a_1.jpg"}
RESULT = {"score": [1.0], "indice": [0], "data": [ENTRY]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        [],
        {"results": []},
        {"results": [RESULT, RESULT]},
        {"results": [{**RESULT, "score": [1.0, 2.0]}]},
        {"results": [{**RESULT, "indice": []}]},
        {"results": [{"score": [1.0] * 4, "indice": [0] * 4, "data": [ENTRY] * 4}]},
        {"results": [{**RESULT, "score": ["high"]}]},
        {"results": [{**RESULT, "indice": [1.5]}]},
        json.dumps({"results": [{**RESULT, "score": [float("nan")]}]}).encode(),
        {"results": [{**RESULT, "data": [{"type": "program", "file_path": "a"}]}]},
        {"results": [{**RESULT, "data": [{"type": "text", "file_path": "a"}]}]},
        {"results": [{**RESULT, "data": [{**ENTRY, "id": "../../etc/passwd"}]}]},
        {"results": [{**RESULT, "data": [{**ENTRY, "file_path": "a" * 5000}]}]},
        {"results": [{**RESULT, "data": [{**ENTRY, "page": 0}]}]},
        {"results": [{**RESULT, "data": [None]}]},
        b"[" * 500_000,
    ],
)
def test_an_answer_that_cannot_be_right_is_refused(body: bytes | object) -> None:
    with client_of(lambda _: answered(body)) as client, pytest.raises(ServerError, match="is invalid"):
        client.search([Query("a")], 3)


def client_of(answer: Callable[[httpx.Request], httpx.Response], **rest: Any) -> SearchClient:  # noqa: ANN401
    return SearchClient("http://server", transport=httpx.MockTransport(answer), retries=0, **rest)


def answered(body: bytes | object, status: int = 200) -> httpx.Response:
    """As it comes from a network: not read yet."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.Response(status, stream=httpx.ByteStream(content))


@given(st.binary(max_size=400), st.integers(200, 599))
def test_arbitrary_answers_raise_nothing_but_our_errors(content: bytes, status: int) -> None:
    with client_of(lambda _: answered(content, status)) as client:
        for ask in (
            lambda: client.search([Query("a")], 3),
            lambda: client.item(ID),
            lambda: client.image(ID),
            lambda: client.version,
        ):
            with contextlib.suppress(VragError):
                ask()


def test_an_answer_longer_than_allowed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.search.client._JSON_BYTES", 1000)
    sent = 0

    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Generator[bytes]:
            nonlocal sent
            while True:
                sent += 100
                yield b" " * 100

    with (
        client_of(lambda _: httpx.Response(200, stream=Endless())) as client,
        pytest.raises(ServerError, match="longer than 1,000 bytes"),
    ):
        client.search([Query("a")], 3)
    assert sent <= 1200


def test_a_compressed_answer_is_refused() -> None:
    """It was not asked for, and a few bytes of it can be gigabytes."""
    headers = {"content-encoding": "gzip"}
    with (
        client_of(lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"x"))) as client,
        pytest.raises(ServerError, match="compressed"),
    ):
        client.search([Query("a")], 3)


def test_another_item_than_asked_for_is_refused() -> None:
    other = {"id": FERRY.items[1].id, "document": "d", "document_name": "n", "kind": "page", "page": 1}
    with (
        client_of(lambda _: answered(other)) as client,
        pytest.raises(ServerError, match="another"),
    ):
        client.item(ID)


@pytest.mark.parametrize(
    "word", [[5, 9999, 0, 0, 1, 1], [3, 1, 0, 0, 1, 1], [0, 1, 0, 0, 7, 1], [-1, 1, 0, 0, 1, 1]]
)
def test_words_outside_of_their_item_are_refused(word: list[float]) -> None:
    body = {
        "id": ID,
        "document": "d",
        "document_name": "n",
        "kind": "page",
        "page": 1,
        "text": "a",
        "words": [word],
    }
    with (
        client_of(lambda _: answered(body)) as client,
        pytest.raises(ServerError, match="outside"),
    ):
        client.item(ID)


def test_pictures_too_large_to_open_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    Image.new("1", (3000, 3000)).save(buffer, "PNG")
    monkeypatch.setattr("vrag.search.client._IMAGE_PIXELS", 1_000_000)
    with (
        client_of(lambda _: answered(buffer.getvalue())) as client,
        pytest.raises(ServerError, match="3000×3000"),
    ):
        client.image(ID)


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF"])
def test_pictures_of_other_formats_are_refused(form: str) -> None:
    """Decoders that were never meant for a network stay out of it."""
    buffer = io.BytesIO()
    Image.new("RGB", (3, 3)).save(buffer, form)
    with (
        client_of(lambda _: answered(buffer.getvalue())) as client,
        pytest.raises(ServerError, match="cannot be opened"),
    ):
        client.image(ID)


def test_messages_of_a_server_are_made_safe_to_show() -> None:
    body = {"detail": "\x1b[2J" + "a" * 5000, "hint": "\r\nb"}
    with client_of(lambda _: answered(body, 422)) as client, pytest.raises(ServerError) as raised:
        client.search([Query("a")], 3)
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 1000


class TestReferenceServer:
    """A server of the systems replaced: entries without ids, paths of its own."""

    @pytest.fixture
    def theirs(self) -> Generator[SearchClient]:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path != "/search":
                return answered({"detail": "Not Found"}, 404)
            body = json.loads(request.content)
            assert body.keys() <= {"queries", "top_k"}
            data = [
                {"type": "image", "file_path": "search_engine/corpus/img/annual_report_12.jpg"},
                {"type": "video", "file_path": "/data/video/talk_3.mp4", "uid": "v3"},
                {"type": "text", "file_path": "notes.txt", "content": "Some text."},
            ]
            result = {"score": [0.9, 0.8, 0.7], "indice": [5, 1, 7], "data": data}
            return answered({"results": [result] * len(body["queries"])})

        with client_of(answer) as client:
            yield client

    def test_is_searched(self, theirs: SearchClient) -> None:
        hits, _ = theirs.search([Query("a"), Query("b")], 5)
        assert [(hit.document_name, hit.ordinal, hit.kind, hit.row, hit.rank) for hit in hits] == [
            ("annual_report", 12, ItemKind.PAGE, 5, 1),
            ("talk", 3, ItemKind.CLIP, 1, 2),
            ("notes.txt", 1, ItemKind.PASSAGE, 7, 3),
        ]
        assert hits[0].item == "annual_report_12.jpg"

    def test_shows_nothing(self, theirs: SearchClient) -> None:
        """No path that it names is opened."""
        hit = theirs.search([Query("a")], 3)[0][0]
        for ask in (theirs.item, theirs.image):
            with pytest.raises(SearchError, match="not an id"):
                ask(hit.item)
        with pytest.raises(ServerError, match="vrag serve"):
            assert theirs.version


@pytest.mark.parametrize("address", ["http://user:secret@localhost:1/search", "user:secret@localhost:1"])
def test_an_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ServerError, match="user name") as caught:
        SearchClient(address)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with SearchClient(address, retries=0) as client:
        assert client.version == FERRY.version


def test_a_large_page_comes_through() -> None:
    text = "\n".join(" ".join(f"word{line}x{n}" for n in range(20)) for line in range(100))
    searcher = MemorySearcher((page("long.pdf", 1, text),))
    with serving(searcher) as address, SearchClient(address) as client:
        assert client.item(searcher.items[0].id).words == searcher.items[0].words
