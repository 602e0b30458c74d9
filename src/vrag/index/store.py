"""A collection: one directory that holds items, their pictures and what finds them.

::

    collection.json   what it was built with; its presence makes the directory a collection
    index/            the durable tables, `items` and `files`: the source of truth
    items/            pictures of items, in a folder per document
    cache/            search structures made from the tables; may be deleted at any time
    runs/             recorded runs of agents
    lock, writer.json the one writer at a time, and who it is

Readers take no lock. A collection may be copied or moved while nothing writes to it.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.corpus.options import CorpusOptions
from vrag.errors import CollectionBusy, CollectionError, SearchError
from vrag.index.catalog import Catalog
from vrag.index.header import FILE_NAME, Header
from vrag.index.rows import FILE_COLUMNS, ITEM_COLUMNS, document_of, file_schema, item_of, item_schema
from vrag.index.table import Rows, Table, any_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from PIL.Image import Image

    from vrag.index.header import Marked
    from vrag.types import Document, Item

__all__ = ["Collection"]

_LOCK = "lock"
_WRITER = "writer.json"
_LEFTOVERS = frozenset({_LOCK, _WRITER, f"{FILE_NAME}.new"})
"""What a killed creation may leave behind: a directory with nothing else is not somebody's own."""


class Collection:
    """Documents and items on disk. Made by `open`, `create` or `open_or_create`.

    May be shared by threads, and its directory by processes.
    """

    def __init__(self, directory: Path, header: Header) -> None:
        self.directory = directory
        self.header = header
        dimension = header.embedder.dimension if header.embedder else None
        self.item_table = Table(directory / "index", "items", lambda: item_schema(dimension))
        self.file_table = Table(directory / "index", "files", file_schema)
        self._content: tuple[tuple[int, int], str] | None = None
        """`content_version`, and the versions of the tables that it is of."""

    @classmethod
    def open(cls, directory: str | Path) -> Collection:
        """Opens a collection that exists, and writes nothing.

        Raises:
            CollectionError: If there is none, or a newer version of vrag made it.
        """
        path = _usable(directory)
        header = Header.read(path)
        if header is None:
            raise CollectionError(f"There is no collection in {path}.", "Make one: vrag index add PATH")
        return cls(path, header)

    @classmethod
    def create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: Marked | None = None,
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
        header = Header.of(options or CorpusOptions(), embedder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with _locked(path):
                foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in _LEFTOVERS)
                if foreign:
                    raise CollectionError(
                        f"{path} is not empty ({foreign[0]}) and not a collection.",
                        "Choose another directory for the collection.",
                    )
                header.write(path)
        except OSError as error:
            raise CollectionError(
                f"The collection {path} cannot be made: {error.strerror or error}.",
                "Choose a directory that you may write to.",
            ) from error
        return cls(path, header)

    @classmethod
    def open_or_create(
        cls,
        directory: str | Path,
        options: CorpusOptions | None = None,
        *,
        embedder: Marked | None = None,
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
        if Header.read(path) is None:
            return cls.create(path, options, embedder=embedder)
        collection = cls.open(path)
        if options is not None:
            collection.header.check_options(options)
        return collection

    @property
    def items_dir(self) -> Path:
        """Where the pictures are."""
        return self.directory / "items"

    @property
    def runs_dir(self) -> Path:
        """Where runs are recorded. Exists when a run has been."""
        return self.directory / "runs"

    @property
    def cache_dir(self) -> Path:
        """Where search structures are kept. May be deleted at any time."""
        return self.directory / "cache"

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
        conditions = any_of("id", list(dict.fromkeys(ids)))
        parts = (self.item_table.read(ITEM_COLUMNS, where).data.to_pylist() for where in conditions)
        return {row["id"]: item_of(row) for part in parts for row in part}

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
        """
        found = self.items([id])
        if id not in found:
            raise SearchError(f"There is no item {id!r}.")
        return found[id]

    def scan(self, columns: Sequence[str]) -> Rows:
        """Some columns of all items, in no particular order, from one version."""
        return self.item_table.read(columns)

    def image(self, item: Item) -> Image:
        """The picture of an item, RGB, in full.

        Raises:
            SearchError: If the item has no picture.
            CollectionError: If its picture is missing or damaged, or its path leads elsewhere.
        """
        from PIL import Image, UnidentifiedImageError

        if item.image is None:
            raise SearchError(f"The item {item.id!r} has no picture: it is a {item.kind}.")
        path = self.picture_path(item.image)
        try:
            with Image.open(path) as image:
                return image.convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise CollectionError(
                f"The picture of {item.name} cannot be opened: {error}.",
                "Run: vrag index verify --repair, then vrag index add",
            ) from error

    def picture_path(self, image: str) -> Path:
        """Where the picture with this path relative to `items/` lies.

        Raises:
            CollectionError: If that is outside of `items/`.
        """
        root = self.items_dir.resolve()
        path = (root / image).resolve()
        if not path.is_relative_to(root) or path == root:
            raise CollectionError(f"The picture {image!r} lies outside of the collection.")
        return path

    @contextmanager
    def lock(self) -> Generator[None]:
        """Holds the right to write. Readers need none.

        Raises:
            CollectionBusy: At once, if another process holds it.
        """
        with _locked(self.directory):
            yield


def _usable(directory: str | Path) -> Path:
    """The absolute path of a directory, if its name is one that the table's library can take."""
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - Path.resolve would follow links
    name = os.fspath(path)
    if any(ord(letter) < 32 or "\ud800" <= letter <= "\udfff" for letter in name):
        raise CollectionError(
            f"A collection cannot live in {name!r}.", "Choose a directory with a plain name."
        )
    return path


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(directory / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise CollectionBusy(
            f"Another process is writing to {directory}{_holder(directory)}.",
            "Wait until it has finished, or stop it. Searching goes on meanwhile.",
        ) from None
    except OSError as error:
        raise CollectionError(
            f"{directory} cannot be locked for writing: {error.strerror or error}.",
            "Choose a directory that you may write to.",
        ) from error
    try:
        _sign(directory / _WRITER)
        yield
    finally:
        (directory / _WRITER).unlink(missing_ok=True)
        lock.release()


def _sign(path: Path) -> None:
    """Says who writes, for the message to others. The lock does not depend on it."""
    content: dict[str, Any] = {"pid": os.getpid(), "host": socket.gethostname()}
    try:
        path.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise CollectionError(
            f"{path.parent} cannot be written to: {error.strerror or error}.",
            "Make room on the disk, or give yourself the right to write there.",
        ) from error


def _holder(directory: Path) -> str:
    """Who holds the lock, as far as it is known."""
    try:
        content = json.loads((directory / _WRITER).read_text(encoding="utf-8"))
        return f" (process {content['pid']} on {content['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
