"""Damaged JSON: valid JSON means what `json` reads, and no text raises anything else or takes long."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_time import at_most

from vrag.agent.replies.json_repairs import MAX_CHARACTERS, MAX_MARKS, read_damaged_json

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)
PIECES = [
    "{", "}", "[", "]", '"', "'", ":", ",", "\\", "“", "//", "/*", "#", "```", "null", "True",
    "None", "a", "1", '"a":', '{"a":', " ", "\n", "é", "\ud800", "<", "-", ".", "(", ")",
]  # fmt: skip
words = st.text("abcdefgh xyz", min_size=1).map(str.strip).filter(bool)


@given(containers, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_valid_json_means_what_the_standard_library_reads(value: Any, ascii_only: bool, indent: Any) -> None:  # noqa: ANN401
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_damaged_json(written) == json.loads(written)


COMMENTS = ["// a note", '# it\'s "so"', "/* one, two */", "//"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)))
def test_any_text_is_an_object_a_list_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(read_damaged_json(text), dict | list)


@given(st.dictionaries(words, st.one_of(words, st.integers(0, 10**9), st.lists(words)), min_size=1))
def test_the_words_of_python_and_commas_before_brackets_are_read(value: dict[str, Any]) -> None:
    assert read_damaged_json(repr(value)) == value
    assert read_damaged_json(json.dumps(value).replace("]", ",]").replace("[,]", "[]")[:-1] + ",}") == value


@given(st.dictionaries(words, st.lists(words, min_size=1), min_size=1), st.integers(1, 2))
def test_brackets_that_are_missing_at_the_end_are_added(value: dict[str, Any], missing: int) -> None:
    assert read_damaged_json(json.dumps(value)[:-missing]) == value


@given(st.dictionaries(words, st.lists(words, min_size=1), min_size=1), st.sampled_from(COMMENTS))
def test_comments_are_left_out(value: dict[str, Any], comment: str) -> None:
    written = json.dumps(value, indent=1)
    assert read_damaged_json(written.replace("\n", f" {comment}\n")) == value
    assert read_damaged_json(f"{comment}\n{written} {comment}") == value


def test_what_looks_like_a_comment_inside_a_text_stays() -> None:
    text = """{'answer': 'see http://a.b/c # 2 /* or */ // 3', "b": "# 1", // the end
    }"""
    assert read_damaged_json(text) == {"answer": "see http://a.b/c # 2 /* or */ // 3", "b": "# 1"}


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "cut off in the mid',
        '{"answer": 48',
        '{"answer": 12 % of passengers}',
        "48,200",
        '"a text"',
        "",
        "[" * 400 + '"a"' + "]" * 399,
        "{'a': '" + "x" * MAX_CHARACTERS + "'}",
        "[" + "'a'," * MAX_MARKS + "]",
    ],
)
def test_what_is_not_clear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_damaged_json(text)


@pytest.mark.parametrize("piece", ["{'", '["', '{"a" ', '["b",', ":'", 'x" ', '{"a": ["b",{{"a" ', '\\"'])
def test_a_hostile_text_takes_no_time_with_the_square_of_its_length(piece: str) -> None:
    fitting = min((MAX_CHARACTERS - 1) // len(piece), MAX_MARKS // 4)
    with at_most(5):  # a tenth of a second; unbounded, minutes
        with pytest.raises(ValueError, match=r"\w"):
            read_damaged_json(piece * 100_000 + "z")
        with suppress(ValueError):
            read_damaged_json(piece * fitting + "}")


def test_zeros_take_no_time_with_the_square_of_their_number() -> None:
    # It takes a hundredth of a second; with the square, 2 seconds. More digits than a float holds:
    with at_most(1), pytest.raises(ValueError, match="no place"):
        read_damaged_json("[1." + "0" * (MAX_CHARACTERS - 10) + "1,]")


def test_last_zeros_of_fractions_may_be_left_out() -> None:
    assert read_damaged_json("[1.50, 2.0, 10.100,]") == [1.5, 2.0, 10.1]
