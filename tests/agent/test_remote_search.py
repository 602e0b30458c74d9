"""Runs over a search server: what it cannot give is told, and nothing that it names is opened."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_scripts import WAYS, Way, environment, events_of, of, way_name
from PIL import Image
from server_harness import serving

from vrag.agent.events import AnswerGiven, ImageShown, PassageShown, RunFailed, SearchReturned, StopReason
from vrag.errors import CollectionError
from vrag.search.client import SearchClient
from vrag.search.schema import ItemInfo
from vrag.testing import MemorySearcher, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from vrag.geometry import Size

both = pytest.mark.parametrize("way", WAYS, ids=way_name)
ITEMS = {item.name: item for item in tiny_corpus().items}
VARYING = {"run_id", "ts", "seconds", "model_seconds", "collection", "hits"}
"""What differs from run to run; and of hits the number of their row."""
PAGE = ITEMS["ferry_2"].id


@dataclass(frozen=True, slots=True)
class Faulty(MemorySearcher):
    """What the server searches: the picture of one page is damaged on its disk."""

    damaged: frozenset[str] = frozenset({PAGE})

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        if id in self.damaged:
            raise CollectionError("The picture cannot be opened.")
        return MemorySearcher.image(self, id, least=least)


@both
def test_over_a_server_a_run_says_the_same_as_without_it(way: Way) -> None:
    with serving(tiny_corpus()) as url, SearchClient(url) as client:
        far, _ = events_of(way.method, *way.script(), where=environment(client))
    near, _ = events_of(way.method, *way.script(), where=environment())
    told = [[event.model_dump(exclude=VARYING) for event in events] for events in (far, near)]
    assert told[0] == told[1]


@both
def test_one_damaged_picture_is_told_and_the_others_are_shown(way: Way) -> None:
    with serving(Faulty(tiny_corpus().items)) as url, SearchClient(url, retries=0) as client:
        events, _ = events_of(way.method, *way.script(), where=environment(client))
    (returned,) = of(SearchReturned, events)
    assert len(returned.damaged) == 1
    assert [image.item for image in of(ImageShown, events)] == [ITEMS["ferry_1"].id]
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].stop_reason is StopReason.ANSWERED


def sends(data: object, status: int = 200) -> httpx.Response:
    """A response of bytes, or of JSON."""
    return httpx.Response(
        status, stream=httpx.ByteStream(data if isinstance(data, bytes) else json.dumps(data).encode())
    )


def answering(request: httpx.Request) -> httpx.Response:
    """A server of two pages, and of pictures that are none."""
    path, searcher = request.url.path, tiny_corpus()
    if path == "/version":
        return sends({"version": "1", "corpora": []})
    if path == "/search":
        data = [
            {"type": "image", "file_path": "a_1.jpg", "id": item.id, "document": item.document}
            for item in searcher.items[:2]
        ]
        result = {"score": [2.0, 1.0], "indice": [0, 1], "data": data}
        return sends({"results": [result]})
    if path.endswith("/image"):
        return sends(b"no picture", 500 if "-1/" in path else 200)
    item = searcher.item(path.rsplit("/", 1)[-1])
    return sends(ItemInfo.of(item, words=True).model_dump_json().encode())


@both
def test_what_a_server_sends_in_place_of_pictures_is_told(way: Way) -> None:
    """One is answered 500, one is no picture; items are told as they are."""
    with SearchClient("http://far.example", transport=httpx.MockTransport(answering), retries=0) as client:
        events, _ = events_of(way.method, *way.script(), where=environment(client))
    (returned,) = of(SearchReturned, events)
    assert len(returned.damaged) == 2
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].stop_reason is StopReason.ANSWERED


@both
@pytest.mark.parametrize("dies_at", ["/search", "/items/", "/image"])
def test_a_server_that_is_gone_ends_the_run(way: Way, dies_at: str) -> None:
    dead: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if dead or dies_at in path:
            dead.append(path)
            raise httpx.ConnectError("refused", request=request)
        return answering(request)

    with SearchClient("http://far.example", transport=httpx.MockTransport(answer), retries=0) as client:
        events, _ = events_of(way.method, *way.script(), where=environment(client))
    assert isinstance(events[-1], RunFailed)
    assert (events[-1].boundary, events[-1].stop_reason) == ("ServerError", StopReason.SEARCH_ERROR)
    assert "cannot be reached" in events[-1].message
    assert len(dead) <= 2  # what failed, and the question whether the server is there


@dataclass
class Opened:
    """Files that are opened while it watches."""

    on: bool = False
    paths: list[str] = field(default_factory=list[str])

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event == "open":
            self.paths.append(str(arguments[0]))


OPENED = Opened()


@pytest.fixture(scope="module", autouse=True)
def watched() -> None:
    sys.addaudithook(OPENED.hook)  # cannot be taken off again; it is off outside of `opened`


@contextmanager
def opened() -> Generator[list[str]]:
    OPENED.paths.clear()
    OPENED.on = True
    try:
        yield OPENED.paths
    finally:
        OPENED.on = False


@both
@pytest.mark.parametrize("named", ["id", "path"])
def test_no_path_that_a_server_names_is_opened(way: Way, named: str, tmp_path: Path) -> None:
    """As id of an item, or as the path of a file, of which a server of the reference names nothing else."""
    secret = tmp_path / "secret.jpg"
    Image.new("RGB", (300, 300), "red").save(secret)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/version":
            return sends({"version": "1", "corpora": []})
        entry = {"type": "image", "file_path": str(secret)} | ({"id": str(secret)} if named == "id" else {})
        results = [{"score": [1.0], "indice": [0], "data": [entry]}]
        return sends({"results": results})

    with (
        SearchClient("http://far.example", transport=httpx.MockTransport(answer), retries=0) as client,
        opened() as paths,
    ):
        events, _ = events_of(way.method, *way.script(), where=environment(client))
    assert str(secret) not in paths
    assert not of(ImageShown, events)
    assert isinstance(events[-1], AnswerGiven | RunFailed)


def test_the_watch_over_files_sees_a_file_that_is_opened(tmp_path: Path) -> None:
    (tmp_path / "seen.txt").write_text("x")
    with opened() as paths:
        (tmp_path / "seen.txt").read_text()
    assert str(tmp_path / "seen.txt") in paths


@both
def test_no_path_that_a_document_or_a_model_names_is_opened(way: Way, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    Image.new("RGB", (300, 300), "red").save(secret)
    replies = (
        way.search(str(secret)),
        f"<think>.</think><search image='{secret}'>x</search>",
        f'<think>.</think><bbox image="{secret}">[0, 0, 90, 90]</bbox>',
        f"<think>.</think><open>{secret}</open>",
        way.answer(f"![]({secret})"),
    )
    with opened() as paths:
        events, _ = events_of(way.method, *replies)
    assert str(secret) not in paths
    assert not of(ImageShown, events)
    assert not of(PassageShown, events)
