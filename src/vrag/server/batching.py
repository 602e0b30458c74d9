"""Searches that wait at the same time are made in one call, in one thread of their own.

A search over many vectors reads all of them, whether for one query or for fifty, and an embedder takes
fifty queries in little more time than one. So while one call runs, what arrives waits and goes together
into the next. Nobody waits for others to come: a query that finds the thread idle is searched at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, TypeAlias

from vrag.errors import VragError
from vrag.server.problems import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.server.entries import Finder, Shown
    from vrag.server.metrics import Metrics
    from vrag.server.options import ServerOptions
    from vrag.types import Query

__all__ = ["Batcher"]

Found: TypeAlias = "list[list[Shown]]"


@dataclass(frozen=True, slots=True, eq=False)
class _Ticket:
    """A request that waits for its hits."""

    queries: Sequence[Query]
    top_k: int
    answer: asyncio.Future[Found]


class Batcher:
    """Brings the queries of concurrent requests to the searcher together. Belongs to one event loop.

    Requests with the same `top_k` share a call; a result never depends on what it was batched with,
    not even through the depth to which a searcher ranks for a larger `top_k`.

    Args:
        finder: Called in one thread only, one call after the other.
        options: How many queries may wait, and how many go into one call.
        metrics: Where batches are counted.
    """

    def __init__(self, finder: Finder, options: ServerOptions, metrics: Metrics) -> None:
        self._finder = finder
        self._options = options
        self._metrics = metrics
        self._waiting: deque[_Ticket] = deque()
        self._count = 0
        self._thread: ThreadPoolExecutor | None = None
        self._work: asyncio.Task[None] | None = None

    def search(self, queries: Sequence[Query], top_k: int) -> asyncio.Future[Found]:
        """Hands in a request; the future is its hits. Cancel it, and it drops out if it still waits.

        Raises:
            Refusal: If too many queries wait already (503).
        """
        if self._count and self._count + len(queries) > self._options.waiting_queries:
            raise Refusal(503, "Too many searches are waiting.", "Come back in a second.")
        loop = asyncio.get_running_loop()
        ticket = _Ticket(queries, top_k, loop.create_future())
        self._waiting.append(ticket)
        self._counted(len(queries))
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._run())
        return ticket.answer

    async def close(self) -> None:
        """Ends the thread when the call that runs has returned."""
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)
            self._thread = None

    def _opened(self) -> ThreadPoolExecutor:
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="vrag-search")
        return self._thread

    async def _run(self) -> None:
        """Works until nothing waits."""
        loop = asyncio.get_running_loop()
        while batch := self._take():
            answers = await loop.run_in_executor(self._opened(), self._call, batch)
            for ticket, answer in zip(batch, answers, strict=True):
                _deliver(ticket, answer)

    def _take(self) -> list[_Ticket]:
        """The oldest requests, as many as fit into a batch, without those that were given up."""
        batch: list[_Ticket] = []
        room = self._options.batch_queries
        while self._waiting and (not batch or len(self._waiting[0].queries) <= room):
            ticket = self._waiting.popleft()
            self._counted(-len(ticket.queries))
            if not ticket.answer.done():
                batch.append(ticket)
                room -= len(ticket.queries)
        return sorted(batch, key=lambda ticket: ticket.top_k)

    def _counted(self, change: int) -> None:
        self._count += change
        self._metrics.waiting_queries.set(self._count)

    def _call(self, batch: list[_Ticket]) -> list[Found | Exception]:
        """In the thread: one call per `top_k`."""
        answers: list[Found | Exception] = []
        for _, group in groupby(batch, key=lambda ticket: ticket.top_k):
            answers.extend(self._together(list(group)))
        return answers

    def _together(self, tickets: list[_Ticket]) -> list[Found | Exception]:
        """One call; where it fails and several share it, each alone, so that one's fault is its own."""
        queries = [query for ticket in tickets for query in ticket.queries]
        try:
            hits = self._search(queries, tickets[0].top_k)
        except VragError as error:
            if len(tickets) == 1:
                return [error]
            return [answer for ticket in tickets for answer in self._together([ticket])]
        except Exception as error:  # noqa: BLE001 - raised again where the request is handled
            return [error] * len(tickets)
        ends = accumulate(len(ticket.queries) for ticket in tickets)
        return [hits[end - len(ticket.queries) : end] for ticket, end in zip(tickets, ends, strict=True)]

    def _search(self, queries: Sequence[Query], top_k: int) -> Found:
        started = time.perf_counter()
        hits = self._finder.search(queries, top_k)
        self._metrics.batch_queries.observe(len(queries))
        self._metrics.batch_seconds.observe(time.perf_counter() - started)
        return hits


def _deliver(ticket: _Ticket, answer: Found | Exception) -> None:
    if ticket.answer.done():  # given up meanwhile
        return
    if isinstance(answer, Exception):
        ticket.answer.set_exception(answer)
    else:
        ticket.answer.set_result(answer)
