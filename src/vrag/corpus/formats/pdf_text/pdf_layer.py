"""The text layer of a PDF page: its words in reading order, as people write them, and their boxes."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdf_text.drawn_twice import leave_out_doubles
from vrag.corpus.formats.pdf_text.letter_spacing import join_spaced_letters
from vrag.corpus.formats.pdf_text.line_orders.column_order import HYPHENS, order_columns
from vrag.corpus.formats.pdf_text.line_orders.line_order import order_lines
from vrag.corpus.formats.pdf_text.line_orders.vertical_lines import order_vertical_lines
from vrag.corpus.formats.pdf_text.raised_words import (
    LayerWord,
    around_sides,
    clip_box,
    mark_short_words,
    may_have_raised,
    split_raised,
    write_cents,
)
from vrag.corpus.formats.pdf_text.right_to_left import ARABIC, LEADING_SIGN, SCRIPT_CHANGE, order_letters
from vrag.corpus.formats.pdf_text.symbol_fonts import (
    has_symbol_font,
    replace_private_signs,
    replace_signs,
)
from vrag.corpus.formats.pdf_text.written_forms import find_full_width, unfold_characters, unfold_word
from vrag.corpus.formats.pdfium_text import SKIPPED, turn_sides
from vrag.corpus.ocr import WORD
from vrag.corpus.pages.placed_text import PlacedText
from vrag.types import TurnedText, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vrag.corpus.formats.pdfium import PageFrame, PdfiumPage
    from vrag.corpus.formats.pdfium_text import Layer, Sides

NON_JOINER = "\u200c"
"""Stands within Persian words, and is typed with them."""
INVISIBLE = SKIPPED + NON_JOINER + "\u200b\u200d\u2060\ufeff"
"""Characters between two parts of one word that take no space."""
CLOSING = frozenset(".,;:!?)]}%’”»")
"""Signs that stand at the end of a word."""
SAME_LINE = 0.25
"""Share of the height of the lower one of two words of one line that both take."""
LINE_SPACE = 1.2
"""Space between two words that stand beside each other although a line ends between them, in heights."""
WORD_SPACE = 0.2
"""Space between two words of one line, in heights, from which it is one that people see."""
TURNED_WORD_SPACE = 0.28
"""The same of turned text whose letters are drawn one by one: a pair of low letters has up to 0.27 of their
height between them, and two words from 0.29."""


def read_layer(page: PdfiumPage) -> PlacedText:
    """Read the text layer of a page as far as it is in view, and its words with their boxes.

    Words divided at the end of a line are joined in the text, and are two `Word`s with a box each. Lines that
    are turned are in the order in which people read them when they turn the page.
    """
    frame = page.frame
    with page.layer() as layer:
        stored = layer.characters()
        page.full_width_letters = find_full_width(stored)
        characters = unfold_characters(replace_private_signs(layer, stored))
        has_signs = has_symbol_font(page.font_names)
        words = list(_list_words(layer, characters, frame, has_signs=has_signs))
        words = leave_out_doubles(layer, _leave_out_unknown(page, layer, words))
        mark_short_words(layer, words)
        write_cents(words)
        words = join_spaced_letters(words)
    words = order_vertical_lines(words, characters)
    if any((word.turn + frame.turn) % 4 for word in words):
        words = _in_reading_order(words, frame.turn)
    elif words:
        words = order_columns(order_lines(words, characters), characters)
    return _join(words, characters, frame)


def _list_words(layer: Layer, characters: str, frame: PageFrame, *, has_signs: bool) -> Iterator[LayerWord]:
    """Yield the words that are in view, in the order of the layer, without their marks.

    Args:
        layer: Their layer.
        characters: Its characters.
        frame: The page.
        has_signs: Whether the page has a font with signs in the place of letters.
    """
    for start, end, glue in _list_spans(characters):
        rects, is_blank = layer.rects(start, end), False
        if not rects:
            continue
        if not layer.has_glyphs(rects, end - start):
            place = layer.line_rect(start, end)
            rects, is_blank = ([place], True) if place else (rects, False)
        is_whole = len(rects) == 1
        sides = rects[0] if is_whole else around_sides(rects)
        box = frame.to_unit(*sides)
        if not (0 <= box.x1 + box.x2 < 2 and 0 <= box.y1 + box.y2 < 2):
            continue
        turn = layer.turn(start)
        upright = turn_sides(sides, turn) if turn else sides
        text = characters[start:end]
        if has_signs:
            text = replace_signs(layer, start, text, rects)
        word = LayerWord(
            text, start, end, sides, turn or 0, upright, clip_box(box), glue=glue, is_blank=is_blank
        )
        if not text.isascii() and ARABIC.match(text):
            word.text = order_letters(layer, start, text)
            word.glue = "" if LEADING_SIGN.match(text) else glue
        if is_blank or (is_whole and text.isalpha()):
            yield word
        elif not is_whole and turn is not None and layer.turn(end - 1) not in {turn, None}:
            yield from _split_at_turn(layer, word, frame)
        elif turn is not None and may_have_raised(layer, word, rects):
            following = characters[end : end + 3].lstrip("\r\n")[:1]
            yield from split_raised(layer, word, following, frame)
        else:
            yield word


def _leave_out_unknown(page: PdfiumPage, layer: Layer, words: list[LayerWord]) -> list[LayerWord]:
    """Return words without those of which nobody knows the letters, if PDFium has no glyphs for some of them.

    It draws others of their fonts as wrong letters.
    """
    blank = (word for word in words if word.is_blank and any(map(str.isalnum, word.text)))
    if not any(layer.is_unknown(word.start, word.end) for word in blank):
        return words
    page.has_unknown_letters = True
    return [word for word in words if not layer.is_unknown(word.start, word.end)]


def _split_at_turn(layer: Layer, word: LayerWord, frame: PageFrame) -> Iterator[LayerWord]:
    """Yield the parts of a word that PDFium joined of the ends of two lines, one of which is turned."""
    begin = 0
    for turn, run in groupby(layer.turn(index) for index in range(word.start, word.end)):
        start, end = word.start + begin, word.start + begin + len(list(run))
        sides = around_sides(layer.rects(start, end) or [word.sides])
        yield replace(
            word,
            text=word.text[begin : end - word.start],
            start=start,
            end=end,
            sides=sides,
            turn=turn or 0,
            upright=turn_sides(sides, turn) if turn else sides,
            box=clip_box(frame.to_unit(*sides)),
            glue="\n" if begin else word.glue,
        )
        begin = end - word.start


def _list_spans(characters: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield the begin and end of each word, and the text before it where none stands in the layer."""
    has_arabic = ARABIC.search(characters) is not None
    for match in WORD.finditer(characters):
        start, end = match.span()
        if not has_arabic:
            yield start, end, None
            continue
        ends = [start, *(start + change.start() for change in SCRIPT_CHANGE.finditer(match[0])), end]
        for first, last in pairwise(ends):
            yield first, last, None if first == start else " "


def _in_reading_order(words: Sequence[LayerWord], page_turn: int) -> list[LayerWord]:
    """Return words with turned lines put into order; PDFium sorts text at one height from left to right."""
    ordered: list[LayerWord] = []
    for turn, run in groupby(words, key=lambda word: word.turn):
        turned = list(run)
        angle = 90 * ((turn + page_turn) % 4)
        ordered += _order_lines(turned, angle) if angle else turned
    return ordered


def _order_lines(words: Sequence[LayerWord], angle: int) -> list[LayerWord]:
    """Put turned words into order: each line along its direction, and lines that run down from the right."""
    lines: list[list[LayerWord]] = []
    for word in words:
        if lines and _is_beside(lines[-1][-1].line, word.line):
            lines[-1].append(word)
        else:
            lines.append([word])
    lines = [sorted(line, key=lambda word: word.upright[0]) for line in lines]
    if angle == 90:
        lines = [line for chain in _list_backward_chains(lines) for line in reversed(chain)]
    numbers = {word.start: number for number, word in enumerate(words)}
    ordered: list[LayerWord] = []
    for line in lines:
        for at, word in enumerate(line):
            follows = ordered and numbers[ordered[-1].start] + 1 == numbers[word.start]
            glue = word.glue if follows else " " if at else "\n"
            ordered.append(replace(word, glue=glue))
    return ordered


def _list_backward_chains(lines: Iterable[list[LayerWord]]) -> Iterator[list[list[LayerWord]]]:
    """Yield runs of lines each of which stands above the one before it."""
    chain: list[list[LayerWord]] = []
    for line in lines:
        if chain and not _is_right_above(line[0].line, chain[-1][0].line):
            yield chain
            chain = []
        chain.append(line)
    if chain:
        yield chain


def _is_beside(a: Sides, b: Sides) -> bool:
    """Return whether two rectangles share a part of their heights."""
    return min(a[3], b[3]) - max(a[1], b[1]) >= SAME_LINE * min(a[3] - a[1], b[3] - b[1])


def _is_right_above(upper: Sides, lower: Sides) -> bool:
    """Return whether the first word of a line begins at the left side of another one, and higher."""
    height = max(upper[3] - upper[1], lower[3] - lower[1])
    return upper[1] > lower[1] and abs(upper[0] - lower[0]) < 2 * height


def _join(words: Sequence[LayerWord], characters: str, frame: PageFrame) -> PlacedText:
    """Make the text of words, and their boxes within the page."""
    parts: list[str] = []
    placed: list[Word] = []
    turned: list[TurnedText] = []
    position = 0
    before: LayerWord | None = None
    for word in words:
        glue = find_glue(characters, before, word) if before else ""
        text = unfold_word(word.text)
        parts += (glue, text)
        start = position + len(glue)
        position = start + len(text)
        placed.append(Word(start, position, word.box))
        if angle := 90 * ((word.turn + frame.turn) % 4):
            if turned and before and (turned[-1].end, turned[-1].angle) == (start - len(glue), angle):
                start = turned.pop().start
            turned.append(TurnedText(start, position, angle))
        before = word
    return PlacedText("".join(parts), tuple(placed), tuple(turned))


def find_glue(characters: str, before: LayerWord, word: LayerWord) -> str:
    """Return the text between two words: nothing, a space, a line break or a hyphen."""
    if word.turn != before.turn:
        return "\n"
    if word.glue is not None:
        return word.glue
    gap = characters[before.end : word.start]
    if gap == " ":
        return gap
    return _read_gap(characters, before, word, gap)


def _read_gap(characters: str, before: LayerWord, word: LayerWord, gap: str) -> str:
    """Return the text between two words with these characters between them in the layer."""
    if not HYPHENS.isdisjoint(gap):
        return _find_hyphen(characters, before, word)
    if "\n" in gap or "\r" in gap:
        return _glue_at_line_end(before, word, gap)
    if gap.strip(INVISIBLE):
        return " "
    return NON_JOINER if NON_JOINER in gap else ""


def _find_hyphen(characters: str, before: LayerWord, word: LayerWord) -> str:
    """Return what stands between the halves of a divided word: a hyphen where it is part of the word."""
    if word.base is not None:
        return "-\n"
    first_half = characters[max(0, before.end - 40) : before.end].rsplit(maxsplit=1)[-1]
    return "-" if "-" in first_half or not word.text[0].islower() else ""


def _glue_at_line_end(before: LayerWord, word: LayerWord, gap: str) -> str:
    """Return the text between two words where PDFium ends a line: behind raised parts, and in turned text.

    Such words may stand beside each other.
    """
    has_raised = before.base is not None or before.is_uneven
    space = _space_between(before, word) if has_raised or word.turn else None
    if space is None:
        return "\n"
    if not has_raised:
        return " " if " " in gap or space > TURNED_WORD_SPACE else ""
    is_seen = word.text[0] not in CLOSING and (space > WORD_SPACE or (before.base and word.text[0].isalnum()))
    return " " if " " in gap or is_seen else ""


def _space_between(before: LayerWord, word: LayerWord) -> float | None:
    """Return the space between two words of a line in heights; None if they do not stand side by side."""
    _, bottom, right, top = before.line
    space = (word.upright[0] - right) / max(top - bottom, word.line[3] - word.line[1])
    return space if _is_beside(before.line, word.line) and -LINE_SPACE / 4 < space < LINE_SPACE else None
