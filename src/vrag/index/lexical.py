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
"""

from __future__ import annotations

from array import array
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.bm25 import STOP_WORDS, Counts, Frequencies, Postings, is_word, terms
from vrag.storage.array_cache import ArrayContent, find, make

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

PHRASE = 0.2
"""Weight of phrases; quality is stable from 0.1 to 0.3."""
DOCUMENT = 1.0
"""Weight of the document; quality is stable from 0.5 to 2."""

FORMAT = 5
"""Version of what `save` writes and of the tokenizer: part of the name of a cache."""
_UNKNOWN = 2**64 - 1
"""The key of terms that occur nowhere: terms are numbered from 0, in less than 32 bits."""
_CACHE_SIZE = 64
"""Queries whose matches are kept: each is needed for its statistics, and then for its scores."""
_POSTINGS = ("items", "phrases", "documents")
_ARRAYS = ("keys", "starts", "rows", "counts", "lengths")
"""The arrays of `Postings`."""


class LexicalEntry(NamedTuple):
    """An item for lexical search."""

    id: str
    document: str
    """Id of its document."""
    title: str
    """File name of its document: its words count as words of the document."""
    text: str


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


class _Matches(NamedTuple):
    """The postings of a query's terms and phrases."""

    items: list[slice]
    phrases: list[slice]
    documents: list[slice]


class Lexical:
    """An immutable index over the text of items. May be shared by threads."""

    def __init__(
        self,
        ids: Sequence[str],
        vocabulary: dict[str, int],
        document_of: NDArray[np.int32],
        items: Postings,
        phrases: Postings,
        documents: Postings,
    ) -> None:
        self.ids = list(ids)
        """Id of each row."""
        self._vocabulary = vocabulary
        self._document_of = document_of
        self._items = items
        self._phrases = phrases
        self._documents = documents
        # Without `self`: a reference cycle would keep the maps.
        find = partial(_find_terms, vocabulary, items, phrases, documents)
        self._matches = lru_cache(maxsize=_CACHE_SIZE)(find)

    @classmethod
    def build(cls, entries: Iterable[LexicalEntry]) -> Lexical:
        """Count the terms of all entries, whose ids are distinct; their order is that of the rows."""
        ids: list[str] = []
        documents: dict[str, int] = {}
        titles: list[str] = []
        document_of = array("i")
        counter = _TermCounter()
        for entry in entries:
            ids.append(entry.id)
            document_of.append(documents.setdefault(entry.document, len(documents)))
            if len(documents) > len(titles):
                titles.append(entry.title)
            counter.add(entry.text)
        documents_of_rows = np.array(document_of, dtype=np.int32)
        phrases = Postings.build(counter.phrases.joined(), len(ids))
        in_items = counter.terms.joined()
        in_titles = _RowCounts()
        for title in titles:
            in_titles.add(counter.numbers(Path(title).stem).astype(np.uint64))
        merged = _merge_counts(in_items, documents_of_rows, in_titles.joined())
        items, in_documents = Postings.build(in_items, len(ids)), Postings.build(merged, len(titles))
        return cls(ids, counter.vocabulary, documents_of_rows, items, phrases, in_documents)

    def statistics(self, query: str, counted: NDArray[np.bool_] | None = None) -> WordStatistics:
        """Return the statistics for a query of the items that count, (rows,); None for all items.

        All items of a document count, or none.
        """
        matches = self._matches(query)
        documents = None
        if counted is not None:
            documents = np.zeros(len(self._documents.lengths), np.bool_)
            documents[self._document_of[counted]] = True
        return WordStatistics(
            self._items.frequencies(matches.items, counted),
            self._phrases.frequencies(matches.phrases, counted),
            self._documents.frequencies(matches.documents, documents),
        )

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
        matches = self._matches(query)
        known = statistics or self.statistics(query)
        total = np.zeros(len(self.ids), np.float32)
        self._items.add(total, matches.items, known.items, 1.0)
        self._phrases.add(total, matches.phrases, known.phrases, phrase)
        of_documents = np.zeros(len(self._documents.lengths), np.float32)
        self._documents.add(of_documents, matches.documents, known.documents, document)
        total += of_documents[self._document_of]
        return total

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
            ((self.ids[row], float(scores[row])) for row in found), key=lambda hit: (-hit[1], hit[0])
        )
        return best[: max(top_k, 0)]

    def rows_with(self, phrase: str) -> NDArray[np.int32]:
        """Return the rows of items that have all words of a phrase, and each beside the next, (rows,)."""
        matches = self._matches(phrase)
        lists = [self._items.rows[span] for span in matches.items]
        lists += [self._phrases.rows[span] for span in matches.phrases]
        return reduce(partial(np.intersect1d, assume_unique=True), lists) if lists else np.empty(0, np.int32)

    def save(self, directory: Path) -> None:
        """Write a cache directory as a whole, unless there is a valid one."""

        def write(scratch: Path) -> ArrayContent:
            arrays = {"document_of": self._document_of}
            for name, postings in zip(_POSTINGS, (self._items, self._phrases, self._documents), strict=True):
                arrays |= {f"{name}-{array}": getattr(postings, array) for array in _ARRAYS}
            for name, values in arrays.items():
                values.tofile(scratch / name)
            shapes = {name: (values.dtype.type, values.shape) for name, values in arrays.items()}
            return ArrayContent(shapes, {"ids": list(self.ids), "terms": list(self._vocabulary)})

        make(directory.parent, directory, write)

    @classmethod
    def load(cls, directory: Path) -> Lexical | None:
        """Load what `save` wrote, mapped into memory; None when it is missing or damaged."""
        stored = find(directory)
        if stored is None:
            return None
        vocabulary = {term: number for number, term in enumerate(stored.facts["terms"])}
        parts = [Postings(*(stored.arrays[f"{name}-{array}"] for array in _ARRAYS)) for name in _POSTINGS]
        return cls(stored.facts["ids"], vocabulary, stored.arrays["document_of"], *parts)


def _find_terms(
    vocabulary: dict[str, int], items: Postings, phrases: Postings, documents: Postings, query: str
) -> _Matches:
    """Find a query's terms and phrases.

    Their number and order is the same in every index: their statistics can be added up.
    """
    every = terms(query)
    chosen = [term for term in every if term not in STOP_WORDS] or every
    words = np.array([is_word(term) for term in chosen], np.bool_)
    both = words[:-1] & words[1:]
    keys = np.array([vocabulary.get(term, _UNKNOWN) for term in chosen], np.uint64)
    first, second = keys[:-1][both], keys[1:][both]
    unknown = (first == _UNKNOWN) | (second == _UNKNOWN)
    pairs = np.where(unknown, np.uint64(_UNKNOWN), (first << np.uint64(32)) | second)
    return _Matches(items.find(keys), phrases.find(pairs), documents.find(keys))


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
    """A counter of terms and phrases, fed one text after the other; it numbers the terms."""

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}
        self.terms = _RowCounts()
        self.phrases = _RowCounts()
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
        self.phrases.add((first << np.uint64(32)) | second)

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Return the numbers of a text's terms, in its order; new terms get new numbers."""
        found = terms(text)
        for term in found:
            if self.vocabulary.setdefault(term, len(self.vocabulary)) == len(self._is_word):
                self._is_word.append(is_word(term))
                self._is_stop.append(term in STOP_WORDS)
        return np.fromiter(map(self.vocabulary.__getitem__, found), np.int64, len(found))


def _flags(of_terms: array[int], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.fromiter(map(of_terms.__getitem__, numbers), np.bool_, len(numbers))


def _merge_counts(items: Counts, document_of: NDArray[np.int32], titles: Counts) -> Counts:
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
