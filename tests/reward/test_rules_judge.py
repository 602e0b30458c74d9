"""The judge without a model."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reward.reward import Verdict
from vrag.reward.rules_judge import RulesJudge


def verdict(reference: str, answer: str, least: float = 0.5) -> Verdict:
    return asyncio.run(RulesJudge(least).judge("?", reference, answer))


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("The Lantern Ferry", "lantern ferry."),
        ("Lantern Ferry", "Lantern Fery"),
        ("最终答案", "最终答案。"),
        ("B", "b."),
        ("12 crowns", "12 Crowns"),
        ("48,200", "48200"),
        ("48,200", "48,200 passengers"),
        ("$1,000", "1000 dollars"),
        ("3.14", "3.15"),
        ("45%", "45.2 %"),
        ("45%", "0.45"),
        ("0.45", "45%"),
        ("45%", "45"),
        ("-5", "−5"),
        ("0", "0"),
        ("Not answerable", "not answerable."),
        ('["red", "blue"]', "blue and red"),
        ("['red', 'blue']", '["blue", "red"]'),
        ("[1000, 2]", "2; 1,000"),
        ('["3.0", "ferry"]', "ferry, 3.02"),
        ("[]", "[]"),
    ],
)
def test_right(reference: str, answer: str) -> None:
    assert verdict(reference, answer).correct


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("Lantern Ferry", "boat"),
        ("12 crowns", "13 crowns"),
        ("2024", "2023"),
        ("48,200", "48,201"),
        ("10,000,000,000", "10,000,000,001"),
        ("48,200", "1 2 3 48,200"),
        ("48,200", "48,200 or 3,100"),
        ("48,200", "no idea"),
        ("3.14", "3.2"),
        ("-5", "5"),
        ("0", "0.001"),
        ("A", "B"),
        ("A", "the"),
        ("Q3", "3"),
        ("Not answerable", "48,200"),
        ("Not answerable", "answerable"),
        ("48,200", "Not answerable"),
        ('["red", "blue"]', "red"),
        ('["red", "blue"]', "red, red"),
        ('["red"]', "red, blue"),
        ('["red"]', ""),
    ],
)
def test_wrong(reference: str, answer: str) -> None:
    assert not verdict(reference, answer).correct


def test_elements_are_paired_wherever_that_can_be_done() -> None:
    """ "aaab" is near both of the reference, "abbb" near the first alone, which then must give way."""
    assert verdict('["aabb", "aaaa"]', "aaab, abbb").correct
    assert not verdict('["aabb", "aaaa"]', "abbb, abbb").correct


def test_the_threshold_can_ask_for_every_letter() -> None:
    assert verdict("cat", "car").correct
    strict = verdict("cat", "car", 1.0)
    assert (strict.correct, strict.score) == (False, pytest.approx(2 / 3))


def test_judges_of_another_threshold_are_others() -> None:
    assert RulesJudge(0.5).identity != RulesJudge(1.0).identity


@pytest.mark.parametrize(
    "hostile",
    ["__import__('os').getpid()", "[" * 5000, "[" + "-" * 9000 + "1]", "9" * 5000, "[1" + "0" * 5000 + "]"],
)
def test_nothing_is_evaluated_and_nothing_breaks(hostile: str) -> None:
    assert not verdict("[1, 2]", hostile).correct
    assert not verdict("48,200", hostile).correct
    verdict(hostile, "48,200")


@given(st.text(), st.text())
def test_any_two_texts_have_a_verdict(reference: str, answer: str) -> None:
    said = verdict(reference, answer)
    assert said.score is not None
    assert 0 <= said.score <= 1


@given(st.text(alphabet="abc 123,.%-", min_size=1).filter(str.strip))
def test_an_answer_in_the_words_of_the_reference_is_right(text: str) -> None:
    if text.strip(" .,-%"):
        assert verdict(text, text).correct


def test_a_list_beyond_all_measure_is_compared_as_text() -> None:
    ones = "[" + ", ".join(["1"] * 1500) + "]"
    assert verdict(ones, ones).correct
    assert not verdict(ones, ones.replace("1]", "2]")).correct
