"""Axes of charts: their range, ticks and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ALIKE, _NOTHING = 1e-4, 1e-9
"""Relative and absolute differences below which values count as equal."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale."""

    low: float
    high: float
    ticks: tuple[float, ...]
    """Labelled values, from low to high."""
    labels: tuple[str, ...]
    """Labels with the same number of digits."""

    def place(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)


def axis_of(low: float, high: float, *, most: int = 5, whole: bool = False, wide: bool = True) -> Axis:
    """Make the axis of values from `low` to `high`, with round ticks at equal distances.

    The range is divided into `most` steps at the most. With `whole` only whole numbers are labelled; with
    `wide` the axis is extended so that it begins and ends at a tick. If both values are equal, the axis
    reaches from 0 to twice the value, or with `whole` from the value to the next number.

    >>> axis_of(0, 0.93).labels, axis_of(1, 300, wide=False).labels
    (('0', '0.2', '0.4', '0.6', '0.8', '1.0'), ('100', '200', '300'))
    """
    if high - low <= max(_ALIKE * max(abs(low), abs(high)), _NOTHING):
        value = float(f"{round((low + high) / 2, 9):.6g}")
        low, high = (0.0, 1.0) if value == 0 else (min(0.0, 2 * value), max(0.0, 2 * value))
        low, high = (value, value + 1) if whole else (low, high)
    least = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= least * (1 - 1e-9))
    if whole:
        step = max(1.0, float(math.ceil(step)) if step < 10 else step)
    first, last = low / step, high / step
    near = 1e-6
    begin, end = math.ceil(first - near), math.floor(last + near)
    if wide:
        begin, end = math.floor(first + near), math.ceil(last - near)
    ticks = tuple(number * step for number in range(begin, end + 1))
    if wide:
        low, high = ticks[0], ticks[-1]
    size = max(*map(abs, ticks), step) if ticks else step
    labels = tuple("0" if abs(tick) < step / 2 else _label(tick, step, size) for tick in ticks)
    return Axis(low, high, ticks, labels)


def short(value: float) -> str:
    """Format a value with about three digits.

    >>> [short(value) for value in (0, 0.61234, 12.345, 1234.5, 2_500_000, 0.00012, -0.5)]
    ['0', '0.612', '12.3', '1,234', '2.5M', '1.2e-4', '-0.5']
    """
    size = abs(value)
    if size >= 1e5:
        for factor, unit in ((1e3, "k"), (1e6, "M"), (1e9, "B")):
            if size < factor * 1e3:
                return f"{value / factor:.3g}{unit}"
        return _power(value)
    if size >= 100:
        return f"{value:,.0f}"
    if _NOTHING < size < 1e-3:
        return _power(value)
    return _trimmed(f"{value:.{1 if size >= 10 else 2 if size >= 1 else 3}f}")


def _label(tick: float, step: float, size: float) -> str:
    if step < 1e-3 or size >= 1e7:
        return _power(tick, 2)
    if size >= 1e4:
        return f"{tick / 1000:,.{_digits(step / 1000)}f}k"
    return f"{tick:,.{_digits(step)}f}"


def _digits(step: float) -> int:
    """Return the number of decimals that distinguish ticks."""
    return next((digits for digits in range(9) if abs(step * 10**digits % 1 - 0.5) > 0.5 - 1e-6), 9)


def _power(value: float, digits: int = 1) -> str:
    figures, power = f"{value:.{digits}e}".split("e")
    return f"{_trimmed(figures)}e{int(power)}"


def _trimmed(text: str) -> str:
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
