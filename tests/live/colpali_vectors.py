# pyright: basic
# ruff: noqa: ANN001, ANN201
"""Run by another Python, which has colpali-engine and torchvision: vectors and patches of its own.

Usage: python colpali_vectors.py FOLDER, with the models, pages and frames that `test_colpali.py` put
there; writes `vectors.npz` beside them.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image


def torchvision_beside_torch_for_cpus():
    """The wheel of torchvision that goes with CUDA declares operators that torch for CPUs lacks."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def network(folder, config, weights, head):
    """colpali-engine's ColQwen2 with a projection of the tiny model's size."""
    made = importlib.import_module("colpali_engine.models").ColQwen2(config)
    size = head["weight"].shape
    made.dim, made.custom_text_proj = size[0], torch.nn.Linear(size[1], size[0])
    named = {f"custom_text_proj.{name}": weight for name, weight in head.items()}
    made.load_state_dict(weights | named)
    return made.eval()


def native(folder):
    from transformers import ColQwen2ForRetrieval

    whole = ColQwen2ForRetrieval.from_pretrained(folder)
    head = whole.embedding_proj_layer.state_dict()
    return network(folder, whole.config.vlm_config, whole.vlm.state_dict(), head)


def adapted(folder, base):
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import Qwen2VLModel

    merged = PeftModel.from_pretrained(Qwen2VLModel.from_pretrained(base), folder).merge_and_unload()
    weights = load_file(folder / "1_Dense" / "model.safetensors")
    head = {name.removeprefix("linear."): weight for name, weight in weights.items()}
    return network(folder, merged.config, merged.state_dict(), head)


def processor(folder):
    from transformers import AutoTokenizer, Qwen2VLVideoProcessor

    pil = importlib.import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return importlib.import_module("colpali_engine.models").ColQwen2Processor(
        image_processor=pil.Qwen2VLImageProcessorPil.from_pretrained(folder),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=tokenizer.chat_template,
    )


def alone(model, batch):
    """The vectors of each thing in a batch, without the padding."""
    with torch.no_grad():
        made = model(**batch)
    return [one[mask.bool()].numpy() for one, mask in zip(made, batch["attention_mask"], strict=True)]


def main(folder):
    asked = json.loads((folder / "asked.json").read_text())
    pages = [Image.open(path) for path in sorted(folder.glob("page*.png"))]
    routes = {
        "native": native(folder / "colqwen2"),
        "modules": adapted(folder / "colqwen2-modules", folder / "colqwen2-base"),
    }
    made = {}
    for route, model in routes.items():
        own = processor(folder / {"native": "colqwen2", "modules": "colqwen2-modules"}[route])
        texts = {"native": own.process_texts(asked["native"]), "modules": own.process_queries(asked["plain"])}
        for kind, batch in (("page", own.process_images(pages)), ("query", texts[route])):
            made |= {f"{route}-{kind}-{i}": one for i, one in enumerate(alone(model, batch))}
    from transformers import Qwen2VLVideoProcessor

    frames = np.stack([np.asarray(Image.open(path)) for path in sorted(folder.glob("frame*.png"))])
    video = Qwen2VLVideoProcessor(size={"shortest_edge": 3136, "longest_edge": 200 * 784})
    patches = video(videos=[torch.tensor(frames).permute(0, 3, 1, 2)], return_tensors="pt")
    made |= {"video": patches["pixel_values_videos"].numpy(), "grid": patches["video_grid_thw"].numpy()}
    np.savez(folder / "vectors.npz", **made)


if __name__ == "__main__":
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        declared = torchvision_beside_torch_for_cpus()
    main(Path(sys.argv[1]))
