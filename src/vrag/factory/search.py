"""Searchers built from the settings."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.embed.embedder import embeds_text_only
from vrag.errors import SettingsError
from vrag.factory.indexing import embedder_of
from vrag.index.collection import Collection
from vrag.index.opening import open_collection
from vrag.index.vectors.tiers import TierName, VectorOptions
from vrag.search.engine import Engine, Ranking
from vrag.search.multi import MultiSearcher, check_embedders
from vrag.search.searcher import StoredPictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.embed.embedder import Embedder
    from vrag.index.location import EmbedderRecord
    from vrag.search.client import SearchClient
    from vrag.search.rerank import Reranker
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings

log = logging.getLogger("vrag")


def open_collections(settings: Settings) -> dict[str, Collection]:
    """Open the collections that the settings name, by address. Raises `CollectionError` if one is missing."""
    opened = (open_collection(place, durable=settings.durable) for place in settings.places)
    return {collection.address: collection for collection in opened}


def vector_options(settings: Settings) -> VectorOptions:
    """Return the options of vector search; a GPU is used where the settings name it or its tier.

    Raises `SettingsError` if the tier `cuda` is asked for together with the device `cpu`.
    """
    device = settings.device
    if settings.tier == TierName.CUDA and device == "cpu":
        raise SettingsError(
            "The tier cuda needs an accelerator, and the device is cpu.", "Set VRAG_DEVICE=cuda."
        )
    if device == "auto":
        device = "cuda" if settings.tier == TierName.CUDA else "cpu"
    return VectorOptions(tier=settings.tier, device=device)


@dataclass(frozen=True)
class SearchParts:
    """The models that searchers use, each opened once. Create it with `open`."""

    settings: Settings
    embedder: Embedder | None
    """The embedder of queries; None for lexical search alone."""
    reranker: Reranker | None

    @classmethod
    def open(
        cls, settings: Settings, collections: Mapping[str, Collection], embedder: Embedder | None = None
    ) -> SearchParts:
        """Return the parts for these collections by name, and for others with vectors of the same embedder.

        `embedder` is the one they were built with, if it has been loaded already.

        Raises `FingerprintMismatch` if collections hold vectors of different embedders and `EmbedError` if
        the reranker cannot be loaded.
        """
        records = {name: each.header.embedder for name, each in collections.items()}
        compared = {
            name: collections[name]
            for name, record in records.items()
            if record and not record.imported and Ranking.VECTOR in rankings_of(settings, record)
        }
        check_embedders(compared)
        recorded = next((each.header.embedder for each in compared.values()), None)
        embedder = (embedder or embedder_of(settings, recorded)) if recorded else None
        for note in sorted({ranking_note(settings, record) for record in records.values()} - {""}):
            log.warning("%s", note)
        if not settings.reranker:
            return cls(settings, embedder, None)
        from vrag.search.rerank import open_reranker

        reranker = open_reranker(
            settings.reranker,
            device=settings.device,
            dtype=settings.dtype,
            batch=settings.batch,
            max_pixels=settings.embed_pixels or None,
        )
        return cls(settings, embedder, reranker)

    def engine(self, collection: Collection) -> Engine:
        """Return the engine that searches one collection.

        Raises `FingerprintMismatch` if it holds vectors of another embedder.
        """
        rankings = rankings_of(self.settings, collection.header.embedder)
        embedder = self.embedder if collection.header.embedder else None
        return Engine(collection, embedder, rankings=rankings, vectors=vector_options(self.settings))

    def searcher(self, engines: Mapping[str, Engine]) -> Searcher:
        """Return the searcher of one collection or of several together, with a reranker if one is set.

        `engines` are by the names of their collections.

        Raises `SettingsError` if the settings ask for what these collections cannot do.
        """
        records = [engine.collection.header.embedder for engine in engines.values()]
        if self.settings.qdrant and any(
            Ranking.VECTOR in rankings_of(self.settings, record) for record in records
        ):
            searcher = self._open_qdrant([engine.collection for engine in engines.values()])
        else:
            searcher = MultiSearcher(engines) if len(engines) > 1 else next(iter(engines.values()))
        if not self.settings.sources:
            searcher = StoredPictures(searcher)
        if self.reranker is None:
            return searcher
        from vrag.search.rerank import Reranked

        return Reranked(searcher, self.reranker, self.settings.rerank_depth)

    def _open_qdrant(self, collections: Sequence[Collection]) -> Searcher:
        from vrag.index.remote.qdrant import QdrantStore
        from vrag.search.qdrant import QdrantSearcher

        if len(collections) > 1 or self.embedder is None:
            subject = "Several collections" if self.embedder else "Collections without vectors"
            raise SettingsError(
                f"{subject} cannot be searched through Qdrant.",
                "Leave out VRAG_QDRANT, or name another collection.",
            )
        fuses = self.settings.ranking != "vector"
        lexical = Engine(collections[0], rankings=(Ranking.LEXICAL,)) if fuses else None
        store = QdrantStore.at(self.settings.qdrant)
        return QdrantSearcher(store, collections[0], self.embedder, lexical=lexical)


def open_searcher(
    settings: Settings, collections: Mapping[str, Collection], embedder: Embedder | None = None
) -> Searcher:
    """Return the searcher of one collection or of several together; see `SearchParts.open`.

    Raises `FingerprintMismatch` if collections hold vectors of different embedders and `EmbedError` if the
    embedder or the reranker cannot be loaded.
    """
    parts = SearchParts.open(settings, collections, embedder)
    return parts.searcher({name: parts.engine(collection) for name, collection in collections.items()})


def open_client(settings: Settings, kind: type[SearchClient] | None = None) -> SearchClient:
    """Return the client of a search server, which replaces a collection; `kind` is its class.

    Raises `ServerError` if its address is invalid, and `SettingsError` if its image folder is not a
    directory, or its key is withheld: see `Settings.key`.
    """
    from vrag.search.client import SearchClient

    root = Path(settings.image_root) if settings.image_root else None
    key = settings.key("search_key")
    return (kind or SearchClient)(settings.search_url, token=key, image_root=root, parts=settings.sources)


def rankings_of(settings: Settings, record: EmbedderRecord | None) -> tuple[Ranking, ...]:
    """Return the rankings of a collection with this embedder; None where it has no vectors.

    `auto` leaves out vectors whose embedder is not known yet, and those of an embedder that takes text only:
    it reads the same text as the ranking by words, and fusing both was measured to be worse
    (`docs/searching.md`).
    """
    if settings.ranking in {"lexical", "vector"}:
        return (Ranking(settings.ranking),)
    by_words = record is not None and (record.imported or embeds_text_only(record))
    return (Ranking.LEXICAL,) if settings.ranking == "auto" and by_words else tuple(Ranking)


def ranking_note(settings: Settings, record: EmbedderRecord | None) -> str:
    """Return the note that `auto` does not use the vectors of an embedder of text; empty if it uses them."""
    if settings.ranking != "auto" or record is None or not embeds_text_only(record):
        return ""
    return (
        f"Ranked by words alone: {record.name} takes text only, and such vectors made the ranking worse when "
        "they were measured. To use them: --ranking fused; to compare: vrag eval retrieval."
    )
