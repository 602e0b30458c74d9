"""Searches of many rollouts at once: gathered into one call, and what was opened kept at hand.

An embedder takes fifty queries in little more time than one, and all rollouts of a group open the same pages.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size
    from vrag.search.engine import Searcher
    from vrag.types import Hit, Item, Query

__all__ = ["BatchedSearcher"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _PendingSearch:
    """Queries that wait for their hits."""

    queries: Sequence[Query]
    top_k: int
    answer: Future[list[list[Hit]]] = field(default_factory=Future["list[list[Hit]]"])
    taken: bool = False
    """Whether some thread searches them."""


class BatchedSearcher:
    """A `Searcher` for many threads that asks another one less often.

    Searches that arrive within a moment, or while a call runs, go into one call, and each gets what it would
    have got alone: searches of another depth are a call of their own, and where a call fails each is made
    again by itself, so that one's fault is its own. The thread that comes first makes the call; there is none
    to start or to end. Calls follow one another: one that hangs holds up the next, as far as the searcher
    lets it hang.

    Items and pictures are kept, the latest used first, so the collection must stay as it is meanwhile, as it
    must for rollouts anyway. Whoever gets a picture must not draw on it. Frames of clips are not kept.

    Args:
        searcher: What searches.
        queries: That go into one call at most, unless a single search has more.
        wait: Seconds that a search waits for others when none runs; what arrives during a call waits anyway.
        items: Items kept, at most.
        picture_bytes: Of decoded pictures kept, at most; one that is larger is not.
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
        self._searcher = searcher
        self._most, self._wait = queries, wait
        self._waiting: deque[_PendingSearch] = deque()
        self._lock = threading.Lock()
        """Of what waits."""
        self._calling = threading.Lock()
        """Held by the thread that makes a call."""
        self._items: _Latest[Item] = _Latest(items, lambda _: 1)
        self._pictures: _Latest[Image] = _Latest(picture_bytes, _size)
        self.calls = 0
        """Made so far."""
        self.asked = 0
        """Queries in them."""

    @property
    def version(self) -> str:
        """That of what searches."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first; see `Searcher.search`.

        Raises:
            SearchError: If a query is empty or `top_k` not within 1 to 1000.
        """
        pending = _PendingSearch(queries, top_k)
        with self._lock:
            self._waiting.append(pending)
        while not pending.taken:
            with self._calling:
                if not pending.taken:
                    self._call()
        return pending.answer.result()

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self._items.of(id, lambda: self._searcher.item(id))

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item; see `Searcher.image`.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged.
        """
        return self._pictures.of((id, least), lambda: self._searcher.image(id, least=least))

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of the clip that an item is; see `Searcher.frames`.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its clip is missing or damaged.
            MissingExtra: If PyAV is not installed.
        """
        return self._searcher.frames(id, fps=fps, most=most)

    def _call(self) -> None:
        """Searches what waits, oldest first."""
        if len(self._waiting) == 1:
            time.sleep(self._wait)
        for top_k, group in groupby(self._take(), key=lambda pending: pending.top_k):
            self._together(list(group), top_k)

    def _take(self) -> list[_PendingSearch]:
        """What goes into the next call, in the order of `top_k`."""
        batch: list[_PendingSearch] = []
        room = self._most
        with self._lock:
            while self._waiting and (not batch or len(self._waiting[0].queries) <= room):
                pending = self._waiting.popleft()
                pending.taken = True
                room -= len(pending.queries)
                batch.append(pending)
        return sorted(batch, key=lambda pending: pending.top_k)

    def _together(self, batch: list[_PendingSearch], top_k: int) -> None:
        """One call; each alone where it fails."""
        queries = [query for pending in batch for query in pending.queries]
        self.calls += 1
        self.asked += len(queries)
        try:
            found = zip(queries, self._searcher.search(queries, top_k), strict=True)
            hits = [hits for _, hits in found]
        except BaseException as error:  # noqa: BLE001 - raised where the search is waited for
            if len(batch) == 1 or not isinstance(error, Exception):
                for pending in batch:
                    pending.answer.set_exception(error)
                return
            for pending in batch:
                self._together([pending], top_k)
        else:
            ends = accumulate(len(pending.queries) for pending in batch)
            for pending, end in zip(batch, ends, strict=True):
                pending.answer.set_result(hits[end - len(pending.queries) : end])


class _Latest(Generic[T]):
    """Values by key, the latest used as far as they fit.

    Args:
        limit: The sum of sizes, at most.
        size: Of a value.
    """

    def __init__(self, limit: int, size: Callable[[T], int]) -> None:
        self._left, self._limit, self._size = limit, limit, size
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; made where it is not kept, by two threads at worst."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            if key not in self._kept and self._size(value) <= self._limit:
                self._kept[key] = value
                self._left -= self._size(value)
            while self._left < 0:
                self._left += self._size(self._kept.popitem(last=False)[1])
        return value


def _size(image: Image) -> int:
    """Bytes of a decoded picture."""
    return image.width * image.height * len(image.getbands())
