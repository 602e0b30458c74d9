"""The measurement of found tables on pages whose cells are known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.tables import STYLES, KnownPage, main, make_page, score
from vrag.reading.tables.table import Cell, DocumentTable


def table_of(known: KnownPage) -> DocumentTable:
    cells = (
        Cell(row=row, column=column, rows=rows, columns=columns, text=text)
        for row, column, rows, columns, text in known.cells
    )
    return DocumentTable(cells=tuple(cells))


@pytest.mark.parametrize("style", STYLES)
def test_the_known_cells_are_all_right(style: str) -> None:
    known = make_page(style, 3)
    right, found, total = score(known, [table_of(known)])

    assert right == found == total == len(known.cells) > 6


def test_moved_cells_and_missing_tables_are_wrong() -> None:
    known = make_page("unruled", 4)
    table = table_of(known)
    moved = replace(table, cells=tuple(replace(cell, row=cell.row + 1) for cell in table.cells))

    assert score(known, [moved])[0] == 0
    assert score(known, []) == (0, 0, len(known.cells))


def test_the_best_of_several_tables_counts_and_all_their_cells() -> None:
    known = make_page("ruled", 5)
    other = DocumentTable(cells=(Cell(row=0, column=0, text="else"),))

    assert score(known, [other, table_of(known)]) == (
        len(known.cells),
        len(known.cells) + 1,
        len(known.cells),
    )


def test_pages_of_every_style_are_printed_read_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(2, 11, ocr=False)
    lines = capsys.readouterr().out.splitlines()
    figures = [float(re.findall(r"F1 ([\d.]+)", line)[0]) for line in lines]

    assert [line.split(",")[0] for line in lines] == list(STYLES)
    assert min(figures) > 0.9
