"""Checkpoints of random weights, made once, and things to embed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from extras import require
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one folder for each tiny model."""
    require("models", "torch", "transformers", "sentence_transformers", "peft")
    import tiny_models as tiny
    from torch import set_num_threads

    set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saving warns of what loading does not use
        tiny.colqwen2(folder / "colqwen2")
        tiny.colqwen2_modules(folder / "colqwen2-modules", folder / "colqwen2", folder / "colqwen2-base")
        tiny.colpali(folder / "colpali")
        tiny.qwen3_vl_embedding(folder / "qwen3-vl-embedding")
        own = {"query": "Retrieve what answers the question.", "document": "Represent the input."}
        tiny.qwen3_vl_embedding(folder / "qwen3-vl-tuned", prompts=own)
        tiny.qwen3_vl_reranker(folder / "qwen3-vl-reranker")
        tiny.gve(folder / "gve")
        tiny.text_embedder(folder / "text")
        tiny.cross_encoder(folder / "cross-encoder")
    return folder


@pytest.fixture(scope="session")
def pages() -> list[Image.Image]:
    """Three pictures of different contents and proportions."""
    made: list[Image.Image] = []
    for seed, (width, height) in enumerate([(260, 200), (120, 90), (100, 300)]):
        noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        page = Image.fromarray(noise)
        ImageDraw.Draw(page).ellipse((10, 10, 70, 70), fill=["red", "blue", "white"][seed])
        made.append(page)
    return made
