"""Indexes as the reference writes them: the flat one by FAISS itself, nodes as LlamaIndex stores them."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from vrag.embed.embedder import EmbedContent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import Embedder

MODEL = "Alibaba-NLP/GVE-3B"
STEM = "Alibaba_NLP_GVE_3B"


def write_faiss(
    directory: Path,
    entries: Sequence[Mapping[str, Any]],
    vectors: NDArray[np.float32],
    *,
    model: str = MODEL,
    counted: int | None = None,
) -> Path:
    """The three files, in the order in which the reference saves them."""
    faiss: Any = importlib.import_module("faiss")
    directory.mkdir(parents=True, exist_ok=True)
    stem = model.replace("/", "_").replace("-", "_")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(directory / f"{stem}_faiss_index.bin"))
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (directory / f"{stem}_file_data_list.jsonl").write_text(lines, encoding="utf-8")
    meta = {
        "vector_dimension": vectors.shape[1],
        "num_vectors": len(entries) if counted is None else counted,
        "model_name": model,
        "date_created": "2026-02-03-04-05-06",
    }
    (directory / f"{stem}_meta_data.json").write_text(json.dumps(meta, indent=4), encoding="utf-8")
    return directory


def write_node(directory: Path, path: str, vectors: NDArray[np.float32], **metadata: Any) -> Path:  # noqa: ANN401
    """A `.node` file, with all that one of the reference's has."""
    name = path.rsplit("/", 1)[-1]
    fields = {"file_path": path, "file_name": name, "file_type": "image/jpeg", **metadata}
    node = {
        "id_": "b1519cff-3290-4de9-aa44-9374ecf81e81",
        "embedding": vectors.astype(np.float64).ravel().tolist(),
        "metadata": fields,
        "excluded_embed_metadata_keys": [],
        "relationships": {"1": {"node_id": "b159903c", "metadata": fields, "class_name": "RelatedNodeInfo"}},
        "text": "",
        "mimetype": "text/plain",
        "image": None,
        "image_path": path,
        "class_name": "ImageNode",
    }
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{name.rsplit('.', 1)[0]}.node"
    target.write_text(json.dumps([node], indent=2, ensure_ascii=False), encoding="utf-8")
    return target


def draw(path: Path, number: int) -> Path:
    """A small picture that differs from every other in more than a shade."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(0, 256, (4, 4, 3), np.uint8)
    Image.fromarray(noise).resize((24, 16 + number % 64), Image.Resampling.NEAREST).save(path)
    return path


def embed(embedder: Embedder, *paths: Path) -> list[NDArray[np.float32]]:
    """The vectors of pictures."""
    return list(embedder.embed_items([EmbedContent(image=Image.open(path).convert("RGB")) for path in paths]))
