"""A `Searcher` that has Qdrant compare the vectors."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import numpy as np

from vrag.errors import CollectionError
from vrag.index.tables.catalog import Catalog
from vrag.search.engine import check_corpora, check_search, depth_of
from vrag.search.fusion import reciprocal_rank_fusion
from vrag.search.multi import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import Embedder
    from vrag.geometry import Size
    from vrag.index.collection import Collection
    from vrag.index.remote.qdrant import QdrantStore
    from vrag.search.engine import Engine, Ranking
    from vrag.types import Hit, Item, Query

__all__ = ["QdrantSearcher"]

_log = logging.getLogger(__name__)


class QdrantSearcher:
    """A `Searcher` that has Qdrant compare the vectors; items and pictures come from the collection.

    Args:
        store: Where the points are.
        collection: What they were made from, on disk or published.
        embedder: The one it was built with.
        lexical: Searches the same collection by words; fused with the vectors as `Engine` does. None for
            vectors alone.
        exact: Compare with all points, without a graph.

    Raises:
        FingerprintMismatch: If the embedder, or that of the points, is not the collection's.
        CollectionError: If the points are missing or of another state of the collection.
    """

    PATIENCE = 4
    """How often more points are asked for, four times as many, when too many are of items that are gone."""

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
        self._collection = collection
        self._embedder = embedder
        self._lexical = lexical
        self._exact = exact
        self._turn = threading.Lock()
        self._catalog = Catalog.load(collection)

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same.

        Raises:
            CollectionError: If the collection cannot be read.
        """
        return self._current().content

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first.

        Raises:
            SearchError: If a query is empty, `top_k` not within 1 to 1000, or Qdrant cannot be reached.
            CollectionError: If the collection cannot be read.
        """
        check_search(queries, top_k)
        check_corpora(queries, tuple(named([self._collection.address])))
        if not queries:
            return []
        catalog, depth = self._current(), depth_of(top_k)  # deep, so that ties are cut here
        vectors = self._embedder.embed_queries([query.text for query in queries])
        found = [
            self._found(catalog, query, np.asarray(vector, np.float32), depth)
            for query, vector in zip(queries, vectors, strict=True)
        ]
        if self._lexical is not None:
            found = [
                reciprocal_rank_fusion([[item for item, _ in near], *_ids(words)])
                for words, near in zip(self._lexical.rank(queries, depth), found, strict=True)
            ]
        return [_hits(catalog, best, top_k) for best in found]

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self._collection.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item, RGB: in full, or with `least` as `Searcher.image` says.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged.
        """
        return self._collection.image(self.item(id), least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of the clip that an item is, as `Searcher.frames` says.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its clip is missing or damaged.
            MissingExtra: If PyAV is not installed.
        """
        return self._collection.frames(self.item(id), fps=fps, most=most)

    def _found(
        self, catalog: Catalog, query: Query, vector: NDArray[np.float32], depth: int
    ) -> list[tuple[str, float]]:
        """The best items that the collection holds: Qdrant may already or still have others."""
        asked, shown = depth, list[tuple[str, float]]()
        for _ in range(self.PATIENCE):
            found = self._store.search(vector, query, asked, candidates=asked, exact=self._exact)
            shown = [(item, score) for item, score in found if _is_shown(catalog, item)]
            if len(shown) >= depth or len(found) < asked:
                break
            asked *= 4
        return shown[:depth]

    def _current(self) -> Catalog:
        """What can be found now; by the collection, not by Qdrant."""
        with self._turn:
            tables = self._collection.item_table, self._collection.file_table
            if self._catalog.version != (tables[0].version, tables[1].version):
                self._catalog = Catalog.load(self._collection)
                self._tell_drift()
            return self._catalog

    def _tell_drift(self) -> None:
        """Says in the log that the points are no longer those of the collection: what is new is not found."""
        try:
            self._store.check(self._collection)
        except CollectionError as error:
            _log.warning("%s", error)


def _ids(words: Mapping[Ranking, Sequence[Hit]]) -> list[list[str]]:
    return [[hit.item for hit in hits] for hits in words.values()]


def _row(catalog: Catalog, item: str) -> int | None:
    """The row of an item; None when it is not there."""
    row = catalog.row(item)
    return row if row < len(catalog.ids) and catalog.ids[row] == item else None


def _is_shown(catalog: Catalog, item: str) -> bool:
    row = _row(catalog, item)
    return row is not None and bool(catalog.shown[row])


def _hits(catalog: Catalog, found: Sequence[tuple[str, float]], top_k: int) -> list[Hit]:
    rows = [(_row(catalog, item), score) for item, score in found[:top_k]]
    known = [(row, score) for row, score in rows if row is not None]
    return [catalog.hit(row, score, rank) for rank, (row, score) in enumerate(known, 1)]
