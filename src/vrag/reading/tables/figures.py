"""Drawings and photographs behind the words of a page, told from the ground of a table.

Behind the words of a table each row of pixels has one colour, or each column has: white, stripes, shaded
heads. Curves, bars, photographs and panels have pixels that neither their row nor their column explains.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.reading.tables.grid import Area
    from vrag.reading.tables.page_text.text_pieces import PageText

LONGEST_SIDE = 1000
"""Pixels of the longer side; larger pictures are reduced."""
SAMPLES = 150
"""Pixels of a row or column of which the median is taken."""
DIFFERENCE = 30
"""Difference of a colour, of 255, from that of its row and of its column."""
THIN = 4
"""Pixels of the thickness below which a horizontal stroke is a ruling line."""
LONG = 14
"""Pixels of the length from which a thin stroke is a ruling line."""
WORD_MARGIN = 0.3
"""Space around words that belongs to them, in heights of the word."""


class PageGround:
    """The picture of a page without its words."""

    def __init__(self, picture: Image, page: PageText) -> None:
        factor = math.ceil(max(picture.size) / LONGEST_SIDE)
        small = picture.convert("RGB")
        pixels = small.reduce(factor) if factor > 1 else small
        self._pixels = np.asarray(pixels, dtype=np.int16)
        height, width = self._pixels.shape[:2]
        self._across, self._down = float(width / page.width), float(height / page.height)
        self._slope = page.slope * self._down / self._across
        self._words = self._mask_words(page)

    def _mask_words(self, page: PageText) -> NDArray[np.bool_]:
        mask = np.zeros(self._pixels.shape[:2], dtype=np.bool_)
        margin = WORD_MARGIN * (page.boxes[:, 3] - page.boxes[:, 1])
        scale = np.array([self._across, self._down])
        low = (page.boxes[:, :2] - margin[:, None]) * scale
        high = (page.boxes[:, 2:] + margin[:, None]) * scale + 1
        first, last = np.maximum(low, 0).astype(int).tolist(), high.astype(int).tolist()
        for (x1, y1), (x2, y2) in zip(first, last, strict=True):
            mask[y1:y2, x1:x2] = True
        return mask

    def measure_drawing(self, area: Area) -> float:
        """Return the share of an area's pixels, words left out, that rows and columns do not explain.

        Args:
            area: The area on the page, set straight.
        """
        height, width = self._pixels.shape[:2]
        xs = _pixels_between(area.x1 * self._across, area.x2 * self._across, width)
        ys = _pixels_between(area.y1 * self._down, area.y2 * self._down, height)
        if len(xs) < THIN or len(ys) < THIN:
            return 0.0
        rows = np.clip(ys[:, None] + np.rint(self._slope * xs)[None].astype(np.int64), 0, height - 1)
        colours, free = self._pixels[rows, xs[None]], ~self._words[rows, xs[None]]
        drawn = free & (_differs(colours, axis=1) & _differs(colours, axis=0))
        drawn &= ~_thin_strokes(drawn)
        return float(np.count_nonzero(drawn) / max(np.count_nonzero(free), 1))


def _pixels_between(start: float, end: float, size: int) -> NDArray[np.int64]:
    return np.arange(max(math.floor(start), 0), min(math.ceil(end), size), dtype=np.int64)


def _differs(colours: NDArray[np.int16], axis: int) -> NDArray[np.bool_]:
    """Return where colours differ from the median of their row or column."""
    step = colours.shape[axis] // SAMPLES + 1
    median = np.median(colours[::step] if axis == 0 else colours[:, ::step], axis=axis, keepdims=True)
    return np.abs(colours - median).max(axis=2) > DIFFERENCE


def _thin_strokes(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the marks of long horizontal strokes that are thin."""
    return _open(mask, LONG) & ~_open(mask.T, THIN).T


def _open(mask: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return the marks that stand in runs of at least `length` in their row."""
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    ends = np.nonzero(steps == -1)[1]
    long = ends - starts >= length
    marks = np.zeros((mask.shape[0], mask.shape[1] + 1), dtype=np.int8)
    marks[rows[long], starts[long]] = 1
    marks[rows[long], ends[long]] -= 1
    return np.cumsum(marks, axis=1)[:, :-1] > 0
