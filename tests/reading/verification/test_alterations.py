"""The altered and reworded answers of the benchmark of verdicts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alterations import Change, Rewording, alter, reword
from benchmarks.verification import find_sentence, make_statement

ANSWER = "In May 2027, sales in Oslo rose by 4.6 % to $3.2 million, and were 1,150 t."


@given(st.integers(0, 999))
def test_an_alteration_changes_one_place(seed: int) -> None:
    changes: set[Change] = set()
    for altered in alter(ANSWER, random.Random(seed), ["Sandvik"], ["Lindholm"], ["77"]):
        changes.add(altered.change)
        rest = len(altered.text) - altered.end
        assert altered.text != ANSWER
        assert altered.text[: altered.start] == ANSWER[: altered.start]
        assert altered.text.endswith(ANSWER[len(ANSWER) - rest :])
    assert changes >= {Change.DIGIT, Change.SIGN, Change.UNIT, Change.NAME, Change.DATE, Change.PLACE}


@given(st.integers(0, 999))
def test_other_words_are_other_words(seed: int) -> None:
    found = dict(reword(ANSWER, random.Random(seed)))
    assert ANSWER not in found.values()
    assert {Rewording.NUMBER, Rewording.ORDER, Rewording.ROUNDED} <= found.keys()


@pytest.mark.parametrize(
    ("question", "answer", "statement"),
    [
        ("Who built the ferry?", "Saltby Yard", "Saltby Yard built the ferry."),
        ("When did the line open?", "1962", "The line open 1962."),
        ("What is the capital of Lindholm?", "Orla", "The capital of Lindholm is Orla."),
        ("谁建造了公园？", "林某", "林某建造了公园。"),
    ],
)
def test_a_question_becomes_a_statement(question: str, answer: str, statement: str) -> None:
    assert make_statement(question, answer) == statement


def test_the_sentence_with_the_answer_is_found() -> None:
    text = "It opened in 1962. The harbour of Orla was opened in\n1962 by the king. It is large."
    assert find_sentence("When was the harbour opened?", "1962", text) == (
        "The harbour of Orla was opened in 1962 by the king."
    )
