"""Letters of HTML that are set in another way: raised (m², 51,934 ²), lowered (H₂O) or reversed.

A raised figure or letter behind a number is the mark of a note and stands apart, so that the number stays
what it is; behind 10 it is an exponent, and two figures behind a price are its cents.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.corpus.formats.texts.web.css_rules import read_length
from vrag.text.signs import to_superscript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selectolax.lexbor import LexborNode

INLINE = frozenset(
    "a abbr b bdi bdo big cite code em font i ins label mark small span strong time u var".split()
)
"""Elements of a line whose letters a style may set in another way."""
MAX_RAISED_CHARS = 24
"""Letters that a style raises, at most; longer texts are parts of a layout."""
MAX_RAISED_NODES = 40
_PLACES = {"super": 1, "sub": -1, "baseline": 0}
_LEAST_RISE = {"px": 3.0, "pt": 2.0, "em": 0.2, "ex": 0.4, "%": 20.0}
"""Lengths from which a text is raised, by unit."""
_LOWERED = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_WITH_ACCENTS = re.compile(".[\u0300-\u036f]*")
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_SIMPLE = re.compile(r"[0-9+\-−=()]{1,6}|[a-z]")
_LOWERED_SIMPLE = re.compile(r"[0-9+\-−=()]{1,6}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|o|a|os|as|º|ª|ème|eme|te|ten)", re.IGNORECASE)
_ORDINAL_NUMBER = re.compile(r"(?<![\d.,])\d{1,4}$")
_POWER = re.compile(r"(?:(?<![\d.,])10|\d\s?[×·x*]\s?\d+)$")
_CENTS = re.compile(r"\d[059]|[5-9]\d")
"""Few documents have so many notes, and these numbers are those of prices."""
_PRICE = re.compile(r"(?:[$€£¥]|\b(?:EUR|USD|GBP|CHF|SEK|NOK|DKK|PLN|CAD|AUD|kr\.?|zł))\s?\d{1,3}$")
_BEFORE_DECIMALS = re.compile(r"(?<![\d.,])\d{1,3}[.,]$")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}$")
_NUMBER_END = re.compile(r"\d\s?[)%]?$")


def set_text(setting: str, before: str, text: str) -> str:
    """Return the text of an element with a setting ("sup", "sub", "reversed") as it follows on a text."""
    if setting == "reversed":
        return text if _RIGHT_TO_LEFT.search(text) else "\n".join(map(_reverse, text.split("\n")))
    return raise_text(before, text) if setting == "sup" else lower_text(text)


def _reverse(line: str) -> str:
    """Return a line from its end to its begin, with accents behind their letters and brackets mirrored."""
    return "".join(reversed(_WITH_ACCENTS.findall(line))).translate(_MIRRORED)


def raise_text(before: str, text: str) -> str:
    """Return a raised text as it follows on another one.

    >>> [raise_text(*pair) for pair in (("51,934", "2"), ("m", "2"), ("1", "st"), ("Total", "[3]"))]
    [' ²', '²', 'st', ' [3]']
    >>> raise_text("10", "6"), raise_text("now $14", "95"), raise_text("nur 3,", "49")
    ('⁶', '.95', '49')
    """
    text = " ".join(text.split())
    if not text or text in {"*", "†", "‡", "§", "®", "™", "°"}:
        return text
    if _ORDINAL.fullmatch(text) and _ORDINAL_NUMBER.search(before) and (len(text) > 1 or text in "eº"):
        return text
    if _CENTS.fullmatch(text) and _PRICE.search(before):
        return f".{text}"
    if len(text) == 2 and text.isdecimal() and _BEFORE_DECIMALS.search(before):
        return text
    raised = to_superscript(text) if _SIMPLE.fullmatch(text) else text
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


def find_setting(
    node: LexborNode, tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str]
) -> str:
    """Return how an element or its style sets its letters: "sup", "sub", "reversed", or "" as usual.

    Letters are reversed by a direction that overrides their own (CSS Writing Modes 3, section 2.2): it is
    how some pages keep prices and addresses from programs.
    """
    if tag in {"sup", "sub"}:
        return tag
    if tag not in INLINE or not declared.get("display", "inline").startswith("inline"):
        return ""
    override = declared.get("unicode-bidi", "bidi-override" if tag == "bdo" else "")
    direction = declared.get("direction", (attributes.get("dir") or "").lower())
    if override in {"bidi-override", "isolate-override"} and direction == "rtl":
        return "reversed"
    rise = _find_rise(declared)
    return ("sup" if rise > 0 else "sub") if rise and _is_short(node) else ""


def _find_rise(declared: Mapping[str, str]) -> int:
    """Return 1 if a style raises text, -1 if it lowers it, else 0."""
    place = declared.get("vertical-align", "")
    if place in _PLACES:
        return _PLACES[place]
    is_smaller = _is_smaller(declared.get("font-size", ""))
    if place in {"top", "text-top"}:
        return int(is_smaller)
    if not place and declared.get("position") == "relative" and "font-size" in declared:
        return -_sign_of(declared.get("top", ""))
    return _sign_of(place)


def _sign_of(length: str) -> int:
    """Return the sign of a length that moves text by a good part of its height; 0 for smaller ones."""
    found = read_length(length)
    if found is None:
        return 0
    number, unit = found
    least = _LEAST_RISE.get(unit)
    return 0 if least is None or abs(number) < least else 1 if number > 0 else -1


def _is_smaller(size: str) -> bool:
    """Return whether letters are clearly smaller than those around them."""
    found = read_length(size)
    if found is None:
        return size in {"smaller", "x-small", "xx-small"}
    number, unit = found
    return number < {"em": 0.9, "%": 90}.get(unit, 0)


def _is_short(node: LexborNode) -> bool:
    """Return whether an element holds a few letters in one line."""
    length, stack = 0, [node.first_child]
    for _ in range(MAX_RAISED_NODES):
        if not stack:
            return 0 < length <= MAX_RAISED_CHARS
        inner = stack.pop()
        if inner is None:
            continue
        if inner.tag != "-text" and inner.tag not in INLINE:
            return False
        length += len((inner.text_content or "").strip()) if inner.tag == "-text" else 0
        stack += [inner.next, inner.first_child]
    return False
