"""A stated number agrees with one of a page if it rounds to it, in its unit and scale."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vrag.reading.verification.comparison import Agreement, Rounding, ValueContext, compare
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.text.numerals import UNKNOWN_STYLE, NumberStyle

MILLIONS = ValueContext(scales=frozenset({Decimal(10**6)}), is_cell=True)


def value(text: str, style: NumberStyle = UNKNOWN_STYLE) -> TextValue:
    (found,) = find_values(text, style)
    return found


@pytest.mark.parametrize(
    ("claim", "page", "agreement"),
    [
        ("46.3 billion", "46,298 million", Agreement.SAME),
        ("46.2 billion", "46,298 million", Agreement.OTHER_VALUE),
        ("46,298 million", "46.3 billion", Agreement.UNLIKE),
        ("0.3", "0.30", Agreement.SAME),
        ("12.35 %", "12.345 %", Agreement.SAME),
        ("12.34 %", "12.345 %", Agreement.SAME),
        ("12.33 %", "12.345 %", Agreement.OTHER_VALUE),
        ("12.37 %", "12 %", Agreement.UNLIKE),
        ("1.5 km", "1,480 m", Agreement.SAME),
        ("1.4 km", "1,480 m", Agreement.OTHER_VALUE),
        ("84.210 t", "84,210 t", Agreement.SAME),
        ("100000000000000000.01", "100000000000000000.02", Agreement.OTHER_VALUE),
    ],
)
def test_numbers_agree_at_the_precision_they_are_written_with(
    claim: str, page: str, agreement: Agreement
) -> None:
    assert compare(value(claim), value(page)) is agreement


def test_a_scale_in_the_head_of_a_cell_counts() -> None:
    assert compare(value("46.3 billion"), value("46,298"), around=MILLIONS) is Agreement.SAME
    assert compare(value("46.4 billion"), value("46,298"), around=MILLIONS) is Agreement.OTHER_VALUE


def test_a_number_is_read_as_its_document_writes_it() -> None:
    german = value("84.210 t", NumberStyle(","))

    assert german.amount == 84_210
    assert compare(value("84,210 t"), german) is Agreement.SAME
    assert compare(value("84.210 t"), german) is Agreement.SAME  # as an answer quotes it
    assert compare(value("84.211 t"), german) is Agreement.OTHER_VALUE


NUMBERS = st.decimals(Decimal("0.001"), 10**15, places=3)


@given(NUMBERS, st.integers(0, 2))
def test_what_is_rounded_agrees_and_what_is_off_does_not(exact: Decimal, decimals: int) -> None:
    step = Decimal(1).scaleb(-decimals)
    rounded = exact.quantize(step, rounding=ROUND_HALF_UP)
    assume(rounded >= 10 * step)
    page = value(f"{exact:,.3f} %")

    assert compare(value(f"{rounded:,.{decimals}f} %"), page) is Agreement.SAME
    for other in (rounded + 2 * step, rounded - 2 * step):
        stated = value(f"{other:,.{decimals}f} %")
        assert compare(stated, page) is Agreement.OTHER_VALUE
        assert compare(stated, page, rounding=Rounding(asked=True)) is Agreement.OTHER_VALUE


@given(NUMBERS, st.sampled_from(["thousand", "million", "billion"]))
def test_a_scale_is_as_good_as_its_zeros(number: Decimal, scale: str) -> None:
    power = {"thousand": 3, "million": 6, "billion": 9}[scale]
    written, zeros = value(f"$ {number:,.3f} {scale}"), value(f"$ {number.scaleb(power):,.3f}")

    assert compare(written, zeros) is Agreement.SAME
    assert compare(zeros, replace(written, step=zeros.step)) is Agreement.SAME
