"""Pages with very many words are read in time that grows with their number, and not with a power of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from thread_time import thread_seconds

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW, TIMES = 3000, 4
"""Words of the smaller page; how many times as many the larger one has."""
COLUMNS, ROWS = 50, 12


def place(number: int, pitch: float = 9) -> tuple[float, float]:
    """The place of a word, by rows."""
    return 10 + 20 * (number % COLUMNS), 10 + pitch * (number // COLUMNS)


def pieces(count: int) -> str:
    """Words of a few lines drawn one by one, and not in the order of their places."""
    places = [(10 + number // ROWS, 10 + 9 * (number % ROWS)) for number in range(count)]
    return "".join(text_at(*places[number * 7919 % count], "a", 1) for number in range(count))


def struck(count: int) -> str:
    """Lines of words, every fourth one with a rule through it."""
    words = "".join(text_at(*place(number), "oak", 5) for number in range(count))
    places = map(place, range(0, count, 4))
    return words + "".join(f"{x} {y + 1.2} 8.3 .3 re f\n" for x, y in places)


def turned(count: int) -> str:
    """Words of which every second one runs up."""
    matrices = ("1 0 0 1", "0 1 -1 0")
    return "".join(
        "BT /F1 5 Tf {} {} {} Tm (oak) Tj ET\n".format(matrices[number % 2], *place(number))
        for number in range(count)
    )


def faint(count: int) -> str:
    """Words in the colour of the paper, or nearly."""
    return "".join(
        f"{1 - number % 2 * 0.05} g {text_at(*place(number), 'oak', 5)}" for number in range(count)
    )


@pytest.mark.parametrize("draw", [pieces, struck, turned, faint])
def test_four_times_the_words_take_about_four_times_as_long(
    tmp_path: Path, draw: Callable[[int], str]
) -> None:
    few, many = (read_seconds(tmp_path, draw(count)) for count in (FEW, TIMES * FEW))
    assert many < 2 * TIMES * few


def read_seconds(folder: Path, content: str) -> float:
    """The time to make the item of a page."""
    path = folder / "page.pdf"
    path.write_bytes(pdf_bytes(PdfPage(content, "/MediaBox [0 0 1020 2200]")))
    context = ConversionContext(folder, CorpusOptions(ocr="never", dpi=72))
    with PdfFile(read_source(path), context) as file:
        return thread_seconds(lambda: file.item(1))
