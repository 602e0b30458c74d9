"""HTML and SVG elements that are always escaped, and what all pages share: policy, icon and styles.

`element` makes tags; all text is escaped, and tags, attributes and addresses that could run a script or fetch
something are refused. There is no other way to make a `Markup`.
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
_VOID = frozenset({"link", "meta"})
_TAGS = _VOID | frozenset(
    "html head title body header main nav section footer div p span h1 h2 h3 ol ul li dl dt dd "
    "table thead tbody tfoot tr th td a strong small code pre blockquote q figure figcaption "
    "details summary button svg defs use image rect path text".split()
)
_ATTRIBUTES = frozenset(
    "id class lang dir title name content charset http-equiv rel href type role tabindex scope style "
    "popover popovertarget popovertargetaction aria-label aria-hidden focusable "
    "viewBox width height x y rx d transform vector-effect preserveAspectRatio".split()
)
_ADDRESS = re.compile(r"#[a-z0-9-]+|data:image/(jpeg|svg\+xml);base64,[A-Za-z0-9+/=]*")
_STYLE = re.compile(r"(--)?[a-z-]+:[-0-9.%a-z ]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that HTML does not allow or no encoding can represent, without line feeds and tabs."""


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of a page; only this module creates one."""

    html: str

    def __str__(self) -> str:
        return self.html


Child: TypeAlias = "Markup | str | Iterable[Child] | None"
"""Content of an element: text is escaped, None is nothing."""


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element.

    Args:
        tag: Its name.
        children: Text, elements, or iterables of them.
        attributes: By name, with `_` for `-` and without one `_` at the end. True is an attribute without
            a value; None and False are no attribute.

    Raises:
        ValueError: If the tag, an attribute or an address is not among those that pages need.

    >>> print(element("p", "a < b", class_="x"))
    <p class="x">a &lt; b</p>
    """
    if tag not in _TAGS:
        raise ValueError(f"pages have no element <{tag}>")
    opening = f"<{tag}{''.join(_attribute(*pair) for pair in attributes.items())}>"
    if tag in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{''.join(_flat(children))}</{tag}>")


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


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        match child:
            case None:
                pass
            case Markup(html=piece):
                yield piece
            case str():
                yield _escaped(child)
            case _:
                yield from _flat(child)


def printable(text: str) -> str:
    """Text with a replacement character for each one that no page can hold."""
    return _CONTROL.sub("\ufffd", text)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _attribute(name: str, value: str | float | bool | None) -> str:
    name = name.removesuffix("_").replace("_", "-")
    if name not in _ATTRIBUTES:
        raise ValueError(f"pages have no attribute {name!r}")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = value if isinstance(value, str) else number(value)
    if (name == "href" and not _ADDRESS.fullmatch(text)) or (name == "style" and not _STYLE.fullmatch(text)):
        raise ValueError(f"{name} must not be {text[:80]!r}")
    return f' {name}="{_escaped(text)}"'
