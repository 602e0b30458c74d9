"""Parts of tables: by their element, their role (ARIA) or their `display`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selectolax.lexbor import LexborNode

    from vrag.corpus.formats.texts.web.styles import PageStyles

CELLS = frozenset({"td", "th"})
TABLE_PARTS = CELLS | {"table", "caption", "thead", "tbody", "tfoot", "tr"}
ROLES = {
    "table": "table",
    "grid": "table",
    "treegrid": "table",
    "row": "tr",
    "rowgroup": "tbody",
    "cell": "td",
    "gridcell": "td",
    "columnheader": "th",
    "rowheader": "th",
}
"""Elements that roles stand for."""
DISPLAYS = {
    "table": "table",
    "inline-table": "table",
    "table-row": "tr",
    "table-cell": "td",
    "table-header-group": "thead",
    "table-row-group": "tbody",
    "table-footer-group": "tfoot",
    "table-caption": "caption",
}
"""Elements that values of `display` stand for."""
GROUPS = frozenset({"thead", "tbody", "tfoot"})
CONTAINERS = {
    "caption": {"table"},
    "thead": {"table"},
    "tbody": {"table"},
    "tfoot": {"table"},
    "tr": {"table"} | GROUPS,
    "td": {"tr"},
    "th": {"tr"},
    "table": set[str](),
}
"""Parts of tables that a part may be in."""
WITH_DISPLAY = frozenset(
    "div span p a section article ul ol li dl dt dd form label fieldset header main nav strong b".split()
)
"""Elements that a role or a style makes parts of tables: not headings, and no figures with their caption."""
MAX_CHILDREN = 10
"""Nodes among which the first element of a table stands."""
MAX_SPAN = 65_534
"""Rows that a cell may span, by the standard."""


def find_table_part(
    tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str], container: str
) -> str:
    """Return the part of a table that an element is, as the element for it; "" if it is none.

    Args:
        tag: The element.
        attributes: Its attributes.
        declared: What its style sets.
        container: The part of a table that the element is in; "" if it is in none.
    """
    if tag in TABLE_PARTS:
        return tag
    if tag not in WITH_DISPLAY:
        return ""
    part = ROLES.get(attributes.get("role") or "") or DISPLAYS.get(declared.get("display", ""), "")
    return part if not part or container in CONTAINERS[part] or part == "table" else ""


def has_rows(node: LexborNode, styles: PageStyles) -> bool:
    """Return whether what says that it is a table begins with rows, and is no layout of a page."""
    if node.attributes.get("role") in ROLES:
        return True
    child = node.first_child
    for _ in range(MAX_CHILDREN):
        if child is None:
            return False
        tag, attributes = str(child.tag), child.attributes
        if tag[0] not in "-!":
            part = find_table_part(tag, attributes, styles.declared(child, tag, attributes), "table")
            return part in {"tr", "caption", *GROUPS}
        child = child.next
    return False


def read_spans(attributes: Mapping[str, str | None]) -> tuple[int, int]:
    """Return the rows and columns that a cell spans."""
    rows = _read_span(attributes.get("rowspan") or attributes.get("aria-rowspan"))
    columns = _read_span(attributes.get("colspan") or attributes.get("aria-colspan"))
    return rows or MAX_SPAN, columns or 1


def _read_span(value: str | None) -> int:
    """Return the number of rows or columns of a cell; 0 for all that follow."""
    if value is None:
        return 1
    text = value.strip()
    return min(int(text), MAX_SPAN) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 1
