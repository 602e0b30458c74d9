"""A converted document as Markdown or JSON: its text in reading order, with its tables as tables."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from vrag.cli.convert.page_blocks import (
    MAX_LEVEL,
    HeadingSizes,
    MarkdownBlock,
    find_heading_sizes,
    join_blocks,
    list_blocks,
)
from vrag.reading.tables.formats import format_markdown, table_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.reading.tables.table import DocumentTable
    from vrag.types import Item

SEPARATOR = " › "
"""Text between the headings above an item."""
ENTRY = re.compile(r"^• ", re.MULTILINE)
"""The beginning of an entry of a list in the text of a web page."""


@dataclass(frozen=True, slots=True)
class ConvertedItem:
    """An item with its tables."""

    item: Item
    tables: tuple[DocumentTable, ...]


def write_document(converted: Sequence[ConvertedItem]) -> str:
    """Write a document as Markdown: pages begin with a comment, sections with their headings.

    A table that goes on in the next passage is one table.
    """
    blocks: list[str] = []
    path: list[str] = []
    worksheet, pages = "", _pages(converted)
    ends_with_table = False
    sizes = find_heading_sizes(one.item for one in converted if one.item.image is not None)
    for one in _order(converted):
        item = one.item
        start = 0
        if item.image is not None:
            blocks.append(_write_page_line(item))
            if item.facts.worksheet != worksheet:
                worksheet = item.facts.worksheet
                blocks.append(f"# {worksheet}")
        elif item.heading:
            above, path = path, item.heading.split(SEPARATOR)
            above = path[:1] if path[0] in pages and len(path) > 1 else above
            begins = item.text.startswith(path[-1]) and not _continues_table(one)
            blocks += _write_headings(above, path, begins=begins)
            start = len(path[-1]) if begins else 0
        parts = list(_write_parts(one, start, sizes))
        if parts and ends_with_table and _continues_table(one):
            rows = parts.pop(0).splitlines()[2:]
            blocks[-1] = "\n".join([blocks[-1], *rows])
        blocks += parts
        ends_with_table = bool(one.tables) and _ends_in_table(one)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _order(converted: Sequence[ConvertedItem]) -> list[ConvertedItem]:
    """Return the items in order; what belongs to a slide or a sheet (notes, comments) is behind its page."""
    pages = _pages(converted)

    def place(one: ConvertedItem) -> tuple[int, int]:
        above = pages.get(one.item.heading.split(SEPARATOR)[0]) if one.item.image is None else None
        return (above or one).item.ordinal, one.item.ordinal

    return sorted(converted, key=place)


def _pages(converted: Sequence[ConvertedItem]) -> dict[str, ConvertedItem]:
    """Return the last pages of slides and sheets, by what their passages call them."""
    pages = {f"Slide {one.item.ordinal}": one for one in converted if one.item.image is not None}
    pages |= {f"Sheet {one.item.facts.worksheet}": one for one in converted if one.item.facts.worksheet}
    return pages


def _write_page_line(item: Item) -> str:
    printed = f" (printed {item.facts.label})" if item.facts.label else ""
    return f"<!-- page {item.ordinal}{printed} -->"


def _write_headings(above: Sequence[str], path: Sequence[str], *, begins: bool) -> Iterator[str]:
    """Yield the headings of a path that are not those of the path before, and its last one if it begins."""
    shared = 0
    while shared < min(len(above), len(path)) and above[shared] == path[shared]:
        shared += 1
    first = min(shared, len(path) - 1) if begins else shared
    for level, heading in enumerate(path[first:], first + 1):
        yield f"{'#' * min(level, MAX_LEVEL)} {heading}"


def _continues_table(converted: ConvertedItem) -> bool:
    """Return whether an item begins with further rows of the table before it, below its heads."""
    if not converted.tables or not converted.tables[0].is_part:
        return False
    spans = [cell.span for cell in converted.tables[0].cells if cell.span]
    return bool(spans) and min(spans)[0] == 0


def _ends_in_table(converted: ConvertedItem) -> bool:
    spans = [cell.span for cell in converted.tables[-1].cells if cell.span]
    return bool(spans) and max(end for _, end in spans) >= len(converted.item.text.rstrip())


def _write_parts(converted: ConvertedItem, start: int, sizes: HeadingSizes) -> Iterator[str]:
    """Yield the text of an item from `start` on, in parts, and each table in its place."""
    text = converted.item.text
    free = [True] * len(text)
    begins: dict[int, DocumentTable] = {}
    for table in converted.tables:
        caption = _find_caption(converted.item, table)
        ranges = list(_find_ranges(converted.item, table))
        for first, last in [*ranges, *([caption] if caption else [])]:
            free[first:last] = [False] * (last - first)
        if ranges:
            place = min(first for first, _ in ranges)
            begins[place] = table if caption else replace(table, caption="")
    if converted.item.words:
        yield from _write_page(converted.item, free, sizes, begins)
        return
    at = start
    for place in [*sorted(begins), len(text)]:
        letters = (text[number] for number in range(at, place) if free[number])
        if part := "".join(letters).strip(" |\n"):
            yield ENTRY.sub("- ", part)
        if place in begins:
            yield format_markdown(begins[place]).strip()
        at = place


def _write_page(
    item: Item, free: Sequence[bool], sizes: HeadingSizes, begins: Mapping[int, DocumentTable]
) -> Iterator[str]:
    """Yield the blocks of a page, and the tables in their places."""
    tables = (MarkdownBlock(place, format_markdown(table).strip()) for place, table in begins.items())
    yield from join_blocks(sorted([*list_blocks(item, free, sizes), *tables], key=lambda block: block.start))


def _find_ranges(item: Item, table: DocumentTable) -> Iterator[tuple[int, int]]:
    """Yield the ranges of an item's text that stand in the cells of a table."""
    spans = [cell.span for cell in table.cells if cell.span is not None]
    if spans:
        # A row is a line, in which a cell that spans several columns stands in each of them.
        last = max(end for _, end in spans)
        yield min(spans)[0], (item.text.find("\n", last) + 1 or len(item.text) + 1) - 1
    elif table.box is not None:
        for word in item.words:
            if table.box.covers(*word.box.center):
                yield word.start, word.end


def _find_caption(item: Item, table: DocumentTable) -> tuple[int, int] | None:
    """Return where the caption stands that the file marks as that of a table; None if it marks none."""
    first = min((cell.span[0] for cell in table.cells if cell.span), default=-1)
    for stated in item.facts.tables:
        if stated.caption and min((cell.start for cell in stated.cells), default=-1) == first:
            return stated.caption
    return None


def document_facts(name: str, converted: Sequence[ConvertedItem]) -> dict[str, Any]:
    """Return a document as JSON values; boxes are fractions of the page: left, top, right, bottom."""
    return {"file": name, "items": [_item_facts(one) for one in converted]}


def _item_facts(converted: ConvertedItem) -> dict[str, Any]:
    item = converted.item
    return {
        "number": item.ordinal,
        "kind": item.kind.value,
        "heading": item.heading,
        "label": item.facts.label,
        "text": item.text,
        "size": list(item.size) if item.size else None,
        "words": [
            {"start": word.start, "end": word.end, "box": [round(side, 5) for side in word.box.as_tuple()]}
            for word in item.words
        ],
        "headings": [asdict(heading) for heading in item.facts.headings],
        "tables": [table_facts(table) for table in converted.tables],
        "unread": list(item.facts.unread),
    }
