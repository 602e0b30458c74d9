"""Tables as Markdown, CSV, HTML and JSON.

A cell that spans several places stands at its first one in Markdown and CSV; HTML and JSON keep the span.
"""

from __future__ import annotations

import csv
import html
import io
from typing import TYPE_CHECKING, Any

from vrag.reading.tables.text_kinds import is_number

if TYPE_CHECKING:
    from vrag.reading.tables.table import Cell, DocumentTable

FORMULA_STARTS = ("=", "@", "+", "-")
"""Beginnings of texts that a spreadsheet would compute."""
MARKDOWN_ESCAPES = str.maketrans(
    {"\\": "\\\\", "|": "\\|", "<": "&lt;", "&": "&amp;", "`": "\\`", "*": "\\*", "[": "\\["}
)
"""Characters with a meaning in the cells of Markdown tables."""


def format_markdown(table: DocumentTable) -> str:
    """Format a table as Markdown, with the caption above; several rows of heads become one."""
    if not table.cells:
        return ""
    heads = [
        " / ".join(_escape_markdown(cell.text) for cell in table.column_heads(column))
        for column in range(table.width)
    ]
    lines = [heads, ["---"] * table.width, *_rows(table)[table.header_rows :]]
    body = [f"| {' | '.join(line)} |" for line in lines[:2]]
    body += [f"| {' | '.join(map(_escape_markdown, line))} |" for line in lines[2:]]
    caption = [f"**{_escape_markdown(table.caption)}**", ""] if table.caption else []
    return "\n".join([*caption, *body]) + "\n"


def format_csv(table: DocumentTable) -> str:
    """Format a table as CSV; texts that a spreadsheet would compute get an apostrophe in front."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in _rows(table):
        writer.writerow([_guard_formula(text) for text in row])
    return stream.getvalue()


def format_html(table: DocumentTable) -> str:
    """Format a table as an HTML element with spans; every text is escaped."""
    parts = ["<table>\n"]
    if table.caption:
        parts.append(f"<caption>{html.escape(table.caption)}</caption>\n")
    for row in range(table.height):
        cells = "".join(_html_place(table, row, column) for column in range(table.width))
        parts.append(f"<tr>{cells}</tr>\n")
    return "".join([*parts, "</table>\n"])


def _html_place(table: DocumentTable, row: int, column: int) -> str:
    """Return the element of the cell that begins at a place; an empty cell where none covers it."""
    cell = table.cell_at(row, column)
    head = row < table.header_rows or column < table.header_columns or row in table.sections
    name = "th" if head else "td"
    if cell is None:
        return f"<{name}></{name}>"
    if (cell.row, cell.column) != (row, column):
        return ""
    spans = f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
    spans += f' colspan="{cell.columns}"' if cell.columns > 1 else ""
    return f"<{name}{spans}>{html.escape(cell.text)}</{name}>"


def table_facts(table: DocumentTable) -> dict[str, Any]:
    """Return a table as JSON values; boxes are in fractions of the page: left, top, right, bottom."""
    return {
        "caption": table.caption,
        "rows": table.height,
        "columns": table.width,
        "header_rows": table.header_rows,
        "header_columns": table.header_columns,
        "sections": sorted(table.sections),
        "box": _sides(table),
        "cells": [
            {
                "row": cell.row,
                "column": cell.column,
                "rows": cell.rows,
                "columns": cell.columns,
                "text": cell.text,
                "box": _sides(cell),
            }
            for cell in table.cells
        ],
    }


def _sides(thing: DocumentTable | Cell) -> list[float] | None:
    return [round(side, 5) for side in thing.box.as_tuple()] if thing.box else None


def _rows(table: DocumentTable) -> list[list[str]]:
    """Return the texts by row and column."""
    rows = [[""] * table.width for _ in range(table.height)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def _escape_markdown(text: str) -> str:
    return " ".join(text.split()).translate(MARKDOWN_ESCAPES)


def _guard_formula(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not is_number(text) else text
