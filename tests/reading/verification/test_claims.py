"""Claims of an answer: what counts as one, and where it stands."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_time import at_most

from vrag.reading.verification.claim import ClaimKind
from vrag.reading.verification.claims import extract_claims, read_statements
from vrag.reading.verification.flat_text import flatten
from vrag.reading.verification.text_values import find_values

PIECES = st.sampled_from(
    (
        "4.6 %", "−2.1 %", "$3.2 million", "(1,150) t", "3 May 2027", "21:15", "2024年3月5日", "A-17",
        "Denver Broncos", "**", "- ", "1. ", "| a | b |", "[1]", "\n", " ", ".", "。", "《红楼梦》", "(",
        ")", "twenty-five", "万", "百分之五十", "http://a.example/1", "’s", "U.S.", "https", "$", "年", "–",
        "'000",
    )
)  # fmt: skip


def found(answer: str) -> list[tuple[str, str]]:
    return [(claim.kind.value, claim.text) for claim in extract_claims(answer)]


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_claims_of_any_text_lie_in_it(answer: str) -> None:
    for claim in extract_claims(answer):
        assert 0 <= claim.start < claim.end <= len(answer)
        assert claim.text == answer[claim.start : claim.end]


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_values_of_any_text_do_not_overlap(text: str) -> None:
    values = find_values(text)
    assert all(one.start < one.end <= other.start for one, other in pairwise(values))
    assert all(value.end <= len(text) for value in values)


@given(
    st.lists(st.sampled_from(("The govern-", "ment met", "in Oslo.", "第一", "章", "", "- a")), max_size=9)
)
def test_flat_text_keeps_the_places_of_its_characters(lines: list[str]) -> None:
    text = "\n".join(lines)
    flat = flatten(text, ())
    for at, sign in enumerate(flat.text):
        if not sign.isspace():
            assert text[slice(*flat.original(at, at + 1))] == sign


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("84,210", [("number", "84,210")]),
        ("Paris", [("sentence", "Paris")]),
        ("Oslo, Denver Broncos and A-17", [("sentence", "Oslo, Denver Broncos and A-17")]),
        ("golden", [("sentence", "golden")]),
        ("3 May 2027", [("date", "3 May 2027")]),
        ("2024年3月5日", [("date", "2024年3月5日")]),
        ("丹佛野马队", [("sentence", "丹佛野马队")]),
        ("- Loss: (2.1) %\n- 4 ships", [("number", "(2.1) %"), ("sentence", "Loss: (2.1) %"),
                                          ("number", "4"), ("sentence", "4 ships")]),
        ("", []),
    ],
)  # fmt: skip
def test_short_answers_and_lists(answer: str, claims: list[tuple[str, str]]) -> None:
    assert found(answer) == claims


def test_a_sentence_comes_after_the_claims_in_it() -> None:
    answer = "In May 2027, sales in Oslo rose by 4.6 % [1]. The A-17 fell at 21:15."
    assert found(answer) == [
        ("date", "May 2027"),
        ("number", "4.6 %"),
        ("sentence", "In May 2027, sales in Oslo rose by 4.6 % [1]."),
        ("date", "21:15"),
        ("sentence", "The A-17 fell at 21:15."),
    ]


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("# Sales of 2019\nThey rose.", ["They rose."]),
        ("Use this:\n```python\nx = 17\n```\nIt is fast.", ["It is fast."]),
        ("`84,210`", []),
        ("The flag `--max 17` is set to 4.", ["4", "The flag `--max 17` is set to 4."]),
        ("If $x_1 = 17$ and $$y = 18$$ hold, so does \\(z = 19\\).",
         ["If $x_1 = 17$ and $$y = 18$$ hold, so does \\(z = 19\\)."]),
        ("From $3 million to $4 million.", ["$3 million", "$4 million"]),
        ("Yes. Sales rose.", ["Sales rose."]),
        ("Yes", ["Yes"]),
        ("These are:\n- Oslo\n- Orla", ["Oslo", "Orla"]),
        ("They are:\n- Oslo\n- Orla is old", ["Orla is old"]),
    ],
)  # fmt: skip
def test_code_mathematics_headings_and_single_words_are_no_claims(answer: str, claims: list[str]) -> None:
    assert [text for _, text in found(answer)] == claims


def test_names_are_what_a_sentence_is_checked_by() -> None:
    (sentence,) = read_statements("In May 2027, sales of A-17 rose in Oslo.")
    assert [name.text for name in sentence.names] == ["A-17", "Oslo"]
    assert [claim.text for claim in sentence.claims] == ["May 2027"]


def test_marks_of_markdown_are_no_claims() -> None:
    answer = "## Result\n1. **Sales** rose [2].\n| Year | Sales |\n|---|---|\n| 2019 | 1,150 t |"
    assert [text for kind, text in found(answer) if kind in ("number", "date")] == ["2019", "1,150 t"]


@pytest.mark.parametrize(
    "text",
    [
        "A-17",
        "h7n9",
        "COVID-19",
        "http://a.example/17",
        "section 3.4.2",
        "v2",
        "+49 30 1234567",
        "1-877-486-2048",
        "(478) 757-3144",
        "478-757-3144",
    ],
)
def test_digits_of_codes_and_addresses_are_no_numbers(text: str) -> None:
    assert find_values(text) == ()


@pytest.mark.parametrize(
    ("text", "amount", "dimension"),
    [
        ("$3.2 million", 3_200_000, "USD"),
        ("US$5m", 5_000_000, "USD"),
        ("(2.1)%", "-2.1", "percent"),
        ("−2.1 %", "-2.1", "percent"),
        ("4.6 per cent", "4.6", "percent"),
        ("two hundred and fifty-six kilometres", 256, "length"),
        ("百分之五十", 50, "percent"),
        ("12 km/h", 12, "speed"),
        ("1,150 t", 1150, "mass"),
        ("EUR 500", 500, "EUR"),
    ],
)
def test_numbers_with_sign_scale_and_unit(text: str, amount: float, dimension: str) -> None:
    (value,) = find_values(text)
    assert value.amount == Decimal(amount)
    assert [unit.dimension for unit in value.units][:1] == [dimension]


def test_a_range_shares_its_unit() -> None:
    assert [value.units for value in find_values("3–5 km")] == [find_values("5 km")[0].units] * 2


def test_kinds_are_those_of_the_interface() -> None:
    assert {kind.value for kind in ClaimKind} == {"number", "date", "sentence"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["A", "-", "“a", "1,", "@", "·", "中", "A1", "| ", "one ", "A.", "a-", "[", "**", "3 May ", "(1", "$"],
)
def test_long_texts_are_read_in_time(piece: str) -> None:
    text = piece * (20_000 // len(piece)) + "!"
    with at_most(3):
        extract_claims(text)
        flatten(text, ())
