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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vrag.geometry import Box
from vrag.reading.line_scoring import ScoredPage, locate
from vrag.reading.query_analysis import parse
from vrag.reading.text_layout import PageLayout, Rect, around

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


def region(scored: ScoredPage, line: int, quoted: Rect, *, firm: bool) -> Rect:
    """Return the part of the page to show for a quote at `quoted` in the given line."""
    if quoted.area >= MOST:
        return quoted
    rect = _block(scored.page, line, quoted) if firm else _window(scored, quoted)
    return around((rect, quoted)) or quoted


def _block(page: PageLayout, line: int, quoted: Rect) -> Rect:
    """Return the block of a line, cut down when it is too large, with its neighbours while it is small.

    A margin is added where there is room for it.
    """
    number = page.lines[line].block
    members = [page.lines[member].rect for member in page.blocks[number]]
    rect = _grown(quoted, members, page.aspect, reach=1.0, enough=MOST)
    others = (page.rect_of_block(other) for other in range(len(page.blocks)) if other != number)
    rect = _grown(rect, others, page.aspect, reach=NEAR, enough=ENOUGH)
    x1, y1, x2, y2 = rect
    padded = Rect(max(x1 - MARGIN, 0.0), max(y1 - MARGIN, 0.0), min(x2 + MARGIN, 1.0), min(y2 + MARGIN, 1.0))
    return padded if padded.area <= MOST else rect


def likeliest_line(scored: ScoredPage, line: int) -> int:
    """Return the best line of the part of the page where most of the question's words stand.

    Where there is no such part, the line given is returned.
    """
    window = _window(scored, None)
    inside = [n for n, at in enumerate(scored.page.lines) if around((at.rect, window)) == window]
    return max(inside, key=lambda number: scored.score[number], default=line)


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
    """Return the gap between two rectangles along both axes together, in heights of the page."""
    return max(0.0, a.x1 - b.x2, b.x1 - a.x2) * aspect + max(0.0, a.y1 - b.y2, b.y1 - a.y2)


def _window(scored: ScoredPage, quoted: Rect | None) -> Rect:
    """Return the window over the quote, or anywhere, in which the question's words weigh most.

    Where no window covers the quote, the quote is returned.
    """
    sums = np.zeros((ROWS + 1, COLUMNS + 1))
    off_centre = (((_CELLS[:, :2] - 0.5) / SPREAD) ** 2).sum(axis=1)
    weights = np.exp(SHARPNESS * scored.support_at(_CELLS) - off_centre / 2).reshape(ROWS, COLUMNS)
    sums[1:, 1:] = weights.cumsum(axis=0).cumsum(axis=1)
    best = 0.0, quoted or Rect(0.0, 0.0, 0.0, 0.0)
    for height, width in _SHAPES:
        mass = (
            sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
        )
        if quoted:
            tops, lefts = np.arange(ROWS - height + 1) / ROWS, np.arange(COLUMNS - width + 1) / COLUMNS
            rows = (tops <= quoted.y1) & (tops + height / ROWS >= quoted.y2)
            columns = (lefts <= quoted.x1) & (lefts + width / COLUMNS >= quoted.x2)
            mass = np.where(rows[:, None] & columns[None, :], mass, -1.0)
        top, left = divmod(int(mass.argmax()), mass.shape[1])
        if mass[top, left] > best[0]:
            window = Rect(left / COLUMNS, top / ROWS, (left + width) / COLUMNS, (top + height) / ROWS)
            best = float(mass[top, left]), window
    return best[1]


_WIDEST = [(height, min(COLUMNS, int(MOST * COLUMNS * ROWS / height))) for height in range(1, ROWS + 1)]
_SHAPES = [
    (height, width)
    for height, width in _WIDEST
    if 1 / MOST_HIGH <= (width / COLUMNS) / (height / ROWS) <= MOST_WIDE
]
"""Heights and widths in cells of the windows compared: the widest for each height."""
_X, _Y = ((np.arange(count) + 0.5) / count for count in (COLUMNS, ROWS))
_CELLS = np.stack([*np.meshgrid(_X, _Y)] * 2, axis=-1).reshape(-1, 4)
"""Centres of the cells as rectangles without extent, row by row."""


MAX_REGIONS = 10
"""Regions that are returned, unless a call asks for another number."""
NEW = 0.5
"""Share of a part that no one part before it shows, for it to be offered."""
_WHOLE = Box.unit(0, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class RankedRegion:
    """A part of a page, for a question."""

    item: str
    """Id of the page."""
    box: Box
    """The part in `Space.UNIT`."""
    score: float
    """The share of the question that comes together at its best line, with what else speaks for it; higher is
    better, comparable within one call only."""


def ranked_regions(question: str, pages: Sequence[PageLayout], most: int = MAX_REGIONS) -> list[RankedRegion]:
    """Return the parts of pages where the words of a question come together.

    Pages further down count less: see `locate.RANK`. Of a text without picture the whole is the one part. A
    page without words has none, as nothing is known of it. The pages come best first, as retrieval scored
    them (see `text_layout.layout`); `most` parts are returned at most, the best first, ties in the order of
    the pages.
    """
    blocks: list[tuple[float, ScoredPage, int]] = []
    for scored in locate(parse(question), pages):
        page_blocks = scored.page.blocks if scored.page.words else [list(range(len(scored.page.lines)))]
        for lines in filter(None, page_blocks):
            line = max(lines, key=lambda number: scored.score[number])
            blocks.append((float(scored.score[line]), scored, line))
    chosen: list[RankedRegion] = []
    for score, scored, line in sorted(blocks, key=lambda block: -block[0]):
        if len(chosen) == most:
            break
        item, box = scored.page.item.id, _WHOLE
        if scored.page.words:
            before = [earlier.box for earlier in chosen if earlier.item == item]
            rect = scored.page.lines[line].rect
            if _is_shown(rect.box(), before, 1.0):  # known before its surroundings, which take longer
                continue
            box = region(scored, line, rect, firm=True).box()
            if _is_shown(box, before, 1 - NEW):
                continue
        chosen.append(RankedRegion(item, box, score))
    return chosen


def _is_shown(box: Box, before: Sequence[Box], share: float) -> bool:
    """Return whether one of the others shows that share of it or more."""
    return any(box.intersect(other).area >= share * box.area for other in before)
