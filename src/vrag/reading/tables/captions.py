"""Captions of tables: numbered titles, titles just above, and lines about units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.reading.tables.text_kinds import count_words, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.grid import Area
    from vrag.reading.tables.text_pieces import Piece

MAX_LINES = 6
"""Lines above or below a table that are looked at."""
MAX_PARAGRAPHS = 3
"""Paragraphs above a table of a text that are looked at."""
NEAR = 2.6
"""Space between a table and its caption, and between lines of it, in heights of the text."""
ANNOUNCED = 4.5
"""Space between a table and the sentence that announces it with a colon, in heights of the text."""
MAX_TITLE_WORDS = 14
"""Words of a title without a number."""
NUMBERED_TITLE = re.compile(
    r"(?:(?:table|tab\.|figure|fig\.|exhibit|schedule|tableau|tabelle|tabla)\s*[\dIVXA-Z]|[表图圖][\s\d一二三四五六七八九十])",
    re.IGNORECASE,
)
"""The beginning of a numbered caption."""
TABLE_TITLE = re.compile(
    r"(?:(?i:table|tab\.|exhibit|schedule|tableau|tabelle|tabla)\s(?:[A-Z]{0,2}[-.–]?\d|[IVX]+\b|[A-Z]\b)[^\s,;)]*"
    r"|[表][\s\d一二三四五六七八九十]+)(?=[.:|–—]|\s\W*[A-Z0-9“(]|$)"
)
"""The beginning of the title of a table, and of nothing in a sentence."""
NOTE = re.compile(r"(?:source|notes?|see)\b|[*†‡]|\(\w\)\s|\d\s|注|资料来源|数据来源|来源", re.IGNORECASE)
"""The beginning of a note below a table."""
_UNITS = re.compile(
    r"\b(?:in|of)\s+(?:[a-z$€£]+\s+)?(?:thousands?|millions?|billions?|per\s?cent|percent|%)|"
    r"[$€£¥]\s?(?:m|k|bn|000|million|thousand|billion)\b|\((?:unaudited|%|USD|EUR)\)|单位|單位|单元：|人民币|万元|百万",
    re.IGNORECASE,
)


def find_caption(area: Area, rows: Sequence[Sequence[Piece]], unit: float) -> str:
    """Return the caption of a table and the lines about units beside it; empty if there is none.

    Args:
        area: The table.
        rows: Rows of the pieces that belong to no table, from the top of the page down.
        unit: Height of the text.
    """
    above = [row for row in rows if row[0].middle < area.y1]
    below = [row for row in rows if row[0].middle > area.y2]
    before = _adjacent(area, list(reversed(above)), unit, upwards=True)
    after = _adjacent(area, below, unit, upwards=False)
    lines = _caption_above(before)
    if not any(NUMBERED_TITLE.match(line) for line in lines):
        lines += _caption_below(after)
    return " ".join(lines)


def find_text_caption(lines: Sequence[str]) -> str:
    """Return the caption among the paragraphs above a table, given from the nearest up; "" without one."""
    return " ".join(_caption_above(lines[:MAX_PARAGRAPHS]))


def _adjacent(area: Area, rows: Sequence[Sequence[Piece]], unit: float, *, upwards: bool) -> list[str]:
    """Return the texts of the lines over or under a table, the nearest first, without wide spaces between."""
    edge = area.y1 if upwards else area.y2
    found: list[str] = []
    for row in rows[: 3 * MAX_LINES]:
        inside = [piece for piece in row if piece.x1 < area.x2 and area.x1 < piece.x2]
        if not inside:
            continue
        space = edge - inside[0].y2 if upwards else inside[0].y1 - edge
        text = " ".join(piece.text for piece in inside)
        announced = upwards and not found and text.endswith((":", "："))
        if space > (ANNOUNCED if announced else NEAR) * unit or len(found) == MAX_LINES:
            break
        found.append(text)
        edge = inside[0].y1 if upwards else inside[0].y2
    return found


def _caption_above(lines: Sequence[str]) -> list[str]:
    """Return the lines from a numbered title down; without one the title and units just above."""
    for number, line in enumerate(lines):
        if NUMBERED_TITLE.match(line):
            return list(reversed(lines[: number + 1]))
    found: list[str] = []
    for line in lines[:3]:
        if not (_UNITS.search(line) and count_words(line) <= MAX_TITLE_WORDS) and not (
            not any(map(_is_title, found)) and _is_title(line)
        ):
            break
        found.append(line)
    return list(reversed(found))


def _is_title(line: str) -> bool:
    """Return whether a line without a number can be the title of a table."""
    return (
        0 < count_words(line) <= MAX_TITLE_WORDS
        and not line.endswith((".", ";", ",", "。", "；"))
        and not line[0].islower()
        and not is_number(line)
    )


def _caption_below(lines: Sequence[str]) -> list[str]:
    """Return a numbered title just below a table, with the lines that complete it."""
    if not lines or not NUMBERED_TITLE.match(lines[0]):
        return []
    found = [lines[0]]
    for line in lines[1:4]:
        if found[-1].endswith((".", "。")):
            break
        found.append(line)
    return found
