"""Figures are read in every convention that they are written in, and nothing else is a number."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vrag.reading.places.word_forms import list_forms
from vrag.reading.table_answers.values import find_quantities, parse_cell
from vrag.reading.tables.text_kinds import is_number
from vrag.reading.verification.text_values import find_values
from vrag.text.numerals import (
    DIGITS,
    UNKNOWN_STYLE,
    NumberStyle,
    add,
    divide,
    find_number_style,
    is_ambiguous,
    is_rounding_of,
    parse_digits,
    subtract,
    write_figures,
)

CONVENTIONS = [
    (",", "."),
    ("", "."),
    (".", ","),
    ("", ","),
    ("\u202f", ","),
    ("\u00a0", ","),
    ("\u2009", "."),
    ("'", "."),
    ("’", ","),
    ("٬", "٫"),
]
"""The separator of thousands and the sign before decimals."""
AMOUNTS = st.decimals(0, 10**12, places=2)


def write(amount: Decimal, separator: str, sign: str, places: int = 2) -> str:
    """Write an amount in a convention."""
    return f"{amount:,.{places}f}".replace(",", "|").replace(".", sign).replace("|", separator)


@given(AMOUNTS, st.sampled_from(CONVENTIONS))
def test_an_amount_is_read_as_it_is_written(amount: Decimal, convention: tuple[str, str]) -> None:
    numeral = parse_digits(write(amount, *convention))

    assert numeral is not None
    assert (numeral.value, numeral.decimals) == (amount, 2)


@given(st.integers(1000, 10**12), st.sampled_from([*CONVENTIONS[:1], *CONVENTIONS[4:]]))
def test_a_whole_number_is_read_as_it_is_written(number: int, convention: tuple[str, str]) -> None:
    numeral = parse_digits(write(Decimal(number), *convention, places=0))

    assert numeral is not None
    assert (numeral.value, numeral.decimals) == (number, 0)


@given(st.integers(1_000_000, 10**12))
def test_points_part_thousands_where_there_are_several(number: int) -> None:
    written = write(Decimal(number), ".", ",", places=0)
    assume(not all(int(group) < 256 for group in written.split(".")) or written.count(".") != 3)
    numeral = parse_digits(written)

    assert numeral is not None
    assert numeral.value == number


@given(AMOUNTS.filter(lambda amount: amount >= 1), st.sampled_from(CONVENTIONS), st.booleans())
def test_every_reader_of_numbers_reads_the_same(
    amount: Decimal, convention: tuple[str, str], is_negative: bool
) -> None:
    figures = write(amount, *convention)
    written = f"-{figures}" if is_negative else figures
    value = -amount if is_negative else amount

    assert is_number(written)
    assert parse_cell(written).number == value
    assert parse_cell(written).whole
    assert [quantity.value for quantity in find_quantities(f"it was {written} in all")] == [value]
    assert [each.amount for each in find_values(f"it was {written} % in all")] == [value]


@given(AMOUNTS, st.sampled_from([*CONVENTIONS[:4], *CONVENTIONS[7:]]))
def test_a_place_is_found_by_the_number_in_any_convention(
    amount: Decimal, convention: tuple[str, str]
) -> None:
    (plain,) = list_forms(f"{amount:.2f}")
    (form,) = list_forms(write(amount, *convention))

    assert form.matches(plain)


@pytest.mark.parametrize(
    ("text", "digits", "grouped"),
    [
        ("1,234", "1234", ""),
        ("84.210", "84.210", "84210"),
        ("0.210", "0.210", ""),
        ("0,123", "0.123", ""),
        ("1234,567", "1234.567", ""),
        ("3,1416", "3.1416", ""),
        ("12,34,567.8", "1234567.8", ""),
        ("007", "007", ""),
        (".5", ".5", ""),
        ("１２", "12", ""),
    ],
)
def test_figures_decide_what_a_sign_parts(text: str, digits: str, grouped: str) -> None:
    numeral = parse_digits(text)

    assert numeral is not None
    assert (numeral.digits, numeral.grouped) == (digits, grouped)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-5",
        "5%",
        "2.18.0",
        "1,2,3",
        "2019,2020",
        "192.168.100.200",
        "31.12.2023",
        "1,234.567,8",
        "12 345",
    ],
)
def test_other_figures_are_no_number(text: str) -> None:
    assert parse_digits(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as in [1,2] and [12]", [1, 2, 12]),
        ("on pages 5,10,15", [5, 10, 15]),
        ("nn.Linear(1,2)", [1, 2]),
        ("up to Rs.4,00,000 each", [400_000]),
        ("in 2019,2020", [2019, 2020]),
        ("um 3,5 auf 1.250,00 Euro", [3.5, 1250]),
        ("points (1.5,2.5)", [1.5, 2.5]),
        ("بلغ ٢٬٣٤٥ موظفاً", [2345]),
    ],
)
def test_numbers_of_running_text(text: str, found: list[float]) -> None:
    assert [abs(quantity.amount) for quantity in find_quantities(text)] == found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.452,40-", "-1452.4"),
        ("1,452.40 -", "-1452.4"),
        ("(12,50)", "-12.5"),
        ("−12,5 %", "-12.5"),
        ("12,50 €", "12.5"),
        ("2019-", "2019"),
        ("5-", "5"),
    ],
)
def test_signs_of_amounts(text: str, number: str) -> None:
    assert parse_cell(text).number == Decimal(number)


@given(st.text("0123456789.,'\u202f ", max_size=20))
def test_what_is_found_in_a_text_can_be_read(text: str) -> None:
    for written in re.findall(DIGITS, text):
        numeral = parse_digits(written)

        assert numeral is not None
        assert numeral.value >= 0
        assert re.sub(r"\D", "", written) == numeral.digits.replace(".", "")


SURE = [convention for convention in CONVENTIONS if convention[1] in ",." and convention[0] != "٬"]


@given(st.lists(AMOUNTS.filter(lambda amount: amount >= 1), min_size=2, max_size=20), st.sampled_from(SURE))
def test_the_decimal_sign_of_a_document_is_found(amounts: list[Decimal], convention: tuple[str, str]) -> None:
    text = "\n".join(f"Harbour {write(amount, *convention)}" for amount in amounts)

    assert find_number_style([text]) == NumberStyle(convention[1])


@given(st.integers(1, 999), st.integers(0, 999), st.sampled_from(",."), st.sampled_from(",."))
def test_a_single_separator_is_what_it_is_elsewhere_in_the_document(
    whole: int, rest: int, sign: str, decimal_sign: str
) -> None:
    numeral = parse_digits(f"{whole}{sign}{rest:03}", NumberStyle(decimal_sign))

    assert numeral is not None
    assert numeral.value == (whole + Decimal(rest) / 1000 if sign == decimal_sign else 1000 * whole + rest)
    assert not numeral.other


@given(st.integers(1, 999), st.integers(0, 999), st.sampled_from(",."))
def test_a_single_separator_may_be_either_where_the_document_does_not_tell(
    whole: int, rest: int, sign: str
) -> None:
    numeral = parse_digits(f"{whole}{sign}{rest:03}")

    assert numeral is not None
    assert {numeral.value, Decimal(numeral.other)} == {
        whole + Decimal(rest) / 1000, Decimal(1000 * whole + rest)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("In 2023 it was 84.210, in 2024 it was 85.400", ""),
        ("1.204, 12.480, 987 and 1.050 in 2024", ","),
        ("1.204, 12.480, 987, 1.050 and 0.310", ""),
        ("1.204, 12.480, 987, 1.050 and 3500", ""),
        ("1.204, 1.198 and 987", ""),
        ("version 2.18.0 of 31.12.2023, see 192.168.100.200", ""),
        ("12,5 % of 84.210 and 3,25 of 7.5", ""),
        ("12,5 % of 84.210, 3,25 and 7,1 beside section 2.1", ","),
        ("84,210 and 12.5 and 3.1", "."),
        ("1.234.567", ","),
    ],
)
def test_only_numbers_that_can_be_read_in_one_way_tell(text: str, sign: str) -> None:
    assert find_number_style([text]) == NumberStyle(sign)


def test_numbers_of_all_pages_tell_together() -> None:
    assert find_number_style(["12,5 %"]) == UNKNOWN_STYLE
    assert find_number_style(["12,5 %", "1,5"]) == NumberStyle(",")


@pytest.mark.parametrize(
    ("text", "is_so"), [("84.210", True), ("1,234 t", True), ("1,234.5", False), ("v1.234.0", False)]
)
def test_ambiguous_numbers(text: str, is_so: bool) -> None:
    assert is_ambiguous(text) is is_so


DECIMALS = st.decimals(-(10**30), 10**30, places=6)


@given(st.lists(DECIMALS, max_size=30))
def test_sums_are_those_of_fractions(numbers: list[Decimal]) -> None:
    assert Fraction(add(numbers)) == sum(map(Fraction, numbers), Fraction(0))


@given(DECIMALS, DECIMALS.filter(bool))
def test_differences_are_exact_and_quotients_nearly(one: Decimal, other: Decimal) -> None:
    assert Fraction(subtract(one, other)) == Fraction(one) - Fraction(other)
    exact = Fraction(one) / Fraction(other)
    assert abs(Fraction(divide(one, other)) - exact) <= abs(exact) / 10**45


@given(DECIMALS, st.integers(0, 6))
def test_figures_are_those_of_the_decimal_module(number: Decimal, decimals: int) -> None:
    context = Context(prec=60, rounding=ROUND_HALF_UP)
    rounded = number.copy_abs().quantize(Decimal(1).scaleb(-decimals), context=context)

    assert write_figures(number, decimals) == f"{rounded:,f}"
    assert write_figures(number, decimals, "", ",") == f"{rounded:f}".replace(".", ",")


@given(DECIMALS, st.integers(-6, 6))
def test_a_number_rounds_to_what_is_written(number: Decimal, power: int) -> None:
    step = Decimal(1).scaleb(power)
    written = (number / step).quantize(Decimal(1), rounding=ROUND_HALF_UP) * step
    assume(abs(number) < 10**18)

    assert is_rounding_of(written, number, step)
    assert not is_rounding_of(written + 2 * step, number, step)
    assert not is_rounding_of(written - 2 * step, number, step)


@pytest.mark.parametrize(
    ("text", "number"),
    [("12 480,75", "12480.75"), ("1 204", "1204"), ("$ 1 204.50", "1204.50"), ("(12 480)", "-12480")],
)
def test_a_space_parts_thousands_in_a_cell(text: str, number: str) -> None:
    assert parse_cell(text).number == Decimal(number)
    assert parse_cell(text).whole


def test_a_space_parts_thousands_of_a_text_where_decimals_follow() -> None:
    assert [quantity.amount for quantity in find_quantities("von 12 480,75 auf 11 990,25")] == [
        Decimal("12480.75"), Decimal("11990.25")
    ]  # fmt: skip
    assert [quantity.amount for quantity in find_quantities("in 2019 100 boats")] == [2019, 100]
