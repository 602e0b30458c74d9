"""An index that the reference made becomes a collection.

Its vectors are taken as they are. What the pictures show, their text and word boxes are made here, as for
any file; so is all that makes a build safe to kill, since everything goes through `build.add_sources`.
A picture that is not to be found costs the picture, not the item.

The model that made the vectors is needed to search them, and the index only tells its name. So the
collection is marked with the embedder that the caller gives, if it makes vectors as those of the index;
without one it is marked `imported:…`, which no embedder is, until an import of the same index names one.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vrag.corpus.converter import Converted, Failed, ItemCount
from vrag.corpus.formats.image import open_picture
from vrag.corpus.options import CorpusOptions
from vrag.embed.embedder import EmbedContent, Modality
from vrag.embed.fingerprint import check_retired
from vrag.errors import CollectionError, CorpusError, FingerprintMismatch
from vrag.index.build import AddReport, add_sources, remove
from vrag.index.collection import Collection
from vrag.index.collection_json import IMPORTED, EmbedderRecord
from vrag.index.embed_items import Embedded
from vrag.index.reference.entry_list import (
    BadEntry,
    EntryKind,
    FileFinder,
    bare_item,
    convert_entries,
    list_entries,
)
from vrag.index.reference.index_files import read_old_index
from vrag.types import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from collections.abc import Collection as Container

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.converter import Conversion, SourceFile
    from vrag.corpus.discover import Skipped
    from vrag.embed.embedder import Embedder
    from vrag.index.embed_items import Made
    from vrag.index.progress import IndexProgress
    from vrag.index.reference.entry_list import ListEntry, Listing
    from vrag.index.reference.index_files import ReferenceIndex

__all__ = ["ImportReport", "add_listing", "import_indexes", "similarity"]

SAMPLE = 4
"""Pictures or texts that are embedded anew to see whether an embedder is the one that made the vectors."""
CLEARLY_ANOTHER = 0.9
"""Similarity below which it is not: more than precision, image library and JPEG can account for."""
DOUBTFUL = 0.98
_ELSEWHERE = (
    "Pictures and videos are looked for below the folder of the index alone; to have those that lie "
    "elsewhere, name their folder: --files DIR"
)
Have: TypeAlias = "Callable[[SourceFile], Container[int]]"
"""Which items of a source need not be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did. Nothing that the indexes hold is left unmentioned."""

    added: AddReport
    """What became of the entries that can be used, each once."""
    entries: int
    """How many the indexes have, those included that cannot be used."""
    without_file: int
    """Entries whose picture or video was not found: their items have none."""
    duplicates: int
    """Entries that say again what another one says."""
    unusable: tuple[Skipped, ...]
    """Entries and nodes that cannot be used, with reasons."""
    embedder: EmbedderRecord
    """Whose vectors the collection holds now."""
    notes: tuple[str, ...]
    """What a person should know."""


def import_indexes(
    directory: str | Path,
    paths: Sequence[Path],
    options: CorpusOptions | None = None,
    *,
    files: Path | None = None,
    embedder: Embedder | None = None,
    progress: Callable[[IndexProgress], None] | None = None,
) -> ImportReport:
    """Brings indexes of the reference into a collection, which is made if there is none.

    Killed at any moment, the same call goes on and gives what a clean import gives. Called again with
    `files` that were not there before, items get their pictures; with an embedder, a collection that had
    none is bound to it.

    Args:
        directory: The collection.
        paths: Directories as `read_old_index` takes them, all of one model.
        options: How pictures become items; None for those of the collection, or the defaults.
        files: Where pictures and videos lie here, at any depth; None if below the folder of the index.
        embedder: The one that made the vectors.
        progress: Is told how far it has come.

    Raises:
        FingerprintMismatch: If indexes are of different models, or the embedder does not make such
            vectors, or the collection holds vectors of another.
        CollectionError: If an index is torn, or nothing in it can be used.
        CollectionBusy: If another process is writing to the collection.
        EmbedError: If the embedder fails on the sample.
    """
    indexes = [read_old_index(path) for path in paths]
    mark = _common_mark(indexes)
    entries = [entry for index in indexes for entry in index.entries]
    unusable = tuple(itertools.chain.from_iterable(index.problems for index in indexes))
    if not entries:
        reasons = "; ".join(f"{problem.path.name}: {problem.reason}" for problem in unusable[:3])
        raise CollectionError(f"Nothing can be used of what is to be imported. {reasons}".strip())
    listing = list_entries(entries, FileFinder(files))
    notes = [note for index in indexes for note in index.notes]
    if listing.missing and files is None:
        notes.append(_ELSEWHERE)
    if embedder is not None:
        notes += _check_embedder(embedder, mark, listing)
    collection = _collection(directory, options, mark, embedder)
    added = add_listing(collection, listing, _with_vectors, progress)
    held = collection.header.embedder
    assert held is not None
    return ImportReport(
        added=added,
        entries=len(entries) + len(unusable),
        without_file=listing.missing,
        duplicates=listing.duplicates,
        unusable=unusable,
        embedder=held,
        notes=tuple(notes),
    )


def _common_mark(indexes: Sequence[ReferenceIndex]) -> EmbedderRecord:
    """The mark of vectors whose model nobody has named yet: equal for indexes that name the same."""
    if not indexes:
        raise CollectionError("No index to import was named.")
    marks = {_imported_mark(index): index.directory for index in indexes}
    if len(marks) > 1:
        (mark, place), (other, elsewhere), *_ = marks.items()
        raise FingerprintMismatch(
            f"{place} is of {_named(mark)}, {elsewhere} of {_named(other)}.",
            "Import them into a collection each.",
        )
    return next(iter(marks))


def _imported_mark(index: ReferenceIndex) -> EmbedderRecord:
    content = f"{index.model}\0{index.kind}\0{index.dimension}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return EmbedderRecord(index.model, index.kind, index.dimension, IMPORTED + digest)


def _named(mark: EmbedderRecord) -> str:
    return f"{mark.name} ({mark.kind}, {mark.dimension})"


def _collection(
    directory: str | Path, options: CorpusOptions | None, mark: EmbedderRecord, embedder: Embedder | None
) -> Collection:
    """The collection to import into, bound to the embedder if there is one."""
    given = EmbedderRecord.of(embedder) if embedder else None
    collection = Collection.open_or_create(directory, options, embedder=given or mark)
    held = collection.header.embedder
    if held in {given, mark} - {None}:
        if given is None or held == given:
            return collection
        with collection.lock():
            replace(collection.header, embedder=given).write(collection.directory)
        return Collection.open(directory)
    if held is not None and given is not None and held.fingerprint == given.fingerprint:
        return collection
    if held is not None and given is not None:
        check_retired(held)
    theirs = _named(held) if held else "no vectors"
    raise FingerprintMismatch(
        f"The collection {directory} holds {theirs}, and the index was made by {_named(given or mark)}.",
        "Import it into another collection"
        + (f", or name the collection's own: --embedder {held.name}" if held and not held.imported else "."),
    )


def add_listing(
    collection: Collection,
    listing: Listing,
    finish: Callable[[Generator[Conversion, None, None], Listing, Have], Generator[Made, None, None]],
    progress: Callable[[IndexProgress], None] | None = None,
) -> AddReport:
    """Makes the items of a list, and removes what an earlier run made without the file that is here now.

    Args:
        collection: Where to.
        listing: What to make.
        finish: Gives the items their vectors.
        progress: Is told how far it has come.

    Raises:
        CollectionError: As `add_sources`.
    """

    def produce(
        sources: Iterator[SourceFile], items_dir: Path, options: CorpusOptions, have: Have
    ) -> Generator[Made, None, None]:
        made = convert_entries(listing.entries, sources, items_dir, options, have)
        return finish(made, listing, have)

    added = add_sources(collection, listing.sources, produce, progress=progress)
    rows = [d for d in collection.documents() if d.mtime_ns == ABSENT and d.id in listing.found]
    if rows:
        remove(collection, [document.path for document in rows])
    return added


def _with_vectors(
    conversions: Generator[Conversion, None, None], listing: Listing, have: Have
) -> Generator[Made, None, None]:
    with closing(conversions):
        for made in conversions:
            yield from _with_vector(made, listing.entries[os.fspath(made.source.path)], have)


def _with_vector(
    made: Conversion, entry: ListEntry, have: Callable[[SourceFile], Container[int]]
) -> Iterator[Made]:
    """Gives the first item of a file its vector; an item whose picture cannot be read comes without it."""
    match made:
        case Converted(item=item) if item.ordinal == 1:
            yield _embedded(made, entry)
        case Converted(source=source, item=item):
            yield Failed(source, item.ordinal, "The imported index has a vector of the first item only.")
        case Failed(source=source, ordinal=None | 1):
            if made.ordinal is None:  # it could not even be opened
                yield ItemCount(source, 1)
            if 1 not in have(source):
                yield _embedded(Converted(source, bare_item(source, entry)), entry)
            yield made
        case _:
            yield made


def _embedded(made: Converted, entry: ListEntry) -> Embedded | Failed:
    assert entry.vector is not None
    try:
        return Embedded(made.source, made.item, entry.vector())
    except (BadEntry, OSError) as error:
        return Failed(made.source, made.item.ordinal, f"Its vectors can no longer be read: {error}")


def _check_embedder(embedder: Embedder, mark: EmbedderRecord, listing: Listing) -> list[str]:
    """Refuses an embedder that is not the one that made the vectors, as far as that can be told.

    Returns:
        Doubts, for people.
    """
    if (embedder.kind, embedder.dimension) != (mark.kind, mark.dimension):
        raise FingerprintMismatch(
            f"{embedder.name} makes {embedder.kind} vectors of {embedder.dimension}; those of the index are "
            f"{mark.kind} of {mark.dimension}, made by {mark.name}.",
            "Name the embedder that the index was made with.",
        )
    pairs = list(itertools.islice(_contents(embedder, listing), SAMPLE))
    if not pairs:
        return ["No picture or text is here to tell whether the embedder is the one that made the vectors."]
    made = embedder.embed_items([content for content, _ in pairs])
    stored = [entry.vector() for _, entry in pairs if entry.vector is not None]
    alike = median(map(similarity, made, stored))
    if alike < CLEARLY_ANOTHER:
        raise FingerprintMismatch(
            f"{embedder.name} is not what made these vectors: of the same pictures it makes others "
            f"(similarity {alike:.2f}).",
            f"Name the embedder that the index was made with: {mark.name}.",
        )
    if alike < DOUBTFUL:
        return [f"{embedder.name} makes slightly other vectors than those of the index ({alike:.3f})."]
    return []


def _contents(embedder: Embedder, listing: Listing) -> Iterator[tuple[EmbedContent, ListEntry]]:
    """What can be embedded anew, spread over the listing."""
    pairs = list(listing.entries.items())
    for path, entry in (*pairs[:: max(1, len(pairs) // SAMPLE)], *pairs):
        if entry.kind is EntryKind.TEXT and Modality.TEXT in embedder.modalities:
            yield EmbedContent(text=entry.content), entry
        elif _is_picture(entry, listing) and Modality.IMAGE in embedder.modalities:
            image = _picture(Path(path))
            if image is not None:
                yield EmbedContent(image=image), entry


def _is_picture(entry: ListEntry, listing: Listing) -> bool:
    """Whether its path is that of a picture which was found: any other is made up, whatever lies there."""
    return entry.kind is EntryKind.IMAGE and entry.digest in listing.found


def _picture(path: Path) -> Image | None:
    try:
        with open_picture(path, CorpusOptions().max_pixels) as image:
            return image.convert("RGB")
    except (OSError, CorpusError, ValueError, SyntaxError):
        return None


def similarity(new: NDArray[np.floating], old: NDArray[np.floating]) -> float:
    """How alike two embeddings of one thing are, 1 for the same.

    The cosine; of several vectors, the mean over the new ones of their best cosine with any old one, since
    models put different numbers of vectors around those of the patches.
    """
    rows = [_normalised(np.atleast_2d(np.asarray(part, np.float64))) for part in (new, old)]
    return float((rows[0] @ rows[1].T).max(axis=1).mean())


def _normalised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
