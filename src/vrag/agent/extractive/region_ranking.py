"""Ranks parts of several pages by where the words of a question come together, best first.

What `quote` does for the one best place, for many: every block of a page stands where its best line stands,
and what is offered of it is what would be cut out around that line (`region`): the block, cut down when it is
too large, with its neighbours while it is small. What a better one mostly shows is not offered again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vrag.agent.extractive.evidence_region import region
from vrag.agent.extractive.line_scoring import LocatedLine, locate
from vrag.agent.extractive.query_analysis import parse
from vrag.agent.extractive.text_layout import PageLayout
from vrag.geometry import Box

__all__ = ["MAX_REGIONS", "RankedRegion", "ranked_regions"]

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


class _Block(NamedTuple):
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
        box = _box(block, [one.box for one in chosen if one.item == item])
        if box is not None:
            chosen.append(RankedRegion(item, box, block.score))
    return chosen


def _blocks(found: LocatedLine) -> Iterator[_Block]:
    """Return the blocks of a page; a text without picture is one."""
    page = found.page
    every = list(range(len(page.lines)))
    for lines in page.blocks if page.words else filter(None, [every]):
        line = max(lines, key=lambda number: found.score[number])
        yield _Block(found, line, float(found.score[line]))


def _box(block: _Block, before: Sequence[Box]) -> Box | None:
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
