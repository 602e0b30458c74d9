"""Weights and classes of words, from small tables of hashed words.

Weights are by rarity: those of document frequencies. Classes are of words that stand between like words,
a small substitute for parts of speech.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BUCKETS = 1 << 16
_STEPS = 24
"""Steps of the table per factor of two would be 2: rates of 1 down to 1/4096."""

FUNCTION_WORDS = frozenset(
    """a about above across after against all along also although among an and another any are as at be
    became because become been before being between both but by called can could did do does during
    each either few for from had has have he her him his how however if in including into is it its
    itself just many may might more most much must near no nor not of off on once one only onto or
    other our out over own per rather s she should since so some such than that the their them
    themselves then there these they this those though through thus to toward towards under until up
    upon us very via was we were what when where whether which while who whom whose why will with
    within without would you your name named""".split()
)
CJK_FUNCTION = frozenset(
    "的是在了和与及或等为為被由于於以对從从到向把将將而且也又都就其这這那之所有与並并但因"
    "はがをにでともへやかのらりるれてたしくさなせめきえいうけばまもよみちそつっ"
)
"""Characters that rarely belong to a name or number in Chinese or Japanese."""


def bucket(word: str) -> int:
    """Return the row of the table for a word."""
    return zlib.crc32(word.encode("utf-8", "replace")) % BUCKETS


@dataclass(frozen=True, slots=True)
class WordWeights:
    """A table of rarities: 255 is unseen, 0 stands in every text."""

    table: NDArray[np.uint8]

    def rarity(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the rarity of each word, 0 to 1; words of closed classes count little."""
        found = (
            self.table[[bucket(word) for word in words]].astype(np.float32) / 255 if words else np.zeros(0)
        )
        closed = np.fromiter((word in FUNCTION_WORDS for word in words), np.bool_, len(words))
        return np.where(closed, np.minimum(found, 0.1), found).astype(np.float32)


def count_words(collections: Iterable[Iterable[Iterable[str]]]) -> WordWeights:
    """Make the table from collections (one per language) of texts of words.

    A bucket keeps the largest share of the texts of one collection.
    """
    rates = np.zeros(BUCKETS)
    for texts in collections:
        counts: Counter[str] = Counter()
        total = 0
        for words in texts:
            counts.update(set(words))
            total += 1
        for word, count in counts.items():
            if count > 1:
                row = bucket(word)
                rates[row] = max(rates[row], count / total)
    rarity = np.ones(BUCKETS)
    seen = rates > 0
    rarity[seen] = np.minimum(-np.log2(rates[seen]) / math.log2(4096), 1)
    return WordWeights(np.round(rarity * 255).astype(np.uint8))


def default_weights() -> WordWeights:
    """Return a table without any count."""
    return WordWeights(np.full(BUCKETS, 255, np.uint8))


@dataclass(frozen=True, slots=True)
class WordClasses:
    """A table of the classes of hashed words; 0 is that of unknown words."""

    table: NDArray[np.uint8]

    def of(self, words: Sequence[str]) -> NDArray[np.uint8]:
        """Return the class of each word."""
        return self.table[[bucket(word) for word in words]] if words else np.zeros(0, np.uint8)


def no_classes() -> WordClasses:
    """Return a table without any class."""
    return WordClasses(np.zeros(BUCKETS, np.uint8))
