"""Numbers of an answer that stand on no page but follow from numbers that do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from vrag.reading.answer import Reading, ReadPage
from vrag.reading.reader import read
from vrag.reading.table_answers.arithmetic import compute, is_spent
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.ratios import name_lines
from vrag.reading.table_answers.triggers import TRIGGERS
from vrag.reading.verification.comparison import Agreement, Rounding, ValueContext, compare
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.units import Unit, units_of
from vrag.reading.views.text_lines import Rect
from vrag.text.numerals import add, divide

MIN_PROBABILITY = 0.03
"""The reader's probability of a computed answer below which it proves nothing."""
MAX_OPERANDS = 10
"""Numbers of the page that are combined: those with most words of the sentence around them."""
MAX_SHORT_OPERANDS = 5
"""The same for a result of one or two digits, which many numbers give by chance."""
MAX_SUM = 8
"""Numbers of a row or column that are added up."""
_OPERATIONS = {
    TableOperation.DIFFERENCE: ("difference", "change", "than"),
    TableOperation.PERCENT_CHANGE: ("change", "percent"),
    TableOperation.SHARE: ("percent", "ratio", "total"),
    TableOperation.RATIO: ("ratio", "percent", "times"),
}
_SUMS = "total", "average"
_ZERO = Decimal(0)
_COUNTS = re.compile(r"\b(?:how many|number of|how often|count)\b|几|多少|何人|何個|いくつ", re.IGNORECASE)
_TRIGGERS = {
    name: re.compile(TRIGGERS[name], re.IGNORECASE)
    for name in {*(name for names in _OPERATIONS.values() for name in names), *_SUMS}
}
_KEEPING = frozenset({TableOperation.DIFFERENCE})
"""Operations whose result is in the unit of the operands; those of the others may be percentages."""
_PERCENT = units_of("%")
_SIGNS = {
    TableOperation.DIFFERENCE: "−",
    TableOperation.RATIO: "/",
    TableOperation.SHARE: "/",
    TableOperation.PERCENT_CHANGE: "→",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A number of a page that may have been computed with."""

    value: TextValue
    text: str
    """As the page writes it."""
    rect: Rect | None
    """Where its cell or sentence stands; None in a text without picture."""
    statement: tuple[int, int]
    """Page and number of its statement."""
    context: ValueContext
    """The words of its heads."""

    @property
    def amount(self) -> Decimal:
        """The number."""
        return self.value.amount or _ZERO


class Derivation(NamedTuple):
    """The computation by which a number follows from others."""

    text: str
    """The computation, for people: `1,210 − 1,150`."""
    operands: tuple[Operand, ...] = ()
    """The numbers; empty for a computation of the reader."""
    reading: Reading | None = None
    """The computed answer of the reader, whose marks are the cells of the numbers."""


class _Computed(NamedTuple):
    """The result of an operation."""

    amount: Decimal
    text: str
    """The computation, for people."""
    operands: tuple[Operand, ...]
    units: tuple[Unit, ...]


@dataclass
class Computations:
    """The computations that a question asks for, over the pages of the evidence."""

    question: str
    pages: Sequence[ReadPage]

    @cached_property
    def readings(self) -> list[Reading]:
        """The computed answers of the reader, the likeliest first."""
        readings = read(self.question, self.pages) if self.question else []
        return [one for one in readings if one.arithmetic and one.probability >= MIN_PROBABILITY]

    def find(
        self, claim: TextValue, sentence: str, operands: Sequence[Operand], rounding: Rounding
    ) -> Derivation | None:
        """Return how a number follows from others; None if it does not.

        Args:
            claim: The number.
            sentence: Its sentence, whose words and the question's say what may have been computed.
            operands: The numbers around which the words of the sentence stand, best first.
            rounding: How freely it may differ.
        """
        words = self.question or sentence
        named = {name for name, pattern in _TRIGGERS.items() if pattern.search(words)}
        if name_lines(words):
            return self._find_read(claim)
        if not named and not _COUNTS.search(words):
            return None
        is_short = 2 * (claim.amount or _ZERO).copy_abs() < 199 * claim.step
        for result in _combine(operands[: MAX_SHORT_OPERANDS if is_short else MAX_OPERANDS], named, words):
            if _is_result(claim, result, rounding):
                return Derivation(result.text, result.operands)
        return self._find_read(claim)

    def _find_read(self, claim: TextValue) -> Derivation | None:
        """Return the computation of the reader that gives a number."""
        for reading in self.readings:
            found = find_values(reading.text)
            if found and compare(claim, found[0], rounding=Rounding(asked=True)) <= Agreement.LOOSE:
                return Derivation(reading.arithmetic, reading=reading)
        return None


def _is_result(claim: TextValue, result: _Computed, rounding: Rounding) -> bool:
    """Return whether a number is a result, rounded to its last digit, in its unit and scale."""
    operand = result.operands[0]
    value = TextValue(0, 0, result.amount, _ZERO, result.units, scale=operand.value.scale)
    around = replace(operand.context, units=frozenset(result.units)) if result.units else operand.context
    free = Rounding(rounding.about, asked=True)
    return compare(claim, value, around=around, rounding=free) <= Agreement.LOOSE


def _combine(operands: Sequence[Operand], named: set[str], words: str) -> Iterator[_Computed]:
    """Yield the results of all operations that words name."""
    pairs = [pair for pair in combinations(operands, 2) if _belong_together(*pair)]
    for operation, triggers in _OPERATIONS.items():
        if named.isdisjoint(triggers):
            continue
        for pair in pairs:
            for one, other in (pair, pair[::-1]):
                amount = compute(operation, *_amounts_of(one, other, words))
                if amount is not None:
                    text = f"{one.text} {_SIGNS[operation]} {other.text}"
                    yield _Computed(
                        amount, text, (one, other), one.value.units if operation in _KEEPING else _PERCENT
                    )
    if not named.isdisjoint(_SUMS):
        for group in [*pairs, *_groups(operands)]:
            total = add(one.amount for one in group)
            texts = " + ".join(one.text for one in group)
            yield _Computed(total, texts, tuple(group), group[0].value.units)
            if "average" in named:
                mean = f"({texts}) / {len(group)}"
                yield _Computed(divide(total, Decimal(len(group))), mean, tuple(group), group[0].value.units)


def _amounts_of(one: Operand, other: Operand, words: str) -> tuple[Decimal, Decimal]:
    """Return two amounts, without their signs if both are spent: costs that grow are a growth."""
    names = f"{one.context.words} {other.context.words}"
    if max(one.amount, other.amount) < 0 and is_spent(names, words):
        return one.amount.copy_abs(), other.amount.copy_abs()
    return one.amount, other.amount


def _belong_together(one: Operand, other: Operand) -> bool:
    """Return whether two numbers are of one row, column or sentence."""
    if one.statement == other.statement:
        return True
    if one.rect is None or other.rect is None or one.statement[0] != other.statement[0]:
        return one.statement[0] != other.statement[0]
    shared_y = min(one.rect.y2, other.rect.y2) - max(one.rect.y1, other.rect.y1)
    shared_x = min(one.rect.x2, other.rect.x2) - max(one.rect.x1, other.rect.x1)
    return shared_y > 0 or shared_x > 0


def _groups(operands: Sequence[Operand]) -> Iterator[tuple[Operand, ...]]:
    """Yield three or more numbers of one row, column or sentence."""
    seen: set[tuple[int, ...]] = set()
    for one in operands:
        for along in (0, 1):
            group = tuple(other for other in operands if other is one or _are_in_line(one, other, along))[
                :MAX_SUM
            ]
            key = tuple(other.value.start for other in group)
            if len(group) > 2 and key not in seen:
                seen.add(key)
                yield group


def _are_in_line(one: Operand, other: Operand, along: int) -> bool:
    """Return whether two numbers stand in one row, or in one column, or in one sentence."""
    if one.statement == other.statement:
        return True
    if one.rect is None or other.rect is None or one.statement[0] != other.statement[0]:
        return False
    return min(one.rect[along + 2], other.rect[along + 2]) > max(one.rect[along], other.rect[along])
