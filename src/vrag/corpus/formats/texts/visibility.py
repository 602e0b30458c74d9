"""Elements of an HTML file that nobody sees: hidden by an attribute, by their style or by a rule of the file.

What is taken out of a page, as menus that open later are, is told apart from words that are there and cannot
be seen: transparent, without size, or in the color of their ground.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.texts.web.css_rules import read_length, read_pixels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Color = tuple[int, int, int]
WHITE = (255, 255, 255)
MAX_EQUAL_DIFFERENCE = 4
"""Most difference of red, green or blue, of 255, between a color and a ground that look the same."""
MIN_FONT_PIXELS = 1.01
"""Letters up to a pixel are not seen."""
MAX_ZERO_PIXELS = 1
"""Sides of a box that shows nothing, as it is made for screen readers."""
DELETED = frozenset({"del", "s", "strike"})
"""Elements with text that is crossed out."""
WHOLE_PAGE = frozenset({"html", "body"})
"""Elements that are shown by the end of loading, if they are hidden at all."""
WITH_SIZE = frozenset(
    "address article aside blockquote dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header li "
    "main nav ol p pre section ul".split()
)
"""Elements whose width and height count without `display`."""
NO_SIZE = frozenset(
    "inline contents table inline-table table-row table-cell table-row-group table-caption".split()
)
"""Values of `display` with which a width and a height cut off nothing."""
OWN_LOOK = frozenset("mark button input select textarea option svg".split())
"""Elements that do not have the color of the text around them."""
COLOR_ATTRIBUTES = {"font": "color", "body": "text"}
"""Attributes that set the color of text, by element."""
MAX_FAINT = 0.02
"""Most opacity of what is not seen."""
_FAR_AWAY = re.compile(r"-\d{4,}(?:\.\d+)?px|-\d{3,}(?:\.\d+)?r?em")
"""Where texts lie that are left or above of any screen."""
_NO_AREA = re.compile(r"rect\(\s*([01])(?:px)?(?:[\s,]+\1(?:px)?){3}\s*\)|inset\(\s*(?:50|100)%\s*\)")
"""Values that cut off all of an element."""
_NO_SCALE = re.compile(r"\bscale[xy]?\(\s*0(?:\.0*)?\s*(?:,\s*[\d.]+\s*)?\)")
_ZERO = r"\s*(?:0*\.?0+|0%)\s*"
_TRANSPARENT = re.compile(
    rf"transparent|(?:rgb|hsl)a?\((?:(?:[^(),]*,){{3}}|[^()]*/){_ZERO}\)|#(?:[\da-f]{{3}}0|[\da-f]{{6}}00)"
)


class Look(NamedTuple):
    """The look of letters in an element, as far as it decides whether they are seen."""

    color: Color | None = (0, 0, 0)
    """None if it is not known."""
    ground: Color | None = WHITE
    """Color behind the letters; None if it is not known, or a picture."""
    is_transparent: bool = False
    is_tiny: bool = False
    is_certain: bool = True
    """False if other files may set a ground: then the ground of an element is known only if it sets one."""

    @property
    def hides_words(self) -> bool:
        """True if nobody sees the words in the element."""
        if self.is_transparent or self.is_tiny:
            return True
        if self.color is None or self.ground is None:
            return False
        pairs = zip(self.color, self.ground, strict=True)
        return all(abs(one - other) <= MAX_EQUAL_DIFFERENCE for one, other in pairs)

    def within(self, tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str]) -> Look:
        """Return the look in an element that is in this one."""
        look = self
        if tag in OWN_LOOK or (tag == "a" and "href" in attributes):
            look = look._replace(color=None, is_transparent=False)
        color = declared.get("color") or attributes.get(COLOR_ATTRIBUTES.get(tag, "")) or ""
        if color and color not in {"inherit", "currentcolor", "unset"}:
            look = look._replace(color=read_color(color), is_transparent=bool(_TRANSPARENT.fullmatch(color)))
        if declared.get("background-clip") == "text" or declared.get("text-shadow", "none") != "none":
            look = look._replace(color=None, is_transparent=False)
        if "font-size" in declared:
            look = look._replace(is_tiny=_is_tiny(declared["font-size"], self.is_tiny))
        return look._replace(ground=self._find_ground(attributes, declared))

    def _find_ground(self, attributes: Mapping[str, str | None], declared: Mapping[str, str]) -> Color | None:
        """Return the color behind the letters of an element; those that are laid over others have none."""
        image = declared.get("background-image", "none")
        if image not in {"none", "initial", "unset"} or attributes.get("background"):
            return None
        color = declared.get("background-color") or attributes.get("bgcolor") or ""
        if color in {"", "none", "initial", "unset", "inherit"} or _TRANSPARENT.fullmatch(color):
            return self.ground if self.is_certain and not _is_moved(declared) else None
        return read_color(color)


def _is_moved(declared: Mapping[str, str]) -> bool:
    """Return whether an element may lie over others than those around it."""
    is_positioned = declared.get("position", "static") not in {"static", "sticky"}
    is_pulled = any("-" in declared.get(name, "") for name in ("margin", "margin-top"))
    return is_positioned or is_pulled or any(name in declared for name in ("transform", "grid-area"))


def read_color(value: str) -> Color | None:
    """Return the color that a style or an attribute names; None for others than opaque ones.

    >>> read_color("#fff"), read_color("rgb(1 2 3)"), read_color("var(--main)")
    ((255, 255, 255), (1, 2, 3), None)
    """
    from PIL import ImageColor

    value = re.sub(r"(?<=\d)\s+(?=\d)", ",", value.strip().lower())
    try:
        channels = ImageColor.getrgb(value)
    except ValueError:
        return None
    red, green, blue, *alpha = channels
    return (red, green, blue) if alpha in ([], [255]) else None


def _is_tiny(size: str, is_tiny: bool) -> bool:
    """Return whether letters of a size are too small to be seen, within others that are or are not."""
    length = read_length(size)
    if length is None:
        return is_tiny and size in {"inherit", "unset", "smaller", "larger"}
    number, unit = length
    if unit in {"%", "em", "ex", "ch"}:
        return is_tiny or number == 0
    pixels = read_pixels(size)
    return pixels is not None and pixels < MIN_FONT_PIXELS


def is_removed(tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str]) -> bool:
    """Return whether a page shows nothing of an element: neither its text nor the place of it."""
    if tag in WHOLE_PAGE or not (declared or tag in DELETED or "hidden" in attributes):
        return False
    if tag in DELETED and "text-decoration" not in declared:
        return True
    if "line-through" in declared.get("text-decoration", "").split():
        return True
    if declared.get("visibility", "") in {"hidden", "collapse"} or _is_cut_off(declared):
        return True
    if "display" in declared:
        return declared["display"].startswith("none")
    return "hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found"


def _is_cut_off(declared: Mapping[str, str]) -> bool:
    """Return whether an element is moved far away, or cut off whole."""
    is_far = any(
        _FAR_AWAY.fullmatch(declared.get(name, "")) for name in ("left", "top", "text-indent", "margin-left")
    )
    return is_far or any(_NO_AREA.fullmatch(declared.get(name, "")) for name in ("clip", "clip-path"))


def is_unseen(tag: str, declared: Mapping[str, str]) -> bool:
    """Return whether an element takes part in a page, and nobody sees anything in it."""
    if not declared or tag in WHOLE_PAGE or declared.get("animation", "none") != "none":
        return False
    is_faint = _is_faint(declared.get("opacity", "1"))
    return (
        is_faint or _NO_SCALE.search(declared.get("transform", "")) is not None or _has_no_area(tag, declared)
    )


def _is_faint(opacity: str) -> bool:
    length = read_length(opacity)
    return length is not None and length[0] / (100 if length[1] == "%" else 1) <= MAX_FAINT


def _has_no_area(tag: str, declared: Mapping[str, str]) -> bool:
    """Return whether an element has no room for its text, and hides what is beyond."""
    if not {"hidden", "clip"}.intersection(declared.get("overflow", "").split()):
        return False
    display = declared.get("display", "block" if tag in WITH_SIZE else "inline")
    is_out = declared.get("position") in {"absolute", "fixed"} or declared.get("float", "none") != "none"
    if not is_out and display in NO_SIZE:
        return False
    return _is_zero(declared, "height", ("top", "bottom"), is_out) or _is_zero(
        declared, "width", ("left", "right"), is_out
    )


def _is_zero(declared: Mapping[str, str], side: str, paddings: Iterable[str], is_out: bool) -> bool:
    """Return whether a side of a box is zero; one pixel counts for those outside of the flow of a page."""
    others = ("padding", f"min-{side}", *(f"padding-{name}" for name in paddings))
    if any(read_pixels(part) != 0 for name in others for part in declared.get(name, "").split()):
        return False
    most = MAX_ZERO_PIXELS if is_out else 0
    sizes = (read_pixels(declared.get(name, "auto")) for name in (side, f"max-{side}"))
    return any(size is not None and 0 <= size <= most for size in sizes)
