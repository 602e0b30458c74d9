"""A question that describes a thing is taken apart into which thing it is and what is asked about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.questions.descriptions import find_description


@pytest.mark.parametrize(
    ("question", "inner", "named"),
    [
        (
            "How many passengers does the ship hold that serves the busiest line in 2024?",
            "Which ship serves the busiest line in 2024?",
            "How many passengers does X hold?",
        ),
        (
            "For the city where the first mill stood, what was its population in 2000?",
            "In which city the first mill stood?",
            "For X, what was its population in 2000?",
        ),
        (
            "What does a berth cost in the port whose cranes lift forty tonnes? Answer in euros.",
            "Which port's cranes lift forty tonnes?",
            "What does a berth cost in X? Answer in euros.",
        ),
        (
            "Who is the master of the port with the most cargo?",
            "Which port has the most cargo?",
            "Who is the master of X?",
        ),
    ],
)
def test_a_description_becomes_a_question_of_its_own(question: str, inner: str, named: str) -> None:
    description = find_description(question)
    assert description is not None
    assert (description.inner, description.with_name("X")) == (inner, named)


@pytest.mark.parametrize(
    "question",
    [
        "What is the name of the ship that serves the line?",
        "Which is the port that has two cranes?",
        "What percentage of the people who answered live on the island?",
        "In the year that the pier was built, who was the master?",
        "How many people said that they miss the bakery?",
        "When does the first boat leave?",
        "In which year did the company that built the pier close?",
    ],
)
def test_what_is_asked_for_itself_or_has_no_name_is_not_taken_apart(question: str) -> None:
    assert find_description(question) is None


@given(st.text(max_size=80), st.text(alphabet="abc ,.?!;", max_size=40))
def test_the_words_around_a_description_stay(before: str, clause: str) -> None:
    question = f"{before} the port that {clause}"
    description = find_description(question)
    if description is not None:
        named = description.with_name("X")
        assert named.startswith(question[: description.start] + "X")
        assert named.endswith(question[description.end :])
        assert 0 <= description.start < description.end <= len(question)
