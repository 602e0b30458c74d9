"""List EM and F1 of M3DocVQA, against values that its script gave and a match by trying all."""

from __future__ import annotations

import json
import random
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_time import at_most

from vrag.datasets.m3docvqa import MAX_SPANS, best_match, list_em, list_f1, span_words
from vrag.datasets.registry import RULES
from vrag.types import AnswerFormat, Case

SPANS = st.text("ab 5-.", max_size=8) | st.sampled_from(
    ["the", "two", "Twenty-One", "1,000", "nan", "red cat"]
)
LISTS = st.lists(SPANS, min_size=1, max_size=4)


def case(reference: str, *others: str, listed: bool = False) -> Case:
    return Case(
        uid="1",
        query="q",
        reference_answer=reference,
        alternatives=others,
        file_name="f.pdf",
        answer_format=AnswerFormat.LIST if listed else AnswerFormat.UNKNOWN,
    )


def scored(answer: str | None, *references: str, listed: bool = False) -> tuple[float, float]:
    found = RULES["m3docvqa"](case(*references, listed=listed), answer)
    return found["m3docvqa/em"], found["m3docvqa/f1"]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("The U.S.", "us"),
        ("an A-frame", "frame"),
        ("-5", "5.0"),  # the hyphen is a break, so a number has no sign
        ("1e-5", "1e 5.0"),
        ("$1,000", "1000.0"),
        ("5%", "5.0"),
        ("5.", "5.0"),
        ("5.014285714285714", "5.014285714285714"),
        ("300.0", "300.0"),
        ("300", "300.0"),
        ("1_0", "10.0"),
        ("٣", "3.0"),
        ("½", "½"),
        ("twenty-one", "20.0 1.0"),
        ("two hundred", "2.0 100.0"),
        ("Point Break", "0.0 break"),
        ("infinity", "inf"),
        ("“The” end", "“ ” end"),
        ("o'clock", "oclock"),
        ("", ""),
        ("the", ""),
    ],
)
def test_words_are_those_of_the_published_script(span: str, words: str) -> None:
    assert " ".join(span_words(span)) == words


def test_any_white_space_separates_words() -> None:
    """In the published script, "two<newline>cats" is the number 2."""
    assert span_words("two\ncats\tand dogs") == ["2.0", "cats", "and", "dogs"]


@pytest.mark.parametrize(
    ("said", "meant", "em", "f1"),
    [
        (["Mask"], ["mask"], 1, 1),
        (["five"], ["5"], 1, 1),
        (["b", "a cat"], ["cat", "b"], 1, 1),
        (["cat"], ["cat", "dog"], 0, 0.5),
        (["cat", "dog"], ["cat"], 0, 0.5),
        (["cat", "cat"], ["cat"], 0, 0.5),
        (["cat", "cat", "dog"], ["cat", "dog", "dog"], 1, 0.67),  # EM is of sets of spans, as many
        (["cat, dog"], ["cat", "dog"], 0, 0.33),
        (["red cat"], ["red dog"], 0, 0.5),
        (["cat cat"], ["cat"], 0, 1),  # F1 is of sets of words
        (["red 4"], ["red 5"], 0, 0),  # the number is another
        (["red"], ["red 5"], 0, 0),
        (["red 5"], ["red"], 0, 0.67),
        (["a b c d", "a b"], ["b c d", "b"], 1, 1),  # articles are no words
        (["x y", "x"], ["x", "x y"], 1, 1),
        ([""], ["the"], 1, 1),
        ([""], ["cat"], 0, 0),
        (["cat"], ["the"], 0, 0),
    ],
)
def test_lists_by_hand_and_by_the_published_script(
    said: list[str], meant: list[str], em: float, f1: float
) -> None:
    assert (list_em(said, meant), list_f1(said, meant)) == (em, f1)


def test_what_was_said_is_one_span_unless_it_is_a_list_in_json() -> None:
    right = json.dumps(["Paris, Texas", "300"])
    assert scored('["300.0", "paris texas"]', right, "Paris, Texas, 300", listed=True) == (1, 1)
    assert scored(' [300, "paris texas"] ', right, listed=True) == (1, 1)
    assert scored("Paris, Texas, 300", right, "Paris, Texas, 300", listed=True) == (0, 0.4)
    assert scored("['300', 'paris texas']", right, listed=True) == (0, 0.4)  # Python, not JSON
    assert scored("[1] Paris", "Paris") == (0, 0.67)
    assert scored("[]", "Paris") == scored("[[1]]", "Paris") == scored("[true]", "Paris") == (0, 0)


def test_a_single_answer_that_looks_like_a_list_is_one_span() -> None:
    assert scored("[1, 2]", "[1, 2]") == (0, 0.33)
    assert scored('["[1, 2]"]', "[1, 2]") == (1, 1)


def test_an_abstention_and_no_answer_are_wrong() -> None:
    assert scored("Not answerable", "cat") == scored(None, "cat") == (0, 0)
    assert scored("Not answerable", "not answerable things") == (0, 0)


def reference_f1(said: list[str], meant: list[str]) -> float:
    """By trying every one-to-one match."""

    def f1(one: str, right: str) -> float:
        a, b = set(span_words(one)), set(span_words(right))
        numbers = {word for word in b if re.fullmatch(r"\d+\.\d+|\d(\.\d+)?e[+-]\d+|inf|nan", word)}
        if numbers and not numbers & a:
            return 0.0
        precision = len(a & b) / len(a) if a else 1.0
        recall = len(a & b) / len(b) if b else 1.0
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    size = max(len(said), len(meant))
    ours = [*said, *[None] * (size - len(said))]
    return max(
        sum(f1(one, right) for one, right in zip(order, meant, strict=False) if one is not None) / size
        for order in permutations(ours)
    )


@given(said=LISTS, meant=LISTS)
def test_the_f1_is_that_of_the_best_match(said: list[str], meant: list[str]) -> None:
    assert abs(list_f1(said, meant) - reference_f1(said, meant)) <= 0.005 + 1e-9


@given(said=LISTS, meant=LISTS, seed=st.randoms(use_true_random=False))
def test_the_order_of_lists_is_nothing(said: list[str], meant: list[str], seed: random.Random) -> None:
    other = seed.sample(said, len(said))
    assert (list_em(said, meant), list_f1(said, meant)) == (list_em(other, meant), list_f1(other, meant))
    assert list_em(said, other) == 1
    assert list_em(said, meant) == list_em(meant, said)


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 2 / 3, 0.9, 1.0]), min_size=width, max_size=width), max_size=5
        )
    )
)
def test_the_match_is_the_best_of_all(scores: list[list[float]]) -> None:
    rows = (
        scores
        if not scores or len(scores) <= len(scores[0])
        else [list(one) for one in zip(*scores, strict=True)]
    )
    every = permutations(range(len(rows[0]) if rows else 0), len(rows))
    best = max(sum(row[at] for row, at in zip(rows, order, strict=True)) for order in every)
    found = best_match(scores)
    assert len({row for row, _ in found}) == len({column for _, column in found}) == len(found) == len(rows)
    assert abs(sum(scores[row][column] for row, column in found) - best) < 1e-9


def test_a_list_without_end_is_one_span_and_takes_no_time() -> None:
    long = json.dumps([f"{n} cats" for n in range(MAX_SPANS + 1)])
    with at_most(2):
        assert scored(long, json.dumps([f"{n} cats" for n in range(100)]), listed=True)[0] == 0
        assert scored(json.dumps(["cat"] * (MAX_SPANS + 1)), "cat") == (0, 1)
        assert scored("[" * 100_000, "cat") == (0, 0)
        assert scored(json.dumps(["cat"] * MAX_SPANS), json.dumps(["dog"] * 60), listed=True) == (0, 0)
