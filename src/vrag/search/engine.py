"""Queries find items: lexical search always, vectors where the collection has them, fused."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from vrag.errors import SearchError
from vrag.index.catalog import Catalog
from vrag.index.dense import Dense
from vrag.index.header import Marked
from vrag.index.lexical import Entry, Lexical
from vrag.search.fuse import reciprocal_rank_fusion
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.index.store import Collection
    from vrag.types import Hit, Item, Query

__all__ = ["MAX_TOP_K", "Engine", "QueryEmbedder", "Ranking", "Searcher"]

MAX_TOP_K = 1000
_LEAST_DEPTH = 100
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

    def image(self, id: str) -> Image:
        """The picture of an item, RGB, in full.

        Raises:
            SearchError: If there is no such item, or it has no picture.
        """
        ...


class Ranking(StrEnum):
    """A way to rank items."""

    LEXICAL = "lexical"
    """BM25 over the text."""
    VECTOR = "vector"
    """Dot product of vectors."""


class QueryEmbedder(Marked, Protocol):
    """What turns queries into vectors."""

    def embed_queries(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of queries, (queries, dimension)."""
        ...


@dataclass(frozen=True, eq=False)
class _State:
    """All that one version of the collection is searched with."""

    catalog: Catalog
    row: dict[str, int]
    lexical: Lexical | None
    dense: Dense | None
    loaded: float
    """When, by the monotonic clock."""
    seconds: float
    """How long that took."""


class Engine:
    """A `Searcher` over a collection. May be shared by threads; follows the collection as it grows.

    With one ranking, hits bear its scores; with two, those of reciprocal-rank fusion, each list
    being `max(100, 10 × top_k)` deep. Filters apply before ranking: the best `top_k` of what they
    let through are found. Ties go by item id.

    Args:
        collection: Where to search.
        embedder: The one the collection was built with; needed when its vectors are used.
        rankings: Which rankings to use. That of vectors is left out if the collection has none.

    Raises:
        FingerprintMismatch: If vectors are to be used and the embedder is missing or another.
    """

    PATIENCE = 4.0
    """While files are being added, what was loaded serves for this many times as long as loading took."""

    def __init__(
        self,
        collection: Collection,
        embedder: QueryEmbedder | None = None,
        *,
        rankings: Sequence[Ranking] = tuple(Ranking),
    ) -> None:
        self._collection = collection
        self._rankings = set(rankings)
        if collection.header.embedder is None:
            self._rankings.discard(Ranking.VECTOR)
        if not self._rankings:
            raise SearchError("Nothing to rank by: the collection holds no vectors.")
        if Ranking.VECTOR in self._rankings:
            collection.header.check_embedder(embedder)
        self._embedder = embedder
        self._state: _State | None = None
        self._refreshing = threading.Lock()

    @property
    def version(self) -> str:
        """Hash over what a search finds now; equal versions find the same.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        return self._refreshed().catalog.content

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first, all from one version.

        Raises:
            SearchError: If a query is empty or `top_k` not within 1 to 1000.
            CollectionError: If the collection cannot be read.
        """
        if not 1 <= top_k <= MAX_TOP_K:
            raise SearchError(f"top_k is {top_k}; it must be from 1 to {MAX_TOP_K}.")
        if any(not query.text.strip() for query in queries):
            raise SearchError("A query is empty.", "Say what to look for.")
        if not queries:
            return []
        state = self._refreshed()
        vectors = self._embed([query.text for query in queries]) if state.dense else [None] * len(queries)
        return [_find(state, query, vector, top_k) for query, vector in zip(queries, vectors, strict=True)]

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self._collection.item(id)

    def image(self, id: str) -> Image:
        """The picture of an item, RGB, in full.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged, or lies outside of the collection.
        """
        return self._collection.image(self.item(id))

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert self._embedder is not None
        return self._embedder.embed_queries(texts)

    def _refreshed(self) -> _State:
        """The state to search with; built by one thread while the others wait.

        That of the newest version, but for one case: while files are being added, a commit every few
        seconds must not make every query rebuild what it searches.
        """
        with self._refreshing:
            tables = self._collection.item_table, self._collection.file_table
            version = tables[0].version, tables[1].version
            state = self._state
            if state is None or (state.catalog.version != version and not self._may_wait(state)):
                state = self._state = self._load(state)
            return state

    def _may_wait(self, state: _State) -> bool:
        recent = time.monotonic() < state.loaded + self.PATIENCE * state.seconds
        return recent and self._is_growing()

    def _is_growing(self) -> bool:
        states = self._collection.file_table.read(["status"]).data["status"].to_pylist()
        return DocumentStatus.PENDING.value in states

    def _load(self, old: _State | None) -> _State:
        """Reads what the newest version is searched with; again when items vanish in between."""
        started = time.monotonic()
        while True:
            catalog = Catalog.load(self._collection)
            if old is not None and old.catalog.key == catalog.key:  # only the manifest moved
                return replace(old, catalog=catalog)
            lexical = self._lexical(catalog) if Ranking.LEXICAL in self._rankings else None
            dense = Dense.load(self._collection, catalog.ids) if Ranking.VECTOR in self._rankings else None
            made = {Ranking.LEXICAL: lexical, Ranking.VECTOR: dense}
            if all(made[ranking] is not None for ranking in self._rankings):
                rows = {item: row for row, item in enumerate(catalog.ids)}
                now = time.monotonic()
                return _State(catalog, rows, lexical, dense, now, now - started)

    def _lexical(self, catalog: Catalog) -> Lexical | None:
        """From the cache, or built and cached; None when one of the items is no longer there."""
        path = self._collection.cache_dir / f"{_CACHE}{catalog.key}"
        cached = _load_lexical(path)
        if cached is not None and cached.ids == catalog.ids:
            return cached
        data = self._collection.scan(["id", "heading", "text"]).data
        columns = (data[name].to_pylist() for name in ("id", "heading", "text"))
        texts = {item: f"{heading}\n{text}" for item, heading, text in zip(*columns, strict=True)}
        if not texts.keys() >= set(catalog.ids):
            return None
        parts = zip(catalog.ids, catalog.documents, catalog.document_names, strict=True)
        lexical = Lexical.build(Entry(item, document, name, texts[item]) for item, document, name in parts)
        _save_lexical(lexical, path)
        return lexical


def _find(state: _State, query: Query, vector: NDArray[np.float32] | None, top_k: int) -> list[Hit]:
    """The hits of one query."""
    mask = state.catalog.mask(query)
    depth = max(_LEAST_DEPTH, 10 * top_k)
    found: list[list[tuple[str, float]]] = []
    if state.lexical is not None:
        found.append(state.lexical.search(query.text, depth, mask))
    if state.dense is not None and vector is not None:
        found.append(state.dense.search(vector, depth, mask))
    if len(found) == 1:
        best = found[0]
    else:
        best = reciprocal_rank_fusion([[item for item, _ in ranking] for ranking in found])
    best = best[:top_k]
    return [state.catalog.hit(state.row[item], score, rank) for rank, (item, score) in enumerate(best, 1)]


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
