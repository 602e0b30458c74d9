"""A collection: one directory that holds items, their pictures and what finds them.

::

    collection.json   what it was built with; its presence makes the directory a collection
    index/            the durable tables, `items` and `files`: the source of truth
    items/            pictures of items, in a folder per document
    cache/            search structures made from the tables; may be deleted at any time
    runs/             recorded runs of agents
    lock, writer.json the one writer at a time, and who it is

Readers take no lock. A collection may be copied or moved while nothing writes to it. Published to
object storage (`publish.py`), it can be read from there by its URL.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vrag.corpus.media import clip_frames, on_disk, rgb
from vrag.corpus.options import CorpusOptions
from vrag.errors import CollectionError, CorpusError, SearchError
from vrag.index.collection_json import CollectionHeader
from vrag.index.location import LEFTOVERS, LocalLocation
from vrag.index.remote.object_storage import is_url
from vrag.index.tables.catalog import Catalog
from vrag.index.tables.schema import (
    FILE_COLUMNS,
    ITEM_COLUMNS,
    document_of,
    file_schema,
    item_of,
    item_schema,
)
from vrag.index.tables.table import Rows, Table
from vrag.index.tables.table_copy import TableCopies

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import EmbedderInfo
    from vrag.geometry import Size
    from vrag.index.location import CollectionLocation
    from vrag.types import Document, Item

__all__ = ["Collection"]

LATELY = 64
"""Items that are kept as they were asked for last: looking one up takes milliseconds, and an agent asks for
the same few again and again."""


class Collection:
    """Documents and items on disk or published. Made by `open`, `create` or `open_or_create`.

    May be shared by threads, and its directory by processes.
    """

    def __init__(self, place: CollectionLocation, header: CollectionHeader) -> None:
        self.place = place
        self.header = header
        items, files = (TableCopies(place.cache_dir, name) for name in ("items", "files"))
        self.item_table = Table(place.store, "items", lambda: item_schema(header.embedder), items)
        self.file_table = Table(place.store, "files", file_schema, files)
        self._content: tuple[tuple[int, int], str] | None = None
        """`content_version`, and the versions of the tables that it is of."""
        self._lately = lru_cache(maxsize=LATELY)(self._item)

    @classmethod
    def open(cls, directory: str | Path) -> Collection:
        """Opens a collection that exists, and writes nothing.

        Args:
            directory: Where it is: a directory, or the URL under which it was published.

        Raises:
            CollectionError: If there is none, or another version of vrag made it.
        """
        if is_url(directory):
            from vrag.index.remote.remote_collection import RemoteCollection

            place = RemoteCollection.at(str(directory))
            return cls(place, place.header())
        path = _usable(directory)
        header = CollectionHeader.read(path)
        if header is None:
            raise CollectionError(f"There is no collection in {path}.", _how_to_make(path))
        return cls(LocalLocation(path), header)

    @classmethod
    def create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: EmbedderInfo | None = None,
    ) -> Collection:
        """Makes an empty collection.

        Args:
            directory: Is made when it does not exist; must be empty otherwise.
            options: How files become items, for good; None for the defaults.
            embedder: Whose vectors it will hold, for good; None for lexical search only.

        Raises:
            CollectionError: If the directory holds anything or cannot be written to.
        """
        path = _usable(directory)
        header = CollectionHeader.of(options or CorpusOptions(), embedder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(path)  # before anything of ours lies there
            with LocalLocation(path).lock():
                _refuse_foreign(path)
                header.write(path)
        except OSError as error:
            raise CollectionError(
                f"The collection {path} cannot be made: {error.strerror or error}.",
                "Choose a directory that you may write to: --collection, VRAG_COLLECTION.",
            ) from error
        return cls(LocalLocation(path), header)

    @classmethod
    def open_or_create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: EmbedderInfo | None = None,
    ) -> Collection:
        """Opens the collection, or makes it when there is none.

        Args:
            directory: Where it is.
            options: Compared with those it was built with; None to accept any.
            embedder: For a new collection. `add` compares it.

        Raises:
            FingerprintMismatch: If it was built with other settings.
            CollectionError: As `open` and `create` do.
        """
        path = _usable(directory)
        if CollectionHeader.read(path) is None:
            return cls.create(path, options, embedder=embedder)
        collection = cls.open(path)
        if options is not None:
            collection.header.check_options(options)
        return collection

    @property
    def address(self) -> str:
        """Directory or URL, for people."""
        return self.place.address

    @property
    def directory(self) -> Path:
        """Its directory on this machine; of a published collection, where its runs are kept."""
        return self.place.directory

    @property
    def home(self) -> Path | None:
        """The directory that has all of it; None for a published collection."""
        return self.directory if isinstance(self.place, LocalLocation) else None

    def check_present(self) -> None:
        """Looks whether it still lies where it was opened.

        Raises:
            CollectionError: If its directory is gone. One that is published elsewhere is not looked for.
        """
        if self.home is not None and not self.home.is_dir():
            raise CollectionError(f"The collection {self.home} is gone.", "Bring it back to its place.")

    @property
    def items_dir(self) -> Path:
        """Where the pictures are. `stored` opens those of a published collection as well."""
        return self.directory / "items"

    @property
    def runs_dir(self) -> Path:
        """Where runs are recorded. Exists when a run has been."""
        return self.directory / "runs"

    @property
    def cache_dir(self) -> Path:
        """Where search structures are kept. May be deleted at any time."""
        return self.place.cache_dir

    @property
    def table_version(self) -> int:
        """Number of the last commit to the items; 0 while there is none. Grows with every write."""
        return self.item_table.version

    @property
    def content_version(self) -> str:
        """Hash over what can be found: equal for collections built from the same files alike."""
        version = self.item_table.version, self.file_table.version
        known = self._content
        if known is None or known[0] != version:
            catalog = Catalog.load(self)
            known = self._content = catalog.version, catalog.content
        return known[1]

    def documents(self) -> list[Document]:
        """The manifest: every file that was added, sorted by path."""
        rows = self.file_table.read(FILE_COLUMNS).data.to_pylist()
        return sorted(map(document_of, rows), key=lambda document: document.path)

    def items(self, ids: Sequence[str]) -> dict[str, Item]:
        """The items with these ids; those that do not exist are absent."""
        rows = self.item_table.find("id", list(dict.fromkeys(ids)), ITEM_COLUMNS)
        return {row["id"]: item_of(row) for row in rows.to_pylist()}

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        return self._lately(self.table_version, id)

    def _item(self, version: int, id: str) -> Item:  # noqa: ARG002 - asked again when something was written
        found = self.items([id])
        if id not in found:
            raise SearchError(f"There is no item {id!r}.")
        return found[id]

    def scan(self, columns: Sequence[str]) -> Rows:
        """Some columns of all items, in no particular order, from one version."""
        return self.item_table.read(columns)

    def image(self, item: Item, *, least: Size | None = None) -> Image:
        """The picture of an item, RGB: in full, or with `least` as `Searcher.image` says.

        Raises:
            SearchError: If the item has no picture.
            CollectionError: If its picture is missing or damaged, or its path leads elsewhere.
        """
        from PIL import Image, UnidentifiedImageError

        if item.image is None:
            raise SearchError(f"The item {item.id!r} has no picture: it is a {item.kind}.")
        try:
            with self.stored(item.image) as file, Image.open(file) as image:
                return rgb(image, least)
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise CollectionError(
                f"The picture of {item.name} cannot be opened: {error}.", self.place.mend
            ) from error

    def frames(self, item: Item, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of a clip, RGB, upright, as `Searcher.frames` says.

        Raises:
            SearchError: If the item is no clip.
            CollectionError: If its clip is missing or damaged, or its path leads elsewhere.
            MissingExtra: If PyAV is not installed.
        """
        if item.clip is None:
            raise SearchError(f"The item {item.id!r} has no frames: it is a {item.kind}.")
        try:
            with self.stored(item.clip.path) as file, on_disk(file) as path:
                return clip_frames(path, item.clip.start, fps=fps, most=most)
        except (OSError, CorpusError) as error:
            raise CollectionError(
                f"The clip of {item.name} cannot be opened: {error}", self.place.mend
            ) from error

    def stored(self, name: str) -> BinaryIO:
        """A picture or clip, by its path relative to `items/`, opened to read and to seek in.

        Raises:
            FileNotFoundError: If there is none.
            CollectionError: If the path leads out of `items/`, or the storage cannot be reached.
        """
        return self.place.open(name)

    def save_copies(self) -> None:
        """Keep copies of small tables in the cache, without vectors, so that the next process opens sooner.

        Raises:
            CollectionError: If the tables cannot be read.
        """
        self.item_table.save_copy(ITEM_COLUMNS)
        self.file_table.save_copy(self.file_table.schema.names)

    def lock(self) -> AbstractContextManager[None]:
        """Holds the right to write. Readers need none.

        Raises:
            CollectionBusy: At once, if another process holds it.
            CollectionError: If nothing can be written there.
        """
        return self.place.lock()


def _how_to_make(path: Path) -> str:
    """What to do where a collection was expected: often somebody names the documents themselves."""
    from vrag.index.reference.index_files import is_old_index

    if is_old_index(path):
        return _how_to_import(path)
    if path.is_dir() and any(path.iterdir()):
        return f"If these are documents, index them elsewhere: vrag index add {path} --collection PLACE"
    return f"Make one: vrag index add PATH --collection {path}"


def _how_to_import(path: Path) -> str:
    return f"It holds an index of the reference: vrag index import {path} --collection PLACE"


def _refuse_foreign(path: Path) -> None:
    from vrag.index.reference.index_files import is_old_index

    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in LEFTOVERS)
    if foreign:
        raise CollectionError(
            f"{path} is not empty ({foreign[0]}) and not a collection.",
            _how_to_import(path) if is_old_index(path) else "Choose another directory for the collection.",
        )


def _usable(directory: str | Path) -> Path:
    """The absolute path of a directory, if its name is one that the table's library can take."""
    if is_url(directory):
        raise CollectionError(
            f"A collection cannot be made at {directory}.",
            "Make it in a directory, then: vrag index publish URL",
        )
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - Path.resolve would follow links
    name = os.fspath(path)
    if any(ord(letter) < 32 or "\ud800" <= letter <= "\udfff" for letter in name):
        raise CollectionError(
            f"A collection cannot live in {name!r}.", "Choose a directory with a plain name."
        )
    return path
