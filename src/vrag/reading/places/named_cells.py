"""Answers from tables that a file has as such: the one cell that a question names by its row and column.

Where the file itself says what is a cell, the words of its row and its column together are all words of the
question, and no other cell fits, nothing is left to be guessed. The only column of values needs no name.
So with a financial ratio that a question names: it is computed from the lines of the statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole, Reading
from vrag.reading.page_candidates import asks_to_compute, describe_rows, frame_rows, split_title
from vrag.reading.places.field_answers import PROBABILITY, UNANSWERED, common_words, is_answer, name_terms
from vrag.reading.questions.answer_form import measure_answer, read_form, write_answer
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.query_analysis import without_form
from vrag.reading.table_answers.ratios import RatioOperand, StatementPage, compute_ratio
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.types import Item


def find_named_cell(question: str, pages: Iterable[tuple[Item, Sequence[DocumentTable]]]) -> Reading | None:
    """Return the cell that a question names; None if none or several of different text do.

    Args:
        question: The question.
        pages: Items with their tables; only those of sheets and of files that have tables as such count.
    """
    kind = find_focus(question).kind
    if kind in UNANSWERED or kind is AnswerKind.YES_NO:
        return None
    found = [
        _read_cell(item.id, table, cell)
        for item, tables in pages
        if item.facts.worksheet or item.facts.tables
        for table in tables
        for cell in _list_named(question, kind, table)
    ]
    if len({reading.text for reading in found}) != 1:
        return None
    return found[0] if is_answer(question, kind, found[0]) else None


def _list_named(question: str, kind: AnswerKind, table: DocumentTable) -> Iterator[Cell]:
    """Yield the cells of a table whose heads have the words of a question, and no others."""
    asked, common = name_terms(without_form(question)), common_words(kind)
    columns = {
        column: name_terms(" ".join(split_title(table, column)[1]))
        for column in range(table.header_columns, table.width)
    }
    rows = {
        row: name_terms(" ".join(head.text for head in table.row_heads(row)))
        for row in range(table.header_rows, table.height)
    }
    for cell in table.cells:
        row, column = rows.get(cell.row), columns.get(cell.column)
        if not row or column is None or not cell.text.strip():
            continue
        is_named = (
            _is_named(asked, row, column, common)
            if len(columns) > 1
            else asked & row and asked ^ row <= common | column and not row <= common
        )
        if is_named and not asks_to_compute(question, row | column):
            yield cell


def _is_named(
    asked: frozenset[str], row: frozenset[str], column: frozenset[str], common: frozenset[str]
) -> bool:
    """Return whether a question has the words of a row and of a column, and no others but common ones."""
    if row <= column or column <= row or not asked & row or not asked & column:
        return False
    return asked ^ (row | column) <= common


def _read_cell(item: str, table: DocumentTable, cell: Cell) -> Reading:
    heads = (*table.row_heads(cell.row), *table.column_heads(cell.column))
    marked = [(MarkRole.ANSWER, cell), *((MarkRole.HEAD, head) for head in heads)]
    return Reading(
        item=item,
        text=cell.text,
        context=describe_rows(table, [cell]),
        probability=PROBABILITY,
        is_certain=True,
        frame=frame_rows(table, [cell]),
        marks=tuple(Mark(role, each.box) for role, each in marked if each.box is not None),
    )


def find_named_ratio(question: str, pages: Iterable[tuple[Item, Sequence[DocumentTable]]]) -> Reading | None:
    """Return the financial ratio that a question names; None if it names none or a line of it is unclear.

    Args:
        question: The question.
        pages: Items with their tables.
    """
    if find_focus(question).kind in {
        AnswerKind.YES_NO,
        AnswerKind.REASON,
        AnswerKind.MANNER,
        AnswerKind.LIST,
    }:
        return None
    statements = [
        StatementPage(item.document, item.document_name, item.id, item.text, tables) for item, tables in pages
    ]
    answer = compute_ratio(question, statements)
    if answer is None:
        return None
    form = read_form(question)
    scale = "percent" if answer.unit == "%" else answer.measure.scale
    text = write_answer(answer.text, form, number=answer.number, scale=scale)
    measured = measure_answer(text, form, answer.measure, number=answer.number)
    items = list(dict.fromkeys(operand.item for operand in answer.operands))
    first, *others = (
        _read_operands(item, [operand for operand in answer.operands if operand.item == item])
        for item in items
    )
    return replace(
        first,
        text=measured.text,
        measure=measured.measure,
        arithmetic=" · ".join(filter(None, (answer.arithmetic, measured.arithmetic))),
        probability=PROBABILITY,
        is_certain=True,
        further=tuple(others),
    )


def _read_operands(item: str, operands: Sequence[RatioOperand]) -> Reading:
    """Return the cells on one page that a ratio is computed from."""
    marks: list[Mark] = []
    for operand in operands:
        marks += (Mark(MarkRole.OPERAND, box) for box in [operand.cell.box] if box is not None)
        heads = (*operand.table.row_heads(operand.cell.row), *operand.table.column_heads(operand.cell.column))
        marks += (Mark(MarkRole.HEAD, head.box) for head in heads if head.box is not None and not head.item)
    cells = [operand.cell for operand in operands]
    frames = [
        frame
        for operand in operands
        if (frame := frame_rows(operand.table, [operand.cell])) is not None and not operand.cell.item
    ]
    return Reading(
        item=item,
        text="",
        context=describe_rows(operands[0].table, cells),
        frame=Box.around(frames) if frames else None,
        marks=tuple(dict.fromkeys(marks)),
    )
