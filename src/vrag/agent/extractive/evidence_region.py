"""The part of a page to crop around quoted words, and the best parts of several pages.

Where the question's words come together around the quote, its block is the region, with neighbours
while it is small. Where they do not, the block says little, and the region is the window in which
most of them stand, with a prior for the middle of the page: margins hold headings and page numbers.
Never more than a quarter of the page, unless the quote itself is larger.

`ranked_regions` does for many places what `best_quote` does for the best one: every block of a page stands
where its best line stands, and the region around that line is offered. A region that a better one mostly
shows is not offered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.agent.extractive.line_scoring import LocatedLine, locate
from vrag.agent.extractive.query_analysis import parse
from vrag.agent.extractive.text_layout import PageLayout, Rect, around
from vrag.geometry import Box

__all__ = ["FIRM", "MAX_REGIONS", "NEW", "RankedRegion", "likeliest_line", "ranked_regions", "region"]

MOST = 0.24
"""Largest share of the page that is cut out, unless the quote alone is larger: a quarter, less what
rounding to pixels may add."""
ENOUGH = 0.2
"""Share of the page from which a block needs no context."""
NEAR = 0.2
"""Blocks farther away than this are no context, in heights of the page."""
FIRM = 0.6
"""Support of a line from which its block is trusted."""
MARGIN = 0.006
"""Space left around a block, as a share of the page's sides."""
SHARPNESS = 5.0
"""Factor on the support of a place in the exponent of its weight: more of the question's words weigh more."""
SPREAD = 0.3
"""Standard deviation of the places of answers around the middle of the page, as a share of its sides."""
COLUMNS, ROWS = 20, 28
"""Grid on which windows are compared."""
MOST_WIDE, MOST_HIGH = 8.0, 3.0
"""Greatest width over height of a window, and height over width, both as shares of the page."""


def region(found: LocatedLine, line: int, quoted: Rect, *, firm: bool) -> Rect:
    """Return the part of the page to show for a quote at `quoted` in the given line."""
    if quoted.area >= MOST:
        return quoted
    rect = _block(found.page, line, quoted) if firm else _window(found, quoted)
    return around((rect, quoted)) or quoted


def likeliest_line(found: LocatedLine, line: int) -> int:
    """Return the best line of the part of the page where most of the question's words stand.

    Where there is no such part, the line given is returned.
    """
    window = _window(found, None)
    inside = [n for n, at in enumerate(found.page.lines) if around((at.rect, window)) == window]
    return max(inside, key=lambda number: found.score[number], default=line)


def _block(page: PageLayout, line: int, quoted: Rect) -> Rect:
    """Return the block of a line, cut down when it is too large, with its neighbours while it is small."""
    number = page.lines[line].block
    members = [page.lines[member].rect for member in page.blocks[number]]
    rect = _grown(quoted, members, page.aspect, reach=1.0, enough=MOST)
    others = (page.rect_of_block(other) for other in range(len(page.blocks)) if other != number)
    rect = _grown(rect, others, page.aspect, reach=NEAR, enough=ENOUGH)
    return _padded(rect) if _padded(rect).area <= MOST else rect


def _grown(rect: Rect, others: Iterable[Rect], aspect: float, *, reach: float, enough: float) -> Rect:
    """Take in the nearest rectangles one by one while the result stays within a quarter of the page."""
    rest = list(others)
    while rest and rect.area < enough:
        nearest = min(rest, key=lambda other: _apart(rect, other, aspect))
        if _apart(rect, nearest, aspect) > reach:
            break
        rest.remove(nearest)
        both = around((rect, nearest)) or rect
        if both.area <= MOST:
            rect = both
    return rect


def _apart(a: Rect, b: Rect, aspect: float) -> float:
    """Gap between two rectangles along both axes together, in heights of the page."""
    return max(0.0, a.x1 - b.x2, b.x1 - a.x2) * aspect + max(0.0, a.y1 - b.y2, b.y1 - a.y2)


def _padded(rect: Rect) -> Rect:
    """Return the rectangle with a margin, inside the page."""
    x1, y1, x2, y2 = rect
    return Rect(max(x1 - MARGIN, 0.0), max(y1 - MARGIN, 0.0), min(x2 + MARGIN, 1.0), min(y2 + MARGIN, 1.0))


def _window(found: LocatedLine, quoted: Rect | None) -> Rect:
    """Return the window over the quote, or anywhere, in which the question's words weigh most.

    Where no window covers the quote, the quote is returned.
    """
    sums = np.zeros((ROWS + 1, COLUMNS + 1))
    sums[1:, 1:] = _heat(found).cumsum(axis=0).cumsum(axis=1)
    best = 0.0, quoted or Rect(0.0, 0.0, 0.0, 0.0)
    for height, width in _SHAPES:
        mass = (
            sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
        )
        if quoted:
            mass = np.where(_covering(quoted, height, width), mass, -1.0)
        top, left = divmod(int(mass.argmax()), mass.shape[1])
        if mass[top, left] > best[0]:
            window = Rect(left / COLUMNS, top / ROWS, (left + width) / COLUMNS, (top + height) / ROWS)
            best = float(mass[top, left]), window
    return best[1]


def _shapes() -> Sequence[tuple[int, int]]:
    """Heights and widths in cells of the windows compared: the widest for each height."""
    widest = ((height, min(COLUMNS, int(MOST * COLUMNS * ROWS / height))) for height in range(1, ROWS + 1))
    shares = (((height, width), (width / COLUMNS) / (height / ROWS)) for height, width in widest)
    return [shape for shape, share in shares if 1 / MOST_HIGH <= share <= MOST_WIDE]


_SHAPES = _shapes()
_X, _Y = ((np.arange(count) + 0.5) / count for count in (COLUMNS, ROWS))
_CELLS = np.stack([*np.meshgrid(_X, _Y)] * 2, axis=-1).reshape(-1, 4)
"""Centres of the cells as rectangles without extent, row by row."""


def _covering(quoted: Rect, height: int, width: int) -> NDArray[np.bool_]:
    """Return which places of a window cover the quote."""
    top, left = np.arange(ROWS - height + 1) / ROWS, np.arange(COLUMNS - width + 1) / COLUMNS
    rows = (top <= quoted.y1) & (top + height / ROWS >= quoted.y2)
    columns = (left <= quoted.x1) & (left + width / COLUMNS >= quoted.x2)
    return rows[:, None] & columns[None, :]


def _heat(found: LocatedLine) -> NDArray[np.float64]:
    """Return the weight of each cell of the page as a place of the answer, rows × columns."""
    support = found.support_at(_CELLS)
    off = (((_CELLS[:, :2] - 0.5) / SPREAD) ** 2).sum(axis=1)
    return np.exp(SHARPNESS * support - off / 2).reshape(ROWS, COLUMNS)


MAX_REGIONS = 10
"""As many as are looked at, unless told otherwise."""
NEW = 0.5
"""Share of a part that no one part before it shows, for it to be offered."""
_WHOLE = Box.unit(0, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class RankedRegion:
    """A part of a page, for a question."""

    item: str
    """Id of the page."""
    box: Box
    """In `Space.UNIT`."""
    score: float
    """The share of the question that comes together at its best line, with what else speaks for it; higher is
    better, comparable within one call only."""


class _RankedBlock(NamedTuple):
    """A block of a page."""

    found: LocatedLine
    line: int
    """Number of its best line."""
    score: float
    """Of that line."""


def ranked_regions(question: str, pages: Sequence[PageLayout], most: int = MAX_REGIONS) -> list[RankedRegion]:
    """Return the parts of pages where the words of a question come together.

    Pages further down count less: see `locate.RANK`. Of a text without picture the whole is the one part. A
    page without words has none, as nothing is known of it.

    Args:
        question: As asked, in any language.
        pages: Of what retrieval found, best first; see `vrag.agent.extractive.text_layout.layout`.
        most: How many to give at most.

    Returns:
        Best first, ties in the order of the pages.
    """
    blocks = [block for found in locate(parse(question), pages) for block in _blocks(found)]
    chosen: list[RankedRegion] = []
    for block in sorted(blocks, key=lambda block: -block.score):
        if len(chosen) == most:
            break
        item = block.found.page.item.id
        box = _region_to_show(block, [earlier.box for earlier in chosen if earlier.item == item])
        if box is not None:
            chosen.append(RankedRegion(item, box, block.score))
    return chosen


def _blocks(found: LocatedLine) -> Iterator[_RankedBlock]:
    """Return the blocks of a page; a text without picture is one."""
    page = found.page
    every = list(range(len(page.lines)))
    for lines in page.blocks if page.words else filter(None, [every]):
        line = max(lines, key=lambda number: found.score[number])
        yield _RankedBlock(found, line, float(found.score[line]))


def _region_to_show(block: _RankedBlock, before: Sequence[Box]) -> Box | None:
    """Return the region to show of a block; None where it is shown already."""
    page = block.found.page
    if not page.words:
        return _WHOLE
    line = page.lines[block.line].rect
    if _is_shown(line.box(), before, 1.0):  # known before its surroundings, which take longer
        return None
    box = region(block.found, block.line, line, firm=True).box()
    return None if _is_shown(box, before, 1 - NEW) else box


def _is_shown(box: Box, before: Sequence[Box], share: float) -> bool:
    """Return whether one of the others shows that share of it or more."""
    return any(box.intersect(other).area >= share * box.area for other in before)
