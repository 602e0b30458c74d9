"""`qwen3-vl:MODEL`: Qwen3-VL-Embedding-2B and -8B, over transformers."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from vrag.embed.model_files import lasting_name
from vrag.embed.model_kind import QWEN3_INSTRUCTION
from vrag.embed.models.qwen_vl import VIDEO_MARK, QwenVLEmbedder
from vrag.embed.options import EmbedOptions

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.corpus.formats.video import VideoFrame

_RECIPE = 2
_FPS, _MIN_FRAMES = 1.0, 4
_TOKEN_PIXELS = 32 * 32
_VISION = "<|vision_start|>{}<|vision_end|>"
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Qwen3-VL's template, for checkpoints whose own template drops the system message or repeats it."""
_PROBE = "A sentence that no template contains."


class Qwen3VLEmbedder(QwenVLEmbedder):
    """An `Embedder` for Qwen3-VL-Embedding, with the prompts and sampling of the authors' `Qwen3VLEmbedder`.

    The instruction is always given as the system message, once, whatever the checkpoint's chat template and
    prompts file add by themselves. Parts come in the order video, image, text. Videos are sampled once a
    second and at least 4 times, in pairs, evenly from the first to the last frame; the reference's engine
    takes 8 frames at most, the authors' class 64: `EmbedOptions(frames=64)`.

    Arguments and errors are those of `QwenVLEmbedder`; `name` is `qwen3-vl:MODEL` when empty.
    """

    title = "Qwen3-VL-Embedding"
    model_type = "qwen3_vl"
    network = "Qwen3VLModel"
    image_pixels = (4 * _TOKEN_PIXELS, 1800 * _TOKEN_PIXELS)
    frame_pixels = (128 * _TOKEN_PIXELS, 768 * _TOKEN_PIXELS)
    max_tokens = 8192
    frames = 8

    def __init__(self, model: str, options: EmbedOptions | None = None, *, name: str = "") -> None:
        options = options or EmbedOptions()
        self._query_instruction = finish_sentence(options.query_instruction) or QWEN3_INSTRUCTION
        self._document_instruction = finish_sentence(options.document_instruction) or QWEN3_INSTRUCTION
        super().__init__(model, options, name=name or f"qwen3-vl:{lasting_name(model)}")

    def _load_tokenizer(self, folder: Path) -> Any:  # noqa: ANN401
        """Load it with a template that shows the system message exactly once, and no other instruction."""
        tokenizer = super()._load_tokenizer(folder)
        rendered = _render(tokenizer, _PROBE, [{"type": "text", "text": "text"}])
        if rendered.count(_PROBE) != 1 or QWEN3_INSTRUCTION in rendered:
            tokenizer.chat_template = _TEMPLATE
        return tokenizer

    def _word_item(self, parts: list[dict[str, str]]) -> str:
        return _render(self._tokenizer, self._document_instruction, parts)

    def _word_query(self, parts: list[dict[str, str]]) -> str:
        return _render(self._tokenizer, self._query_instruction, parts)

    def _sample(self, path: Path) -> tuple[list[VideoFrame], float]:
        from vrag.corpus.formats.video import sample_evenly

        return sample_evenly(
            path, fps=_FPS, most=self._most_frames, least=min(_MIN_FRAMES, self._most_frames)
        )

    def _place_video(self, prompt: str, frames: list[VideoFrame], grid: tuple[int, int]) -> str:
        """Put each pair of frames behind the mean of their times: `<1.5 seconds>`."""
        _, tokens = grid
        seconds = [frame.seconds for frame in frames]
        if len(seconds) % 2:
            seconds.append(seconds[-1])
        pairs = zip(seconds[::2], seconds[1::2], strict=True)
        shown = _VISION.format(VIDEO_MARK * tokens)
        steps = "".join(f"<{(first + second) / 2:.1f} seconds>{shown}" for first, second in pairs)
        return prompt.replace(_VISION.format(VIDEO_MARK), steps, 1)

    def _identity(self) -> dict[str, object]:
        return {
            "recipe": _RECIPE,
            "family": "qwen3-vl-embedding",
            "prompt": self._word_item([{"type": "text", "text": "text"}]),
            "size": self._sizes(),
            "frames": [_FPS, self._most_frames],
        }


def finish_sentence(instruction: str) -> str:
    """Add a full stop to an instruction, unless it ends in punctuation, as the authors do.

    >>> finish_sentence(" Find pages that answer the question ")
    'Find pages that answer the question.'
    """
    instruction = instruction.strip()
    ends = not instruction or unicodedata.category(instruction[-1]).startswith("P")
    return instruction if ends else f"{instruction}."


def _render(tokenizer: Any, instruction: str, parts: list[dict[str, str]]) -> str:  # noqa: ANN401
    messages = [
        {"role": "system", "content": [{"type": "text", "text": instruction}]},
        {"role": "user", "content": parts},
    ]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
