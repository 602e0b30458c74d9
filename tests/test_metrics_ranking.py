"""Measures of rankings against those of pytrec_eval (trec_eval), and with graded gold by hand."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.metrics import ndcg, recall, reciprocal_rank

PAGES = st.lists(st.sampled_from("abcdefghijklmno"), unique=True)
GRADES = st.dictionaries(st.sampled_from("abcdefghijklmno"), st.integers(0, 3), min_size=1)
CUTS = (1, 3, 5, 10)
DEEP = 1000
"""As many places as a measure without a cut has in trec_eval at most; rankings here are shorter."""


@pytest.fixture(scope="module")
def trec() -> ModuleType:
    """The module; it has no types."""
    return importlib.import_module("pytrec_eval")


def by_trec(trec: ModuleType, ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    """Its measures of one question.

    It sorts pages by scores in single precision and, among equals, by name: so scores are whole numbers.
    """
    cuts = ",".join(map(str, CUTS))
    measures = {f"ndcg_cut.{cuts}", f"recall.{cuts}", "ndcg", "recip_rank"}
    evaluator = trec.RelevanceEvaluator({"q": grades}, measures)
    scores = {page: float(DEEP - rank) for rank, page in enumerate(ranking)}
    return evaluator.evaluate({"q": scores})["q"]


def by_us(ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    found = {"ndcg": ndcg(ranking, grades), "recip_rank": reciprocal_rank(ranking, grades)}
    for k in CUTS:
        found |= {f"ndcg_cut_{k}": ndcg(ranking, grades, k), f"recall_{k}": recall(ranking, grades, k)}
    return found


@given(ranking=PAGES, grades=GRADES)
def test_measures_of_graded_rankings_are_those_of_trec_eval(
    trec: ModuleType, ranking: list[str], grades: dict[str, int]
) -> None:
    assert by_us(ranking, grades) == pytest.approx(by_trec(trec, ranking, grades), abs=1e-9)


@given(ranking=PAGES, gold=st.frozensets(st.sampled_from("abcdefghijklmno"), min_size=1))
def test_a_set_of_gold_is_gold_of_which_each_page_has_the_same_relevance(
    trec: ModuleType, ranking: list[str], gold: frozenset[str]
) -> None:
    grades = dict.fromkeys(gold, 1)
    assert by_us(ranking, grades) == pytest.approx(by_trec(trec, ranking, grades), abs=1e-9)
    for k in (None, *CUTS):
        assert ndcg(ranking, gold, k) == ndcg(ranking, grades, k)
        assert recall(ranking, gold, k) == recall(ranking, grades, k)
    assert ndcg(ranking, dict.fromkeys(gold, 2), 5) == pytest.approx(ndcg(ranking, gold, 5))


@pytest.mark.parametrize(
    ("ranking", "grades", "k", "value"),
    [
        # the page of relevance 1 before that of 2: (1 + 2/log2 3) / (2 + 1/log2 3), where the gain is linear;
        # with 2^rel - 1 it would be .79671
        ("ba", {"a": 2, "b": 1}, None, 0.859719),
        # (1 + 2/log2 3) / (2 + 1/log2 3 + 1/2)
        ("bax", {"a": 2, "b": 1, "c": 1}, 3, 0.722424),
        # only the best of the gold fits into the ideal of one place
        ("ba", {"a": 2, "b": 1}, 1, 1 / 2),
        # a page that comes again counts where it is first
        ("aab", {"a": 2, "b": 1}, None, (2 + 1 / 2) / (2 + 1 / math.log2(3))),
        ("ab", {"a": 0, "b": -1}, None, 0),
        ("ab", {"a": 0, "b": 3}, None, 1 / math.log2(3)),
    ],
)
def test_graded_ndcg_by_hand(ranking: str, grades: dict[str, int], k: int | None, value: float) -> None:
    assert ndcg(ranking, grades, k) == pytest.approx(value, abs=1e-6)


def test_what_has_no_relevance_is_no_gold() -> None:
    grades = {"a": 0, "b": 1}
    assert recall("ab", grades, 1) == 0
    assert recall("ab", grades, 2) == 1
    assert reciprocal_rank("ab", grades) == 1 / 2


@given(PAGES, GRADES, st.none() | st.integers(1, 15))
def test_graded_measures_lie_between_0_and_1_and_are_1_of_the_best_order(
    ranking: list[str], grades: dict[str, int], k: int | None
) -> None:
    assert 0 <= ndcg(ranking, grades, k) <= 1
    best = sorted(grades, key=lambda page: -grades[page])
    assert ndcg(best, grades, k) == pytest.approx(float(any(grades.values())))
