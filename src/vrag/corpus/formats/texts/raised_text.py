"""Raised and lowered letters of HTML as the characters of Unicode for them: m², H₂O, 51,934 ².

A raised figure or letter behind a number is the mark of a note and stands apart, so that the number stays
what it is; behind 10 it is an exponent.
"""

from __future__ import annotations

import re

_RAISED = str.maketrans(
    "0123456789+-−=()abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
)
_LOWERED = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_SIMPLE = re.compile(r"[0-9+\-−=()]{1,6}|[a-z]")
_LOWERED_SIMPLE = re.compile(r"[0-9+\-−=()]{1,6}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|o|a|os|as|º|ª|ème|eme|te|ten)", re.IGNORECASE)
_ORDINAL_NUMBER = re.compile(r"(?<![\d.,])\d{1,4}$")
_POWER = re.compile(r"(?:(?<![\d.,])10|\d\s?[×·x*]\s?\d+)$")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}$")
_NUMBER_END = re.compile(r"\d\s?[)%]?$")


def raise_text(before: str, text: str) -> str:
    """Return a raised text as it follows on another one.

    >>> [raise_text(*pair) for pair in (("51,934", "2"), ("m", "2"), ("1", "st"), ("Total", "[3]"))]
    [' ²', '²', 'st', ' [3]']
    >>> raise_text("10", "6")
    '⁶'
    """
    text = " ".join(text.split())
    if not text or text in {"*", "†", "‡", "§", "®", "™", "°"}:
        return text
    if _ORDINAL.fullmatch(text) and _ORDINAL_NUMBER.search(before) and (len(text) > 1 or text in "eº"):
        return text
    raised = text.translate(_RAISED) if _SIMPLE.fullmatch(text) else text
    if _NUMBER_END.search(before) and not _POWER.search(before):
        return f" {raised}"
    is_apart = _LONG_WORD.search(before) or (raised == text and before[-1:].isalnum())
    return f" {raised}" if is_apart else raised


def lower_text(text: str) -> str:
    """Return a lowered text.

    >>> lower_text("2"), lower_text("max")
    ('₂', 'max')
    """
    text = " ".join(text.split())
    return text.translate(_LOWERED) if _LOWERED_SIMPLE.fullmatch(text) else text
