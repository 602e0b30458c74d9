"""A picture with its title and caption as one document: HTML, with the picture in it."""

from __future__ import annotations

import base64
import re
from html import escape
from typing import TYPE_CHECKING

from vrag.evaluation.sources.page_images import picture_size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["captioned"]

MIN_SIDE = 32
"""Pixels: what is smaller is taken for an icon where documents are read."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def captioned(picture: bytes | None, title: str, caption: str) -> Iterator[bytes]:
    """The file, in pieces.

    Read as a document it is one page: the picture itself, with "title: caption" as its text. Without a
    picture that can be shown, these words are a passage.

    Args:
        picture: Its file; None where there is none.
        title: As it was published.
        caption: As it was published; not said again where it is the title.
    """
    told = dict.fromkeys([_safe(title), _safe(caption)])
    words = ": ".join(line for line in told if line) or "…"
    yield b'<!DOCTYPE html><meta charset="utf-8">\n'
    size = None if picture is None else picture_size(picture)
    if picture is None or size is None or min(size.width, size.height) < MIN_SIDE:
        yield f"<p>{words}</p>\n".encode("utf-8", "replace")
        return
    yield f'<img title="{words}" src="data:;base64,'.encode("utf-8", "replace")
    yield base64.b64encode(picture)
    yield b'">\n'


def _safe(text: str) -> str:
    """A text on one line such that reading it as HTML gives the text."""
    return escape(" ".join(_CONTROL.sub(" ", text).split()))
