"""Raised marks in the text layer of a PDF: words of their own, or superscript characters of a unit.

A letter or figure is raised if it is smaller than those beside it and its foot stands above their baseline.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdfium_text import turn_sides
from vrag.geometry import Box
from vrag.text.signs import SUPERSCRIPT_DIGITS, to_superscript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.corpus.formats.pdfium import PageFrame
    from vrag.corpus.formats.pdfium_text import Glyph, Layer, Sides

MIN_LIFT = 0.18
"""Least space between the baseline and the foot of a raised letter, in heights of the letters beside it."""
MIN_SIZE = 0.3
"""Least height of a raised letter, likewise: less is a dash, whatever the file calls it."""
MAX_SIZE = 0.85
"""Greatest height of a raised letter, likewise."""
SMALLER = 0.9
"""Size of a letter by that of the largest one of a word, below which it is smaller."""
CAPITAL = 0.6
"""Least height of the letters of a line, in heights of the line: some words have low letters alone."""
MAX_WANDER = 0.1
"""Difference of the baselines of letters that stand on one line, likewise."""
NEAR = 0.6
"""Greatest space between a word and a raised mark behind it, likewise."""
TOUCHING = 0.15
"""Space up to which a mark counts as part of the word before it, likewise."""
NOTE_SPACE = 1.5
"""Greatest space between a mark at the beginning of a line and the word behind it, likewise."""
MAX_LENGTH = 200
"""Characters of a word from which it is none, and is not looked at."""
MARK_LENGTH = 7
"""Characters of the longest mark that stands apart."""
_MARK = re.compile(
    r"(?!0+$)[*†‡§]{0,3}[-−–+]?\d{1,3}(?:[,–-]\d{1,3})*|[a-z](?:,[a-z])*|(?:\((?:\d\d?|[a-z])\),?)+(?<!,)"
)
_MAY_END_RAISED = re.compile(r"\w(?:\d|(?<=\d)[a-z])(?=[.,;:)]?$)", re.ASCII)
_CLOSING = re.compile(r"[.,;:]")
"""Behind a mark that has no word before it, on the line above which it is raised."""
_ORDINAL = re.compile(r"st|nd|rd|th|er|ère|re|es?|[eè]me|n?de|ste|os?|as")
_UNIT = re.compile(r"[AJNVW]?[munpkcdhµμ]?m|in|ft|yd|mi|[munµμ]?s|min|sec|kg|[^\W\d_]")
_DIGIT = re.compile(r"\d")
_LETTERS = re.compile(r"[^\W\d_]+$")
_ABBREVIATED = re.compile(r"[^\W\d_]|[IVXLCDM]+")
"""The begin of an abbreviation that ends with raised letters, or a Roman number."""
_NUMBER = re.compile(r"\d[)%]?$")
_PRICE = re.compile(r"[$€£¥]\d{1,3}[.,]?$|(?<![.,\d])\d{1,3},$")
_CENTS = re.compile(r"00|[5-9]\d")
"""Few documents have so many notes."""
_RAISED_CENTS, _EUROS = re.compile(f"[{SUPERSCRIPT_DIGITS}]{{2}}"), re.compile(r"\d{1,3}")
_CURRENCY = re.compile(r"EUR|USD|GBP|CHF|SEK|NOK|DKK|PLN|CAD|AUD|Euros?|euros?|Fr\.?|kr\.?|zł|[$€£¥]")
_ISOTOPE = re.compile(r"(?:C|Cs|H|K|N|Pu|Ra|Sr|Tc|Th|U|Xe)\b")


@dataclass(slots=True)
class LayerWord:
    """A word of a text layer, or a part of one."""

    text: str
    start: int
    end: int
    """Its characters in the layer."""
    sides: Sides
    """On the page, in PDF coordinates."""
    turn: int
    """Quarter turns clockwise of its letters, in PDF coordinates."""
    upright: Sides
    """`sides` as if it ran to the right."""
    box: Box
    """On the picture."""
    is_uneven: bool = False
    """True if parts of it stand higher than others."""
    glue: str | None = None
    """The text before it, where its place says so."""
    is_blank: bool = False
    """True if PDFium has no glyphs for it. Other readers may."""
    base: Sides | None = None
    """Of a raised mark: `upright` of the word that it stands beside."""

    @property
    def line(self) -> Sides:
        """Left, bottom, right and top of the part of its line that it takes."""
        if self.base is None:
            return self.upright
        return self.upright[0], self.base[1], self.upright[2], self.base[3]


class _Style(Enum):
    """The way in which a raised text is written."""

    PLAIN = "part of the word"
    UNIT = "part of the word, raised"
    DEGREE = "the sign of degrees"
    CENTS = "behind a point, part of the word"
    FRACTION = "a word of its own"
    MARK = "a word of its own, raised"


def split_raised(layer: Layer, word: LayerWord, following: str, frame: PageFrame) -> list[LayerWord]:
    """Divide a word at raised marks inside it and at its ends.

    Args:
        layer: Its layer.
        word: The word.
        following: The character behind it, where PDFium ends the line there for the height of the mark alone.
        frame: The page.
    """
    glyphs = layer.glyphs(word.start, word.end, word.turn)
    lifted = find_lifted(glyphs)
    if all(lifted) or not any(lifted):
        return [word]
    return [_cut(layer, word, piece, frame) for piece in _divide(word, lifted, following)]


def may_have_raised(layer: Layer, word: LayerWord, rects: Sequence[Sides]) -> bool:
    """Return whether a word has to be looked at more closely, which takes longer.

    Args:
        layer: Its layer.
        word: The word.
        rects: Rectangles of the pieces of text that the page draws it with.
    """
    if len(word.text) > MAX_LENGTH or (len(rects) == 1 and word.text.isalpha()):
        return False
    _, bottom, _, top = word.upright
    lift = bottom + MIN_LIFT * (top - bottom)
    if len(rects) > 1:
        feet = [turn_sides(rect, word.turn)[1] for rect in rects]
        word.is_uneven = max(feet) > lift
        # A letter behind a word reaches as high as that; one without a stem before it does not.
        return word.is_uneven and (
            _DIGIT.search(word.text) is not None
            or (feet[-1] > lift and turn_sides(rects[-1], word.turn)[3] > top - MIN_LIFT * (top - bottom))
        )
    ends = _MAY_END_RAISED.search(word.text)
    if ends is None:
        return False
    last = layer.glyphs(word.start + ends.end() - 1, word.start + ends.end(), word.turn)[0]
    return last.bottom > lift


def find_lifted(glyphs: Sequence[Glyph]) -> list[bool]:
    """Return for each character of a word whether it is raised beside the others."""
    none = [False] * len(glyphs)
    letters = [glyph for glyph in glyphs if glyph.character.isalnum()]
    size = max((glyph.size for glyph in letters), default=0.0)
    base = [glyph for glyph in letters if glyph.size >= SMALLER * size]
    if not base:
        return none
    baselines = [glyph.baseline for glyph in base]
    baseline = median(baselines)
    height = max(CAPITAL * size, max(glyph.top for glyph in base) - baseline)
    if max(baselines) - min(baselines) > MAX_WANDER * height:  # the word is slanted, or its letters dance
        return none
    if _CLOSING.match(glyphs[-1].character) and baseline - glyphs[-1].baseline > MIN_LIFT * height:
        return [glyph.baseline - glyphs[-1].baseline > MIN_LIFT * height for glyph in glyphs]
    return [_is_lifted(glyph, baseline, height, size) for glyph in glyphs]


def _is_lifted(glyph: Glyph, baseline: float, height: float, size: float) -> bool:
    if not (glyph.character.isascii() and glyph.character.isalnum()):
        return glyph.baseline - baseline > MIN_LIFT * height
    is_small = glyph.size < SMALLER * size or glyph.top - glyph.bottom <= MAX_SIZE * height
    is_letter = glyph.top - glyph.bottom >= MIN_SIZE * height
    return MIN_LIFT * height <= glyph.bottom - baseline <= height and is_small and is_letter


@dataclass(slots=True)
class _WordPart:
    """A part of a word that becomes a word of its own."""

    text: str
    start: int
    end: int
    """Its characters in the word."""
    is_mark: bool
    glue: str | None
    """As in `LayerWord`."""


def _divide(word: LayerWord, lifted: Sequence[bool], following: str) -> list[_WordPart]:
    """Divide a word into its raised marks and what stands between them."""
    pieces: list[_WordPart] = []
    end = 0
    for is_raised, run in groupby(lifted):
        start, end = end, end + len(list(run))
        text = word.text[start:end]
        style = (
            _choose_style(word.text[:start], text, word.text[end:] + following) if is_raised else _Style.PLAIN
        )
        is_mark = style is _Style.MARK
        last = pieces[-1] if pieces else None
        if last is None:
            pieces.append(_WordPart(_write(text, style), start, end, is_mark, word.glue))
        elif is_mark or last.is_mark or style is _Style.FRACTION:
            glue = " " if is_mark or text[0].isalnum() else ""
            pieces.append(_WordPart(_write(text, style), start, end, is_mark, glue))
        else:
            last.text, last.end = last.text + _write(text, style), end
    return pieces


def _choose_style(before: str, text: str, after: str) -> _Style:
    """Choose how a raised text is written, by what stands before and behind it in its word."""
    if not _MARK.fullmatch(text):
        return _Style.PLAIN
    if _CENTS.fullmatch(text) and _PRICE.search(before):
        return _Style.PLAIN if before[-1] in ".," else _Style.CENTS
    if _NUMBER.search(before):
        return _style_behind_number(text, after)
    if letters := _LETTERS.search(before):
        if text[-1].isdigit() and _UNIT.fullmatch(letters[0]):
            return _Style.UNIT
        is_plain = text.isalpha() and _ABBREVIATED.fullmatch(letters[0]) is not None
    else:
        is_plain = not before and (text.isalpha() or _ISOTOPE.fullmatch(after.rstrip()) is not None)
    return _Style.PLAIN if is_plain else _Style.MARK


def _style_behind_number(text: str, after: str) -> _Style:
    if after.startswith(("/", "⁄")):
        return _Style.FRACTION
    if text == "o" and after[:1] in {"C", "F"}:
        return _Style.DEGREE
    return _Style.PLAIN if _ORDINAL.fullmatch(text) else _Style.MARK


def _write(text: str, style: _Style) -> str:
    if style is _Style.DEGREE:
        return "°"
    if style is _Style.CENTS:
        return f".{text}"
    return to_superscript(text) if style in {_Style.MARK, _Style.UNIT} else text


def _cut(layer: Layer, word: LayerWord, piece: _WordPart, frame: PageFrame) -> LayerWord:
    """Return a part of a word as a word of its own."""
    start, end = word.start + piece.start, word.start + piece.end
    if not (rects := layer.rects(start, end)):
        return replace(word, text=piece.text, start=start, end=end, glue=piece.glue)
    sides = around_sides(rects)
    return replace(
        word,
        text=piece.text,
        start=start,
        end=end,
        sides=sides,
        upright=turn_sides(sides, word.turn),
        box=clip_box(frame.to_unit(*sides)),
        glue=piece.glue,
        base=word.upright if piece.is_mark else None,
    )


def clip_box(box: Box) -> Box:
    """Return the part of a rectangle that is on the picture."""
    if box.x1 >= 0 and box.y1 >= 0 and box.x2 <= 1 and box.y2 <= 1:
        return box
    return Box.unit(max(0.0, box.x1), max(0.0, box.y1), min(1.0, box.x2), min(1.0, box.y2))


def around_sides(rects: Sequence[Sides]) -> Sides:
    """Return the smallest rectangle over some."""
    lefts, bottoms, rights, tops = zip(*rects, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def mark_short_words(layer: Layer, words: list[LayerWord]) -> None:
    """Write short words that stand raised behind or before another one as raised marks, in their list.

    Those that were divided from another one are left as they are.
    """
    for at, word in enumerate(words):
        text = word.text
        if word.base is not None and word.glue is None and at and _stands_at(words[at - 1], word, NEAR):
            words[at] = replace(word, glue=" ")  # PDFium ends the line before it, for its height
            continue
        if len(text) > MARK_LENGTH or word.glue is not None or (len(text) > 1 and text.isalpha()):
            continue
        if not _MARK.fullmatch(text):
            continue
        before = words[at - 1] if at else None
        after = words[at + 1] if at + 1 < len(words) else None
        if before is not None and _stands_at(before, word, NEAR) and not _is_nearer(before, word, after):
            if _is_above(layer, word, before):
                is_close = after is not None and _stands_at(before, after, NEAR)
                words[at] = _raise_behind(before, word, after.text if after and is_close else "")
        elif after is not None and _stands_at(word, after, NOTE_SPACE) and _is_above(layer, word, after):
            words[at] = _raise_before(word, after)


def write_cents(words: list[LayerWord]) -> None:
    """Write the raised cents of a price as a part of it, in a list of words: EUR 12.05.

    Its currency is a word of its own, before or behind it.
    """
    for at in range(1, len(words)):
        amount, cents = words[at - 1], words[at]
        if cents.base is None or not _RAISED_CENTS.fullmatch(cents.text) or not _EUROS.fullmatch(amount.text):
            continue
        if any(_CURRENCY.fullmatch(word.text) for word in (*words[at - 2 : at - 1], *words[at + 1 : at + 2])):
            text = f".{unicodedata.normalize('NFKC', cents.text)}"
            words[at] = replace(cents, text=text, base=None, glue="")


def _is_nearer(before: LayerWord, word: LayerWord, after: LayerWord | None) -> bool:
    """Return whether a word stands much nearer to the one behind it than to the one before."""
    if after is None or not _stands_at(word, after, NEAR):
        return False
    return after.upright[0] - word.upright[2] < (word.upright[0] - before.upright[2]) / 2


def _raise_behind(before: LayerWord, word: LayerWord, following: str) -> LayerWord:
    """Return a raised word as the mark of the one before it, if it is one."""
    style = _choose_style(before.text, word.text, following)
    height = before.line[3] - before.line[1]
    touches = word.upright[0] - before.upright[2] < TOUCHING * height or style is _Style.UNIT
    is_apart = style in {_Style.MARK, _Style.FRACTION} or not touches
    is_raised = style in {_Style.MARK, _Style.UNIT}
    return replace(
        word,
        text=_write(word.text, style),
        base=before.line if is_raised else None,
        glue=" " if is_apart else "",
        is_uneven=True,
    )


def _raise_before(word: LayerWord, after: LayerWord) -> LayerWord:
    """Return a raised word as the mark before its note, or as a part of the name of an isotope."""
    if _ISOTOPE.fullmatch(after.text):
        return replace(word, is_uneven=True)
    return replace(word, text=to_superscript(word.text), base=after.upright)


def _stands_at(left: LayerWord, right: LayerWord, space: float) -> bool:
    """Return whether a word begins close behind another one, on its line or raised above it."""
    if left.turn != right.turn:
        return False
    _, bottom, end, top = left.line
    height = max(top - bottom, right.line[3] - right.line[1])
    gap = right.upright[0] - end
    return -0.3 * height < gap < space * height and min(top, right.line[3]) > max(bottom, right.line[1])


def _is_above(layer: Layer, word: LayerWord, base: LayerWord) -> bool:
    """Return whether a word is raised beside another one."""
    _, foot, _, head = base.line
    _, bottom, _, top = word.upright
    height = head - foot
    if not (top - bottom < 1.5 * height and bottom - foot > 0.5 * MIN_LIFT * height):
        return False
    spans = ((base.start, base.end), (word.start, word.end))
    glyphs = [glyph for span in spans for glyph in layer.glyphs(*span, word.turn)]
    lifted = find_lifted(glyphs)
    return all(lifted[base.end - base.start :])
