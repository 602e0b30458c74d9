"""Optical character recognition with word boxes, by the models that are packaged with rapidocr."""

from __future__ import annotations

import functools
import importlib.util
import re
from bisect import bisect_left
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from vrag.errors import VragError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

CJK = (
    "\u2e80-\u2fdf\u3001-\u303f\u3040-\u30ff\u3100-\u312f\u3190-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uffee\U00020000-\U0003ffff"
)
"""Scripts written without spaces, and the punctuation that goes with them."""
NOISE = (
    "\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ud800-\udfff\ue000-\uf8ff\ufeff"
    "\ufff0-\uffff\U000e0000-\U0010ffff"
)
"""Control, invisible, private-use and replacement characters, and half pairs: not text."""

WORD = re.compile(rf"[{CJK}]|[^\s{CJK}{NOISE}]+")
"""A run without spaces, or a single character of a script that uses none: what gets a box of its own."""

Bounds = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""

MODELS = {"Det.model_path": "PP-OCRv6_det_small.onnx", "Rec.model_path": "PP-OCRv6_rec_small.onnx"}
"""Setting of rapidocr → file in its package. Named here because it downloads what it does not find."""

LONGEST_SIDE = 2000
"""Pixels; larger pictures are read at this size."""
MIN_SCORE = 0.5
"""Mean probability of its characters below which a line is not text but texture. rapidocr's default."""
MOST_RATIO = 75
"""Longest side to the other one of a picture that is read: rapidocr reduces narrower ones to nothing."""
FLAT = 8
"""Difference between the brightest and the darkest pixel up to which a picture is blank."""
SETTINGS: dict[str, object] = {
    "Global.log_level": "critical",
    "Global.use_cls": False,  # the direction of lines is found by `vrag.corpus.pages.orientation`
    "Global.text_score": 0.0,  # rapidocr's own filter puts words and lines out of step
    "Global.max_side_len": LONGEST_SIDE,
    "Global.return_word_box": True,
    "Global.return_single_char_box": True,
    # Lines are found on a small copy and read from the full picture: half the time, the same words.
    "Det.limit_type": "max",
    "Det.limit_side_len": 1280,
    "Rec.rec_batch_num": 1,  # on one core a batch only adds padding
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


class _Result(Protocol):
    """Output of rapidocr: per line its text, score, corners and glyphs; None where it found nothing."""

    txts: tuple[str, ...] | None
    scores: tuple[float, ...]
    boxes: NDArray[np.float32] | None
    word_results: tuple[list[tuple[str, float, list[list[float]]]], ...] | None


class _Engine(Protocol):
    def __call__(self, pixels: NDArray[np.uint8], /, *, use_det: bool, use_rec: bool) -> _Result: ...


class OcrLine(NamedTuple):
    """A line of text in an image."""

    text: str
    bounds: Bounds
    glyphs: tuple[Bounds, ...]
    """Bounds of each character of `text` that is not a space; empty when unknown."""
    score: float
    """Mean probability of its characters, from 0 to 1."""


def read_lines(pixels: NDArray[np.uint8]) -> list[OcrLine]:
    """Find and read the lines of a picture, rows of grey, RGB or RGBX; those below `MIN_SCORE` too.

    Lines that run up are read in their direction; those that run down or upside down come out wrong, with
    low scores.
    """
    import numpy as np

    picture = _prepare(pixels)
    if int(np.ptp(picture)) <= FLAT:
        return []
    return list(_lines(_engine()(picture, use_det=True, use_rec=True)))


def has_lines(pixels: NDArray[np.uint8]) -> bool:
    """Return whether a picture seems to have lines of text: half the work of `read_lines` if it has none."""
    result = _engine()(_prepare(pixels), use_det=True, use_rec=False)
    return result.boxes is not None and len(result.boxes) > 0


def read_strip(pixels: NDArray[np.uint8]) -> tuple[str, float]:
    """Read a part of a picture as one line that runs to the right: its text and its score."""
    result = _engine()(_prepare(pixels), use_det=False, use_rec=True)
    return (result.txts[0].strip(), result.scores[0]) if result.txts else ("", 0.0)


def _prepare(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture as rapidocr reads it: rows of BGR.

    A very narrow one is continued beyond its last row or column.
    """
    import numpy as np

    pixels = np.stack([pixels] * 3, axis=2) if pixels.ndim == 2 else pixels[:, :, :3]
    height, width = pixels.shape[:2]
    least = -(-max(height, width) // MOST_RATIO)
    if min(height, width) < least:
        pixels = np.pad(
            pixels, ((0, max(least - height, 0)), (0, max(least - width, 0)), (0, 0)), mode="edge"
        )
    return np.ascontiguousarray(pixels[:, :, ::-1])


def _lines(result: _Result) -> Iterator[OcrLine]:
    """Yield the lines that rapidocr found, each with its own characters."""
    if result.txts is None or result.boxes is None:
        return
    glyphs_of_lines = deque(result.word_results or ())
    for text, score, corners in zip(result.txts, result.scores, result.boxes.tolist(), strict=True):
        line, visible = text.strip(), "".join(text.split())
        glyphs: tuple[Bounds, ...] = ()
        # rapidocr leaves out the glyphs of some lines
        if glyphs_of_lines and "".join(glyph for glyph, *_ in glyphs_of_lines[0]) == visible:
            glyphs = tuple(_bounds(quad) for *_, quad in glyphs_of_lines.popleft())
        if line:
            yield OcrLine(line, _bounds(corners), glyphs, score)


def _bounds(corners: Iterable[Sequence[float]]) -> Bounds:
    xs, ys = zip(*((x, y) for x, y in corners), strict=True)
    return float(min(xs)), float(min(ys)), float(max(xs)), float(max(ys))


def rows(boxes: Sequence[Bounds]) -> list[list[int]]:
    """Group boxes that stand side by side: rows from top to bottom, each from left to right.

    >>> rows([(50, 1, 90, 11), (0, 20, 40, 30), (0, 0, 40, 10)])
    [[2, 0], [1]]
    """
    grouped: list[list[int]] = []
    for index in sorted(range(len(boxes)), key=lambda i: boxes[i][1] + boxes[i][3]):
        _, top, _, bottom = boxes[index]
        if grouped:
            _, above, _, below = boxes[grouped[-1][0]]
            overlap = min(bottom, below) - max(top, above)
            if overlap > min(bottom - top, below - above) / 2:
                grouped[-1].append(index)
                continue
        grouped.append([index])
    return [sorted(row, key=lambda i: boxes[i][0]) for row in grouped]


def line_words(line: OcrLine) -> Iterator[tuple[int, int, Bounds]]:
    """Yield the words of a line: runs without spaces, and single characters of scripts that use none.

    Where the glyphs of a line are unknown, its characters count as equally wide.
    """
    left, top, right, bottom = line.bounds
    step = (right - left) / len(line.text)
    spaces = [match.start() for match in re.finditer(r"\s", line.text)]
    for match in WORD.finditer(line.text):
        start, end = match.span()
        first = start - bisect_left(spaces, start)
        if glyphs := line.glyphs[first : first + end - start]:
            lefts, tops, rights, bottoms = zip(*glyphs, strict=True)
            yield start, end, (min(lefts), min(tops), max(rights), max(bottoms))
        else:
            yield start, end, (left + start * step, top, left + end * step, bottom)


def find_models() -> dict[str, str]:
    """Return the paths of the models by the setting of rapidocr, without loading anything.

    Raises `VragError` if one is missing.
    """
    spec = importlib.util.find_spec("rapidocr")
    folder = Path(spec.origin).parent / "models" if spec and spec.origin else Path()
    models = {key: str(folder / name) for key, name in MODELS.items()}
    if missing := [path for path in models.values() if not Path(path).is_file()]:
        raise VragError(f"Models for OCR are missing: {', '.join(missing)}.", "Reinstall rapidocr 3.10.")
    return models


@functools.cache
def _engine() -> _Engine:
    """Load the models, once per process, from rapidocr's own folder: nothing is ever downloaded.

    Raises `VragError` if they are not there.
    """
    import cv2
    import rapidocr

    cv2.setNumThreads(1)
    models = find_models()
    return cast("_Engine", rapidocr.RapidOCR(params={**SETTINGS, **models}))
