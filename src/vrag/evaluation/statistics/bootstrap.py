"""Draws of documents: what means and ratios over questions would be, had other documents been asked about."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["draws"]

_AT_ONCE = 1 << 20
"""Numbers drawn at once, at most: a bound on memory."""
_FEW_KINDS, _ALIKE = 8, 16
"""Kinds of documents up to which kinds are drawn; or where so many documents are alike, on average."""


def draws(
    parts: Sequence[NDArray[np.float64]], *, resamples: int, seed: int = 0
) -> list[NDArray[np.float64]]:
    """Ratios of sums over documents that are drawn with replacement, for many measures at once.

    As many documents are drawn as there are. How often each of them was drawn is one row of a matrix, which
    all measures of as many documents share, so that a product takes the place of a draw for each. Documents
    that are of few kinds, with the same numbers, are drawn by kind (multinomial): the same distribution, and
    quick for thousands of documents of one question each.

    Documents stand in the order of their numbers, and each number of documents has draws of its own. So
    neither the order of questions nor names of documents nor what else is measured changes an interval, but
    for rounding.

    Args:
        parts: Of each measure a numerator and a denominator for each document, shape (G, 2); G of its own, at
            least 1. For a mean, sum and count.
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        For each measure, shape (resamples,); 0 where the documents of a draw have no denominator.
    """
    found: dict[int, NDArray[np.float64]] = {}
    alike: defaultdict[int, list[int]] = defaultdict(list)
    spread: dict[int, NDArray[np.float64]] = {}
    for at, part in enumerate(parts):
        kinds, counts = np.unique(part, axis=0, return_counts=True)
        if len(kinds) <= max(_FEW_KINDS, len(part) // _ALIKE):
            found[at] = _ratios(_of_kinds(kinds, counts, resamples, seed))[:, 0]
        else:
            spread[at] = np.repeat(kinds, counts, axis=0)
            alike[len(part)].append(at)
    for documents, those in alike.items():
        together = np.concatenate([spread[at] for at in those], axis=1)
        drawn = [_ratios(often @ together) for often in _weights(documents, resamples, seed)]
        found |= zip(those, np.concatenate(drawn).T, strict=True)
    return [found[at] for at in range(len(parts))]


def _of_kinds(
    kinds: NDArray[np.float64], counts: NDArray[np.int64], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Sums of draws, shape (resamples, 2), where `counts` documents each are of a kind."""
    source, documents = np.random.default_rng(seed), int(counts.sum())
    rows = max(1, _AT_ONCE // len(kinds))
    return np.concatenate(
        [
            source.multinomial(documents, counts / documents, min(rows, resamples - at)) @ kinds
            for at in range(0, resamples, rows)
        ]
    )


def _weights(documents: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each document was drawn, shape (draws, documents), some draws at a time."""
    source = np.random.default_rng(seed)
    rows = max(1, _AT_ONCE // documents)
    for at in range(0, resamples, rows):
        some = min(rows, resamples - at)
        picks = source.integers(0, documents, (some, documents))
        picks += np.arange(some)[:, None] * documents
        often = np.bincount(picks.ravel(), minlength=some * documents)
        yield often.reshape(some, documents).astype(np.float64)


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numerators and denominators, which take turns along the rows, → their ratios."""
    above, below = sums[:, ::2], sums[:, 1::2]
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
