"""Single vectors: processor time of a search beside FAISS IndexFlatIP, which the reference calls.

The vectors are invented: groups of about fifty around common centres, most of their length within 256 of
2048 dimensions, the later ones weighing less, as in the embeddings of models. Queries are vectors with
noise of the same length. Every
program searches the same file with the same number of threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.contender import Contender, contest, medians
from benchmarks.table import Comparison, compared, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNT = 100_000
DIMENSION = 2048
RUNS = 5
QUERIES = 96
TOGETHER = 32
LATENT = 256
"""Dimensions that most of the vectors' length lies in, with weights 1/√n."""

OURS = """
import tempfile
from pathlib import Path
import numpy as np
from vrag.storage.array_cache import StoredArrays
from vrag.index.vectors.dense import ExactDense, Int8Prefilter, Vectors, build_int8
from vrag.index.vectors.dense import RabitqDense, build_rabitq
from vrag.index.vectors.tiers import Tier, TierName

folder, tier = Path(sys.argv[1]), sys.argv[2]
numbers, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npy")
numbers = np.asarray(numbers)
everything = np.ones(len(numbers), np.bool_)
vectors = Vectors(numbers, everything, 1.0)
ids = [f"{number:07}" for number in range(len(numbers))]

def made(build):
    with tempfile.TemporaryDirectory() as scratch:
        content = build(vectors, Path(scratch))
        arrays = {name: np.fromfile(Path(scratch) / name, of) for name, (of, _) in content.arrays.items()}
    return StoredArrays(arrays, content.facts)

recall, before = 1.0, cpu()
if tier == "exact":
    index = ExactDense(Tier(TierName.EXACT, ""), ids, vectors, Int8Prefilter(made(build_int8)))
else:
    stored = made(build_rabitq)
    recall = stored.facts["recall"]
    index = RabitqDense(Tier(TierName.RABITQ, ""), ids, vectors, stored)
say(recall=recall, seconds=cpu() - before)
for line in sys.stdin:
    together = int(line)
    def search():
        hits = []
        for at in range(0, len(queries), together):
            part = list(queries[at : at + together])
            hits += index.search(part, 10, [everything] * len(part))
        return hits
    hits, used, _ = timed(search)
    say(cpu=used / len(queries), found=[[int(name) for name, _ in found] for found in hits])
"""
THEIRS = """
import faiss
import numpy as np
from pathlib import Path

folder = Path(sys.argv[1])
vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
index = faiss.IndexFlatIP(vectors.shape[1])
index.add(vectors)
say()
for line in sys.stdin:
    together = int(line)
    def search():
        return [index.search(queries[at : at + together], 10)[1] for at in range(0, len(queries), together)]
    hits, used, _ = timed(search)
    say(cpu=used / len(queries), found=np.concatenate(hits).tolist())
"""


def main(count: int = COUNT, dimension: int = DIMENSION, runs: int = RUNS) -> list[Comparison]:
    """Searches with both exactly, and with codes."""
    if importlib.util.find_spec("faiss") is None:
        print("dense: skipped, it needs faiss-cpu")
        return []
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), count, dimension)
        contenders = [Contender(OURS, [folder, "exact"]), Contender(OURS, [folder, "rabitq"])]
        contenders.append(Contender(THEIRS, [folder]))
        with contest(*contenders):
            return list(rows(contenders, f"{count:,} × {dimension}", runs))


def rows(contenders: list[Contender], size: str, runs: int) -> list[Comparison]:
    """One query at a time, then all of them at once."""
    out: list[Comparison] = []
    for together, name in ((1, "one query at a time"), (TOGETHER, f"{TOGETHER} queries at a time")):
        exact, codes, theirs = medians(contenders, together, runs)
        out.append(
            compared(f"dense exact, {size}, {name}", exact["cpu"], theirs["cpu"], "CPU ms per query", runs)
        )
        same = np.mean([ours == faiss for ours, faiss in zip(exact["found"], theirs["found"], strict=True)])
        out.append(
            compared(f"dense exact, {size}, {name}, same ten in the same order", float(same), 1.0, "share", 1)
        )
        out.append(
            compared(f"dense codes, {size}, {name}", codes["cpu"], theirs["cpu"], "CPU ms per query", runs)
        )
        out.append(
            compared(f"dense codes, {size}, {name}, recall@10", recall(codes, theirs), 1.0, "share", 1)
        )
    return out


def recall(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """Share of their ten that are among ours."""
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(ours["found"], theirs["found"], strict=True)]
    return float(np.mean(shares))


def write(folder: Path, count: int, dimension: int) -> None:
    """Vectors and queries as files."""
    chance = np.random.default_rng(0)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (count, dimension))
    basis, centres = shape_of(chance, count, dimension)
    for at in range(0, count, 5000):
        size = min(5000, count - at)
        vectors[at : at + size] = grouped(chance, size, basis, centres)
    chosen = vectors[np.sort(chance.choice(count, QUERIES, replace=False))]
    np.save(folder / "queries.npy", noisy(chance, chosen))
    vectors.flush()


def noisy(chance: np.random.Generator, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors at a cosine of about .7 to these."""
    made = vectors + chance.standard_normal(vectors.shape) / np.sqrt(vectors.shape[1])
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def shape_of(
    chance: np.random.Generator, count: int, dimension: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The space that most of the length of so many vectors lies in, and the centres of their groups."""
    weights = 1 / np.sqrt(1 + np.arange(LATENT))
    basis = weights[:, None] * chance.standard_normal((LATENT, dimension))
    centres = chance.standard_normal((max(1, count // 50), LATENT), np.float32)
    return (basis / np.linalg.norm(basis)).astype(np.float32), centres


def grouped(
    chance: np.random.Generator, size: int, basis: NDArray[np.float32], centres: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Unit vectors around centres, most of them within a space of fewer dimensions."""
    latent = chance.standard_normal((size, len(basis)), np.float32)
    latent += 2 * centres[chance.integers(len(centres), size=size)]
    made = latent @ basis
    made += 0.3 / np.sqrt(basis.shape[1]) * chance.standard_normal(made.shape, np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    show(main(arguments.count, arguments.dimension, arguments.runs))
