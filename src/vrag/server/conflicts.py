"""Where the documents of a server disagree, for `GET /conflicts` and MCP.

All pages are read for it, which takes a minute for a thousand: one comparison runs at a time, in a thread of
its own, and its result is kept until the documents change. A request that is given up leaves it running, and
the next one finds its result.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

from cachetools import LRUCache
from fastapi import APIRouter, Query, Request

from vrag.agent.answers.conflicts import ConflictReport, find_conflicts
from vrag.reading.conflicts.editions import DocumentFacts
from vrag.search.searcher import Searcher, list_documents
from vrag.server.http.background import ItemThreadPool, Threads, wait_for_client
from vrag.server.http.errors import Refusal, responses
from vrag.server.options import ServerOptions
from vrag.server.search import Corpora

CACHE_SIZE = 8
"""Reports that are kept."""
_Key = tuple[str, str]
"""Version of the searcher, and the collection that was compared; empty for all."""


class ConflictReports:
    """The conflicts of the documents of a searcher. Belongs to one event loop."""

    def __init__(self, searcher: Searcher, options: ServerOptions, item_threads: ItemThreadPool) -> None:
        self._searcher = searcher
        self._seconds = options.item_seconds
        self._item_threads = item_threads
        self._threads = Threads(1, "vrag-conflicts")
        self._reports: LRUCache[_Key, ConflictReport] = LRUCache(CACHE_SIZE)
        self._running: dict[_Key, asyncio.Future[ConflictReport]] = {}
        self._closing = threading.Event()

    async def report(self, request: Request, collection: str) -> ConflictReport:
        """Return the report of a collection, or of all. Raises `Refusal` if it takes too long (504)."""
        version = await self._item_threads.run_for(request, lambda: self._searcher.version)
        return await wait_for_client(request, self._start(version, collection), self._seconds)

    async def wait_for_report(self, collection: str) -> ConflictReport:
        """Return the report for somebody who does not ask over HTTP; otherwise as `report`."""
        try:
            async with asyncio.timeout(self._seconds):
                version = await self._item_threads.run(lambda: self._searcher.version)
                return await self._start(version, collection)
        except TimeoutError:
            message = f"The documents have been compared for {self._seconds:g} s, and it goes on."
            raise Refusal(504, message, "Ask again in a minute.") from None

    def _start(self, version: str, collection: str) -> asyncio.Future[ConflictReport]:
        """Return the result of a comparison, which goes on if nobody waits for it."""
        wanted = version, collection
        if wanted in self._reports:
            known = asyncio.get_running_loop().create_future()
            known.set_result(self._reports[wanted])
            return known
        if wanted not in self._running:
            closing = self._closing
            work = self._threads.run(lambda: self._compare(collection, closing))
            self._running[wanted] = work
            work.add_done_callback(lambda done: self._keep(wanted, done))
        return asyncio.shield(self._running[wanted])

    async def close(self, seconds: float) -> None:
        """End the comparison that runs before its next document."""
        self._closing.set()
        await self._threads.close(seconds)
        self._closing = threading.Event()  # the server may be opened again

    def _keep(self, key: _Key, done: asyncio.Future[ConflictReport]) -> None:
        self._running.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self._reports[key] = done.result()

    def _compare(self, collection: str, closing: threading.Event) -> ConflictReport:
        def check_open(_name: str, number: int, total: int) -> None:
            if closing.is_set():
                raise Refusal(503, f"The server is closing; {number} of {total} documents were read.")

        listed = list_documents(self._searcher, frozenset({collection}) if collection else None)
        documents = sorted((name, id) for id, name in listed.items())
        return find_conflicts(self._searcher, [DocumentFacts(id, name) for name, id in documents], check_open)


def conflict_routes(reports: ConflictReports, corpora: Corpora) -> APIRouter:
    """Build `GET /conflicts`."""
    router = APIRouter(tags=["search"])

    @router.get("/conflicts", summary="Where documents disagree", responses=responses(404, 502, 503, 504))
    async def conflicts(
        request: Request,
        collection: Annotated[
            str, Query(max_length=200, description="Name of the collection; all if absent.")
        ] = "",
    ) -> ConflictReport:
        """Statements about the same that have another number, date, name or unit, or deny each other.

        The first request reads all documents. If that takes too long, the answer is 504 and the work goes on:
        ask again later.
        """
        if collection and collection not in corpora():
            raise Refusal(404, f"There is no collection named {collection[:100]!r}.")
        return await reports.report(request, collection)

    return router
