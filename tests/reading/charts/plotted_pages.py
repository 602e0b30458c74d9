# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Pages with charts that matplotlib draws: the picture is its raster, the words are where it has put them."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from vrag.geometry import Box, Size
from vrag.reading.page_text import read_page_text
from vrag.reading.tables.finder import find_charts
from vrag.reading.tables.table import DocumentTable
from vrag.types import Item, ItemKind, TextSource, Word

DPI = 100


def plot() -> Figure:
    """Begin a page with one chart."""
    return plt.figure(figsize=(8, 6), dpi=DPI)


def read_page(figure: Figure) -> tuple[Item, Image.Image]:
    """Return what has been plotted as a page with its picture."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())  # pyright: ignore[reportAttributeAccessIssue]
    picture = Image.fromarray(pixels).convert("RGB")
    text, words = "", list[Word]()
    for artist in figure.findobj(Text):
        assert isinstance(artist, Text)
        content, extent = artist.get_text().strip(), artist.get_window_extent()
        if (
            not content
            or not artist.get_visible()
            or extent.width <= 0
            or _is_outside(extent.x0, extent.y0, picture)
        ):
            continue
        x, letter = extent.x0, extent.width / len(content)
        for word in content.split(" "):
            right = x + letter * len(word)
            sides = (x, picture.height - extent.y1, right, picture.height - extent.y0)
            sizes = (picture.width, picture.height) * 2
            box = Box.unit(
                *(min(max(side / size, 0.0), 1.0) for side, size in zip(sides, sizes, strict=True))
            )
            words.append(Word(len(text), len(text) + len(word), box))
            text += f"{word} "
            x = right + letter
        text = f"{text.rstrip()}\n"
    plt.close(figure)
    return (
        Item(
            id="0-1", document="0", document_name="chart.pdf", kind=ItemKind.PAGE, ordinal=1, text=text,
            words=tuple(words), text_source=TextSource.LAYER, size=Size(picture.width, picture.height),
        ),
        picture,
    )  # fmt: skip


def _is_outside(x: float, y: float, picture: Image.Image) -> bool:
    return not (0 <= x < picture.width and 0 <= y < picture.height)


def read_charts(figure: Figure) -> tuple[DocumentTable, ...]:
    """Return the charts that are found in what has been plotted."""
    item, picture = read_page(figure)
    return find_charts(item, lambda: picture, (), read_page_text(item).views)


def list_rows(table: DocumentTable) -> list[list[str]]:
    """Return the texts of the cells of a table by rows, "" for empty places."""
    return [
        [cell.text if (cell := table.cell_at(row, column)) else "" for column in range(table.width)]
        for row in range(table.height)
    ]
