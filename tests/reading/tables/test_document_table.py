"""Cells, places and heads of tables."""

from __future__ import annotations

import pytest

from vrag.reading.tables.table import Cell, DocumentTable

TABLE = DocumentTable(
    cells=(
        Cell(row=0, column=0, rows=2, text="Line"),
        Cell(row=0, column=1, columns=2, text="Passengers"),
        Cell(row=1, column=1, text="2023"),
        Cell(row=1, column=2, text="2024"),
        Cell(row=2, column=0, columns=3, text="Northern lines"),
        Cell(row=3, column=0, text="Orla – Saltby"),
        Cell(row=3, column=1, text="86,040"),
        Cell(row=3, column=2, text="84,210"),
    ),
    header_rows=2,
    header_columns=1,
    sections=frozenset({2}),
)


def test_a_cell_is_found_at_every_place_that_it_spans() -> None:
    head = TABLE.cell_at(0, 2)
    assert head is not None
    assert (head.text, head is TABLE.cell_at(0, 1)) == ("Passengers", True)
    assert TABLE.cell_at(4, 0) is None
    assert (TABLE.height, TABLE.width) == (4, 3)


def test_heads_are_outermost_first_and_named_once() -> None:
    assert [cell.text for cell in TABLE.column_heads(2)] == ["Passengers", "2024"]
    assert [cell.text for cell in TABLE.column_heads(0)] == ["Line"]
    assert [cell.text for cell in TABLE.row_heads(3)] == ["Northern lines", "Orla – Saltby"]
    assert [cell.text for cell in TABLE.row_heads(1)] == ["Line"]


def test_cells_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1, column 0"):
        DocumentTable(cells=(Cell(row=0, column=0, rows=2), Cell(row=1, column=0)))


def test_a_table_without_cells_is_empty() -> None:
    assert (DocumentTable(cells=()).height, DocumentTable(cells=()).width) == (0, 0)
