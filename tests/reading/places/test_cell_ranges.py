"""Cells are named as people who use spreadsheets name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vrag.geometry import Box
from vrag.reading.places.cell_ranges import name_cells
from vrag.types import AddressedCell, Item, ItemFacts, ItemKind, Word, item_id

DOCUMENT = "ab" * 32
TEXT = "Name Fee\nNorth pier 410\n"
CELLS = (
    AddressedCell(0, 4, "B2"),
    AddressedCell(5, 8, "AA2"),
    AddressedCell(9, 19, "B10"),
    AddressedCell(20, 23, "AA10"),
)
WORDS = tuple(
    Word(start, end, Box.unit(left, top, left + 0.1, top + 0.1))
    for start, end, left, top in (
        (0, 4, 0.1, 0.1),
        (5, 8, 0.5, 0.1),
        (9, 14, 0.1, 0.5),
        (15, 19, 0.2, 0.5),
        (20, 23, 0.5, 0.5),
    )
)
PAGE = Item(
    id=item_id(DOCUMENT, 1),
    document=DOCUMENT,
    document_name="a.xlsx",
    kind=ItemKind.PAGE,
    ordinal=1,
    text=TEXT,
    words=WORDS,
    facts=ItemFacts(worksheet="Fees", cells=CELLS),
)
WHOLE = Box.unit(0, 0, 1, 1)


@pytest.mark.parametrize(
    ("box", "name"),
    [
        (WHOLE, "Fees!B2:AA10"),
        (Box.unit(0.5, 0.5, 0.6, 0.6), "Fees!AA10"),
        (Box.unit(0.1, 0.5, 0.3, 0.6), "Fees!B10"),
        (Box.unit(0.0, 0.4, 1, 1), "Fees!B10:AA10"),
        (Box.unit(0.8, 0.8, 1, 1), ""),
    ],
)
def test_cells_inside_a_box_are_one_range(box: Box, name: str) -> None:
    assert name_cells(PAGE, box) == name


@pytest.mark.parametrize(
    ("worksheet", "name"),
    [
        ("Fees 2025", "'Fees 2025'!B2:AA10"),
        ("Ole's", "'Ole''s'!B2:AA10"),
        ("2025", "'2025'!B2:AA10"),
        ("a\n\u202eb", "ab!B2:AA10"),
    ],
)
def test_names_of_sheets_are_quoted_where_programs_need_it(worksheet: str, name: str) -> None:
    assert name_cells(replace(PAGE, facts=replace(PAGE.facts, worksheet=worksheet)), WHOLE) == name


def test_pages_without_known_cells_have_no_range() -> None:
    assert name_cells(replace(PAGE, facts=ItemFacts()), WHOLE) == ""
    odd = (AddressedCell(0, 4, "<script>"), AddressedCell(5, 8, "b2"))
    assert name_cells(replace(PAGE, facts=ItemFacts(worksheet="S", cells=odd)), WHOLE) == ""
