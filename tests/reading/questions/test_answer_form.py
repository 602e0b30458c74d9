"""Answers are written in the form that the question asks for, and stay as they are where they cannot be."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.questions.answer_form import AnswerForm, read_form, write_answer
from vrag.reading.table_answers.scales import CellMeasure


@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("How many crew members? Answer in int format.", AnswerForm(decimals=0, plain=True)),
        ("How large is it? Return me a rounded integer.", AnswerForm(decimals=0, plain=True)),
        ("What is the margin? Round to two decimal places.", AnswerForm(decimals=2)),
        ("What was the debt? Answer in million.", AnswerForm(plain=True, scale="million")),
        ("When was it signed? Format the date as YYYY-MM-DD.", AnswerForm(date="YYYY-MM-DD")),
        ("Which ships? Write the answer in list format.", AnswerForm(items=True)),
        ("How many million passengers were there?", AnswerForm()),
        ("What does the ferry cost, in million euros?", AnswerForm(measure=CellMeasure("million", "euros"))),
        ("Which list of ports is complete?", AnswerForm()),
    ],
)
def test_the_form_is_read_from_instructions_alone(question: str, form: AnswerForm) -> None:
    assert read_form(question) == form


@pytest.mark.parametrize(
    ("text", "form", "written"),
    [
        ("$ 1,874", AnswerForm(plain=True), "1874"),
        ("(1,806)", AnswerForm(plain=True), "-1806"),
        ("−2.14 %", AnswerForm(decimals=1), "-2.1%"),
        ("1,042 thousand euros", AnswerForm(plain=True, scale="million"), "1.042"),
        ("01/05/2022", AnswerForm(date="YYYY-MM-DD"), "2022-01-05"),
        ("July 2009", AnswerForm(date="YYYY-MM"), "2009-07"),
        ("radio waves and microwaves", AnswerForm(items=True), '["radio waves", "microwaves"]'),
        ("84,210", AnswerForm(), "84,210"),
    ],
)
def test_an_answer_is_written_in_the_form(text: str, form: AnswerForm, written: str) -> None:
    assert write_answer(text, form) == written


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("July 2009", AnswerForm(date="YYYY-MM-DD")),
        ("31 February 2020", AnswerForm(date="YYYY-MM-DD")),
        ("the Guillemot", AnswerForm(decimals=0, plain=True)),
        ("between 3 and 5", AnswerForm(plain=True)),
        ("3 May 2027", AnswerForm(plain=True)),
    ],
)
def test_what_cannot_be_written_so_stays(text: str, form: AnswerForm) -> None:
    assert write_answer(text, form) == text


def test_the_scale_of_a_table_is_converted() -> None:
    millions = AnswerForm(plain=True, scale="million")
    assert write_answer("1,498", millions, scale="thousand") == "1.498"
    assert write_answer("1,498", millions, scale="million") == "1498"
    assert write_answer("15.9", AnswerForm(decimals=2), number=Decimal("15.876")) == "15.88"


forms = st.builds(
    AnswerForm,
    decimals=st.none() | st.integers(0, 5),
    plain=st.booleans(),
    scale=st.sampled_from(["", "thousand", "million", "billion"]),
    date=st.sampled_from(["", "YYYY-MM", "YYYY-MM-DD", "DD/MM/YYYY"]),
    items=st.booleans(),
)


@given(
    st.text(max_size=40) | st.from_regex(r"[($€-]{0,2}\d[\d,.]{0,9}\d?( ?%| million)?\)?", fullmatch=True),
    forms,
)
def test_any_text_can_be_written_in_any_form(text: str, form: AnswerForm) -> None:
    written = write_answer(text, form)
    assert written or not text
    if form.items and not form.date and not text.startswith("["):
        assert isinstance(json.loads(written), list)


def test_a_computed_number_is_rounded_also_where_it_looks_like_a_time() -> None:
    assert write_answer("0.63", AnswerForm(decimals=3), number=Decimal("0.62722")) == "0.627"
