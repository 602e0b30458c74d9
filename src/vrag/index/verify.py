"""Whether a collection is whole: every row, every picture, every file of the manifest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vrag.errors import CollectionError
from vrag.index.plan import read_manifest
from vrag.index.rows import ITEM_COLUMNS, file_rows
from vrag.index.table import any_of
from vrag.index.upkeep import settle, stray_pictures
from vrag.types import DocumentStatus, item_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.index.plan import Known
    from vrag.index.store import Collection

__all__ = ["Problem", "VerifyReport", "verify"]

_TOGETHER = 32
"""Documents whose items are read at once: bounds the memory."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be."""

    document: str
    """Id of the document; empty for a file that belongs to none."""
    subject: str
    """Item, file or folder concerned, for people."""
    detail: str
    """What is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was looked at, and what was found."""

    files: int
    items: int
    pictures: int
    problems: tuple[Problem, ...]
    repaired: bool
    """Whether what could be repaired has been: what has to be made again is made by the next `add`."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def verify(collection: Collection, *, repair: bool = False) -> VerifyReport:
    """Looks at every row and at the header of every picture.

    Args:
        collection: What to look at.
        repair: Delete what belongs to nothing and rows that are damaged, and mark the files
            concerned as begun, so that the next `add` makes what is missing.

    Raises:
        CollectionBusy: If another process is writing: what it has begun is not damage.
    """
    with collection.lock():
        known = read_manifest(collection)
        inspection = _Inspection(collection, known)
        inspection.run()
        if repair and inspection.problems:
            _repair(collection, known, inspection)
        return VerifyReport(
            files=len(known),
            items=inspection.items,
            pictures=inspection.pictures,
            problems=tuple(inspection.problems),
            repaired=repair and bool(inspection.problems),
        )


class _Inspection:
    """One look at everything."""

    def __init__(self, collection: Collection, known: dict[str, Known]) -> None:
        self.items = self.pictures = 0
        self.problems: list[Problem] = []
        self.damaged: dict[str, set[str]] = {}
        """Ids of items to be made again, by document."""
        self._collection = collection
        self._columns = [*ITEM_COLUMNS, *(["vector"] if collection.header.embedder else [])]
        self._expected: dict[str, int | None] = {}
        for entry in known.values():
            if entry.document.status.served:
                self._expected[entry.document.id] = entry.rows
            elif entry.document.status is DocumentStatus.PENDING:
                self._expected.setdefault(entry.document.id, None)

    def run(self) -> None:
        """Looks at the items of every document, then for what belongs to none."""
        counts = Counter[str](self._collection.scan(["document"]).data["document"].to_pylist())
        self.items = counts.total()
        for document in sorted(counts.keys() | self._expected.keys()):
            self._count(document, counts[document])
        documents = sorted(counts.keys() & self._expected.keys())
        for at in range(0, len(documents), _TOGETHER):
            self._look_at(documents[at : at + _TOGETHER])
        for path in stray_pictures(self._collection):
            name = path.relative_to(self._collection.items_dir).as_posix()
            self.problems.append(Problem("", name, "It is the picture of no item."))

    def _count(self, document: str, rows: int) -> None:
        if document not in self._expected:
            detail = f"{rows} items belong to no file."
        elif self._expected[document] in {None, rows}:
            return
        else:
            detail = f"It has {rows} items instead of {self._expected[document]}."
            self.damaged.setdefault(document, set())
        self.problems.append(Problem(document, document[:16], detail))

    def _look_at(self, documents: Sequence[str]) -> None:
        (where,) = any_of("document", documents)
        rows = self._collection.item_table.read(self._columns, where).data.to_pylist()
        seen = Counter[str](row["id"] for row in rows)
        for row in rows:
            details = list(self._faults(row))
            if seen[row["id"]] > 1:
                details.append("It is there more than once.")
            for detail in details:
                self.problems.append(Problem(row["document"], row["id"], detail))
                self.damaged.setdefault(row["document"], set()).add(row["id"])

    def _faults(self, row: dict[str, Any]) -> Iterator[str]:
        if row["id"] != item_id(row["document"], row["ordinal"]):
            yield "Its id is not that of its document and number."
        yield from _word_faults(row["text"], row["spans"], row["boxes"])
        if row["image"] is not None:
            self.pictures += 1
            yield from self._picture_faults(row)
        if self._collection.header.embedder and not _is_vector(row["vector"]):
            yield "Its vector is missing or not finite."

    def _picture_faults(self, row: dict[str, Any]) -> Iterator[str]:
        from PIL import Image

        try:
            with Image.open(self._collection.picture_path(row["image"])) as image:
                if image.size != (row["width"], row["height"]):
                    yield f"Its picture is {image.width}×{image.height}, not {row['width']}×{row['height']}."
        except FileNotFoundError:
            yield "Its picture is missing."
        except (OSError, Image.DecompressionBombError, CollectionError) as error:
            yield f"Its picture cannot be opened: {error}."


def _word_faults(text: str, spans: Sequence[int], boxes: Sequence[float]) -> Iterator[str]:
    if len(spans) % 2 or len(boxes) != 2 * len(spans):
        yield "Its words and their boxes differ in number."
    starts, ends = spans[::2], spans[1::2]
    if any(not 0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=False)):
        yield "A word lies outside of its text."
    if not all(math.isfinite(side) for side in boxes):
        yield "The box of a word is not finite."


def _is_vector(vector: Sequence[float | None] | None) -> bool:
    return vector is not None and all(side is not None and math.isfinite(side) for side in vector)


def _repair(collection: Collection, known: dict[str, Known], inspection: _Inspection) -> None:
    """First the files are marked as begun, then damaged rows go: killed in between, nothing is lost."""
    entries = [entry for entry in known.values() if entry.document.id in inspection.damaged]
    begun = (replace(e.document, status=DocumentStatus.PENDING, items=0, reason="") for e in entries)
    rows = [(document, 0) for document in begun]
    if rows:
        collection.file_table.upsert(file_rows(rows), "key")
    damaged = set[str]().union(*inspection.damaged.values())
    for where in any_of("id", sorted(damaged)):
        collection.item_table.delete(where)
    settle(collection)
    for path in stray_pictures(collection):
        path.unlink(missing_ok=True)
