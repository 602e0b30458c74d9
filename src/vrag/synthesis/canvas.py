"""A page being drawn: text and filled rectangles, placed from the top left corner."""

from __future__ import annotations

from dataclasses import dataclass, field

from vrag.geometry import Box
from vrag.synthesis.pdf import Fill, Label, Mark, extent_of

__all__ = ["BLACK", "Canvas", "Colour"]

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
BLACK: Colour = (0, 0, 0)


@dataclass(slots=True)
class Canvas:
    """What stands on one page; lengths are points of 1/72 inch, y grows downwards."""

    width: float
    height: float
    marks: list[Mark] = field(default_factory=list[Mark])

    def write(
        self, x: float, y: float, text: str, size: float, *, bold: bool = False, end: bool = False
    ) -> Box:
        """Writes one line of text.

        Args:
            x: Where it begins, or with `end` where it ends.
            y: Its base line.
            text: ASCII text, without line breaks.
            size: Of the font.
            bold: In heavy letters.
            end: `x` is the right end.

        Returns:
            What its ink covers, in fractions of the page.
        """
        left, bottom, right, top = extent_of(text, size, bold=bold)
        start = x - right if end else x
        self.marks.append(Label(start, self.height - y, text, size, bold))
        return self._unit(start + left, y - top, start + right, y - bottom)

    def fill(self, x1: float, y1: float, x2: float, y2: float, colour: Colour = BLACK) -> Box:
        """Fills a rectangle.

        Returns:
            The rectangle in fractions of the page.
        """
        self.marks.append(Fill(x1, self.height - y2, x2 - x1, y2 - y1, colour))
        return self._unit(x1, y1, x2, y2)

    def _unit(self, x1: float, y1: float, x2: float, y2: float) -> Box:
        """Points as fractions of the page, in full hundredths of a per cent."""
        sides = (x1 / self.width, y1 / self.height, x2 / self.width, y2 / self.height)
        return Box.unit(*(round(min(max(side, 0.0), 1.0), 4) for side in sides))
