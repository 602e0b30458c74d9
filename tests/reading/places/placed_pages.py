"""Pages of lines at given places, for tests of places."""

from __future__ import annotations

from vrag.geometry import Box, Size
from vrag.reading.answer import Mark, ReadPage
from vrag.types import Item, ItemKind, TextSource, Word

HEIGHT = 0.02
"""Of a line; letters are half as wide."""


def set_page(
    *lines: tuple[float, float, str], ordinal: int = 1, source: TextSource = TextSource.LAYER
) -> Item:
    """Make a page of lines, each by its left, its top and its words."""
    text, words = "", list[Word]()
    for left, top, line in lines:
        at = 0
        for word in line.split():
            at = line.index(word, at)
            x = left + at * HEIGHT / 2
            box = Box.unit(x, top, min(x + len(word) * HEIGHT / 2, 1.0), top + HEIGHT)
            words.append(Word(len(text) + at, len(text) + at + len(word), box))
            at += len(word)
        text += line + "\n"
    return Item(
        id=f"report-{ordinal}", document="r", document_name="report.pdf", kind=ItemKind.PAGE, ordinal=ordinal,
        text=text, words=tuple(words), text_source=source, size=Size(1000, 1000),
    )  # fmt: skip


def set_passage(text: str) -> Item:
    """Make a passage of a text file."""
    return Item(
        id="notes-1", document="n", document_name="notes.md", kind=ItemKind.PASSAGE, ordinal=1, text=text
    )


def marked_words(item: Item, marks: tuple[Mark, ...]) -> str:
    """Return the words of an item whose centre is marked."""
    inside = [word for word in item.words if any(mark.box.covers(*word.box.center) for mark in marks)]
    return " ".join(item.text[word.start : word.end] for word in inside)


def read_pages(*items: Item) -> list[ReadPage]:
    """Return items as pages to read."""
    return [ReadPage(item) for item in items]
