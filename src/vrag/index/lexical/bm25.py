"""The terms of texts, and BM25 scores over inverted lists of them.

Letters are compared as `vrag.text.folding` says, without case, accents and points, which people leave out.
English plurals lose their ending; letters and digits are separated, so that 2023 finds FY2023; numbers stay
whole, as they are written: no value is compared here. Scripts that do not put spaces between words, and
Korean, whose words carry particles, become single characters and pairs of neighbours, which for Chinese is as
good as segmentation into words (Nie, Gao, Zhang and Zhou 2000, "On the use of words and n-grams for Chinese
information retrieval").

Scoring is our own and not that of bm25s, which stores weights: here several collections share the statistics
of a query, so that weights are only known when it is asked. Tests compare the scores with those of bm25s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.text.folding import MARKS, fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

STOP_WORDS = frozenset(
    # Lucene's English list
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
    # words of questions
    "what which who whom whose when where why how many much do does did has have had from were been "
    "its you your me please according can could should would than i we our us".split()
)
"""Words that say little about the subject of a query."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u3131-\u318f\uac00-\ud7af"  # Korean
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_TERM = re.compile(
    rf"(?P<run>[{_UNSPACED}]+(?:\s+[{_UNSPACED}]+)*)"
    rf"|(?P<number>\d{{1,3}}(?:,\d{{3}})+(?![\d,])|\d+(?:[.,]\d+)*)"
    rf"|(?:[^\W\d_{_UNSPACED}]+[{MARKS}]*)+"
)
_APART = re.compile("(?<=\\d)(?=[²³¹⁰⁴-⁹¼-¾⅐-⅞])")
"""Where a raised figure, the mark of a note or an exponent, or a fraction follows on a number."""


def terms(text: str) -> list[str]:
    """Return the terms of a text, in its order, stop words included.

    >>> terms("The companies' revenues: 1,874 million in FY2023 (+10.5%)")
    ['the', 'company', 'revenue', '1874', 'million', 'in', 'fy', '2023', '10.5']
    >>> terms("２０２３年 Ｃａｆé")
    ['2023', '年', 'cafe']
    >>> terms("مُحَمَّد كتابی ۱۲ 480¹")
    ['محمد', 'كتابي', '12', '480', '1']
    >>> terms("营业收入")
    ['营', '营业', '业', '业收', '收', '收入', '入']
    """
    folded = fold(text if text.isascii() else _APART.sub(" ", text))
    result: list[str] = []
    for match in _TERM.finditer(folded):
        if match["run"] is not None:
            run = "".join(match["run"].split())
            result += [run[at : at + n] for at in range(len(run)) for n in (1, 2) if at + n <= len(run)]
        elif match["number"] is not None:
            groups = match["number"].split(",")
            is_grouped = len(groups) > 1 and all(len(group) == 3 for group in groups[1:])
            result.append("".join(groups) if is_grouped else match["number"])
        else:
            result.append(_singular(match[0]))
    return result


def is_word(term: str) -> bool:
    """Check whether a term is a word or number between spaces, and not a stop word."""
    return term not in STOP_WORDS and _TERM.match(term)["run"] is None  # pyright: ignore[reportOptionalSubscript]


def _singular(word: str) -> str:
    """Remove the plural ending: the S stemmer of Harman 1991, "How effective is suffixing?".

    It keeps words in -aes, -ees and -oes; here they lose their s like others, since people search for
    employees and fees.

    >>> [_singular(word) for word in ("countries", "bars", "fees", "glass", "gas")]
    ['country', 'bar', 'fee', 'glass', 'gas']
    """
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("us", "ss")) or word in STOP_WORDS:
        return word
    return word[:-3] + "y" if word.endswith("ies") and not word.endswith(("eies", "aies")) else word[:-1]


K1 = 1.2
"""Saturation of further occurrences of a term; Lucene's value."""
B = 0.75
"""Normalisation by the length of the text, 0 to 1; Lucene's value."""


class Counts(NamedTuple):
    """The counts of keys in rows: three arrays of one length.

    Each pair of key and row is there at most once; for each key, rows ascend.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]


class Frequencies(NamedTuple):
    """Statistics of rows, on which BM25 weights of some keys depend; of disjoint sets they add up."""

    rows: int
    """Number of rows, those without a key included."""
    length: int
    """Sum of all counts of these rows."""
    containing: NDArray[np.int64]
    """(keys,) for each key the number of rows that contain it."""

    def plus(self, other: Frequencies) -> Frequencies:
        """Return the statistics of two disjoint sets together, of the same keys."""
        counts = self.rows + other.rows, self.length + other.length
        return Frequencies(*counts, self.containing + other.containing)


class RowSelection(NamedTuple):
    """Some of the rows of postings, with what is the same for all queries."""

    mask: NDArray[np.bool_]
    """(rows,) which they are."""
    rows: int
    """Number of them."""
    length: int
    """Sum of all their counts."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Inverted lists: for each key the rows that contain it and how often, and the length of every row.

    Counts are stored and not weights: weights depend on statistics, and these may be of more rows than
    are stored here. Scores of rows in different postings are comparable when they are made with the same
    statistics, and then the same, to the last bit, as if all rows were in one.
    """

    keys: NDArray[np.uint64]
    """(keys,) ascending."""
    starts: NDArray[np.unsignedinteger]
    """(keys + 1,) where the rows of each key begin, and where the last ends."""
    rows: NDArray[np.unsignedinteger]
    """(entries,) ascending for each key."""
    counts: NDArray[np.unsignedinteger]
    """(entries,) how often the key occurs in the row; most fit into a byte."""
    lengths: NDArray[np.int32]
    """(rows,) sum of all counts of a row."""
    length: int = field(init=False)
    """Sum of all counts."""

    def __post_init__(self) -> None:
        """Sum the lengths."""
        object.__setattr__(self, "length", int(self.lengths.sum(dtype=np.int64)))

    @classmethod
    def build(cls, found: Counts, rows: int) -> Postings:
        """Sort counts by key; `rows` is the number of rows, those without a key included."""
        order = np.argsort(found.keys, kind="stable")
        keys = found.keys[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
        ends = np.concatenate((starts, [len(keys)]), dtype=np.int64)
        lengths = np.bincount(found.rows, weights=found.counts, minlength=rows).astype(np.int32)
        small = _as_small(ends), _as_small(found.rows[order]), _as_small(found.counts[order])
        return cls(keys[starts], *small, lengths)

    def counts_of(self, kept: NDArray[np.int32]) -> Counts:
        """Return the counts of some rows by new numbers of theirs, (rows,), -1 for those that are left out.

        The numbers ascend with the rows.
        """
        keys = np.repeat(self.keys, np.diff(self.starts.astype(np.int64)))
        rows = kept[self.rows]
        chosen = rows >= 0
        return Counts(keys[chosen], rows[chosen], self.counts[chosen].astype(np.int32))

    def find(self, keys: NDArray[np.uint64]) -> list[slice]:
        """Return the entries of each key; an unknown key has none."""
        places = np.searchsorted(self.keys, keys)
        return [
            slice(int(self.starts[place]), int(self.starts[place + 1]))
            if place < len(self.keys) and self.keys[place] == key
            else slice(0, 0)
            for place, key in zip(places.tolist(), keys.tolist(), strict=True)
        ]

    def select(self, mask: NDArray[np.bool_]) -> RowSelection:
        """Select rows, (rows,)."""
        return RowSelection(mask, int(np.count_nonzero(mask)), int(self.lengths[mask].sum(dtype=np.int64)))

    def frequencies(self, spans: Sequence[slice], counted: RowSelection | None = None) -> Frequencies:
        """Return the statistics of the rows that count, None for all, for the spans of some keys."""
        if counted is None:
            containing = [span.stop - span.start for span in spans]
            return Frequencies(len(self.lengths), self.length, np.asarray(containing, np.int64))
        containing = [int(np.count_nonzero(counted.mask.take(self.rows[span]))) for span in spans]
        return Frequencies(counted.rows, counted.length, np.asarray(containing, np.int64))

    def add(
        self, scores: NDArray[np.float32], spans: Sequence[slice], frequencies: Frequencies, times: float
    ) -> None:
        """Add `times` the BM25 weights of some keys to the scores of the rows, in place.

        Lucene's form of BM25:

        weight(t, d) = ln(1 + (N - df + 0.5) / (df + 0.5)) · tf·(k1 + 1) / (tf + k1·(1 - b + b·|d| / avgdl))

        with |d| the sum of all counts of row d, and N, df and avgdl, the mean of |d|, by `frequencies`, which
        may be those of more rows. A key that comes up twice counts twice, an unknown one not at all.
        Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"; variants as
        in Kamphuis et al. 2020, "Which BM25 Do You Mean?".
        """
        df = frequencies.containing
        idf = np.log1p((frequencies.rows - df + 0.5) / (df + 0.5))
        average = frequencies.length / max(frequencies.rows, 1) or 1.0
        factors = (times * idf * (K1 + 1)).astype(np.float32)
        fixed, by_length = np.float32(K1 * (1 - B)), np.float32(K1 * B / average)
        for factor, span in zip(factors, spans, strict=True):
            if span.start == span.stop:
                continue
            rows = self.rows[span]
            tf = self.counts[span].astype(np.float32)
            norm = self.lengths.take(rows) * by_length
            norm += fixed
            norm += tf
            tf *= factor
            tf /= norm
            scores[rows] += tf


def _as_small(numbers: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return numbers that are not negative as the shortest kind that holds all of them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
