"""Tiny models in this process, and what they are asked."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from vrag.agent.policy import Delta, EnclosedImage, Message, Picture, Reply, Role, Text
from vrag.geometry import Size, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.agent.policies.local import LocalPolicy


FAMILIES = {"qwen2_vl": "qwen2-vl", "qwen2_5_vl": "qwen2.5-vl", "qwen3_vl": "qwen3-vl"}


def tiny_models() -> Any:  # noqa: ANN401 - not typed
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        return importlib.import_module("tiny_models")
    finally:
        sys.path.pop()


def picture(seed: int, columns: int, rows: int, *, factor: int = 28, number: int = 1) -> Picture:
    """Noise of that many visual tokens, as the environment gives pictures."""
    size = Size(columns * factor, rows * factor)
    noise = np.random.default_rng(seed).integers(0, 256, (size.height, size.width, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0)
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return Picture(number, "a:1", View.whole(size, size), file.getvalue(), digest, crop=False)


def user(*parts: str | Picture | EnclosedImage) -> Message:
    return Message(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


async def all_of(policy: LocalPolicy, history: Sequence[Message]) -> tuple[list[str], Reply]:
    deltas: list[str] = []
    async for part in policy.reply(history):
        if isinstance(part, Reply):
            return deltas, part
        assert isinstance(part, Delta)
        deltas.append(part.text)
    raise AssertionError("no reply came")


def ask(policy: LocalPolicy, *parts: str | Picture | EnclosedImage) -> Reply:
    return asyncio.run(all_of(policy, [user(*parts)]))[1]


class Bare:
    """The checkpoint without anything of ours."""

    def __init__(self, folder: Path, kind: str) -> None:
        transformers: Any = importlib.import_module("transformers")
        pil: Any = importlib.import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.images = pil.Qwen2VLImageProcessorPil.from_pretrained(folder)
        name = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL"}[kind]
        network: Any = getattr(transformers, f"{name}ForConditionalGeneration")
        self.network = network.from_pretrained(folder).eval()
        self.torch: Any = importlib.import_module("torch")
        vision = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
        self.placeholders: list[int] = [self.tokenizer.convert_tokens_to_ids(token) for token in vision]

    def inputs(self, prompt: str, pictures: Sequence[Picture]) -> dict[str, Any]:
        ids = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        kinds = (ids == self.tokenizer.convert_tokens_to_ids("<|image_pad|>")).int()
        files = [Image.open(io.BytesIO(picture.jpeg)) for picture in pictures]
        return {"input_ids": ids, "mm_token_type_ids": kinds} | dict(self.images(files, return_tensors="pt"))

    def greedy(self, inputs: dict[str, Any], tokens: int) -> list[int]:
        plain = {"do_sample": False, "repetition_penalty": 1.0, "temperature": 1.0, "top_k": 50}
        plain |= {"suppress_tokens": self.placeholders}
        made = self.network.generate(**inputs, max_new_tokens=tokens, **plain)
        return made[0, inputs["input_ids"].shape[1] :].tolist()

    def logits(self, inputs: dict[str, Any], ids: Sequence[int]) -> NDArray[np.float64]:
        """Scores of all tokens at each place of `ids`, which follow the prompt, in one pass."""
        prompt = inputs["input_ids"]
        whole = self.torch.cat([prompt, self.torch.tensor([ids])], dim=1)
        kinds = self.torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, len(ids)))
        with self.torch.no_grad():
            out = self.network(**inputs | {"input_ids": whole, "mm_token_type_ids": kinds}).logits[0]
        scores: NDArray[np.float64] = out[prompt.shape[1] - 1 : -1].double().numpy().copy()
        scores[:, self.placeholders] = -np.inf  # a reply holds no placeholder of a picture
        return scores
