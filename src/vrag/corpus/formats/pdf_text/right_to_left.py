"""Words of Arabic script, whose letters PDFium reads from the glyphs of a line, from right to left.

A glyph may stand for several letters, which PDF writers give in their order: read backwards they are
reversed. A vowel sign stands above or below its letter, before or behind it in the line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.corpus.formats.pdfium_text import Layer, Sides

ARABIC = re.compile("[\u0600-\u06ff]")
VOWEL_SIGNS = "\u064b-\u0652\u0670"
LEADING_SIGN = re.compile(f"[{VOWEL_SIGNS}]")
_LETTERS = "\u0621-\u064a\u066e-\u06d3"
SCRIPT_CHANGE = re.compile(f"(?<=[{_LETTERS}])(?=[A-Za-z])|(?<=[A-Za-z])(?=[{_LETTERS}])")
"""Place between an Arabic letter and a Latin one, where no space is seen and a word ends."""
_REVERSED = re.compile("[\u0627\u0622\u0623\u0625\u0671]\u0644|\u0647\u0644\u0644")
"""The glyphs of lam with alef and of "lillah", read backwards."""
_SIGN_BEFORE_LETTER = re.compile(f"([{VOWEL_SIGNS}]+)([{_LETTERS}])")


def order_letters(layer: Layer, start: int, text: str) -> str:
    """Return the letters of an Arabic word in the order in which they are written.

    Args:
        layer: Its layer.
        start: Index of its first character there.
        text: Its letters in the order of the layer.
    """
    text = _REVERSED.sub(lambda match: _order_glyph(layer, start, match), text)
    return _SIGN_BEFORE_LETTER.sub(lambda match: _order_signs(layer, start, match), text)


def _order_glyph(layer: Layer, start: int, match: re.Match[str]) -> str:
    first, *others = (layer.ink(start + at) for at in range(*match.span()))
    is_one_glyph = all(other == first for other in others)
    return match[0][::-1] if is_one_glyph else match[0]


def _order_signs(layer: Layer, start: int, match: re.Match[str]) -> str:
    """Put signs behind the letter that they stand over, unless it is the one before them."""
    signs, letter = match[1], match[2]
    at = start + match.start()
    sign, after = layer.ink(at), layer.ink(at + len(signs))
    before = layer.ink(at - 1) if match.start() else None
    is_over_next = _is_over(sign, after) and not (before and _is_over(sign, before))
    return letter + signs if is_over_next else signs + letter


def _is_over(sign: Sides, letter: Sides) -> bool:
    return letter[0] <= (sign[0] + sign[2]) / 2 <= letter[2]
