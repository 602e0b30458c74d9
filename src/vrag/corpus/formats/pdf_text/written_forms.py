"""Ligatures, full-width characters and shapes of letters, written as people type them."""

from __future__ import annotations

import re
import unicodedata

from vrag.corpus.formats.pdfium_text import SKIPPED

PRESENTATION_FORMS = ((0xFB00, 0xFDFF), (0xFE70, 0xFEFC))
"""First and last of the ranges of ligatures, and of the shapes of Hebrew and Arabic letters."""
FULL_WIDTH = ("\uff01", "\uff5e")
"""First and last of the full-width forms of ASCII characters."""
_FULL_WIDTH: dict[int, int | str] = {
    code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code - 0xFEE0) not in "!(),:;?[]{|}"
}
"""Full-width letters, digits and signs of numbers → ASCII. Punctuation of East Asian text stays as it is."""
_HALF_WIDTH = re.compile("[\uff66-\uff9d][\uff9e\uff9f]?")
"""A narrow Japanese letter with its mark."""
_WIDE_OR_NARROW = re.compile("[\uff01-\uff9f]")
_FULL_WIDTH_COMMA = re.compile("(?<=[0-9])\uff0c(?=[0-9]{3})")
_FORMS = {
    code: unicodedata.normalize("NFKC", chr(code))
    for first, last in PRESENTATION_FORMS
    for code in range(first, last + 1)
    if unicodedata.name(chr(code), "")
}


def unfold_characters(text: str) -> str:
    """Write full-width letters and figures as ASCII, narrow Japanese letters as usual ones.

    The text keeps its length.

    >>> unfold_characters("\uff11\uff0c\uff12\uff13\uff14\uff05")
    '1,234%'
    """
    if text.isascii() or not _WIDE_OR_NARROW.search(text):
        return text
    text = _FULL_WIDTH_COMMA.sub(",", text.translate(_FULL_WIDTH))
    return _HALF_WIDTH.sub(lambda match: _widen(match[0]), text)


def find_full_width(text: str) -> frozenset[str]:
    """Return the ASCII characters of which a text has the full-width form."""
    if text.isascii() or not _WIDE_OR_NARROW.search(text):
        return frozenset()
    first, last = FULL_WIDTH
    return frozenset(chr(ord(each) - ord(first) + ord("!")) for each in text if first <= each <= last)


def _widen(letters: str) -> str:
    return unicodedata.normalize("NFKC", letters).ljust(len(letters), SKIPPED)[: len(letters)]


def unfold_word(text: str) -> str:
    """Write ligatures and the shapes of Hebrew and Arabic letters as the letters that they stand for.

    >>> unfold_word("\ufb01ne"), unfold_word("\ufefb") == "\u0644\u0627"
    ('fine', True)
    """
    return text if text.isascii() else text.translate(_FORMS)
