"""A collection: one directory that holds documents, their items and the structures to search them.

::

    collection.db     documents and items, and what it was built with: the source of truth
    blobs/            pictures, clips and vectors, named by their content
    cache/            search structures made from them; may be deleted at any time
    staging/          pictures of items that a build has not committed yet
    runs/             recorded runs of agents

Readers take no lock. Writers take turns for each commit, and builds for the whole of their work. A
collection may be copied or moved while nothing writes to it. Published to object storage
(`remote/publish.py`), it can be read from there by its URL.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vrag.atomic_io import make_directory
from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionError, CorpusError, SearchError
from vrag.geometry import IMAGE_FORMATS
from vrag.index.catalog import Catalog
from vrag.index.location import (
    DESCRIPTION,
    CollectionHeader,
    LocalLocation,
    is_collection,
    is_leftover,
    is_reference_index,
    is_url,
    read_only_backup,
)
from vrag.index.schema import blob_of
from vrag.index.source_file import (
    CheckedFiles,
    OpenSource,
    SourceBytes,
    SourceDrawing,
    SourceFault,
    read_source,
    with_kept_copies,
)
from vrag.index.store import HEADER

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from collections.abc import Set as AbstractSet

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import EmbedderInfo
    from vrag.geometry import Size, View
    from vrag.index.location import CollectionLocation
    from vrag.index.store import CollectionStore
    from vrag.types import Document, Item

ITEM_CACHE_SIZE = 64
"""Items that are kept in memory: a lookup takes milliseconds, and an agent requests the same few again."""


class Collection:
    """Documents and items on disk or published. Opened by `open`, `create` or `open_or_create`.

    May be shared by threads, and its directory by processes. All that reads raises `CollectionError` if it
    cannot be read.
    """

    def __init__(self, location: CollectionLocation, store: CollectionStore) -> None:
        self.location, self.store = location, store
        self.header = CollectionHeader.parse(store.setting(HEADER), location.address)
        self.address = location.address
        """Directory or URL, for people."""
        self.directory = location.directory
        """Its directory on this machine; of a published collection, where its runs are kept."""
        self.home = location.directory if isinstance(location, LocalLocation) else None
        """The local directory of the collection; None for a published one."""
        self.durable = not isinstance(location, LocalLocation) or location.durable
        """True if what is written here is on the disk before it is acknowledged."""
        self.runs_dir = self.directory / "runs"
        """The directory of recorded runs, which the first run creates."""
        self.cache_dir = location.cache_dir
        """The directory of search structures. May be deleted at any time."""
        self.announced = 0
        """Version of which a client of this process was told that it can be searched."""
        self._content: tuple[int, str] | None = None
        """A version, and its `content_version`."""

        @lru_cache(maxsize=ITEM_CACHE_SIZE)
        def item_of_version(version: int, id: str) -> Item:  # noqa: ARG001 - part of the cache key
            found = self.items([id])
            if id not in found:
                raise SearchError(f"There is no item {id!r}.")
            return found[id]

        self._cached_item = item_of_version

        @lru_cache(maxsize=ITEM_CACHE_SIZE)
        def candidates_of_version(version: int, document: str) -> tuple[Document, ...]:  # noqa: ARG001
            if self.home is None:
                return ()
            files = store.files("document = ?", [document])
            return with_kept_copies((file.document for file in files), self.home)

        self._source_candidates = candidates_of_version
        self._drawing = SourceDrawing(self.source)
        self._files = CheckedFiles()

    @classmethod
    def open(cls, directory: str | Path, *, wait: float = 0.0, durable: bool = True) -> Collection:
        """Open a collection in a directory; `opening.open_collection` opens published ones and backups, too.

        With `durable`, what is written to it later is on the disk before it is acknowledged. What a process
        did not commit before it was killed is no part of it.

        `wait` is the time for which writing waits for another process, in seconds. Raises `CollectionError`
        if there is no collection, or another version of vrag created it.
        """
        path = _local_path(directory)
        if (path / DESCRIPTION).is_file():
            raise read_only_backup(path)
        if not is_collection(path):  # often it is the folder of the documents
            hint = f"Create one: vrag index add PATH --collection {path}"
            if path.is_dir() and any(path.iterdir()):
                hint = f"If these are documents, index them elsewhere: vrag index add {path} --collection DIR"
            raise CollectionError(f"There is no collection in {path}.", _import_hint(path) or hint)
        location = LocalLocation(path, wait, durable=durable)
        return cls(location, location.open_store())

    @classmethod
    def create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: EmbedderInfo | None = None,
        wait: float = 0.0,
        durable: bool = True,
    ) -> Collection:
        """Create an empty collection in a directory that is empty or does not exist.

        How files become items, and the embedder of its vectors, are permanent; without an embedder, search is
        lexical only. `wait` as for `open`. Raises `CollectionError` if the directory holds anything or cannot
        be written to.
        """
        path = _local_path(directory)
        location = LocalLocation(path, wait, durable=durable)
        header = CollectionHeader.of(options or CorpusOptions(), embedder)
        try:
            make_directory(path)
            _check_empty(path)
            return cls(location, location.create_store(header))
        except OSError as error:
            raise CollectionError(
                f"The collection {path} cannot be created: {error.strerror or error}.",
                "Choose a directory that you may write to: --collection, VRAG_COLLECTION.",
            ) from error

    @classmethod
    def open_or_create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: EmbedderInfo | None = None,
        wait: float = 0.0,
        durable: bool = True,
    ) -> Collection:
        """Open the collection, or create it when there is none.

        Options are compared with those it was built with; None accepts any. The embedder is for a new
        collection: `add` compares it. `wait` as for `open`. Raises `FingerprintMismatch` if it was built with
        other settings, and `CollectionError` as `open` and `create` do.
        """
        path = _local_path(directory)
        if not is_collection(path):
            return cls.create(path, options, embedder=embedder, wait=wait, durable=durable)
        collection = cls.open(path, wait=wait, durable=durable)
        if options is not None:
            collection.header.check_options(options)
        return collection

    def check_present(self) -> None:
        """Check that it is still where it was opened."""
        if self.home is not None and not self.home.is_dir():
            raise CollectionError(f"The collection {self.home} is gone.", "Move it back.")

    @property
    def version(self) -> int:
        """Number of the last commit; 0 while there is none. Grows with every write."""
        return self.store.version

    @property
    def content_version(self) -> str:
        """Hash over what can be found: equal for collections built from the same files alike."""
        version = self.version
        known = self._content
        if known is None or known[0] != version:
            catalog = self.catalog()
            known = self._content = catalog.version, catalog.content
        return known[1]

    def catalog(self) -> Catalog:
        """Load what can be found, without texts."""
        return Catalog.load(self.store, self.header)

    def documents(self) -> list[Document]:
        """Return the manifest: every file that was added, sorted by path."""
        return sorted((file.document for file in self.store.files()), key=lambda document: document.path)

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:  # noqa: ARG002 - it is one
        """Return the file names of the documents that can be found, by their ids, sorted by name."""
        served = [document for document in self.documents() if document.status.served]
        return {
            document.id: document.name for document in sorted(served, key=lambda each: (each.name, each.id))
        }

    def items(self, ids: Sequence[str]) -> dict[str, Item]:
        """Return the items with these ids; those that do not exist are absent."""
        return self.store.items(ids)

    def item(self, id: str) -> Item:
        """Return the item with this id."""
        return self._cached_item(self.version, id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the picture of an item, RGB: in full, or with `least` as `ItemStore.image` describes."""
        from PIL import Image, UnidentifiedImageError

        from vrag.corpus.media import rgb

        item = self.item(id)
        if item.image is None:
            raise SearchError(f"The item {item.id!r} has no picture: it is a {item.kind}.")
        try:
            with (
                self.stored(item.image, f"The picture of {item.name}") as file,
                Image.open(file, formats=IMAGE_FORMATS) as image,
            ):
                return rgb(image, least)
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise CollectionError(
                f"The picture of {item.name} cannot be opened: {error}.", self.location.repair_hint
            ) from error

    def part(self, id: str, view: View) -> Image | None:
        """Draw a part of a page from its source file, as `ItemStore.part` describes."""
        return self._drawing.draw(self.item(id), view)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames of a clip, RGB, upright, as `ItemStore.frames` describes."""
        from vrag.corpus.media import clip_frames, on_disk

        item = self.item(id)
        if item.clip is None:
            raise SearchError(f"The item {item.id!r} has no frames: it is a {item.kind}.")
        try:
            title = f"The clip of {item.name}"
            with self.stored(item.clip.path, title) as file, on_disk(file) as path:
                return clip_frames(path, item.clip.start, fps=fps, most=most)
        except (OSError, CorpusError) as error:
            raise CollectionError(
                f"The clip of {item.name} cannot be opened: {error}", self.location.repair_hint
            ) from error

    def source(self, document: str) -> SourceBytes | SourceFault:
        """Return the bytes of a document by its id, from its file where that is as it was indexed.

        Of several files with these bytes the first that can be read is taken; of a file that was uploaded,
        the copy in the collection, wherever the collection was moved to. A published collection has no files.
        """
        fault: SourceFault | None = None
        for candidate in self._source_candidates(self.version, document):
            source = read_source(candidate)
            if isinstance(source, SourceBytes):
                return source
            fault = fault or source
        return fault or SourceFault.ABSENT

    def open_source(self, document: str) -> OpenSource | SourceFault:
        """Open the file of a document by its id, as `source`, to be read in parts, whatever its size."""
        fault: SourceFault | None = None
        for candidate in self._source_candidates(self.version, document):
            opened = self._files.open(candidate)
            if isinstance(opened, OpenSource):
                return opened
            fault = fault or opened
        return fault or SourceFault.ABSENT

    def stored(self, name: str, title: str = "") -> BinaryIO:
        """Open a picture or clip, by its name in `Item.image` or `Clip.path`, to read and to seek in.

        `title` names it in errors. Raises `FileNotFoundError` if there is none, and `CollectionError` if it
        is damaged, or the name is none.
        """
        try:
            return BytesIO(self.store.read_blob(blob_of(name), title or name))
        except CollectionError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise FileNotFoundError(error.message) from error
            raise

    @contextmanager
    def build(self, wait: float | None = None) -> Generator[Path]:
        """Let this process alone read documents into it, as `LocalLocation.build` describes."""
        with self.location.build(wait) as staging:
            yield staging

    def close(self) -> None:
        """Move the log to the database where that can be done at once, and close it."""
        if self.home is not None:
            with suppress(CollectionError):
                self.store.database.checkpoint(0)
        self.store.close()


def _import_hint(path: Path) -> str:
    """Return the hint for a directory with an index of the reference; empty for another."""
    if not is_reference_index(path):
        return ""
    return f"It holds an index of the reference: vrag index import {path} --collection DIR"


def _check_empty(path: Path) -> None:
    foreign = sorted(entry.name for entry in path.iterdir() if not is_leftover(entry.name))
    if foreign:
        raise CollectionError(
            f"{path} is not empty ({foreign[0]}) and not a collection.",
            _import_hint(path) or "Choose another directory.",
        )


def _local_path(directory: str | Path) -> Path:
    """Return the absolute path of a directory with a plain name."""
    if is_url(directory):
        raise CollectionError(
            f"A collection cannot be created at {directory}.",
            "Create it in a directory, then: vrag index publish URL",
        )
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - Path.resolve would follow links
    name = os.fspath(path)
    if any(ord(letter) < 32 or "\ud800" <= letter <= "\udfff" for letter in name):
        raise CollectionError(
            f"A collection cannot be stored in {name!r}.", "Choose a directory with a plain name."
        )
    return path
