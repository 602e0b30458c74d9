"""What can be no answer to a question is no candidate, whatever else speaks for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.answer_checks import is_measured_otherwise, is_of_kind, repeats_number, repeats_question
from vrag.reading.answer_features import answer_key
from vrag.reading.page_text import read_page_text
from vrag.reading.questions.answer_types import AnswerKind
from vrag.reading.reader import load_text_reader, weigh_candidates
from vrag.reading.spans.whole_values import skip_neighbour
from vrag.types import Item, ItemKind


def texts_of_candidates(question: str, text: str) -> set[str]:
    item = Item(
        id="notes-1", document="n", document_name="notes.md", kind=ItemKind.PASSAGE, ordinal=1, text=text
    )
    candidates, _ = weigh_candidates(question, [(read_page_text(item), ())], load_text_reader())
    return {candidate.reading.text for candidate in candidates}


@pytest.mark.parametrize(
    ("question", "text", "no_answer"),
    [
        (
            "How many ports are there?",
            "Ports\n\n10.1 Ports of the region\n\nThere are seven ports.",
            "10.1 Ports",
        ),
        ("How many ports are listed?", "The ports are listed in Table 6-2 and described below it.", "2"),
        ("How many units has the course on ports?", "Unit 9 of the course covers ports and harbours.", "9"),
        ("How many main functions are there?", "The main functions are shown here.\n\n29\n", "29"),
        ("What date is on the contract?", "The contract covers affairs of the port.", "affairs"),
        ("How fast may ferries go?", "Within 400 metres of land ferries go at six knots.", "400 metres"),
        ("What was the revenue of the port?", "The revenue of the port was published in 2023.", "2023"),
        ("How much did the port earn?", "What the port earned until the 31st was not counted.", "31st"),
        ("How many projects are there?", "There are many projects.\n31.2 Projects of papers", "31.2"),
        ("How many figures has release two?", "The figures of release 2.18.0 are here.", "2.18.0"),
        ("How many of them signed the list?", "Of 118 households 97 have signed the list.", "118"),
        ("How many of them signed the list?", "97 of 118 households have signed the list.", "118"),
        ("有多少户签了名？", "岛上118户人家中有97户签了名。", "118"),
        ("Which key tasks does the harbour have?", "Key tasks:\nThe harbour unloads timber.", "Key tasks"),
    ],
)
def test_what_cannot_answer_is_left_out(question: str, text: str, no_answer: str) -> None:
    assert no_answer not in texts_of_candidates(question, text)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("How fast may ferries go?", "Within 400 metres of land ferries go at six knots.", "six knots"),
        ("What date is on the contract?", "The date of the contract is 3 May 2027.", "3 May 2027"),
        ("How many signed the list?", "Of 118 households 97 have signed the list.", "97"),
        ("How many households are there?", "Of 118 households 97 have signed the list.", "118"),
        ("When was it opened?", "It was opened on 3.5.2027 by the port.", "3.5.2027"),
        (
            "What does power cost?",
            "4 11.8 cents per kilowatt hour is what power costs.",
            "11.8 cents per kilowatt hour",
        ),
    ],
)
def test_what_may_answer_stays(question: str, text: str, answer: str) -> None:
    assert answer in texts_of_candidates(question, text)


def test_an_answer_repeats_the_question_unless_it_gives_a_choice() -> None:
    assert repeats_question("the key task", "What is the key task of Orla?")
    assert not repeats_question("Orla", "Which is busier, Orla or Saltby?")
    assert not repeats_question("2 tasks", "Which tasks are there?")
    assert not repeats_question("Saltby", "What is the key task of Orla?")


def test_a_number_of_the_question_is_no_answer_unless_it_gives_a_choice() -> None:
    assert repeats_number("10", "What does a group of 10 or more pay?")
    assert not repeats_number("10", "How many people are a group that pays less?")
    assert not repeats_number("48,200", "How many passengers did it carry in 2024?")
    assert not repeats_number("10", "Do groups of 10 or of 20 pay less?")


def test_a_price_may_stand_without_its_currency() -> None:
    assert not is_measured_otherwise("What is the fare for a kayak?", "4.20", "Kayak · single: 4.20")
    assert is_measured_otherwise("What is the fare for a kayak?", "45 %", "45 % of all kayaks")


@pytest.mark.parametrize(
    ("question", "is_measured"),
    [
        ("How high were the wages?", False),
        ("How high is the debt of the port?", False),
        ("How large is the audience of the fair?", False),
        ("How high is the mast?", True),
        ("How large is the island?", True),
    ],
)
def test_only_what_has_a_length_or_an_area_is_measured_in_it(question: str, is_measured: bool) -> None:
    assert is_measured_otherwise(question, "4,200 euros", "4,200 euros") is is_measured


def test_answers_are_equal_with_and_without_a_unit() -> None:
    assert answer_key("1,150 t") == answer_key("1150") == answer_key("1,150")
    assert answer_key("Six  Knots.") == answer_key("six knots")
    assert answer_key("3 May 2027") != answer_key("3 June 2027")


@given(st.text(max_size=30) | st.from_regex(r"\d{1,3} \d{1,3}[.,]?\d* [a-z]{0,6}", fullmatch=True), st.data())
def test_a_skipped_neighbour_leaves_a_part_of_the_range(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert start <= skip_neighbour(text, start, end) <= end


@pytest.mark.parametrize(
    "text", ["six knots", "1,498", "$ 5 Million", "40 Hours", "10 000", "5 3/8 inches", "半", "USCA11-2"]
)
def test_an_amount_answers_a_question_for_a_number(text: str) -> None:
    assert is_of_kind(text, AnswerKind.NUMBER)


@pytest.mark.parametrize(
    "text", ["thousands", "10.1 Design", "4.Appota", "15 Preparation", "3 2015", "Ten Islands"]
)
def test_headings_and_neighbouring_numbers_are_no_amounts(text: str) -> None:
    assert not is_of_kind(text, AnswerKind.NUMBER)
    assert is_of_kind(text, AnswerKind.NAME)
