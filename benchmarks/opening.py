"""Opening an index of many vectors per page until the first answer, beside the reference's JSON nodes.

The reference keeps a JSON file per page, reads all of them when it starts, and scores every page by
colpali-engine. Ours is a collection, whose search structures have been made before; making them is
measured once. Each program is started anew for each run; the files are in the system's cache, if they fit.

The reference's files are a hundred different ones under as many names as there are pages: reading takes
as long as if all differed, and less disk. Bytes per page on disk are of the numbers alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.collections_of_vectors import fill, made_collection
from benchmarks.contender import Contender
from benchmarks.maxsim import COLPALI
from benchmarks.pages import pages, queries, source
from benchmarks.table import Comparison, compared, show
from vrag.embed.embedder import VectorKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGES = 5000
RUNS = 3
DISTINCT = 100

OURS = """
begun = time.perf_counter()
import numpy as np
from vrag.index.collection import Collection
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import open_vectors

collection = Collection.open(sys.argv[1])
catalog = collection.catalog()
index = open_vectors(collection, catalog.ids, catalog.key, VectorOptions())
query = np.load(sys.argv[2])
(found,) = index.search([query], 10, [np.ones(len(catalog.ids), np.bool_)])
assert len(found) == 10
tier = index.tier
say(
    seconds=time.perf_counter() - begun, cpu=cpu(), peak=memory("VmHWM"), held=memory("RssAnon"),
    tier=tier.name, recall=tier.recall,
)
"""
THEIRS = """
begun = time.perf_counter()
from pathlib import Path
import numpy as np
import torch

library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

pages = []
for path in sorted(Path(sys.argv[1]).glob("*.node")):
    node = json.loads(path.read_text())[0]
    pages.append(torch.tensor(node["embedding"]).view(-1, 128).to(torch.bfloat16))
query = torch.from_numpy(np.load(sys.argv[2])).to(torch.bfloat16)
scores = BaseVisualRetrieverProcessor.score_multi_vector([query], pages, device="cpu")
assert len(scores.topk(10).indices[0]) == 10
say(seconds=time.perf_counter() - begun, cpu=cpu(), peak=memory("VmHWM"), held=memory("RssAnon"))
"""


def main(count: int = PAGES, runs: int = RUNS, runs_of_theirs: int = 1) -> list[Comparison]:
    """Opens both. Theirs takes minutes, so it may have fewer runs."""
    python = Path(os.environ.get("VRAG_COLPALI_PYTHON", COLPALI))
    if not python.exists():
        print(f"opening: skipped, there is no {python} with colpali-engine (set VRAG_COLPALI_PYTHON)")
        return []
    print(f"opening: {source()}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        collection = made_collection(home / "collection", VectorKind.MULTI, 128)
        fill(collection, pages(count), count)
        few = list(pages(min(DISTINCT, count)))
        np.save(home / "query.npy", queries(few, 1, 0.7)[0][1])
        node_bytes = write_nodes(home / "nodes", few, count)
        ours_arguments = [home / "collection", home / "query.npy"]
        building = once(Contender(OURS, ours_arguments))
        ours = [once(Contender(OURS, ours_arguments)) for _ in range(runs)]
        theirs = [
            once(Contender(THEIRS, [home / "nodes", home / "query.npy"], str(python)))
            for _ in range(runs_of_theirs)
        ]
        total, caches = (size(home / "collection" / name) / count for name in ("", "cache"))
    return rows(f"{count:,} pages", building, ours, theirs, (total - caches, caches, node_bytes))


def rows(
    name: str,
    building: dict[str, Any],
    ours: list[dict[str, Any]],
    theirs: list[dict[str, Any]],
    sizes: tuple[float, float, float],
) -> list[Comparison]:
    """The comparisons."""
    stored, caches, nodes = sizes
    print(f"opening: tier {ours[0]['tier']}, recall@10 {ours[0]['recall']}")
    first = {key: median(run[key] for run in theirs) for key in ("seconds", "cpu", "peak", "held")}
    again = {key: median(run[key] for run in ours) for key in first}
    runs = len(ours)
    return [
        compared(f"{name}, opened until the first answer", again["seconds"], first["seconds"], "s", runs),
        compared(f"{name}, opened until the first answer, CPU", again["cpu"], first["cpu"], "CPU s", runs),
        compared(f"{name}, memory held then, without mapped files", again["held"], first["held"], "MB", runs),
        compared(f"{name}, memory at most, mapped files included", again["peak"], first["peak"], "MB", runs),
        compared(f"{name}, very first opening: caches made", building["seconds"], first["seconds"], "s", 1),
        compared(f"{name}, memory at most meanwhile", building["peak"], first["peak"], "MB", 1),
        compared("bytes per page on disk, without caches", stored, nodes, "bytes", 1),
        compared("bytes per page on disk, with caches", stored + caches, nodes, "bytes", 1),
    ]


def once(contender: Contender) -> dict[str, Any]:
    """What a program says when it is done."""
    contender.end()
    return contender.ready


def write_nodes(folder: Path, few: list[NDArray[np.float16]], count: int) -> float:
    """Nodes as the reference writes them; returns the bytes of one."""
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number:06}.node"
        if number < len(few):
            values = [round(float(value), 10) for value in few[number].ravel()]
            node = {"id_": str(number), "embedding": values, "metadata": {"file_name": f"{number}.jpg"}}
            path.write_text(
                json.dumps([node | {"text": "", "class_name": "ImageNode"}], indent=2), encoding="utf-8"
            )
        else:
            path.hardlink_to(folder / f"{number % len(few):06}.node")
    return median((folder / f"{number:06}.node").stat().st_size for number in range(len(few)))


def size(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--runs-of-theirs", type=int, default=1)
    arguments = parser.parse_args()
    show(main(arguments.pages, arguments.runs, arguments.runs_of_theirs))
