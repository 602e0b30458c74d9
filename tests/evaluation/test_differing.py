from __future__ import annotations

from typing import Any

import pytest
from reported import record

from vrag.evaluation.pairs import differences, row_differences
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.result_store import Conditions, Evaluation

RUN: dict[str, Any] = {
    "version": "1", "benchmarks": (), "cases": "0", "samples": 1, "judge": "qwen", "made_with": {},
}  # fmt: skip


def run(**more: object) -> Conditions:
    return Conditions.model_validate(RUN | more)


def test_runs_of_before_have_neither_identity_nor_extractor() -> None:
    assert (run().judge_identity, run().extractor) == ("", "")


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({"cases": "1"}, {}, "prepared apart"),
        ({"samples": 2}, {"samples": 3}, "asked 2 and 3 times"),
        ({}, {"stopped": True}, "stopped before"),
        ({}, {"measures": 1}, "versions that measure differently"),
        ({"extractor": "qwen:1"}, {}, "short answers that qwen:1 extracted in the first run, and answers as"),
        ({}, {"extractor": "qwen:1"}, "as they were given in the first run, and short answers that qwen:1"),
        (
            {"extractor": "qwen:1"},
            {"extractor": "qwen:2"},
            "qwen:1 extracted in the first run, and short ans",
        ),
    ],
)
def test_each_difference_is_a_sentence(a: dict[str, Any], b: dict[str, Any], said: str) -> None:
    (told,) = differences(run(**a), run(**b))
    assert said in told
    assert told.endswith(".")


def test_nothing_is_told_of_what_may_differ_or_is_the_same() -> None:
    assert not differences(run(extractor="qwen:1"), run(extractor="qwen:1", made_with={"agent": "vrag"}))


def done(*uids: str, **more: object) -> Evaluation:
    return Evaluation(
        conditions=run(**more), records=tuple(record(uid, CaseOutcome.RIGHT) for uid in uids or ("1",))
    )


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (done(judge="rules"), done(), "A by rules, B by qwen."),
        (done(judge_identity="x:1"), done(judge_identity="x:2"), "A by x:1, B by x:2."),
        (done(extractor="e"), done(), "of A short answers that e extracted, of B answers as they were given"),
        (done("1", "2"), done("2"), "A 2 questions, B 1 question; 1 are the same."),
        (done(cases="1"), done(), "different preparations"),
        (done(measures=1), done(), "measure differently"),
    ],
)
def test_each_difference_of_the_rows_of_a_table_is_a_sentence(
    a: Evaluation, b: Evaluation, said: str
) -> None:
    (told,) = row_differences({"A": [a], "B": [b]})
    assert said in told
    assert told.endswith(".")
    assert not row_differences({"A": [a], "B": [a]})
    assert not row_differences({"A": [a]})


def test_benchmarks_that_were_run_together_or_apart_are_the_same_questions() -> None:
    both, one, other = done("1", "2"), done("1", cases="1"), done("2", cases="2")
    assert not row_differences({"A": [both], "B": [one, other]})
