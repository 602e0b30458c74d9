"""`/search` in both of its forms, and the batcher that answers concurrent requests in one call.

A search over many vectors reads all of them, whether for one query or for fifty, and an embedder takes
fifty queries in little more time than one. So while one call runs, what arrives waits and goes together
into the next. Nobody waits for others to come: a query that finds the thread idle is searched at once.

A request of more queries than a call takes is searched piece by piece; after each it goes to the end of the
queue. So it holds up others no longer than one call, and when it is given up, its rest is not searched. Each
piece searches what is newest then.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Annotated, Any, NamedTuple, TypeAlias

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from vrag.errors import VragError
from vrag.search.schema import (
    MAX_QUERIES,
    OLDER_TOP_K,
    ImageFileEntry,
    QueryText,
    SearchRequest,
    SearchResponse,
)
from vrag.server.http.background import Threads, wait_for_client
from vrag.server.http.errors import Refusal, json_body, responses
from vrag.server.item_files import DetailedHit, DetailedSearcher, image_file_json, search_response_json
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions
from vrag.types import Query as SearchQuery

DetailedHits: TypeAlias = "list[list[DetailedHit]]"
Corpora: TypeAlias = "Callable[[], Sequence[str]]"
"""Returns the names of collections that a search may name now."""


@dataclass(slots=True, eq=False)
class _PendingRequest:
    queries: Sequence[SearchQuery]
    top_k: int
    answer: asyncio.Future[DetailedHits]
    started: int = 0
    """Queries that have been handed to the thread."""
    hits: DetailedHits = field(default_factory=list["list[DetailedHit]"])
    """Hits of the queries that have come back."""

    @property
    def waiting(self) -> int:
        """Queries that wait."""
        return len(self.queries) - self.started

    def deliver(self, answer: DetailedHits | Exception) -> None:
        """Add the hits of a piece; with the last one the request is answered."""
        if self.answer.done():  # given up meanwhile
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
            return
        self.hits.extend(answer)
        if len(self.hits) == len(self.queries):
            self.answer.set_result(self.hits)


class _Piece(NamedTuple):
    """Queries of one request that go into one call."""

    request: _PendingRequest
    queries: Sequence[SearchQuery]


class Batcher:
    """Brings the queries of concurrent requests to the searcher together. Belongs to one event loop.

    Requests with the same `top_k` share a call; a result never depends on what it was batched with,
    not even through the depth to which a searcher ranks for a larger `top_k`. The searcher is called in one
    thread only, one call after the other.
    """

    def __init__(self, searcher: DetailedSearcher, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._searcher = searcher
        self._options = options
        self._metrics = metrics
        self._queue: deque[_PendingRequest] = deque()
        self._waiting = 0
        self._thread = Threads(1, "vrag-search")
        self._task: asyncio.Task[None] | None = None

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> asyncio.Future[DetailedHits]:
        """Submit a request, or refuse it (503); a cancelled future drops out of what still waits."""
        if self._waiting and self._waiting + len(queries) > self._options.waiting_queries:
            raise Refusal(503, "Too many searches are waiting.", "Try again in a second.")
        loop = asyncio.get_running_loop()
        request = _PendingRequest(queries, top_k, loop.create_future())
        self._queue.append(request)
        self._count(len(queries))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        return request.answer

    async def close(self, seconds: float) -> None:
        """Give up what waits, and end the thread when its call has returned or these seconds are over."""
        for request in self._queue:
            request.answer.cancel()
        self._drop_finished()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        await self._thread.close(seconds)

    async def _run(self) -> None:
        def search() -> list[DetailedHits | Exception]:  # in the thread, one call for each `top_k`
            groups = groupby(batch, key=lambda piece: piece.request.top_k)
            return [answer for _, group in groups for answer in self._search_together(list(group))]

        while batch := self._take_batch():
            answers = await self._thread.run(search)
            for piece, answer in zip(batch, answers, strict=True):
                piece.request.deliver(answer)

    def _take_batch(self) -> list[_Piece]:
        """Take the next pieces of the oldest requests, as many as fit into a batch, sorted by `top_k`."""
        self._drop_finished()
        batch: list[_Piece] = []
        unfinished: list[_PendingRequest] = []
        room = max_queries = self._options.batch_queries
        while room and self._queue:
            waiting = self._queue[0].waiting
            size = room if waiting > max_queries else waiting  # only what no batch has room for is split
            if size > room:
                break
            request = self._queue.popleft()
            batch.append(_Piece(request, request.queries[request.started : request.started + size]))
            request.started += size
            room -= size
            self._count(-size)
            if request.waiting:
                unfinished.append(request)
        self._queue.extend(unfinished)
        return sorted(batch, key=lambda piece: piece.request.top_k)

    def _drop_finished(self) -> None:
        """Remove requests from the queue that were given up or have failed."""
        dropped = [request for request in self._queue if request.answer.done()]
        if dropped:
            self._queue = deque(request for request in self._queue if not request.answer.done())
            self._count(-sum(request.waiting for request in dropped))

    def _count(self, change: int) -> None:
        self._waiting += change
        self._metrics.waiting_queries.set(self._waiting)

    def _search_together(self, pieces: list[_Piece]) -> list[DetailedHits | Exception]:
        """Search pieces in one call; if it fails, each alone: the error of one does not affect others."""
        queries = [query for piece in pieces for query in piece.queries]
        started = time.perf_counter()
        try:
            hits = self._searcher.search(queries, pieces[0].request.top_k)
        except VragError as error:
            if len(pieces) == 1:
                return [error]
            return [answer for piece in pieces for answer in self._search_together([piece])]
        except Exception as error:  # noqa: BLE001 - raised again where the request is handled
            return [error] * len(pieces)
        self._metrics.batch_queries.observe(len(queries))
        self._metrics.batch_seconds.observe(time.perf_counter() - started)
        left = iter(hits)
        return [list(islice(left, len(piece.queries))) for piece in pieces]


def search_routes(batcher: Batcher, options: ServerOptions, corpora: Corpora) -> APIRouter:
    """Build `POST /search` and `GET /search`."""
    router = APIRouter(tags=["search"])
    refused = responses(502, 503, 504)

    async def search_batched(http_request: Request, request: SearchRequest) -> DetailedHits:
        texts = [request.queries] if isinstance(request.queries, str) else list(map(str, request.queries))
        number = len(texts)
        names = sorted(request.corpora or ())
        http_request.state.audit.note(collection=",".join(names), question="\n".join(texts))
        if number * request.top_k > options.hits:
            message = f"{number} queries times top_k {request.top_k} is more than {options.hits:,} hits."
            raise Refusal(422, message, "Ask for less at a time.")
        names = corpora()
        unknown = sorted((request.corpora or frozenset[str]()).difference(names))
        if unknown:
            known = f"There are: {', '.join(names)}." if names else "This server has one, without a name."
            raise Refusal(422, f"There is no collection named {unknown[0][:100]!r}.", known)
        work = batcher.search(request.as_queries(), request.top_k)
        return await wait_for_client(http_request, work, options.search_seconds)

    @router.post(
        "/search",
        summary="Search",
        openapi_extra=search_body(()),
        response_model=None,
        responses={200: {"model": SearchResponse | list[list[ImageFileEntry]], "description": "The hits."}}
        | refused,
    )
    async def search(request: Request) -> Response:
        """For each query the best `top_k` items, best first. Filters apply before the ranking.

        With `vrag_ret` the answer has the older form.
        """
        parsed = SearchRequest.model_validate_json(await request.body())
        hits = await search_batched(request, parsed)
        return _json(image_file_json(hits) if parsed.vrag_ret else search_response_json(hits))

    @router.get(
        "/search",
        summary="Search for pictures, in the older form",
        response_model=None,
        responses={200: {"model": list[list[ImageFileEntry]], "description": "The hits."}} | refused,
    )
    async def search_images(
        request: Request,
        queries: Annotated[
            list[QueryText],
            Query(min_length=1, max_length=MAX_QUERIES, description="What to look for; may be repeated."),
        ],
    ) -> Response:
        """For each query the names of the ten best pages, best first."""
        parsed = SearchRequest(queries=queries, top_k=OLDER_TOP_K, vrag_ret=True)
        return _json(image_file_json(await search_batched(request, parsed)))

    return router


def search_body(corpora: Sequence[str]) -> dict[str, Any]:
    """Describe the body of a search for OpenAPI: its model, and the names that are known now."""
    schema = SearchRequest.model_json_schema()
    names = {"type": "string", "enum": list(corpora)}
    several = {"type": "array", "items": names, "minItems": 1, "maxItems": 100}
    schema["properties"]["search_corpus"]["anyOf"] = [
        *([names, several] if corpora else []),
        {"type": "null"},
    ]
    return json_body(schema)


def _json(content: object) -> Response:
    return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")
