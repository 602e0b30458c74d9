"""Lines of text with their words, from a text layer or OCR, and the text of a page made of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.corpus.ocr import line_words, rows
from vrag.corpus.pages.placed_text import PlacedText
from vrag.geometry import Box
from vrag.types import TurnedText, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.ocr import Bounds, OcrLine
    from vrag.corpus.pages.orientation import PictureReading


SPACES = [code for code in range(0x3001) if chr(code).isspace()]
"""Codes of all characters that are spaces or line breaks."""
MAX_CELL_WORDS = 4
"""Words of a line of a table's column, on average."""
MIN_BESIDE = 0.7
"""Share of the lines of the shorter one of two columns that stand beside lines of the other."""


class TextSegment(NamedTuple):
    """A line of text."""

    text: str
    words: tuple[Word, ...]
    """Their positions are those in `text`."""
    bounds: Bounds
    """The part of the page that its words take, in fractions of it."""
    angle: int
    """Degrees clockwise by which it is turned."""


Rows = list[list[TextSegment]]
"""Lines of a part of a page: rows from top to bottom."""


def remove_words(page: PlacedText, is_kept: NDArray[np.bool_]) -> PlacedText:
    """Remove words from the text of a page, and the spaces that are left over."""
    if is_kept.all():
        return page
    codes = np.frombuffer(page.text.encode("utf-32-le", "surrogatepass"), np.uint32)
    stays = np.ones(len(codes), np.bool_)
    for index in np.flatnonzero(~is_kept).tolist():
        stays[page.words[index].start : page.words[index].end] = False
    left = np.flatnonzero(stays)
    is_space = np.isin(codes[left], SPACES)
    # Of the spaces around what was removed, the first one stays.
    stays[left[is_space & np.insert(is_space[:-1], 0, True)]] = False
    places = [0, *np.cumsum(stays).tolist()]
    text = codes[stays].tobytes().decode("utf-32-le", "surrogatepass")
    length = len(text.rstrip())
    words = [
        Word(places[word.start], places[word.end], word.box)
        for word, stays in zip(page.words, is_kept.tolist(), strict=True)
        if stays and places[word.start] < places[word.end]
    ]
    turned = _moved(page.turned, places, length)
    return PlacedText(text[:length], tuple(words), turned)


def _moved(turned: Sequence[TurnedText], places: Sequence[int], length: int) -> tuple[TurnedText, ...]:
    """Return the turned parts of a text of which letters were removed."""
    moved = (TurnedText(places[part.start], min(length, places[part.end]), part.angle) for part in turned)
    return tuple(part for part in moved if part.start < part.end)


def split_lines(page: PlacedText) -> list[TextSegment]:
    """Split the text of a page at its line breaks, without lines that have no words."""
    segments: list[TextSegment] = []
    starts = [word.start for word in page.words]
    position = 0
    for line in page.text.split("\n"):
        end = position + len(line)
        words = page.words[bisect_left(starts, position) : bisect_left(starts, end)]
        if words:
            own = tuple(Word(word.start - position, word.end - position, word.box) for word in words)
            angle = next((part.angle for part in page.turned if part.start <= words[0].start < part.end), 0)
            segments.append(TextSegment(line, own, _enclose(own), angle))
        position = end + 1
    return segments


def split_reading(reading: PictureReading, size: tuple[int, int]) -> list[TextSegment]:
    """Return the lines of a reading in their order: from top to bottom, side by side from left to right.

    Args:
        reading: What was read of a picture.
        size: Width and height of the picture in pixels.
    """
    segments: list[TextSegment] = []
    for row in rows([line.bounds for line in reading.lines]):
        segments += [_to_segment(reading, reading.lines[index], size) for index in row]
    return [segment for segment in segments if segment.words]


def _to_segment(reading: PictureReading, line: OcrLine, size: tuple[int, int]) -> TextSegment:
    words: list[Word] = []
    for start, end, bounds in line_words(line):
        sides = (side / whole for side, whole in zip(reading.to_picture(bounds), size * 2, strict=True))
        words.append(Word(start, end, Box.unit(*(min(max(side, 0.0), 1.0) for side in sides))))
    return TextSegment(line.text, tuple(words), _enclose(words) if words else (0, 0, 0, 0), reading.angle)


def without_words(segment: TextSegment, is_kept: NDArray[np.bool_]) -> TextSegment | None:
    """Return a line without some of its words; None if none is left."""
    left = remove_words(PlacedText(segment.text, segment.words), is_kept)
    return TextSegment(left.text, left.words, _enclose(left.words), segment.angle) if left.words else None


def _enclose(words: Sequence[Word]) -> Bounds:
    boxes = [word.box for word in words]
    return (
        min(box.x1 for box in boxes),
        min(box.y1 for box in boxes),
        max(box.x2 for box in boxes),
        max(box.y2 for box in boxes),
    )


def merge_rows(segments: Sequence[TextSegment]) -> Rows:
    """Order lines by where they stand: rows from top to bottom, each from left to right."""
    return [[segments[index] for index in row] for row in rows([segment.bounds for segment in segments])]


def join_rows(lines: Iterable[Sequence[TextSegment]]) -> PlacedText:
    """Make the text of a page of rows of lines: a line break between rows, a space within one."""
    parts: list[str] = []
    words: list[Word] = []
    turned: list[TurnedText] = []
    position = 0
    for row in lines:
        for segment in row:
            end = position + len(segment.text)
            words += [Word(position + word.start, position + word.end, word.box) for word in segment.words]
            if segment.angle:
                if turned and (turned[-1].angle, turned[-1].end) == (segment.angle, position - 1):
                    turned[-1] = TurnedText(turned[-1].start, end, segment.angle)
                else:
                    turned.append(TurnedText(position, end, segment.angle))
            parts += (segment.text, "\n" if segment is row[-1] else " ")
            position = end + 1
    return PlacedText("".join(parts[:-1]), tuple(words), tuple(turned))


def insert_rows(layer: Sequence[TextSegment], region: Sequence[Sequence[TextSegment]]) -> int:
    """Return the index among the lines of a layer before which the lines of a region belong.

    That is after the lowest line above the region in its columns, or else before the first one below it.
    """
    bounds = _union([segment.bounds for row in region for segment in row])
    middle = (bounds[1] + bounds[3]) / 2
    in_columns = [index for index, segment in enumerate(layer) if _share_columns(segment.bounds, bounds)]
    for candidates in (in_columns, list(range(len(layer)))):
        above = [index for index in candidates if _middle(layer[index].bounds) <= middle]
        if above:
            return max(above, key=lambda index: (layer[index].bounds[3], index)) + 1
        if candidates:
            return candidates[0]
    return 0


def join_columns(parts: Sequence[Rows], layer: Sequence[TextSegment]) -> list[Rows]:
    """Join parts of a page that are the columns of one table: the lines of each stand beside others.

    The rows of a table whose columns are far apart are read across. Columns of running text, whose lines have
    more words, stay apart, and so do pictures within such columns of the layer.

    Args:
        parts: Rows of lines of each part.
        layer: The lines of the page's layer.
    """
    joined: list[Rows] = []
    for part in sorted(parts, key=lambda part: _union_of(part)[1]):
        beside = next(
            (other for other in joined if _are_columns(other, part) and not _are_apart(other, part, layer)),
            None,
        )
        if beside is None:
            joined.append(list(part))
        else:
            beside[:] = merge_rows([line for row in (*beside, *part) for line in row])
    return joined


def _are_columns(first: Rows, second: Rows) -> bool:
    """Return whether two parts have short, upright lines, and most of those of one beside the other's."""
    lines, others = ([line for row in part for line in row] for part in (first, second))
    words = sum(len(line.words) for line in (*lines, *others))
    if words > MAX_CELL_WORDS * (len(lines) + len(others)) or any(line.angle for line in (*lines, *others)):
        return False
    if any(_overlap(line.bounds, other.bounds) for line in lines for other in others):
        return False
    fewer, more = sorted((first, second), key=len)
    middles = [_middle(row[0].bounds) for row in fewer]
    beside = [any(row[0].bounds[1] < middle < row[0].bounds[3] for row in more) for middle in middles]
    return len(fewer) > 1 and sum(beside) >= MIN_BESIDE * len(fewer)


def _are_apart(first: Rows, second: Rows, layer: Sequence[TextSegment]) -> bool:
    """Return whether lines of a layer stand between two parts, or running text above or below each alone."""
    one, other = _union_of(first), _union_of(second)
    left, right = min(one[2], other[2]), max(one[0], other[0])
    top, bottom = max(one[1], other[1]), min(one[3], other[3])
    for x1, y1, x2, y2 in (line.bounds for line in layer):
        if left <= x1 and x2 <= right and top < y2 and y1 < bottom:
            return True
    running = [line.bounds for line in layer if len(line.words) > MAX_CELL_WORDS]
    alone = [(_share_columns(bounds, one), _share_columns(bounds, other)) for bounds in running]
    return (True, False) in alone and (False, True) in alone


def _overlap(first: Bounds, second: Bounds) -> bool:
    across = min(first[2], second[2]) - max(first[0], second[0])
    return across > 0 and min(first[3], second[3]) > max(first[1], second[1])


def _union_of(part: Rows) -> Bounds:
    return _union([line.bounds for row in part for line in row])


def _union(bounds: Sequence[Bounds]) -> Bounds:
    left, top, right, bottom = zip(*bounds, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _middle(bounds: Bounds) -> float:
    return (bounds[1] + bounds[3]) / 2


def _share_columns(first: Bounds, second: Bounds) -> bool:
    shared = min(first[2], second[2]) - max(first[0], second[0])
    return shared > 0.2 * min(first[2] - first[0], second[2] - second[0])
