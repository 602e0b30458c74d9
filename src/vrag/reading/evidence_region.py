"""The part of a page to crop around an answer, and the best parts of several pages.

The block around a place is its region, with neighbours while it is small; never more than a quarter of the
page, unless the place itself is larger.

`ranked_regions` offers many places: every block of a page stands where its best line stands, and the region
around that line is offered. A region that a better one mostly shows is not offered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vrag.geometry import Box
from vrag.reading.line_scoring import ScoredPage, locate
from vrag.reading.questions.query_analysis import parse
from vrag.reading.text_layout import PageLayout, Rect, around

MOST = 0.24
"""Largest share of the page that is cut out, unless the quote alone is larger: a quarter, less what
rounding to pixels may add."""
ENOUGH = 0.2
"""Share of the page from which a block needs no context."""
NEAR = 0.2
"""Blocks farther away than this are no context, in heights of the page."""
MARGIN = 0.006
"""Space left around a block, as a share of the page's sides."""


def region_around(page: PageLayout, place: Box) -> Box:
    """Return the part of the page to show for a place."""
    rect = Rect(*place.as_tuple())
    if rect.area >= MOST or not page.lines:
        return place
    x, y = place.center
    lines = page.rects
    away = np.hypot(
        np.maximum(0, np.maximum(lines[:, 0] - x, x - lines[:, 2])) * page.aspect,
        np.maximum(0, np.maximum(lines[:, 1] - y, y - lines[:, 3])),
    )
    return _region(page, int(away.argmin()), rect).box()


def _region(page: PageLayout, line: int, place: Rect) -> Rect:
    """Return the part of the page to show for a place in the given line."""
    return place if place.area >= MOST else around((_block(page, line, place), place)) or place


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
            box = _region(scored.page, line, rect).box()
            if _is_shown(box, before, 1 - NEW):
                continue
        chosen.append(RankedRegion(item, box, score))
    return chosen


def _is_shown(box: Box, before: Sequence[Box], share: float) -> bool:
    """Return whether one of the others shows that share of it or more."""
    return any(box.intersect(other).area >= share * box.area for other in before)
