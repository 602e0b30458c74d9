"""Signs that stand for more than their letter: superscripts, and the states of boxes and buttons."""

from __future__ import annotations

import unicodedata

CHECKED, NOT_CHECKED = "☑", "☐"
"""The states of a box."""
CHOSEN, NOT_CHOSEN = "◉", "○"
"""The states of a button, of several of which one is chosen."""
_BLOCKS = (0xB2, 0xB9), (0x2B0, 0x2B8), (0x2E1, 0x2E3), (0x1D2C, 0x1DBB), (0x2070, 0x207F)
SUPERSCRIPTS = "".join(
    chr(code)
    for first, last in _BLOCKS
    for code in range(first, last + 1)
    if unicodedata.decomposition(chr(code)).startswith("<super>")
)
"""Superscript characters, for a class of a regular expression."""
SUPERSCRIPT_DIGITS = "⁰¹²³⁴-⁹"
"""Those of digits, likewise."""
_RAISED = str.maketrans(
    "0123456789+-−=()abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
)


def to_superscript(text: str) -> str:
    """Write figures and letters as superscript characters, as far as there are some.

    >>> to_superscript("1,2"), to_superscript("a"), to_superscript("q")
    ('¹,²', 'ᵃ', 'q')
    """
    return text.translate(_RAISED)
