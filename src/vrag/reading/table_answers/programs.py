"""Small programs over a grid: a set of records, a column and an operation give values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice

from vrag.reading.table_answers.arithmetic import combine_pairs, match_pairs, numeric_columns
from vrag.reading.table_answers.matching import TermMatches
from vrag.reading.table_answers.operations import MAX_LIST, Program, TableOperation
from vrag.reading.table_answers.question import TableQuestion
from vrag.reading.table_answers.records import GridColumn, RecordGrid, fold
from vrag.reading.table_answers.row_sets import RowSet, Selection
from vrag.text.numerals import add, divide, subtract

MAX_PROGRAMS = 1500
"""Programs for one question and table."""


_MEASURED = re.compile(r"\bhow many (?:hundred|thousand|million|billion)s?\b", re.IGNORECASE)
"""The beginning of a question for a figure in that scale, which counts no rows."""
_EXTREME = {Selection.MAXIMUM: TableOperation.MAXIMUM, Selection.MINIMUM: TableOperation.MINIMUM}


def write_programs(
    question: TableQuestion,
    grid: RecordGrid,
    matches: TermMatches,
    sets: Sequence[RowSet],
    *,
    lookups: bool = False,
) -> list[Program]:
    """Return the programs for a question, at most `MAX_PROGRAMS`; without operations if `lookups`."""
    columns = _projected(grid, matches)
    streams = [_lookups(grid, sets, columns, question)]
    if not lookups:
        streams += [
            _counts(question, grid, sets),
            _aggregates(question, grid, sets, columns),
            combine_pairs(question, grid, sets, columns),
            _frequencies(question, grid, sets, columns),
            _yes_or_no(question, sets, columns),
        ]
    share = [0.55, 0.1, 0.12, 0.14, 0.05, 0.04] if not lookups else [1.0]
    found: dict[tuple[object, ...], Program] = {}
    plain = {Selection.ALL, Selection.MATCH, Selection.BOTH, Selection.EITHER}
    for stream, part in zip(streams, share, strict=True):
        for program in islice(stream, int(part * MAX_PROGRAMS)):
            rows = sets[program.rows]
            if lookups and rows.selection not in plain:
                continue
            key = program.operation, program.denotation, rows.selection, rows.key, program.column, rows.mask
            found.setdefault(key, program)
    return list(found.values())


def _projected(grid: RecordGrid, matches: TermMatches) -> list[GridColumn]:
    """Return the columns that may hold the answer, those with matching heads first."""
    weights = {column.index: matches.weight(matches.match(column.terms)[0]) for column in grid.columns}
    ordered = sorted(grid.columns, key=lambda column: -weights[column.index])
    return ordered[:14] + [column for column in ordered[14:] if column.index in (0, 1)]


def _lookups(
    grid: RecordGrid, sets: Sequence[RowSet], columns: Sequence[GridColumn], question: TableQuestion
) -> Iterator[Program]:
    number_asked = question.has(
        "how many", "how much", "how long", "how old", "difference", "percent", "which year"
    )
    for number, rows in enumerate(sets):
        if len(rows.records) > 40 and rows.selection is not Selection.ALL:
            continue
        for column in columns:
            texts = _texts(column, rows.records[:60])
            if not texts or len(texts) > MAX_LIST:
                continue
            operation = _EXTREME.get(rows.selection, TableOperation.LOOKUP)
            if operation is not TableOperation.LOOKUP:
                operation = TableOperation.WHICH_OF if rows.parent is Selection.EITHER else operation
            elif column.is_head and grid.across:
                operation = TableOperation.HEAD
            elif len(texts) > 1:
                operation = TableOperation.LIST
            records = tuple(record for record in rows.records if fold(column.texts[record]))
            yield Program(operation, number, -1, column.index, texts, records=records)
            if len(rows.records) == 1 and number_asked:
                yield from _parts(column, rows.records[0], number, column.index)


def _texts(column: GridColumn, records: Sequence[int]) -> tuple[str, ...]:
    """Return the different texts of some cells."""
    found: dict[str, str] = {}
    for record in records:
        text = column.texts[record]
        folded = fold(text)
        if folded:
            found.setdefault(folded, text)
            if len(found) > MAX_LIST:
                break
    return tuple(found.values())


def _parts(column: GridColumn, record: int, number: int, where: int) -> Iterator[Program]:
    """Yield the number that stands in a cell beside other words, and the length of a span of years."""
    value = column.values[record]
    if value.number is not None and not value.whole:
        yield Program(TableOperation.NUMBER, number, -1, where, (), value.number, (record,))
    if value.day is not None and value.day.year:
        yield Program(TableOperation.NUMBER, number, -1, where, (), Decimal(value.day.year), (record,))
    if value.number is not None and value.second is not None:
        yield Program(
            TableOperation.SPAN,
            number,
            -1,
            where,
            (),
            subtract(value.second.copy_abs(), value.number).copy_abs(),
            (record,),
        )


def _counts(question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet]) -> Iterator[Program]:
    if not question.has("how many", "how much", "times", "total", "difference"):
        return
    if (question.cjk and not question.has("how many")) or _MEASURED.search(question.text):
        return
    for number, rows in enumerate(sets):
        if rows.selection not in _EXTREME and rows.selection not in {Selection.FIRST, Selection.LAST}:
            yield Program(TableOperation.COUNT, number, -1, -1, (), Decimal(len(rows.records)), rows.records)
    for number, rows in enumerate(sets[:12]):
        for where, column in enumerate(grid.columns):
            distinct = len({fold(column.texts[record]) for record in rows.records} - {""})
            if 1 < distinct < len(rows.records):
                yield Program(
                    TableOperation.COUNT_DISTINCT, number, -1, where, (), Decimal(distinct), rows.records
                )
    if question.has("difference", "than"):
        for one, two in match_pairs(sets):
            count = abs(len(sets[one].records) - len(sets[two].records))
            records = (*sets[one].records, *sets[two].records)
            yield Program(TableOperation.COUNT_DIFFERENCE, one, two, -1, (), Decimal(count), records)


_AGGREGATE_CJK = "total", "average", "difference", "change"
_AGGREGATE = *_AGGREGATE_CJK, "how many", "how much", "how long", "percent", "and", "what"


def _of_first_kind(column: GridColumn, records: Sequence[int]) -> tuple[int, ...]:
    """Return the records with numbers that are percentages if the first one is, and none if it is not."""
    numbered = [record for record in records if column.values[record].number is not None]
    kinds = {record: column.values[record].unit == "%" for record in numbered}
    return tuple(record for record in numbered if kinds[record] == kinds[numbered[0]])


def _aggregates(
    question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet], columns: Sequence[GridColumn]
) -> Iterator[Program]:
    """Yield sums and the like; never over records that sum up others."""
    if not question.has(*(_AGGREGATE_CJK if question.cjk else _AGGREGATE)):
        return
    wanted = [
        number
        for number, rows in enumerate(sets)
        if len(rows.records) >= 2 and rows.selection not in _EXTREME and grid.totals.isdisjoint(rows.records)
    ]
    for number in wanted[:24]:
        rows = sets[number]
        for column in numeric_columns(columns)[:8]:
            records = _of_first_kind(column, rows.records)
            cells = (column.values[record].number for record in records)
            values = [value for value in cells if value is not None]
            if len(values) < 2:
                continue
            where = column.index
            total = add(values)
            results = [(TableOperation.SUM, total)]
            if question.has("average"):
                results.append((TableOperation.AVERAGE, divide(total, Decimal(len(values)))))
            if question.has("difference", "how many", "between", "how long", "change"):
                results.append((TableOperation.RANGE, subtract(max(values), min(values))))
            for operation, value in results:
                yield Program(operation, number, -1, where, (), value, records)


_ORDERED = {Selection.FIRST, Selection.LAST, Selection.MAXIMUM, Selection.MINIMUM}


def _frequencies(
    question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet], columns: Sequence[GridColumn]
) -> Iterator[Program]:
    """Yield the commonest and rarest values of columns, and comparisons of counts."""
    if not question.has(
        "most", "least", "highest", "lowest", "times", "comparative", "or", "superlative", "only"
    ):
        return
    wanted = [n for n, rows in enumerate(sets) if len(rows.records) >= 3][:5]
    for number in wanted:
        rows = sets[number]
        for column in columns:
            if column.distinct >= 1:
                continue
            counts = Counter(fold(column.texts[record]) for record in rows.records)
            counts.pop("", None)
            if len(counts) < 2:
                continue
            where = column.index
            for operation, limit in (
                (TableOperation.MOST_FREQUENT, max(counts.values())),
                (TableOperation.LEAST_FREQUENT, min(counts.values())),
            ):
                chosen = {text for text, count in counts.items() if count == limit}
                records = [record for record in rows.records if fold(column.texts[record]) in chosen]
                texts = _texts(column, records)
                if len(texts) <= 3:
                    yield Program(operation, number, -1, where, texts, records=tuple(records))
    yield from _compare_counts(grid, sets)


def _yes_or_no(
    question: TableQuestion, sets: Sequence[RowSet], columns: Sequence[GridColumn]
) -> Iterator[Program]:
    """Yield whether the first of two records that the question names has more than the second."""
    if not question.has("yes no") or question.has("or"):
        return
    for one, two in match_pairs(sets)[:6]:
        first, second = sorted((one, two), key=lambda number: sets[number].mask & -sets[number].mask)
        records = sets[first].records[0], sets[second].records[0]
        for column in columns[:8]:
            a, b = (column.positions[record] for record in records)
            if a != b and math.isfinite(a) and math.isfinite(b):
                answers = ("是", "否") if question.cjk else ("yes", "no")
                up = not question.has("less", "before", "lowest", "least")
                answer = answers[int(bool(a > b) is not up)]
                yield Program(TableOperation.YES_NO, first, second, column.index, (answer,), records=records)


def _compare_counts(grid: RecordGrid, sets: Sequence[RowSet]) -> Iterator[Program]:
    """Yield which of two names occurs in more records, and which in fewer."""
    for one, two in match_pairs(sets):
        a, b = len(sets[one].records), len(sets[two].records)
        if a != b:
            winner, loser = (one, two) if a > b else (two, one)
            for operation, chosen in (
                (TableOperation.COMPARISON, winner),
                (TableOperation.LEAST_FREQUENT, loser),
            ):
                rows = sets[chosen]
                column = grid.columns[rows.columns[0]]
                texts = _texts(column, rows.records)[:1]
                if texts:
                    other = loser if chosen == winner else winner
                    yield Program(operation, chosen, other, rows.columns[0], texts, records=rows.records)
