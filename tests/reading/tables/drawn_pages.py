"""Pages drawn with Pillow whose word boxes are known: no OCR and no file is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from PIL import Image, ImageDraw

from vrag.geometry import Box, Size
from vrag.types import Item, ItemKind, TextSource, Word

WIDTH, HEIGHT = 1000, 1400
LETTER, LINE = 9, 18
"""Width of a letter and height of a word in pixels."""


@dataclass
class DrawnPage:
    """A page that is being drawn."""

    picture: Image.Image = field(default_factory=lambda: Image.new("RGB", (WIDTH, HEIGHT), "white"))
    text: str = ""
    words: list[Word] = field(default_factory=list[Word])

    def write(self, x: float, y: float, text: str, *, end: bool = False) -> None:
        """Write a line from its left top corner, or to its right one; letters are small blocks."""
        x -= LETTER * len(text) if end else 0
        draw = ImageDraw.Draw(self.picture)
        self.text += "\n" if self.text else ""
        for number, word in enumerate(text.split(" ")):
            self.text += " " if number else ""
            start = len(self.text)
            self.text += word
            right = x + LETTER * len(word)
            box = Box.unit(x / WIDTH, y / HEIGHT, right / WIDTH, (y + LINE) / HEIGHT)
            self.words.append(Word(start, start + len(word), box))
            for letter in range(len(word)):
                left = x + letter * LETTER
                draw.rectangle((left + 1, y + 4, left + 5, y + 14), fill="black")
            x = right + LETTER / 2

    def rule(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a line."""
        ImageDraw.Draw(self.picture).line((x1, y1, x2, y2), fill="black", width=1)

    def item(self) -> Item:
        """Return the page as an item."""
        return Item(
            id="0-1",
            document="0",
            document_name="page.pdf",
            kind=ItemKind.PAGE,
            ordinal=1,
            text=self.text,
            words=tuple(self.words),
            text_source=TextSource.LAYER,
            size=Size(WIDTH, HEIGHT),
        )
