"""The rules of style sheets that hold on a common screen, and the declarations that decide what is seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_STYLE_CHARS = 2_000_000
"""Characters of style sheets that are looked at."""
SCREEN_WIDTH = 1280
"""Pixels of the screen that conditions of `@media` are compared with."""
PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4}
"""Pixels of a unit of length."""
PIXELS_OF_MEDIA = PIXELS | {"em": 16.0, "rem": 16.0}
PROPERTIES = frozenset(
    (
        "animation background-color background-image background-clip clip clip-path color content "
        "direction display float font-family font-size grid-area height left list-style margin margin-left "
        "margin-top max-height max-width min-height min-width opacity overflow padding padding-bottom "
        "padding-left padding-right padding-top position text-decoration text-indent text-shadow top "
        "transform unicode-bidi vertical-align visibility width"
    ).split()
)
"""Properties that decide what is seen, raised, reversed or a table; the others are left out."""
SHORT_NAMES = {
    "-webkit-background-clip": "background-clip",
    "-webkit-animation": "animation",
    "animation-name": "animation",
    "-webkit-clip-path": "clip-path",
    "-webkit-transform": "transform",
    "overflow-x": "overflow",
    "overflow-y": "overflow",
    "text-decoration-line": "text-decoration",
    "list-style-type": "list-style",
}
"""Properties that count as another one."""
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_SIGN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[{};]", re.DOTALL)
_DECLARATION = re.compile(
    r"""(?:^|;)\s*(?P<name>-?[a-zA-Z][\w-]*)\s*:\s*(?P<value>(?:"[^"]*"|'[^']*'|[^;"'])*)"""
)
_IMPORTANT = re.compile(r"\s*!\s*important\s*$", re.IGNORECASE)
_FEATURE = re.compile(r"\(\s*(?P<name>[\w-]+)\s*:\s*(?P<value>[\w.%/ -]+?)\s*\)")
_RANGE = re.compile(r"\(\s*width\s*(?P<sign>[<>]=?)\s*(?P<value>[\d.]+\w+)\s*\)")
_LENGTH = re.compile(r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+))(?P<unit>[a-z%]*)")
_FONT_SIZE = re.compile(r"(?:^|\s)(?P<size>(?:\d+\.?\d*|\.\d+)(?:[a-z]{1,4}|%)?)(?=\s|/|$)")
_IMAGE = re.compile(r"\b(?:url|[a-z-]*gradient|image|image-set|element|var)\(", re.IGNORECASE)
USUAL_FEATURES = frozenset(
    {
        ("prefers-color-scheme", "light"),
        ("prefers-reduced-motion", "no-preference"),
        ("orientation", "landscape"),
        ("hover", "hover"),
        ("pointer", "fine"),
    }
)
"""Conditions of `@media` that hold on a common screen."""


class Declaration(NamedTuple):
    """A property that a rule or an element sets."""

    name: str
    value: str
    """In small letters, but for `content`."""
    is_important: bool


class CssRule(NamedTuple):
    """A rule of a style sheet."""

    selectors: str
    """Separated by commas."""
    declarations: tuple[Declaration, ...]


def read_rules(css: str) -> Iterator[CssRule]:
    """Yield the rules of a style sheet that hold on a common screen and set what is looked at here."""
    css = _COMMENT.sub(" ", css[:MAX_STYLE_CHARS])
    heads: list[str] = []
    skipped, at = 0, 0
    for match in _SIGN.finditer(css):
        sign, text = match[0], css[at : match.start()]
        if sign[0] in "\"'" or (sign == ";" and heads and not heads[-1].startswith("@")):
            continue  # within a value, or between declarations
        if sign == "{":
            head = text.rpartition(";")[2].strip()
            is_nested = bool(heads) and not heads[-1].startswith("@")
            heads.append(head)
            if skipped or is_nested or (head.startswith("@") and not holds_on_screen(head)):
                skipped += 1
        elif sign == "}" and heads:
            head = heads.pop()
            if not skipped and head and not head.startswith("@"):
                yield CssRule(head, tuple(read_declarations(text)))
            skipped = max(skipped - 1, 0)
        at = match.end()


def read_declarations(body: str) -> Iterator[Declaration]:
    """Yield what a rule or a `style` attribute sets, of the properties that are looked at here."""
    for match in _DECLARATION.finditer(body):
        name, value = match["name"].lower(), match["value"].strip()
        is_important = "!" in value and _IMPORTANT.search(value) is not None
        value = _IMPORTANT.sub("", value) if is_important else value
        if not value:
            continue
        if name == "background":
            yield from _read_background(value.lower(), is_important)
        elif name == "font":
            size = _FONT_SIZE.search(value.lower())
            yield Declaration("font-size", size["size"] if size else "medium", is_important)
        elif (name := SHORT_NAMES.get(name, name)) in PROPERTIES:
            yield Declaration(name, value if name == "content" else value.lower(), is_important)


def _read_background(value: str, is_important: bool) -> Iterator[Declaration]:
    """Yield the color and the image that a short form sets."""
    has_image = _IMAGE.search(value) is not None
    yield Declaration("background-image", "set" if has_image else "none", is_important)
    if not has_image:
        yield Declaration("background-color", value, is_important)


def holds_on_screen(head: str) -> bool:
    """Return whether the rules under a condition hold on a common screen.

    >>> [holds_on_screen(f"@media {query}") for query in ("print", "(min-width: 48em)", "(max-width: 600px)")]
    [False, True, False]
    """
    name, _, condition = head.lower().partition(" ")
    if name.startswith("@media"):
        queries = head.lower()[len("@media") :].split(",")
        return any(map(_fits_screen, queries))
    return name == "@layer" or (name == "@supports" and "not" not in condition)


def _fits_screen(query: str) -> bool:
    parts = [part.strip() for part in re.split(r"\s+and\s+", query.strip())]
    return all(part in {"all", "screen", "only screen"} or _has_feature(part) for part in parts)


def _has_feature(part: str) -> bool:
    """Return whether a common screen has a feature; False for those that are not known."""
    if match := _RANGE.fullmatch(part):
        width = read_pixels(match["value"], PIXELS_OF_MEDIA)
        is_least = match["sign"].startswith(">")
        return width is not None and (width <= SCREEN_WIDTH if is_least else width >= SCREEN_WIDTH)
    match = _FEATURE.fullmatch(part)
    if match is None:
        return False
    name, value = match["name"], match["value"]
    width = read_pixels(value, PIXELS_OF_MEDIA)
    if name == "min-width":
        return width is not None and width <= SCREEN_WIDTH
    if name == "max-width":
        return width is not None and width >= SCREEN_WIDTH
    return (name, value) in USUAL_FEATURES


def read_length(value: str) -> tuple[float, str] | None:
    """Return the number and the unit of a length; None if it is none.

    >>> read_length("-.5em"), read_length("auto")
    ((-0.5, 'em'), None)
    """
    match = _LENGTH.fullmatch(value.strip())
    return (float(match["number"]), match["unit"]) if match else None


def read_pixels(value: str, units: dict[str, float] = PIXELS) -> float | None:
    """Return a length in pixels; None for those that depend on others. Zero needs no unit."""
    length = read_length(value)
    if length is None:
        return None
    number, unit = length
    return 0.0 if not number else number * units[unit] if unit in units else None
