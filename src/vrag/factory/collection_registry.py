"""The open collections of a server: searched as one, while collections are created and deleted.

A server opens the collections that its settings name. Clients can create more: these lie in the same folder
as the first one, have the same options and embedder, and hold the file `served.json`, which names the first
one and by which they are found at the next start. Other collections in that folder are left alone.
Collections that were named when the server started are never deleted.

A new collection is created under a hidden name and then renamed, and a deleted one is renamed to a hidden
name first: if the process is killed in between, no incomplete collection has a visible name, and a later
start deletes the hidden one.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vrag.atomic_io import replace_file, sync, write_whole
from vrag.embed.registry import DeferredEmbedder
from vrag.errors import CollectionError, FingerprintMismatch, SettingsError, VragError
from vrag.factory.indexing import embedder_of
from vrag.factory.search import SearchParts, open_client, open_collections
from vrag.index.collection import Collection
from vrag.index.location import LocalLocation
from vrag.index.shown_names import ShownNames
from vrag.index.vectors.embed_items import local
from vrag.parsing import parse_json
from vrag.search.multi import unique_names
from vrag.search.searcher import list_documents, name_documents
from vrag.server.collections.registry import NAME_PATTERN, OpenCollection
from vrag.server.item_files import CollectionFiles, ItemDetails, SearcherFiles
from vrag.storage.sealed_json import is_sealed, seal_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Collection as CollectionOf
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from PIL.Image import Image

    from vrag.corpus.converter import CorpusOptions, SourceFile
    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import Embedder
    from vrag.geometry import Size, View
    from vrag.index.vectors.embed_items import Made, Producer
    from vrag.search.engine import Engine
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings
    from vrag.types import Hit, Item, Query

T = TypeVar("T")
log = logging.getLogger("vrag.server")
MARK = "served.json"
"""File in a collection that a server created: `{"beside": <directory name of the first collection>}`."""
_HIDDEN = ".vrag-served-"
"""Prefix of collections that are being created or deleted."""
_STALE_SECONDS = 600.0
"""Age from which such a directory was left by a killed server; a younger one may be in use."""


@dataclass(frozen=True)
class _RegistryState:
    engines: Mapping[str, Engine]
    open_collections: tuple[OpenCollection, ...]
    searcher: Searcher
    files: CollectionFiles


class CollectionRegistry:
    """A `Searcher` over all open collections of a server. Create it with `open`; it is thread-safe.

    A call uses the collections that are open when it begins. If one of them is deleted meanwhile and the call
    fails, it begins again with the others. Items of a deleted collection may have been found and can then not
    be shown (`SearchError`).
    """

    def __init__(self, settings: Settings, parts: SearchParts | None, client: Searcher | None) -> None:
        self.settings = settings
        self._parts = parts
        self._state: _RegistryState | None = None
        self._client = client
        self._names = ShownNames(lambda: {each.name: each.collection for each in self.open_collections})
        self._changing = threading.Lock()
        self._embedders: dict[str, Embedder] = {}
        """Embedders by fingerprint."""

    @classmethod
    def open(
        cls, settings: Settings, embedder: Embedder | None = None, *, managed: bool = True
    ) -> CollectionRegistry:
        """Open the collections that the settings name and, if `managed`, those that clients created.

        `embedder` is the one they were built with, if it has been loaded already.

        Raises `CollectionError` if there is none and `EmbedError` if a model cannot be loaded.
        """
        if settings.search_url:
            return cls(settings, None, open_client(settings))
        opened = open_collections(settings)
        pinned = {name: opened[address] for name, address in unique_names(opened).items()}
        taken = {name.rsplit("/", 1)[-1] for name in pinned}
        found = (
            {}
            if settings.qdrant or not managed
            else _find_managed(next(iter(pinned.values())), pinned.values())
        )
        created = {name: collection for name, collection in found.items() if name not in taken}
        collections = pinned | created
        parts = SearchParts.open(settings, collections, embedder)
        registry = cls(settings, parts, None)
        engines = {name: parts.engine(collection) for name, collection in collections.items()}
        states = (registry._open(name, each, removable=name in created) for name, each in collections.items())
        registry._state = registry._new_state(engines, tuple(states))
        return registry

    @property
    def absent(self) -> str:
        """The reason that there are no collections here; empty if there are."""
        if self._state is not None:
            return ""
        return "This server has no collections: it forwards searches to another server."

    @property
    def open_collections(self) -> tuple[OpenCollection, ...]:
        """The collections that are open, the first one first; none when a server searches."""
        return self._state.open_collections if self._state else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the open collections, the first one first; none when a server searches."""
        return tuple(open_collection.name for open_collection in self.open_collections)

    @property
    def collection(self) -> Collection:
        """The first of the collections: runs are recorded there.

        Raises `SettingsError` if a server searches.
        """
        return self._open_state.open_collections[0].collection

    @property
    def searcher(self) -> Searcher:
        """The searcher of the collections that are open now; `CollectionRegistry` itself follows changes."""
        if self._state is not None:
            return self._state.searcher
        assert self._client is not None
        return self._client

    def details(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """Return the files of these items, as an `ItemFiles`; items that do not exist are left out."""
        return self._call(
            lambda: (self._state.files if self._state else SearcherFiles(self.searcher)).details(ids)
        )

    def known_documents(self, ids: CollectionOf[str], collection: str | None) -> set[str]:
        """Return those of the ids that are documents of an open collection; of all collections for None.

        Raises `CollectionError` if a collection cannot be read.
        """
        wanted = f"document IN ({', '.join('?' * len(ids))})"

        def read() -> set[str]:
            stores = [
                each.collection.store for each in self.open_collections if collection in {None, each.name}
            ]
            return {file.document.id for store in stores for file in store.files(wanted, sorted(ids))}

        return self._call(read)

    @property
    def version(self) -> str:
        """Hash over what can be found now."""
        return self._call(lambda: self.searcher.version)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items of all that is open.

        Raises `SearchError` as `Searcher.search`.
        """
        found = self._call(lambda: self.searcher.search(queries, top_k))
        return self._call(lambda: [self._names.named_hits(hits) for hits in found])

    def item(self, id: str) -> Item:
        """Return the item with this id. Raises `SearchError` if there is none."""
        return self._call(lambda: self._names.named(self.searcher.item(id)))

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the documents of the open collections, as `DocumentLister.list_documents` says."""
        return self._call(lambda: name_documents(list_documents(self.searcher, corpora), self._names))

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the picture of an item, as `Searcher.image` says."""
        return self._call(lambda: self.searcher.image(id, least=least))

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames of a clip, as `Searcher.frames` says."""
        return self._call(lambda: self.searcher.frames(id, fps=fps, most=most))

    def part(self, id: str, view: View) -> Image | None:
        """Draw a part of a page, as `Searcher.part` says."""
        return self._call(lambda: self.searcher.part(id, view))

    def _call(self, function: Callable[[], T]) -> T:
        """Return what a function returns; call it again if it fails while a collection is deleted."""
        while True:
            state = self._state
            try:
                return function()
            except CollectionError:
                if self._state is state:
                    raise

    def create(self, name: str) -> OpenCollection:
        """Create a collection as `CollectionSet.create`, with the options and embedder of the first one."""
        with self._changing:
            state = self._open_state
            first = state.open_collections[0]
            self._check_new(name, first)
            collection = _create_managed(first.collection, name)
            open_collection = self._open(name, collection, removable=True)
            assert self._parts is not None
            engines = {**state.engines, name: self._parts.engine(collection)}
            self._state = self._new_state(engines, (*state.open_collections, open_collection))
            return open_collection

    def drop(self, name: str) -> None:
        """Close and delete a collection as `CollectionSet.drop`."""
        with self._changing:
            state = self._open_state
            open_collection = next((each for each in state.open_collections if each.name == name), None)
            if open_collection is None or not open_collection.removable:
                raise SettingsError(
                    f"The collection {name!r} cannot be deleted here.",
                    "Only collections that were created through the server can.",
                )
            engines = {other: engine for other, engine in state.engines.items() if other != name}
            others = tuple(each for each in state.open_collections if each is not open_collection)
            self._state = self._new_state(engines, others)
            try:
                gone = _hide(open_collection.collection)
            except VragError:
                self._state = state
                raise
        shutil.rmtree(gone, ignore_errors=True)  # remains are deleted at the next start

    @property
    def _open_state(self) -> _RegistryState:
        if self._state is None:
            raise SettingsError(self.absent, "Ask the server that searches.")
        return self._state

    def _new_state(
        self, engines: Mapping[str, Engine], open_collections: tuple[OpenCollection, ...]
    ) -> _RegistryState:
        assert self._parts is not None
        files = CollectionFiles([open_collection.collection for open_collection in open_collections])
        return _RegistryState(engines, open_collections, self._parts.searcher(engines), files)

    def _open(self, name: str, collection: Collection, *, removable: bool) -> OpenCollection:
        reason = self._read_only_reason(collection)
        if "/" in name:
            reason = reason or "Another collection has the same name: rename one of them."
        if reason:
            return OpenCollection(name, collection, None, reason, removable=False)
        # One core less than there are, for searches, and one worker more, which is kept for small files.
        workers = self.settings.workers or max(2, collection.header.options.processes)
        producer = _producer_of(self._open_embedder(collection), self.settings.batch, workers)
        return OpenCollection(name, collection, producer, "", removable)

    def _read_only_reason(self, collection: Collection) -> str:
        """Return the reason that a collection cannot be written to; empty if it can."""
        mark = collection.header.embedder
        if not isinstance(collection.location, LocalLocation):
            return "It is published: add documents to the original collection and publish that again."
        if self.settings.qdrant:
            return "Its vectors are searched in Qdrant: add documents where the server runs, by vrag index."
        if mark is not None and mark.imported:
            return "Its vectors were imported, and their embedder is not known yet."
        try:
            collection.header.check_options(collection.header.options)
        except FingerprintMismatch as error:
            return error.message
        writable = os.access(collection.directory, os.W_OK | os.X_OK)
        return "" if writable else "The server has no permission to write to it."

    def _open_embedder(self, collection: Collection) -> Embedder | None:
        """Return the embedder of a collection: one object for all that have the same."""
        mark = collection.header.embedder
        if mark is None:
            return None
        shared = self._parts.embedder if self._parts else None
        if shared is not None and shared.fingerprint == mark.fingerprint:
            return shared
        if mark.fingerprint not in self._embedders:
            self._embedders[mark.fingerprint] = embedder_of(self.settings, mark)
        return self._embedders[mark.fingerprint]

    def _check_new(self, name: str, first: OpenCollection) -> None:
        if not re.fullmatch(NAME_PATTERN, name):
            raise SettingsError(
                f"{name[:80]!r} is not a valid name of a collection.",
                "Use up to 64 lower-case letters, digits, hyphens and underscores.",
            )
        if first.reason:
            raise SettingsError("No collection can be created next to the first one.", first.reason)
        parent = first.collection.directory.parent
        if not os.access(parent, os.W_OK | os.X_OK):
            raise SettingsError(
                "No collection can be created next to the first one.",
                "Allow the server to write to its folder.",
            )
        taken = {part.casefold() for known in self.names for part in (known, known.rsplit("/", 1)[-1])}
        if name in taken or os.path.lexists(parent / name):
            raise SettingsError(f"The name {name} is taken.", "Choose another name.")


def _create_managed(first: Collection, name: str) -> Collection:
    """Create a collection next to another one, with the same options and embedder, atomically.

    Raises `CollectionError` if the name is taken, or the disk fails.
    """
    place = first.directory.parent / name
    scratch = _hidden(place)
    try:
        Collection.create(
            scratch, first.header.options, embedder=first.header.embedder, durable=first.durable
        ).close()
        write_whole(scratch / MARK, seal_json({"beside": first.directory.name}))
        scratch.rename(place)  # fails if the place is taken
        sync(place.parent)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        reason = error.strerror or error
        raise CollectionError(f"The collection {place} cannot be created: {reason}.") from error
    return Collection.open(place, durable=first.durable)


def _hide(collection: Collection) -> Path:
    """Rename a collection to a hidden name while nobody writes to it; return its new place.

    Raises `CollectionBusy` if another process is writing to it and `CollectionError` if the disk fails.
    """
    place = collection.directory
    gone = _hidden(place)
    try:
        with collection.build():
            if sys.platform != "win32":
                place.rename(gone)
        if sys.platform == "win32":  # renames no folder with an open file, such as the lock
            collection.close()
            replace_file(place, gone)
        sync(gone.parent)
    except OSError as error:
        reason = error.strerror or error
        raise CollectionError(f"The collection {place} cannot be deleted: {reason}.") from error
    return gone


def _find_managed(first: Collection, known: Iterable[Collection]) -> dict[str, Collection]:
    """Return the collections that a server created, by name; delete incomplete ones.

    A collection that cannot be opened, or whose embedder differs from that of the first, is logged and stays
    where it is. Those in `known` are open already.
    """
    if not isinstance(first.location, LocalLocation):
        return {}
    open_already = {collection.address for collection in known}
    found: dict[str, Collection] = {}
    try:
        places = sorted(first.directory.parent.iterdir())
    except OSError as error:
        log.warning("The folder of the server's collections cannot be read: %s.", error.strerror)
        return {}
    for place in places:
        if place.name.startswith(_HIDDEN):
            with suppress(OSError):
                if time.time() - place.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(place, ignore_errors=True)
            continue
        if os.fspath(place) not in open_already and (collection := _open_managed(first, place)):
            found[place.name] = collection
    return found


def _hidden(place: Path) -> Path:
    return place.with_name(f"{_HIDDEN}{secrets.token_hex(8)}")


def _open_managed(first: Collection, place: Path) -> Collection | None:
    """Open a collection that the server of `first` created; None for others, and for those to be left out."""
    if not re.fullmatch(NAME_PATTERN, place.name) or place.is_symlink():
        return None
    try:
        data = (place / MARK).read_bytes()
        mark: dict[str, object] = parse_json(data)
        is_own = mark["beside"] == first.directory.name
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not is_own or not is_sealed(data):
        return None
    try:
        collection = Collection.open(place, durable=first.durable)
    except VragError as error:
        log.warning("The collection %s is left out: %s", place.name, error)
        return None
    embedder, expected = collection.header.embedder, first.header.embedder
    if embedder is None or (expected is not None and embedder.fingerprint == expected.fingerprint):
        return collection
    log.warning("The collection %s is left out: its vectors come from another embedder.", collection.address)
    return None


def _producer_of(embedder: Embedder | None, batch: int, workers: int) -> Producer:
    """Return a producer of items that uses some processes and opens the embedder before the first file."""
    make = local(embedder, batch, live=True)

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
