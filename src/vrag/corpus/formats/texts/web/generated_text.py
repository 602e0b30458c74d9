"""Text that style sheets put before and behind elements: `.price::before { content: "EUR 23.40" }`."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from vrag.corpus.formats.texts.visibility import is_removed, is_unseen

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_GENERATED_CHARS = 500
"""Characters that a rule adds to an element, at most."""
MAX_PAGE_CHARS = 1_000_000
"""Characters that all rules add to a page, at most."""
SYMBOL_FONTS = re.compile(r"icon|awesome|symbol|glyph|dashicons|material", re.IGNORECASE)
"""Names of fonts whose letters are pictures."""
_TOKEN = re.compile(
    r"""\s+|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|attr\(\s*(?P<name>[\w:-]+)\s*\)"""
    r"|(?:url|counters?|[a-z-]*gradient)\([^()]*\)|(?:open|close)-quote",
    re.DOTALL | re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\(?:(?P<code>[0-9a-fA-F]{1,6})\s?|(?P<end>\n)|(?P<letter>.))", re.DOTALL)


def read_generated(declared: Mapping[str, str], attributes: Mapping[str, str | None]) -> str:
    """Return the words that a rule adds; "" if it adds none, such as lines, arrows and icons.

    Args:
        declared: What is set for the added text.
        attributes: Those of its element.
    """
    content = declared.get("content", "")
    if (
        not content
        or content.lower() in {"none", "normal"}
        or SYMBOL_FONTS.search(declared.get("font-family", ""))
    ):
        return ""
    if is_removed("", {}, declared) or is_unseen("", declared):
        return ""
    text = _read_content(content, attributes)[:MAX_GENERATED_CHARS]
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Co")
    return text if any(map(_says_something, text)) else ""


def _read_content(content: str, attributes: Mapping[str, str | None]) -> str:
    """Return the texts of a value of `content`; "" if it has other parts than are known."""
    parts: list[str] = []
    at = 0
    while match := _TOKEN.match(content, at):
        if match["name"]:
            parts.append(attributes.get(match["name"].lower()) or "")
        else:
            parts.append(_ESCAPED.sub(_unescape, match["double"] or match["single"] or ""))
        at = match.end()
    rest = content[at:].lstrip()
    return "".join(parts) if not rest or rest.startswith("/") else ""


def _unescape(match: re.Match[str]) -> str:
    if match["code"]:
        code = int(match["code"], 16)
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return match["letter"] or ""


def _says_something(letter: str) -> bool:
    return letter.isalnum() or letter in "%‰°±" or unicodedata.category(letter) == "Sc"
