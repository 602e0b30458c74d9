"""The search engine of one collection: ranks items by words, by vectors, or by both, fused."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from vrag.errors import SearchError
from vrag.index.lexical.lexical_index import open_lexical
from vrag.index.lexical.segment import SegmentSource
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import open_vectors
from vrag.reading.questions.query_analysis import without_form
from vrag.search.named_documents import put_meant_first
from vrag.search.named_pages import PageSource
from vrag.search.searcher import ForwardedItems, check_corpora, check_search
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np
    from numpy.typing import NDArray

    from vrag.embed.embedder import Embedder
    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.index.lexical.lexical_index import LexicalIndex
    from vrag.index.lexical.segment import WordStatistics
    from vrag.index.vectors.tiers import Tier, VectorIndex
    from vrag.types import Hit, Query

ScoredIds: TypeAlias = list[tuple[str, float]]
"""Ids of items with scores, best first."""

_MIN_DEPTH = 100
MAX_DOCUMENTS_READ_SINGLY = 200
"""New documents up to which their texts are read one by one; of more, those of all items are read."""


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int = 60) -> list[tuple[str, float]]:
    """Fuse rankings by the reciprocal of the rank: score(d) = Σ 1 / (k + rank of d), ranks from 1.

    A ranking in which d is absent adds nothing. Cormack, Clarke and Büttcher 2009, "Reciprocal rank
    fusion outperforms Condorcet and individual rank learning methods", with their k = 60.

    Each ranking has distinct ids, best first; the order of the rankings does not matter. The greater `k`, the
    less the difference between the first places weighs. Each id is returned once with its score, best first;
    ties by id.

    >>> [item for item, score in reciprocal_rank_fusion([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    depth = max(map(len, rankings), default=0)
    weights, unit = _weights(k, 1 << depth.bit_length())
    sums: defaultdict[str, int] = defaultdict(int)
    for ranking in rankings:
        for item, weight in zip(ranking, weights, strict=False):
            sums[item] += weight
    best = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(item, total / unit) for item, total in best]


@lru_cache(maxsize=16)
def _weights(k: int, depth: int) -> tuple[list[int], int]:
    """Return 1 / (k + rank) for ranks from 1, as whole multiples of 1 / unit, and the unit.

    Sums of them are exact: rounding neither makes ties nor parts them.
    """
    unit = math.lcm(*range(k + 1, k + depth + 1))
    return [unit // (k + rank) for rank in range(1, depth + 1)], unit


class Ranking(StrEnum):
    """A way to rank items."""

    LEXICAL = "lexical"
    """BM25 over the text."""
    VECTOR = "vector"
    """Dot product or MaxSim of vectors."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of a collection, with all that is needed to rank its items."""

    catalog: Catalog
    lexical: LexicalIndex | None
    vectors: VectorIndex | None
    loaded: float
    """Time of loading, by the monotonic clock."""
    seconds: float
    """Duration of loading."""

    def rank(
        self,
        queries: Sequence[Query],
        depth: int,
        vectors: Sequence[NDArray[np.float32]] | None = None,
        statistics: Sequence[WordStatistics | None] | None = None,
    ) -> list[dict[Ranking, ScoredIds]]:
        """Return for each query the best `depth` items of each ranking, not fused.

        Without the vectors of the queries, the ranking by vectors is left out. The statistics are those of
        the words of each query in all collections that are searched; None where that is this one alone.
        """
        masks = [self.catalog.mask(query) for query in queries]
        rankings: list[dict[Ranking, ScoredIds]] = [{} for _ in queries]
        if self.lexical is not None:
            known = statistics or [None] * len(queries)
            for query, mask, words, lists in zip(queries, masks, known, rankings, strict=True):
                lists[Ranking.LEXICAL] = self.lexical.search(query.text, depth, mask, words)
        if self.vectors is not None and vectors is not None:
            for lists, ids in zip(rankings, self.vectors.search(vectors, depth, masks), strict=True):
                lists[Ranking.VECTOR] = ids
        return rankings


class Engine(ForwardedItems):
    """A `Searcher` over a collection. May be shared by threads; follows the collection as it grows.

    All methods raise `CollectionError` if the collection cannot be read.

    With one ranking, hits have its scores; with two, those of reciprocal-rank fusion, each list
    being `max(100, 10 × top_k)` deep and not only `top_k`. Filters apply before ranking: the best
    `top_k` of what they let through are found. Ties go by item id.

    Args:
        collection: The collection to search.
        embedder: The one the collection was built with; needed when its vectors are used.
        rankings: The rankings to use. That of vectors is left out if the collection has none.
        vectors: The options of vector search.

    Raises:
        FingerprintMismatch: If vectors are to be used and the embedder is missing or another one.
    """

    PATIENCE = 4.0
    """While files are being added, a snapshot serves for this many times as long as loading took."""
    BLINK = 2.0
    """Seconds that a query waits for a newer version; after that, the previous snapshot is used until loading
    ends."""

    def __init__(
        self,
        collection: Collection,
        embedder: Embedder | None = None,
        *,
        rankings: Sequence[Ranking] = tuple(Ranking),
        vectors: VectorOptions | None = None,
    ) -> None:
        self.collection = collection
        self.name = "".join(address_parts(collection.address)[-1:])
        """The name of the collection in `Query.corpora`: the last part of its directory or URL."""
        self._items = collection
        self._options = vectors or VectorOptions()
        without = set[Ranking]() if collection.header.embedder else {Ranking.VECTOR}
        self.rankings = frozenset(rankings) - without
        """The rankings that are used."""
        if not self.rankings:
            raise SearchError("Nothing to rank by: the collection holds no vectors.")
        if Ranking.VECTOR in self.rankings:
            collection.header.check_embedder(embedder)
        self.embedder = embedder
        self._snapshot: Snapshot | None = None
        self._refreshing = threading.Lock()
        self._loading: Future[Snapshot] | None = None

    @property
    def version(self) -> str:
        """Hash over what a search finds now; equal versions find the same."""
        return self.snapshot().catalog.content

    @property
    def tier(self) -> Tier | None:
        """The current vector search tier; None without vectors."""
        vectors = self.snapshot().vectors
        return vectors.tier if vectors else None

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first, all from one version.

        Raises `SearchError` if a query is empty or names another collection, or `top_k` is not within 1 to
        1000, and `CollectionError` if the collection cannot be read.
        """
        check_search(queries, top_k)
        check_corpora(queries, [self.name])
        if not queries:
            return []
        queries = leave_out_forms(queries)
        vectors = self._embed(queries)
        snapshot = self.snapshot()
        depth = depth_of(top_k, len(self.rankings))

        def rank(asked: Sequence[Query], numbers: Sequence[int]) -> list[list[Hit]]:
            """Rank queries that have the words of those with some numbers."""
            rankings = snapshot.rank(asked, depth, vectors and [vectors[number] for number in numbers])
            return [snapshot.catalog.hits(fused(lists)[:top_k]) for lists in rankings]

        sources = [PageSource(snapshot.catalog, self.collection, lexical=snapshot.lexical)]
        found = rank(queries, range(len(queries)))
        return [
            put_meant_first(hits, query, top_k, sources, lambda own, at=at: rank([own], [at])[0])
            for at, (query, hits) in enumerate(zip(queries, found, strict=True))
        ]

    def rank(self, queries: Sequence[Query], depth: int) -> list[dict[Ranking, ScoredIds]]:
        """Return for each query the best `depth` items of each ranking, not fused, all from one version."""
        return self.snapshot().rank(queries, depth, self._embed(queries))

    def snapshot(self) -> Snapshot:
        """Return the version to search; loaded by one thread while the others wait.

        It is the newest version, but for two cases: while files are being added, a commit every few seconds
        must not make every query rebuild what it searches, unless somebody was told that a document can be
        found; and what takes long to load is loaded by a thread of its own, while the version before it
        serves. Documents that were removed or replaced are never found.
        """
        with self._refreshing:
            version = self.collection.version
            current = self._snapshot
            if current is None:
                current = self._snapshot = self._load(None)
            elif current.catalog.version != version:
                is_recent = time.monotonic() < current.loaded + self.PATIENCE * current.seconds
                if self._is_awaited(current) or not (is_recent and self._is_growing()):
                    current = self._snapshot = self._reload(current)
                if self._is_awaited(current):  # it was being loaded before the document was committed
                    current = self._snapshot = self._reload(current)
                if current.catalog.version != version:
                    current = self._without_removed(current)
            return current

    def _is_awaited(self, snapshot: Snapshot) -> bool:
        """Return whether a client was told of a document that a snapshot does not have."""
        return snapshot.catalog.version < self.collection.announced

    def _without_removed(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot that has no documents that were removed since it was loaded.

        That is the newest one, which has what took their place, or the same without them while that is
        loaded.
        """
        with self.collection.store.snapshot() as version:
            present = {file.document.id for file in self.collection.store.files()}
        removed = set(snapshot.catalog.documents.values).difference(present)
        if not removed or snapshot.catalog.version >= version:
            return snapshot
        newer = self._snapshot = self._reload(snapshot)
        if newer.catalog.version >= version:
            return newer
        return replace(newer, catalog=newer.catalog.without(removed))

    def _embed(self, queries: Sequence[Query]) -> Sequence[NDArray[np.float32]] | None:
        """Embed queries; None when vectors are not searched."""
        if Ranking.VECTOR not in self.rankings:
            return None
        assert self.embedder is not None
        return self.embedder.embed_queries([query.text for query in queries])

    def _is_growing(self) -> bool:
        return DocumentStatus.PENDING.value in self.collection.store.statuses()

    def _reload(self, old: Snapshot) -> Snapshot:
        """Load the newest snapshot; return the old one if that takes longer than a moment."""
        patience = self.BLINK if self._loading is None else 0
        if self._loading is None:
            loading = self._loading = Future[Snapshot]()

            def load() -> None:
                try:
                    loading.set_result(self._load(old))
                except BaseException as error:  # noqa: BLE001 - raised where the result is used
                    loading.set_exception(error)

            # Not of an executor: this thread must not keep the process alive.
            threading.Thread(target=load, name="vrag-load", daemon=True).start()
        try:
            return self._loading.result(patience)
        except TimeoutError:
            if not self._loading.done():
                return old
            raise
        finally:
            if self._loading.done():
                self._loading = None

    def _load(self, old: Snapshot | None) -> Snapshot:
        """Load the newest version; again when items vanish in between."""
        started = time.monotonic()
        while True:
            catalog = self.collection.catalog()
            if old is not None and old.catalog.key == catalog.key:  # only the manifest changed
                return replace(old, catalog=catalog)
            lexical = vectors = None
            if Ranking.LEXICAL in self.rankings:
                lexical = self._load_lexical(catalog, old)
            if Ranking.VECTOR in self.rankings:
                vectors = open_vectors(self.collection, catalog.ids, catalog.key, self._options)
            loaded = {Ranking.LEXICAL: lexical, Ranking.VECTOR: vectors}
            if all(loaded[ranking] is not None for ranking in self.rankings):
                now = time.monotonic()
                return Snapshot(catalog, lexical, vectors, now, now - started)

    def _load_lexical(self, catalog: Catalog, old: Snapshot | None) -> LexicalIndex | None:
        """Open the index of words, and read what it does not have; None when one of the items is gone."""
        documents = catalog.lexical_documents()

        def read(missing: AbstractSet[str]) -> list[SegmentSource] | None:
            found = self._read_texts(missing)
            texts: list[SegmentSource] = []
            for id in sorted(missing):
                rows: list[int] = documents[id].rows.tolist()
                own = [found.get(catalog.ids[row]) for row in rows]
                if None in own:
                    return None
                name = catalog.document_names[rows[0]]
                texts.append(SegmentSource(documents[id].content, name, [text or "" for text in own]))
            return texts

        def find_removed() -> AbstractSet[str]:
            if self.collection.version == catalog.version:
                return frozenset()
            return documents.keys() - {id for id, *_ in self.collection.store.count_items()}

        known = old.lexical.segments if old is not None and old.lexical is not None else []
        return open_lexical(self.collection.cache_dir, catalog.ids, documents, read, known, find_removed)

    def _read_texts(self, documents: AbstractSet[str]) -> dict[str, str]:
        """Read the texts of the items of documents, with their headings, by the ids of items."""
        columns = ("id", "heading", "text")
        store = self.collection.store
        if len(documents) > MAX_DOCUMENTS_READ_SINGLY:
            rows = store.read_items(columns).values
        else:
            rows = [row for id in documents for row in store.read_items(columns, "document = ?", [id]).values]
        return {item: f"{heading}\n{text}" for item, heading, text in rows}


def leave_out_forms(queries: Sequence[Query]) -> list[Query]:
    """Return queries without sentences about the form of an answer, if any of their words are left."""
    plain = [without_form(query.text) for query in queries]
    return [
        query if "".join(text.split()) == "".join(query.text.split()) else replace(query, text=text)
        for query, text in zip(queries, plain, strict=True)
    ]


def address_parts(address: str) -> list[str]:
    """Split the path of a directory on this machine, or a URL, at its separators.

    >>> address_parts("s3://bucket/notes/")
    ['s3:', 'bucket', 'notes']
    """
    return [part for part in address.replace(os.sep, "/").split("/") if part]


def depth_of(top_k: int, rankings: int = 2) -> int:
    """Return the depth of each ranking for so many results: deeper where several are to be fused."""
    return max(_MIN_DEPTH, 10 * top_k) if rankings > 1 else top_k


def fused(rankings: Mapping[Ranking, ScoredIds]) -> ScoredIds:
    """Return ids with scores, best first: one ranking keeps its scores, several are fused."""
    if len(rankings) == 1:
        return next(iter(rankings.values()))
    return reciprocal_rank_fusion([[item for item, _ in ids] for ids in rankings.values()])
