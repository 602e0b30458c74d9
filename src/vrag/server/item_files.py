"""What responses tell of items beside their hits: their files, and the names these go by outside.

Files are found by the id of an item in a table, and opened by the collection, which follows every link
and refuses what lies outside of its `items/`. No path comes in from outside.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

from vrag.corpus.formats.image import SUFFIXES
from vrag.errors import CollectionError, SearchError
from vrag.index.location import LocalLocation
from vrag.index.tables.table import any_of
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vrag.index.collection import Collection
    from vrag.search.searcher import Searcher
    from vrag.types import Hit

__all__ = [
    "CollectionFiles",
    "ItemDetails",
    "ItemFiles",
    "Naming",
    "SearcherFiles",
    "StoredMedia",
    "in_folder",
    "linked",
    "plain_name",
]

_COLUMNS = ("id", "text", "image", "clip_path", "clip_start", "clip_end", "uid")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_ONE_PAGE = frozenset(SUFFIXES) - {".tif", ".tiff"}
"""Suffixes of pictures that are one page."""
_STEM_BYTES = 200
_KEPT = 50_000
"""Links remembered."""


@dataclass(frozen=True, slots=True)
class StoredMedia:
    """A picture or clip that a collection keeps."""

    collection: Collection
    name: str
    """Its path relative to the collection's `items/`."""

    def open(self) -> BinaryIO:
        """The file, to read and to seek in.

        Raises:
            FileNotFoundError: If it is gone.
            CollectionError: If its path leads out of the collection, or the storage cannot be reached.
        """
        return self.collection.stored(self.name)

    @property
    def path(self) -> Path | None:
        """Where it lies on this machine; None where it does not, or lies outside of the collection."""
        place = self.collection.location
        if not isinstance(place, LocalLocation):
            return None
        with suppress(CollectionError, OSError, ValueError):
            path = place.path(self.name)
            return path if path.is_file() else None
        return None


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """What is known of one item beside its hit."""

    text: str
    uid: str = ""
    picture: StoredMedia | None = None
    """None where the server has no such file."""
    clip: StoredMedia | None = None
    start: float | None = None
    """Where the clip begins in its video, in seconds."""
    end: float | None = None
    """Where it ends."""


class ItemFiles(Protocol):
    """Knows the files of items."""

    def filed(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """What is known of these items; those that do not exist are absent. Reads the disk."""
        ...


class SearcherFiles:
    """For a searcher that has no files here: one in memory, or behind another server."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def filed(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """The texts, item by item."""
        found: dict[str, ItemDetails] = {}
        for name in ids:
            with suppress(SearchError):
                item = self._searcher.item(name)
                times = (item.clip.start, item.clip.end) if item.clip else (None, None)
                found[name] = ItemDetails(item.text, item.uid, None, None, *times)
        return found


class CollectionFiles:
    """Of one collection, or of several that are searched together.

    An item that is in several of them is taken from the first: ids are hashes of content.
    """

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._collections = tuple(collections)

    def filed(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """What is known of these items, in one reading per collection."""
        found: dict[str, ItemDetails] = {}
        for collection in self._collections:
            for condition in any_of("id", [name for name in ids if name not in found]):
                for row in collection.item_table.read(_COLUMNS, condition).data.to_pylist():
                    image, clip = row["image"], row["clip_path"]
                    found[row["id"]] = ItemDetails(
                        text=row["text"],
                        uid=row["uid"],
                        picture=StoredMedia(collection, image) if image else None,
                        clip=StoredMedia(collection, clip) if clip else None,
                        start=row["clip_start"],
                        end=row["clip_end"],
                    )
        return found


Naming: TypeAlias = "Callable[[Hit, ItemDetails], str]"
"""What `file_path` of an item is. Its base name is always `plain_name`'s where the file can be named."""


def plain_name(hit: Hit, filed: ItemDetails) -> str:
    """`<stem>_<page from 1>.jpg`, as the reference names pages, whatever format the picture is stored in.

    Clips keep the suffix of their file; passages go by the name of their document. So does a document
    that is a picture: users of the reference put page images into the corpus, and know them by these names.
    """
    name = _UNSAFE.sub("_", hit.document_name)
    if hit.kind is ItemKind.PASSAGE:
        return _short(name)
    stem, dot, own = name.rpartition(".")
    if hit.kind is ItemKind.PAGE and dot + own.lower() in _ONE_PAGE:
        return _short(stem) + dot + own
    suffix = "." + filed.clip.name.rsplit(".", 1)[-1] if filed.clip else ".jpg"
    return f"{_short(name.rsplit('.', 1)[0])}_{hit.ordinal}{suffix}"


def in_folder(folder: str) -> Naming:
    """Names in a folder where the client has the pictures: what `vrag corpus convert` wrote.

    Args:
        folder: As the client sees it; it need not exist here.
    """
    return lambda hit, filed: f"{folder.rstrip('/')}/{plain_name(hit, filed)}"


def linked(folder: Path) -> Naming:
    """Names that can be opened on this machine: links to the stored files, made as they are needed.

    Args:
        folder: Where the links are; may be deleted at any time. Each document has a folder of its own in
            it, since documents of one name have pages of one name.
    """
    known: dict[str, str] = {}

    def name(hit: Hit, filed: ItemDetails) -> str:
        path = known.get(hit.item)
        if path is None or not os.path.exists(path):  # noqa: PTH110 - for every hit of every search
            path = new_name(hit, filed)
            if len(known) >= _KEPT:
                known.clear()
            known[hit.item] = path
        return path

    def new_name(hit: Hit, filed: ItemDetails) -> str:
        stored = filed.clip if hit.kind is ItemKind.CLIP else filed.picture
        target = stored.path if stored else None
        if target is None:
            return plain_name(hit, filed)
        link = folder / hit.document[:16] / plain_name(hit, filed)
        return os.fspath(link if _leads(link, target) else target)

    return name


def _leads(link: Path, target: Path) -> bool:
    """Whether the link leads to the file, made if need be; not so where links cannot be made."""
    try:
        if link.is_symlink():
            if link.readlink() == target:
                return True
            link.unlink()
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    except FileExistsError:  # another process made it just now
        return link.is_symlink() and link.readlink() == target
    except OSError:
        return False
    return True


def _short(stem: str) -> str:
    """As much of it as a file system takes as part of a name."""
    return stem.encode("utf-8", "replace")[:_STEM_BYTES].decode("utf-8", "ignore") or "_"
