# pyright: basic
# ruff: noqa: ANN001, ANN201, ANN003, ANN202
"""Run by another Python, which has what the reference implementation needs: vectors of its own embedder.

Usage: python reference_late_vectors.py CLONE FOLDER, with models, pages and `asked.json` in FOLDER, as
`test_reference_late.py` puts them there; writes `vectors.npz` beside them. The reference's
`search_engine/vl_embedding.py` is imported as it is. It asks for CUDA devices and bfloat16 by name; the
class of colpali-engine that it calls is told to use the CPU and float32 instead.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


def on_cpu(kind):
    """Have a class of colpali-engine load on the CPU in float32, whatever its caller says."""
    original = kind.from_pretrained.__func__

    def from_pretrained(cls, name, **settings):
        settings.pop("device_map", None)
        return original(cls, name, **settings | {"torch_dtype": torch.float32})

    kind.from_pretrained = classmethod(from_pretrained)


def main(clone, folder):
    sys.path.insert(0, str(clone / "search_engine"))
    module = importlib.import_module("vl_embedding")
    asked = json.loads((folder / "asked.json").read_text())
    pages = [str(page) for page in sorted(folder.glob("page*.png"))]
    made = {}
    for name in ("colqwen2", "colpali"):
        on_cpu({"colqwen2": module.ColQwen2, "colpali": module.ColPali}[name])
        embedder = module.VL_Embedding(str(folder / f"vidore-{name}"), mode="image")
        batch = embedder.embed_text(asked)
        for number, text in enumerate(asked):
            made[f"{name}-query-{number}"] = embedder.embed_text(text)[0]
            made[f"{name}-tokens-{number}"] = embedder.processor.process_queries([text])["input_ids"][0]
        for number, page in enumerate(pages):
            made[f"{name}-page-{number}"] = embedder.embed_img(page)[0]
        scores = embedder.score(batch, [made[f"{name}-page-{number}"] for number in range(len(pages))])
        made[f"{name}-scores"] = scores
    vectors: dict[str, Any] = {name: np.asarray(values) for name, values in made.items()}
    np.savez(folder / "vectors.npz", **vectors)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
