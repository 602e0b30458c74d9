"""Page vectors to measure with: mixtures of real ColQwen2 pages, or invented ones where there are none.

A mixture is made of two real pages, patch by patch at the same place, with weights of its own and noise,
so that neighbouring patches stay alike as they are on real pages. Queries are patches of one page with
noise: no query of the model is at hand, so what they show is how well a fast search finds what exact
search finds, not how well the model answers people.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["DIMENSION", "PATCHES", "TOKENS", "pages", "queries", "real_pages", "source"]

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "colqwen2-pages" / "pages.npz"
DIMENSION = 128
PATCHES = 768
TOKENS = 20
NOISE = 0.35
"""Length of the noise beside the unit vectors of a page."""


@cache
def real_pages() -> tuple[NDArray[np.float32], ...]:
    """The real pages, each (patches, dimension); none where the file is absent."""
    if not REAL.exists():
        return ()
    with np.load(REAL) as data:
        stacked, lengths = data["embeddings"].astype(np.float32), data["lengths"]
    return tuple(np.split(stacked, np.cumsum(lengths)[:-1]))


def source() -> str:
    """What the pages are made of, for people."""
    count = len(real_pages())
    return f"mixtures of {count} real ColQwen2 pages" if count else "invented pages"


def pages(count: int, seed: int = 0, patches: int = PATCHES) -> Iterator[NDArray[np.float16]]:
    """So many pages, each (patches, dimension) of unit vectors; the same ones for the same seed."""
    chance = np.random.default_rng(seed)
    real = real_pages()
    for _ in range(count):
        mixed = _mixture(real, chance, patches) if real else _invented(chance, patches)
        yield unit(mixed + noise(chance, mixed.shape, NOISE)).astype(np.float16)


def queries(
    made: list[NDArray[np.float16]], count: int, closeness: float, within: int | None = None
) -> list[tuple[int, NDArray[np.float32]]]:
    """Queries with the page they are made from: patches of it with noise.

    Args:
        made: The pages.
        count: How many queries.
        closeness: Cosine of a query vector and its patch, about.
        within: Of how many patches in a row; None for patches from anywhere on the page.
    """
    chance = np.random.default_rng(1)
    out: list[tuple[int, NDArray[np.float32]]] = []
    for _ in range(count):
        page = int(chance.integers(len(made)))
        patches = made[page].astype(np.float32)
        if within is not None:
            start = int(chance.integers(len(patches) - within + 1))
            patches = patches[start : start + within]
        chosen = patches[chance.choice(len(patches), TOKENS, replace=len(patches) < TOKENS)]
        spread = float(np.sqrt(1 / closeness**2 - 1))
        out.append((page, unit(chosen + noise(chance, chosen.shape, spread))))
    return out


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """The vectors at length 1."""
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def noise(chance: np.random.Generator, shape: tuple[int, ...], length: float) -> NDArray[np.float32]:
    """Random vectors of about this length."""
    drawn = chance.standard_normal(shape, np.float32)
    drawn *= np.float32(length / np.sqrt(shape[-1]))
    return drawn


def _mixture(
    real: tuple[NDArray[np.float32], ...], chance: np.random.Generator, patches: int
) -> NDArray[np.float32]:
    first, second = (real[int(number)] for number in chance.choice(len(real), 2, replace=False))
    share = np.float32(chance.uniform(0.2, 0.8))
    return unit(
        share * np.resize(first, (patches, DIMENSION)) + (1 - share) * _shifted(second, chance, patches)
    )


def _shifted(page: NDArray[np.float32], chance: np.random.Generator, patches: int) -> NDArray[np.float32]:
    """A page whose patches begin somewhere else."""
    return np.resize(np.roll(page, int(chance.integers(len(page))), axis=0), (patches, DIMENSION))


def _invented(chance: np.random.Generator, patches: int) -> NDArray[np.float32]:
    """Patches in a row that resemble their neighbours, around what all of the page has in common."""
    steps = noise(chance, (patches, DIMENSION), 1.0)
    walk = np.empty_like(steps)
    walk[0] = steps[0]
    for patch in range(1, patches):
        walk[patch] = 0.8 * walk[patch - 1] + 0.6 * steps[patch]
    return unit(walk + 0.7 * noise(chance, (1, DIMENSION), 1.0))
