"""Parts that all pages share: policy, icon, style sheets, and escaped elements of SVG charts.

`element` makes the elements of charts; all text is escaped, and tags and attributes that could run a script
or fetch something are refused. There is no other way to make a `Markup`.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy of pages: a browser draws them and nothing else."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="4" fill="#0f766e"/>'
    '<rect x="4" y="4.5" width="8" height="7" rx="1" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)
_TAGS = frozenset({"path", "rect", "svg", "text", "title"})
_ATTRIBUTES = frozenset({"class", "d", "height", "preserveAspectRatio", "role", "viewBox", "width", "x", "y"})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that HTML does not allow or no encoding can represent, without line feeds and tabs."""


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of a page; only this module creates one."""

    html: str

    def __str__(self) -> str:
        return self.html

    def __html__(self) -> str:
        """The piece as templates show it: unescaped."""
        return self.html


Child: TypeAlias = "Markup | str | Iterable[Child] | None"
"""Content of an element: text is escaped, None is nothing."""


def element(tag: str, *children: Child, **attributes: str | float) -> Markup:
    """An SVG element.

    Args:
        tag: Its name.
        children: Text, elements, or iterables of them.
        attributes: By name, without one `_` at the end.

    Raises:
        ValueError: If the tag or an attribute is not among those that charts need.

    >>> print(element("text", "a < b", class_="x", y=1.5))
    <text class="x" y="1.5">a &lt; b</text>
    """
    names = {name.removesuffix("_"): value for name, value in attributes.items()}
    if tag not in _TAGS:
        raise ValueError(f"pages have no element <{tag}>")
    if unknown := names.keys() - _ATTRIBUTES:
        raise ValueError(f"pages have no attribute {min(unknown)!r}")
    values = {name: value if isinstance(value, str) else number(value) for name, value in names.items()}
    opening = "".join(f' {name}="{_escape(value)}"' for name, value in values.items())
    return Markup(f"<{tag}{opening}>{''.join(_flatten(children))}</{tag}>")


def stylesheet(css: str) -> Markup:
    """A trusted style sheet, unescaped.

    Raises:
        ValueError: If it would end its element or fetch something.
    """
    if "<" in css or "@import" in css or "url(" in css:
        raise ValueError("the style sheet of a page must not contain <, @import or url(")
    return Markup(f"<style>{css}</style>")


@cache
def css(name: str) -> str:
    """A style sheet of this package."""
    return package_text(name)


def package_text(path: str) -> str:
    """A text file of this package."""
    return (files("vrag.render") / path).read_text(encoding="utf-8")


def number(value: float) -> str:
    """A length or coordinate with at most two decimals; 0 if it is not finite.

    >>> number(1 / 3), number(2.0), number(float("nan"))
    ('0.33', '2', '0')
    """
    if not math.isfinite(value):
        return "0"
    return f"{value:.2f}".rstrip("0").rstrip(".")


def printable(text: str) -> str:
    """Text with a replacement character for each one that no page can hold."""
    return _CONTROL.sub("\ufffd", text)


def _flatten(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        match child:
            case None:
                pass
            case Markup(html=piece):
                yield piece
            case str():
                yield _escape(child)
            case _:
                yield from _flatten(child)


def _escape(text: str) -> str:
    return html.escape(printable(text))
