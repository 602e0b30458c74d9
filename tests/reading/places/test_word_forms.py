"""Words are compared without what differs between copies of a text; digits, signs and powers are kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.places.word_forms import list_forms


def same(a: str, b: str) -> bool:
    first, second = list_forms(a), list_forms(b)
    return len(first) == len(second) and all(x.matches(y) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        ("efficient", "eﬃcient"),
        ("international", "inter\u00adnational"),
        ("Café", "CAFE"),
        ("Hansen", "Hansen’s"),
        ("2021", "2021¹"),
        ("84,210", "84,210*"),
        ("84210", "84,210"),
        ("84,210", "84.210"),
        ("84,210", "84'210"),
        ("84,210", "84,2101"),
        ("1,234,567.8", "1.234.567,8"),
        ("3.5", "3,5"),
        ("123", "１２３"),
        ("-5", "−5"),
        ("revenue", "Revenue1"),
        ("3", "3rd"),
    ],
)
def test_copies_of_one_word_are_the_same(answer: str, page: str) -> None:
    assert same(answer, page)
    assert same(page, answer)


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        ("84,210", "84,211"),
        ("5", "-5"),
        ("5", "5G"),
        ("10", "10²"),
        ("0.210", "0210"),
        ("20211", "2021"),
        ("3.10", "3.1"),
        ("covid19", "covid20"),
        ("GS5002", "GS500"),
    ],
)
def test_other_values_are_never_the_same(answer: str, page: str) -> None:
    assert not same(answer, page)
    assert not same(page, answer)


@pytest.mark.parametrize("text", ["3-5", "3–5", "2014-15", "page-5", "A-5"])
def test_a_hyphen_or_the_dash_of_a_range_is_no_minus_sign(text: str) -> None:
    assert not any(form.is_negative for form in list_forms(text))


@given(st.text(max_size=80))
def test_the_words_of_any_text_stand_in_it_in_order(text: str) -> None:
    forms = list_forms(text)
    assert all(form.key and text[form.start : form.end].strip() for form in forms)
    assert all(a.end <= b.start for a, b in pairwise(forms))


@given(st.integers(0, 10**12), st.sampled_from(["{:,}", "{}"]), st.sampled_from(["{:,}", "{}"]))
def test_whole_numbers_are_the_same_with_and_without_separators(number: int, one: str, other: str) -> None:
    assert same(one.format(number), other.format(number))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_different_whole_numbers_are_different(one: int, other: int) -> None:
    assert same(f"{one:,}", str(other)) is (one == other)
