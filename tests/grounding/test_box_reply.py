"""Boxes in whatever a model writes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.grounding.conventions import CONVENTIONS, Convention, Numbers, parse_box

FORMS = {
    "list": "[{}, {}, {}, {}]",
    "json": '```json\n[\n  {{"bbox_2d": [{}, {}, {}, {}], "label": "red rectangle 1"}}\n]\n```',
    "tag": "<bbox>[{}, {}, {}, {}]</bbox>",
    "points": "<box>({},{}),({},{})</box>",
    "tokens": "<|box_start|>({},{}),({},{})<|box_end|>",
    "nested": "[[{},{}],[{},{}]]",
    "named": '{{"x1": {}, "y1": {}, "x2": {}, "y2": {}}}',
    "bare": "{} {} {} {}",
    "prose": "On the 2 pages of 448 by 672 it is at {}, {}, {}, {}.",
    "thought": "<think>Perhaps [1, 2, 3, 4]?</think>The box: [{}, {}, {}, {}]",
}

integers = st.integers(0, 5000)
fractions = st.floats(0, 1).map(lambda number: round(number, 4))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(numbers=st.one_of(st.tuples(*[integers] * 4), st.tuples(*[fractions] * 4)))
def test_a_box_is_read_in_every_form(form: str, numbers: tuple[float, float, float, float]) -> None:
    a, b, c, d = numbers
    c, d = max(c, a) + 1, max(d, b) + 1
    assert parse_box(form.format(a, b, c, d)) == pytest.approx((a, b, c, d))


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot see a red rectangle.",
        "[1, 2, 3]",
        "[1, 2, 3, 4, 5]",
        "[30, 40, 10, 20]",
        "[1, 1, 1, 1]",
        "[nan, 0, 1, 1]",
        "[1e999, 0, 2e999, 1]",
        "version 1.2.3.4",
        "<think>[1, 2, 3, 4]</think> none",
    ],
)
def test_what_holds_no_box_gives_none(reply: str) -> None:
    assert parse_box(reply) is None


def test_the_last_box_counts_and_an_inverted_one_does_not() -> None:
    assert parse_box("First [1, 2, 3, 4], better [5, 6, 7, 8]. Not [9, 9, 1, 1].") == (5, 6, 7, 8)


def test_location_tokens_are_read() -> None:
    assert parse_box("<loc0010><loc0020><loc0300><loc0400> red") == (10, 20, 300, 400)


@given(st.text(alphabet='0123456789.,-+e[](){}<>/ \nbox:"x1y2', max_size=300))
def test_any_text_gives_a_box_or_none(text: str) -> None:
    found = parse_box(text)
    assert found is None or (found.a < found.c and found.b < found.d)


@pytest.mark.parametrize("piece", ["1", "1 ", "[1,", "((", "[ ", "1e", "x1:1 ", "-", "<loc1>", "1.", " "])
def test_long_replies_are_read_in_no_time(piece: str) -> None:
    start = time.perf_counter()
    parse_box(piece * 100_000)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
@given(sides=st.tuples(*[st.floats(0, 1)] * 4), width=st.integers(28, 3000), height=st.integers(28, 3000))
def test_writing_and_reading_a_box_are_inverses(
    convention: Convention, sides: tuple[float, float, float, float], width: int, height: int
) -> None:
    size = Size(width, height)
    numbers = Numbers(*json.loads(json.dumps(convention.write(Box.unit(*sides), size))))
    assert convention.read(numbers, size).as_tuple() == pytest.approx(sides, abs=1e-9)
