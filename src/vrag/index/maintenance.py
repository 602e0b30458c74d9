"""Maintenance of a collection: removing, pruning, compacting, verifying, and its status."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vrag.embed.embedder import VectorKind
from vrag.index.content_stamps import ContentStamps
from vrag.index.lexical.lexical_index import compact_segments, is_segment
from vrag.index.manifest import make_plan, read_manifest
from vrag.index.schema import replace_surrogates
from vrag.index.shown_names import ShownNames, find_documents, is_present
from vrag.index.source_file import KEPT_COPIES
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import known_tier
from vrag.item_facts import decode_facts
from vrag.scratch import is_scratch
from vrag.types import ABSENT, DocumentStatus, ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.corpus.converter import CorpusOptions
    from vrag.index.collection import Collection
    from vrag.index.location import EmbedderRecord
    from vrag.index.vectors.tiers import Tier
    from vrag.types import Document

_SAMPLE_SIZE = 16
"""Pages whose vectors are counted."""


@dataclass(frozen=True, slots=True)
class RemoveReport:
    """The result of a removal."""

    documents: tuple[Document, ...]
    """Rows of the manifest."""
    items: int
    """Items; fewer than those of the documents when another file has the same bytes."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The size before and after compacting."""

    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class PageVectors:
    """The number of vectors of pages, in a sample of them."""

    pages: int
    """Pages of the sample."""
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus:
    """The status of a collection."""

    address: str
    """Directory, or URL."""
    files: dict[DocumentStatus, int]
    """Number of files in each state; states without any are absent."""
    documents: int
    """Distinct contents among the files that are ready or partial."""
    items: int
    without_vector: int
    """Items without content for the embedder, which are found by words alone; 0 without an embedder."""
    hidden_words: dict[str, int]
    """Words that files have at their pages and nobody sees there, by name of the document, where there are
    any. They are neither searched nor answered from."""
    bytes: int
    """Size on disk, recorded runs included."""
    problems: tuple[Document, ...]
    """Files that failed, wholly or in part."""
    pending: tuple[Document, ...]
    """Files that were begun and not finished."""
    options: CorpusOptions
    embedder: EmbedderRecord | None
    page_vectors: PageVectors | None
    """None without pages, or with an embedder of one vector."""
    tier: Tier | None
    """The way vectors are searched, as far as it is known before a search; None without vectors."""
    content_version: str
    version: int


def remove(collection: Collection, targets: Sequence[str | Path]) -> RemoveReport:
    """Remove files from a collection. The files themselves stay where they are.

    A target is the path of a file, or of a folder with all below it; otherwise what `find_documents` takes.
    Raises `CollectionError` if a target names nothing in the collection, or several documents: then nothing
    is removed. Raises `CollectionBusy` if another process is reading documents into it.
    """
    with collection.build():
        documents, names = collection.documents(), ShownNames.of(collection)
        chosen: dict[str, Document] = {}
        for target in targets:
            found = find_documents(os.fspath(target), [documents], names)
            chosen |= {document.path: document for document in found}
        return _remove(collection, list(chosen.values()))


def prune(collection: Collection) -> RemoveReport:
    """Remove those files from a collection that are gone from the disk.

    A file that cannot be accessed for another reason than its absence stays, and so does what was imported
    without a file. Raises `CollectionBusy` if another process is reading documents into it.
    """
    with collection.build():
        gone = [
            document
            for document in collection.documents()
            if document.mtime_ns != ABSENT and not is_present(document)
        ]
        return _remove(collection, gone)


def compact(collection: Collection) -> CompactReport:
    """Delete what nothing refers to: items, pictures and caches; rewrite what holds more. Readers continue.

    Raises `CollectionBusy` if another process is reading documents into it.
    """
    with collection.build():
        before = collection.location.size()
        settle(collection)
        collection.store.compact()
        catalog = collection.catalog()
        compact_segments(collection.cache_dir, catalog.lexical_documents())
        for folder in _folders(collection.cache_dir):
            is_kept = catalog.key in folder.name or is_segment(folder.name) or is_scratch(folder.name)
            if not is_kept:
                shutil.rmtree(folder, ignore_errors=True)  # what is left is not used
        return CompactReport(before, collection.location.size())


def status(collection: Collection, vectors: VectorOptions | None = None) -> CollectionStatus:
    """Return the status of a collection, without its lock; `vectors` are the options of its search."""
    documents = collection.documents()
    catalog = collection.catalog()
    options = vectors or VectorOptions()
    embedder = collection.header.embedder
    return CollectionStatus(
        address=collection.address,
        files=dict(Counter(document.status for document in documents)),
        documents=len({document.id for document in documents if document.status.served}),
        items=len(catalog.ids),
        without_vector=_count_without_vector(collection),
        hidden_words=_name_counts(count_hidden_words(collection), documents),
        bytes=collection.location.size(),
        problems=tuple(document for document in documents if document.reason),
        pending=tuple(d for d in documents if d.status is DocumentStatus.PENDING),
        options=collection.header.options,
        embedder=embedder,
        page_vectors=_page_vectors(collection),
        tier=known_tier(collection, len(catalog.ids), catalog.key, options) if embedder else None,
        content_version=catalog.content,
        version=catalog.version,
    )


def _count_without_vector(collection: Collection) -> int:
    if collection.header.embedder is None:
        return 0
    return len(collection.store.read_items(["id"], "vectors IS NULL").values)


def count_hidden_words(collection: Collection) -> dict[str, int]:
    """Count the words of documents that are hidden or struck out, by their ids, of those that have some."""
    # Facts with cells and tables are long to parse, and few have hidden words.
    rows = collection.store.read_items(["document", "facts"], "facts LIKE '%\"hidden_text\"%'")
    counts: Counter[str] = Counter()
    for document, facts in rows.values:
        counts[document] += len(decode_facts(facts).hidden_text.split())
    return dict(counts)


def _name_counts(counts: dict[str, int], documents: Sequence[Document]) -> dict[str, int]:
    """Return counts by the name of the document in place of its id, in the order of names."""
    names = {document.id: document.name for document in reversed(documents)}
    named: Counter[str] = Counter()
    for id, count in counts.items():
        named[names.get(id, id)] += count
    return dict(sorted(named.items()))


def _page_vectors(collection: Collection) -> PageVectors | None:
    """Count the vectors of some pages."""
    embedder = collection.header.embedder
    if embedder is None or embedder.kind is VectorKind.SINGLE:
        return None
    condition = "kind = ? AND vectors IS NOT NULL"
    sample = collection.store.read_items(["vectors_count"], condition, [ItemKind.PAGE.value], _SAMPLE_SIZE)
    lengths: list[int] = sample.column("vectors_count")
    return PageVectors(len(lengths), min(lengths), max(lengths)) if lengths else None


def settle(collection: Collection) -> int:
    """Make items agree with the manifest, in one commit, and return how many were deleted.

    Rows of files that were moved, or deleted while another file has the same content, go. Items that no row
    refers to are deleted. Items of a content that exists at several paths have the name of the first of them,
    whichever was added first. The caller holds the lock of builds. Raises `CollectionError`.
    """
    differences = _compare_with_manifest(collection)
    if any(differences):
        with collection.store.change() as change:
            change.delete_files(differences.moved)
            for document in differences.orphans:
                change.delete_items(document)
            for document, name in differences.misnamed.items():
                change.rename_document(document, name)
        collection.store.erase()
    return sum(differences.orphans.values())


def is_settled(collection: Collection) -> bool:
    """Check whether `settle` would do nothing. Takes no lock."""
    return not any(_compare_with_manifest(collection))


class _Differences(NamedTuple):
    """The items that do not agree with the manifest."""

    orphans: dict[str, int]
    """Number of items of each document that no row refers to."""
    misnamed: dict[str, str]
    """The name that the items of a document should have."""
    moved: list[str]
    """Paths where no file is any more, of contents that other files have."""


def _compare_with_manifest(collection: Collection) -> _Differences:
    documents_by_id: dict[str, list[Document]] = {}
    """The files of each content that has or may get items."""
    for document in collection.documents():  # sorted by path
        if document.status is not DocumentStatus.FAILED:
            documents_by_id.setdefault(document.id, []).append(document)
    moved = [path for files in documents_by_id.values() for path in _moved_paths(files)]
    gone = frozenset(moved)
    names = {
        id: next(file.name for file in files if file.path not in gone)
        for id, files in documents_by_id.items()
    }
    orphans: dict[str, int] = {}
    misnamed: dict[str, str] = {}
    for id, title, count in collection.store.count_items():
        if id not in names:
            orphans[id] = orphans.get(id, 0) + count
        elif replace_surrogates(names[id]) != title:
            misnamed[id] = names[id]
    return _Differences(orphans, misnamed, moved)


def _moved_paths(files: Sequence[Document]) -> list[str]:
    """Return the paths where no file is any more, of files with one content: none if there is none anywhere.

    Uploads stay: their files move with the collection.
    """
    if len(files) < 2 or not any(is_present(file, files) for file in files):
        return []
    return [
        file.path
        for file in files
        if file.mtime_ns != ABSENT
        and os.path.basename(os.path.dirname(file.path)) != KEPT_COPIES  # noqa: PTH119, PTH120 - any bytes
        and file.status.served
        and not is_present(file, files)
    ]


def _remove(collection: Collection, documents: Sequence[Document]) -> RemoveReport:
    with collection.store.change() as change:
        change.delete_files(document.path for document in documents)
    return RemoveReport(tuple(documents), settle(collection))


class UnreadFiles(NamedTuple):
    """Files that are not ready to be searched while another process, or this one, is writing."""

    unread: int
    files: int
    """The number of all files that are meant."""
    begun: bool = True
    """True if all of them are being read; False if some wait for the writer."""

    def __str__(self) -> str:
        verb = "is" if self.unread == 1 else "are"
        files = f"{self.unread} of {self.files} {'file' if self.files == 1 else 'files'} {verb}"
        return f"{files} still being read." if self.begun else f"{files} not read yet: a process is writing."


def count_unread(collections: Iterable[Collection]) -> UnreadFiles | None:
    """Count the files that are being read into collections at the moment; None if there are none."""
    statuses = [
        status
        for collection in collections
        if collection.location.is_being_written
        for status in collection.store.statuses()
    ]
    unread = statuses.count(DocumentStatus.PENDING)
    return UnreadFiles(unread, len(statuses)) if unread else None


def count_unread_under(collection: Collection, paths: Sequence[str | Path]) -> UnreadFiles | None:
    """Count the files under paths that are new, have changed or are being read; None if there are none."""
    known = read_manifest(collection)
    stamps = ContentStamps(collection.store)
    plan = make_plan(paths, known, collection.directory, stamps, retry_failed=False)
    todo = set(map(os.fspath, (entry for entry in plan.todo if isinstance(entry, Path)))) & set(plan.found)
    begun = all(path in known and known[path].document.status is DocumentStatus.PENDING for path in todo)
    return UnreadFiles(len(todo), len(plan.found), begun) if todo else None


def _folders(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_dir()] if directory.is_dir() else []
