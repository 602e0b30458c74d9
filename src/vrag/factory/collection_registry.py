"""What a server has open: collections by name, searched as one, while some come and others go.

A server opens the collections that it was told to. Clients may have it make more: these lie beside the
first one, in the same folder, are built by the same options and with the same embedder, and hold the file
`served.json`, which names the first one. By that file they are found at the next start; a collection that
somebody else made in that folder is left alone. What was named when the server started is never deleted.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

from vrag.embed.lazy import DeferredEmbedder
from vrag.errors import FingerprintMismatch, SettingsError, VragError
from vrag.factory.indexing import embedder_of
from vrag.factory.managed_collections import create_managed, find_managed, hide
from vrag.factory.search import SearchParts, open_client
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.location import LocalLocation
from vrag.search.multi import named
from vrag.server.collections.registry import NAME_PATTERN, OpenCollection
from vrag.server.item_files import CollectionFiles, ItemDetails, SearcherFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from collections.abc import Collection as CollectionOf
    from pathlib import Path

    from PIL.Image import Image

    from vrag.corpus.converter import SourceFile
    from vrag.corpus.formats.video import VideoFrame
    from vrag.corpus.options import CorpusOptions
    from vrag.embed.embedder import Embedder
    from vrag.geometry import Size
    from vrag.index.embed_items import Made, Producer
    from vrag.search.engine import Engine, Searcher
    from vrag.settings import Settings
    from vrag.types import Hit, Item, Query

__all__ = ["CollectionRegistry"]


@dataclass(frozen=True)
class _RegistryState:
    """The collections that are open at one moment."""

    engines: Mapping[str, Engine]
    holdings: tuple[OpenCollection, ...]
    searcher: Searcher
    files: CollectionFiles


class CollectionRegistry:
    """A `Searcher` over all collections that a server has open. Made by `open`; may be shared by threads.

    Reading goes by the collections that are open when it begins: one that is dropped meanwhile is read no
    more, and what a search still found of it can then not be shown (`SearchError`, `CollectionError`).
    """

    def __init__(
        self,
        settings: Settings,
        parts: SearchParts | None,
        state: _RegistryState | None,
        client: Searcher | None,
    ) -> None:
        self.settings = settings
        self._parts = parts
        self._state = state
        self._client = client
        self._changing = threading.Lock()
        self._embedders: dict[str, Embedder] = {}
        """By fingerprint; those of queries come first."""

    @classmethod
    def open(cls, settings: Settings, embedder: Embedder | None = None) -> CollectionRegistry:
        """Opens the collections that the settings name, and those that a server made beside the first.

        Args:
            settings: Where they are, and how they are searched.
            embedder: The one they were built with, where it has been loaded already.

        Raises:
            CollectionError: If there is none.
            EmbedError: If a model cannot be loaded.
        """
        if settings.search_url:
            return cls(settings, None, None, open_client(settings))
        opened = {collection.address: collection for collection in map(Collection.open, settings.places)}
        pinned = {name: opened[address] for name, address in named(opened).items()}
        made = {} if settings.qdrant else _made(pinned)
        parts = SearchParts.open(settings, pinned | made, embedder)
        registry = cls(settings, parts, None, None)
        engines = {name: parts.engine(one) for name, one in (pinned | made).items()}
        held = [registry._hold(name, one, removable=name in made) for name, one in (pinned | made).items()]
        registry._state = registry._put(engines, tuple(held))
        return registry

    @property
    def absent(self) -> str:
        """Why there are no collections here; empty where there are."""
        if self._state is not None:
            return ""
        return "This server has no collections of its own: it asks another one, which has them."

    @property
    def holdings(self) -> tuple[OpenCollection, ...]:
        """The collections that are open, the first one first; none when a server searches."""
        return self._state.holdings if self._state else ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the collections are called now, the first one first; none when a server searches."""
        return tuple(holding.name for holding in self.holdings)

    @property
    def corpora(self) -> Sequence[str]:
        """`names`, as a sequence that follows them."""
        return _Names(self)

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there.

        Raises:
            SettingsError: If a server searches.
        """
        return self._open_state.holdings[0].collection

    @property
    def files(self) -> RegistryFiles:
        """The files of all items, as collections come and go."""
        return RegistryFiles(self)

    @property
    def searcher(self) -> Searcher:
        """What searches all that is open now; `CollectionRegistry` itself goes on with what is open later."""
        if self._state is not None:
            return self._state.searcher
        assert self._client is not None
        return self._client

    def filed(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """What is known of the files of these items; see `vrag.server.item_files.ItemFiles`."""
        files = self._state.files if self._state else SearcherFiles(self.searcher)
        return files.filed(ids)

    @property
    def version(self) -> str:
        """Hash over what can be found now."""
        return self.searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items of all that is open.

        Raises:
            SearchError: As `Searcher.search`.
        """
        return self.searcher.search(queries, top_k)

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self.searcher.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item, as `Searcher.image` says."""
        return self.searcher.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of a clip, as `Searcher.frames` says."""
        return self.searcher.frames(id, fps=fps, most=most)

    def create(self, name: str) -> OpenCollection:
        """Makes an empty collection beside the first one, like it, and opens it.

        Raises:
            SettingsError: If it cannot be made here, or there is one of that name.
            CollectionError: If the disk fails.
        """
        with self._changing:
            state = self._open_state
            first = state.holdings[0]
            self._check_new(name, first)
            collection = create_managed(first.collection, name)
            holding = self._hold(name, collection, removable=True)
            assert self._parts is not None
            engines = {**state.engines, name: self._parts.engine(collection)}
            self._state = self._put(engines, (*state.holdings, holding))
            return holding

    def drop(self, name: str) -> None:
        """Closes a collection that a client made, and deletes it.

        Raises:
            SettingsError: If there is none of that name, or it was not made by a client.
            CollectionBusy: If another process is writing to it.
            CollectionError: If the disk fails.
        """
        with self._changing:
            state = self._open_state
            holding = next((one for one in state.holdings if one.name == name), None)
            if holding is None or not holding.removable:
                raise SettingsError(
                    f"The collection {name!r} is not deleted here.",
                    "Only those that were made through the server are.",
                )
            engines = {other: engine for other, engine in state.engines.items() if other != name}
            self._state = self._put(engines, tuple(one for one in state.holdings if one is not holding))
            try:
                gone = hide(holding.collection)
            except VragError:
                self._state = state
                raise
        shutil.rmtree(gone, ignore_errors=True)  # what is left is cleared away at the next start

    @property
    def _open_state(self) -> _RegistryState:
        if self._state is None:
            raise SettingsError(self.absent, "Ask the server that it names as VRAG_SEARCH_URL.")
        return self._state

    def _put(self, engines: Mapping[str, Engine], holdings: tuple[OpenCollection, ...]) -> _RegistryState:
        """The state with these collections."""
        parts = self._parts
        assert parts is not None
        files = CollectionFiles([held.collection for held in holdings])
        return _RegistryState(engines, holdings, parts.searcher(engines), files)

    def _hold(self, name: str, collection: Collection, *, removable: bool) -> OpenCollection:
        reason = self._fixed(collection)
        if "/" in name:
            reason = reason or "Another collection has the same name: neither has an address of its own."
        producer = None if reason else self._producer(collection)
        return OpenCollection(name, collection, producer, reason, removable and not reason)

    def _fixed(self, collection: Collection) -> str:
        """Why nothing can be written to a collection; empty when it can."""
        mark = collection.header.embedder
        if not isinstance(collection.place, LocalLocation):
            return "It is published: documents are added where it was made, and it is published again."
        if self.settings.qdrant:
            return "Its vectors are searched in Qdrant: documents are added and sent there with vrag index."
        if mark is not None and mark.imported:
            return "Its vectors were imported, and nobody has said yet which model made them."
        try:
            collection.header.check_options(collection.header.options)
        except FingerprintMismatch as error:
            return error.message
        return "" if os.access(collection.directory, os.W_OK | os.X_OK) else "The server may not write to it."

    def _producer(self, collection: Collection) -> Producer:
        return _by(self.settings, self._embedder(collection), _workers(self.settings, collection))

    def _embedder(self, collection: Collection) -> Embedder | None:
        """What makes the vectors of a collection: one object for all that have the same."""
        mark = collection.header.embedder
        if mark is None:
            return None
        ours = self._parts.embedder if self._parts else None
        if ours is not None and ours.fingerprint == mark.fingerprint:
            return ours
        if mark.fingerprint not in self._embedders:
            self._embedders[mark.fingerprint] = embedder_of(self.settings, mark)
        return self._embedders[mark.fingerprint]

    def _check_new(self, name: str, first: OpenCollection) -> None:
        if not re.fullmatch(NAME_PATTERN, name):
            raise SettingsError(
                f"A collection cannot be called {name[:80]!r}.",
                "Use up to 64 small letters, digits, hyphens and underscores.",
            )
        if first.reason:
            raise SettingsError("No collection can be made beside the first one.", first.reason)
        parent = first.collection.directory.parent
        if not os.access(parent, os.W_OK | os.X_OK):
            raise SettingsError(
                "No collection can be made beside the first one.",
                "The server may not write to the folder that it lies in.",
            )
        taken = {part.casefold() for known in self.names for part in (known, known.rsplit("/", 1)[-1])}
        if name in taken or os.path.lexists(parent / name):
            raise SettingsError(f"The name {name} is taken.", "Choose another.")


@dataclass(frozen=True)
class RegistryFiles:
    """The files of the items of a shelf; an `ItemFiles`."""

    registry: CollectionRegistry

    def filed(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """What is known of these items; those that do not exist are absent."""
        return self.registry.filed(ids)


@dataclass(frozen=True)
class _Names(Sequence[str]):
    """The names of a shelf's collections, as they are at every look."""

    registry: CollectionRegistry = field(repr=False)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self.registry.names[index]

    def __len__(self) -> int:
        return len(self.registry.names)


def _made(pinned: Mapping[str, Collection]) -> dict[str, Collection]:
    """The collections made by clients, but for those whose names are taken now."""
    taken = {name.rsplit("/", 1)[-1] for name in pinned}
    made = find_managed(next(iter(pinned.values())), pinned.values())
    return {name: collection for name, collection in made.items() if name not in taken}


def _by(settings: Settings, embedder: Embedder | None, workers: int) -> Producer:
    """What makes items, with some processes. Opens the embedder before any file is begun."""
    make = local(embedder, settings.batch)

    def produce(
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], CollectionOf[int]],
    ) -> Generator[Made, None, None]:
        if isinstance(embedder, DeferredEmbedder):
            embedder.open()
        yield from make(sources, items_dir, replace(options, workers=workers), have)

    return produce


def _workers(settings: Settings, collection: Collection) -> int:
    """As the settings say; else one less than there are cores, which is left to those who search."""
    return settings.workers or max(1, collection.header.options.processes - 1)
