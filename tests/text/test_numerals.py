"""Figures are read in every convention that they are written in, and nothing else is a number."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vrag.reading.places.word_forms import list_forms
from vrag.reading.table_answers.values import find_quantities, parse_cell
from vrag.reading.tables.text_kinds import is_number
from vrag.reading.verification.text_values import find_values
from vrag.text.numerals import DIGITS, parse_digits

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
