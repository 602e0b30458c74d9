"""The verification of a collection: every row, every picture, every file of the manifest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError
from vrag.index.maintenance import find_stray_pictures, settle
from vrag.index.plan import read_manifest
from vrag.index.tables.schema import ITEM_COLUMNS, file_rows, vector_column
from vrag.index.tables.table import any_of
from vrag.types import DocumentStatus, item_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.index.collection import Collection
    from vrag.index.plan import Known
    from vrag.index.tables.schema import ArrowTable

_BATCH_DOCUMENTS = 32
"""Documents whose items are read at once: bounds the memory."""
_BATCH_VECTORS = 256
"""Items whose vectors are read at once."""


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """A defect of a collection."""

    document: str
    """Id of the document; empty for a file that belongs to none."""
    subject: str
    """Item, file or folder concerned, for people."""
    detail: str
    """The defect, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of a verification."""

    files: int
    items: int
    pictures: int
    problems: tuple[VerifyProblem, ...]
    repaired: bool
    """True if the collection was repaired; the next `add` makes missing items again."""

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.problems


def verify(collection: Collection, *, repair: bool = False) -> VerifyReport:
    """Check every row and the header of every picture.

    Args:
        collection: The collection.
        repair: Delete what belongs to nothing and rows that are damaged, and mark their files as begun, so
            that the next `add` makes what is missing.

    Raises:
        CollectionBusy: If another process is writing: what it has begun is not damage.
    """
    with collection.lock():
        collection.item_table.open()  # a copy of a table says nothing about the table
        collection.file_table.open()
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
    """One pass over everything."""

    def __init__(self, collection: Collection, known: dict[str, Known]) -> None:
        self.items = self.pictures = 0
        self.problems: list[VerifyProblem] = []
        self.damaged: dict[str, set[str]] = {}
        """Ids of items to be made again, by document."""
        self._collection = collection
        self._expected: dict[str, int | None] = {}
        for entry in known.values():
            if entry.document.status.served:
                self._expected[entry.document.id] = entry.rows
            elif entry.document.status is DocumentStatus.PENDING:
                self._expected.setdefault(entry.document.id, None)

    def run(self) -> None:
        """Check the items of every document, then find what belongs to none."""
        counts = Counter[str](self._collection.scan(["document"]).data["document"].to_pylist())
        self.items = counts.total()
        for document in sorted(counts.keys() | self._expected.keys()):
            self._count(document, counts[document])
        documents = sorted(counts.keys() & self._expected.keys())
        for at in range(0, len(documents), _BATCH_DOCUMENTS):
            self._check_items(documents[at : at + _BATCH_DOCUMENTS])
        self._check_vectors()
        for path in find_stray_pictures(self._collection):
            name = path.relative_to(self._collection.items_dir).as_posix()
            self.problems.append(VerifyProblem("", name, "It is the picture of no item."))

    def _count(self, document: str, rows: int) -> None:
        if document not in self._expected:
            detail = f"{rows} items belong to no file."
        elif self._expected[document] in {None, rows}:
            return
        else:
            detail = f"It has {rows} items instead of {self._expected[document]}."
            self.damaged.setdefault(document, set())
        self.problems.append(VerifyProblem(document, document[:16], detail))

    def _check_items(self, documents: Sequence[str]) -> None:
        (where,) = any_of("document", documents)
        rows = self._collection.item_table.read(ITEM_COLUMNS, where).data.to_pylist()
        seen = Counter[str](row["id"] for row in rows)
        for row in rows:
            details = list(self._defects(row))
            if seen[row["id"]] > 1:
                details.append("It is there more than once.")
            for detail in details:
                self._report(row["document"], row["id"], detail)

    def _check_vectors(self) -> None:
        embedder = self._collection.header.embedder
        if embedder is None:
            return
        column = vector_column(embedder.kind)
        for batch in self._collection.item_table.batches(["id", "document", column], _BATCH_VECTORS):
            sound = _check_finite(batch[column], embedder.kind)
            rows = zip(batch["document"].to_pylist(), batch["id"].to_pylist(), sound, strict=True)
            for document, item, fine in rows:
                if not fine and document in self._expected:
                    self._report(document, item, "Its vector is missing or not finite.")

    def _report(self, document: str, item: str, detail: str) -> None:
        self.problems.append(VerifyProblem(document, item, detail))
        self.damaged.setdefault(document, set()).add(item)

    def _defects(self, row: dict[str, Any]) -> Iterator[str]:
        if row["id"] != item_id(row["document"], row["ordinal"]):
            yield "Its id is not that of its document and number."
        yield from _word_defects(row["text"], row["spans"], row["boxes"])
        if row["image"] is not None:
            self.pictures += 1
            yield from self._picture_defects(row)
        if row["clip_path"] is not None:
            yield from self._clip_defects(row["clip_path"])

    def _clip_defects(self, clip: str) -> Iterator[str]:
        try:
            with self._collection.stored(clip) as file:
                if not file.read(1):
                    yield "Its clip is empty."
        except (OSError, CollectionError):
            yield "Its clip is missing."

    def _picture_defects(self, row: dict[str, Any]) -> Iterator[str]:
        from PIL import Image

        try:
            with self._collection.stored(row["image"]) as file, Image.open(file) as image:
                if image.size != (row["width"], row["height"]):
                    yield f"Its picture is {image.width}×{image.height}, not {row['width']}×{row['height']}."
        except FileNotFoundError:
            yield "Its picture is missing."
        except (OSError, Image.DecompressionBombError, CollectionError) as error:
            yield f"Its picture cannot be opened: {error}."


def _word_defects(text: str, spans: Sequence[int], boxes: Sequence[float]) -> Iterator[str]:
    if len(spans) % 2 or len(boxes) != 2 * len(spans):
        yield "Its words and their boxes differ in number."
    starts, ends = spans[::2], spans[1::2]
    if any(not 0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=False)):
        yield "A word lies outside of its text."
    if not all(math.isfinite(side) for side in boxes):
        yield "The box of a word is not finite."


def _check_finite(column: ArrowTable, kind: VectorKind) -> list[bool]:
    """For each row of a column of vectors whether it has any, and all their numbers are finite."""
    rows = [row for chunk in column.chunks for row in chunk]
    sound: list[bool] = []
    for row in rows:
        values = row.values
        if values is not None and kind is VectorKind.MULTI:
            values = values.flatten()
        if values is None or not len(values) or values.null_count:
            sound.append(False)
        else:
            sound.append(bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all()))
    return sound


def _repair(collection: Collection, known: dict[str, Known], inspection: _Inspection) -> None:
    """Mark the files as begun first, then delete damaged rows: killed in between, nothing is lost."""
    entries = [entry for entry in known.values() if entry.document.id in inspection.damaged]
    begun = (replace(e.document, status=DocumentStatus.PENDING, items=0, reason="") for e in entries)
    rows = [(document, 0) for document in begun]
    if rows:
        collection.file_table.upsert(file_rows(rows), "key")
    damaged = set[str]().union(*inspection.damaged.values())
    for where in any_of("id", sorted(damaged)):
        collection.item_table.delete(where)
    settle(collection)
    for path in find_stray_pictures(collection):
        path.unlink(missing_ok=True)
