"""The part of a page to crop around an answer, and the best parts of several pages.

The block around a place is its region, with neighbours while it is small; never more than an eighth of the
page, unless the place itself is larger.

`ranked_regions` offers many places: every block of a page stands where its best line stands, and the region
around that line is offered. A region that a better one mostly shows is not offered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vrag.geometry import Box
from vrag.reading.line_scoring import ScoredPage, locate
from vrag.reading.page_text import PageText
from vrag.reading.questions.query_analysis import parse
from vrag.reading.views.text_lines import Rect, around

MOST = 0.12
"""Largest share of the page that is cut out, unless the quote alone is larger: an eighth, less what
rounding to pixels may add."""
ENOUGH = 0.04
"""Share of the page from which a block needs no context."""
NEAR = 0.2
"""Blocks farther away than this are no context, in heights of the page."""
MARGIN = 0.006
"""Space left around a block, as a share of the page's sides."""
OVERLAP = 0.25
"""Part of the height of a word by which it may reach into the line above or below."""
MAX_ROUNDS = 6
"""Times that sides are moved, since each may come to cut other words than before."""


def region_around(page: PageText, place: Box) -> Box:
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


def pad_lines(page: PageText, place: Box) -> Box:
    """Return a place from end to end of its lines, with a margin."""
    crossing = [
        line.rect
        for line in page.lines
        if place.y1 < (line.rect.y1 + line.rect.y2) / 2 < place.y2
        and line.rect.x1 < place.x2
        and place.x1 < line.rect.x2
    ]
    return _padded(page, around((Rect(*place.as_tuple()), *crossing)) or Rect(*place.as_tuple())).box()


def _region(page: PageText, line: int, place: Rect) -> Rect:
    """Return the part of the page to show for a place in the given line."""
    return place if place.area >= MOST else around((_block(page, line, place), place)) or place


def _block(page: PageText, line: int, quoted: Rect) -> Rect:
    """Return the block of a line, cut down when it is too large, with its neighbours while it is small.

    A margin is added where there is room for it.
    """
    number = page.lines[line].block
    members = [page.lines[member].rect for member in page.blocks[number]]
    rect = _grown(quoted, members, page.aspect, reach=1.0, enough=MOST)
    others = (page.rect_of_block(other) for other in range(len(page.blocks)) if other != number)
    return _padded(page, _grown(rect, others, page.aspect, reach=NEAR, enough=ENOUGH))


def _padded(page: PageText, rect: Rect) -> Rect:
    """Return a rectangle with a margin, where there is room for it, that cuts no words."""
    x1, y1, x2, y2 = rect
    padded = Rect(max(x1 - MARGIN, 0.0), max(y1 - MARGIN, 0.0), min(x2 + MARGIN, 1.0), min(y2 + MARGIN, 1.0))
    return end_between_words(padded if padded.area <= MOST else rect, [word for _, _, word in page.words])


def end_between_words(rect: Rect, words: Sequence[Rect]) -> Rect:
    """Move the sides of a rectangle that cut words to the nearest place between words.

    Words whose centre it covers stay in it as a whole; others are left out, but for the line that it covers
    most of where it covers no centre. A side within a paragraph has no such place but the ends of its lines.

    >>> lines = [Rect(0.1, 0.1, 0.9, 0.2), Rect(0.1, 0.3, 0.9, 0.4)]
    >>> end_between_words(Rect(0.05, 0.06, 0.95, 0.32), lines).y2 < 0.3
    True
    """
    for _ in range(MAX_ROUNDS):
        across = [word for word in words if word.x1 < rect.x2 and rect.x1 < word.x2]
        y1, y2 = _between((rect.y1, rect.y2), [(w.y1, w.y2) for w in across], trimmed=OVERLAP)
        along = [word for word in words if word.y1 < y2 and y1 < word.y2]
        x1, x2 = _between((rect.x1, rect.x2), [(w.x1, w.x2) for w in along], trimmed=0.0)
        before, rect = rect, Rect(x1, y1, x2, y2)
        if rect == before:
            break
    return rect


def _between(
    sides: tuple[float, float], extents: list[tuple[float, float]], trimmed: float
) -> tuple[float, float]:
    """Move two opposite sides out of the extents of words along their axis."""
    low, high = sides
    spans = _spans(extents, trimmed)
    inside = [(start, end) for start, end in extents if low < (start + end) / 2 < high] or _most_covered(
        sides, extents
    )
    first, last = (
        min((start for start, _ in inside), default=high),
        max((end for _, end in inside), default=low),
    )
    mirrored = [(-end, -start) for start, end in reversed(spans)]
    return max(_outside(low, first, spans), 0.0), min(-_outside(-high, -last, mirrored), 1.0)


def _most_covered(
    sides: tuple[float, float], extents: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the extent that shares most with a range; none if all lie outside."""
    low, high = sides
    shared = [(min(end, high) - max(start, low), (start, end)) for start, end in extents]
    most, extent = max(shared, default=(0.0, (low, high)))
    return [extent] if most > 0 else []


def _outside(side: float, first: float, spans: Sequence[tuple[float, float]]) -> float:
    """Move a lower side out of the span that it cuts: before the first word that is meant, behind others."""
    for at, (start, end) in enumerate(spans):
        if start < side < end:
            before = spans[at - 1][1] if at > 0 else start - 2 * MARGIN
            behind = spans[at + 1][0] if at + 1 < len(spans) else end + 2 * MARGIN
            if end > first:
                return start - min((start - before) / 2, MARGIN / 2)
            return end + min((behind - end) / 2, MARGIN / 2)
    return side


def _spans(extents: Iterable[tuple[float, float]], trimmed: float) -> list[tuple[float, float]]:
    """Return where words stand along an axis, such as lines; those that overlap by `trimmed` are apart."""
    merged: list[list[float]] = []  # trimmed start and end, start and end
    for start, end in sorted(extents):
        cut = trimmed * (end - start)
        if merged and start + cut < merged[-1][1]:
            span = merged[-1]
            span[:] = span[0], max(span[1], end - cut), min(span[2], start), max(span[3], end)
        else:
            merged.append([start + cut, end - cut, start, end])
    for one, other in pairwise(merged):
        if other[2] < one[3]:
            one[3] = other[2] = (one[1] + other[0]) / 2
    return [(start, end) for _, _, start, end in merged]


def _grown(rect: Rect, others: Iterable[Rect], aspect: float, *, reach: float, enough: float) -> Rect:
    """Take in the nearest rectangles one by one while the result stays within an eighth of the page."""
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


def ranked_regions(question: str, pages: Sequence[PageText], most: int = MAX_REGIONS) -> list[RankedRegion]:
    """Return the parts of pages where the words of a question come together.

    Pages further down count less: see `locate.RANK`. Of a text without picture the whole is the one part. A
    page without words has none, as nothing is known of it. The pages come best first, as retrieval scored
    them (see `read_page_text`); `most` parts are returned at most, the best first, ties in the order of
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
