"""Pages of any size and order are read: no exception, and a bounded number of candidates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vrag.geometry import Box, Size
from vrag.reading.answer import ReadPage
from vrag.reading.page_candidates import MAX_VALUES, PER_TABLE
from vrag.reading.page_text import read_page_text
from vrag.reading.reader import read
from vrag.types import Item, ItemKind, Word


def grid(
    count: int, columns: int, word: Callable[[int], str], *, turned: bool = False, size: float = 0.8
) -> Item:
    """A page of words in rows and columns, or turned by 90 degrees."""
    text, words, rows = "", list[Word](), max(-(-count // columns), 1)
    for number in range(count):
        row, column = divmod(number, columns)
        x, y = (row / rows, column / columns) if turned else (column / columns, row / rows)
        made = word(number)
        box = Box.unit(x, y, min(x + size / columns, 1), min(y + size / rows, 1))
        words.append(Word(len(text), len(text) + len(made), box))
        text += made + (" " if column < columns - 1 else "\n")
    return Item(
        id="big-1", document="big", document_name="big.pdf", kind=ItemKind.PAGE, ordinal=1, text=text,
        words=tuple(words), size=Size(1000, 1400),
    )  # fmt: skip


def figure(number: int) -> str:
    return str(number * 37 % 9973) if number % 5 else f"Name{number // 5}"


PAGES = {
    "many words": grid(10_000, 12, lambda number: f"w{number % 977}"),
    "a long table": grid(6_000, 5, figure),
    "turned": grid(1_000, 5, figure, turned=True),
    "wide": grid(1_200, 300, figure),
    "no size": grid(500, 5, figure, size=0.0),
    "one place": grid(1_000, 1, lambda _: "12", size=0.9),
    "nothing": grid(0, 1, str),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_any_page_is_read(name: str) -> None:
    page = ReadPage(PAGES[name])
    readings = read("How many w12 did Name77 have in 2024?", [page])
    assert len(readings) <= PER_TABLE * (len(read_page_text(page.item).tables(page.picture)) + 1) + MAX_VALUES
