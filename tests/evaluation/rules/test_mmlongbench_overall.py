"""The accuracy and the F1 of a set of questions, as MMLongBench-Doc has them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.evaluation.rules.mmlongbench import Mark, overall


def test_accuracy_and_f1_by_hand() -> None:
    # answers a, c, "Not answerable" to three that have one; "Not answerable", z, "not answerable." to three
    # that have none: the last one counts as an answer. Earned by the answerable: 1.6, of 3 and of 4.
    marks = [
        Mark(answerable=True, score=1.0, answered=True),
        Mark(answerable=True, score=0.6, answered=True),
        Mark(answerable=True, score=0.0, answered=False),
        Mark(answerable=False, score=1.0, answered=False),
        Mark(answerable=False, score=0.0, answered=True),
        Mark(answerable=False, score=0.93, answered=True),
    ]
    assert overall(marks) == pytest.approx((3.53 / 6, 1.6 / 4, 1.6 / 3, 0.457142857142857))


@pytest.mark.parametrize(
    ("marks", "accuracy"),
    [
        ([], 0.0),
        ([(False, 1.0, False)], 1.0),
        ([(True, 0.0, False)], 0.0),
        ([(True, 0.0, True)], 0.0),
    ],
)
def test_what_would_be_divided_by_nothing_is_0(
    marks: list[tuple[bool, float, bool]], accuracy: float
) -> None:
    assert overall(marks) == (accuracy, 0, 0, 0)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.booleans())))
def test_f1_lies_between_precision_and_recall(marks: list[tuple[bool, float, bool]]) -> None:
    found = overall(marks)
    low, high = sorted((found.precision, found.recall))
    assert low - 1e-12 <= found.f1 <= high + 1e-12
    assert found.accuracy == pytest.approx(math.fsum(mark[1] for mark in marks) / max(1, len(marks)))
