from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vrag.search.engine import reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def exact(rankings: list[list[str]], k: int) -> dict[str, Fraction]:
    names = {name for ranking in rankings for name in ranking}
    return {
        name: sum(
            (Fraction(1, k + 1 + ranking.index(name)) for ranking in rankings if name in ranking), Fraction()
        )
        for name in names
    }


@example([list("bca"), list("bca"), list("hbca"), list("bcdaeh")], 0)  # a tie that rounding parts
@given(RANKINGS, st.integers(0, 100))
def test_scores_and_order_are_those_of_exact_arithmetic(rankings: list[list[str]], k: int) -> None:
    scores = exact(rankings, k)
    fused = reciprocal_rank_fusion(rankings, k)
    assert dict(fused) == pytest.approx({name: float(score) for name, score in scores.items()})
    assert [name for name, _ in fused] == sorted(scores, key=lambda name: (-scores[name], name))


@given(RANKINGS)
def test_the_order_of_the_rankings_does_not_matter(rankings: list[list[str]]) -> None:
    assert reciprocal_rank_fusion(rankings) == reciprocal_rank_fusion(rankings[::-1])


@given(st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_one_ranking_keeps_its_order(ranking: list[str]) -> None:
    assert [name for name, _ in reciprocal_rank_fusion([ranking])] == ranking


def test_ties_go_by_id() -> None:
    assert [name for name, _ in reciprocal_rank_fusion([["b", "a"], ["a", "b"]])] == ["a", "b"]
