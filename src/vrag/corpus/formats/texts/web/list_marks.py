"""Bullets and numbers of the entries of lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

BULLET = "• "
NUMBER_STYLES = {
    "lower-alpha": "a",
    "lower-latin": "a",
    "upper-alpha": "A",
    "upper-latin": "A",
    "lower-roman": "i",
    "upper-roman": "I",
}
"""Values of `list-style-type` as values of `type`."""
ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        "m cm d cd c xc l xl x ix v iv i".split(),
        strict=True,
    )
)
MAX_WRITTEN_NUMBER = 4000
"""Larger numbers are written in figures."""
LIST_PARTS = frozenset({"ol", "ul", "menu", "li"})


class ListMarks:
    """The lists that are open, and the mark of the entry that has begun and has no text yet."""

    def __init__(self) -> None:
        self._numbers: list[int | None] = []
        """For each list that is open the number of its next entry; None where entries have none."""
        self._kinds: list[str] = []
        """For each list that is open how its numbers are written: "1", "a", "A", "i" or "I"."""
        self._mark = ""

    def begin(self, node: LexborNode, tag: str, *, in_table: bool) -> None:
        """Begin a list, or an entry with its mark."""
        attributes = node.attributes
        if tag != "li":
            style = attributes.get("style") or ""
            is_numbered = tag == "ol" and "none" not in style
            named = next((kind for name, kind in NUMBER_STYLES.items() if name in style), "1")
            self._kinds.append(attributes.get("type") or named)
            self._numbers.append(_read_number(attributes.get("start"), 1) if is_numbered else None)
            return
        number = self._numbers[-1] if self._numbers else None
        if number is not None:
            number = _read_number(attributes.get("value"), number)
            self._mark = f"{_write_number(number, self._kinds[-1])}. "
            self._numbers[-1] = number + 1
        elif self._numbers and not in_table and _has_bullets(node):
            self._mark = BULLET

    def end(self, tag: str) -> None:
        """End a list or an entry."""
        if tag != "li" and self._numbers:
            self._numbers.pop()
            self._kinds.pop()
        self._mark = ""

    def put_before(self, text: str) -> str:
        """Return the first text of an entry with its mark; any other as it is."""
        if not self._mark or not text.strip():
            return text
        return self.take_mark() + text.lstrip()

    def take_mark(self) -> str:
        """Return the mark that waits for text, which has none from then on."""
        mark, self._mark = self._mark, ""
        return mark


def _write_number(number: int, kind: str) -> str:
    """Write the number of an entry in letters or Roman figures, where its list has such.

    >>> [_write_number(28, kind) for kind in ("1", "a", "I")]
    ['28', 'ab', 'XXVIII']
    """
    if not 0 < number < MAX_WRITTEN_NUMBER or kind not in {"a", "A", "i", "I"}:
        return str(number)
    text = ""
    if kind in {"a", "A"}:
        while number:
            number, letter = divmod(number - 1, 26)
            text = chr(ord("a") + letter) + text
    else:
        for value, letters in ROMAN:
            text += letters * (number // value)
            number %= value
    return text.upper() if kind.isupper() else text


def _has_bullets(entry: LexborNode) -> bool:
    """Return whether entries of a list have bullets: those of menus mostly have none."""
    listed = entry.parent
    style = (listed.attributes.get("style") or "") if listed is not None else ""
    return listed is not None and listed.tag == "ul" and "none" not in style


def _read_number(value: str | None, otherwise: int) -> int:
    """Return the number of an entry of a list that an attribute says."""
    text = (value or "").strip()
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else otherwise
