"""Networks of the published width in bfloat16 on the CPU: shapes and types that tiny networks do not have.

Each has one layer of language model and one of vision, a vocabulary of the tokens in use and random weights.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import published_models as published
import pytest
import tiny_models as tiny
from extras import require
from PIL import Image

from vrag.embed.embedder import EmbedContent, VectorKind
from vrag.embed.registry import open_embedder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

require("models", "sentence_transformers", "peft")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page"]
QWEN3_VL_2B = {
    "vocab_size": published.VOCABULARY,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
QWEN3_VL_VISION = {
    "depth": 1,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "num_position_embeddings": 2304,
}
QWEN2_5_VL_3B = {
    "vocab_size": published.VOCABULARY,
    "hidden_size": 2048,
    "intermediate_size": 11_008,
    "num_hidden_layers": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
}
QWEN2_5_VL_VISION = {
    "depth": 1,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "fullatt_block_indexes": [0],
}


def colqwen2(folder: Path) -> str:
    return f"sentence:{published.colqwen2(folder / 'adapter', folder / 'base', wide=True)}"


def colpali(folder: Path) -> str:
    return f"sentence:{published.colpali(folder / 'adapter', folder / 'base', wide=True)}"


def widen(folder: Path, kind: str, text: dict[str, Any], vision: dict[str, Any], sections: list[int]) -> None:
    """Replace the network of a tiny checkpoint by a wide one."""
    transformers = tiny.load("transformers")
    config = transformers.AutoConfig.from_pretrained(folder)
    rope = dict(config.text_config.rope_parameters) | {"mrope_section": sections}
    published.resize(config.text_config, text | {"rope_parameters": rope})
    published.resize(config.vision_config, vision)
    weights = published.fill(getattr(transformers, kind), config)
    weights.pop("lm_head.weight")
    if kind.startswith("Qwen2_5"):  # as transformers 4 saved them
        old_names = {"model.visual.": "visual.", "model.language_model.": "model."}
        for name in list(weights):
            new, old = next(item for item in old_names.items() if name.startswith(item[0]))
            weights[old + name.removeprefix(new)] = weights.pop(name)
    tiny.load("safetensors.torch").save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config.architectures = [kind]
    config.save_pretrained(folder)


def qwen3_vl_embedding(folder: Path) -> str:
    tiny.qwen3_vl_embedding(folder)
    kind = "Qwen3VLForConditionalGeneration"
    widen(folder, kind, QWEN3_VL_2B, QWEN3_VL_VISION | {"deepstack_visual_indexes": [0]}, [24, 20, 20])
    pooling = {"embedding_dimension": 2048, "pooling_mode": "lasttoken", "include_prompt": True}
    tiny.write(folder / "1_Pooling", "config.json", pooling)
    return f"sentence:{folder}"


def gve(folder: Path) -> str:
    tiny.gve(folder)
    kind = "Qwen2_5_VLForConditionalGeneration"
    widen(folder, kind, QWEN2_5_VL_3B, QWEN2_5_VL_VISION, [16, 24, 24])
    return f"gve:{folder}"


@pytest.mark.parametrize(
    ("build", "dimension"), [(colqwen2, 128), (colpali, 128), (qwen3_vl_embedding, 2048), (gve, 2048)]
)
def test_batches_of_pictures_and_texts_in_bfloat16(
    tmp_path: Path, build: Callable[[Path], str], dimension: int
) -> None:
    embedder = open_embedder(build(tmp_path), dtype="bfloat16", visual_tokens=200)
    assert embedder.dimension == dimension
    pages = [Image.effect_noise(size, 80).convert("RGB") for size in [(420, 560), (280, 140)]]
    contents = [*(EmbedContent(image=page) for page in pages), *(EmbedContent(text=text) for text in TEXTS)]
    vectors = [*embedder.embed_items(contents), *embedder.embed_queries(TEXTS)]
    for made in vectors:
        assert made.shape[-1:] == (dimension,)
        assert made.ndim == (2 if embedder.kind is VectorKind.MULTI else 1)
        np.testing.assert_allclose(np.linalg.norm(made, axis=-1), 1, atol=1e-2)
    first, second = (np.atleast_2d(made) for made in vectors[:2])
    assert float((first @ second.T).max(axis=1).mean()) < 0.9999, "two pictures give the same vectors"
    alone = np.atleast_2d(embedder.embed_queries(TEXTS[:1])[0])
    again = np.atleast_2d(vectors[-2])
    assert (alone * again).sum(axis=1).min() > 0.98, "a vector depends on its batch beyond rounding"
    shutil.rmtree(tmp_path)  # some hundred megabytes, which pytest would keep
