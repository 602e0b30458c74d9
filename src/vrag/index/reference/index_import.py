"""The import of an index of the reference into a collection.

Its vectors are used as they are. The text and word boxes of pictures are made here, as for any file, and the
import is as safe to kill as a build, since everything goes through `build.add_sources`. An item whose
picture is not found has no picture.

The model that made the vectors is needed to search them, and the index only has its name. So the
collection records the embedder that the caller gives, if it makes vectors like those of the index; without
one it records `imported:…`, which no embedder is, until an import of the same index names one.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from vrag.corpus.converter import Converted, CorpusOptions, Failed, ItemCount
from vrag.corpus.formats.image import open_picture
from vrag.embed.embedder import EmbedContent, Modality
from vrag.embed.registry import check_retired
from vrag.errors import CollectionError, CorpusError, FingerprintMismatch
from vrag.index.build import AddReport, add_sources
from vrag.index.collection import Collection
from vrag.index.location import IMPORTED, EmbedderRecord
from vrag.index.maintenance import remove
from vrag.index.reference.entry_list import (
    BadEntry,
    EntryKind,
    FileFinder,
    bare_item,
    convert_entries,
    list_entries,
)
from vrag.index.reference.index_files import read_index
from vrag.index.vectors.embed_items import Embedded
from vrag.types import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.converter import Conversion, SourceFile
    from vrag.corpus.discover import Skipped
    from vrag.embed.embedder import Embedder
    from vrag.index.manifest import IndexProgress
    from vrag.index.reference.entry_list import ListEntry, Listing
    from vrag.index.reference.index_files import ReferenceIndex
    from vrag.index.vectors.embed_items import Made, Present
    from vrag.types import Item

SAMPLE_SIZE = 4
"""Pictures or texts that are embedded again to check whether an embedder is the one that made the vectors."""
MIN_SIMILARITY = 0.9
"""Similarity below which it is not: precision, image library and JPEG cannot account for the difference."""
DOUBTFUL_SIMILARITY = 0.98
_FILES_HINT = (
    "Pictures and videos are only searched below the folder of the index; if they are elsewhere, name their "
    "folder: --files DIR"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of an import. Every entry of the indexes is counted."""

    added: AddReport
    """The result for the entries that can be used, each once."""
    entries: int
    """Number of entries of the indexes, those included that cannot be used."""
    without_file: int
    """Entries whose picture or video was not found: their items have none."""
    duplicates: int
    """Entries that repeat another one."""
    unusable: tuple[Skipped, ...]
    """Entries and nodes that cannot be used, with reasons."""
    embedder: EmbedderRecord
    """The embedder of the collection now."""
    notes: tuple[str, ...]
    """Notes for people."""


def import_indexes(
    directory: str | Path,
    paths: Sequence[Path],
    options: CorpusOptions | None = None,
    *,
    files: Path | None = None,
    embedder: Embedder | None = None,
    wait: float = 0.0,
    progress: Callable[[IndexProgress], None] | None = None,
) -> ImportReport:
    """Import indexes of the reference into a collection, which is created if there is none.

    Killed at any moment, the same call continues and gives the result of a clean import. Called again with
    `files` that were missing before, items get their pictures; with an embedder, a collection without one is
    bound to it.

    `paths` are directories as `read_index` takes them, all of one model; `files` is the folder of pictures
    and videos, at any depth, None if they are below the folder of the index; `embedder` is the one that made
    the vectors; `options` say how pictures become items, None for those of the collection; `wait` is the time
    to wait for another process that is writing to the collection, in seconds. Raises
    `FingerprintMismatch` if indexes are of different models, the embedder does not make such vectors, or the
    collection holds vectors of another; `CollectionError` if an index is incomplete, or nothing in it can be
    used; `CollectionBusy` if another process is writing to the collection; and `EmbedError` if the embedder
    fails on the sample.
    """
    indexes = [read_index(path) for path in paths]
    record = _common_record(indexes)
    entries = [entry for index in indexes for entry in index.entries]
    unusable = tuple(itertools.chain.from_iterable(index.problems for index in indexes))
    if not entries:
        reasons = "; ".join(f"{problem.path.name}: {problem.reason}" for problem in unusable[:3])
        raise CollectionError(f"Nothing in the index can be used. {reasons}".strip())
    listing = list_entries(entries, FileFinder(files))
    notes = [note for index in indexes for note in index.notes]
    if listing.missing and files is None:
        notes.append(_FILES_HINT)
    if embedder is not None:
        notes += _check_embedder(embedder, record, listing)
    collection = _open_collection(directory, options, record, embedder, wait)
    added = add_listing(collection, listing, _with_vectors, progress)
    bound = collection.header.embedder
    assert bound is not None
    return ImportReport(
        added=added,
        entries=len(entries) + len(unusable),
        without_file=listing.missing,
        duplicates=listing.duplicates,
        unusable=unusable,
        embedder=bound,
        notes=tuple(notes),
    )


def _common_record(indexes: Sequence[ReferenceIndex]) -> EmbedderRecord:
    """Make the record of an embedder that is only known by name: equal for indexes with the same name."""
    if not indexes:
        raise CollectionError("No index to import was named.")
    records: dict[EmbedderRecord, Path] = {}
    for index in indexes:
        content = f"{index.model}\0{index.kind}\0{index.dimension}"
        fingerprint = IMPORTED + hashlib.sha256(content.encode()).hexdigest()[:16]
        records[EmbedderRecord(index.model, index.kind, index.dimension, fingerprint)] = index.directory
    if len(records) > 1:
        (record, directory), (other, elsewhere), *_ = records.items()
        raise FingerprintMismatch(
            f"{directory} is of {_describe(record)}, {elsewhere} of {_describe(other)}.",
            "Import each into its own collection.",
        )
    return next(iter(records))


def _describe(record: EmbedderRecord) -> str:
    return f"{record.name} ({record.kind}, {record.dimension})"


def _open_collection(
    directory: str | Path,
    options: CorpusOptions | None,
    imported: EmbedderRecord,
    embedder: Embedder | None,
    wait: float,
) -> Collection:
    """Open the collection to import into, bound to the embedder if there is one."""
    given = EmbedderRecord.of(embedder) if embedder else None
    collection = Collection.open_or_create(directory, options, embedder=given or imported, wait=wait)
    current = collection.header.embedder
    if current in {given, imported} - {None}:
        if given is None or current == given:
            return collection
        with collection.store.change() as change:
            change.put_header(replace(collection.header, embedder=given).to_json())
        return Collection.open(directory, wait=wait)
    if current is not None and given is not None:
        if current.fingerprint == given.fingerprint:
            return collection
        check_retired(current)
    vectors = _describe(current) if current else "no vectors"
    advice = "Import it into another collection"
    if current and not current.imported:
        advice += f", or name the collection's own embedder: --embedder {current.name}"
    raise FingerprintMismatch(
        f"The collection {directory} has {vectors}; the index was made by {_describe(given or imported)}.",
        f"{advice}.",
    )


def add_listing(
    collection: Collection,
    listing: Listing,
    finish: Callable[
        [Generator[Conversion, None, None], Listing, Path, Present], Generator[Made, None, None]
    ],
    progress: Callable[[IndexProgress], None] | None = None,
) -> AddReport:
    """Make the items of a list, which `finish` gives their vectors.

    Items that an earlier run made without a file that exists now are removed. Raises as `add_sources` does.
    """

    def produce(
        sources: Iterator[SourceFile], items_dir: Path, options: CorpusOptions, have: Present
    ) -> Generator[Made, None, None]:
        made = convert_entries(listing.entries, sources, items_dir, options, have)
        return finish(made, listing, items_dir, have)

    added = add_sources(collection, listing.sources, produce, progress=progress)
    rows = [d for d in collection.documents() if d.mtime_ns == ABSENT and d.id in listing.found]
    if rows:
        remove(collection, [document.path for document in rows])
    return added


def _with_vectors(
    conversions: Generator[Conversion, None, None], listing: Listing, _items_dir: Path, have: Present
) -> Generator[Made, None, None]:
    """Give the first item of each file its vector; an item whose picture cannot be read has no picture."""

    def embedded(source: SourceFile, item: Item, entry: ListEntry) -> Embedded | Failed:
        assert entry.vector is not None
        try:
            return Embedded(source, item, entry.vector())
        except (BadEntry, OSError) as error:
            return Failed(source, item.ordinal, f"Its vectors can no longer be read: {error}")

    with closing(conversions):
        for made in conversions:
            entry = listing.entries[os.fspath(made.source.path)]
            match made:
                case Converted(source=source, item=item) if item.ordinal == 1:
                    yield embedded(source, item, entry)
                case Converted(source=source, item=item):
                    yield Failed(
                        source, item.ordinal, "The imported index has a vector of the first item only."
                    )
                case Failed(source=source, ordinal=None | 1):
                    if made.ordinal is None:  # it could not even be opened
                        yield ItemCount(source, 1)
                    if 1 not in have(source):
                        yield embedded(source, bare_item(source, entry), entry)
                    yield made
                case _:
                    yield made


def _check_embedder(embedder: Embedder, mark: EmbedderRecord, listing: Listing) -> list[str]:
    """Refuse an embedder that did not make the vectors, as far as that can be checked; return doubts."""
    if (embedder.kind, embedder.dimension) != (mark.kind, mark.dimension):
        raise FingerprintMismatch(
            f"{embedder.name} makes {embedder.kind} vectors of {embedder.dimension}; those of the index are "
            f"{mark.kind} of {mark.dimension}, made by {mark.name}.",
            "Name the embedder that the index was made with.",
        )
    pairs = list(itertools.islice(_contents(embedder, listing), SAMPLE_SIZE))
    if not pairs:
        return ["No picture or text is here to tell whether the embedder is the one that made the vectors."]
    made = embedder.embed_items([content for content, _ in pairs])
    stored = [entry.vector() for _, entry in pairs if entry.vector is not None]
    alike = median(map(similarity, made, stored))
    if alike < MIN_SIMILARITY:
        raise FingerprintMismatch(
            f"{embedder.name} did not make these vectors: of the same pictures it makes others "
            f"(similarity {alike:.2f}).",
            f"Name the embedder that the index was made with: {mark.name}.",
        )
    if alike < DOUBTFUL_SIMILARITY:
        return [f"{embedder.name} makes slightly other vectors than those of the index ({alike:.3f})."]
    return []


def _contents(embedder: Embedder, listing: Listing) -> Iterator[tuple[EmbedContent, ListEntry]]:
    """Yield contents to embed again, spread over the listing."""
    pairs = list(listing.entries.items())
    for path, entry in (*pairs[:: max(1, len(pairs) // SAMPLE_SIZE)], *pairs):
        if entry.kind is EntryKind.TEXT and Modality.TEXT in embedder.modalities:
            yield EmbedContent(text=entry.content), entry
        is_found = entry.digest in listing.found  # other paths are made up
        if entry.kind is EntryKind.IMAGE and is_found and Modality.IMAGE in embedder.modalities:
            image = None
            with (
                suppress(OSError, CorpusError, ValueError, SyntaxError),
                open_picture(Path(path), CorpusOptions().max_pixels) as picture,
            ):
                image = picture.convert("RGB")
            if image is not None:
                yield EmbedContent(image=image), entry


def similarity(new: NDArray[np.floating], old: NDArray[np.floating]) -> float:
    """Compare two embeddings of one content: 1 if they are the same.

    It is the cosine; of several vectors, the mean over the new ones of their best cosine with any old one,
    since models put different numbers of vectors around those of the patches.
    """
    vectors = [np.atleast_2d(np.asarray(part, np.float64)) for part in (new, old)]
    lengths = [np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in vectors]
    cosines = (vectors[0] / lengths[0]) @ (vectors[1] / lengths[1]).T
    return float(cosines.max(axis=1).mean())
