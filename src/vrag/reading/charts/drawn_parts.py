"""Areas of one colour in the picture of a page: bars, slices and the swatches of a legend."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.reading.views.text_lines import Rect

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

MAX_SIDE = 1000
"""Pixels of the longer side up to which a picture is looked at as it is; others lose whole rows of pixels."""
MAX_COLORS, MIN_COLOR = 16, 0.0002
"""Colours of a page that are looked at, and the smallest share of the page that they have."""
LIKE, UNLIKE = 24, 40
"""Difference of a channel, of 255, up to which pixels are of one colour, and from which colours differ."""
MIN_PIXELS, MAX_PARTS = 12, 400
"""Pixels of the smallest area, and the number of areas of a colour beyond which it is that of the text."""
RECTANGULAR, SOLID = 0.7, 0.5
"""Share of its rectangle that a bar fills, and of an area that is drawn: numbers may stand in both."""


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A connected area of one colour, in pixels of the page."""

    rect: Rect
    color: int
    """Number of its colour."""
    area: float
    mask: NDArray[np.bool_]
    """Its pixels in the rectangle, one for `step` times `step` of the page."""
    step: float
    is_solid: bool
    """False for a frame, whose inside is filled in `mask`."""

    @property
    def is_bar(self) -> bool:
        """True if it fills its rectangle."""
        return self.area >= RECTANGULAR * self.rect.area

    def holds(self, x: float, y: float) -> bool:
        """Return whether a point lies in its rectangle and on its pixels."""
        column, row = int((x - self.rect.x1) / self.step), int((y - self.rect.y1) / self.step)
        height, width = self.mask.shape
        return 0 <= column < width and 0 <= row < height and bool(self.mask[row, column])

    @property
    def points(self) -> NDArray[np.float64]:
        """Its pixels as points of the page, shape (pixels, 2): x and y."""
        rows, columns = self.mask.nonzero()
        corner = np.asarray(self.rect[:2], np.float64)
        return corner + np.stack([columns, rows], axis=1).astype(np.float64) * self.step


def find_drawn_parts(picture: Image, scale: float = 1.0) -> tuple[DrawnPart, ...]:
    """Return the areas of the main colours of a page but its background; holes in them are filled.

    `scale` is the width of a pixel of the picture, in pixels of the page.
    """
    ndimage: Any = importlib.import_module("scipy.ndimage")  # it ships no types
    stride = -(-max(picture.size) // MAX_SIDE)
    image = np.asarray(picture.convert("RGB"))[::stride, ::stride]
    step = stride * scale
    colors = _number_colors(image)
    found: list[DrawnPart] = []
    for color in range(1, int(colors.max()) + 1):
        labels, _ = ndimage.label(colors == color)
        sizes = np.bincount(labels.ravel())
        large = np.flatnonzero(sizes >= MIN_PIXELS)
        if len(large) > MAX_PARTS:
            continue
        places = ndimage.find_objects(labels)
        for number in large[large > 0].tolist():
            rows, columns = places[number - 1]
            pixels = labels[rows, columns] == number
            mask = ndimage.binary_fill_holes(pixels)
            rect = Rect(*(step * side for side in (columns.start, rows.start, columns.stop, rows.stop)))
            count = int(mask.sum())
            is_solid = bool(pixels.sum() >= SOLID * count)
            found.append(DrawnPart(rect, color, count * step**2, mask, step, is_solid))
    return tuple(found)


def _number_colors(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the number of the colour of each pixel, from 1 for the most frequent; 0 for the background."""
    fine = pixels.astype(np.uint16) >> 3
    codes = (fine[..., 0] << 10) | (fine[..., 1] << 5) | fine[..., 2]
    counts = np.bincount(codes.ravel(), minlength=1 << 15)
    every = np.arange(1 << 15)
    channels = np.stack([every >> 10, (every >> 5) & 31, every & 31], axis=1).astype(np.int16) * 8 + 4
    chosen: list[int] = []
    for code in np.argsort(-counts, kind="stable")[: 8 * MAX_COLORS].tolist():
        if counts[code] < MIN_COLOR * codes.size or len(chosen) > MAX_COLORS:
            break
        if all(np.abs(channels[code] - channels[other]).max() >= UNLIKE for other in chosen):
            chosen.append(code)
    distances = np.abs(channels[:, None] - channels[chosen][None]).max(axis=2)
    nearest = distances.argmin(axis=1)
    nearest[distances.min(axis=1) > LIKE] = 0
    return nearest.astype(np.uint8)[codes]
