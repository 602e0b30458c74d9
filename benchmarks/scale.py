"""A million single vectors and 50,000 pages of many: time to make the caches, memory, latency.

    python benchmarks/scale.py FOLDER [--vectors 1000000] [--pages 50000]

Needs about 30 GB in FOLDER at full size, one study after the other, and removes what it wrote. The data is
invented as in `dense.py` and `pages.py`. "Data" is the vectors as they are stored; memory is that of the
process that makes the caches from them, and of the one that searches: the most it held, mapped pages of
files included, and what it held without them at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import dense
from benchmarks.collections_of_vectors import fill, made_collection
from benchmarks.contender import Contender
from benchmarks.opening import size
from benchmarks.pages import DIMENSION, PATCHES, pages, queries, source
from vrag.embed.embedder import VectorKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

VECTORS = 1_000_000
PAGES = 50_000
QUERIES = 30

SEARCH = """
import numpy as np
from vrag.index.collection import Collection
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import open_vectors

collection = Collection.open(sys.argv[1])
queries = list(np.load(sys.argv[2]))
catalog = collection.catalog()
everything = np.ones(len(catalog.ids), np.bool_)
begun, used = time.perf_counter(), cpu()
index = open_vectors(collection, catalog.ids, catalog.key, VectorOptions(sys.argv[3]))
opened, used, making = time.perf_counter() - begun, cpu() - used, memory("VmHWM")
taken = []
found = []
for query in queries:
    hits, _, wall = timed(lambda: index.search([query], 10, [everything]))
    taken.append(wall)
    found.append([name for name, _ in hits[0]])
_, used_together, together = timed(lambda: index.search(queries, 10, [everything] * len(queries)))
say(
    opened=opened, opened_cpu=used, making=making,
    tier=index.tier.name, recall=index.tier.recall, found=found,
    first=taken[0], p50=float(np.median(taken)), p99=float(np.quantile(taken, 0.99)),
    together=together / len(queries), peak=memory("VmHWM"), held=memory("RssAnon"),
)
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is searched."""

    name: str
    kind: VectorKind
    count: int
    dimension: int
    vectors: Callable[[], Iterator[NDArray[Any]]]
    """Makes them anew, the same each time."""


def single(count: int) -> Iterator[NDArray[np.float32]]:
    """Single vectors one by one."""
    chance = np.random.default_rng(0)
    basis, centres = dense.shape_of(chance, count, dense.DIMENSION)
    for at in range(0, count, 5000):
        yield from dense.grouped(chance, min(5000, count - at), basis, centres)


def study(folder: Path, plan: Plan) -> None:
    """One collection: filled, its caches made, searched by another process, and exactly."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        home = Path(scratch)
        collection = made_collection(home / "collection", plan.kind, plan.dimension)
        begun = time.perf_counter()
        fill(collection, plan.vectors(), plan.count)
        data = size(home / "collection" / "blobs")
        print(
            f"\n{plan.name}: {data / 1e9:.2f} GB of vectors, written in {time.perf_counter() - begun:.0f} s"
        )
        np.save(home / "queries.npy", questions(plan))
        building = search(home, "auto")
        print(
            f"caches made in {building['opened']:.0f} s ({building['opened_cpu']:.0f} CPU s), "
            f"{size(home / 'collection' / 'cache') / 1e9:.2f} GB; "
            f"memory at most {building['making']:.0f} MB, {building['making'] * 1e6 / data:.1%} of the data"
        )
        report("searched", search(home, "auto"))
        exact = search(home, "exact")
        report("exactly, for comparison", exact)
        pairs = zip(building["found"], exact["found"], strict=True)
        share = np.mean([len(set(ours) & set(truth)) / len(truth) for ours, truth in pairs])
        measured = building["recall"]
        print(f"  recall@10 over {QUERIES} queries {share:.4f}; as measured with the caches: {measured}")


def questions(plan: Plan) -> NDArray[np.float32]:
    """Queries close to some of the first vectors."""
    few = list(islice(plan.vectors(), 1000))
    if plan.kind is VectorKind.SINGLE:
        chance = np.random.default_rng(1)
        return dense.noisy(chance, np.stack(few)[chance.choice(len(few), QUERIES)])
    return np.stack([query for _, query in queries(few, QUERIES, 0.7)])


def search(home: Path, tier: str) -> dict[str, Any]:
    """What a new process says of opening and searching."""
    contender = Contender(SEARCH, [home / "collection", home / "queries.npy", tier])
    contender.end()
    return contender.ready


def report(name: str, said: dict[str, Any]) -> None:
    """Prints what a process said."""
    print(
        f"  {name}, tier {said['tier']}: opened in {said['opened']:.1f} s; "
        f"first query {said['first']:.0f} ms, p50 {said['p50']:.1f} ms, p99 {said['p99']:.0f} ms, "
        f"{QUERIES} at once {said['together']:.1f} ms each; "
        f"memory at most {said['peak']:.0f} MB, {said['held']:.0f} MB without mapped files"
    )


def main() -> int:
    """Prints both studies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where there is room; what is written there is removed")
    parser.add_argument("--vectors", type=int, default=VECTORS, help="0 leaves this study out")
    parser.add_argument("--pages", type=int, default=PAGES, help="0 leaves this study out")
    arguments = parser.parse_args()
    count, pages_wanted = arguments.vectors, arguments.pages
    name = f"{count:,} single vectors × {dense.DIMENSION}"
    if count:
        study(arguments.folder, Plan(name, VectorKind.SINGLE, count, dense.DIMENSION, lambda: single(count)))
    name = f"{pages_wanted:,} pages × {PATCHES} × {DIMENSION}, {source()}"
    if pages_wanted:
        study(
            arguments.folder,
            Plan(name, VectorKind.MULTI, pages_wanted, DIMENSION, lambda: pages(pages_wanted)),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
