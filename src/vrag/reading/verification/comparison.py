"""Comparison of a value that an answer states with one that a page has."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum

from vrag.reading.table_answers.values import Day
from vrag.reading.verification.text_values import TextValue
from vrag.reading.verification.units import Unit

_MONEY = frozenset("USD EUR GBP JPY CNY CHF INR KRW RUB".split())


class Agreement(IntEnum):
    """How a value of a page compares with a stated one; the lower, the better."""

    SAME = 0
    OTHER_FORM = 1
    """The same number with another unit, scale or sign."""
    OTHER_VALUE = 2
    """A value of the same kind, with another number."""
    UNLIKE = 3
    """A value of another kind."""


@dataclass(frozen=True, slots=True)
class ValueContext:
    """What the text around a value says about it."""

    units: frozenset[Unit] = frozenset()
    """Units that its heads or its caption name."""
    scale: float = 1.0
    """The scale that its heads or its caption name."""
    falls: bool = False
    """True if words around it, such as "decrease", make it negative."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """How freely a stated number may differ from the exact one."""

    about: bool = False
    """"About", "nearly": the zeros at its end count as rounded."""
    asked: bool = False
    """The question asks for a rounded number."""


_ABOUT = re.compile(
    r"""(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|circa|ca\.|some|over|under|more\ than
    |less\ than|at\ least|at\ most|up\ to|close\ to|just\ (?:over|under)|an?\ estimated) | [~≈<>≥≤] | 约|約|大约
    |大約|将近|近|超过|超過|不到|至少)\s*$""",
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
        return _compare_clocks(claim, value)
    if claim.day is not None and value.day is not None:
        return _compare_days(claim.day, value.day)
    one, other = _as_number(claim), _as_number(value)
    if one is None or other is None:
        return Agreement.UNLIKE
    return _compare_numbers(one, other, claimed, around, rounding)


def _compare_clocks(claim: TextValue, value: TextValue) -> Agreement:
    if claim.clock is None or value.clock is None:
        return Agreement.UNLIKE
    return Agreement.SAME if claim.clock == value.clock else Agreement.OTHER_VALUE


def _compare_days(claim: Day, value: Day) -> Agreement:
    """Compare two dates; a year that the page leaves out, and a day that the claim leaves out, are no matter."""
    if claim.month and not value.month:
        return Agreement.UNLIKE if claim.year == value.year else Agreement.OTHER_VALUE
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


def _as_number(value: TextValue) -> TextValue | None:
    """Return a number, or a year as the number that it may also be; None for other dates."""
    if value.amount is not None:
        return value
    day = value.day
    if day is None or day.month or day.day:
        return None
    return TextValue(value.start, value.end, float(day.year))


def _compare_numbers(
    claim: TextValue, value: TextValue, claimed: ValueContext, around: ValueContext, rounding: Rounding
) -> Agreement:
    amount, other = claim.amount or 0.0, value.amount or 0.0
    if claim.ordinal != value.ordinal and (claim.ordinal or value.spelled):
        return Agreement.UNLIKE
    units, own = claim.units or tuple(claimed.units), value.units or tuple(around.units)
    shared = _common_factors(claim.units, own)
    is_like = bool(shared) or not claim.units or not own
    scales = {1.0, value.other_scale, around.scale if value.scale == 1 else 1.0}
    claims = {amount, amount * claim.other_scale}
    pairs = [
        (a * f, other * s * g, f, s * g) for a in claims for s in scales for f, g in shared or [(1.0, 1.0)]
    ]
    equal = any(
        _are_equal(
            abs(a),
            abs(b),
            claim.step * f * (claim.other_scale if a != amount * f else 1),
            value.step * g,
            rounding,
        )
        for a, b, f, g in pairs
    )
    if not equal:
        digits = _digits_agree(claim, value)
        if digits:
            return Agreement.OTHER_FORM
        return Agreement.OTHER_VALUE if is_like and _are_alike(units, own) else Agreement.UNLIKE
    if claim.units and own and not shared:
        return Agreement.OTHER_FORM if _conflict(claim.units, own) else Agreement.UNLIKE
    return Agreement.SAME if _signs_agree(claim, value, claimed, around) else Agreement.OTHER_FORM


def _common_factors(claim: tuple[Unit, ...], own: tuple[Unit, ...]) -> list[tuple[float, float]]:
    return [(a.factor, b.factor) for a in claim for b in own if a.dimension == b.dimension]


def _are_alike(units: tuple[Unit, ...], own: tuple[Unit, ...]) -> bool:
    if not units or not own:
        return not units and not own
    return bool({unit.dimension for unit in units} & {unit.dimension for unit in own})


def _conflict(units: tuple[Unit, ...], own: tuple[Unit, ...]) -> bool:
    """Return whether a number cannot be in both units."""
    return not _common_factors(units, own)


def _digits_agree(claim: TextValue, value: TextValue) -> bool:
    """Return whether two numbers only differ by their scale or unit: 3.2 million and 3.2 billion."""
    one, other = abs(claim.amount or 0) / claim.scale, abs(value.amount or 0) / value.scale
    differs = claim.scale != value.scale or claim.units != value.units
    return differs and math.isclose(one, other, rel_tol=1e-9) and (claim.scale > 1 or bool(claim.units))


def _are_equal(claim: float, value: float, step: float, own_step: float, rounding: Rounding) -> bool:
    if math.isclose(claim, value, rel_tol=1e-9, abs_tol=1e-12):
        return True
    digits = claim / step if step else 0.0
    if own_step < step and (digits >= 10 or rounding.about or rounding.asked):
        return abs(claim - value) <= step / 2 * (1 + 1e-6)
    if rounding.about and claim:
        return abs(claim - value) <= _rounded_step(claim, step) * (1 + 1e-6)
    return False


def _rounded_step(number: float, step: float) -> float:
    """Return what the last digit other than 0 of a number is worth."""
    while step < number and math.isclose(number / (10 * step), round(number / (10 * step)), rel_tol=1e-9):
        step *= 10
    return step


def _signs_agree(claim: TextValue, value: TextValue, claimed: ValueContext, around: ValueContext) -> bool:
    if not claim.amount or not (claim.sure_sign and value.sure_sign):
        return True
    minus, own = (claim.amount or 0) < 0, (value.amount or 0) < 0
    if minus == own:
        return True
    return around.falls if minus else claimed.falls
