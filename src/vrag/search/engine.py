"""Queries find items: lexical search always, vectors where the collection has them, fused."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vrag.errors import SearchError
from vrag.index.lexical.lexical_index import Lexical, LexicalEntry
from vrag.index.tables.catalog import Catalog
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import open_vectors
from vrag.search.fusion import reciprocal_rank_fusion
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import Embedder
    from vrag.geometry import Size
    from vrag.index.collection import Collection
    from vrag.index.lexical.lexical_index import WordStatistics
    from vrag.index.vectors.tiers import Tier
    from vrag.index.vectors.vector_index import VectorIndex
    from vrag.types import Hit, Item, Query

__all__ = [
    "MAX_TOP_K",
    "Engine",
    "Ranking",
    "Searcher",
    "Snapshot",
    "check_corpora",
    "check_search",
    "depth_of",
    "fused",
]

MAX_TOP_K = 1000
_MIN_DEPTH = 100
_Found: TypeAlias = list[tuple[str, float]]
"""Ids of items with scores, best first."""
_CACHE = "lexical-"
_STALE_SECONDS = 600.0
"""Age from which caches of other contents are deleted: another process may just be making one."""


class Searcher(Protocol):
    """Finds items, and shows them."""

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same."""
        ...

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first.

        Raises:
            SearchError: If a query is empty or `top_k` not within 1 to 1000.
        """
        ...

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        ...

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item, RGB.

        Args:
            id: Of the item.
            least: Where given, a smaller copy of the whole picture may come, as one is quicker to decode:
                both its sides are at least so long, or as long as those of the picture. It may differ from
                the picture's proportions by the rounding of its sides. The same arguments give the same
                pixels. None for the picture in full.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged.
        """
        ...

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of the clip that an item is, RGB, upright; large ones made smaller, with their proportions.

        Args:
            id: Of the item.
            fps: Frames per second.
            most: Frames beyond which they are spread evenly from the first to the last.

        Returns:
            In the order in which they are shown; `VideoFrame.seconds` counts from the first frame of the
            video, not of the clip. Damaged frames are left out.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its clip is missing or damaged.
            MissingExtra: If PyAV is not installed.
            ValueError: If `fps` or `most` is not positive.
        """
        ...


class Ranking(StrEnum):
    """A way to rank items."""

    LEXICAL = "lexical"
    """BM25 over the text."""
    VECTOR = "vector"
    """Dot product or MaxSim of vectors."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of a collection, with all that is needed to rank its items. Made by `Engine.snapshot`."""

    catalog: Catalog
    lexical: Lexical | None
    vectors: VectorIndex | None
    loaded: float
    """When, by the monotonic clock."""
    seconds: float
    """How long that took."""

    def rank(
        self,
        queries: Sequence[Query],
        depth: int,
        vectors: Sequence[NDArray[np.float32]] | None = None,
        statistics: Sequence[WordStatistics | None] | None = None,
    ) -> list[dict[Ranking, list[Hit]]]:
        """Return for each query the best `depth` items of each ranking, not fused.

        Args:
            queries: What to look for.
            depth: How many items of each ranking.
            vectors: Those of the queries; None to leave out the ranking by vectors.
            statistics: Of the words of each query in all that is searched; None where that is this
                collection alone.
        """
        found = self._rank(queries, depth, vectors, statistics)
        return [{ranking: self.hits(hits) for ranking, hits in lists.items()} for lists in found]

    def search(
        self, queries: Sequence[Query], top_k: int, depth: int, vectors: Sequence[NDArray[np.float32]] | None
    ) -> list[list[Hit]]:
        """Return for each query the best `top_k` items, rankings of this depth fused."""
        return [self.hits(fused(lists)[:top_k]) for lists in self._rank(queries, depth, vectors, None)]

    def hits(self, found: _Found) -> list[Hit]:
        """Ids with scores as hits, in the same order."""
        return [
            self.catalog.hit(self.catalog.row(item), score, rank)
            for rank, (item, score) in enumerate(found, 1)
        ]

    def _rank(
        self,
        queries: Sequence[Query],
        depth: int,
        vectors: Sequence[NDArray[np.float32]] | None,
        statistics: Sequence[WordStatistics | None] | None,
    ) -> list[dict[Ranking, _Found]]:
        masks = [self.catalog.mask(query) for query in queries]
        found: list[dict[Ranking, _Found]] = [{} for _ in queries]
        if self.lexical is not None:
            for query, mask, known, rankings in zip(
                queries, masks, statistics or [None] * len(queries), found, strict=True
            ):
                rankings[Ranking.LEXICAL] = self.lexical.search(query.text, depth, mask, known)
        if self.vectors is not None and vectors is not None:
            for rankings, hits in zip(found, self.vectors.search(vectors, depth, masks), strict=True):
                rankings[Ranking.VECTOR] = hits
        return found


class Engine:
    """A `Searcher` over a collection. May be shared by threads; follows the collection as it grows.

    With one ranking, hits bear its scores; with two, those of reciprocal-rank fusion, each list
    being `max(100, 10 × top_k)` deep and not only `top_k`. Filters apply before ranking: the best
    `top_k` of what they let through are found. Ties go by item id.

    Args:
        collection: Where to search.
        embedder: The one the collection was built with; needed when its vectors are used.
        rankings: Which rankings to use. That of vectors is left out if the collection has none.
        vectors: How vectors are searched.

    Raises:
        FingerprintMismatch: If vectors are to be used and the embedder is missing or another.
    """

    PATIENCE = 4.0
    """While files are being added, what was loaded serves for this many times as long as loading took."""
    BLINK = 2.0
    """Seconds that a query waits for a newer version; after that the one before serves until it is there."""

    def __init__(
        self,
        collection: Collection,
        embedder: Embedder | None = None,
        *,
        rankings: Sequence[Ranking] = tuple(Ranking),
        vectors: VectorOptions | None = None,
    ) -> None:
        self.collection = collection
        self._options = vectors or VectorOptions()
        self._rankings = set(rankings)
        if collection.header.embedder is None:
            self._rankings.discard(Ranking.VECTOR)
        if not self._rankings:
            raise SearchError("Nothing to rank by: the collection holds no vectors.")
        if Ranking.VECTOR in self._rankings:
            collection.header.check_embedder(embedder)
        self.embedder = embedder
        self._state: Snapshot | None = None
        self._refreshing = threading.Lock()
        self._loading: Future[Snapshot] | None = None

    @property
    def name(self) -> str:
        """What `Query.corpora` calls the collection: the last part of its directory or URL."""
        return PurePosixPath(self.collection.address).name

    @property
    def version(self) -> str:
        """Hash over what a search finds now; equal versions find the same.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        return self.snapshot().catalog.content

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first, all from one version.

        Raises:
            SearchError: If a query is empty or names another collection, or `top_k` is not within
                1 to 1000.
            CollectionError: If the collection cannot be read.
        """
        check_search(queries, top_k)
        check_corpora(queries, [self.name])
        if not queries:
            return []
        vectors = self._embed(queries)
        depth = depth_of(top_k, len(self._rankings))
        return self.snapshot().search(queries, top_k, depth, vectors)

    def rank(self, queries: Sequence[Query], depth: int) -> list[dict[Ranking, list[Hit]]]:
        """For each query the best `depth` items of each ranking, not fused, all from one version.

        Args:
            queries: What to look for.
            depth: How many items of each ranking.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        return self.snapshot().rank(queries, depth, self._embed(queries))

    @property
    def rankings(self) -> frozenset[Ranking]:
        """The rankings that are used."""
        return frozenset(self._rankings)

    @property
    def tier(self) -> Tier | None:
        """How vectors are searched now; None where they are not.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        vectors = self.snapshot().vectors
        return vectors.tier if vectors else None

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self.collection.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item, RGB: in full, or with `least` as `Searcher.image` says.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged, or lies outside of the collection.
        """
        return self.collection.image(self.item(id), least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of the clip that an item is, as `Searcher.frames` says.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its clip is missing or damaged, or lies outside of the collection.
            MissingExtra: If PyAV is not installed.
        """
        return self.collection.frames(self.item(id), fps=fps, most=most)

    def _embed(self, queries: Sequence[Query]) -> Sequence[NDArray[np.float32]] | None:
        """Return the vectors of queries; None when vectors are not searched."""
        if Ranking.VECTOR not in self._rankings:
            return None
        assert self.embedder is not None
        return self.embedder.embed_queries([query.text for query in queries])

    def snapshot(self) -> Snapshot:
        """Return the version to search; built by one thread while the others wait.

        The newest version, but for two cases: while files are being added, a commit every few
        seconds must not make every query rebuild what it searches; and what takes long to load is
        loaded by a thread of its own, while the version before it serves.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        with self._refreshing:
            tables = self.collection.item_table, self.collection.file_table
            version = tables[0].version, tables[1].version
            state = self._state
            if state is None:
                state = self._state = self._load(None)
            elif state.catalog.version != version and not self._may_wait(state):
                state = self._state = self._renewed(state)
            return state

    def _renewed(self, old: Snapshot) -> Snapshot:
        """The newest state; the old one if that is still being loaded after a moment."""
        waits = self.BLINK if self._loading is None else 0
        if self._loading is None:
            self._loading = _beside(lambda: self._load(old))
        try:
            state = self._loading.result(waits)
        except TimeoutError:
            if not self._loading.done():
                return old
            raise
        finally:
            if self._loading.done():
                self._loading = None
        return state

    def _may_wait(self, state: Snapshot) -> bool:
        recent = time.monotonic() < state.loaded + self.PATIENCE * state.seconds
        return recent and self._is_growing()

    def _is_growing(self) -> bool:
        states = self.collection.file_table.read(["status"]).data["status"].to_pylist()
        return DocumentStatus.PENDING.value in states

    def _load(self, old: Snapshot | None) -> Snapshot:
        """Reads what the newest version is searched with; again when items vanish in between."""
        started = time.monotonic()
        while True:
            catalog = Catalog.load(self.collection)
            if old is not None and old.catalog.key == catalog.key:  # only the manifest moved
                return replace(old, catalog=catalog)
            lexical = self._lexical(catalog) if Ranking.LEXICAL in self._rankings else None
            vectors = self._vectors(catalog) if Ranking.VECTOR in self._rankings else None
            made = {Ranking.LEXICAL: lexical, Ranking.VECTOR: vectors}
            if all(made[ranking] is not None for ranking in self._rankings):
                if not self._is_growing():
                    self.collection.save_copies()
                now = time.monotonic()
                return Snapshot(catalog, lexical, vectors, now, now - started)

    def _vectors(self, catalog: Catalog) -> VectorIndex | None:
        return open_vectors(self.collection, catalog.ids, catalog.key, self._options)

    def _lexical(self, catalog: Catalog) -> Lexical | None:
        """From the cache, or built and cached; None when one of the items is no longer there."""
        path = self.collection.cache_dir / f"{_CACHE}{catalog.key}"
        cached = _load_lexical(path)
        if cached is not None and cached.ids == catalog.ids:
            return cached
        data = self.collection.scan(["id", "heading", "text"]).data
        columns = (data[name].to_pylist() for name in ("id", "heading", "text"))
        texts = {item: f"{heading}\n{text}" for item, heading, text in zip(*columns, strict=True)}
        if not texts.keys() >= set(catalog.ids):
            return None
        parts = zip(catalog.ids, catalog.documents, catalog.document_names, strict=True)
        lexical = Lexical.build(
            LexicalEntry(item, document, name, texts[item]) for item, document, name in parts
        )
        _save_lexical(lexical, path)
        return lexical


def _beside(load: Callable[[], Snapshot]) -> Future[Snapshot]:
    """Runs it in a thread that does not keep the process alive."""
    future: Future[Snapshot] = Future()

    def run() -> None:
        try:
            future.set_result(load())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, name="vrag-load", daemon=True).start()
    return future


def depth_of(top_k: int, rankings: int = 2) -> int:
    """How deep each ranking has to go for so many results: deeper where several are to be fused."""
    return max(_MIN_DEPTH, 10 * top_k) if rankings > 1 else top_k


def check_search(queries: Sequence[Query], top_k: int) -> None:
    """Refuses what no searcher can answer.

    Raises:
        SearchError: If a query is empty or `top_k` not within 1 to 1000.
    """
    if not 1 <= top_k <= MAX_TOP_K:
        raise SearchError(f"top_k is {top_k}; it must be from 1 to {MAX_TOP_K}.")
    if any(not query.text.strip() for query in queries):
        raise SearchError("A query is empty.", "Say what to look for.")


def check_corpora(queries: Sequence[Query], names: Sequence[str]) -> None:
    """Refuses queries that name a collection which is not searched.

    Raises:
        SearchError: With the names of those that are.
    """
    for query in queries:
        unknown = sorted((query.corpora or frozenset()).difference(names))
        if unknown:
            raise SearchError(
                f"There is no collection named {unknown[0]!r}.", f"There are: {', '.join(names)}."
            )


def fused(found: Mapping[Ranking, _Found]) -> _Found:
    """Ids with scores, best first: one ranking keeps its scores, several are fused."""
    if len(found) == 1:
        return next(iter(found.values()))
    return reciprocal_rank_fusion([[item for item, _ in hits] for hits in found.values()])


def _load_lexical(path: Path) -> Lexical | None:
    """The cache at this path; None when there is none, or it is damaged or just being deleted."""
    try:
        return Lexical.load(path)
    except (OSError, ValueError, KeyError, EOFError):
        return None


def _save_lexical(lexical: Lexical, path: Path) -> None:
    """Caches it and deletes caches of other contents; searching does not depend on either."""
    with suppress(OSError):
        lexical.save(path)
        for other in path.parent.glob(f"{_CACHE}*"):
            if other != path and time.time() - other.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
