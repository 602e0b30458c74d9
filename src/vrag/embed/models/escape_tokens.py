"""Texts of documents and people on their way into a model."""

from __future__ import annotations

import re

__all__ = ["harmless"]

_CONTROL = re.compile(r"<(\||/?)(\w+)(\|)>")


def harmless(text: str) -> str:
    """The text without the marks by which models are told where a picture or a turn begins.

    A page that happens to hold `<|image_pad|>` would otherwise stand for a picture that is not there.

    >>> harmless("a <|image_pad|> b")
    'a < |image_pad| > b'
    """
    return _CONTROL.sub(r"< \1\2\3 >", text)
