r"""Untrusted text within Markdown: it stays text, whatever it contains.

CommonMark reads a backslash before ASCII punctuation as the character itself. Some punctuation is special
only at the beginning of a line; it is escaped there and nowhere else, so that the result stays readable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from vrag.render.text_format import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ALWAYS = re.compile(r"[\\`*_{}\[\]<>#|~$&^@]|(?<!\d):(?=\S)|:(?=[^\s\d])|(?<=[Ww]{3})\.|!(?=\[)")
"""Characters that can begin code, emphasis, links, HTML, entities, tables, formulas, mentions or
addresses."""
_FIRST = re.compile(r"[-+=:%!'\"(),./;?]")
"""Further special characters at the beginning of a line: lists, rules, titles."""
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def inline(text: str) -> str:
    r"""Text on one line, at the beginning of a line or anywhere else.

    >>> print(inline("# 1 <b>*not* [bold](http://x)"))
    \# 1 \<b\>\*not\* \[bold\](http\://x)
    """
    line = " ".join(printable(text).split())
    if numbered := _NUMBERED.match(line):
        return f"{numbered[1]}\\{numbered[2]}{_ALWAYS.sub(_escaped, line[numbered.end() :])}"
    begun = "\\" if _FIRST.match(line) and not _ALWAYS.match(line) else ""
    return begun + _ALWAYS.sub(_escaped, line)


def paragraph(text: str, after: str = "") -> str:
    r"""Text as one paragraph; its lines stay lines.

    `after` is Markdown that follows it.

    >>> print(paragraph("one\n\n- two"))
    one\
    \- two
    """
    lines = (inline(line) for line in re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))
    return "\\\n".join(line for line in lines if line) + after


def quoted(text: str) -> str:
    """Text as a quotation."""
    return "\n".join(f"> {line}" for line in paragraph(text).split("\n"))


def link(text: str, target: str) -> str:
    """A link to a heading of the same document, in small letters with hyphens."""
    return f"[{inline(text)}](#{target})"


def image(alt: str, place: str) -> str:
    """An image in a file, by its path relative to the document."""
    return f"![{inline(alt)}]({quote(place)})"


def bullets(items: Iterable[str]) -> str:
    """Lines of Markdown as a list."""
    return "\n".join(f"- {item}" for item in items)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells of Markdown, of one line each, as a table; plain CommonMark shows it as lines."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
