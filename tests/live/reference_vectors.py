# pyright: basic
# ruff: noqa: ANN001, ANN201
"""Run by another Python, which has what the reference implementation needs: vectors by its own modules.

Usage: python reference_vectors.py gve|qwen3-vl|search CLONE FOLDER. CLONE is a clone of the reference's
repository, FOLDER holds the model and `asked.json`: a list of `{"text", "image", "video"}`, each
optional; queries are texts. Writes `vectors.npz` there. With `search`, FOLDER also holds `index/`
and `queries.json`, and `found.json` is written. Nothing of the reference is changed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

os.environ.setdefault("FORCE_QWENVL_VIDEO_READER", "decord")


def gve(clone, folder, asked):
    """The vectors of GVE, as the reference's search engine asks for them.

    Its network computes positions in three dimensions for the first batch of a process alone, and remembers
    that it did; from the second on it counts tokens in one. Both are written.
    """
    sys.path.insert(0, str(clone))
    module = importlib.import_module("search_engine.models.GVE")
    model_folder = str(folder / "qwen2_5_vl-gve")  # the reference tells the network by this name
    model = module.AutoModelForSentenceEmbeddingTriplet(model_folder, torch_dtype=torch.float32)
    processor = module.VLProcessor(model_folder)
    engine = {"fps": 1.0, "max_frames": 8, "min_frames": 32, "max_pixels": 200 * 28 * 28}
    first, later = [], []
    for one in asked:
        content = [
            {"type": kind, kind: one[kind], **(engine if kind == "video" else {})}
            for kind in ("video", "image", "text")
            if one.get(kind)
        ]
        messages = [[{"role": "user", "content": content}]]
        with torch.no_grad():
            for made in (first, later):
                if made is first:
                    model.lm.rope_deltas = None  # as in a new process
                made.append(model.encode(processor(messages))[0].float().numpy())
    return {"first": np.stack(first), "later": np.stack(later)}


def qwen3_vl(clone, folder, asked):
    """The vectors of Qwen3-VL-Embedding, eight frames of a video at most."""
    sys.path.insert(0, str(clone / "search_engine" / "models" / "Qwen3_VL_Embedding"))
    module = importlib.import_module("qwen3_vl_embedding")
    model = module.Qwen3VLEmbedder(str(folder / "qwen3-vl-embedding"), max_frames=8, dtype=torch.float32)
    return {"first": np.stack([model.process([one])[0].float().numpy() for one in asked])}


def search(clone, folder):
    """What the reference's engine finds with GVE in an index, by its own `load_index` and `search`.

    Its constructor is left out: it refuses the very name of the model that it opens.
    """
    sys.path.insert(0, str(clone))
    models = importlib.import_module("search_engine.models.GVE")
    kind = importlib.import_module("search_engine.search_engine_faiss").SearchEngine
    engine = object.__new__(kind)
    engine.embed_model_name, engine.device = "Alibaba-NLP/GVE-3B", "cpu"
    engine.embed_model_name_file = "Alibaba_NLP_GVE_3B"
    model = str(folder / "qwen2_5_vl-gve")
    engine.model = models.AutoModelForSentenceEmbeddingTriplet(model, torch_dtype=torch.float32)
    engine.processor = models.VLProcessor(model)
    engine.load_index(str(folder / "index"))
    with torch.no_grad():
        found = engine.search(json.loads((folder / "queries.json").read_text()), top_k=5)
    (folder / "found.json").write_text(json.dumps(found))


def main(family, clone, folder):
    if family == "search":
        search(clone, folder)
        return
    asked = json.loads((folder / "asked.json").read_text())
    vectors = {"gve": gve, "qwen3-vl": qwen3_vl}[family](clone, folder, asked)
    np.savez(folder / "vectors.npz", **vectors)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
