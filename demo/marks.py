"""Rectangles on pictures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from vrag.agent.evidence import BoxSides

__all__ = ["marked"]

MARK, HALO, VEIL = (240, 78, 35), (255, 255, 255), (22, 19, 13)
"""Colours of rectangles, of the line around them, and of what lies outside of them."""
SHADE = 0.3
"""How much of a picture outside of its rectangle is veil."""


def marked(data: bytes, box: BoxSides) -> Image.Image:
    """A picture with a part of it marked, and the rest in the shade.

    Args:
        data: A JPEG file.
        box: The part, in fractions of the picture: left, top, right, bottom.
    """
    with Image.open(io.BytesIO(data)) as image:
        drawn = image.convert("RGB")
    width, height = drawn.size
    left, top, right, bottom = (
        round(side * length) for side, length in zip(box, (width, height) * 2, strict=True)
    )
    shaded = Image.blend(drawn, Image.new("RGB", drawn.size, VEIL), SHADE)
    shaded.paste(drawn.crop((left, top, right, bottom)), (left, top))
    line, pencil = max(3, width // 160), ImageDraw.Draw(shaded)
    for color, wide in ((HALO, 2 * line), (MARK, line)):  # around the part: nothing of it is hidden
        outer = (left - wide, top - wide, right + wide - 1, bottom + wide - 1)
        pencil.rectangle(_within(outer, width - 1, height - 1), outline=color, width=wide)
    return shaded


def _within(corners: tuple[int, int, int, int], right: int, bottom: int) -> tuple[int, int, int, int]:
    """Corners, as far as they lie in a picture."""
    x1, y1, x2, y2 = corners
    return min(max(x1, 0), right), min(max(y1, 0), bottom), min(max(x2, 0), right), min(max(y2, 0), bottom)
