"""Optical character recognition with word boxes, by rapidocr's packaged models."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.geometry import Box
from vrag.types import Word

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["read_picture"]


def read_picture(image: Image) -> tuple[str, tuple[Word, ...]]:
    """The text in a picture, one line per line of print, and its words with boxes.

    Args:
        image: Of any size; read at a size bounded on the longer side.
    """
    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
    result: Any = _engine()(np.ascontiguousarray(pixels), return_word_box=True)
    return _assemble(result.word_results or (), image.width, image.height)


def _assemble(lines: Any, width: int, height: int) -> tuple[str, tuple[Word, ...]]:
    parts: list[str] = []
    words: list[Word] = []
    position = 0
    for line in lines:
        for text, _, corners in line:
            xs = [float(x) / width for x, _ in corners]
            ys = [float(y) / height for _, y in corners]
            box = Box.unit(max(0.0, min(xs)), max(0.0, min(ys)), min(1.0, max(xs)), min(1.0, max(ys)))
            words.append(Word(position, position + len(text), box))
            parts.append(text + " ")
            position += len(text) + 1
        if line:
            parts[-1] = parts[-1][:-1] + "\n"
    return "".join(parts).rstrip("\n"), tuple(words)


@functools.cache
def _engine() -> Any:
    """The models, loaded once per process."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.return_word_box": True,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
