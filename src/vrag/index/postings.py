"""Which rows hold a key, and what that is worth: the inverted lists under lexical search."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["K1", "B", "Counts", "Postings", "load_array"]

K1 = 1.2
"""How soon further occurrences of a term stop counting; Lucene's value."""
B = 0.75
"""How far long texts are put back, 0 to 1; Lucene's value."""


class Counts(NamedTuple):
    """How often each key occurs in each row: three arrays of one length.

    A pair of key and row stands there at most once; for each key, rows ascend.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Postings:
    """BM25's share of a score, worked out for every key and row where the key occurs."""

    keys: NDArray[np.uint64]
    """(keys,) ascending."""
    starts: NDArray[np.int64]
    """(keys + 1,) where the rows of each key begin, and where the last ends."""
    rows: NDArray[np.int32]
    """(entries,) ascending for each key."""
    weights: NDArray[np.float32]
    """(entries,) what the key adds to the score of the row."""

    @classmethod
    def bm25(cls, found: Counts, rows: int) -> Postings:
        """Weighs counts by BM25 in Lucene's form.

        weight(t, d) = ln(1 + (N - df + 0.5) / (df + 0.5)) · tf·(k1 + 1) / (tf + k1·(1 - b + b·|d| / avgdl))
        with |d| the sum of all counts of row d and avgdl its mean over the N rows. Robertson and
        Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"; variants as in
        Kamphuis et al. 2020, "Which BM25 Do You Mean?".

        Args:
            found: The counts.
            rows: How many rows there are, those without a key included.
        """
        order = np.argsort(found.keys, kind="stable")
        keys = found.keys[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
        ends = np.concatenate((starts, [len(keys)]), dtype=np.int64)
        keys, df = keys[starts], np.diff(ends)
        where = found.rows[order]
        tf = found.counts[order].astype(np.float32)
        idf = np.log1p((rows - df + 0.5) / (df + 0.5)).astype(np.float32)
        length = np.bincount(found.rows, weights=found.counts, minlength=rows)
        norm = K1 * (1 - B + B * length / (float(length.sum()) / max(rows, 1) or 1.0))
        weights = tf * np.float32(K1 + 1)
        weights /= tf + norm.astype(np.float32)[where]
        weights *= np.repeat(idf, df)
        return cls(keys, ends, where, weights)

    def add(self, scores: NDArray[np.float32], keys: NDArray[np.uint64], times: float) -> None:
        """Adds `times` the weights of `keys` to the scores of the rows, in place.

        Args:
            scores: (rows,) float32.
            keys: What is asked for; a key that comes up twice counts twice, an unknown one nothing.
            times: What a weight is multiplied by.
        """
        places = np.searchsorted(self.keys, keys)
        for place, key in zip(places.tolist(), keys.tolist(), strict=True):
            if place < len(self.keys) and self.keys[place] == key:
                span = slice(int(self.starts[place]), int(self.starts[place + 1]))
                scores[self.rows[span]] += np.float32(times) * self.weights[span]

    def save(self, directory: Path, name: str) -> None:
        """Writes the arrays into a directory, in files that begin with `name`."""
        for field in fields(self):
            np.save(directory / f"{name}-{field.name}.npy", getattr(self, field.name), allow_pickle=False)

    @classmethod
    def load(cls, directory: Path, name: str) -> Postings:
        """Maps into memory what `save` wrote.

        Raises:
            OSError: If a file is missing.
            ValueError: If a file is damaged.
        """
        arrays = {field.name: load_array(directory / f"{name}-{field.name}.npy") for field in fields(cls)}
        made = cls(**arrays)
        ends = len(made.keys) + 1, len(made.rows), len(made.weights)
        if (len(made.starts), int(made.starts[-1]), int(made.starts[-1])) != ends:
            raise ValueError(f"The arrays of {name} in {directory} do not fit together.")
        return made


def load_array(path: Path) -> NDArray[Any]:
    """Maps an array file into memory; an empty one is read, for nothing can be mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        return np.load(path, allow_pickle=False)
