"""Comparison of a value that an answer states with one that a page has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from itertools import product
from typing import NamedTuple, cast

from vrag.reading.table_answers.values import Day
from vrag.reading.verification.text_values import TextValue
from vrag.reading.verification.units import Unit
from vrag.text.numerals import divide, is_rounding_of, multiply, subtract

_ZERO, _ONE = Decimal(0), Decimal(1)
_MONEY = frozenset("USD EUR GBP JPY CNY CHF INR KRW RUB".split())


class Agreement(IntEnum):
    """The agreement of a value of a page with a stated one; the lower, the better."""

    SAME = 0
    LOOSE = 1
    """The same number, with a unit or scale that the page does not state near it."""
    OTHER_FORM = 2
    """The same number with another unit, scale or sign."""
    OTHER_VALUE = 3
    """A value of the same kind, with another number."""
    UNLIKE = 4
    """A value of another kind."""


@dataclass(frozen=True, slots=True)
class ValueContext:
    """The information that the text around a value gives about it."""

    units: frozenset[Unit] = frozenset()
    """Units that its heads or its caption name."""
    scales: frozenset[Decimal] = frozenset()
    """The scales that its heads, its caption or its page name, as thousands; empty if none is named."""
    is_cell: bool = False
    """True for a cell of a table or a labelled value, whose unit need not stand beside it."""
    words: str = ""
    """Words that may make it negative, such as "decrease"."""

    @property
    def falls(self) -> bool:
        """True if its words speak of a decrease or a loss."""
        return _FALLS.search(self.words) is not None


@dataclass(frozen=True, slots=True)
class Rounding:
    """The freedom of a stated number to differ from the exact one."""

    about: bool = False
    """"About", "nearly": the zeros at its end count as rounded."""
    asked: bool = False
    """The question asks for a rounded number."""


_FALLS = re.compile(
    r"""\b(?:decreas|declin|fell\b|fall|drop|lower|down\b|reduc|loss|lost\b|shrank|shrink|negative|minus|deficit
    |slump|plung) | 下降|减少|減少|降低|下跌|亏损|负|負""",
    re.IGNORECASE | re.VERBOSE,
)
_ABOUT = re.compile(
    r"""(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|circa|ca\.|some|over|under
    |more\ than|less\ than|at\ least|at\ most|up\ to|close\ to|just\ (?:over|under)|an?\ estimated) | [~≈<>≥≤]
    | 约|約|大约|大約|将近|近|超过|超過|不到|至少)\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_ASKS_ROUNDING = re.compile(
    r"\bround|\bdecimal|\binteger|\bint format|\bwhole number|\bapproximate|\babout how|四舍五入|取整|小数",
    re.IGNORECASE,
)


def read_rounding(question: str, before: str) -> Rounding:
    """Return the rounding that a question asks for, and that the text before a number states."""
    return Rounding(_ABOUT.search(before[-24:]) is not None, _ASKS_ROUNDING.search(question) is not None)


def compare(
    claim: TextValue,
    value: TextValue,
    *,
    claimed: ValueContext = ValueContext(),
    around: ValueContext = ValueContext(),
    rounding: Rounding = Rounding(),
) -> Agreement:
    """Compare a stated value with one of a page, each with what stands around it."""
    if claim.clock is not None or value.clock is not None:
        if claim.clock is None or value.clock is None:
            return Agreement.UNLIKE
        return Agreement.SAME if claim.clock == value.clock else Agreement.OTHER_VALUE
    if claim.day is not None and value.day is not None:
        return _compare_days(claim.day, value.day)
    if claim.day is not None or value.day is not None:
        year, number = (claim, value) if claim.day is not None else (value, claim)
        return Agreement.SAME if _is_number_of(year.day, number) else Agreement.UNLIKE
    return _compare_numbers(claim, value, claimed, around, rounding)


def _compare_days(claim: Day, value: Day) -> Agreement:
    """Compare two dates; a claim need not state the day or the month, a page need not state the year."""
    if claim.month and not value.month:
        return Agreement.UNLIKE
    if claim.day and not value.day:
        same = (claim.month, claim.year or value.year) == (value.month, value.year or claim.year)
        return Agreement.UNLIKE if same else Agreement.OTHER_VALUE
    same = (
        (not claim.year or not value.year or claim.year == value.year)
        and (not claim.month or claim.month == value.month)
        and (not claim.day or claim.day == value.day)
        and (claim.month > 0 or claim.year == value.year)
    )
    return Agreement.SAME if same else Agreement.OTHER_VALUE


def _is_number_of(day: Day | None, value: TextValue) -> bool:
    """Return whether a year is the same number as a value, as 1500 and 1,500."""
    return day is not None and not day.month and value.step == 1 and value.amount == day.year


def _compare_numbers(
    claim: TextValue, value: TextValue, claimed: ValueContext, around: ValueContext, rounding: Rounding
) -> Agreement:
    if claim.ordinal != value.ordinal and (claim.ordinal or value.spelled):
        return Agreement.UNLIKE
    shared = _shared_factors(claim.units, value.units or tuple(around.units))
    sizes = list(_list_sizes(claim, value, shared, around))
    if not any(_is_rounded(one, two, rounding) for one, two in sizes):
        if any(_is_rounded(two, one, rounding) for one, two in sizes):
            return Agreement.UNLIKE  # the page has fewer digits: it neither says the others nor denies them
        if _have_same_digits(claim, value):
            return _compare_scales(claim, value, around)
        is_like = _are_alike(claim.units, value.units, around)
        return Agreement.OTHER_VALUE if is_like else Agreement.UNLIKE
    if not _signs_agree(claim, value, claimed, around):
        return Agreement.OTHER_FORM
    if not claim.units or shared:
        return Agreement.SAME
    is_other = _are_in_conflict(claim.units, value.units, around.units)
    return Agreement.OTHER_FORM if is_other else Agreement.LOOSE


def _shared_factors(claim: Sequence[Unit], own: Sequence[Unit]) -> list[tuple[Decimal, Decimal]]:
    """Return the sizes of the units of one dimension that two numbers may be in."""
    return [(a.factor, b.factor) for a in claim for b in own if a.dimension == b.dimension]


class _Size(NamedTuple):
    """A number without its sign, in some unit and scale."""

    amount: Decimal
    step: Decimal
    """The worth of one unit of its last written digit."""


def _list_sizes(
    claim: TextValue, value: TextValue, shared: Sequence[tuple[Decimal, Decimal]], around: ValueContext
) -> Iterator[tuple[_Size, _Size]]:
    """Yield the sizes that two numbers may have, by the units and scales that they may be in."""
    if claim.other_size is not None and claim.other_size == _size(value):
        yield _Size(claim.other_size, _ZERO), _Size(claim.other_size, _ZERO)
    scales = {_ONE, value.other_scale, *(around.scales if value.scale == 1 else ())}
    for own, scale in product({_ONE, claim.other_scale}, scales):
        for a, b in shared or ((_ONE, _ONE),):
            yield _scaled(claim, multiply(a, own)), _scaled(value, multiply(b, scale))


def _scaled(value: TextValue, factor: Decimal) -> _Size:
    return _Size(multiply(_size(value), factor), multiply(value.step, factor))


def _size(value: TextValue) -> Decimal:
    """Return a number without its sign."""
    return (value.amount or _ZERO).copy_abs()


def _is_rounded(written: _Size, exact: _Size, rounding: Rounding) -> bool:
    """Return whether a number is another one, or that rounded at the precision that it is written with.

    One digit alone is no rounded number unless the answer or the question says so.
    """
    number, step = written
    if number == exact.amount:
        return True
    if rounding.about and number and exact.step <= step:
        return subtract(number, exact.amount).copy_abs() <= _rounded_step(number, step)
    is_rounded = exact.step < step and (number >= 10 * step or rounding.asked)
    return is_rounded and is_rounding_of(number, exact.amount, step)


def _rounded_step(number: Decimal, step: Decimal) -> Decimal:
    """Return what the last digit other than 0 of a number is worth, but not less than that of its last digit."""
    last = Decimal(1).scaleb(cast("int", number.normalize().as_tuple().exponent))
    return max(step, last)


def _have_same_digits(claim: TextValue, value: TextValue) -> bool:
    """Return whether two numbers only differ by their scale or unit: 3.2 million and 3.2 billion."""
    return divide(_size(claim), claim.scale) == divide(_size(value), value.scale)


def _compare_scales(claim: TextValue, value: TextValue, around: ValueContext) -> Agreement:
    """Compare numbers of the same digits with different scales or units."""
    are_unlike = bool(claim.units and value.units) and _classes(claim.units).isdisjoint(_classes(value.units))
    if are_unlike and claim.scale != value.scale:
        return Agreement.UNLIKE
    if value.scale == 1 and claim.scale != 1:
        if claim.scale in around.scales:
            return Agreement.SAME
        is_other = bool(around.scales) or "percent" in _classes(value.units or around.units)
        return Agreement.OTHER_FORM if is_other else Agreement.LOOSE
    if (
        claim.scale == 1
        and value.scale != 1
        and (not claim.units or _shared_factors(claim.units, value.units))
    ):
        return Agreement.LOOSE
    return Agreement.OTHER_FORM


def _are_alike(units: Sequence[Unit], own: Sequence[Unit], around: ValueContext) -> bool:
    """Return whether two different numbers measure the same kind of thing."""
    if not own and around.is_cell:
        return not units or not around.units or not _classes(units).isdisjoint(_classes(around.units))
    if not units or not own:
        return not units and not own
    return not _classes(units).isdisjoint(_classes(own))


def _classes(units: Iterable[Unit]) -> set[str]:
    return {"money" if unit.dimension in _MONEY else unit.dimension for unit in units}


def _are_in_conflict(claim: Sequence[Unit], own: Sequence[Unit], heads: Iterable[Unit]) -> bool:
    """Return whether a number with these units cannot be in the claimed ones.

    Heads may name units of other numbers too, so that only money and percent are in conflict there.
    """
    if own:
        return True
    both = {"money", "percent"}
    return bool(_classes(claim) & both and _classes(heads) & both)


def _signs_agree(claim: TextValue, value: TextValue, claimed: ValueContext, around: ValueContext) -> bool:
    if not claim.amount or not (claim.sure_sign and value.sure_sign):
        return True
    minus, own = claim.amount < 0, (value.amount or _ZERO) < 0
    if minus == own:
        return True
    return around.falls if minus else claimed.falls
