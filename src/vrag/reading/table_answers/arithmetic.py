"""Programs that compute with the values of two records or of two columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from vrag.reading.table_answers.operations import Program, TableOperation
from vrag.reading.table_answers.question import TableQuestion
from vrag.reading.table_answers.records import GridColumn, RecordGrid
from vrag.reading.table_answers.row_sets import RowSet, Selection
from vrag.text.numerals import divide, multiply, subtract

_HUNDRED = Decimal(100)
_COST = re.compile(
    r"""\b(?:costs?|expens\w+|expenditures?|charges?|wages|salar(?:y|ies)|payroll|fuel|tax(?:es|ation)?
    |interest(?!\ (?:income|received))|depreciation|amorti[sz]ation|purchases?|rents?|payments?|spending
    |outlays?|overheads?|impairments?|dividends\ paid|\w*kosten|\w*aufwand|aufwendungen|\w*ausgaben|löhne
    |gehälter|abschreibungen|steuern|coûts?|dépenses|salaires)\b | 费用|成本|支出|开支|費用""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names of amounts that are spent, which many accounts write as negative numbers."""
_BALANCE = re.compile(
    r"""\b(?:profits?|loss(?:es)?|results?|earnings|margin|ebit\w*|balance|equity|cash\ flows?|deficit|surplus
    |(?:net|operating|comprehensive)\ income|gains?|ergebnis|gewinn|verlust|saldo)\b | 利润|亏损|余额""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names of what is left, which may be negative itself."""


def match_pairs(sets: Sequence[RowSet]) -> list[tuple[int, int]]:
    """Return pairs of sets that different words select in the same column."""
    matched = [n for n, rows in enumerate(sets) if rows.selection in {Selection.MATCH, Selection.BOTH}][:22]
    pairs = [
        (one, two)
        for position, one in enumerate(matched)
        for two in matched[position + 1 :]
        if sets[one].columns == sets[two].columns
        and sets[one].mask & ~sets[two].mask
        and sets[two].mask & ~sets[one].mask
        and not set(sets[one].records) & set(sets[two].records)
    ]
    return sorted(pairs, key=lambda pair: -sets[pair[0]].weight - sets[pair[1]].weight)[:24]


def numeric_columns(columns: Sequence[GridColumn]) -> list[GridColumn]:
    """Return the columns that may be computed with."""
    return [column for column in columns if column.numeric + column.leads > 0.4 and not column.is_head]


def are_of_one_kind(column: GridColumn, records: Sequence[int]) -> bool:
    """Return whether all or none of some numbers are percentages."""
    return len({column.values[record].unit == "%" for record in records if column.texts[record]}) <= 1


def combine_pairs(
    question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet], columns: Sequence[GridColumn]
) -> Iterator[Program]:
    """Yield results of arithmetic between the values that two records have in one column."""
    operations = _pair_operations(question)
    if not operations:
        return
    pairs = [pair for pair in match_pairs(sets) if all(len(sets[n].records) <= 2 for n in pair)][:14]
    pairs += _default_pairs(grid, sets) if grid.across else _part_pairs(grid, sets)
    for one, two in pairs:
        for column in numeric_columns(columns)[:10]:
            records = sets[one].records[0], sets[two].records[0]
            new, old = (column.values[record].number for record in records)
            if new is None or old is None or not are_of_one_kind(column, records):
                continue
            is_cost = new < 0 and old < 0 and _is_cost(question, grid, column, records)
            values = (new.copy_abs(), old.copy_abs()) if is_cost else (new, old)
            place = one, two, column.index
            for operation in operations:
                found = _combined(operation, place, values, records)
                yield from (replace(program, is_unsigned=is_cost) for program in found)
    if not grid.across and grid.size <= 60:
        yield from _column_pairs(question, grid, sets, operations)


def _is_cost(question: TableQuestion, grid: RecordGrid, column: GridColumn, records: Sequence[int]) -> bool:
    """Return whether two negative numbers are amounts that are spent: one that grows is a growth."""
    heads = [other.texts[record] for other in grid.columns if other.is_head for record in records]
    return is_spent(" ".join([column.name, *heads]), question.text)


def is_spent(names: str, words: str) -> bool:
    """Return whether negative amounts with some heads are what is spent, by the heads and other words.

    >>> is_spent("Fuel 2024", ""), is_spent("Other 2024", "the other costs"), is_spent("Loss", "after costs")
    (True, True, False)
    """
    return _COST.search(f"{names} {words}") is not None and _BALANCE.search(names) is None


def _default_pairs(grid: RecordGrid, sets: Sequence[RowSet]) -> list[tuple[int, int]]:
    """Return the pair of the first two records, as sets that select them by their place."""
    single = [n for n, rows in enumerate(sets) if len(rows.records) == 1]
    by_record: dict[int, int] = {}
    for number in single:
        by_record.setdefault(sets[number].records[0], number)
    return [(by_record[0], by_record[1])] if grid.size >= 2 and {0, 1} <= set(by_record) else []


def _part_pairs(grid: RecordGrid, sets: Sequence[RowSet]) -> list[tuple[int, int]]:
    """Return pairs of a named record and a named total, or of two of which one has all words of the other."""
    named = [n for n, rows in enumerate(sets) if rows.selection is Selection.MATCH and len(rows.records) == 1]
    return [
        (one, two)
        for one in named[:8]
        for two in named[:8]
        if sets[one].records != sets[two].records
        and sets[one].columns == sets[two].columns
        and (sets[two].records[0] in grid.totals or sets[one].mask & sets[two].mask == sets[one].mask)
    ][:6]


def _pair_operations(question: TableQuestion) -> list[TableOperation]:
    operations: list[TableOperation] = []
    if question.cjk and not question.has("difference", "change", "ratio", "percent"):
        return operations
    between = "between" in question.text.lower()  # the trigger holds for "from Orla to Saltby" too
    if between or question.has("difference", "how long", "than", "change", "how old"):
        operations.append(TableOperation.DIFFERENCE)
    if question.has("ratio", "percent", "times", "total"):
        operations += [TableOperation.RATIO, TableOperation.SHARE]
    if question.has("change", "percent", "difference"):
        operations.append(TableOperation.PERCENT_CHANGE)
    return operations


def _combined(
    operation: TableOperation,
    place: tuple[int, int, int],
    values: tuple[Decimal, Decimal],
    records: tuple[int, int],
) -> Iterator[Program]:
    """Yield the results in both directions; the second record is the base of a change."""
    one, two, where = place
    (a, b), (first, second) = values, records
    for x, y, left, right, order in ((a, b, one, two, (first, second)), (b, a, two, one, (second, first))):
        result = compute(operation, x, y)
        if result is not None:
            yield Program(operation, left, right, where, (), result, order)


def compute(operation: TableOperation, new: Decimal, old: Decimal) -> Decimal | None:
    """Return the result of an operation between two numbers; None where it has none.

    >>> compute(TableOperation.PERCENT_CHANGE, Decimal(150), Decimal(120))
    Decimal('25.00')
    """
    if operation is TableOperation.DIFFERENCE:
        return subtract(new, old)
    if old == 0:
        return None
    if operation is TableOperation.RATIO:
        return divide(new, old)
    if operation is TableOperation.SHARE:
        return multiply(_HUNDRED, divide(new, old))
    return multiply(_HUNDRED, divide(subtract(new, old), old.copy_abs()))


def _column_pairs(
    question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet], operations: Sequence[TableOperation]
) -> Iterator[Program]:
    """Yield differences between two columns of one record; `other` is then -2 - the second column."""
    named = [
        where
        for where, column in enumerate(grid.columns)
        if column.numeric + column.leads > 0.5 and not column.is_head
    ][:8]
    singles = [n for n, rows in enumerate(sets) if len(rows.records) == 1][:8]
    if TableOperation.DIFFERENCE not in operations or not question.has(
        "difference", "between", "change", "how long"
    ):
        return
    for number in singles:
        record = sets[number].records[0]
        for one in named:
            for two in named:
                values = [grid.columns[where].values[record] for where in (one, two)]
                numbers = [value.number for value in values if value.number is not None]
                kinds = {value.unit == "%" for value in values}
                if one < two and len(numbers) == 2 and len(kinds) == 1:
                    difference = subtract(*numbers).copy_abs()
                    found = Program(
                        TableOperation.DIFFERENCE, number, -2 - two, one, (), difference, (record,)
                    )
                    is_cost = max(numbers) < 0 and _is_cost(question, grid, grid.columns[one], (record,))
                    yield replace(found, is_unsigned=is_cost)
