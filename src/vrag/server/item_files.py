"""Files, names and JSON of hits: what responses say of items.

Files are found by the id of an item, and named by their content. No path comes in from outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

from cachetools import LRUCache

from vrag.corpus.formats.image import SUFFIXES
from vrag.errors import SearchError
from vrag.index.collection import Collection
from vrag.index.schema import blob_of
from vrag.item_facts import decode_facts
from vrag.search.searcher import Searcher
from vrag.types import Hit, ItemKind, Query

_COLUMNS = ("id", "text", "image", "clip", "clip_start", "clip_end", "uid", "facts")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_SINGLE_PAGE_SUFFIXES = frozenset(SUFFIXES) - {".tif", ".tiff"}
"""Suffixes of pictures that are one page."""
_ENTRY_TYPES = {ItemKind.PAGE: "image", ItemKind.CLIP: "video", ItemKind.PASSAGE: "text"}


@dataclass(frozen=True, slots=True)
class StoredMedia:
    """A picture or clip that a collection keeps."""

    collection: Collection
    name: str
    """Its name, as items have it."""

    def open(self) -> BinaryIO:
        """Open the file to read and to seek in.

        Raises `CollectionError` if it is gone or damaged, or the storage cannot be reached.
        """
        return self.collection.stored(self.name)

    @property
    def path(self) -> Path | None:
        """Its path on this machine; None if it is elsewhere, or a link to something else."""
        with suppress(ValueError):
            path = self.collection.store.blobs.path(blob_of(self.name))
            return path if path.is_file() and not path.is_symlink() else None
        return None


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """The text and the files of one item."""

    text: str
    uid: str = ""
    picture: StoredMedia | None = None
    """None where the server has no such file."""
    clip: StoredMedia | None = None
    start: float | None = None
    """Start of the clip in its video, in seconds."""
    end: float | None = None
    """End of the clip."""
    page_label: str = ""
    """The number that is printed on a page, where it is not its position."""


class ItemFiles(Protocol):
    """The files of items."""

    def details(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """Look up items; unknown ones are absent. Reads the disk."""
        ...


class SearcherFiles:
    """Details of a searcher that has no files here: one in memory, or behind another server."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def details(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """Look up the texts, item by item."""
        found: dict[str, ItemDetails] = {}
        for name in ids:
            with suppress(SearchError):
                item = self._searcher.item(name)
                times = (item.clip.start, item.clip.end) if item.clip else (None, None)
                found[name] = ItemDetails(item.text, item.uid, None, None, *times, item.facts.label)
        return found


class CollectionFiles:
    """Details of the items of one collection, or of several that are searched together.

    An item that is in several of them is taken from the first: ids are hashes of content.
    """

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._collections = tuple(collections)

    def details(self, ids: Sequence[str]) -> dict[str, ItemDetails]:
        """Look up items, reading each collection once."""
        found: dict[str, ItemDetails] = {}
        for collection in self._collections:
            for row in collection.store.find_items([id for id in ids if id not in found], _COLUMNS):
                image, clip = row["image"], row["clip"]
                found[row["id"]] = ItemDetails(
                    text=row["text"],
                    uid=row["uid"],
                    picture=StoredMedia(collection, image) if image else None,
                    clip=StoredMedia(collection, clip) if clip else None,
                    start=row["clip_start"],
                    end=row["clip_end"],
                    page_label=decode_facts(row["facts"]).label,
                )
        return found


Naming: TypeAlias = "Callable[[Hit, ItemDetails], str]"
"""Makes the `file_path` of an item. Its base name is always `plain_name`'s where the file can be named."""


def plain_name(hit: Hit, details: ItemDetails) -> str:
    """Name a page `<stem>_<page from 1>.jpg`, as the reference does, whatever the format of its picture.

    Clips keep the suffix of their file; passages go by the name of their document. So does a document
    that is a picture: users of the reference put page images into the corpus, and know them by these names.
    """
    name = _UNSAFE.sub("_", hit.document_name)
    if hit.kind is ItemKind.PASSAGE:
        return _shorten(name)
    stem, dot, own = name.rpartition(".")
    if hit.kind is ItemKind.PAGE and dot + own.lower() in _SINGLE_PAGE_SUFFIXES:
        return _shorten(stem) + dot + own
    suffix = "." + details.clip.name.rsplit(".", 1)[-1] if details.clip else ".jpg"
    return f"{_shorten(name.rsplit('.', 1)[0])}_{hit.ordinal}{suffix}"


def in_folder(folder: str) -> Naming:
    """Name items by a folder where the client has their pictures, written by `vrag corpus convert`."""
    return lambda hit, details: f"{folder.rstrip('/')}/{plain_name(hit, details)}"


def linked(folder: Path) -> Naming:
    """Name items by links to the stored files, which programs on this machine can open, made on demand.

    The folder of the links may be deleted at any time. Each document has a folder of its own in it, since
    documents of one name have pages of one name.
    """
    known: LRUCache[str, str] = LRUCache(50_000)

    def name(hit: Hit, details: ItemDetails) -> str:
        path = known.get(hit.item)
        if path is None or not os.path.exists(path):  # noqa: PTH110 - for every hit of every search
            stored = details.clip if hit.kind is ItemKind.CLIP else details.picture
            target = stored.path if stored else None
            path = plain_name(hit, details)
            if target is not None:
                link = folder / hit.document[:16] / path
                path = os.fspath(link if _ensure_link(link, target) else target)
            known[hit.item] = path
        return path

    return name


def _ensure_link(link: Path, target: Path) -> bool:
    """Make a link to a file if necessary; return whether it leads there: not all systems have links."""
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


def _shorten(stem: str) -> str:
    """Cut a name to a length that file systems accept."""
    return stem.encode("utf-8", "replace")[:200].decode("utf-8", "ignore") or "_"


@dataclass(frozen=True, slots=True)
class DetailedHit:
    """A hit with the details that a response has of it."""

    hit: Hit
    details: ItemDetails
    file_path: str


class DetailedSearcher:
    """A searcher that also looks up the details of its hits. For one thread: it reads the disk."""

    def __init__(self, searcher: Searcher, files: ItemFiles, naming: Naming) -> None:
        self._searcher = searcher
        self._files = files
        self._naming = naming
        self._known: LRUCache[str, ItemDetails] = LRUCache(5000)
        """Details stay: an id is a hash of content."""

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[DetailedHit]]:
        """Search as `Searcher.search`. Items that were deleted since they were found are left out."""
        results = self._searcher.search(queries, top_k)
        found = dict.fromkeys(hit.item for hits in results for hit in hits)
        details = {item: self._known[item] for item in found if item in self._known}
        if missing := [item for item in found if item not in details]:  # these are read together
            new = self._files.details(missing)
            details |= new
            self._known.update(new)
        return [
            [
                DetailedHit(hit, details[hit.item], self._naming(hit, details[hit.item]))
                for hit in hits
                if hit.item in details
            ]
            for hits in results
        ]


def search_response_json(results: Sequence[Sequence[DetailedHit]]) -> dict[str, Any]:
    """Build the JSON of a `SearchResponse`.

    By hand, in the form that `vrag.search.schema` describes and tests hold it to: to validate one's own
    output takes longer than to make it.
    """
    served = [
        {
            "score": [shown.hit.score for shown in hits],
            "indice": [shown.hit.row for shown in hits],
            "data": [_entry(shown) for shown in hits],
        }
        for hits in results
    ]
    return {"results": served}


def image_file_json(results: Sequence[Sequence[DetailedHit]]) -> list[list[dict[str, Any]]]:
    """Build the JSON of lists of `ImageFileEntry`, the older form."""
    return [
        [{"idx": number, "image_file": shown.file_path} for number, shown in enumerate(hits)]
        for hits in results
    ]


def _entry(shown: DetailedHit) -> dict[str, Any]:
    hit, details = shown.hit, shown.details
    entry: dict[str, Any] = {
        "type": _ENTRY_TYPES[hit.kind],
        "file_path": shown.file_path,
        "id": hit.item,
        "document": hit.document,
        "document_name": hit.document_name,
        "page": hit.ordinal,
    }
    if details.page_label:
        entry["page_label"] = details.page_label
    if hit.shown_name:
        entry["shown_name"] = hit.shown_name
    if details.uid:
        entry["uid"] = details.uid
    match hit.kind:
        case ItemKind.PAGE:
            entry["url"] = f"/items/{hit.item}/image"
        case ItemKind.CLIP:
            entry |= {"url": f"/items/{hit.item}/clip", "start": details.start, "end": details.end}
        case ItemKind.PASSAGE:
            entry |= {"url": f"/items/{hit.item}", "content": details.text}
    return entry
