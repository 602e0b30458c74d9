"""How much may page vectors be averaged and rounded before the right pages are missed?

    python benchmarks/pooling.py [--pages 1000] [--queries 60]

Two sets of pages: the real ones alone (39 by ColQwen2), and mixtures of them (`pages.py`). No queries of the
model are at hand, so a query is made of patches of one page, drawn anew with noise at three cosines. What
comes of that is how well a coarse first stage keeps what exact search finds; not how well the model answers.

Rows: how page vectors are made coarse. Columns: bytes per page of 768 vectors; nDCG@10 of the coarse ranking
with gains by the exact ranks; recall@10 of the coarse ranking; share of the exact ten among the coarse first
50, 100 and 200; the greatest rank that one of the exact ten has in the coarse ranking.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.pages import PATCHES, pages, queries, real_pages, source, unit
from vrag.index.pooled import pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Page = NDArray[np.float32]

DEPTHS = (50, 100, 200)
CLOSENESS = (0.9, 0.7, 0.5)


class Way(NamedTuple):
    """How page vectors are made coarse."""

    name: str
    make: Callable[[Page], Page]
    bytes: float
    """Per page of 768 vectors of 128 numbers."""


def ways() -> Iterator[Way]:
    """From fine to coarse."""
    yield Way("int8, a scale per vector", lambda page: rounded(page, per_vector=True), PATCHES * 132)
    yield Way("int8, a scale per page", lambda page: rounded(page), PATCHES * 128)
    yield Way("one bit", np.sign, PATCHES * 16)
    for factor in (2, 4, 8, 16, 32):
        yield Way(f"mean of {factor}", lambda page, f=factor: means(page, f), PATCHES / factor * 512)
        yield Way(
            f"mean of {factor} at their length", lambda page, f=factor: pool(page, f), PATCHES / factor * 512
        )
    yield Way(
        "mean of 8 at their length, int8, a scale per vector",
        lambda page: rounded(pool(page, 8), per_vector=True),
        PATCHES / 8 * 132,
    )
    yield Way(
        "mean of 8 at their length, int8, a scale per page",
        lambda page: rounded(pool(page, 8)),
        PATCHES / 8 * 128,
    )
    yield Way("clusters, an eighth as many", lambda page: clustered(page, 8), PATCHES / 8 * 512)
    yield Way("one mean", lambda page: page.mean(axis=0, keepdims=True), 512)


def means(page: Page, factor: int) -> Page:
    """Plain means of consecutive vectors."""
    starts = np.arange(0, len(page), factor)
    return np.add.reduceat(page, starts, axis=0) / np.diff(starts, append=len(page))[:, None].astype(
        np.float32
    )


def rounded(page: Page, *, per_vector: bool = False) -> Page:
    """As if kept as int8."""
    most = np.abs(page).max(axis=1, keepdims=True) if per_vector else np.abs(page).max()
    step = np.maximum(most, 1e-9) / 127
    return (np.rint(page / step) * step).astype(np.float32)


def clustered(page: Page, factor: int) -> Page:
    """Means of clusters by Ward's method over cosine distances, as hierarchical token pooling does."""
    from scipy.cluster.hierarchy import fcluster, linkage  # pyright: ignore[reportUnknownVariableType]

    alike = unit(page)
    distances = 1 - (alike @ alike.T)[np.triu_indices(len(page), 1)]
    labels = np.asarray(fcluster(linkage(distances, "ward"), max(1, len(page) // factor), "maxclust"))
    return np.stack([unit(page[labels == label].mean(axis=0)) for label in np.unique(labels)])


def scores(made: Sequence[Page], asked: Sequence[Page]) -> NDArray[np.float32]:
    """MaxSim of all queries with all pages, (queries, pages)."""
    starts = np.cumsum([0, *(len(query) for query in asked[:-1])])
    stack = np.concatenate(asked)
    return np.stack([np.add.reduceat((stack @ page.T).max(axis=1), starts) for page in made], axis=1)


def line(coarse: NDArray[np.float32], exact: NDArray[np.float32]) -> str:
    """The measures of one way."""
    truth = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    order = np.argsort(-coarse, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)[np.arange(len(truth))[:, None], truth]  # of the exact ten, from 0
    gains, weights = np.arange(10, 0, -1), 1 / np.log2(np.arange(10) + 2)
    reached = np.where(ranks < 10, gains / np.log2(ranks + 2), 0).sum(axis=1) / (gains * weights).sum()
    shares = "".join(f"{(ranks < depth).mean():8.4f}" for depth in DEPTHS)
    return f"{reached.mean():8.4f}{(ranks < 10).mean():8.4f}{shares}{int(ranks.max()) + 1:6}"


def study(name: str, made: list[Page], count: int, chosen: Sequence[Way]) -> None:
    """Prints one table."""
    halves = [page.astype(np.float16) for page in made]
    asked = {close: [query for _, query in queries(halves, count, close)] for close in CLOSENESS}
    exact = {close: scores(made, few) for close, few in asked.items()}
    print(f"\n{name}: {len(made)} pages, {count} queries for each cosine")
    heads = "".join(f"{head:>8}" for head in ("nDCG@10", "rec@10", *(f"in {depth}" for depth in DEPTHS)))
    print(f"{'cosine':8}{'':50}{'bytes':>8}{heads}{'last':>6}")
    for way in chosen:
        coarse = [way.make(page) for page in made]
        for close, few in asked.items():
            measures = line(scores(coarse, few), exact[close])
            print(f"{close:<8}{way.name:50}{way.bytes:8.0f}{measures}", flush=True)


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
