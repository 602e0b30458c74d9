"""Classes of words that stand between like words: a small substitute for parts of speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.word_weights import BUCKETS, bucket


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
