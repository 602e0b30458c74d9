from __future__ import annotations

import math
import re
import string
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.metrics import anls, exact_match, ndcg, normalised, recall, reciprocal_rank, token_f1

PAGES = st.lists(st.integers(0, 12), unique=True)
GOLD = st.frozensets(st.integers(0, 12))
CUT = st.none() | st.integers(1, 15)


def slow_ndcg(ranking: list[int], gold: frozenset[int], k: int | None) -> float:
    """From the definition, with the ideal found by sorting the gains instead of counting the gold."""
    gains = [1 if page in gold else 0 for page in ranking] + [1] * len(gold - set(ranking))
    cut = len(gains) if k is None else k

    def dcg(values: list[int]) -> float:
        return sum((2**gain - 1) / math.log2(rank + 2) for rank, gain in enumerate(values[:cut]))

    best = dcg(sorted(gains, reverse=True))
    return dcg(gains[: len(ranking)]) / best if best else 0.0


@given(PAGES, GOLD, CUT)
def test_ndcg_is_that_of_the_definition(ranking: list[int], gold: frozenset[int], k: int | None) -> None:
    assert ndcg(ranking, gold, k) == pytest.approx(slow_ndcg(ranking, gold, k))


@given(PAGES, GOLD, CUT)
def test_measures_lie_between_0_and_1(ranking: list[int], gold: frozenset[int], k: int | None) -> None:
    for value in (ndcg(ranking, gold, k), recall(ranking, gold, k), reciprocal_rank(ranking, gold)):
        assert 0 <= value <= 1 + 1e-12


@given(GOLD.filter(bool), PAGES)
def test_a_ranking_that_begins_with_all_the_gold_is_perfect(gold: frozenset[int], rest: list[int]) -> None:
    ranking = [*gold, *(page for page in rest if page not in gold)]
    assert ndcg(ranking, gold) == ndcg(ranking, gold, len(gold)) == pytest.approx(1)
    assert recall(ranking, gold, len(gold)) == reciprocal_rank(ranking, gold) == 1


@pytest.mark.parametrize(
    ("ranking", "gold", "k", "expected"),
    [
        # DCG@3 = 1/log2(3) = 0.63093; ideal of one gold page = 1
        ("xax", "a", 3, 0.63093),
        # DCG@5 = 1/log2(2) + 1/log2(5) = 1.43068; ideal of three = 1 + 0.63093 + 0.5 = 2.13093
        ("axyb", "abc", 5, 0.67139),
        # more gold than places: the ideal has two places, 1.63093
        ("ax", "abc", 2, 0.61315),
        ("ax", "abc", None, 0.46928),
        ("", "a", 5, 0.0),
        ("a", "", 5, 0.0),
    ],
)
def test_ndcg_by_hand(ranking: str, gold: str, k: int | None, expected: float) -> None:
    assert ndcg(ranking, frozenset(gold), k) == pytest.approx(expected, abs=1e-5)


def test_recall_and_reciprocal_rank_by_hand() -> None:
    ranking, gold = "xaybz", frozenset("abc")
    assert [recall(ranking, gold, k) for k in (1, 2, 4)] == pytest.approx([0, 1 / 3, 2 / 3])
    assert reciprocal_rank(ranking, gold) == 1 / 2
    assert reciprocal_rank("xyz", gold) == 0


def test_a_page_that_comes_twice_counts_once_where_it_is_first() -> None:
    gold = frozenset("ab")
    assert recall("aab", gold, 2) == 1 / 2
    assert ndcg("aab", gold) == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))


WRITTEN = st.text(alphabet="aben th.,'-5", max_size=14)


def squad_words(text: str) -> list[str]:
    """As the evaluation script of SQuAD takes answers apart; right for ASCII."""
    bare = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def squad_f1(answer: str, reference: str) -> float:
    said, meant = squad_words(answer), squad_words(reference)
    if not said or not meant:
        return float(said == meant)
    left = list(meant)
    shared = 0
    for word in said:
        if word in left:
            left.remove(word)
            shared += 1
    precision, found = shared / len(said), shared / len(meant)
    return 2 * precision * found / (precision + found) if shared else 0.0


def slow_anls(answer: str, reference: str) -> float:
    """From the definition, the distance by recursion."""
    one, other = answer.lower(), reference.lower()

    @cache
    def edits(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            edits(i - 1, j) + 1, edits(i, j - 1) + 1, edits(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        )

    distance = edits(len(one), len(other)) / max(len(one), len(other), 1)
    return 1 - distance if distance < 0.5 else 0.0


@given(WRITTEN, WRITTEN)
def test_words_are_compared_as_by_squad(answer: str, reference: str) -> None:
    assert normalised(answer).split() == squad_words(answer)
    assert exact_match(answer, reference) == float(squad_words(answer) == squad_words(reference))
    assert token_f1(answer, reference) == pytest.approx(squad_f1(answer, reference))


@given(st.text(alphabet="abAB1", max_size=9), st.text(alphabet="abAB1", max_size=9))
def test_anls_is_that_of_the_definition(answer: str, reference: str) -> None:
    assert anls(answer, reference) == pytest.approx(slow_anls(answer, reference))
    assert anls(answer, reference) == anls(reference, answer)


@given(st.text(), st.text())
def test_measures_of_answers_lie_between_0_and_1_and_are_1_of_the_same(one: str, other: str) -> None:
    for measure in (exact_match, token_f1, anls):
        assert 0 <= measure(one, other) <= 1
        assert measure(one, one) == 1


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("48,200", "48200", (1.0, 1.0, 5 / 6)),
        ("The “Lantern” ferry", "lantern ferry", (1.0, 1.0, 1 - 6 / 19)),
        # shared: red, ferry; precision 2/3, recall 2/4; 4 letters in front and 5 at the end to write
        ("red ferry boat", "one red ferry ticket", (0.0, 4 / 7, 1 - 9 / 20)),
        ("  最终  答案 ", "最终 答案", (1.0, 1.0, 1.0)),
        ("", "ferry", (0.0, 0.0, 0.0)),
        # half of the letters differ: not less than the threshold
        ("ab", "ac", (0.0, 0.0, 0.0)),
        ("abcx", "abcyzw", (0.0, 0.0, 0.0)),
        # a word counts as often as it occurs in both: precision 1, recall 2/3
        ("red red", "red red boat", (0.0, 0.8, 7 / 12)),
    ],
)
def test_measures_of_answers_by_hand(
    answer: str, reference: str, expected: tuple[float, float, float]
) -> None:
    found = exact_match(answer, reference), token_f1(answer, reference), anls(answer, reference)
    assert found == pytest.approx(expected)
