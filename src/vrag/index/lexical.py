"""Lexical search: BM25 over the text of items."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["Entry", "Lexical"]


class Entry(NamedTuple):
    """What lexical search knows of an item."""

    id: str
    document: str
    """Id of its document."""
    title: str
    """File name of its document."""
    text: str


class Lexical:
    """thin"""

    def __init__(
        self,
        ids: Sequence[str],
        vocabulary: dict[str, int],
        starts: NDArray[np.int64],
        rows: NDArray[np.int32],
        weights: NDArray[np.float32],
    ) -> None:
        self.ids = list(ids)
        self._vocabulary = vocabulary
        self._starts = starts
        self._rows = rows
        self._weights = weights

    @classmethod
    def build(cls, entries: Iterable[Entry], *, k1: float = 1.2, b: float = 0.75) -> Lexical:
        ids: list[str] = []
        vocabulary: dict[str, int] = {}
        term_parts: list[NDArray[np.int32]] = []
        count_parts: list[NDArray[np.int32]] = []
        lengths = array("q")
        distinct = array("q")
        for entry in entries:
            ids.append(entry.id)
            numbers = np.fromiter(
                (vocabulary.setdefault(t, len(vocabulary)) for t in terms(entry.text)), np.int32
            )
            which, counts = np.unique(numbers, return_counts=True)
            term_parts.append(which)
            count_parts.append(counts.astype(np.int32))
            lengths.append(len(numbers))
            distinct.append(len(which))
        n = len(ids)
        which = np.concatenate([np.empty(0, np.int32), *term_parts])
        tf = np.concatenate([np.empty(0, np.int32), *count_parts]).astype(np.float64)
        rows = np.repeat(np.arange(n, dtype=np.int32), np.asarray(distinct, dtype=np.int64))
        order = np.argsort(which, kind="stable")
        which, tf, rows = which[order], tf[order], rows[order]
        df = np.bincount(which, minlength=len(vocabulary))
        starts = np.concatenate([[0], np.cumsum(df)]).astype(np.int64)
        idf = np.log1p((n - df + 0.5) / (df + 0.5))
        length = np.asarray(lengths, dtype=np.float64)
        average = max(float(length.mean()), 1.0) if n else 1.0
        weights = idf[which] * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[rows] / average))
        return cls(ids, vocabulary, starts, rows, weights.astype(np.float32))

    def scores(self, query: str) -> NDArray[np.float32]:
        """Score of every item, in the order of `ids`; 0 where no term of the query stands."""
        total = np.zeros(len(self.ids), np.float32)
        for term in dict.fromkeys(terms(query)):
            number = self._vocabulary.get(term)
            if number is not None:
                span = slice(self._starts[number], self._starts[number + 1])
                total[self._rows[span]] += self._weights[span]
        return total

    def search(
        self, query: str, top_k: int, mask: NDArray[np.bool_] | None = None
    ) -> list[tuple[str, float]]:
        """The best `top_k` items with a score above 0, best first, ties by id; only where `mask` is true."""
        scores = self.scores(query)
        if mask is not None:
            scores = np.where(mask, scores, 0)
        found = np.flatnonzero(scores > 0)
        if len(found) > top_k:
            least = np.partition(scores[found], -top_k)[-top_k]
            found = found[scores[found] >= least]
        best = sorted(((self.ids[i], float(scores[i])) for i in found), key=lambda pair: (-pair[1], pair[0]))
        return best[:top_k]

    def save(self, directory: Path) -> None:
        """Writes a cache directory; it appears whole or not at all."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            np.save(scratch / "starts.npy", self._starts)
            np.save(scratch / "rows.npy", self._rows)
            np.save(scratch / "weights.npy", self._weights)
            names = {"ids": self.ids, "terms": list(self._vocabulary)}
            (scratch / "names.json").write_text(json.dumps(names), encoding="utf-8")
            shutil.rmtree(directory, ignore_errors=True)
            os.replace(scratch, directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @classmethod
    def load(cls, directory: Path) -> Lexical:
        """Reads what `save` wrote; the arrays are memory-mapped."""
        names = json.loads((directory / "names.json").read_text(encoding="utf-8"))
        arrays = [np.load(directory / f"{name}.npy", mmap_mode="r") for name in ("starts", "rows", "weights")]
        return cls(names["ids"], {t: i for i, t in enumerate(names["terms"])}, *arrays)
