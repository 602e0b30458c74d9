"""Columns of running text that a file draws across: the first line of each, then the second of each.

PDFium takes what stands at one height as one line. Such lines have a gap at the same place, one below the
other, and go on below rather than behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.corpus.formats.pdf_text.raised_words import LayerWord

HYPHENS = frozenset("\x02\ufffe\xad")
"""Characters of PDFium and of PDF writers for a hyphen at the end of a line."""
MIN_GAP = 0.9
"""Space between two words from which columns may lie at its sides, in heights."""
MIN_GUTTER = 0.7
"""Space that all lines of a block leave between two columns, in heights."""
MIN_LINES = 4
"""Lines of a block that have a piece in each column."""
MIN_WORDS = 3.0
"""Words of a line of running text in a column, on average; cells of tables have fewer."""
MIN_CONTINUED = 0.5
"""Share of the lines of each column, without the first, that begin with a small letter."""
MAX_PITCH = 1.4
"""Distance of two lines, by the usual one of their block, from which they are of different blocks."""
MIN_FEWER_BREAKS = 2
"""Breaks of sentences and words across columns, by those from line to line."""
REACH = 3.0
"""Distance of two lines of a block, in heights."""
SENTENCE_ENDS = frozenset(".!?:")

Piece = list["LayerWord"]
"""Words of a line without a wide gap between them."""


@dataclass(slots=True)
class _Block:
    """Lines one below the other, and the gaps between their columns."""

    lines: list[list[Piece]]
    gutters: list[tuple[float, float]]

    def take(self, line: list[Piece]) -> bool:
        """Add a line below the others, if it has the same columns. Returns whether it has."""
        gaps = _gaps(line)
        last, height = self.lines[-1][0][0], _height(line[0][0])
        fall = last.upright[1] - line[0][0].upright[1]
        if len(gaps) != len(self.gutters) or not 0 < fall < REACH * height:
            return False
        shared = [(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(self.gutters, gaps, strict=True)]
        if any(right - left < MIN_GUTTER * height for left, right in shared):
            return False
        self.lines.append(line)
        self.gutters = shared
        return True


def order_columns(words: Sequence[LayerWord], characters: str) -> list[LayerWord]:
    """Return words with columns of running text one behind the other, where they are drawn across.

    Args:
        words: The words of a layer, upright, in its order.
        characters: The characters of the layer.
    """
    if not _has_gaps(words):
        return list(words)
    ordered: list[LayerWord] = []
    is_moved = False
    for lines in _list_blocks(_list_lines(words, characters)):
        if _is_running_text(lines, characters):
            ordered += _by_columns(lines, characters)
            is_moved = True
        else:
            block = [word for line in lines for piece in line for word in piece]
            ordered += [replace(block[0], glue=block[0].glue or "\n"), *block[1:]] if is_moved else block
            is_moved = False
    return ordered


def _has_gaps(words: Sequence[LayerWord]) -> bool:
    """Return whether there are as many gaps as columns of running text have. It takes little time.

    Most pages have fewer, and those with tables more.
    """
    count = 0
    last = words[0].upright
    for word in words:
        sides = word.upright
        if sides[0] - last[2] > MIN_GAP * (last[3] - last[1]) and sides[1] < last[3] and last[1] < sides[3]:
            count += 1
        last = sides
    return count >= MIN_LINES and count * (MIN_WORDS + 1) <= len(words)


def _is_gap(before: LayerWord, word: LayerWord) -> bool:
    a, b = before.upright, word.upright
    return b[0] - a[2] > MIN_GAP * (a[3] - a[1]) and b[1] < a[3] and a[1] < b[3]


def _list_lines(words: Sequence[LayerWord], characters: str) -> Iterator[list[Piece]]:
    """Yield the lines of a layer in pieces."""
    line = [[words[0]]]
    for before, word in pairwise(words):
        between = word.glue if word.glue is not None else characters[before.end : word.start]
        is_beside = between == " "
        if not is_beside and ("\n" in between or "\r" in between or not HYPHENS.isdisjoint(between)):
            yield line
            line = [[word]]
        elif _is_gap(before, word):
            line.append([word])
        else:
            line[-1].append(word)
    yield line


def _list_blocks(lines: Iterator[list[Piece]]) -> Iterator[list[list[Piece]]]:
    """Yield lines that have the same columns, at like distances; others alone."""
    block: _Block | None = None
    for line in lines:
        if block is None or not block.take(line):
            if block is not None:
                yield from _split_block(block.lines)
            block = _Block([line], _gaps(line))
    if block is not None:
        yield from _split_block(block.lines)


def _split_block(lines: list[list[Piece]]) -> Iterator[list[list[Piece]]]:
    falls = [a[0][0].upright[1] - b[0][0].upright[1] for a, b in pairwise(lines)]
    usual = median(falls) if falls else 0.0
    part = [lines[0]]
    for fall, line in zip(falls, lines[1:], strict=True):
        if fall > MAX_PITCH * usual:
            yield part
            part = []
        part.append(line)
    yield part


def _gaps(line: list[Piece]) -> list[tuple[float, float]]:
    return [(before[-1].upright[2], after[0].upright[0]) for before, after in pairwise(line)]


def _height(word: LayerWord) -> float:
    return word.upright[3] - word.upright[1]


def _is_running_text(lines: list[list[Piece]], characters: str) -> bool:
    """Return whether lines have columns each of which goes on from line to line, and not across."""
    if len(lines) < MIN_LINES or len(lines[0]) < 2:
        return False
    for column in zip(*lines, strict=True):
        if sum(map(len, column)) < MIN_WORDS * len(lines):
            return False
        continued = sum(piece[0].text[0].islower() for piece in column[1:])
        if continued < MIN_CONTINUED * (len(lines) - 1):
            return False
    columns = [list(column) for column in zip(*lines, strict=True)]
    down = sum(_count_breaks(column, characters) for column in columns)
    across = _count_breaks([piece for line in lines for piece in line], characters)
    return across >= MIN_FEWER_BREAKS * max(down, 1)


def _count_breaks(pieces: Sequence[Piece], characters: str) -> int:
    """Return how often a piece does not go on in the next: in a sentence, or with the half of a word."""
    breaks = 0
    for piece, following in pairwise(pieces):
        is_small = following[0].text[0].islower()
        is_end = piece[-1].text[-1] in SENTENCE_ENDS
        is_cut = _is_divided(piece[-1], characters) and (not is_small or _is_gap(piece[-1], following[0]))
        breaks += is_small == is_end or is_cut
    return breaks


def _by_columns(lines: list[list[Piece]], characters: str) -> Iterator[LayerWord]:
    """Yield the words of a block column by column, each line behind the one above it."""
    for column in zip(*lines, strict=True):
        glue = "\n"
        for piece, following in zip(column, [*column[1:], None], strict=True):
            last, next_glue = _end_of_line(piece[-1], following and following[0], characters)
            for number, word in enumerate([*piece[:-1], last]):
                yield word if number else replace(word, glue=glue)
            glue = next_glue


def _is_divided(last: LayerWord, characters: str) -> bool:
    """Return whether a line ends within a word."""
    is_marked = not HYPHENS.isdisjoint(characters[last.end : last.end + 1])
    return is_marked or (last.text.endswith("-") and len(last.text) > 1)


def _end_of_line(last: LayerWord, following: LayerWord | None, characters: str) -> tuple[LayerWord, str]:
    """Return the last word of a line, and what stands between it and the first one of the next line.

    A word that is divided has no hyphen, unless that is part of it.
    """
    if following is None or not _is_divided(last, characters):
        return last, "\n"
    first_half = last.text.removesuffix("-")
    is_part = "-" in first_half or not following.text[0].islower()
    return replace(last, text=first_half), "-" if is_part else ""
