"""Lexical search: the items with the words of a query.

The score of an item is the sum of three BM25 scores over the terms of the query without its
stop words (`bm25.py`):

- of the terms in its own text;
- `PHRASE` times that of pairs of words which follow each other in the query, stop words aside: the
  ordered windows of Metzler and Croft 2005, "A Markov random field model for term dependencies";
- `DOCUMENT` times that of the terms in its whole document, among documents: the report that a
  query means is often named on other pages of it (Callan 1994, "Passage-level evidence in document
  retrieval").

The weights were measured by `benchmarks/retrieval.py`. Scores are exact: there is no pruning, and the sum is
that of the formula, rounded to float32.

The index is in segments (`segment.py`), so that a change costs what it changes: only documents that no
segment holds are read, and small segments are merged with them. The statistics are those of all items, so
that scores do not depend on how documents are divided into segments.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.lexical.segment import (
    FORMAT,
    LexicalSegment,
    SegmentDocument,
    SegmentSelection,
    SegmentSource,
    WordStatistics,
)
from vrag.storage.array_cache import find_damaged_file, is_unfinished_cache, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from numpy.typing import NDArray

PHRASE = 0.2
"""Weight of phrases; quality is stable from 0.1 to 0.3."""
DOCUMENT = 1.0
"""Weight of the document; quality is stable from 0.5 to 2."""

MIN_SEGMENT_ITEMS = 1000
"""Items up to which a segment is merged with what is new: this takes some milliseconds."""
GROWTH = 2
"""A segment is merged with all smaller ones if these have together at least one GROWTH-th of its items. So
each is more than twice as large as all smaller ones together, and an item is merged a few times at most."""
MAX_REMOVED = 0.25
"""Part of a segment's items that may be removed before it is rewritten: they take time in every query."""
_CACHES = "lexical-"
_EMPTY = LexicalSegment.build([])


class LexicalEntry(NamedTuple):
    """An item for lexical search."""

    id: str
    document: str
    """Id of its document."""
    title: str
    """File name of its document: its words count as words of the document."""
    text: str


class LexicalDocument(NamedTuple):
    """A document whose items are searched."""

    content: SegmentDocument
    rows: NDArray[np.int32]
    """(items,) the rows of its items in the index, in the order of its texts."""


class _PlacedSegment(NamedTuple):
    """A segment in an index."""

    segment: LexicalSegment
    rows: NDArray[np.int32]
    """(items of the segment,) their rows in the index; for those that it does not have from this segment, the
    number of its items."""
    present: SegmentSelection | None
    """The documents that the index has from this segment; None if it has all."""


class LexicalIndex:
    """An index over the text of items, in segments. Immutable; may be shared by threads."""

    def __init__(self, ids: Sequence[str], parts: Sequence[_PlacedSegment]) -> None:
        self.ids = ids
        """Id of each row."""
        self._parts = tuple(parts)

    @classmethod
    def build(cls, entries: Iterable[LexicalEntry]) -> LexicalIndex:
        """Build an index of one segment, in memory; ids are distinct, their order is that of the rows."""
        listed = list(entries)
        rows: dict[str, list[int]] = {}
        for row, entry in enumerate(listed):
            rows.setdefault(entry.document, []).append(row)
        segment = LexicalSegment.build(
            SegmentSource(
                SegmentDocument(document, "", len(own)),
                listed[own[0]].title,
                [listed[row].text for row in own],
            )
            for document, own in rows.items()
        )
        order = np.array([row for own in rows.values() for row in own], np.int32)
        return cls([entry.id for entry in listed], [_PlacedSegment(segment, order, None)])

    @property
    def segments(self) -> list[LexicalSegment]:
        """The segments of the index."""
        return [part.segment for part in self._parts]

    def statistics(self, query: str, counted: NDArray[np.bool_] | None = None) -> WordStatistics:
        """Return the statistics for a query of the items that count, (rows,); None for all items.

        All items of a document count, or none.
        """
        total = _EMPTY.statistics(query)
        mask = None if counted is None else np.append(counted, np.False_)
        for segment, rows, present in self._parts:
            own = present if mask is None else segment.select(mask[rows])
            total = total.plus(segment.statistics(query, own))
        return total

    def scores(
        self,
        query: str,
        statistics: WordStatistics | None = None,
        *,
        phrase: float = PHRASE,
        document: float = DOCUMENT,
    ) -> NDArray[np.float32]:
        """Return the score of every item, (rows,) in the order of `ids`; 0 where nothing is found.

        If a query has only stop words, they are searched. The statistics are those of all collections that
        are searched with this query, None where these items are all; `phrase` and `document` are weights.
        """
        known = statistics or self.statistics(query)
        total = np.zeros(len(self.ids) + 1, np.float32)
        for segment, rows, _ in self._parts:
            total[rows] = segment.scores(query, known, phrase=phrase, document=document)
        return total[:-1]

    def search(
        self,
        query: str,
        top_k: int,
        mask: NDArray[np.bool_] | None = None,
        statistics: WordStatistics | None = None,
    ) -> list[tuple[str, float]]:
        """Find the best items, exactly, among those of a mask (rows,); None for all.

        The statistics are as for `scores`. Ids and scores are best first, ties by id; only scores above 0. An
        item whose own text has none of the words may be among them, because of its document.
        """
        scores = self.scores(query, statistics)
        allowed = scores > 0 if mask is None else (scores > 0) & mask
        found = np.flatnonzero(allowed)
        if 0 < top_k < len(found):
            least = np.partition(scores[found], -top_k)[-top_k]
            found = found[scores[found] >= least]
        best = sorted(
            ((self.ids[row], float(scores[row])) for row in found.tolist()), key=lambda hit: (-hit[1], hit[0])
        )
        return best[: max(top_k, 0)]

    def rows_with(self, phrase: str) -> NDArray[np.int32]:
        """Return the rows of items that have all words of a phrase, and each beside the next, ascending."""
        found = [rows[segment.rows_with(phrase)] for segment, rows, _ in self._parts]
        every = np.concatenate([np.empty(0, np.int32), *found])
        return np.sort(every[every < len(self.ids)])


def open_lexical(
    home: Path,
    ids: Sequence[str],
    documents: Mapping[str, LexicalDocument],
    read: Callable[[AbstractSet[str]], Iterable[SegmentSource] | None],
    known: Sequence[LexicalSegment] = (),
    find_removed: Callable[[], AbstractSet[str]] = frozenset,
) -> LexicalIndex | None:
    """Open the index of documents, whose ids are the keys, from the segments in a folder of caches.

    What no segment has is read, and kept in a new one; `read` returns the documents of some ids, or None if
    one is gone: then None is returned. `known` are segments that are open already. Where nothing can be
    written, new segments are in memory alone; so is one with a document that `find_removed`, which returns
    those that are no longer in the collection, has after it was written.
    """
    candidates = [*known, *_load_segments(home, {segment.name for segment in known})]
    while True:
        chosen, missing = _choose(candidates, documents)
        merged = _choose_merged(chosen, sum(len(documents[id].rows) for id in missing))
        damaged = [segment for segment in merged if _is_damaged(home, segment)]
        if not damaged:
            break
        candidates = [segment for segment in candidates if segment not in damaged]
    fresh: list[LexicalSegment] = []
    if missing:
        texts = read(missing)
        if texts is None:
            return None
        fresh = [LexicalSegment.build(texts)]
    if merged or fresh:
        parts = [(segment, kept) for segment, kept in chosen if segment in merged]
        parts += [(segment, np.ones(len(segment.contents), np.bool_)) for segment in fresh]
        made = parts[0][0] if fresh and len(parts) == 1 else LexicalSegment.merge(parts)
        chosen = [pair for pair in chosen if pair[0] not in merged]
        chosen.append((made, np.ones(len(made.contents), np.bool_)))
        path = _path_of(home, made)
        with suppress(OSError):  # searching does not depend on the cache
            made.save(path)
        if find_removed().isdisjoint(content.id for content in made.contents):
            made = LexicalSegment.load(path) or made
        else:  # the collection may have been compacted: no word of the document is to stay there
            shutil.rmtree(path, ignore_errors=True)
        chosen[-1] = made, chosen[-1][1]
        names = tuple(_path_of(home, segment).name for segment, _ in chosen)
        with suppress(OSError):
            sweep(home, _CACHES, names)
    return LexicalIndex(ids, [_place(segment, kept, documents, len(ids)) for segment, kept in chosen])


def compact_segments(home: Path, documents: Mapping[str, LexicalDocument]) -> None:
    """Rewrite the segments in a folder without documents that are not among these, and delete needless ones.

    Of the words of other documents no byte is left.
    """
    chosen, _ = _choose(_load_segments(home, frozenset()), documents)
    keep: set[Path] = set()
    for segment, kept in chosen:
        needed = segment
        if not kept.all():
            needed = LexicalSegment.merge([(segment, kept)])
            with suppress(OSError):  # it is made again when it is needed
                needed.save(_path_of(home, needed))
        keep.add(_path_of(home, needed))
    for path in _list_segments(home):
        if path not in keep:
            shutil.rmtree(path, ignore_errors=True)


def is_segment(name: str) -> bool:
    """Return whether a folder of this name holds a segment."""
    return name.startswith(f"{_CACHES}{FORMAT}-") and not is_unfinished_cache(name)


def _path_of(home: Path, segment: LexicalSegment) -> Path:
    return home / f"{_CACHES}{segment.name}"


def _is_damaged(home: Path, segment: LexicalSegment) -> bool:
    """Check every byte of a segment: a merge would give what is damaged in it a valid checksum."""
    path = _path_of(home, segment)
    return path.is_dir() and find_damaged_file(path) is not None


def _list_segments(home: Path) -> list[Path]:
    return sorted(path for path in home.glob(f"{_CACHES}*") if is_segment(path.name))


def _load_segments(home: Path, besides: AbstractSet[str]) -> list[LexicalSegment]:
    names = [path for path in _list_segments(home) if path.name.removeprefix(_CACHES) not in besides]
    return [segment for path in names if (segment := LexicalSegment.load(path)) is not None]


def _is_current(content: SegmentDocument, documents: Mapping[str, LexicalDocument]) -> bool:
    document = documents.get(content.id)
    return document is not None and document.content == content


_Chosen = list[tuple[LexicalSegment, "NDArray[np.bool_]"]]
"""Segments, each with which of its documents are taken from it, (documents,)."""


def _choose(
    segments: Sequence[LexicalSegment], documents: Mapping[str, LexicalDocument]
) -> tuple[_Chosen, set[str]]:
    """Choose the segments to take each document from; return them and the documents that none has.

    The next is the one with the most items that are still needed; of several, the smallest: one that another
    was rewritten from may still be there.
    """
    numbers = {id: number for number, id in enumerate(documents)}
    needed = np.ones(len(numbers) + 1, np.bool_)
    needed[-1] = False  # for documents that are removed or changed
    places = {
        segment: np.array(
            [
                numbers[content.id] if _is_current(content, documents) else len(numbers)
                for content in segment.contents
            ],
            np.intp,
        )
        for segment in segments
    }
    chosen: _Chosen = []
    while needed.any():
        kept = {segment: needed[own] for segment, own in places.items()}
        sizes = {segment: _count_items(segment, own) for segment, own in kept.items() if own.any()}
        if not sizes:
            break
        best = min(sizes, key=lambda each: (-sizes[each], len(each.document_of), each.name))
        chosen.append((best, kept[best]))
        needed[places[best]] = False
    return chosen, {id for id, is_missing in zip(documents, needed[:-1].tolist(), strict=True) if is_missing}


def _count_items(segment: LexicalSegment, kept: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(kept[segment.document_of]))


def _choose_merged(chosen: _Chosen, fresh: int) -> list[LexicalSegment]:
    """Choose the segments to be merged, with so many items that no segment has."""
    sizes = {segment: _count_items(segment, kept) for segment, kept in chosen}
    least = 1 - MAX_REMOVED
    hollow = [segment for segment, size in sizes.items() if size < least * len(segment.document_of)]
    total = fresh + sum(sizes[segment] for segment in hollow)
    if not total:
        return []
    others = sorted(sizes.keys() - set(hollow), key=lambda each: (sizes[each], each.name))
    number = 0
    for place, segment in enumerate(others, 1):
        if sizes[segment] <= max(GROWTH * total, MIN_SEGMENT_ITEMS):
            number = place
        total += sizes[segment]
    return [*hollow, *others[:number]]


def _place(
    segment: LexicalSegment, kept: NDArray[np.bool_], documents: Mapping[str, LexicalDocument], items: int
) -> _PlacedSegment:
    """Place the documents that are kept of a segment in an index of so many items."""
    present = None if kept.all() else segment.select(kept[segment.document_of])
    rows = [
        documents[content.id].rows if stays else np.full(content.items, items, np.int32)
        for content, stays in zip(segment.contents, kept.tolist(), strict=True)
    ]
    return _PlacedSegment(segment, np.concatenate([np.empty(0, np.int32), *rows]), present)
