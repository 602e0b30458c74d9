"""Ranges of cells on a page of a workbook, as its programs write them: `Budget!B2:C14`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.geometry import Box
    from vrag.types import Item

MAX_NAME_CHARS = 100
_ADDRESS = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
"""Names of sheets that need no quotes."""


def name_cells(item: Item, box: Box) -> str:
    """Return the smallest range with all cells whose words begin inside a unit box.

    Empty for a page that shows no sheet, and for a box without cells whose addresses are known.
    """
    inside = {word.start for word in item.words if box.covers(*word.box.center)} if item.facts.cells else ()
    cells = [cell for cell in item.facts.cells if cell.start in inside]
    matches = [match for cell in cells if (match := _ADDRESS.fullmatch(cell.address))]
    if not matches:
        return ""
    columns = sorted((len(match[1]), match[1]) for match in matches)
    rows = sorted(int(match[2]) for match in matches)
    first, last = f"{columns[0][1]}{rows[0]}", f"{columns[-1][1]}{rows[-1]}"
    worksheet = "".join(filter(str.isprintable, item.facts.worksheet))[:MAX_NAME_CHARS]
    if not _PLAIN_NAME.fullmatch(worksheet):
        worksheet = "'" + worksheet.replace("'", "''") + "'"
    return f"{worksheet}!{first}" if first == last else f"{worksheet}!{first}:{last}"
