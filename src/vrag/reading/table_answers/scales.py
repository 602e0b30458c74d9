"""The scale of an answer: what "in thousands" beside a table or in a head says about its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vrag.reading.table_answers.records import is_year
from vrag.reading.table_answers.values import parse_cell
from vrag.reading.tables.table import Cell, DocumentTable

_SCALE = re.compile(
    r"\b(?P<word>thousand|million|billion)s?\b|(?:[$€£¥]|US\$|['’])\s*['’]?(?P<zeros>000(?:['’]?s)?\b)"
    r"|[$€£¥]\s?(?P<letter>m|k|bn)\b|(?P<cjk>千|万|百万|亿)元",
    re.IGNORECASE,
)
_LETTERS = {"m": "million", "k": "thousand", "bn": "billion"}
_CJK = {"千": "thousand", "百万": "million"}
_EXEMPT = re.compile(r"\b(?:per share|per unit|number of (?:people|employees)|headcount)\b", re.IGNORECASE)


def find_scale(text: str) -> str:
    """Return the first scale that a text names: thousand, million or billion; empty without one.

    >>> find_scale("Amounts in thousands of euros"), find_scale("2019 US$000"), find_scale("three ships")
    ('thousand', 'thousand', '')
    """
    match = _SCALE.search(text)
    if match is None:
        return ""
    if match["word"]:
        return match["word"].lower()
    if match["cjk"]:
        return _CJK.get(match["cjk"], "")
    return "thousand" if match["zeros"] else _LETTERS[match["letter"].lower()]


def scale_of_cells(table: DocumentTable, cells: Iterable[Cell]) -> str:
    """Return the scale of the numbers in some cells, by their heads, the other heads and the caption.

    "percent" for percentages; empty for other text, for years and without a scale.
    """
    cells = list(cells)
    values = [parse_cell(cell.text, table.number_style) for cell in cells]
    if not values or any(value.number is None or not value.whole for value in values):
        return ""
    if all(value.unit == "%" for value in values):
        return "percent"
    heads: list[str] = []
    for cell in cells[:4]:
        heads += [head.text for head in table.column_heads(cell.column)]
        heads += [head.text for head in table.row_heads(cell.row)]
    own = next((scale for text in heads if (scale := find_scale(text))), "")
    if own:
        return own
    if any("%" in text or "percent" in text.lower() for text in heads):
        return "percent"
    plain = all("," not in cell.text and not value.unit for value, cell in zip(values, cells, strict=True))
    years = plain and all(value.number is not None and is_year(value.number) for value in values)
    if years or any(_EXEMPT.search(text) for text in heads):
        return ""
    rows = range(table.header_rows)
    tops = " ".join(
        cell.text for row in rows for column in range(table.width) if (cell := table.cell_at(row, column))
    )
    return find_scale(tops) or find_scale(table.caption)
