"""Clusters of words by the frequent words beside them and by their endings, as classes of words."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.word_weights import BUCKETS, WordClasses, bucket

CLASSES = 120
"""Classes of words, with that of unknown words."""
MIN_COUNT = 4
"""Rarer words are not classed."""
MAX_WORDS = 40_000
"""Words that are classed: the most frequent."""
_FRAMES = 500
"""Frequent words whose place beside a word tells its class."""
_DIMENSIONS = 48
_ROUNDS = 25
_SUFFIX = 3


def group_words(texts: Iterable[Sequence[str]], *, classes: int = CLASSES, seed: int = 0) -> WordClasses:
    """Cluster the words of texts by the frequent words beside them and by their endings."""
    lists = list(texts)
    counts = Counter(word for words in lists for word in words)
    known = [word for word, count in counts.most_common(MAX_WORDS) if count >= MIN_COUNT]
    table = np.zeros(BUCKETS, np.uint8)
    if len(known) <= max(classes, _DIMENSIONS):
        return WordClasses(table)
    vectors = _context_vectors(lists, known)
    rows = np.asarray([bucket(word) for word in known])
    found = _cluster(vectors, classes - 1, np.random.default_rng(seed)) + 1
    table[rows[::-1]] = found[::-1]
    return WordClasses(table)


def _context_vectors(texts: list[Sequence[str]], known: list[str]) -> NDArray[np.float32]:
    """Return a vector of each word, of length 1: square roots of shares of neighbours, in few dimensions."""
    numbers = {word: number for number, word in enumerate(known)}
    size, frames = len(known), min(_FRAMES, len(known))
    line = np.asarray(
        [n for words in texts for n in (*(numbers.get(word, size) for word in words), size + 1)]
    )
    frame = np.where(line < frames, line, np.where(line == size + 1, frames, frames + 1))
    sparse: Any = importlib.import_module("scipy.sparse")  # it ships no types
    linear: Any = importlib.import_module("scipy.sparse.linalg")
    sides: list[Any] = []
    for word, neighbour in ((line[1:], frame[:-1]), (line[:-1], frame[1:])):
        inside = word < size
        ones = np.ones(int(inside.sum()), np.float32)
        sides.append(sparse.csr_matrix((ones, (word[inside], neighbour[inside])), shape=(size, frames + 2)))
    endings = {ending: number for number, ending in enumerate(sorted({word[-_SUFFIX:] for word in known}))}
    columns = [endings[word[-_SUFFIX:]] for word in known]
    suffix = sparse.csr_matrix(
        (np.ones(size, np.float32), (range(size), columns)), shape=(size, len(endings))
    )
    shared = [_root_shares(side) for side in sides]
    table = sparse.hstack([*shared, suffix * 0.35]).tocsr()
    left, values, _ = linear.svds(table, k=_DIMENSIONS, random_state=0)
    vectors: NDArray[np.float32] = (left * values).astype(np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)


def _root_shares(counts: Any) -> Any:  # noqa: ANN401
    sparse: Any = importlib.import_module("scipy.sparse")
    totals = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    return (sparse.diags(1 / totals) @ counts).sqrt()


def _cluster(vectors: NDArray[np.float32], classes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the cluster of each row, by k-means on the sphere."""
    centres = vectors[random.permutation(len(vectors))[:classes]]
    nearest = np.zeros(len(vectors), np.int64)
    for _ in range(_ROUNDS):
        nearest = (vectors @ centres.T).argmax(axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, vectors)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(norms > 0, sums / np.maximum(norms, 1e-6), centres)
    return nearest
