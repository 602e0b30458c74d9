"""Values of cells and of questions."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.table_answers.values import (
    Day,
    find_day,
    find_quantities,
    format_number,
    parse_cell,
    parse_numeral,
)


@pytest.mark.parametrize(
    ("text", "number", "whole"),
    [
        ("84,210", 84210, True),
        ("$  1,452.4", "1452.4", True),
        ("$ (1,452.4)", "-1452.4", True),
        ("(12.6)", "-12.6", True),
        ("−2.1 %", "-2.1", True),
        ("+4.6 %", "4.6", True),
        ("€ 12.5 m", 12_500_000, True),
        ("100 m", 100, False),
        ("4th, Western", 4, False),
        ("3–2", 3, False),
        ("五十米", 50, False),
        ("3万", 30_000, True),
        ("Saltby", None, False),
        ("—", None, False),
        ("", None, False),
    ],
)
def test_numbers_of_cells(text: str, number: int | str | None, whole: bool) -> None:
    value = parse_cell(text)

    assert value.number == (None if number is None else Decimal(number))
    assert value.whole is whole


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("June 4, 1998", Day(1998, 6, 4)),
        ("3 May 2027", Day(2027, 5, 3)),
        ("4 June", Day(0, 6, 4)),
        ("1998-06-04", Day(1998, 6, 4)),
        ("2024年3月5日", Day(2024, 3, 5)),
        ("Feb. 2004", Day(2004, 2, 0)),
        ("12 angry men", None),
        ("may be 5", None),
    ],
)
def test_dates(text: str, day: Day | None) -> None:
    assert find_day(text) == day


def test_times_order_cells() -> None:
    assert parse_cell("21:15").position > parse_cell("06:40").position
    assert parse_cell("1:02:03").clock == 3723


def test_units_of_quantities() -> None:
    found = find_quantities("from $5 to 12 % and 三百二十")

    assert [(quantity.value, quantity.unit) for quantity in found] == [(5, "$"), (12, "%"), (320, "")]


@given(st.integers(0, 99_999_999))
def test_chinese_numerals_are_read_as_they_are_written(number: int) -> None:
    assert parse_numeral(write_numeral(number)) == number


def write_numeral(number: int) -> str:
    digits = "零一二三四五六七八九"
    if number < 10:
        return digits[number]
    for value, place in ((10_000, "万"), (1000, "千"), (100, "百"), (10, "十")):
        if number >= value:
            rest = number % value
            gap = "零" if rest and rest < value // 10 else ""
            return write_numeral(number // value) + place + (gap + write_numeral(rest) if rest else "")
    raise AssertionError


@given(st.decimals(-(10**9), 10**9))
def test_a_number_is_written_so_that_it_can_be_read(number: Decimal) -> None:
    written = parse_cell(format_number(number, ["$1,000.25"])).number

    assert written is not None
    assert abs(written - number) <= Decimal("0.005")


@given(st.text(max_size=80))
def test_any_text_is_no_error(text: str) -> None:
    parse_cell(text)
    find_quantities(text)


@pytest.mark.parametrize(
    "text", ["9" * 400, "1" + "0" * 299 + " trillion", "-" + "9" * 310, "一" + "亿" * 60, "九" * 5000]
)
def test_what_is_too_large_for_a_number_is_text(text: str) -> None:
    """Else the sum of two would be infinite, and no number could be a year."""
    assert find_quantities(text) == []
    assert parse_cell(text).number is None
    assert parse_cell(f"{text} and 12").number in {None, 12}
