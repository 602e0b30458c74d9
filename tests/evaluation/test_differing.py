from __future__ import annotations

from typing import Any

import pytest

from vrag.evaluation.differing import differences
from vrag.evaluation.running import Conditions

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
        ({"cases": "1"}, {}, "other preparations"),
        ({"samples": 2}, {"samples": 3}, "asked 2 and 3 times"),
        ({}, {"stopped": True}, "stopped before"),
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
