"""Pages of a collection for the offline reader: with their picture, and their tables as text for models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vrag.errors import CollectionError, SearchError
from vrag.reading.answer import ReadPage
from vrag.reading.page_text import read_page_text
from vrag.reading.tables.formats import format_markdown
from vrag.search.searcher import Searcher
from vrag.types import Item

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_TABLE_CHARS = 6000
"""Characters of the tables of a page that are shown to a model; further tables are left out."""


def open_page(searcher: Searcher, item: Item) -> ReadPage:
    """Open an item of a collection for the reader; a damaged picture counts as none."""
    return ReadPage(item, partial(_open_picture, searcher, item.id), partial(_open_beside, searcher, item))


def describe_tables(searcher: Searcher, item: Item) -> str:
    """Return the tables of a page in Markdown with their captions; empty where there are none."""
    written: list[str] = []
    page = open_page(searcher, item)
    for table in read_page_text(page.item).tables(page.picture):
        text = f"{table.caption}\n\n{format_markdown(table)}".strip()
        if sum(map(len, written)) + len(text) > MAX_TABLE_CHARS:
            break
        written.append(text)
    return "\n\n".join(written)


def _open_beside(searcher: Searcher, item: Item, step: int) -> ReadPage | None:
    """Open another page of the same document, by its distance."""
    document, _, _ = item.id.rpartition("-")
    ordinal = item.ordinal + step
    try:
        other = searcher.item(f"{document}-{ordinal}")
    except (SearchError, CollectionError):
        return None
    is_there = (other.document, other.ordinal) == (item.document, ordinal)
    return open_page(searcher, other) if is_there else None


def _open_picture(searcher: Searcher, id: str) -> Image | None:
    try:
        return searcher.image(id)
    except (SearchError, CollectionError):
        return None
