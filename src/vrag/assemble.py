"""Settings become objects. The only module that knows how the parts fit together."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.policies.extractive import ExtractivePolicy
from vrag.agent.runs import RunStore
from vrag.agent.vrag import VragAgent
from vrag.corpus.options import CorpusOptions
from vrag.embed.deferred import DeferredEmbedder
from vrag.errors import EmbedError, SettingsError
from vrag.index.header import EmbedderMark, Header
from vrag.index.objects import is_url
from vrag.index.store import Collection
from vrag.index.upkeep import lies_under
from vrag.index.vectors import TierName, VectorOptions
from vrag.profiles import profile_named
from vrag.search.engine import Engine, Ranking
from vrag.search.several import Several, check_embedders, named
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.embed.base import Embedder, Marked
    from vrag.index.embedding import Producer
    from vrag.search.engine import Searcher
    from vrag.settings import Settings, SettingsReport
    from vrag.types import Document

__all__ = [
    "Adding",
    "Workbench",
    "corpus_options",
    "documents_under",
    "load_embedder",
    "open_for_adding",
    "open_ray",
    "open_searcher",
    "open_workbench",
    "vector_options",
]

CORPUS_SETTINGS = (
    "dpi",
    "ocr",
    "page_seconds",
    "max_pixels",
    "passage_chars",
    "clip_seconds",
    "office_seconds",
    "workers",
)


@dataclass(frozen=True, slots=True)
class Workbench:
    """A collection with all that is needed to ask it questions."""

    settings: Settings
    collections: dict[str, Collection]
    """Those that are searched, by the names that queries may look in."""
    searcher: Searcher

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there."""
        return next(iter(self.collections.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """What the collections are called in a query."""
        return tuple(self.collections)

    def warm_up(self) -> None:
        """Loads all that a search needs, so that the first one does not wait, and faults show at once."""
        self.searcher.search([Query("warm up")], 1)

    @property
    def runs(self) -> RunStore:
        """The recorded runs of the collection."""
        return RunStore(self.collection.runs_dir)

    def agent(self, documents: frozenset[str] | None = None) -> VragAgent:
        """The agent that these settings describe.

        Args:
            documents: Ids of the documents it may look at; None for all.
        """
        settings = self.settings
        profile = profile_named(settings.profile)
        options = EnvironmentOptions(
            hits=settings.hits, show=settings.show, padding=settings.padding, documents=documents
        )
        policy = ExtractivePolicy(self.searcher, profile.boxes)
        return VragAgent(policy, Environment(self.searcher, profile, options), settings.max_steps)


class Adding(NamedTuple):
    """What is needed to add documents to a collection."""

    collection: Collection
    options: CorpusOptions
    embedder: Embedder | None


def corpus_options(settings: Settings) -> CorpusOptions:
    """How files become items under these settings."""
    return CorpusOptions(**{name: getattr(settings, name) for name in CORPUS_SETTINGS})


def vector_options(settings: Settings) -> VectorOptions:
    """How vectors are searched under these settings: on an accelerator where one, or its tier, is named.

    Raises:
        SettingsError: If the tier `cuda` is asked for together with the device `cpu`.
    """
    device = settings.device
    if settings.tier == TierName.CUDA and device == "cpu":
        raise SettingsError(
            "The tier cuda needs an accelerator, and the device is cpu.", "Set VRAG_DEVICE=cuda."
        )
    if device == "auto":
        device = "cuda" if settings.tier == TierName.CUDA else "cpu"
    return VectorOptions(tier=settings.tier, device=device)


def open_for_adding(report: SettingsReport) -> Adding:
    """The collection to add to, made if there is none, with what to add by.

    A collection keeps the settings it was built with: where nobody asked for anything else, they
    stand; where somebody did, a difference is an error that says what to do.

    Raises:
        CollectionError: If the collection cannot be opened or made.
        EmbedError: If its embedder cannot be loaded.
    """
    settings = report.settings
    asked = corpus_options(settings)
    if not _exists(settings.collection):
        embedder = load_embedder(settings, settings.embedder) if settings.embedder else None
        return Adding(Collection.create(settings.collection, asked, embedder=embedder), asked, embedder)
    collection = Collection.open(settings.collection)
    chosen = {name: getattr(asked, name) for name in CORPUS_SETTINGS if report.origins[name] != "default"}
    mark = collection.header.embedder
    if mark is None and report.origins["embedder"] == "flag":
        collection.header.check_embedder(load_embedder(settings, settings.embedder))
    if mark is not None and mark.imported:
        collection.header.check_embedder(None)  # says what to do, before a model is loaded
    embedder = _embedder_of(settings, mark) if mark else None
    return Adding(collection, replace(collection.header.options, **chosen), embedder)


def open_ray(settings: Settings, embedder: Embedder | None) -> Producer:
    """The producer that has a Ray cluster make items, and vectors if there is an embedder."""
    from vrag.index.ray import RayOptions, by_ray

    options = RayOptions(
        address=settings.ray_address,
        embedders=settings.ray_embedders,
        gpus=settings.ray_gpus,
        items=settings.batch,
    )
    opened = partial(open_marked, settings, EmbedderMark.of(embedder)) if embedder else None
    return by_ray(options, opened, embedder)


def open_workbench(settings: Settings, embedder: Embedder | None = None) -> Workbench:
    """Opens collections that exist, for questions.

    Args:
        settings: Where they are, and how they are searched.
        embedder: The one they were built with, where it has been loaded already.

    Raises:
        CollectionError: If there is none.
        EmbedError: If the embedder cannot be loaded that a collection was built with.
    """
    opened = {collection.address: collection for collection in map(Collection.open, settings.places)}
    collections = {name: opened[address] for name, address in named(opened).items()}
    return Workbench(settings, collections, open_searcher(settings, collections, embedder))


def open_searcher(
    settings: Settings, collections: Mapping[str, Collection], embedder: Embedder | None = None
) -> Searcher:
    """What finds items in one collection, or in several together.

    Args:
        settings: How to search.
        collections: Where to, by name.
        embedder: The one they were built with, where it has been loaded already.

    Raises:
        FingerprintMismatch: If collections hold vectors of different embedders.
        EmbedError: If the embedder or the reranker cannot be loaded.
    """
    rankings = tuple(Ranking) if settings.ranking == "auto" else (Ranking(settings.ranking),)
    if Ranking.VECTOR not in rankings:
        embedder = None
    else:
        check_embedders({name: one for name, one in collections.items() if not _is_unbound(one)})
        embedder = embedder or _shared_embedder(settings, collections.values())
    engines = {
        name: _engine(settings, collection, embedder, rankings) for name, collection in collections.items()
    }
    if settings.qdrant and Ranking.VECTOR in rankings:
        searcher = _open_qdrant(settings, list(collections.values()), embedder)
    else:
        searcher = Several(engines) if len(engines) > 1 else next(iter(engines.values()))
    if not settings.reranker:
        return searcher
    from vrag.search.rerank import Reranked, open_reranker

    reranker = open_reranker(
        settings.reranker,
        device=settings.device,
        dtype=settings.dtype,
        batch=settings.batch,
        max_pixels=settings.embed_pixels or None,
    )
    return Reranked(searcher, reranker, settings.rerank_depth)


def _open_qdrant(
    settings: Settings, collections: Sequence[Collection], embedder: Embedder | None
) -> Searcher:
    from vrag.index.qdrant import QdrantStore
    from vrag.search.qdrant import QdrantSearcher

    if len(collections) > 1 or embedder is None:
        which = "Several collections" if embedder else "Collections without vectors"
        raise SettingsError(
            f"{which} cannot be searched through Qdrant.",
            "Leave out VRAG_QDRANT, or name another collection.",
        )
    words = Engine(collections[0], rankings=(Ranking.LEXICAL,)) if settings.ranking == "auto" else None
    return QdrantSearcher(QdrantStore.at(settings.qdrant), collections[0], embedder, lexical=words)


def documents_under(collection: Collection, paths: Sequence[Path]) -> list[Document]:
    """The documents that these files and folders hold now, as far as they have items.

    What the collection still knows and the disk no longer holds is left out: it waits for `prune`.
    """
    return [
        document
        for document in collection.documents()
        if document.status.served
        and any(lies_under(path, document) for path in paths)
        and os.path.lexists(document.path)
    ]


def _exists(place: str) -> bool:
    return is_url(place) or Header.read(Path(place)) is not None


def _engine(
    settings: Settings, collection: Collection, embedder: Embedder | None, rankings: Sequence[Ranking]
) -> Engine:
    mark = collection.header.embedder
    if _is_unbound(collection) and settings.ranking == "auto":
        rankings = (Ranking.LEXICAL,)  # nobody has said yet which model made those vectors
    return Engine(collection, embedder if mark else None, rankings=rankings, vectors=vector_options(settings))


def _is_unbound(collection: Collection) -> bool:
    """Whether it holds vectors of which nobody has said yet which embedder made them."""
    mark = collection.header.embedder
    return mark is not None and mark.imported


def _shared_embedder(settings: Settings, collections: Iterable[Collection]) -> Embedder | None:
    """The embedder of the first collection that has one: the others must have the same."""
    marks = (collection.header.embedder for collection in collections)
    mark = next((mark for mark in marks if mark and not mark.imported), None)
    return _embedder_of(settings, mark) if mark else None


def _embedder_of(settings: Settings, mark: EmbedderMark) -> Embedder:
    """The embedder whose vectors a collection holds, opened when it is needed."""
    return DeferredEmbedder(mark, partial(open_marked, settings, mark))


def open_marked(settings: Settings, mark: Marked) -> Embedder:
    """Opens the embedder of a mark, from where it was then or is said to be now, as it was opened then.

    A server is asked only if the user names it: somebody else's collection must not decide to whom
    queries, pages and keys are sent.

    Raises:
        EmbedError: If it cannot be opened, or is a server that nobody named.
    """
    if not settings.embedder and "://" in mark.name:
        raise EmbedError(
            f"The collection was built with {mark.name}, a server.",
            f"If it may be sent queries and pages, say so: VRAG_EMBEDDER={mark.name}",
        )
    try:
        return load_embedder(settings, settings.embedder or mark.name, mark.settings)
    except EmbedError as error:
        way = "Say where the model is now with VRAG_EMBEDDER, or rank by words alone: VRAG_RANKING=lexical."
        raise type(error)(error.message, f"{error.hint} {way}".strip()) from error


def load_embedder(settings: Settings, spec: str, kept: Mapping[str, str | int] | None = None) -> Embedder:
    """The embedder of that name, opened as the settings say.

    Args:
        settings: Device, precision and the rest.
        spec: Its name.
        kept: What a collection was made with, for what the settings leave open; see `Embedder.settings`.

    Raises:
        EmbedError: If there is none of that name, or it cannot be opened.
    """
    from vrag.embed.options import kept_settings
    from vrag.embed.registry import open_embedder

    opening = kept_settings(kept or {})
    if settings.dtype != "auto":
        opening["dtype"] = settings.dtype
    if settings.embed_pixels:
        opening["max_pixels"] = settings.embed_pixels
    return open_embedder(
        spec,
        device=settings.device,
        batch=settings.batch,
        api_key=settings.embed_key.get_secret_value() or None,
        **opening,
    )
