"""Late interaction: processor time of a search beside colpali-engine's own scoring, as the reference has it.

Pages of 768 vectors of 128 numbers (`pages.py`), queries of 20. colpali-engine runs in an environment of
its own, whose Python VRAG_COLPALI_PYTHON names (`.venv/colpali/bin/python` by default): its
`score_multi_vector` over all pages as a list of tensors, in float32 and bfloat16, the quicker of which
counts. Ours finds the best ten. Beside both stands what multiplying alone takes here: the processor time
of a large square product, for as many operations.

What is measured is also checked: exact scores against colpali-engine's in float32, and the ten that the
fast search finds against those of the exact one.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.contender import Contender, contest, medians
from benchmarks.pages import DIMENSION, PATCHES, TOKENS, pages, queries, source
from benchmarks.table import Comparison, compared, show

COLPALI = Path(__file__).resolve().parents[1] / ".venv" / "colpali" / "bin" / "python"
SIZES = (1000, 5000)
RUNS = 3
QUERIES = 16
CLOSENESS = 0.7

OURS = """
from pathlib import Path
import numpy as np
from vrag.index.vectors import pooled
from vrag.index.vectors.maxsim import ExactMaxSim, Pages
from vrag.index.vectors.pooled import PooledMaxSim, PooledVectors
from vrag.index.vectors.tiers import Tier, TierName

folder, tier = Path(sys.argv[1]), sys.argv[2]
vectors, queries = np.load(folder / "pages.npy", mmap_mode="r"), np.load(folder / "queries.npy")
count, patches, dimension = vectors.shape
lengths = np.full(count, patches, np.int64)
pages = Pages(np.asarray(vectors).reshape(-1, dimension), np.arange(count) * patches, lengths)
everything = np.ones(count, np.bool_)
ids = [f"{number:07}" for number in range(count)]
begun = cpu()
if tier == "exact":
    index = ExactMaxSim(Tier(TierName.EXACT, ""), ids, pages)
else:
    scratch = Path(sys.argv[3])
    content = pooled.build(pages, scratch)
    arrays = {name: np.fromfile(scratch / name, of) for name, (of, _) in content.arrays.items()}
    arrays["codes"] = arrays["codes"].reshape(-1, dimension)
    index = PooledMaxSim(
        Tier(TierName.POOLED, ""), ids, pages, PooledVectors.of(arrays), content.facts["candidates"]
    )
say(seconds=cpu() - begun, **({} if tier == "exact" else content.facts))
for line in sys.stdin:
    together = int(line)
    def search():
        hits = []
        for at in range(0, len(queries), together):
            part = list(queries[at : at + together])
            hits += index.search(part, 10, [everything] * len(part))
        return hits
    hits, used, wall = timed(search)
    found = [[(int(name), score) for name, score in one] for one in hits]
    say(cpu=used / len(queries), wall=wall / len(queries), found=found)
"""
THEIRS = """
import numpy as np
import torch
from pathlib import Path

# A torchvision built for another torch is imported only when its operators are declared; none is used.
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

score = BaseVisualRetrieverProcessor.score_multi_vector
folder, asked, number = Path(sys.argv[1]), int(sys.argv[2]), getattr(torch, sys.argv[3])
vectors, queries = np.load(folder / "pages.npy"), np.load(folder / "queries.npy")
pages = [torch.from_numpy(page).to(number) for page in vectors]
asking = [torch.from_numpy(query).to(number) for query in queries]
say()
for line in sys.stdin:
    if line.strip() == "check":
        say(scores=score(asking, pages[:200], device="cpu").tolist())
        continue
    def search():
        for query in asking[:asked]:
            score([query], pages, device="cpu")
    _, used, wall = timed(search)
    say(cpu=used / asked, wall=wall / asked)
"""
FLOOR = """
import numpy as np

side = 1536
a = np.ones((side, side), np.float32)
say()
for line in sys.stdin:
    _, used, _ = timed(lambda: a @ a, 5)
    say(cpu=used * float(line) / (2 * side**3))
"""


def main(sizes: tuple[int, ...] = SIZES, runs: int = RUNS, asked: int = 2) -> list[Comparison]:
    """Scores with both.

    Args:
        sizes: Numbers of pages.
        runs: Of each, those counted.
        asked: How many queries theirs is asked one by one, since it takes seconds for each.
    """
    python = Path(os.environ.get("VRAG_COLPALI_PYTHON", COLPALI))
    if not python.exists():
        print(f"maxsim: skipped, there is no {python} with colpali-engine (set VRAG_COLPALI_PYTHON)")
        return []
    print(f"maxsim: {source()}, {PATCHES} × {DIMENSION}; queries are {TOKENS} patches at cosine {CLOSENESS}")
    out: list[Comparison] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), size)
            contenders = [
                Contender(OURS, [folder, "exact"]),
                Contender(OURS, [folder, "pooled", folder]),
                Contender(THEIRS, [folder, asked, "float32"], str(python)),
                Contender(THEIRS, [folder, asked, "bfloat16"], str(python)),
                Contender(FLOOR, []),
            ]
            with contest(*contenders):
                out += rows(contenders, size, runs)
    return out


def rows(contenders: list[Contender], size: int, runs: int) -> list[Comparison]:
    """The comparisons for one number of pages."""
    *searching, floor = contenders
    exact, fast, *theirs = medians(searching, 1, runs)
    quickest = min(said["cpu"] for said in theirs)
    (least,) = medians([floor], 2 * size * PATCHES * DIMENSION * TOKENS, runs)
    exact_of_many, fast_of_many = medians(searching[:2], QUERIES, runs)
    pairs = list(zip(fast["found"], exact["found"], strict=True))
    quality = float(np.mean([gained(found, truth) for found, truth in pairs]))
    share = float(np.mean([len(items(found) & items(truth)) / len(truth) for found, truth in pairs]))
    name, unit, many = f"MaxSim {size:,} pages", "CPU ms per query", f"{QUERIES} queries at a time"
    return [
        compared(f"{name}, fast", fast["cpu"], quickest, unit, runs),
        compared(f"{name}, fast, theirs in bfloat16", fast["cpu"], theirs[1]["cpu"], unit, runs),
        compared(f"{name}, fast, {many}", fast_of_many["cpu"], quickest, unit, runs),
        compared(f"{name}, fast, nDCG@10 by exact ranks", quality, 1.0, "nDCG", 1),
        compared(f"{name}, fast, recall@10 of exact", share, 1.0, "share", 1),
        compared(f"{name}, exact", exact["cpu"], quickest, unit, runs),
        compared(f"{name}, exact, {many}", exact_of_many["cpu"], quickest, unit, runs),
        compared(f"{name}, fast beside multiplying alone", fast["cpu"], least["cpu"], unit, runs),
        compared(f"{name}, exact beside multiplying alone", exact["cpu"], least["cpu"], unit, runs),
        compared(
            f"{name}, exact scores off theirs in float32", off(searching[2], exact["found"]), 1.0, "share", 1
        ),
    ]


def gained(found: list[tuple[int, float]], truth: list[tuple[int, float]]) -> float:
    """nDCG@10 where the exact ten gain 10, 9, … 1 by their rank."""
    gains = {item: len(truth) - rank for rank, (item, _) in enumerate(truth)}
    weights = 1 / np.log2(np.arange(len(truth)) + 2)
    reached = np.array([gains.get(item, 0) for item, _ in found])
    return float((reached * weights[: len(found)]).sum() / (np.array(list(gains.values())) * weights).sum())


def items(found: list[tuple[int, float]]) -> set[int]:
    """Which pages were found."""
    return {item for item, _ in found}


def off(theirs: Contender, found: list[list[tuple[int, float]]]) -> float:
    """Greatest difference of our scores and theirs, as a share of the score, where both have one."""
    scores = np.asarray(theirs.do("check")["scores"])
    shares = [
        abs(score - scores[query, item]) / abs(score)
        for query, hits in enumerate(found)
        for item, score in hits
        if item < scores.shape[1]
    ]
    return float(max(shares, default=float("nan")))


def write(folder: Path, size: int) -> None:
    """Pages and queries as files."""
    shape = size, PATCHES, DIMENSION
    made = np.lib.format.open_memmap(folder / "pages.npy", "w+", np.float16, shape)
    for number, page in enumerate(pages(size)):
        made[number] = page
    made.flush()
    asked = queries(list(made), QUERIES, CLOSENESS)
    np.save(folder / "queries.npy", np.stack([query for _, query in asked]))
    (folder / "made.json").write_text(json.dumps([page for page, _ in asked]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--asked", type=int, default=2)
    arguments = parser.parse_args()
    show(main(tuple(arguments.pages), arguments.runs, arguments.asked))
