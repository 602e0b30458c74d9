"""A collection: one directory that holds items, their pictures and the structures to search them.

::

    collection.json   what it was built with; its presence makes the directory a collection
    index/            the durable tables, `items` and `files`: the source of truth
    items/            pictures of items, in a folder per document
    cache/            search structures made from the tables; may be deleted at any time
    runs/             recorded runs of agents
    lock, writer.json the one writer at a time, and who it is

Readers take no lock. A collection may be copied or moved while nothing writes to it. Published to
object storage (`remote/publish.py`), it can be read from there by its URL.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vrag.atomic_io import make_directory
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.media import clip_frames, on_disk, rgb
from vrag.errors import CollectionError, CorpusError, SearchError
from vrag.geometry import IMAGE_FORMATS
from vrag.index.catalog import Catalog
from vrag.index.integrity.checksums import CHECKSUMS, file_checksum
from vrag.index.location import CollectionHeader, LocalLocation, check_memory_limit, is_leftover
from vrag.index.remote.object_storage import is_url
from vrag.index.schema import (
    FILE_COLUMNS,
    FILE_PARTS,
    ITEM_COLUMNS,
    ITEM_PARTS,
    document_of,
    file_rows,
    file_schema,
    item_of,
    item_schema,
)
from vrag.index.source_file import (
    CheckedFiles,
    OpenSource,
    SourceBytes,
    SourceDrawing,
    SourceFault,
    read_source,
    with_kept_copies,
)
from vrag.index.tables.copies import TableCopies
from vrag.index.tables.table import Rows, Table
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from collections.abc import Set as AbstractSet

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.embedder import EmbedderInfo
    from vrag.geometry import Size, View
    from vrag.index.location import CollectionLocation
    from vrag.types import Document, Item

ITEM_CACHE_SIZE = 64
"""Items that are kept in memory: a lookup takes milliseconds, and an agent requests the same few again."""


class Collection:
    """Documents and items on disk or published. Opened by `open`, `create` or `open_or_create`.

    May be shared by threads, and its directory by processes. All that reads raises `CollectionError` if it
    cannot be read.
    """

    def __init__(self, location: CollectionLocation, header: CollectionHeader) -> None:
        check_memory_limit()
        self.location = location
        self.header = header
        self.address = location.address
        """Directory or URL, for people."""
        self.directory = location.directory
        """Its directory on this machine; of a published collection, where its runs are kept."""
        self.home = location.directory if isinstance(location, LocalLocation) else None
        """The local directory of the collection; None for a published one."""
        self.durable = not isinstance(location, LocalLocation) or location.durable
        """True if what is written here is on the disk before it is acknowledged."""
        self.items_dir = self.directory / "items"
        """The directory of the pictures. `stored` opens those of a published collection as well."""
        self.runs_dir = self.directory / "runs"
        """The directory of recorded runs, which the first run creates."""
        self.cache_dir = location.cache_dir
        """The directory of search structures. May be deleted at any time."""
        items, files = (TableCopies(location.cache_dir, name) for name in ("items", "files"))
        self.item_table = Table(
            location.store, "items", lambda: item_schema(header.embedder), items, ITEM_PARTS
        )
        self.file_table = Table(location.store, "files", file_schema, files, FILE_PARTS)
        self.announced = 0
        """Version of the manifest of which a client of this process was told that it can be searched."""
        self.undone: int | None = None
        """Documents to be read again because commits were undone here; None if none were undone."""
        self._content: tuple[tuple[int, int], str] | None = None
        """Versions of the tables, and their `content_version`."""

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
            rows = self.file_table.find("id", [document], FILE_COLUMNS).to_pylist()
            return with_kept_copies(map(document_of, rows), self.home)

        self._source_candidates = candidates_of_version
        self._drawing = SourceDrawing(self.source)
        self._files = CheckedFiles()

    @classmethod
    def open(cls, directory: str | Path, *, wait: float = 0.0, durable: bool = True) -> Collection:
        """Open a collection in a directory, or published at a URL.

        With `durable`, what is written to it later is on the disk before it is acknowledged. Nothing is
        written here, unless a writer was killed or the machine lost power in the middle of a commit: that is
        undone.

        `wait` is the time for which `lock` waits for another process, in seconds. Raises `CollectionError` if
        there is no collection, or another version of vrag created it.
        """
        if is_url(directory):
            from vrag.index.remote.remote_collection import RemoteCollection

            location = RemoteCollection(str(directory))
            return cls(location, location.header())
        path = _local_path(directory)
        header = CollectionHeader.read(path)
        if header is None:  # often it is the folder of the documents
            hint = f"Create one: vrag index add PATH --collection {path}"
            if path.is_dir() and any(path.iterdir()):
                hint = f"If these are documents, index them elsewhere: vrag index add {path} --collection DIR"
            raise CollectionError(f"There is no collection in {path}.", _import_hint(path) or hint)
        collection = cls(LocalLocation(path, wait, durable=durable), header)
        collection.recover()
        return collection

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
            _check_empty(path)  # before the lock file is created
            with location.lock():
                _check_empty(path)
                header.write(path)
        except OSError as error:
            raise CollectionError(
                f"The collection {path} cannot be created: {error.strerror or error}.",
                "Choose a directory that you may write to: --collection, VRAG_COLLECTION.",
            ) from error
        return cls(location, header)

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
        if CollectionHeader.read(path) is None:
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
    def table_version(self) -> int:
        """Number of the last commit to the items; 0 while there is none. Grows with every write."""
        return self.item_table.version

    @property
    def content_version(self) -> str:
        """Hash over what can be found: equal for collections built from the same files alike."""
        version = self.item_table.version, self.file_table.version
        known = self._content
        if known is None or known[0] != version:
            catalog = self.catalog()
            known = self._content = catalog.version, catalog.content
        return known[1]

    def catalog(self) -> Catalog:
        """Load what can be found, without texts, from versions of both tables that belong together."""
        return Catalog.load(self.item_table, self.file_table, self.header)

    def documents(self) -> list[Document]:
        """Return the manifest: every file that was added, sorted by path."""
        rows = self.file_table.read(FILE_COLUMNS).data.to_pylist()
        return sorted(map(document_of, rows), key=lambda document: document.path)

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:  # noqa: ARG002 - it is one
        """Return the file names of the documents that can be found, by their ids, sorted by name."""
        served = [document for document in self.documents() if document.status.served]
        return {
            document.id: document.name for document in sorted(served, key=lambda each: (each.name, each.id))
        }

    def items(self, ids: Sequence[str]) -> dict[str, Item]:
        """Return the items with these ids; those that do not exist are absent."""
        rows = self.item_table.find("id", list(dict.fromkeys(ids)), (*ITEM_COLUMNS, CHECKSUMS))
        return {row["id"]: item_of(row) for row in rows.to_pylist()}

    def item(self, id: str) -> Item:
        """Return the item with this id."""
        return self._cached_item(self.table_version, id)

    def scan(self, columns: Sequence[str]) -> Rows:
        """Read columns of all items, in no particular order, from one version."""
        return self.item_table.read(columns)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the picture of an item, RGB: in full, or with `least` as `ItemStore.image` describes."""
        from PIL import Image, UnidentifiedImageError

        item = self.item(id)
        if item.image is None:
            raise SearchError(f"The item {item.id!r} has no picture: it is a {item.kind}.")
        try:
            with (
                self.stored(item.image, item.checksum, f"The picture of {item.name}") as file,
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
        item = self.item(id)
        if item.clip is None:
            raise SearchError(f"The item {item.id!r} has no frames: it is a {item.kind}.")
        try:
            title = f"The clip of {item.name}"
            with self.stored(item.clip.path, item.clip.checksum, title) as file, on_disk(file) as path:
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
        for candidate in self._source_candidates(self.file_table.version, document):
            source = read_source(candidate)
            if isinstance(source, SourceBytes):
                return source
            fault = fault or source
        return fault or SourceFault.ABSENT

    def open_source(self, document: str) -> OpenSource | SourceFault:
        """Open the file of a document by its id, as `source`, to be read in parts, whatever its size."""
        fault: SourceFault | None = None
        for candidate in self._source_candidates(self.file_table.version, document):
            opened = self._files.open(candidate)
            if isinstance(opened, OpenSource):
                return opened
            fault = fault or opened
        return fault or SourceFault.ABSENT

    def stored(self, name: str, checksum: int = 0, title: str = "") -> BinaryIO:
        """Open a picture or clip, by its path relative to `items/`, to read and to seek in.

        It is compared with its checksum; 0 for one that is not known. `title` names it in the error of a
        damaged one. Raises `FileNotFoundError` if there is none, and `CollectionError` if it is damaged, the
        path leads out of `items/`, or the storage cannot be reached.
        """
        file = self.location.open(name)
        if not checksum:
            return file
        if self.home is None:  # what is transferred is transferred once
            with file:
                file = BytesIO(file.read())
        if file_checksum(file) != checksum:
            file.close()
            raise CollectionError(
                f"{title or name} is damaged: its checksum does not match.", self.location.repair_hint
            )
        file.seek(0)
        return file

    def save_copies(self) -> None:
        """Keep copies of small tables, without vectors, so that the next process opens sooner."""
        self.item_table.save_copy((*ITEM_COLUMNS, CHECKSUMS))
        self.file_table.save_copy(self.file_table.schema.names)

    @contextmanager
    def lock(self, wait: float | None = None) -> Generator[None]:
        """Hold the lock for writing. Readers need none.

        What a killed writer or a loss of power left of a commit is undone first. `wait` is the time to wait
        for another process that holds it, in seconds; None for that of `open`. Raises `CollectionBusy` if it
        still holds it then, and `CollectionError` if nothing can be written there.
        """
        with self.location.lock(wait):
            self.undo_interrupted()
            try:
                yield
            finally:
                self.sync()

    def sync(self) -> None:
        """Put on the disk what is not there yet of what was written. The caller holds the lock."""
        for table in (self.item_table, self.file_table):
            table.sync()

    @property
    def is_interrupted(self) -> bool:
        """True if a writer did not finish a commit, or is at work."""
        return any(table.is_interrupted for table in (self.item_table, self.file_table))

    def undo_interrupted(self) -> None:
        """Go back to versions that are whole; mark files as begun whose items are no longer all there.

        The caller holds the lock. Raises `CollectionError`.
        """
        undone = [table for table in (self.item_table, self.file_table) if table.recover()]
        if not undone:
            return
        counts = Counter[str](self.scan(["document"]).data["document"].to_pylist())
        rows = self.file_table.read([*FILE_COLUMNS, "rows"]).data.to_pylist()
        incomplete = [document_of(row) for row in rows if row["rows"] != counts[row["id"]]]
        begun = [
            (replace(document, status=DocumentStatus.PENDING, items=0, reason=""), 0)
            for document in incomplete
            if document.status.served
        ]
        if begun:
            self.file_table.upsert(file_rows(begun), "key")
        self.undone = (self.undone or 0) + len(begun)
        for table in undone:
            table.forget_undoing()

    def recover(self) -> None:
        """Undo what a dead writer left, where this process may write and no other is writing."""
        if self.is_interrupted:
            with suppress(CollectionError), self.lock(0):
                pass


def _import_hint(path: Path) -> str:
    """Return the hint for a directory with an index of the reference; empty for another."""
    from vrag.index.reference.index_files import is_reference_index

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
    """Return the absolute path of a directory, if LanceDB can use its name."""
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
