"""Cells of tables found on synthetic pages whose cells are known, as F1, and the processor time per page.

Pages are in the spirit of PubTables-1M: random rows, columns, spanning heads, heads of rows of several lines,
sections, captions, and running text around. Each page is read once from the text layer of a PDF file and once
by OCR of its picture, both by the project's own converters. A cell counts if its text (without spaces), row,
column and spans are right. Spans of sections do not count: without rules they cannot be seen.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image

from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Converted, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.reading.tables.finder import find_tables
from vrag.synthesis.canvas import Canvas, extent_of, print_pdf

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.reading.tables.table import DocumentTable
    from vrag.types import Item

STYLES = ("ruled", "horizontal rules", "unruled")
WORDS = (
    "annual harbour cost energy revenue island ferry total net public service income other crew fuel grant "
    "capital sample method baseline score region northern southern vessel winter summer average change"
).split()
WIDTH, HEIGHT = 595.0, 842.0
LEFT, RIGHT = 60.0, 535.0

Place = tuple[int, int, int, int, str]
"""Row, column, rows, columns and text of a cell."""


@dataclass(frozen=True)
class KnownPage:
    """A page whose cells are known."""

    canvas: Canvas
    cells: frozenset[Place]
    sections: frozenset[int]


def make_page(style: str, seed: int) -> KnownPage:
    """Draw one page with a table between running text."""
    chance = random.Random(f"{style} {seed}")
    size = chance.choice((8.0, 9.0, 10.0, 11.0))
    canvas = Canvas(WIDTH, HEIGHT)
    y = _write_prose(canvas, 70, 3 + chance.randrange(4), size, chance)
    caption = f"Table {chance.randint(1, 9)}: {_phrase(chance, 3, 7)}"
    canvas.write(LEFT, y + size, caption, size)
    top = y + size * 2.2
    cells, sections, bottom = _draw_table(canvas, top, style, size, chance)
    _write_prose(canvas, bottom + 3 * size, 3 + chance.randrange(4), size, chance)
    return KnownPage(canvas, cells, sections)


def _phrase(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(least, most))).capitalize()


def _write_prose(canvas: Canvas, y: float, lines: int, size: float, chance: random.Random) -> float:
    """Write lines of running text; return the bottom."""
    for _ in range(lines):
        text = _phrase(chance, 6, 6)
        while extent_of(f"{text} energy", size)[2] < RIGHT - LEFT - 20:
            text += f" {chance.choice(WORDS)}"
        canvas.write(LEFT, y, text, size)
        y += 1.25 * size
    return y


def _number(chance: random.Random, kind: int) -> str:
    if kind == 0:
        return f"{chance.randint(1, 99999):,}"
    if kind == 1:
        return f"{chance.uniform(0, 100):.1f}"
    return chance.choice((f"{chance.randint(0, 100)}%", f"({chance.randint(1, 999)})", "-"))


def _draw_table(
    canvas: Canvas, top: float, style: str, size: float, chance: random.Random
) -> tuple[frozenset[Place], frozenset[int], float]:
    """Draw a table with one or two rows of heads; return its cells, its sections and its bottom."""
    width = chance.randint(3, 7)
    kinds = [chance.choice((0, 0, 1, 1, 2, 3)) for _ in range(width - 1)]
    rows = _rows(width, kinds, chance)
    extents = [
        max(extent_of(line, size)[2] for row in rows if len(row) > 1 for line in row[column])
        for column in range(width)
    ]
    space = chance.uniform(1.2, 3.0) * size
    while width > 2 and sum(extents[:width]) + space * width > RIGHT - LEFT:
        width -= 1
    rows = [row[:width] for row in rows]
    edges = [LEFT]
    for extent in extents[:width]:
        edges.append(edges[-1] + extent + space)
    heads = 1
    cells: set[Place] = set()
    sections: set[int] = set()
    pad = chance.uniform(0.35, 0.7) * size
    y = top
    lines_at = [y]
    spanning = width >= 5 and chance.random() < 0.35
    if spanning:
        y = _draw_spanning(canvas, y, edges, size, pad, cells, chance)
        lines_at.append(y)
        heads = 2
    for number, row in enumerate(rows, heads - 1):
        y += pad
        if len(row) == 1:
            sections.add(number)
            cells.add((number, 0, 1, 1, row[0][0]))
        for column, lines in enumerate(row):
            if lines and len(row) > 1:
                cells.add((number, column, 1, 1, " ".join(lines)))
            for place, line in enumerate(lines):
                base = y + size * (0.8 + 1.15 * place)
                right = column > 0 and kinds[column - 1] < 3
                x = edges[column + 1] - space / 2 if right else edges[column] + space / 2
                canvas.write(x, base, line, size, end=right)
        y += max(len(lines) for lines in row) * 1.15 * size - 0.15 * size + pad
        lines_at.append(y)
    _draw_rules(canvas, style, edges, lines_at, heads, spanning=spanning, sections=sections)
    return frozenset(cells), frozenset(sections), y


def _draw_spanning(
    canvas: Canvas,
    y: float,
    edges: Sequence[float],
    size: float,
    pad: float,
    cells: set[Place],
    chance: random.Random,
) -> float:
    """Draw a row of two heads that span the columns right of the first; return its bottom."""
    width = len(edges) - 1
    middle = chance.randint(3, width - 2) if width > 5 else 3
    for first, last in ((1, middle), (middle, width)):
        text = chance.choice(WORDS).capitalize()
        x = (edges[first] + edges[last] - extent_of(text, size)[2]) / 2
        canvas.write(x, y + pad + 0.8 * size, text, size)
        cells.add((0, first, 1, last - first, text))
        canvas.fill(edges[first] + 3, y + 2 * pad + size - 1, edges[last] - 3, y + 2 * pad + size - 0.5)
    return y + 2 * pad + size


def _rows(width: int, kinds: Sequence[int], chance: random.Random) -> list[list[list[str]]]:
    """Return the lines of every cell, heads first; a row with one cell is a section."""
    sectioned = chance.random() < 0.25
    wrapped = chance.random() < 0.3
    rows = [[[_phrase(chance, 1, 2)] for _ in range(width)]]
    for number in range(chance.randint(4, 16)):
        if sectioned and number % 5 == 0:
            rows.append([[_phrase(chance, 1, 3)]])
        label = [_phrase(chance, 1, 3)]
        if wrapped and chance.random() < 0.3:
            label = [_phrase(chance, 3, 3), _phrase(chance, 1, 2).lower()]
        values = [[_number(chance, kind) if kind < 3 else _phrase(chance, 1, 2)] for kind in kinds]
        rows.append([label, *values])
    return rows


def _draw_rules(
    canvas: Canvas,
    style: str,
    edges: Sequence[float],
    lines: Sequence[float],
    heads: int,
    *,
    spanning: bool,
    sections: Iterable[int],
) -> None:
    """Draw all lines, or those above and below the heads and below the table, or none."""
    if style == "unruled":
        return
    chosen = lines if style == "ruled" else (lines[0], lines[heads], lines[-1])
    for y in chosen:
        canvas.fill(edges[0], y - 0.3, edges[-1], y + 0.3)
    if style == "horizontal rules":
        return
    for column, x in enumerate(edges):
        for row, (upper, lower) in enumerate(pairwise(lines)):
            inner = 0 < column < len(edges) - 1
            if inner and (row in sections or (spanning and row == 0 and not _is_edge(canvas, x))):
                continue
            canvas.fill(x - 0.3, upper, x + 0.3, lower)


def _is_edge(canvas: Canvas, x: float) -> bool:
    """Return whether a spanning head begins or ends at x: the short rules below them do."""
    short = [
        mark for mark in canvas.marks if hasattr(mark, "colour") and 0.4 < getattr(mark, "height", 0) < 0.55
    ]
    return any(abs(getattr(mark, "x", 0) - 3 - x) < 0.1 for mark in short)


def score(known: KnownPage, tables: Sequence[DocumentTable]) -> tuple[int, int, int]:
    """Return the cells that are right, those found and those known."""
    truth = Counter(_place(cell, known.sections) for cell in known.cells)
    found = [
        Counter(
            _place((cell.row, cell.column, cell.rows, cell.columns, cell.text), known.sections)
            for cell in table.cells
        )
        for table in tables
    ]
    right = max(((truth & cells).total() for cells in found), default=0)
    return right, sum(cells.total() for cells in found), truth.total()


def _place(cell: Place, sections: Iterable[int]) -> Place:
    row, column, rows, columns, text = cell
    return row, column, rows, 1 if row in sections else columns, "".join(text.split())


def main(pages: int, seed: int, failures: Path | None = None, *, ocr: bool = True) -> None:
    """Print the F1 of each style, from the text layer and by OCR."""
    for style in STYLES:
        known = [make_page(style, seed + number) for number in range(pages)]
        with TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "pages.pdf").write_bytes(print_pdf(page.canvas for page in known))
            items = _convert([folder / "pages.pdf"], folder / "items")
            _report(f"{style}, text layer", known, items, failures)
            if ocr:
                pictures: list[Path] = []
                for number, (_, path) in enumerate(items):
                    pictures.append(folder / f"{number:04}.png")
                    Image.open(path).save(pictures[-1])
                _report(f"{style}, OCR", known, _convert(pictures, folder / "read"), failures)


def _convert(paths: Sequence[Path], folder: Path) -> list[tuple[Item, Path]]:
    folder.mkdir()
    sources = (read_source(path) for path in paths)
    events = convert_all(sources, folder, CorpusOptions(workers=1))
    items = [event.item for event in events if isinstance(event, Converted)]
    items.sort(key=lambda item: (item.document_name, item.ordinal))
    return [(item, folder / (item.image or "")) for item in items]


def _report(
    name: str, known: Sequence[KnownPage], items: Sequence[tuple[Item, Path]], failures: Path | None
) -> None:
    right = found = total = 0
    seconds = 0.0
    for number, (page, (item, path)) in enumerate(zip(known, items, strict=True)):
        with Image.open(path) as picture:
            picture.load()
            begun = time.process_time()
            tables = find_tables(item, picture)
            seconds += time.process_time() - begun
            scores = score(page, tables)
            if failures is not None and scores[0] < 0.9 * scores[2]:
                picture.convert("RGB").save(
                    failures / f"{name.replace(', ', '-').replace(' ', '-')}-{number}.png"
                )
        right, found, total = right + scores[0], found + scores[1], total + scores[2]
    f1 = 2 * right / max(found + total, 1)
    milliseconds = 1000 * seconds / max(len(known), 1)
    print(f"{name:30} F1 {f1:.3f}  cells {total}  pages {len(known)}  {milliseconds:.0f} ms of CPU a page")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, help="folder for the pictures of pages with wrong cells")
    parser.add_argument("--no-ocr", action="store_true")
    given = parser.parse_args()
    main(given.pages, given.seed, given.failures, ocr=not given.no_ocr)
