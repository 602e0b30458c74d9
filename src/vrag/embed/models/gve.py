"""`gve:MODEL`: the General Video Embedder, GVE-3B and GVE-7B, over transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.embed.device import library
from vrag.embed.model_files import lasting_name
from vrag.embed.models.loader import qwen2_5_positions
from vrag.embed.models.qwen_vl import VIDEO_MARK, QwenVLEmbedder
from vrag.embed.options import EmbedOptions

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.models.qwen_vl import PixelLimits

CLOSING = "<|endoftext|>"
"""The token after the generation prompt, whose state is the vector, as in GME, from which GVE descends.

The reference implementation's processor appends it to every sequence. It does matter: the maintainers of
MTEB measured recall@1 of .31 without and .44 with it on the authors' MSR-VTT split, .431 in the paper (Guo
et al. 2025, "Towards Universal Video Retrieval").
"""
_RECIPE = 1
_FPS, _MIN_FRAMES = 1.0, 4
_TOKEN_PIXELS = 28 * 28


class GveEmbedder(QwenVLEmbedder):
    """An `Embedder` for GVE: a Qwen2.5-VL, its chat template with the generation prompt, then `CLOSING`.

    Queries and items have the same prompt. Videos are sampled once a second, at most 32 times; longer ones
    evenly. Where a number of frames is asked for, so many are taken of any video, by the rules of
    qwen-vl-utils: `EmbedOptions(frames=8)` does as the reference implementation's engine. Instructions are
    refused.

    Positions are Qwen2.5-VL's, in three dimensions. The reference implementation computes them so for the
    first batch of a process alone and counts tokens in one dimension from then on, by a state that it
    forgets to clear; its vectors of pictures differ from these by that, those of texts do not.

    Arguments and errors are those of `QwenVLEmbedder`; `name` is `gve:MODEL` when empty.
    """

    title = "GVE"
    model_type = "qwen2_5_vl"
    network = "Qwen2_5_VLModel"
    image_pixels = (4 * _TOKEN_PIXELS, 256 * _TOKEN_PIXELS)
    frame_pixels = (4 * _TOKEN_PIXELS, 200 * _TOKEN_PIXELS)
    max_tokens = 8191
    frames = 32
    closing = CLOSING

    def __init__(self, model: str, options: EmbedOptions | None = None, *, name: str = "") -> None:
        options = options or EmbedOptions()
        name = name or f"gve:{lasting_name(model)}"
        options.refuse_instructions(name)
        self._asked_frames = options.frames
        super().__init__(model, options, name=name)

    def _word_item(self, parts: list[dict[str, str]]) -> str:
        messages = [{"role": "user", "content": parts}]
        return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def _limit_frames(self, options: EmbedOptions) -> PixelLimits:
        least, most = self.frame_pixels
        return (128 * _TOKEN_PIXELS if options.frames else least, most)

    def _sample(self, path: Path) -> tuple[list[VideoFrame], float]:
        from vrag.corpus.formats.video import sample_evenly, sample_frames

        if self._asked_frames:
            return sample_evenly(path, fps=_FPS, most=self._asked_frames, least=self._asked_frames)
        frames = sample_frames(path, fps=_FPS, most=self.frames, least=_MIN_FRAMES)
        return frames, frame_rate([frame.seconds for frame in frames], _FPS)

    def _place_video(self, prompt: str, frames: list[VideoFrame], grid: tuple[int, int]) -> str:  # noqa: ARG002
        steps, tokens = grid
        return prompt.replace(VIDEO_MARK, VIDEO_MARK * (steps * tokens), 1)

    def _describe_video(self, rate: float) -> dict[str, Any]:
        seconds = self._frames.temporal_patch_size / rate
        return {"second_per_grid_ts": library("torch").tensor([seconds])}

    def _positions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"position_ids": qwen2_5_positions(self._model.config, inputs)}

    def _identity(self) -> dict[str, object]:
        return {
            "recipe": _RECIPE,
            "family": "gve",
            "closing": self.closing,
            "size": self._sizes(),
            "frames": self._asked_frames or [_FPS, self.frames, _MIN_FRAMES],
        }


def frame_rate(seconds: list[float], default: float) -> float:
    """Return the frames per second of a video of the frames at `seconds`; `default` for a single frame.

    >>> frame_rate([0.0, 2.0, 4.0], 1.0)
    0.5
    """
    if len(seconds) < 2 or seconds[-1] <= seconds[0]:
        return default
    return (len(seconds) - 1) / (seconds[-1] - seconds[0])
