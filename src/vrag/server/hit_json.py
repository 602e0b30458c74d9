"""Hits become the entries of a response."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.search.searcher import Searcher
    from vrag.server.item_files import ItemDetails, ItemFiles, Naming
    from vrag.types import Hit, Query

__all__ = ["EntryFinder", "Json", "ShownHit", "newer", "older"]

Json: TypeAlias = dict[str, Any]
_KEPT = 5000
"""Items whose files and text are remembered. What an id means never changes: it is a hash of content."""
_TYPES = {ItemKind.PAGE: "image", ItemKind.CLIP: "video", ItemKind.PASSAGE: "text"}


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with what a response tells of it."""

    hit: Hit
    filed: ItemDetails
    file_path: str


class EntryFinder:
    """Searches, and looks up what responses tell of the hits. For one thread: it reads the disk."""

    def __init__(self, searcher: Searcher, files: ItemFiles, naming: Naming) -> None:
        self._searcher = searcher
        self._files = files
        self._naming = naming
        self._known: OrderedDict[str, ItemDetails] = OrderedDict()

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[ShownHit]]:
        """As `Searcher.search`. Items that were deleted since they were found are left out."""
        found = self._searcher.search(queries, top_k)
        filed = self._filed(dict.fromkeys(hit.item for hits in found for hit in hits))
        return [
            [
                ShownHit(hit, there, self._naming(hit, there))
                for hit in hits
                if (there := filed.get(hit.item)) is not None
            ]
            for hits in found
        ]

    def _filed(self, ids: dict[str, None]) -> dict[str, ItemDetails]:
        """What is known of each item; those not met lately in one reading."""
        known = {id_: self._known[id_] for id_ in ids if id_ in self._known}
        missing = [id_ for id_ in ids if id_ not in known]
        new = self._files.filed(missing) if missing else {}
        for id_ in known:
            self._known.move_to_end(id_)
        self._known.update(new)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return known | new


def newer(found: Sequence[Sequence[ShownHit]]) -> Json:
    """A `SearchResponse`.

    Made by hand in the shape that `vrag.search.schema` describes and tests hold it to: validating one's own
    output takes longer than making it.
    """
    return {
        "results": [
            {
                "score": [shown.hit.score for shown in hits],
                "indice": [shown.hit.row for shown in hits],
                "data": [_entry(shown) for shown in hits],
            }
            for hits in found
        ]
    }


def older(found: Sequence[Sequence[ShownHit]]) -> list[list[Json]]:
    """Lists of `ImageFile`."""
    return [
        [{"idx": number, "image_file": shown.file_path} for number, shown in enumerate(hits)]
        for hits in found
    ]


def _entry(shown: ShownHit) -> Json:
    hit, filed = shown.hit, shown.filed
    entry: Json = {
        "type": _TYPES[hit.kind],
        "file_path": shown.file_path,
        "id": hit.item,
        "document": hit.document,
        "document_name": hit.document_name,
        "page": hit.ordinal,
    }
    if filed.uid:
        entry["uid"] = filed.uid
    match hit.kind:
        case ItemKind.PAGE:
            entry["url"] = f"/items/{hit.item}/image"
        case ItemKind.CLIP:
            entry |= {"url": f"/items/{hit.item}/clip", "start": filed.start, "end": filed.end}
        case ItemKind.PASSAGE:
            entry |= {"url": f"/items/{hit.item}", "content": filed.text}
    return entry
