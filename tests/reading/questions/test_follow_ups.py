"""What a question leaves unsaid is taken from the one before it; one that stands alone is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading import completed
from vrag.reading.questions.answer_types import AnswerKind, find_focus

BEFORE = "How many passengers travelled on the line from Orla to Saltby in 2024?"


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("And in 2023?", "How many passengers travelled on the line from Orla to Saltby in 2023?"),
        ("In 2023?", "How many passengers travelled on the line from Orla to Saltby in 2023?"),
        ("2023?", "How many passengers travelled on the line from Orla to Saltby in 2023?"),
        ("But to Fennick", "How many passengers travelled on the line from Orla to Fennick in 2024?"),
        (
            "What about the line to Little Skerra?",
            "How many passengers travelled on the line from Orla to Little Skerra in 2024?",
        ),
        (
            "How about from Hessel to Orla in 2022?",
            "How many passengers travelled on the line from Hessel to Orla in 2022?",
        ),
        (
            "And on Sundays?",
            "How many passengers travelled on the line from Orla to Saltby in 2024 on Sundays?",
        ),
        ("And bicycles?", "How many passengers travelled on the line from Orla to Saltby in 2024 bicycles?"),
        ("And?", BEFORE),
    ],
)
def test_a_part_of_a_question_takes_its_place_in_the_one_before(question: str, whole: str) -> None:
    assert completed(question, [BEFORE]) == whole


def test_the_only_name_gives_way_to_another() -> None:
    before = "When was the Fulmar launched?"
    assert completed("And the Little Auk?", [before]) == "When was the Little Auk launched?"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Which ship sails it?", "passengers travelled line Orla Saltby 2024"),
        ("How long does the line take there, and why is that?", "passengers travelled Orla Saltby 2024"),
        ("And who was against that?", "passengers travelled line Orla Saltby 2024"),
        ("How many passengers did they carry?", "travelled line Orla Saltby 2024"),
    ],
)
def test_a_question_that_names_nothing_takes_the_words_of_the_one_before(question: str, words: str) -> None:
    assert completed(question, [BEFORE]) == f"{question} {words}"


@pytest.mark.parametrize(
    "question",
    [
        "What does a bicycle cost?",
        "Who signed the annual report?",
        "How long does it take from Orla to Fennick?",
        "And what does a bicycle cost on the Fulmar?",
        "revenue 2023",
        "Which company owns the ferries that sail to the islands?",
        "In which year was the Fulmar launched?",
        "List the ships and their lengths for Orla.",
        "总收入是多少？",
    ],
)
def test_a_question_that_stands_alone_is_left_as_it_is(question: str) -> None:
    assert completed(question, [BEFORE]) == question


def test_words_from_before_do_not_change_what_is_asked_for() -> None:
    whole = completed("Who painted it?", ["What is the colour of the funnel of the Fulmar?"])
    assert find_focus(whole).kind is AnswerKind.PERSON
    assert "funnel" in whole
    assert "colour" not in whole


def test_each_question_leans_on_the_one_before_it() -> None:
    earlier = [BEFORE, "And in 2023?", "What about the line to Fennick?"]
    assert completed("And in 2022?", earlier) == (
        "How many passengers travelled on the line from Orla to Fennick in 2022?"
    )


def test_after_a_change_of_subject_the_old_one_is_forgotten() -> None:
    earlier = [BEFORE, "What did the Fulmar cost in 2020?"]
    assert completed("And in 2021?", earlier) == "What did the Fulmar cost in 2021?"


WORDS = st.lists(
    st.sampled_from([*"And what about in 2023 the Orla it to line ? , Fulmar who costs".split(), "\n", "("]),
    max_size=12,
).map(" ".join)


@given(st.text(max_size=80) | WORDS, st.lists(st.text(max_size=80) | WORDS, max_size=4))
def test_any_text_gives_some_text(question: str, earlier: list[str]) -> None:
    whole = completed(question, earlier)
    assert whole.strip() or not question.strip()
    assert completed(question, []) == question.strip()
