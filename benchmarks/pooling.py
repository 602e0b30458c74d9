"""How much may page vectors be averaged and rounded before the right pages are missed?

    python benchmarks/pooling.py [--pages 1000] [--queries 60]

Two sets of pages: the real ones alone (39 by ColQwen2), and mixtures of them (`pages.py`). No queries of the
model are at hand, so a query is made of patches of one page with noise, at two cosines: patches from
anywhere on the page, or all of them from eight in a row, as if one cell of a table was asked for. What comes
of that is how well a coarse first stage keeps what exact search finds; not how well the model answers.

Rows: how page vectors are made coarse. Columns: bytes per page of 768 vectors; nDCG@10 of the coarse ranking
with gains by the exact ranks; recall@10 of the coarse ranking; share of the exact ten among the coarse first
50, 100 and 200; the greatest rank that one of the exact ten has in the coarse ranking.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.pages import PATCHES, pages, queries, real_pages, source, unit
from vrag.index.vectors.pooled import pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Page = NDArray[np.float32]

DEPTHS = (50, 100, 200)
ASKED = ((0.7, None), (0.5, None), (0.7, 8), (0.5, 8))
"""Cosine of query vectors and patches; among how many patches in a row."""


class Way(NamedTuple):
    """How page vectors are made coarse."""

    name: str
    make: Callable[[Page], Page]
    bytes: float
    """Per page of 768 vectors of 128 numbers."""


def ways() -> Iterator[Way]:
    """From fine to coarse."""
    eighth = PATCHES / 8
    yield Way("int8, a scale per vector", partial(rounded, per_vector=True), PATCHES * 132)
    yield Way("int8, a scale per page", rounded, PATCHES * 128)
    yield Way("one bit", signs, PATCHES * 16)
    for factor in (2, 4, 8, 16, 32):
        yield Way(f"mean of {factor}", partial(means, factor=factor), PATCHES / factor * 512)
        yield Way(f"mean of {factor} at their length", partial(pool, factor=factor), PATCHES / factor * 512)
    yield Way("mean of 8 at their length, int8 per vector", partial(coarse, per_vector=True), eighth * 132)
    yield Way("mean of 8 at their length, int8 per page", coarse, eighth * 128)
    yield Way("clusters, an eighth as many", partial(clustered, factor=8), eighth * 512)
    yield Way("one mean", partial(means, factor=PATCHES * 2), 512)


def coarse(page: Page, *, per_vector: bool = False) -> Page:
    """What the tier `pooled` keeps, but for the choice of scales."""
    return rounded(pool(page, 8), per_vector=per_vector)


def signs(page: Page) -> Page:
    """One bit per number."""
    return np.sign(page).astype(np.float32)


def means(page: Page, factor: int) -> Page:
    """Plain means of consecutive vectors."""
    starts = np.arange(0, len(page), factor)
    counts = np.diff(starts, append=len(page))
    return (np.add.reduceat(page, starts, axis=0) / counts[:, None]).astype(np.float32)


def rounded(page: Page, *, per_vector: bool = False) -> Page:
    """As if kept as int8."""
    most = np.abs(page).max(axis=1, keepdims=True) if per_vector else np.abs(page).max()
    step = np.maximum(most, 1e-9) / 127
    return (np.rint(page / step) * step).astype(np.float32)


def clustered(page: Page, factor: int) -> Page:
    """Means of clusters by Ward's method over cosine distances, as hierarchical token pooling does."""
    hierarchy: Any = importlib.import_module("scipy.cluster.hierarchy")
    alike = unit(page)
    distances = 1 - (alike @ alike.T)[np.triu_indices(len(page), 1)]
    tree = hierarchy.linkage(distances, "ward")
    labels = np.asarray(hierarchy.fcluster(tree, max(1, len(page) // factor), "maxclust"))
    return np.stack([unit(page[labels == label].mean(axis=0)) for label in np.unique(labels)])


def scores(made: Sequence[Page], asked: Sequence[Page]) -> NDArray[np.float32]:
    """MaxSim of all queries with all pages, (queries, pages)."""
    starts = np.cumsum([0, *(len(query) for query in asked[:-1])])
    stack = np.concatenate(asked)
    return np.stack([np.add.reduceat((stack @ page.T).max(axis=1), starts) for page in made], axis=1)


def line(near: NDArray[np.float32], exact: NDArray[np.float32]) -> str:
    """The measures of one way."""
    truth = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    order = np.argsort(-near, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)[np.arange(len(truth))[:, None], truth]  # of the exact ten, from 0
    gains, weights = np.arange(10, 0, -1), 1 / np.log2(np.arange(10) + 2)
    reached = np.where(ranks < 10, gains / np.log2(ranks + 2), 0).sum(axis=1) / (gains * weights).sum()
    shares = "".join(f"{(ranks < depth).mean():8.4f}" for depth in DEPTHS)
    return f"{reached.mean():8.4f}{(ranks < 10).mean():8.4f}{shares}{int(ranks.max()) + 1:6}"


def study(name: str, made: list[Page], count: int, chosen: Sequence[Way]) -> None:
    """Prints one table."""
    halves = [page.astype(np.float16) for page in made]
    asked = [[query for _, query in queries(halves, count, *how)] for how in ASKED]
    exact = [scores(made, few) for few in asked]
    print(f"\n{name}: {len(made)} pages, {count} queries of each kind")
    heads = "".join(f"{head:>8}" for head in ("nDCG@10", "rec@10", *(f"in {depth}" for depth in DEPTHS)))
    print(f"{'':44}{'bytes':>7}  {'queries':14}{heads}{'last':>6}")
    for way in chosen:
        kept = [way.make(page) for page in made]
        for (close, within), few, truth in zip(ASKED, asked, exact, strict=True):
            kind = f"{close} {'anywhere' if within is None else 'one place'}"
            print(f"{way.name:44}{way.bytes:7.0f}  {kind:14}{line(scores(kept, few), truth)}", flush=True)


def main() -> int:
    """Prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--only", default="", help="ways whose name holds this")
    arguments = parser.parse_args()
    chosen = [way for way in ways() if arguments.only in way.name]
    if real_pages():
        study("real pages", list(real_pages()), arguments.queries, chosen)
    mixed = [page.astype(np.float32) for page in pages(arguments.pages)]
    study(source(), mixed, arguments.queries, [way for way in chosen if "clusters" not in way.name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
