"""Text of others in Markdown, where it stays text whatever it contains.

CommonMark reads a backslash before ASCII punctuation as the character itself. Some punctuation is special
only at the beginning of a line; it is escaped there and nowhere else, so that Markdown stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from vrag.render.text_format import printable

_ALWAYS = re.compile(r"[\\`*_{}\[\]<>#|~$&^@]|(?<!\d):(?=\S)|:(?=[^\s\d])|(?<=[Ww]{3})\.|!(?=\[)")
"""Characters that can begin code, emphasis, links, HTML, entities, tables, formulas, mentions or
addresses."""
_FIRST = re.compile(r"[-+=:%!'\"(),./;?]")
"""Further special characters at the beginning of a line: lists, rules, titles."""
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def inline(text: str) -> str:
    r"""Return text on one line, at the beginning of a line or anywhere else.

    >>> print(inline("# 1 <b>*not* [bold](http://x)"))
    \# 1 \<b\>\*not\* \[bold\](http\://x)
    """
    return escape_text(" ".join(printable(text).split()), begins_line=True)


def escape_text(text: str, *, begins_line: bool) -> str:
    """Return a part of a line of text; blanks at its ends remain, except at the beginning of a line."""
    part = re.sub(r"\s+", " ", printable(text))
    if not begins_line:
        return _ALWAYS.sub(_escaped, part)
    part = part.lstrip(" ")
    if numbered := _NUMBERED.match(part):
        return f"{numbered[1]}\\{numbered[2]}{_ALWAYS.sub(_escaped, part[numbered.end() :])}"
    begun = "\\" if _FIRST.match(part) and not _ALWAYS.match(part) else ""
    return begun + _ALWAYS.sub(_escaped, part)


def paragraph(text: str) -> str:
    r"""Return text as one paragraph; its lines stay lines.

    >>> print(paragraph("one\n\n- two"))
    one\
    \- two
    """
    lines = (inline(line) for line in re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))
    return "\\\n".join(line for line in lines if line)


def quoted(text: str) -> str:
    """Return text as a quotation."""
    return "\n".join(f"> {line}" for line in paragraph(text).split("\n"))


def link(text: str, target: str) -> str:
    """Return a link to a heading of the same document, in small letters with hyphens."""
    return f"[{inline(text)}](#{target})"


def image(alt: str, place: str) -> str:
    """Return an image in a file, by its path relative to the document."""
    return f"![{inline(alt)}]({quote(place)})"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return cells of Markdown, of one line each, as a table; plain CommonMark shows it as lines."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
