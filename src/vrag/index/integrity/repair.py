"""The repair of what an inspection found.

In this order, so that nothing that can be read is lost when it is killed:

1. The newest manifest of a table is put back from its copy. Single flipped bits are flipped back where a
   checksum proves it, in small files, pictures and clips.
2. A table whose files are damaged is written anew from the rows that can be read, and takes its place as a
   whole. If only older versions are affected, these are deleted.
3. Rows of the manifest that are damaged are made again from the files they name.
4. Documents with damaged items whose file is as it was indexed are marked as begun; then their damaged rows
   are deleted. The caller makes them again at once; killed before that, the next `add` does.
5. Without their file, damaged rows are kept as they can be read, with a new checksum, and the document says
   so. A picture or clip stays as it is.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.atomic_io import replace_directory, write_whole
from vrag.errors import CollectionError, FingerprintMismatch
from vrag.index.integrity.checksums import CHECKSUMS, flip_back, stored_checksums
from vrag.index.integrity.inspection import Inspection
from vrag.index.integrity.problems import repair_sealed_files, undo_bit_flip
from vrag.index.maintenance import find_stray_pictures, settle
from vrag.index.manifest import Known
from vrag.index.schema import (
    CLIP,
    FILE_PARTS,
    ITEM_PARTS,
    PICTURE,
    STORED_FILES,
    arrow,
    file_checksums,
    file_key,
    file_rows,
    seal,
)
from vrag.index.source_file import CheckedFiles, OpenSource, with_kept_copies
from vrag.index.tables.file_records import journal_path, read_records, record_present, restore_manifest
from vrag.index.tables.layout import hint_path, list_files, version_of
from vrag.index.tables.store import Directory
from vrag.index.tables.table import Table, any_of
from vrag.item_facts import format_places
from vrag.types import ABSENT, LOST_PATH, Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vrag.index.collection import Collection
    from vrag.index.integrity.inspection import TableState
    from vrag.index.schema import ArrowTable

_MAX_FLIP_BYTES = 1 << 14
"""Size of a file of a table up to which every bit is tried."""
_REBUILT = ".rebuilt"
_BATCH_ROWS = 128
"""Rows that are read at once."""
_BATCH_BYTES = 128 << 20
"""Bytes of rows that are written in one commit: bounds the memory."""
_LOST_ENTRY = "Its entry in the list of files is lost: it can be searched, but its file is not known."


class Repair:
    """The repair of a collection whose lock is held."""

    def __init__(self, collection: Collection, inspection: Inspection, scratch: Path) -> None:
        self.lost: dict[str, str] = {}
        """For documents of which something could not be made again, the reason."""
        self.kept: set[str] = set()
        """Ids of damaged items that are kept as far as they can be read."""
        self.short: set[str] = set()
        """Ids of documents that have another number of items than they had, and cannot be read again."""
        self.begun: list[Path] = []
        """Files to be added again."""
        self._collection, self._found, self._scratch = collection, inspection, scratch
        self._files = CheckedFiles()
        self._sources: dict[str, Path | None] = {}

    @staticmethod
    def restore_bytes(inspection: Inspection) -> bool:
        """Put back what a copy or a checksum proves; return whether there was anything."""
        is_changed = False
        repair_sealed_files(inspection.home)
        for state in (inspection.files, inspection.rows):
            records, restored = read_records(state.directory), restore_manifest(state.directory)
            is_changed |= bool(restored)
            for name in state.faulty - {restored}:
                is_changed |= _repair_recorded(state.directory / name, records[name].sha256)
        for batch in _rows_with_media(inspection):
            is_changed |= _repair_media(inspection, batch)
        return is_changed

    def run(self, *, can_remake: bool) -> None:
        """Repair; `can_remake` says whether items can be made from their files as they were."""
        self._can_remake = can_remake
        for state in (self._found.files, self._found.rows):
            if state.is_unreadable:
                self._rebuild(state)
            elif state.faulty:
                _drop_older_versions(state)
            else:
                hint_path(state.directory).unlink(missing_ok=True)
        self._known = dict(self._found.known)
        self._repair_manifest()
        self._repair_items()
        self._seal_rows()
        settle(self._collection)
        strays = [] if self.lost else find_stray_pictures(self._collection)  # else all that is left of them
        for path in strays:
            path.unlink(missing_ok=True)
        for state in (self._found.files, self._found.rows):
            if state.directory.is_dir():
                journal_path(state.directory).unlink(missing_ok=True)
                record_present(state.directory)
        for problem in self._found.problems:
            if problem.file.startswith("cache/"):
                entry = self._found.home / "cache" / problem.file.split("/")[1]
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)

    def _rebuild(self, state: TableState) -> None:
        """Write a table anew from its rows that can be read."""
        folder = state.directory.parent / _REBUILT
        shutil.rmtree(folder, ignore_errors=True)
        table = Table(Directory(folder), state.directory.stem, lambda: state.table.schema, parts=state.parts)
        table.append(state.table.schema.empty_table())
        lost = {defect.id for defect in self._found.defects if defect.is_lost}
        damaged = {row.get("key") for row in self._found.damaged_files}
        for batch in state.batches(self._scratch):
            column, out = ("id", lost) if state is self._found.rows else ("key", damaged)
            keep = np.asarray([value not in out for value in _values(batch[column])], np.bool_)
            table.append(batch.filter(arrow().array(keep)))
        table.compact(timedelta(milliseconds=1))
        table.advance(state.newest)
        replace_directory(folder / state.directory.name, state.directory)
        journal_path(state.directory).unlink(missing_ok=True)
        record_present(state.directory)
        shutil.rmtree(folder, ignore_errors=True)
        state.table.reopen()

    def _repair_manifest(self) -> None:
        """Make damaged rows again from the files that they name, or from the items that there are."""
        table = self._collection.file_table
        keys = [row["key"] for row in self._found.damaged_files if isinstance(row.get("key"), str)]
        made: dict[str, tuple[Document, int]] = {}
        for row in self._found.damaged_files:
            document = _from_path(row)
            if document is not None:
                made[document.path] = document, 0
                self.begun.append(Path(document.path))
        self._drop_removed()
        present = {entry.document.id for entry in self._known.values()} | {d.id for d, _ in made.values()}
        if self._found.damaged_files or self._found.files.is_incomplete:
            for id in sorted(self._found.counts.keys() - present):
                document = self._from_items(id)
                made[document.path] = document, self._found.counts[id]
                self.lost[id] = _LOST_ENTRY
        wrong = [key for key in keys if key not in {file_key(path) for path in made}]
        for where in any_of("key", wrong):
            table.delete(where)
        if made:
            table.upsert(file_rows(made.values()), "key")
        self._known |= {path: Known(document, rows) for path, (document, rows) in made.items()}

    def _drop_removed(self) -> None:
        """Delete rows of an older version of the manifest whose items are gone: they were removed since."""
        if not self._found.files.is_incomplete or self._found.rows.is_incomplete:
            return
        served = (entry.document for entry in self._known.values() if entry.document.status.served)
        gone = [document for document in served if not self._found.counts[document.id]]
        for where in any_of("key", [file_key(document.path) for document in gone]):
            self._collection.file_table.delete(where)
        for document in gone:
            del self._known[document.path]

    def _from_items(self, id: str) -> Document:
        """Return a row for a document of which only the items are there."""
        count = self._found.counts[id]
        where = any_of("document", [id])[0]
        names = self._collection.item_table.read(["document", "document_name"], where, 1).data
        name = names["document_name"][0].as_py() if names.num_rows else id[:16]
        return Document(
            path=f"{LOST_PATH}{id}/{name}",
            id=id,
            name=name,
            size=0,
            mtime_ns=ABSENT,
            status=DocumentStatus.READY,
            items=count,
        )

    def _repair_items(self) -> None:
        by_document: dict[str, set[str]] = {}
        damaged = {defect.id: defect.parts for defect in self._found.defects}
        lost = {defect.id for defect in self._found.defects if defect.is_lost}
        for defect in self._found.defects:
            by_document.setdefault(defect.document, set()).add(defect.id)
        entries = {entry.document.id: entry for entry in self._known.values()}
        for id, entry in entries.items():
            if entry.document.status.served and self._found.counts[id] != entry.rows:
                by_document.setdefault(id, set())
        remade: set[str] = set()
        begun: list[Document] = []
        for id, ids in by_document.items():
            if id not in entries:
                remade |= ids
            elif self._can_remake and (path := self._source(id)) is not None:
                remade |= ids
                own = (entry.document for entry in self._known.values() if entry.document.id == id)
                begun += [replace(each, status=DocumentStatus.PENDING, items=0, reason="") for each in own]
                self.begun.append(path)
            else:
                remade |= ids & lost
                self._keep(entries[id], {each: damaged[each] for each in ids - lost}, len(ids & lost))
        if begun:
            self._collection.file_table.upsert(file_rows((each, 0) for each in begun), "key")
        for where in any_of("id", sorted(remade)):
            self._collection.item_table.delete(where)
        self._recount(entries, by_document.keys() - {each.id for each in begun})

    def _keep(self, entry: Known, items: dict[str, frozenset[str]], lost: int) -> None:
        """Keep damaged rows as they can be read, with new checksums."""
        id, count = entry.document.id, self._found.counts[entry.document.id]
        rows_only = {id for id, parts in items.items() if parts - {PICTURE.title, CLIP.title}}
        self.kept |= rows_only
        media = sorted(_ordinal(id) for id in items.keys() - rows_only)
        kept = sorted(_ordinal(id) for id in rows_only)
        parts: list[str] = []
        if kept:
            parts.append(f"{format_places(kept)}: damaged on the disk, and kept as far as it can be read.")
        if media:
            parts.append(f"{format_places(media)}: the picture or clip is damaged.")
        if lost:
            parts.append(f"{lost} items were damaged beyond reading, and are gone.")
        if entry.document.status.served and count != entry.rows:
            self.short.add(id)
            parts.append(f"It has {count} items instead of {entry.rows}.")
        self.lost[id] = f"{' '.join(parts)} The file is not here as it was indexed."
        for where in any_of("id", sorted(rows_only)):
            names = self._collection.item_table.schema.names
            rows = self._collection.item_table.read(names, where, checked=False).data
            self._collection.item_table.upsert(_reseal(rows), "id")

    def _recount(self, entries: dict[str, Known], documents: Iterable[str]) -> None:
        """Write down how many items documents have now, and what is wrong with them."""
        counts = Counter[str](self._collection.item_table.read(["document"]).data["document"].to_pylist())
        changed: list[tuple[Document, int]] = []
        for path, entry in self._known.items():
            document = entry.document
            if document.id in documents and document.id in entries and document.status.served:
                reason = " ".join(filter(None, [document.reason, self.lost.get(document.id, "")]))
                now = replace(document, status=DocumentStatus.PARTIAL, reason=reason)
                self._known[path] = Known(now, counts[document.id])
                changed.append((now, counts[document.id]))
        if changed:
            self._collection.file_table.upsert(file_rows(changed), "key")

    def _source(self, id: str) -> Path | None:
        """Return the file of a document whose bytes are as they were indexed; None if there is none."""
        if id not in self._sources:
            documents = (e.document for e in self._known.values() if e.document.id == id)
            self._sources[id] = None
            for candidate in with_kept_copies(documents, self._found.home):
                opened = self._files.open(candidate)
                if isinstance(opened, OpenSource):
                    opened.file.close()
                    self._sources[id] = Path(candidate.path)
                    break
        return self._sources[id]

    def _seal_rows(self) -> None:
        """Give checksums to rows that have none."""
        for table, parts, key in (
            (self._collection.file_table, FILE_PARTS, "key"),
            (self._collection.item_table, ITEM_PARTS, "id"),
        ):
            if not table.has_checksums():
                table.add_checksums()
            for rows in _unsealed_rows(table):
                media = file_checksums(rows, self._collection.location.open) if key == "id" else {}
                table.upsert(seal(rows, parts, media), key)


def _unsealed_rows(table: Table) -> Iterator[ArrowTable]:
    """Yield the rows of a table that have no checksums, in parts of some `_BATCH_BYTES`."""
    pa, size = arrow(), 0
    pending: list[ArrowTable] = []
    for batch in table.batches(table.schema.names, _BATCH_ROWS, checked=False):
        rows = batch.filter(pa.compute.is_null(batch[CHECKSUMS]))
        if rows.num_rows:
            pending.append(rows)
            size += rows.nbytes
        if size >= _BATCH_BYTES:
            yield pa.concat_tables(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_tables(pending)


def _drop_older_versions(state: TableState) -> None:
    """Delete what the newest version of a table does not need: one of those files is damaged."""
    unneeded = sorted(name for name in list_files(state.directory) if not state.needs(name))
    for name in sorted(unneeded, key=lambda name: version_of(name) is None):  # manifests first
        (state.directory / name).unlink()
    hint_path(state.directory).unlink(missing_ok=True)
    state.table.reopen()


def _repair_recorded(path: Path, sha256: str) -> bool:
    """Flip a bit of a small file of a table back, if that gives the bytes that were recorded."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if len(data) > _MAX_FLIP_BYTES:
        return False
    repaired = undo_bit_flip(data, lambda each: hashlib.sha256(each).hexdigest() == sha256)
    if repaired is not None:
        write_whole(path, repaired)
    return repaired is not None


def _rows_with_media(inspection: Inspection) -> Iterator[ArrowTable]:
    """Yield the rows of items whose picture or clip is damaged."""
    titles = {part.title for part in STORED_FILES}
    ids = sorted(defect.id for defect in inspection.defects if defect.parts & titles)
    columns = ["id", *STORED_FILES.values(), CHECKSUMS]
    if not inspection.rows.is_unreadable:
        for where in any_of("id", ids):
            yield inspection.collection.item_table.read(columns, where, checked=False).data


def _repair_media(inspection: Inspection, rows: ArrowTable) -> bool:
    flipped = False
    for part, column in STORED_FILES.items():
        for name, expected in zip(rows[column].to_pylist(), stored_checksums(rows, part), strict=True):
            if name is None or not expected:
                continue
            try:
                with inspection.collection.location.open(name) as file:
                    data = file.read()
            except (OSError, CollectionError):
                continue
            repaired = flip_back(data, int(expected))
            if repaired is not None:
                write_whole(inspection.collection.items_dir / name, repaired)
                flipped = True
    return flipped


def _reseal(rows: ArrowTable) -> ArrowTable:
    """Give rows new checksums, without the words that make no sense; those of their files stay."""
    pa = arrow()
    media = {part: stored_checksums(rows, part) for part in STORED_FILES}
    texts, spans, boxes = (_values(rows[name]) for name in ("text", "spans", "boxes"))
    for number, (text, places, sides) in enumerate(zip(texts, spans, boxes, strict=True)):
        pairs = list(zip(places[::2], places[1::2], strict=False))
        is_sound = len(sides) == 2 * len(places) == 4 * len(pairs)
        if not is_sound or not np.isfinite(sides).all() or any(not 0 <= a < b <= len(text) for a, b in pairs):
            spans[number], boxes[number] = [], []
    for name, values in (("text", texts), ("spans", spans), ("boxes", boxes)):
        field = rows.schema.field(name)
        rows = rows.set_column(rows.column_names.index(name), field, pa.array(values, field.type))
    return seal(rows, ITEM_PARTS, media)


def _values(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    """Return cells as Python values; a damaged text loses what is none, a damaged list everything."""
    values: list[Any] = []
    is_text = str(column.type) == "string"
    for cell in column:
        try:
            values.append(cell.as_py())
        except ValueError:
            values.append(cell.as_buffer().to_pybytes().decode("utf-8", "replace") if is_text else [])
    return [("" if is_text else []) if value is None else value for value in values]


def _from_path(row: dict[str, Any]) -> Document | None:
    """Return a row of the manifest as begun, from the file that it names; None if it names none."""
    from vrag.corpus.discover import read_source

    try:
        path = row["path"].decode("utf-8", "surrogateescape")
        if file_key(path) != row["key"]:
            return None
        source = read_source(Path(path))
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    return Document(
        path=path,
        id=source.document,
        name=source.name,
        size=source.size,
        mtime_ns=source.mtime_ns,
        status=DocumentStatus.PENDING,
    )


def _ordinal(id: str) -> int:
    return int(id.rsplit("-", 1)[-1]) if id.rsplit("-", 1)[-1].isdecimal() else 0


def can_remake(collection: Collection) -> bool:
    """Check whether this version makes the items of a collection as they were made."""
    try:
        collection.header.check_options(collection.header.options)
    except FingerprintMismatch:
        return False
    embedder = collection.header.embedder
    return embedder is None or not embedder.imported
