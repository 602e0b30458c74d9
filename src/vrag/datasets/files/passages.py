"""Paragraphs of data sets as documents of their own: named by their title, distinguished by their text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.datasets.protocols import TextDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_TITLE_BYTES = 100
"""Length of a title in a file name."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no text has."""
_MARKUP = re.compile(r"[\\`*_\[\]<>&|~#]")
"""Characters that are markup wherever they stand."""
_LIST = re.compile(r"(?m)^(\d+)([.)])|^([-+=])")
"""Beginning that makes a line a list element, or the line above it a heading."""


@dataclass(frozen=True, slots=True)
class ParagraphDocument:
    """A paragraph and the title of its article."""

    title: str
    text: str

    @property
    def name(self) -> str:
        """File name made of title and text only: another text has another name.

        >>> ParagraphDocument("AC/DC", "A band.").name
        'AC DC-3dc6f904af2c6001.md'
        """
        content = f"{_line(self.title)}\n{' '.join(self.text.split())}"
        mark = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
        return f"{title_in_name(self.title)}-{mark}.md"

    @property
    def empty(self) -> bool:
        """True if its text has no word."""
        return re.search(r"\w", self.text) is None

    def document(self) -> TextDocument:
        """Return the file: the title as a heading above the text, so that it is found by both."""
        return TextDocument(
            self.name, f"# {as_markdown(_line(self.title)) or '…'}\n\n{as_markdown(self.text)}\n"
        )


def distinct(passages: Iterable[ParagraphDocument]) -> Iterator[TextDocument]:
    """Yield a document for each distinct passage that has words."""
    seen: set[str] = set()
    for passage in passages:
        name = passage.name
        if name not in seen and not passage.empty:
            seen.add(name)
            yield passage.document()


def title_in_name(title: str) -> str:
    """Return a title as a part of a file name: letters, digits and marks that are harmless on any disk.

    >>> title_in_name("../AC/DC: live?"), title_in_name("?")
    ('AC DC live', 'untitled')
    """
    plain = unicodedata.normalize("NFC", title).encode("utf-8", "replace").decode("utf-8")
    kept = re.sub(r"[^\w(),'’.&+-]+", " ", plain)
    short = kept.encode()[:MAX_TITLE_BYTES].decode("utf-8", "ignore").strip(" .-")
    return short if short.isprintable() and short else "untitled"


def as_markdown(text: str) -> str:
    r"""Escape a text so that reading it as Markdown gives the text: nothing in it is markup, nothing is lost.

    >>> print(as_markdown("1. *a* <b>"))
    1\. \*a\* \<b\>
    """
    lines = "\n".join(line.strip() for line in _CONTROL.sub(" ", text).splitlines())
    escaped = _MARKUP.sub(lambda sign: "\\" + sign[0], lines)
    return _LIST.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", escaped)


def _line(title: str) -> str:
    return " ".join(title.split())
