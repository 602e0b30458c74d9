from __future__ import annotations

from typing import Any

import pytest

from vrag.rollouts.resumable_store import describe_differences


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"model": "a"}, {"model": "b"}, "model a, not b"),
        ({"sampling": {"seed": 3, "p": 1}}, {"sampling": {"seed": 4, "p": 1}}, "seed 3, not 4"),
        ({"seed": None}, {"seed": 4}, "other seed"),
        ({"cases": "a" * 64}, {"cases": "b" * 64}, "other cases"),
        ({"a": 1, "tools": [1]}, {"a": 2, "tools": [2]}, "a 1, not 2, other tools"),
        ({"limits": {"steps": 3}}, {}, "other limits"),
        ({"limits": {"a": 1}}, {"limits": {"a": 1, "new": None}}, "other new"),
        ({"a": "x\x1b"}, {"a": "y"}, "other a"),
    ],
)
def test_what_differs_is_told_in_words(before: dict[str, Any], now: dict[str, Any], told: str) -> None:
    assert describe_differences(sorted(before.keys() | now.keys()), before, now) == told
