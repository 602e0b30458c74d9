"""The words of a question that are searched for, and the numbered things that it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading import search_query
from vrag.reading.questions.query_analysis import Pointer, parse, without_form


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the USCA case number? Answer in int format.", "USCA case number"),
        ('Who signed it? Please write the answer in list format, e.g., ["3","2"]', "signed"),
        ("How high was the tax in 2023?Answer in percentage term, round to one decimal.", "high tax 2023"),
        ("2023年的营业收入是多少?", "2023年 营业收入"),
        ('What does "to be or not to be" mean?', "mean"),
        ("What is it?", "What is it?"),
        ("", ""),
    ],
)
def test_instructions_and_words_of_asking_are_not_searched_for(question: str, query: str) -> None:
    assert search_query(question) == query


@pytest.mark.parametrize("question", ["[CLS]", "[2019] revenue", "array[0] index", "What is M[i, j]?"])
def test_brackets_that_are_no_example_of_a_list_stay(question: str) -> None:
    assert without_form(question) == question


@given(st.text(max_size=80))
def test_any_question_has_a_query_unless_it_is_blank(question: str) -> None:
    assert bool(search_query(question)) == bool(question.strip())


@pytest.mark.parametrize(
    ("question", "pointers"),
    [
        ("What do Figure 5 and Fig. 6 show?", (Pointer("figure", "5"), Pointer("figure", "6"))),
        ("Which item is blue in Table1-1 on page 7?", (Pointer("table", "1-1"), Pointer("page", "7"))),
        ("图3和表2在第5页吗？", (Pointer("figure", "3"), Pointer("table", "2"), Pointer("page", "5"))),
        ("Which tables are there?", ()),
    ],
)
def test_numbered_things_are_pointers(question: str, pointers: tuple[Pointer, ...]) -> None:
    assert parse(question).pointers == pointers


@pytest.mark.parametrize(
    "instruction",
    [
        "Your response should be concise.",
        "Please round to two decimals.",
        "If there is no answer, say Not answerable.",
        "Keep it short.",
        "Do not explain.",
        "Antworte bitte kurz.",
        "Bitte runden Sie auf zwei Nachkommastellen.",
        "Répondez en JSON.",
        "请用整数回答。",
        "如果没有答案，请回答“无法回答”。",
    ],
)
def test_sentences_about_the_form_of_the_answer_are_left_out(instruction: str) -> None:
    assert without_form(f"How high was it? {instruction}") == "How high was it?"
    assert without_form(instruction) == instruction


@pytest.mark.parametrize(
    "question",
    [
        "Use short screws. Where do they go?",
        "Look at chapter 2. Give a short description of the pump.",
        "Only short trips are free. Which are they?",
        "If the tank is empty, what happens? The short hose is then closed.",
    ],
)
def test_sentences_about_the_subject_stay(question: str) -> None:
    assert without_form(question) == question


def test_a_clause_about_the_form_is_left_out_at_the_end_of_a_chinese_question() -> None:
    assert without_form("营收增长了多少，保留两位小数。") == "营收增长了多少。"
