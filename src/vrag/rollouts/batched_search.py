"""Searches of many rollouts in batches, and a cache of the items and images that they open.

An embedder takes fifty queries in little more time than one, and all rollouts of a group open the same pages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, TypeVar

from cachetools import LRUCache

from vrag.geometry import Size
from vrag.search.searcher import ForwardedItems, Searcher
from vrag.types import Hit, Item, Query

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _PendingSearch:
    """Queries that wait for their hits."""

    queries: Sequence[Query]
    top_k: int
    result: Future[list[list[Hit]]] = field(default_factory=Future["list[list[Hit]]"])
    taken: bool = False
    """True if some thread searches them."""


class BatchedSearcher(ForwardedItems):
    """A `Searcher` for many threads that asks another one less often.

    Searches that arrive within a moment, or while a call runs, go into one call, and each gets what it would
    have got alone: searches of another depth are a call of their own, and where a call fails each is made
    again by itself, so that one fault fails one search. The thread that comes first makes the call. Calls
    follow one another: one that hangs holds up the next, as far as the searcher lets it hang.

    The latest items and images are kept, so the collection must not change meanwhile, as it must not for
    rollouts anyway. Do not draw on an image. Frames of clips are not kept.

    Args:
        searcher: The searcher to ask.
        queries: Maximum in one call, unless a single search has more.
        wait: Seconds that a search waits for others when none runs; what arrives during a call waits anyway.
        items: Maximum of items kept.
        picture_bytes: Maximum of decoded images kept; a larger one is not.
    """

    def __init__(
        self,
        searcher: Searcher,
        *,
        queries: int = 64,
        wait: float = 0.002,
        items: int = 4096,
        picture_bytes: int = 256 * 1024 * 1024,
    ) -> None:
        self._searcher = self._items = searcher
        self._max_queries, self._wait = queries, wait
        self._waiting: deque[_PendingSearch] = deque()
        self._lock = threading.Lock()
        """Lock of the queue and the caches."""
        self._calling = threading.Lock()
        """Held by the thread that makes a call."""
        self._cached_items: LRUCache[Hashable, Item] = LRUCache(items)
        self._cached_images: LRUCache[Hashable, Image] = LRUCache(
            picture_bytes, lambda image: image.width * image.height * len(image.getbands())
        )
        self.calls = 0
        """Made so far."""
        self.asked = 0
        """Queries in them."""

    @property
    def version(self) -> str:
        """The version of the searcher that is asked."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first; see `Searcher.search`.

        Raises `SearchError` if a query is empty or `top_k` not within 1 to 1000.
        """
        pending = _PendingSearch(queries, top_k)
        with self._lock:
            self._waiting.append(pending)
        while not pending.taken:
            with self._calling:
                if not pending.taken:
                    self._search_waiting()
        return pending.result.result()

    def item(self, id: str) -> Item:
        """Return an item; see `ItemStore.item`."""
        return self._cached(self._cached_items, id, lambda: self._searcher.item(id))

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the image of an item; see `ItemStore.image`."""
        return self._cached(self._cached_images, (id, least), lambda: self._searcher.image(id, least=least))

    def _search_waiting(self) -> None:
        """Search as many waiting queries as go into one call, oldest first."""
        if len(self._waiting) == 1:
            time.sleep(self._wait)
        batch: list[_PendingSearch] = []
        room = self._max_queries
        with self._lock:
            while self._waiting and (not batch or len(self._waiting[0].queries) <= room):
                pending = self._waiting.popleft()
                pending.taken = True
                room -= len(pending.queries)
                batch.append(pending)
        batch.sort(key=lambda pending: pending.top_k)
        for top_k, group in groupby(batch, key=lambda pending: pending.top_k):
            self._search_batch(list(group), top_k)

    def _search_batch(self, batch: list[_PendingSearch], top_k: int) -> None:
        """Make one call; where it fails, one for each search."""
        queries = [query for pending in batch for query in pending.queries]
        self.calls += 1
        self.asked += len(queries)
        try:
            found = zip(queries, self._searcher.search(queries, top_k), strict=True)
            hits = [hits for _, hits in found]
        except BaseException as error:  # noqa: BLE001 - raised where the search is waited for
            if len(batch) == 1 or not isinstance(error, Exception):
                for pending in batch:
                    pending.result.set_exception(error)
                return
            for pending in batch:
                self._search_batch([pending], top_k)
        else:
            ends = accumulate(len(pending.queries) for pending in batch)
            for pending, end in zip(batch, ends, strict=True):
                pending.result.set_result(hits[end - len(pending.queries) : end])

    def _cached(self, cache: LRUCache[Hashable, T], key: Hashable, read: Callable[[], T]) -> T:
        """Return a cached value, or read it; two threads may read the same one."""
        with self._lock:
            if key in cache:
                return cache[key]
        value = read()
        with self._lock:
            if cache.getsizeof(value) <= cache.maxsize:
                cache[key] = value
        return value
