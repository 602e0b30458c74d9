"""A segment of lexical search: an immutable index over the items of some whole documents.

Documents are never divided: the score of an item depends on its whole document. A segment is made from texts,
or merged from others without reading a text again.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.lexical.bm25 import (
    STOP_WORDS,
    Counts,
    Frequencies,
    Postings,
    RowSelection,
    is_word,
    terms,
)
from vrag.storage.array_cache import ArrayContent, find, make

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

FORMAT = 6
"""Version of what `save` writes and of the tokenizer: part of the name of a segment."""
_UNKNOWN = 2**64 - 1
"""The key of terms that occur nowhere: terms are numbered from 0, in less than 32 bits."""
_HALF = np.uint64(32)
"""Bits of a term in the key of a phrase, which is two terms."""
_CACHE_SIZE = 64
"""Queries whose matches are kept: each is needed for its statistics, and then for its scores."""
_POSTINGS = ("items", "phrases", "documents")
_ARRAYS = ("keys", "starts", "rows", "counts", "lengths")
"""The arrays of `Postings`."""
_ENCODING = "utf-8", "surrogatepass"


class SegmentDocument(NamedTuple):
    """A document in a segment."""

    id: str
    hash: str
    """Hash over its name and the texts of its items."""
    items: int
    """Number of its items."""


class SegmentSource(NamedTuple):
    """A document to build a segment from."""

    document: SegmentDocument
    title: str
    """File name: its words count as words of the document."""
    texts: Sequence[str]
    """The texts of its items."""


class WordStatistics(NamedTuple):
    """The statistics that the scores for a query depend on, besides the text of an item and its document.

    Those of several indexes without a common document add up to those of one index with all their items.
    """

    items: Frequencies
    """Statistics of the query's terms in items."""
    phrases: Frequencies
    """Statistics of the query's phrases in items."""
    documents: Frequencies
    """Statistics of the query's terms in documents."""

    def plus(self, other: WordStatistics) -> WordStatistics:
        """Return the statistics of two indexes together, for the same query."""
        return WordStatistics(*(mine.plus(theirs) for mine, theirs in zip(self, other, strict=True)))


class SegmentSelection(NamedTuple):
    """Some of the documents of a segment, as rows of its postings."""

    items: RowSelection
    phrases: RowSelection
    documents: RowSelection


class QueryTerms(NamedTuple):
    """The terms of a query that are looked up, with its phrases."""

    terms: list[str]
    """Those that are no stop words; all if there are no others."""
    phrases: list[int]
    """Places of the terms that make a phrase with the next one."""


class Matches(NamedTuple):
    """The postings of a query's terms and phrases."""

    items: list[slice]
    phrases: list[slice]
    documents: list[slice]


@dataclass(frozen=True, slots=True)
class TermDictionary:
    """The terms of a segment, sorted; the number of a term is its place."""

    text: NDArray[np.uint8]
    """All terms one after the other, in UTF-8."""
    ends: NDArray[np.int64]
    """(terms,) where each ends."""

    @classmethod
    def of(cls, words: Sequence[bytes]) -> TermDictionary:
        """Store sorted terms."""
        ends = np.fromiter(accumulate(map(len, words)), np.int64, len(words))
        return cls(np.frombuffer(b"".join(words), np.uint8), ends)

    def words(self) -> list[bytes]:
        """Return all terms."""
        text, ends = self.text.tobytes(), self.ends.tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def find(self, term: str) -> int:
        """Return the number of a term, or a key that nothing has."""
        wanted = term.encode(*_ENCODING)
        place = bisect_left(range(len(self.ends)), wanted, key=self._word)
        return place if place < len(self.ends) and self._word(place) == wanted else _UNKNOWN

    def _word(self, number: int) -> bytes:
        start = int(self.ends[number - 1]) if number else 0
        return self.text[start : int(self.ends[number])].tobytes()


class LexicalSegment:
    """An immutable index over the items of whole documents: rows are items, document by document.

    May be shared by threads.
    """

    def __init__(
        self,
        contents: Sequence[SegmentDocument],
        vocabulary: TermDictionary,
        items: Postings,
        phrases: Postings,
        documents: Postings,
    ) -> None:
        self.contents = tuple(contents)
        """The documents in the order of their rows."""
        counts = [document.items for document in contents]
        self.document_of: NDArray[np.int32] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        """(rows,) place of each item's document in `contents`."""
        self.vocabulary = vocabulary
        self.item_postings = items
        """The terms of items."""
        self.phrase_postings = phrases
        """The phrases of items: a key is two terms."""
        self.document_postings = documents
        """The terms of documents and of their titles."""
        # Without `self`: a reference cycle would keep the maps.
        find = partial(_find_terms, vocabulary, items, phrases, documents)
        self._matches = lru_cache(maxsize=_CACHE_SIZE)(find)

    @classmethod
    def build(cls, documents: Iterable[SegmentSource]) -> LexicalSegment:
        """Count the terms of documents, whose ids are distinct."""
        contents: list[SegmentDocument] = []
        counter, in_titles = _TermCounter(), _RowCounts()
        for document, title, texts in documents:
            contents.append(document)
            for text in texts:
                counter.add(text)
            in_titles.add(counter.numbers(Path(title).stem).astype(np.uint64))
        words, places = counter.sort()
        items = _renumber(counter.terms.joined(), places)
        titles = _renumber(in_titles.joined(), places)
        sizes = [document.items for document in contents]
        document_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        phrases = _renumber_pairs(counter.phrases.joined(), places)
        return cls._of_counts(contents, words, items, phrases, _sum_documents(items, document_of, titles))

    @classmethod
    def merge(cls, parts: Sequence[tuple[LexicalSegment, NDArray[np.bool_]]]) -> LexicalSegment:
        """Merge segments, each with which of its documents are kept, (documents,); no document is in two."""
        words = [segment.vocabulary.words() for segment, _ in parts]
        union = sorted(set[bytes]().union(*words))
        numbers = {word: number for number, word in enumerate(union)}
        contents: list[SegmentDocument] = []
        items, phrases, documents = list[Counts](), list[Counts](), list[Counts]()
        rows = 0
        for (segment, kept), known in zip(parts, words, strict=True):
            places = np.fromiter(map(numbers.__getitem__, known), np.uint64, len(known))
            of_items = _number(kept[segment.document_of], rows)
            of_documents = _number(kept, len(contents))
            items.append(_renumber(segment.item_postings.counts_of(of_items), places))
            phrases.append(_renumber_pairs(segment.phrase_postings.counts_of(of_items), places))
            documents.append(_renumber(segment.document_postings.counts_of(of_documents), places))
            contents += [document for document, stays in zip(segment.contents, kept, strict=True) if stays]
            rows += int(np.count_nonzero(of_items >= 0))
        return cls._of_counts(contents, union, _join(items), _join(phrases), _join(documents))

    @classmethod
    def _of_counts(
        cls,
        contents: Sequence[SegmentDocument],
        words: Sequence[bytes],
        items: Counts,
        phrases: Counts,
        documents: Counts,
    ) -> LexicalSegment:
        """Make a segment of counts whose keys are places in `words`; those that occur are its terms."""
        used = np.zeros(len(words), np.bool_)
        used[items.keys] = used[documents.keys] = True
        places = (np.cumsum(used) - 1).astype(np.uint64)
        return cls(
            contents,
            TermDictionary.of([word for word, is_used in zip(words, used.tolist(), strict=True) if is_used]),
            Postings.build(_renumber(items, places), sum(document.items for document in contents)),
            Postings.build(_renumber_pairs(phrases, places), sum(document.items for document in contents)),
            Postings.build(_renumber(documents, places), len(contents)),
        )

    @cached_property
    def name(self) -> str:
        """Name of the cache that holds it: a hash over what it is made of."""
        content = "\n".join(f"{document.id} {document.hash}" for document in self.contents)
        return f"{FORMAT}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def select(self, counted: NDArray[np.bool_]) -> SegmentSelection:
        """Select the items that count, (rows,): all items of a document, or none."""
        documents = np.zeros(len(self.contents), np.bool_)
        documents[self.document_of[counted]] = True
        return SegmentSelection(
            self.item_postings.select(counted),
            self.phrase_postings.select(counted),
            self.document_postings.select(documents),
        )

    def statistics(self, query: str, counted: SegmentSelection | None = None) -> WordStatistics:
        """Return the statistics for a query of the documents that count; None for all."""
        matches = self._matches(query)
        items, phrases, documents = counted or (None, None, None)
        return WordStatistics(
            self.item_postings.frequencies(matches.items, items),
            self.phrase_postings.frequencies(matches.phrases, phrases),
            self.document_postings.frequencies(matches.documents, documents),
        )

    def scores(
        self, query: str, statistics: WordStatistics, *, phrase: float, document: float
    ) -> NDArray[np.float32]:
        """Return the score of every item, (rows,); 0 where nothing is found.

        The statistics are those of all items that are searched; `phrase` and `document` are weights.
        """
        matches = self._matches(query)
        total = np.zeros(len(self.document_of), np.float32)
        self.item_postings.add(total, matches.items, statistics.items, 1.0)
        self.phrase_postings.add(total, matches.phrases, statistics.phrases, phrase)
        of_documents = np.zeros(len(self.contents), np.float32)
        self.document_postings.add(of_documents, matches.documents, statistics.documents, document)
        total += of_documents.take(self.document_of)
        return total

    def rows_with(self, phrase: str) -> NDArray[np.int32]:
        """Return the rows of items that have all words of a phrase, and each beside the next, ascending."""
        matches = self._matches(phrase)
        lists = [self.item_postings.rows[span] for span in matches.items]
        lists += [self.phrase_postings.rows[span] for span in matches.phrases]
        found = lists[0].astype(np.int32) if lists else np.empty(0, np.int32)
        for rows in lists[1:]:
            found = np.intersect1d(found, rows.astype(np.int32), assume_unique=True)
        return found

    def save(self, directory: Path) -> None:
        """Write a cache directory as a whole, unless there is a valid one. Raises `OSError`."""

        def write(scratch: Path) -> ArrayContent:
            arrays: dict[str, NDArray[np.generic]] = {
                "terms": self.vocabulary.text,
                "term-ends": self.vocabulary.ends,
            }
            for name, postings in zip(
                _POSTINGS, (self.item_postings, self.phrase_postings, self.document_postings), strict=True
            ):
                arrays |= {f"{name}-{array}": getattr(postings, array) for array in _ARRAYS}
            for name, values in arrays.items():
                values.tofile(scratch / name)
            shapes = {name: (values.dtype.type, values.shape) for name, values in arrays.items()}
            return ArrayContent(shapes, {"documents": [list(document) for document in self.contents]})

        make(directory.parent, directory, write)

    @classmethod
    def load(cls, directory: Path) -> LexicalSegment | None:
        """Load what `save` wrote, mapped into memory; None when it is missing or a byte of it is damaged."""
        stored = find(directory, whole=True)
        if stored is None:
            return None
        contents = [SegmentDocument(*entry) for entry in stored.facts["documents"]]
        vocabulary = TermDictionary(stored.arrays["terms"], stored.arrays["term-ends"])
        parts = [Postings(*(stored.arrays[f"{name}-{array}"] for array in _ARRAYS)) for name in _POSTINGS]
        return cls(contents, vocabulary, *parts)


@lru_cache(maxsize=_CACHE_SIZE)
def _read_query(query: str) -> QueryTerms:
    every = terms(query)
    chosen = [term for term in every if term not in STOP_WORDS] or every
    phrases = [at for at, pair in enumerate(pairwise(chosen)) if all(map(is_word, pair))]
    return QueryTerms(chosen, phrases)


def _find_terms(
    vocabulary: TermDictionary, items: Postings, phrases: Postings, documents: Postings, query: str
) -> Matches:
    """Find a query's terms and phrases.

    Their number and order is the same in every segment: their statistics can be added up.
    """
    wanted = _read_query(query)
    keys = np.array([vocabulary.find(term) for term in wanted.terms], np.uint64)
    places = np.array(wanted.phrases, np.intp)
    first, second = keys[places], keys[places + 1]
    unknown = (first == _UNKNOWN) | (second == _UNKNOWN)
    pairs = np.where(unknown, np.uint64(_UNKNOWN), (first << _HALF) | second)
    return Matches(items.find(keys), phrases.find(pairs), documents.find(keys))


class _RowCounts:
    """The counts of rows, collected row by row."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []
        self._counts: list[NDArray[np.int32]] = []

    def add(self, keys: NDArray[np.uint64]) -> None:
        distinct, counts = np.unique(keys, return_counts=True)
        self._keys.append(distinct)
        self._counts.append(counts.astype(np.int32))

    def joined(self) -> Counts:
        """Return all counts so far and release them: of many texts they take much memory."""
        sizes = [len(keys) for keys in self._keys]
        rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        self._keys.clear()
        counts = np.concatenate([np.empty(0, np.int32), *self._counts])
        self._counts.clear()
        return Counts(keys, rows, counts)


class _TermCounter:
    """A counter of terms and phrases, fed one text after the other; it numbers the terms as they come."""

    def __init__(self) -> None:
        self.terms = _RowCounts()
        self.phrases = _RowCounts()
        self._numbers: dict[str, int] = {}
        self._is_word = array("b")
        self._is_stop = array("b")

    def add(self, text: str) -> None:
        """Count the terms and phrases, pairs of words that follow each other, of the next row."""
        numbers = self.numbers(text)
        self.terms.add(numbers.astype(np.uint64))
        kept = numbers[~_flags(self._is_stop, numbers)]
        words = _flags(self._is_word, kept)
        both = words[:-1] & words[1:]
        first, second = kept[:-1][both].astype(np.uint64), kept[1:][both].astype(np.uint64)
        self.phrases.add((first << _HALF) | second)

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Return the numbers of a text's terms, in its order; new terms get new numbers."""
        found = terms(text)
        for term in found:
            if self._numbers.setdefault(term, len(self._numbers)) == len(self._is_word):
                self._is_word.append(is_word(term))
                self._is_stop.append(term in STOP_WORDS)
        return np.fromiter(map(self._numbers.__getitem__, found), np.int64, len(found))

    def sort(self) -> tuple[list[bytes], NDArray[np.uint64]]:
        """Return the terms, sorted, and the place of each number among them."""
        words = [term.encode(*_ENCODING) for term in self._numbers]
        order = sorted(range(len(words)), key=words.__getitem__)
        places = np.empty(len(words), np.uint64)
        places[order] = np.arange(len(words), dtype=np.uint64)
        return [words[number] for number in order], places


def _flags(of_terms: array[int], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.fromiter(map(of_terms.__getitem__, numbers), np.bool_, len(numbers))


def _number(kept: NDArray[np.bool_], first: int) -> NDArray[np.int32]:
    """Number what is kept, from a first number on; -1 for the others."""
    return np.where(kept, np.cumsum(kept, dtype=np.int32) + np.int32(first - 1), np.int32(-1))


def _renumber(counts: Counts, places: NDArray[np.uint64]) -> Counts:
    """Return counts of terms by other numbers of these."""
    return counts._replace(keys=places[counts.keys])


def _renumber_pairs(counts: Counts, places: NDArray[np.uint64]) -> Counts:
    """Return counts of phrases by other numbers of their terms."""
    first, second = counts.keys >> _HALF, counts.keys & np.uint64(2**32 - 1)
    return counts._replace(keys=(places[first] << _HALF) | places[second])


def _join(parts: Sequence[Counts]) -> Counts:
    """Return the counts of parts whose rows follow each other."""
    return Counts(
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.rows for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.counts for part in parts)]),
    )


def _sum_documents(items: Counts, document_of: NDArray[np.int32], titles: Counts) -> Counts:
    """Return the counts per document: those of its items and of its title together."""
    keys = np.concatenate([items.keys, titles.keys])
    rows = np.concatenate([document_of[items.rows], titles.rows])
    counts = np.concatenate([items.counts, titles.counts])
    order = np.lexsort((rows, keys))
    keys, rows, counts = keys[order], rows[order], counts[order]
    fresh = np.flatnonzero(
        (np.diff(keys, prepend=keys[:1] + np.uint64(1)) != 0) | (np.diff(rows, prepend=-1) != 0)
    )
    return Counts(keys[fresh], rows[fresh], np.add.reduceat(counts, fresh) if len(fresh) else counts)
