"""Candidates for the answer to a question over one table, each with its features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from vrag.reading.table_answers.features import TABLE_FEATURES, describe_programs
from vrag.reading.table_answers.matching import match_terms
from vrag.reading.table_answers.operations import MAX_LIST, Program, TableOperation
from vrag.reading.table_answers.programs import write_programs
from vrag.reading.table_answers.question import analyse_question
from vrag.reading.table_answers.records import RecordGrid, read_grid, read_transposed
from vrag.reading.table_answers.row_sets import RowSet, select_rows
from vrag.reading.table_answers.scales import CellMeasure, measure_of_cells, scale_of_cells
from vrag.reading.table_answers.values import format_number, parse_cell, strip_deviation
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.numerals import NumberStyle, write_figures

_COUNTS = {TableOperation.COUNT, TableOperation.COUNT_DISTINCT, TableOperation.COUNT_DIFFERENCE}
_PERCENTAGES = {TableOperation.PERCENT_CHANGE, TableOperation.SHARE}
_SIGN = re.compile(r"^[(\s]*[-−–+]?\s?|[)\s]+$|(?<=\d)\s?[-−]$|(?<=[%€])\s?[-−]$")


@dataclass(frozen=True, slots=True, eq=False)
class TableCandidate:
    """A possible answer and the cells behind it."""

    text: str
    """The answer, as the table writes it or in the table's way of writing numbers."""
    values: tuple[str, ...]
    """The answers of a list; one for other operations."""
    operation: TableOperation
    cells: tuple[Cell, ...]
    """Cells that hold the answer; empty where it is computed."""
    operands: tuple[Cell, ...]
    """Cells that were computed with or counted."""
    heads: tuple[Cell, ...]
    """Heads and cells whose words selected the row and the column."""
    arithmetic: str
    """The computation, "406,000 → 424,800: +4.6 %"; empty where the answer was read."""
    features: NDArray[np.float32]
    """A row of `TABLE_FEATURES`."""
    denotation: tuple[str, ...]
    """The key of the answer: equal for candidates that give the same one."""
    number: Decimal | None = None
    """The computed number, unrounded; None where the answer was read."""
    scale: str = ""
    """"thousand", "million" or "billion" where heads or caption say so; "percent" for percentages."""
    measure: CellMeasure = CellMeasure()
    """The scale and the unit that the text lacks."""


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredTable:
    """The programs for a question and a table, before their answers are written out."""

    programs: tuple[Program, ...]
    features: NDArray[np.float32]
    """Shape (programs, `TABLE_FEATURES`)."""
    grids: tuple[tuple[RecordGrid, tuple[RowSet, ...], int], ...]
    """Each grid with its sets of records and the number of its programs."""


def solve_table(question: str, table: DocumentTable, *, operations: bool = True) -> AnsweredTable:
    """Run every program for a question over a table; lookups only without `operations`."""
    analysed = analyse_question(question)
    programs: list[Program] = []
    features = [np.zeros((0, len(TABLE_FEATURES)), np.float32)]
    grids: list[tuple[RecordGrid, tuple[RowSet, ...], int]] = []
    for grid in (read_grid(table), read_transposed(table)):
        if grid is None or not grid.size or not analysed.terms:
            continue
        matches = match_terms(analysed, grid)
        sets = select_rows(analysed, grid, matches)
        found = write_programs(analysed, grid, matches, sets, lookups=not operations)
        features.append(describe_programs(analysed, grid, matches, sets, found))
        programs += found
        grids.append((grid, tuple(sets), len(found)))
    return AnsweredTable(tuple(programs), np.concatenate(features), tuple(grids))


def table_candidates(question: str, table: DocumentTable, *, operations: bool = True) -> list[TableCandidate]:
    """Return every answer that a small program over a table gives; lookups only without `operations`."""
    answered = solve_table(question, table, operations=operations)
    return [write_candidate(answered, number) for number in range(len(answered.programs))]


def write_candidate(answered: AnsweredTable, number: int) -> TableCandidate:
    """Write the answer of one program, with its cells and arithmetic."""
    at = number
    for grid, sets, count in answered.grids:
        if at < count:
            return _candidate(answered.programs[number], sets, grid, answered.features[number])
        at -= count
    raise IndexError(number)


def _candidate(
    program: Program, sets: Sequence[RowSet], grid: RecordGrid, features: NDArray[np.float32]
) -> TableCandidate:
    rows = sets[program.rows]
    operands = _operands(program, rows, grid)
    text = ", ".join(map(strip_deviation, program.values))
    if not program.values:
        text = _format(program, operands, grid.table.number_style)
    return TableCandidate(
        text=text,
        values=program.values or (text,),
        operation=program.operation,
        cells=tuple(operands) if program.values else (),
        operands=() if program.values else tuple(operands),
        heads=_heads(program, rows, grid),
        arithmetic="" if program.values else _arithmetic(program, operands, text, grid.table.number_style),
        features=features,
        denotation=program.denotation,
        number=program.number,
        scale=_scale(program, operands, grid.table),
        measure=_measure(program, operands, grid.table),
    )


_WITHOUT_SCALE = {*_COUNTS, TableOperation.RATIO, TableOperation.NUMBER, TableOperation.SPAN}


def _scale(program: Program, operands: Sequence[Cell], table: DocumentTable) -> str:
    if program.operation in _PERCENTAGES:
        return "percent"
    if program.operation in _WITHOUT_SCALE or len(program.values) > MAX_LIST:
        return ""
    return scale_of_cells(table, operands[:8])


def _measure(program: Program, operands: Sequence[Cell], table: DocumentTable) -> CellMeasure:
    without = program.operation in _PERCENTAGES or program.operation in _WITHOUT_SCALE
    if without or len(program.values) > 1 or not operands:
        return CellMeasure()
    measures = {measure_of_cells(table, [cell]) for cell in operands[:8]}
    return measures.pop() if len(measures) == 1 else CellMeasure()


def _operands(program: Program, rows: RowSet, grid: RecordGrid) -> list[Cell]:
    column = program.column
    if column < 0:
        column = rows.columns[0] if rows.columns else 0
    numbers = [column] if program.other >= -1 else [column, -2 - program.other]
    cells = (grid.columns[number].cells[record] for record in program.records[:50] for number in numbers)
    return list(dict.fromkeys(cell for cell in cells if cell is not None and cell.text))


def _heads(program: Program, rows: RowSet, grid: RecordGrid) -> tuple[Cell, ...]:
    found: list[Cell | None] = []
    if program.column >= 0:
        found += grid.columns[program.column].heads
    for record, index in rows.heads:
        found.append(grid.columns[index].cells[record])
    if rows.key >= 0:
        found += grid.columns[rows.key].heads
    return tuple(dict.fromkeys(cell for cell in found if cell is not None and cell.text))


def _format(program: Program, operands: Sequence[Cell], style: NumberStyle) -> str:
    number = Decimal(0) if program.number is None else program.number
    if program.operation in _COUNTS or program.operation is TableOperation.NUMBER:
        return f"{number.normalize():f}"
    sign = style.decimal_sign or "."
    if program.operation in _PERCENTAGES:
        plus = "+" if program.operation is TableOperation.PERCENT_CHANGE and number > 0 else ""
        minus = "-" if number < 0 else ""
        return f"{plus or minus}{write_figures(number, 1, '', sign)} %"
    if program.operation is TableOperation.RATIO:
        return f"{'-' if number < 0 else ''}{write_figures(number, 2, '', sign)}"
    return format_number(number, [cell.text for cell in operands], style)


_SIGNS = {
    TableOperation.SUM: " + ",
    TableOperation.AVERAGE: " + ",
    TableOperation.DIFFERENCE: " − ",
    TableOperation.RATIO: " ÷ ",
    TableOperation.SHARE: " ÷ ",
}


def _arithmetic(program: Program, operands: Sequence[Cell], text: str, style: NumberStyle) -> str:
    operation = program.operation
    if operation in _COUNTS:
        return f"{len(program.records)} rows: {text}"
    if operation is TableOperation.RANGE and operands:
        ordered = sorted(operands, key=lambda cell: parse_cell(cell.text, style).number or Decimal(0))
        return f"{ordered[-1].text} − {ordered[0].text} = {text}"
    texts = [_without_sign(cell.text) if program.is_unsigned else cell.text for cell in operands]
    if operation is TableOperation.PERCENT_CHANGE and len(texts) == 2:
        return f"{texts[1]} → {texts[0]}: {text}"
    joined = _join(texts, _SIGNS.get(operation, "; "))
    if operation is TableOperation.AVERAGE:
        joined = f"({joined}) ÷ {len(texts)}"
    return f"{joined} = {text}" if texts else text


def _without_sign(text: str) -> str:
    """Return an amount without its minus or the brackets that stand for it.

    >>> _without_sign("(2,655)"), _without_sign("−12.5 %"), _without_sign("1.452,40-")
    ('2,655', '12.5 %', '1.452,40')
    """
    return _SIGN.sub("", text)


def _join(texts: Sequence[str], sign: str) -> str:
    shown: Iterable[str] = texts if len(texts) <= 8 else [*texts[:7], "…"]
    return sign.join(shown)
