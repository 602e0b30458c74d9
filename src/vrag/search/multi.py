"""A searcher over several collections, as if they were one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.errors import FingerprintMismatch, SearchError
from vrag.search.engine import Ranking, address_parts, depth_of, fused, leave_out_forms
from vrag.search.named_documents import put_meant_first
from vrag.search.named_pages import PageSource
from vrag.search.searcher import ForwardedItems, check_corpora, check_search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np
    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.lexical.segment import WordStatistics
    from vrag.search.engine import Engine, Snapshot
    from vrag.types import Hit, Query

NUMBER_STRIDE = 2**32
"""`Hit.row` is the number of the collection × this + its row: none moves when another collection grows."""
_CACHE_SIZE = 8
"""Sets of collections for which the documents that are in several are remembered."""


class MultiSearcher(ForwardedItems):
    """A `Searcher` over collections, by their names.

    Every ranking is one list over all of them, merged by score, then rankings are fused as in one
    collection. Scores mean the same everywhere: vectors are of one embedder, and words are weighed by
    statistics over all collections that a query asks, so that the ranking by words is that of one
    collection with the same items. A collection without vectors takes part by its words alone.

    A document that is in several collections is found once, with its best score, and counts once in the
    statistics, as the first of them has it. Ties go by item id. A search reads one version of each
    collection, but not of all at one moment. Raises `SearchError` if there is no collection, and
    `FingerprintMismatch` if their vectors are of different embedders.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        if not engines:
            raise SearchError("There is no collection to search.")
        self._engines = dict(sorted(engines.items()))
        self.names = tuple(self._engines)
        """The names of the collections, sorted."""
        check_embedders(
            {name: e.collection for name, e in self._engines.items() if Ranking.VECTOR in e.rankings}
        )
        self._masks: dict[tuple[str, ...], list[NDArray[np.bool_] | None]] = {}
        """`_count_masks` by the keys of catalogs."""

    @property
    def version(self) -> str:
        """Hash over what a search finds now; equal versions find the same."""
        digest = hashlib.sha256()
        for name, engine in self._engines.items():
            digest.update(f"{name}\0{engine.version}\0".encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first.

        Raises `SearchError` if a query is empty or names an unknown collection, or `top_k` is not within 1 to
        1000, and `CollectionError` if a collection cannot be read.
        """
        check_search(queries, top_k)
        check_corpora(queries, self.names)
        queries = leave_out_forms(queries)
        embedders = (e.embedder for e in self._engines.values() if Ranking.VECTOR in e.rankings)
        embedder = next(filter(None, embedders), None)  # one for all: they are the same
        vectors = embedder.embed_queries([query.text for query in queries]) if embedder and queries else None
        rankings = frozenset[Ranking]().union(*(e.rankings for e in self._engines.values()))
        depth = depth_of(top_k, len(rankings))
        searched = {name for name in self._engines if _queries_of(queries, name)}
        snapshots = {name: self._engines[name].snapshot() for name in searched}

        def rank(asked: Sequence[Query], numbers: Sequence[int]) -> list[list[Hit]]:
            """Rank queries that have the words of those with some numbers."""
            own = vectors and [vectors[number] for number in numbers]
            found = self._rank(asked, depth, own, snapshots)
            return [_merge(lists, depth, top_k) for lists in found]

        found = rank(queries, range(len(queries)))
        return [
            put_meant_first(
                hits, query, top_k, self._sources(query, snapshots), lambda own, at=at: rank([own], [at])[0]
            )
            for at, (query, hits) in enumerate(zip(queries, found, strict=True))
        ]

    def _rank(
        self,
        queries: Sequence[Query],
        depth: int,
        vectors: Sequence[NDArray[np.float32]] | None,
        snapshots: Mapping[str, Snapshot],
    ) -> list[dict[Ranking, list[Hit]]]:
        """Return for each query the hits of all collections by ranking, not merged."""
        statistics = [self._statistics(query, snapshots) for query in queries]
        found: list[dict[Ranking, list[Hit]]] = [{} for _ in queries]
        for place, name in enumerate(self._engines):
            numbers = _queries_of(queries, name)
            if not numbers:
                continue
            ranked = snapshots[name].rank(
                [queries[n] for n in numbers],
                depth,
                vectors and [vectors[n] for n in numbers],
                [statistics[n] for n in numbers],
            )
            for n, lists in zip(numbers, ranked, strict=True):
                for ranking, ids in lists.items():
                    hits = snapshots[name].catalog.hits(ids)
                    numbered = [replace(hit, row=place * NUMBER_STRIDE + hit.row) for hit in hits]
                    found[n].setdefault(ranking, []).extend(numbered)
        return found

    def _sources(self, query: Query, snapshots: Mapping[str, Snapshot]) -> list[PageSource]:
        """Return the collections that a query searches."""
        return [
            PageSource(
                snapshots[name].catalog, engine.collection, place * NUMBER_STRIDE, snapshots[name].lexical
            )
            for place, (name, engine) in enumerate(self._engines.items())
            if _queries_of([query], name)
        ]

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the documents of the collections as `DocumentLister.list_documents` describes."""
        listed: dict[str, str] = {}
        for name, engine in self._engines.items():
            if corpora is None or name in corpora:
                listed = engine.list_documents() | listed
        return dict(sorted(listed.items(), key=lambda entry: (entry[1], entry[0])))

    def _store_of(self, id: str) -> Collection:
        for engine in self._engines.values():
            if engine.collection.items([id]):
                return engine.collection
        raise SearchError(f"There is no item {id!r}.")

    def _statistics(self, query: Query, snapshots: Mapping[str, Snapshot]) -> WordStatistics | None:
        """Return the statistics of a query's words over the collections it searches; None without any."""
        searched = [
            snapshot
            for name, snapshot in snapshots.items()
            if snapshot.lexical is not None and _queries_of([query], name)
        ]
        total: WordStatistics | None = None
        for snapshot, counted in zip(searched, self._count_masks(searched), strict=True):
            assert snapshot.lexical is not None
            part = snapshot.lexical.statistics(query.text, counted)
            total = total.plus(part) if total else part
        return total

    def _count_masks(self, snapshots: Sequence[Snapshot]) -> list[NDArray[np.bool_] | None]:
        """Return for each collection which items count, (items,); None for all.

        Those of a document that an earlier collection has do not.
        """
        key = tuple(snapshot.catalog.key for snapshot in snapshots)
        known = self._masks.get(key)
        if known is None:
            if len(self._masks) >= _CACHE_SIZE:
                self._masks = {}
            masks: list[NDArray[np.bool_] | None] = []
            seen: set[str] = set()
            for snapshot in snapshots:
                documents = snapshot.catalog.documents
                repeated = seen.intersection(documents.values)
                masks.append(~documents.among(repeated) if repeated else None)
                seen.update(documents.values)
            known = self._masks[key] = masks
        return known


def _queries_of(queries: Sequence[Query], name: str) -> list[int]:
    """Return the numbers of the queries that search the collection of this name."""
    return [n for n, query in enumerate(queries) if query.corpora is None or name in query.corpora]


def unique_names(addresses: Iterable[str]) -> dict[str, str]:
    """Name collections by the last part of each address, with as many parts before it as make it unique.

    Addresses are absolute paths of directories, or URLs; the same one given twice is one.

    >>> unique_names(["/a/images", "/b/images", "s3://bucket/notes/"])
    {'a/images': '/a/images', 'b/images': '/b/images', 'notes': 's3://bucket/notes/'}
    """
    parts = {address: address_parts(address) for address in addresses}
    names: dict[str, str] = {}
    for address, ends in parts.items():
        others = [other for place, other in parts.items() if place != address]
        lengths = range(1, len(ends) + 1)
        alone = (n for n in lengths if all(other[-n:] != ends[-n:] for other in others))
        names["/".join(ends[-next(alone, len(ends)) :]) or address] = address
    return names


def check_embedders(collections: Mapping[str, Collection]) -> None:
    """Refuse collections whose vectors cannot be compared."""
    embedders = {name: used for name, c in collections.items() if (used := c.header.embedder)}
    for name, embedder in embedders.items():
        first = next(iter(embedders))
        if embedder.fingerprint != embedders[first].fingerprint:
            raise FingerprintMismatch(
                f"The collections {first} and {name} hold vectors of different embedders.",
                "Search them one at a time, or by words alone (--ranking lexical), or rebuild one of them "
                "with the other's embedder.",
            )


def _merge(lists: Mapping[Ranking, list[Hit]], depth: int, top_k: int) -> list[Hit]:
    """Merge the hits of one query from the lists of all collections."""
    hits: dict[str, Hit] = {}
    merged: dict[Ranking, list[tuple[str, float]]] = {}
    for ranking, found in lists.items():
        found.sort(key=lambda hit: (-hit.score, hit.item, hit.row))
        once = {hit.item: hit.score for hit in reversed(found)}
        merged[ranking] = sorted(once.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]
        for hit in found:
            known = hits.get(hit.item)
            if known is None or hit.row < known.row:
                hits[hit.item] = hit
    best = fused(merged)[:top_k] if merged else []
    return [replace(hits[item], score=score, rank=rank) for rank, (item, score) in enumerate(best, 1)]
