"""Contents of the fields of a web form: values, chosen options, boxes that are checked or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.corpus.sniff import drop_invisible
from vrag.text.signs import CHECKED, CHOSEN, NOT_CHECKED, NOT_CHOSEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selectolax.lexbor import LexborNode

SEEN_INPUTS = frozenset(
    "text search email url tel number date datetime-local month week time submit reset button".split()
)
"""Types of fields whose value is seen."""
_BOX, _BUTTON = (NOT_CHECKED, CHECKED), (NOT_CHOSEN, CHOSEN)
MARKS = {"checkbox": _BOX, "radio": _BUTTON, "switch": _BOX}
"""Marks of boxes that are not checked and that are, by type or role."""
WRITTEN_MARKS = frozenset("☐☑☒✓✔✗✘○◉●◯")
"""Marks that pages themselves write into what they call a box."""
MAX_OPTIONS = 10_000
"""Options of a list that are looked at."""


def read_input(attributes: Mapping[str, str | None]) -> str:
    """Return what an `<input>` shows, with spaces around it; "" if that is nothing.

    >>> read_input({"type": "checkbox", "checked": None}), read_input({"value": "12"})
    (' ☑ ', ' 12 ')
    """
    kind = (attributes.get("type") or "text").lower()
    if kind in MARKS and (attributes.get("role") or kind) in MARKS:
        return f" {MARKS[kind]['checked' in attributes]} "
    value = attributes.get("value") or ""
    is_seen = kind in SEEN_INPUTS or kind not in KNOWN_INPUTS
    return f" {drop_invisible(value)} " if is_seen and value.strip() else " "


KNOWN_INPUTS = SEEN_INPUTS | MARKS.keys() | frozenset("hidden password file image color range".split())
"""Types of fields; a field of any other type is one for text."""


def read_role_mark(node: LexborNode, attributes: Mapping[str, str | None]) -> str:
    """Return the mark of an element that plays a box to check; "" of any other element."""
    marks = MARKS.get(attributes.get("role") or "")
    state = attributes.get("aria-checked")
    if marks is None or state not in {"true", "false"} or node.tag == "input":
        return ""
    first = node.first_child
    text = first.text_content or "" if first is not None and first.tag == "-text" else ""
    return "" if WRITTEN_MARKS.intersection(text[:100]) else f" {marks[state == 'true']} "


def read_select(select: LexborNode) -> str:
    """Return what a `<select>` shows: the option that is chosen, or all of a list with a mark each."""
    attributes = select.attributes
    options = _list_options(select)
    if "multiple" in attributes or _has_rows(attributes.get("size")):
        return "".join(f"\n{MARKS['checkbox'][is_chosen]} {text}" for text, is_chosen in options if text)
    chosen = [text for text, is_chosen in options if is_chosen] or [text for text, _ in options[:1]]
    return f" {chosen[-1]} " if chosen else ""


def _has_rows(size: str | None) -> bool:
    """Return whether a list shows several options at once."""
    return size is not None and size.strip().isdecimal() and size.strip() not in {"0", "1"}


def _list_options(select: LexborNode) -> list[tuple[str, bool]]:
    """Return the texts of the options of a list that can be seen, and whether they are chosen."""
    options: list[tuple[str, bool]] = []
    for node in select.css("option")[:MAX_OPTIONS]:
        attributes = node.attributes
        if "hidden" not in attributes or "selected" in attributes:
            text = attributes.get("label") or node.text()
            options.append((" ".join(drop_invisible(text).split()), "selected" in attributes))
    return options
