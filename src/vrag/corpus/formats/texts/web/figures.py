"""The images of an HTML file, with their descriptions and captions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.sniff import drop_invisible

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ICON = 48
"""Pixels of the longest side that an icon has by the attributes of its element."""


class Figure(NamedTuple):
    """An image in an HTML file."""

    reference: str
    """Its address, as written in the file."""
    text: str
    """Its description and caption."""
    headings: tuple[str, ...]
    """The headings above it, outermost first."""
    is_hidden: bool = False
    """True if its element says that it is decoration: without a role, hidden, or as small as an icon."""

    @property
    def is_decorative(self) -> bool:
        """True if the file names nothing that it shows: nothing is lost where it is missing."""
        return self.is_hidden or not self.text


class FigureList:
    """The images of a file while it is read. Captions belong to all images of their `<figure>`."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._first: int | None = None
        """Number of images before the `<figure>` that is open."""
        self._caption: list[str] = []
        """Text of its caption."""
        self._in_caption = False

    def add(self, attributes: Mapping[str, str | None], headings: tuple[str, ...]) -> None:
        """Add an image; pages that load images late name them in `data-src`."""
        late, description, title = (attributes.get(name) or "" for name in ("data-src", "alt", "title"))
        address = attributes.get("src") or attributes.get("xlink:href") or attributes.get("href") or ""
        text = " ".join(drop_invisible(description or title).split())
        if reference := (late or address).strip():
            self.figures.append(Figure(reference, text, headings, _is_hidden(attributes)))

    def begin(self, tag: str) -> None:
        """Begin a block: a `<figure>`, or its caption."""
        self._in_caption = self._in_caption or tag == "figcaption"
        if tag == "figure":
            self._first, self._caption = len(self.figures), []

    def add_text(self, text: str) -> None:
        """Take text that belongs to a caption if one is open."""
        if self._in_caption:
            self._caption.append(text)

    def end(self, tag: str) -> None:
        """End a block."""
        self._in_caption = self._in_caption and tag != "figcaption"
        if tag == "figure" and self._first is not None:  # else an inner figure has ended
            self._add_caption(self._first)
            self._first = None

    def _add_caption(self, first: int) -> None:
        """Add the caption of a `<figure>` to its images, which begin with number `first`."""
        caption = " ".join("".join(self._caption).split())
        for number in range(first, len(self.figures)):
            figure = self.figures[number]
            text = "\n".join(dict.fromkeys(filter(None, (figure.text, caption))))
            self.figures[number] = figure._replace(text=text)


def _is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return whether the attributes of an image say that it is decoration."""
    if attributes.get("role") in {"presentation", "none"} or attributes.get("aria-hidden") == "true":
        return True
    sides = (attributes.get(name) or "" for name in ("width", "height"))
    return any(re.fullmatch(r"\d{1,4}", side, re.ASCII) and int(side) <= MAX_ICON for side in sides)
