"""The inspection of a collection: every byte of its tables, every row, every picture and every cache.

The files of the tables are compared with their records first. A table whose files are damaged is read by
`salvage`, in a process of its own; others are read directly. Nothing is written but to a scratch folder.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vrag.errors import CollectionError
from vrag.geometry import IMAGE_FORMATS
from vrag.index.integrity.checksums import CHECKSUMS, file_checksum, find_damage, stored_checksums
from vrag.index.integrity.problems import ProblemKind, VerifyProblem, check_caches, check_sealed_files
from vrag.index.integrity.salvage import salvage_rows
from vrag.index.location import COPIES
from vrag.index.manifest import Known
from vrag.index.schema import FILE_PARTS, ITEM_PARTS, STORED_FILES, document_of, file_key, vector_column
from vrag.index.source_file import KEPT_COPIES
from vrag.index.tables.file_records import (
    check_files,
    check_manifest_copy,
    hash_file,
    journal_path,
    manifest_copy_path,
    read_table_records,
)
from vrag.index.tables.layout import (
    hint_path,
    is_hint_wrong,
    list_files,
    list_manifests,
    newest_version,
    version_of,
)
from vrag.index.tables.version_files import refers
from vrag.types import DocumentStatus, item_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vrag.index.collection import Collection
    from vrag.index.integrity.checksums import RowPart
    from vrag.index.integrity.problems import Progress
    from vrag.index.schema import ArrowTable
    from vrag.index.tables.file_records import TableRecords
    from vrag.index.tables.table import Table

_BATCH_ROWS = 128
"""Rows that are read at once: bounds the memory."""


@dataclass(slots=True)
class TableState:
    """The state of the files of a table."""

    table: Table
    directory: Path
    parts: tuple[RowPart, ...]
    problems: list[VerifyProblem] = field(default_factory=list[VerifyProblem])
    faulty: set[str] = field(default_factory=set[str])
    """Names of its files that are damaged."""
    is_unreadable: bool = False
    """True if LanceDB cannot read it, or may not be trusted to."""
    is_incomplete: bool = False
    """True if damage left rows of an older version than the newest, or not all of them."""
    recorded: int = 0
    """The newest version that was recorded."""
    salvaged: list[ArrowTable] | None = None

    @property
    def newest(self) -> int:
        """The newest version that there is, or was."""
        return max(newest_version(self.directory), self.recorded)

    def stamp(self) -> tuple[object, ...]:
        """Return values that differ once a writer has changed the table."""
        records = (journal_path(self.directory), manifest_copy_path(self.directory))
        return newest_version(self.directory), *(path.exists() and path.read_bytes() for path in records)

    def needs(self, name: str) -> bool:
        """Return whether the newest version needs a file of the table; older versions may need others."""
        if version_of(name) is not None:
            return version_of(name) == self.newest
        newest, manifests = self.newest, {}
        if newest_version(self.directory):
            manifests = list_manifests(self.directory)
        manifest = next((each for each, version in manifests.items() if version == newest), None)
        if manifest is None or manifest in self.faulty:
            return True
        return refers((self.directory / manifest).read_bytes(), f"{self.directory.name}/{name}")

    def batches(self, scratch: Path) -> Iterator[ArrowTable]:
        """Yield all rows with all columns, unchecked."""
        if not self.is_unreadable:
            try:
                yield from self.table.batches(self.table.schema.names, _BATCH_ROWS, checked=False)
            except CollectionError as error:
                self.is_unreadable = True
                detail = f"It cannot be read in full. {error.message}"
                self.problems.append(VerifyProblem("", f"{COPIES}/{self.directory.name}", detail))
            else:
                return
        if self.salvaged is None:
            found = salvage_rows(self.directory, self.table.schema, self.parts, self.faulty, scratch)
            self.salvaged = found.batches
            self.is_incomplete = bool(found.lost) or found.version < self.newest
            if self.is_incomplete:
                detail = "No version of it can be opened."
                if found.version:
                    lost = f"; {found.lost} of its rows cannot be read" if found.lost else ""
                    detail = f"The newest version that can be opened is {found.version}{lost}."
                self.problems.append(VerifyProblem("", f"{COPIES}/{self.directory.name}", detail))
        yield from self.salvaged


class ItemDefect(NamedTuple):
    """An item that is damaged."""

    id: str
    document: str
    parts: frozenset[str]
    """Titles of its damaged parts; empty if it is not known which."""
    is_lost: bool
    """True if it is not known what the row is."""


class Inspection:
    """One inspection of a collection."""

    def __init__(self, collection: Collection, scratch: Path, progress: Progress | None = None) -> None:
        self.collection = collection
        self.items = self.pictures = 0
        self.known: dict[str, Known] = {}
        """The sound rows of the manifest, by path."""
        self.damaged_files: list[dict[str, Any]] = []
        """Rows of the manifest that are damaged, as far as they can be read."""
        self.defects: list[ItemDefect] = []
        self.counts = Counter[str]()
        """Number of rows of each document."""
        self.ordinals: dict[str, set[int]] = {}
        """Ordinals of the rows of each document."""
        self.names: dict[str, str] = {}
        """File name of each document."""
        self.item_counts = Counter[str]()
        """Number of rows with each id of an item."""
        self.files, self.rows = (
            TableState(table, self.home / COPIES / f"{name}.lance", parts)
            for table, name, parts in (
                (collection.file_table, "files", FILE_PARTS),
                (collection.item_table, "items", ITEM_PARTS),
            )
        )
        self.unprotected = 0
        self._scratch, self._progress = scratch, progress
        self._problems: list[VerifyProblem] = []
        self._media: set[str] = set()

    @property
    def home(self) -> Path:
        """The directory of the collection."""
        assert self.collection.home is not None
        return self.collection.home

    @property
    def problems(self) -> list[VerifyProblem]:
        """Everything that was found."""
        return [*self._problems, *self.files.problems, *self.rows.problems]

    @property
    def is_damaged(self) -> bool:
        """True if rows, pictures or tables are damaged, so that items may have to be made again."""
        states = self.files, self.rows
        is_short = any(problem.document for problem in self._problems)
        return is_short or bool(self.damaged_files) or any(state.is_unreadable for state in states)

    def stamp(self) -> tuple[object, ...]:
        """Return values that differ once a writer has changed a table."""
        return self.files.stamp(), self.rows.stamp()

    def run(self) -> None:
        """Check everything."""
        self._problems += check_sealed_files(self.home)
        for state in (self.files, self.rows):
            self._check_table_files(state)
        self._check_manifest()
        self._check_items()
        self._check_counts()
        self._check_strays()
        self._check_uploads()
        self._problems += check_caches(self.collection.cache_dir)

    def _check_table_files(self, state: TableState) -> None:
        directory = state.directory
        name = f"{COPIES}/{directory.name}"
        journal = name.replace(".lance", ".files")
        records = read_table_records(directory)
        self._problems += check_journal(journal, records)
        state.recorded = records.version
        if not directory.is_dir():
            if records.files:
                self._add(name, "The table is missing.")
                state.is_unreadable = True
            return
        for fault in check_files(directory, records.files.values()):
            if records.is_deleting and fault.is_missing and not state.needs(fault.name):
                detail = "It is missing, since the deletion of older versions has not ended."
                self._add(f"{name}/{fault.name}", detail, ProblemKind.LEFTOVER)
                continue
            state.faulty.add(fault.name)
            state.is_unreadable |= state.needs(fault.name)
            self._add(f"{name}/{fault.name}", fault.detail)
        extra = sorted(list_files(directory) - records.files.keys())
        if detail := check_manifest_copy(directory, records):
            copy = manifest_copy_path(directory)
            self._add(copy.relative_to(self.home).as_posix(), detail, ProblemKind.LEFTOVER)
        if not records.files:
            self._add(name, "Its files have no checksums.", ProblemKind.UNPROTECTED)
        elif extra:
            kind = ProblemKind.LEFTOVER
            detail = f"{len(extra)} files of the table are not recorded in it, such as {extra[0]}."
            self._add(journal, detail, kind)
        self._check_hint(directory, name)

    def _check_hint(self, directory: Path, name: str) -> None:
        if is_hint_wrong(directory):
            hint = hint_path(directory).relative_to(directory).as_posix()
            self._add(f"{name}/{hint}", "It does not name the newest version.")

    def _check_manifest(self) -> None:
        for batch in self.files.batches(self._scratch):
            damaged = {damage.row for damage in find_damage(batch, FILE_PARTS)}
            for number, row in enumerate(_rows(batch)):
                entry = _known(row) if number not in damaged else None
                if entry is None:
                    self.damaged_files.append(row)
                    label = row.get("name") or row.get("id") or "a file"
                    text = f"The row of {label!r} in the list of files is damaged."
                    self._problems.append(VerifyProblem(row.get("id") or "", str(label), text))
                else:
                    self.known[entry.document.path] = entry
                    self.names.setdefault(entry.document.id, entry.document.name)

    def _check_items(self) -> None:
        total = sum(entry.rows for entry in self.known.values())
        embedder = self.collection.header.embedder
        for batch in self.rows.batches(self._scratch):
            bad: dict[int, set[str]] = {}
            for damage in find_damage(batch, ITEM_PARTS):
                bad.setdefault(damage.row, set()).add(damage.part.title)
            sums = {part: stored_checksums(batch, part) for part in STORED_FILES}
            self.unprotected += batch[CHECKSUMS].null_count
            vectors = batch[vector_column(embedder.kind)] if embedder else None
            plain = batch.drop_columns([vector_column(embedder.kind)]) if embedder else batch
            for number, row in enumerate(_rows(plain)):
                self.items += 1
                parts, details = bad.get(number, set()), list(self._row_defects(row))
                details += [f"The checksum of its {title} does not match." for title in sorted(parts)]
                for part, column in STORED_FILES.items():
                    if row.get(column) is not None:
                        found = list(self._media_defects(row, column, int(sums[part][number])))
                        details += found
                        parts |= {part.title} if found else set()
                if vectors is not None and vectors[number].is_valid and not _is_finite(vectors[number]):
                    details.append("Its vector is not finite.")
                    parts |= {"vector"}
                self._note(row, parts, details)
            if self._progress:
                self._progress(self.items, max(total, self.items))

    def _note(self, row: dict[str, Any], parts: set[str], details: list[str]) -> None:
        document, ordinal = row["document"], row["ordinal"]
        id = row["id"] if isinstance(row["id"], str) else ""
        self.item_counts[id] += 1
        if self.item_counts[id] > 1:
            details.append("It is there more than once.")
        is_lost = "entry" in parts or not isinstance(document, str) or id != item_id(document, ordinal or 0)
        if isinstance(document, str):
            self.counts[document] += 1
            self.ordinals.setdefault(document, set()).add(ordinal)
            self.names.setdefault(document, row["document_name"] or document[:16])
        for detail in details:
            self._problems.append(
                VerifyProblem(
                    document or "", self.label(row), detail, item=id, file=_file_of(row, parts, detail)
                )
            )
        if details:
            is_lost = is_lost or self.item_counts[id] > 1
            self.defects.append(ItemDefect(id, document or "", frozenset(parts), is_lost))

    def label(self, row: dict[str, Any]) -> str:
        """Name an item for people."""
        name = self.names.get(row["document"] or "") or row["document_name"] or "?"
        return f"{name}, {row['kind'] or 'item'} {row['ordinal']}"

    def _row_defects(self, row: dict[str, Any]) -> Iterator[str]:
        if row["id"] != item_id(row["document"] or "", row["ordinal"] or 0):
            yield "Its id is not that of its document and number."
        text, spans, boxes = row["text"] or "", row["spans"] or (), row["boxes"] or ()
        if len(spans) % 2 or len(boxes) != 2 * len(spans):
            yield "Its words and their boxes differ in number."
        words = zip(spans[::2], spans[1::2], strict=False)
        if any(not 0 <= start < end <= len(text) for start, end in words):
            yield "A word lies outside of its text."
        if not all(side is not None and math.isfinite(side) for side in boxes):
            yield "The box of a word is not finite."
        names = {entry.document.name for entry in self.known.values() if entry.document.id == row["document"]}
        if names and row["document_name"] not in names:
            yield "It has another name than its document."

    def _media_defects(self, row: dict[str, Any], column: str, checksum: int) -> Iterator[str]:
        self.pictures += 1
        self._media.add(row[column])
        title = "picture" if column == "image" else "clip"
        try:
            with self.collection.location.open(row[column]) as file:
                if checksum and file_checksum(file) == checksum:
                    return
                if title == "clip":
                    file.seek(0)
                    if not file.read(1):
                        yield "Its clip is empty."
                        return
        except FileNotFoundError:
            yield f"Its {title} is missing."
            return
        except (OSError, CollectionError) as error:
            yield f"Its {title} cannot be opened: {error}."
            return
        found = list(self._picture_defects(row)) if title == "picture" else []
        if checksum and not found:
            found = [f"The checksum of its {title} does not match."]
        yield from found

    def _picture_defects(self, row: dict[str, Any]) -> Iterator[str]:
        from PIL import Image

        try:
            with (
                self.collection.location.open(row["image"]) as file,
                Image.open(file, formats=IMAGE_FORMATS) as image,
            ):
                if image.size != (row["width"], row["height"]):
                    yield f"Its picture is {image.width}×{image.height}, not {row['width']}×{row['height']}."
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, CollectionError) as error:
            yield f"Its picture cannot be opened: {error}."

    def _check_counts(self) -> None:
        """Compare the number of items of each document with the manifest."""
        expected: dict[str, int | None] = {}
        for entry in self.known.values():
            if entry.document.status.served:
                expected[entry.document.id] = entry.rows
            elif entry.document.status is DocumentStatus.PENDING:
                expected.setdefault(entry.document.id, None)
        for document in sorted(self.counts.keys() | expected.keys()):
            wanted, rows = expected.get(document), self.counts[document]
            name = self.names.get(document, document[:16])
            if document not in expected:
                kind = (
                    ProblemKind.DAMAGE
                    if self.damaged_files or self.files.is_incomplete
                    else ProblemKind.LEFTOVER
                )
                text = f"{rows} items have no entry in the list of files."
                self._problems.append(VerifyProblem(document, name, text, kind))
            elif wanted not in {None, rows}:
                text = f"It has {rows} items instead of {wanted}."
                missing = sorted(set(range(1, (wanted or 0) + 1)) - self.ordinals.get(document, set()))
                text += f" Missing: {', '.join(map(str, missing[:20]))}." if missing else ""
                self._problems.append(VerifyProblem(document, name, text))

    def _check_strays(self) -> None:
        folder = self.collection.items_dir
        if self.rows.is_incomplete:  # what they belong to may be among the rows that are gone
            return
        for path in sorted(folder.rglob("*")) if folder.exists() else ():
            name = path.relative_to(folder).as_posix()
            if not path.is_dir() and name not in self._media:
                kind = ProblemKind.LEFTOVER
                text = "No item uses this picture."
                self._problems.append(VerifyProblem("", f"items/{name}", text, kind, f"items/{name}"))

    def _check_uploads(self) -> None:
        for entry in self.known.values():
            document = entry.document
            path = self.home / KEPT_COPIES / document.path.rsplit("/", 1)[-1]
            if path.parent.name not in document.path.split("/")[-2:-1] or not path.is_file():
                continue
            is_done = document.status is not DocumentStatus.PENDING and document.id
            if is_done and path.stat().st_mtime_ns == document.mtime_ns and hash_file(path) != document.id:
                name = f"{KEPT_COPIES}/{path.name}"
                text = "It is no longer the file that was indexed."
                advice = "Upload it again. What was read of it is in the collection."
                self._problems.append(VerifyProblem(document.id, name, text, file=name, advice=advice))

    def _add(self, name: str, detail: str, kind: ProblemKind = ProblemKind.DAMAGE) -> None:
        self._problems.append(VerifyProblem("", name, detail, kind, name))


def check_journal(name: str, records: TableRecords) -> list[VerifyProblem]:
    """Return what is wrong with the journal of this name, as it was read; empty if nothing is."""
    if records.is_torn:
        return [VerifyProblem("", name, "Its last entry is incomplete.", ProblemKind.LEFTOVER, name)]
    if records.is_damaged:
        return [VerifyProblem("", name, "An entry is damaged or missing.", ProblemKind.DAMAGE, name)]
    return []


def _file_of(row: dict[str, Any], parts: set[str], detail: str) -> str:
    column = "image" if "picture" in detail else "clip_path" if "clip" in detail and "clip" in parts else ""
    return f"items/{row[column]}" if column and row.get(column) else ""


def _rows(batch: ArrowTable) -> list[dict[str, Any]]:
    """Return rows as Python values; None for a cell that is damaged so that it has none."""
    try:
        return batch.to_pylist()
    except (ValueError, OverflowError):
        return [
            {name: _value(batch[name][row]) for name in batch.column_names} for row in range(batch.num_rows)
        ]


def _value(cell: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return None


def _known(row: dict[str, Any]) -> Known | None:
    """Return a row of the manifest; None if it makes no sense."""
    try:
        entry = Known(document_of(row), row["rows"])
    except (ValueError, AttributeError, TypeError):
        return None
    return entry if file_key(entry.document.path) == row["key"] else None


def _is_finite(vector: Any) -> bool:  # noqa: ANN401
    values = vector.values
    while values is not None and hasattr(values, "values"):
        values = values.flatten()
    if values is None or not len(values) or values.null_count:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())
