"""Searches that wait at the same time are made in one call, in one thread of their own.

A search over many vectors reads all of them, whether for one query or for fifty, and an embedder takes
fifty queries in little more time than one. So while one call runs, what arrives waits and goes together
into the next. Nobody waits for others to come: a query that finds the thread idle is searched at once.

A request of more queries than a call takes is searched piece by piece; after each it goes to the end of the
line. So it holds up others no longer than one call, and when it is given up, its rest is not searched. Each
piece searches what is newest then.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vrag.errors import VragError
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.server.hit_json import EntryFinder, ShownHit
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions
    from vrag.types import Query

__all__ = ["Batcher"]

Found: TypeAlias = "list[list[ShownHit]]"


@dataclass(slots=True, eq=False)
class _PendingQuery:
    """A request that waits for its hits."""

    queries: Sequence[Query]
    top_k: int
    answer: asyncio.Future[Found]
    begun: int = 0
    """How many of its queries have been handed to the thread."""
    found: Found = field(default_factory=list["list[ShownHit]"])
    """Of those that have come back."""

    @property
    def waiting(self) -> int:
        """How many of its queries wait."""
        return len(self.queries) - self.begun


class _Piece(NamedTuple):
    """Queries of one request that go into one call."""

    pending: _PendingQuery
    queries: Sequence[Query]


class Batcher:
    """Brings the queries of concurrent requests to the searcher together. Belongs to one event loop.

    Requests with the same `top_k` share a call; a result never depends on what it was batched with,
    not even through the depth to which a searcher ranks for a larger `top_k`.

    Args:
        finder: Called in one thread only, one call after the other.
        options: How many queries may wait, and how many go into one call.
        metrics: Where batches are counted.
    """

    def __init__(self, finder: EntryFinder, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._finder = finder
        self._options = options
        self._metrics = metrics
        self._waiting: deque[_PendingQuery] = deque()
        self._count = 0
        self._thread = Threads(1, "vrag-search")
        self._work: asyncio.Task[None] | None = None

    def search(self, queries: Sequence[Query], top_k: int) -> asyncio.Future[Found]:
        """Hands in a request; the future is its hits. Cancel it, and what of it still waits drops out.

        Raises:
            Refusal: If too many queries wait already (503).
        """
        if self._count and self._count + len(queries) > self._options.waiting_queries:
            raise Refusal(503, "Too many searches are waiting.", "Come back in a second.")
        loop = asyncio.get_running_loop()
        pending = _PendingQuery(queries, top_k, loop.create_future())
        self._waiting.append(pending)
        self._counted(len(queries))
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._run())
        return pending.answer

    async def close(self, seconds: float) -> None:
        """Gives up what waits, and ends the thread when its call has returned or these seconds are over."""
        for pending in self._waiting:
            pending.answer.cancel()
        self._drop()
        if self._work is not None:
            self._work.cancel()
            self._work = None
        await self._thread.close(seconds)

    async def _run(self) -> None:
        """Works until nothing waits."""
        while batch := self._take():
            answers = await self._thread.run(partial(self._call, batch))
            for piece, answer in zip(batch, answers, strict=True):
                _deliver(piece.pending, answer)

    def _take(self) -> list[_Piece]:
        """The next pieces of the oldest requests, as many as fit into a batch, in the order of `top_k`."""
        self._drop()
        batch: list[_Piece] = []
        unfinished: list[_PendingQuery] = []
        room = self._options.batch_queries
        while room and self._waiting and (size := self._share(self._waiting[0], room)) <= room:
            pending = self._waiting.popleft()
            batch.append(_Piece(pending, pending.queries[pending.begun : pending.begun + size]))
            pending.begun += size
            room -= size
            self._counted(-size)
            if pending.waiting:
                unfinished.append(pending)
        self._waiting.extend(unfinished)
        return sorted(batch, key=lambda piece: piece.pending.top_k)

    def _share(self, pending: _PendingQuery, room: int) -> int:
        """How many of a request's queries go into this call: all, or what it has room for of too many."""
        return room if pending.waiting > self._options.batch_queries else pending.waiting

    def _drop(self) -> None:
        """Takes those out of the line that were given up or have failed."""
        gone = [pending for pending in self._waiting if pending.answer.done()]
        if gone:
            self._waiting = deque(pending for pending in self._waiting if not pending.answer.done())
            self._counted(-sum(pending.waiting for pending in gone))

    def _counted(self, change: int) -> None:
        self._count += change
        self._metrics.waiting_queries.set(self._count)

    def _call(self, batch: list[_Piece]) -> list[Found | Exception]:
        """In the thread: one call per `top_k`."""
        answers: list[Found | Exception] = []
        for top_k, group in groupby(batch, key=lambda piece: piece.pending.top_k):
            answers.extend(self._together([piece.queries for piece in group], top_k))
        return answers

    def _together(self, pieces: list[Sequence[Query]], top_k: int) -> list[Found | Exception]:
        """One call; where it fails and several share it, each alone, so that one's fault is its own."""
        try:
            hits = self._search(list(chain.from_iterable(pieces)), top_k)
        except VragError as error:
            if len(pieces) == 1:
                return [error]
            return [answer for piece in pieces for answer in self._together([piece], top_k)]
        except Exception as error:  # noqa: BLE001 - raised again where the request is handled
            return [error] * len(pieces)
        ends = accumulate(map(len, pieces))
        return [hits[end - len(piece) : end] for piece, end in zip(pieces, ends, strict=True)]

    def _search(self, queries: Sequence[Query], top_k: int) -> Found:
        started = time.perf_counter()
        hits = self._finder.search(queries, top_k)
        self._metrics.batch_queries.observe(len(queries))
        self._metrics.batch_seconds.observe(time.perf_counter() - started)
        return hits


def _deliver(pending: _PendingQuery, answer: Found | Exception) -> None:
    """Adds what a piece found; with the last one the request is answered."""
    if pending.answer.done():  # given up meanwhile
        return
    if isinstance(answer, Exception):
        pending.answer.set_exception(answer)
        return
    pending.found.extend(answer)
    if len(pending.found) == len(pending.queries):
        pending.answer.set_result(pending.found)
