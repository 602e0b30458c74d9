"""A `Searcher` whose vectors are compared by Qdrant."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import numpy as np

from vrag.errors import CollectionError
from vrag.search.engine import depth_of, reciprocal_rank_fusion
from vrag.search.multi import unique_names
from vrag.search.searcher import ForwardedItems, check_corpora, check_search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.embed.embedder import Embedder
    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.index.remote.qdrant import QdrantStore
    from vrag.search.engine import Engine, ScoredIds
    from vrag.types import Hit, Query

_log = logging.getLogger(__name__)


class QdrantSearcher(ForwardedItems):
    """A `Searcher` whose vectors are compared by Qdrant; items and pictures come from the collection.

    `lexical` searches the same collection by words, which are fused with the vectors as `Engine` does. With
    `exact`, queries are compared with all points, without a graph. Raises `FingerprintMismatch` if the
    embedder, or that of the points, is not the collection's, and `CollectionError` if the points are missing
    or of another state of the collection.
    """

    PATIENCE = 4
    """Number of further requests, each for four times as many points, when too many are of deleted items."""

    def __init__(
        self,
        store: QdrantStore,
        collection: Collection,
        embedder: Embedder,
        *,
        lexical: Engine | None = None,
        exact: bool = False,
    ) -> None:
        collection.header.check_embedder(embedder)
        store.check(collection)
        self._store = store
        self._collection = self._items = collection
        self._embedder = embedder
        self._lexical = lexical
        self._exact = exact
        self._lock = threading.Lock()
        self._catalog = collection.catalog()

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same."""
        return self._current_catalog().content

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first.

        Raises `SearchError` if a query is empty, `top_k` not within 1 to 1000, or Qdrant cannot be reached,
        and `CollectionError` if the collection cannot be read.
        """
        check_search(queries, top_k)
        check_corpora(queries, tuple(unique_names([self._collection.address])))
        if not queries:
            return []
        catalog, depth = self._current_catalog(), depth_of(top_k)  # deep, so that ties are cut here
        vectors = self._embedder.embed_queries([query.text for query in queries])
        found = [
            self._search_one(catalog, query, np.asarray(vector, np.float32), depth)
            for query, vector in zip(queries, vectors, strict=True)
        ]
        if self._lexical is not None:
            for number, lists in enumerate(self._lexical.rank(queries, depth)):
                rankings = [[item for item, _ in ids] for ids in (found[number], *lists.values())]
                found[number] = reciprocal_rank_fusion(rankings)
        return [catalog.hits(ids[:top_k]) for ids in found]

    def _search_one(
        self, catalog: Catalog, query: Query, vector: NDArray[np.float32], depth: int
    ) -> ScoredIds:
        """Find the best items that the collection holds: Qdrant may already or still have others."""
        limit = depth
        shown: ScoredIds = []
        for _ in range(self.PATIENCE):
            found = self._store.search(vector, query, limit, candidates=limit, exact=self._exact)
            rows = [(catalog.row(item), item, score) for item, score in found]
            shown = [(item, score) for row, item, score in rows if row is not None and catalog.shown[row]]
            if len(shown) >= depth or len(found) < limit:
                break
            limit *= 4
        return shown[:depth]

    def _current_catalog(self) -> Catalog:
        """Return what can be found now; by the collection, not by Qdrant.

        A warning is logged when the points are no longer those of the collection: new items are not found.
        """
        with self._lock:
            version = self._collection.version
            if self._catalog.version != version:
                self._catalog = self._collection.catalog()
                try:
                    self._store.check(self._collection)
                except CollectionError as error:
                    _log.warning("%s", error)
            return self._catalog
