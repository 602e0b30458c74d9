"""Vertical lines of Chinese and Japanese: each from top to bottom, the lines from right to left.

PDFium sorts what begins at one height from left to right, and so turns the order of such lines round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.corpus.ocr import CJK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.corpus.formats.pdf_text.raised_words import LayerWord

MIN_LENGTH = 3
"""Characters of a vertical line, of which at least one is longer than `MIN_LONGEST`."""
MIN_LONGEST = 6
MAX_SHIFT, MAX_SIGN_SHIFT = 0.4, 1.2
"""Distance of the middles of two characters of a line, sideways, by the width of a character. Signs stand in
the corner of their place, or beyond it in fonts that PDFium has not."""
MAX_STEP, MAX_SIGN_STEP = 1.5, 1.9
"""Distance of the middles of two characters of a line, downwards, likewise, and that of a sign, which stands
at either end of its place; a sign between them adds its place. Rows of tables lie farther apart."""
MAX_DISTANCE = 3.5
"""Distance of two lines that lie side by side, likewise."""
MAX_RUBY = 0.6
"""Width of letters that say how others are read, by that of a line."""
TURNED_SPACE, UPRIGHT_PITCH = 0.25, 1.3
"""Space between turned letters, and distance of the middles of upright ones, likewise, beyond which they are
two words."""
_IDEOGRAPH = re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]")
_CJK = re.compile(rf"[{CJK}]")
_READING = re.compile("[\u3041-\u3096\u30a1-\u30ff\u3105-\u312f\u31a0-\u31ff\uff66-\uff9f]+")
"""Kana and bopomofo, without the signs of a sentence."""


@dataclass(slots=True)
class _Column:
    """Words one below the other, or others in their order."""

    words: list[LayerWord]
    is_vertical: bool = False

    @property
    def middle(self) -> float:
        left, _, right, _ = self.words[0].sides
        return (left + right) / 2

    @property
    def width(self) -> float:
        return max(word.sides[2] - word.sides[0] for word in self.words)

    @property
    def top(self) -> float:
        return _height_of_middle(self.words[0])

    @property
    def bottom(self) -> float:
        return _height_of_middle(self.words[-1])


def order_vertical_lines(words: Sequence[LayerWord], characters: str) -> list[LayerWord]:
    """Return words with vertical lines in the order in which they are read.

    Args:
        words: The words of a layer, in its order.
        characters: The characters of the layer.
    """
    if not _CJK.search(characters):
        return list(words)
    columns = list(_list_columns(words))
    if not any(column.is_vertical and len(column.words) >= MIN_LONGEST for column in columns):
        return list(words)
    columns = _insert_ruby(columns)
    _add_short_columns(columns)
    ordered: list[LayerWord] = []
    for run in _list_runs(columns):
        if run[0].is_vertical:
            ordered += (word for column in _order(run) for word in _join(column))
        else:
            first, *others = run[0].words
            ordered += [replace(first, glue="\n") if ordered else first, *others]
    return ordered


def _list_columns(words: Sequence[LayerWord]) -> Iterator[_Column]:
    """Yield words that stand one below the other together, and others alone."""
    column: list[LayerWord] = []
    signs = 0
    for word in words:
        if column and not _is_below(column[-1 - signs], word, signs):
            yield _to_column(column)
            column = []
        is_sign = bool(column) and not word.text[0].isalnum()
        signs = signs + 1 if is_sign else 0
        column.append(word)
    if column:
        yield _to_column(column)


def _insert_ruby(columns: Sequence[_Column]) -> list[_Column]:
    """Put small letters that say how those at their left are read in brackets behind these.

    They are drawn before or behind them. A line that they divide in the file is one again.
    """
    joined: list[_Column] = []
    ruby: _Column | None = None
    for column, after in pairwise([*columns, None]):
        if column is None:
            continue
        if ruby:
            _write_ruby(ruby, column)
            ruby = None
            if joined and _is_below(joined[-1].words[-1], column.words[0], 0):
                joined.append(_to_column([*joined.pop().words, *column.words]))
            else:
                joined.append(column)
        elif after and _is_ruby_of(column, after):
            ruby = column
        elif joined and _is_ruby_of(column, joined[-1]):
            _write_ruby(column, joined[-1])
        else:
            joined.append(column)
    return joined


def _is_ruby_of(ruby: _Column, line: _Column) -> bool:
    """Return whether words are small and stand right beside words of a vertical line.

    They are kana, or too few for a line: a line of text beside a title in large letters is none.
    """
    if not line.is_vertical or ruby.width > MAX_RUBY * line.width or not _is_reading(ruby.words):
        return False
    space = min(word.sides[0] for word in ruby.words) - line.middle
    reach = line.width / 2
    is_along = line.bottom - reach <= ruby.bottom and ruby.top <= line.top + reach
    return is_along and 0 < space <= line.width


def _is_reading(words: Sequence[LayerWord]) -> bool:
    """Return whether words may say how others are read."""
    if len(words) < MIN_LENGTH:
        return _CJK.match(words[0].text) is not None
    return all(_READING.fullmatch(word.text) for word in words)


def _write_ruby(ruby: _Column, line: _Column) -> None:
    """Put words in brackets behind those of a line that stand beside them, as far as ideographs go on."""
    last = max(
        (at for at, word in enumerate(line.words) if _height_of_middle(word) >= ruby.bottom), default=0
    )
    rest = line.words[last + 1 :]
    last += next((at for at, word in enumerate(rest) if not _IDEOGRAPH.match(word.text)), len(rest))
    words = list(ruby.words)
    words[0] = replace(words[0], text="（" + words[0].text)
    words[-1] = replace(words[-1], text=words[-1].text + "）")
    line.words[last + 1 : last + 1] = words


def _to_column(words: list[LayerWord]) -> _Column:
    count = sum(_CJK.match(word.text) is not None for word in words)
    return _Column(words, len(words) >= MIN_LENGTH and 2 * count > len(words))


def _is_below(before: LayerWord, word: LayerWord, signs: int) -> bool:
    """Return whether a word stands right below another one, in one vertical line with it.

    Args:
        before: The last word of the line that is no sign.
        word: The word.
        signs: Number of signs behind it.
    """
    if not (_is_of_a_line(before) and _is_of_a_line(word)):
        return False
    left, _, right, _ = before.sides
    width = max(right - left, word.sides[2] - word.sides[0])
    shift = abs(left + right - word.sides[0] - word.sides[2]) / 2
    length = (before.sides[3] - before.sides[1] + word.sides[3] - word.sides[1]) / 2
    fall = _height_of_middle(before) - _height_of_middle(word)
    max_shift = MAX_SHIFT if before.text[0].isalnum() and word.text[0].isalnum() else MAX_SIGN_SHIFT
    max_step = MAX_STEP if word.text[0].isalnum() else MAX_SIGN_STEP
    max_fall = max(max_step * width, length + 0.5 * width) + signs * width
    return shift <= max_shift * width and 0 < fall <= max_fall


def _is_of_a_line(word: LayerWord) -> bool:
    """Return whether a word may stand in a vertical line: up to two characters, or a word that runs down."""
    return word.turn in {0, 1, 3} and (
        len(word.text) <= 2 or word.sides[3] - word.sides[1] > word.sides[2] - word.sides[0]
    )


def _height_of_middle(word: LayerWord) -> float:
    return (word.sides[1] + word.sides[3]) / 2


def _add_short_columns(columns: list[_Column]) -> None:
    """Count the last characters of a text, fewer than a line has, as vertical beside a vertical line."""
    for index, column in enumerate(columns):
        around = [*columns[max(0, index - 1) : index], *columns[index + 1 : index + 2]]
        if not column.is_vertical and len(column.words) < MIN_LENGTH:
            column.is_vertical = any(
                other.is_vertical and len(other.words) >= MIN_LENGTH and _is_beside(column, other)
                for other in around
            )


def _is_beside(short: _Column, long: _Column) -> bool:
    distance = abs(short.middle - long.middle)
    is_text = all(_CJK.match(word.text) for word in short.words)
    is_near = 0.5 * long.width < distance <= MAX_DISTANCE * long.width
    return is_text and is_near and abs(short.top - long.top) <= 1.5 * long.width


def _list_runs(columns: Sequence[_Column]) -> Iterator[list[_Column]]:
    """Yield vertical lines that follow each other together; what stands between them is one column."""
    run: list[_Column] = []
    for column in columns:
        if run and run[0].is_vertical and column.is_vertical:
            run.append(column)
        elif run and not run[0].is_vertical and not column.is_vertical:
            run[0].words += column.words
        else:
            if run:
                yield run
            run = [column]
    if run:
        yield run


def _order(columns: Sequence[_Column]) -> Iterator[_Column]:
    """Yield vertical lines: those at one height from right to left, the lower ones after them."""
    bands: list[list[_Column]] = []
    for column in sorted(columns, key=lambda each: -each.top):
        if bands and min(each.bottom - each.width / 2 for each in bands[-1]) < column.top:
            bands[-1].append(column)
        else:
            bands.append([column])
    for band in bands:
        yield from sorted(band, key=lambda each: (-round(each.middle / each.width), -each.top))


def _join(column: _Column) -> Iterator[LayerWord]:
    """Yield the words of a line, as if none were turned, with what stands between them."""
    before: LayerWord | None = None
    for word in column.words:
        glue = "\n" if before is None else " " if _is_apart(before, word, column.width) else ""
        yield replace(word, glue=glue, turn=0, upright=word.sides)
        before = word


def _is_apart(before: LayerWord, word: LayerWord, width: float) -> bool:
    """Return whether two words of letters or figures have a space between them in a line of that width.

    Letters that stand upright fill a place each. Those that are turned stand close.
    """
    if _CJK.match(before.text) or _CJK.match(word.text):
        return False
    if before.turn or word.turn:
        return before.sides[1] - word.sides[3] > TURNED_SPACE * width
    return _height_of_middle(before) - _height_of_middle(word) > UPRIGHT_PITCH * width
