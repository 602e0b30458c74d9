"""Raised marks in a text: figures and letters that stand small above the line, behind a number or a word.

They are written as superscript characters, with a space before them: "480 ¹ tonnes", "Revenue ²". Those of
units have none: "5,200 m²".
"""

from __future__ import annotations

import re

_CHARACTERS = dict(
    zip(
        "0123456789+-−=()abcdefghijklmnoprstuvwxyz",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ",
        strict=True,
    )
)
_RAISED = str.maketrans(_CHARACTERS)
SUPERSCRIPTS = "".join(dict.fromkeys(_CHARACTERS.values()))
"""Superscript characters, for a class of a regular expression."""
_MARK = re.compile(
    rf"(?:(?<=\S)[ ]|^|(?<=[\d%)]))[{SUPERSCRIPTS}]+(?:[,*–][{SUPERSCRIPTS}]+)*(?![\w{SUPERSCRIPTS}])",
    re.MULTILINE,
)
_TEN = re.compile(r"(?<![\d.,])10\Z")


def raise_text(text: str) -> str:
    """Write figures and letters as superscript characters, as far as there are some.

    >>> raise_text("1,2"), raise_text("a"), raise_text("q")
    ('¹,²', 'ᵃ', 'q')
    """
    return text.translate(_RAISED)


def find_marks(text: str) -> list[tuple[int, int]]:
    """Return the ranges of marks of footnotes in a text, in order, each with the space before it.

    Those of units are none, nor are powers of ten.

    >>> [find_marks(text) for text in ("480 ¹ tonnes", "84,210¹", "5 m²", "3 × 10 ⁶")]
    [[(3, 5)], [(6, 7)], [], []]
    """
    if text.isascii():
        return []
    return [match.span() for match in _MARK.finditer(text) if not _TEN.search(text, 0, match.start())]


def without_raised_marks(text: str) -> str:
    """Return a text without marks of footnotes.

    >>> without_raised_marks("51,934 ²"), without_raised_marks("The crane lifts 480 ¹ tonnes.")
    ('51,934', 'The crane lifts 480 tonnes.')
    """
    for start, end in reversed(find_marks(text)):
        text = text[:start] + text[end:]
    return text
