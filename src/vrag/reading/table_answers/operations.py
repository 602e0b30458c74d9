"""Operations over the records of a table, and programs: a set of records, a column and an operation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum

from vrag.reading.table_answers.records import fold

MAX_LIST = 14
"""Answers of one list."""


class TableOperation(StrEnum):
    """The operation of a program on the records that it selects."""

    LOOKUP = "lookup"
    LIST = "list"
    NUMBER = "number in a cell"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    WHICH_OF = "which of"
    COUNT = "count"
    COUNT_DISTINCT = "count of different values"
    SUM = "sum"
    AVERAGE = "average"
    RANGE = "range"
    DIFFERENCE = "difference"
    RATIO = "ratio"
    PERCENT_CHANGE = "percent change"
    SHARE = "share"
    COUNT_DIFFERENCE = "difference of counts"
    MOST_FREQUENT = "most frequent"
    LEAST_FREQUENT = "least frequent"
    SPAN = "span of one cell"
    HEAD = "head"
    COMPARISON = "comparison"
    YES_NO = "yes or no"


OPERATIONS = tuple(TableOperation)
_SIX_DIGITS = Context(prec=6)


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its result."""

    operation: TableOperation
    rows: int
    """Number of the set of records."""
    other: int
    """Number of the second set; -1 without one."""
    column: int
    """Number of the column; -1 without one."""
    values: tuple[str, ...]
    """Texts of cells; empty where the answer is computed."""
    number: Decimal | None = None
    """The computed answer; None where it is read."""
    records: tuple[int, ...] = ()
    """Records whose cells give the answer or are computed with."""
    is_unsigned: bool = False
    """True if it was computed with amounts without their signs: costs, which accounts write as negative."""

    @property
    def denotation(self) -> tuple[str, ...]:
        """The key of the answer: equal for programs that give the same one."""
        if self.values:
            return tuple(sorted({fold(value) for value in self.values}))
        number = Decimal(0) if self.number is None else self.number
        return (str(_SIX_DIGITS.create_decimal(number).normalize()),)
