"""Empty elements of HTML and XML."""

from __future__ import annotations

import re

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""HTML elements that have no end."""
_EMPTY_ELEMENT = re.compile(
    r"""<(?P<name>[A-Za-z][\w:.-]*)(?![\w:.-])(?P<attributes>(?:[^<>"'/]|/(?!>)|"[^"]*"|'[^']*')*)/>"""
)


def close_empty_elements(xml: str) -> str:
    """Give empty elements of XML an end, since HTML ignores the slash that ends them.

    >>> close_empty_elements("<title/><p id='a>'/>a<br/>")
    "<title></title><p id='a>'></p>a<br/>"
    """
    return _EMPTY_ELEMENT.sub(_close_element, xml)


def _close_element(match: re.Match[str]) -> str:
    name = match["name"]
    return match[0] if name in VOID else f"<{name}{match['attributes']}></{name}>"
