"""Lines of running text, which belong to no table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from vrag.reading.tables.page_text.text_kinds import count_words, has_leaders, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.page_text.text_pieces import Piece

MIN_LINES = 3
"""Lines of a paragraph."""
MIN_WIDTH = 13.0
"""Width of a column of running text, in heights of its lines."""
WIDE = 28.0
"""Width of a line that is running text by itself, in heights."""
LINE_WORDS = 3.5
"""Words in a line of running text."""
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|will|does|did|includes?|shows?)\b")
LOOK_AHEAD = 3
"""Rows below a line among which the next line of its paragraph stands."""


def find_running_text(rows: Sequence[Sequence[Piece]]) -> set[int]:
    """Return the `id` of each piece that is a line of running text, of a contents page or a sentence.

    Lines are running text if three or more of a width stand below each other, with words as prose has them.
    """
    prose: set[int] = set()
    taken: set[int] = set()
    for number, row in enumerate(rows):
        for piece in row:
            alone = len(row) == 1
            if has_leaders(piece.text) or _is_sentence(piece) or (alone and _is_statement(piece.text)):
                prose.add(id(piece))
            if id(piece) in taken:
                continue
            chain = _chain(rows, number, piece, taken)
            taken.update(map(id, chain))
            if _is_paragraph(chain):
                prose.update(map(id, chain))
    return prose


def _is_sentence(piece: Piece) -> bool:
    return piece.width > WIDE * piece.height and count_words(piece.text) >= 7


def _is_statement(text: str) -> bool:
    """Return whether a line that stands alone is a whole sentence, as those between two tables are."""
    if text.endswith(("：", "。")):
        return count_words(text) >= 6
    return text.endswith((":", ".")) and count_words(text) >= 6 and _VERB.search(text) is not None


def _chain(rows: Sequence[Sequence[Piece]], number: int, piece: Piece, taken: set[int]) -> list[Piece]:
    """Return a piece and those that go on below it at the same left side."""
    chain = [piece]
    while True:
        last = chain[-1]
        below = None
        for ahead in range(number + 1, min(number + 1 + LOOK_AHEAD, len(rows))):
            below = next((other for other in rows[ahead] if _goes_on(last, other)), None)
            if below is not None:
                number = ahead
                break
        if below is None or id(below) in taken:
            return chain
        chain.append(below)


def _goes_on(upper: Piece, lower: Piece) -> bool:
    """Return whether a piece can be the next line of a paragraph."""
    height = max(upper.height, lower.height)
    if not 0.5 * height < lower.middle - upper.middle < 2.1 * height:
        return False
    if min(upper.height, lower.height) < 0.6 * height:
        return False
    return abs(upper.x1 - lower.x1) < 2.5 * height


def _is_paragraph(chain: Sequence[Piece]) -> bool:
    if len(chain) < MIN_LINES:
        return False
    widths = np.array([piece.width / piece.height for piece in chain])
    words = np.array([count_words(piece.text) for piece in chain])
    if float(np.median(widths)) < MIN_WIDTH or float(np.median(words)) < LINE_WORDS:
        return False
    full = int(np.count_nonzero(widths > 0.75 * float(np.quantile(widths, 0.9))))
    return full >= 0.5 * len(chain) and not sum(is_number(piece.text) for piece in chain) > 0.2 * len(chain)
