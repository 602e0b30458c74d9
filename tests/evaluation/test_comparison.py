from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from evaluated import mcnemar
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vrag.errors import CaseError
from vrag.evaluation.comparison import compare
from vrag.evaluation.intervals import IntervalMethod
from vrag.evaluation.record import CaseOutcome, CaseRecord, Subject
from vrag.evaluation.significance import sign_flip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

RIGHT, WRONG = CaseOutcome.RIGHT, CaseOutcome.WRONG
WORDS = {
    "r": RIGHT,
    "w": WRONG,
    "a": CaseOutcome.ABSTAINED,
    "u": CaseOutcome.UNJUDGED,
    "f": CaseOutcome.FAILED,
}


def record(
    at: int,
    outcome: CaseOutcome,
    measures: Mapping[str, float] | None = None,
    *,
    documents: int = 10,
    sample: int = 0,
    labels: Mapping[str, object] | None = None,
) -> CaseRecord:
    told: dict[str, object] = {
        "benchmark": "set",
        "uid": f"{at:03}",
        "question": "?",
        "references": ("yes",),
        "answerable": True,
        "document": f"{at % documents}.pdf",
    }
    subject = Subject.model_validate(told | dict(labels or {}))
    return CaseRecord(subject=subject, sample=sample, outcome=outcome, measures=dict(measures or {}))


def run(outcomes: str, *, documents: int = 10) -> list[CaseRecord]:
    """A letter for each question; `f1` is 1 for right, else 0; what one that broke off cost is not known."""
    return [
        record(
            at,
            WORDS[letter],
            {"f1": 0.0} if letter == "f" else {"f1": float(letter == "r"), "turns": 2.0 + (letter == "r")},
            documents=documents,
        )
        for at, letter in enumerate(outcomes)
    ]


OUTCOMES = st.lists(st.tuples(st.sampled_from("rwauf"), st.sampled_from("rwauf")), min_size=1, max_size=30)


# One comparison by hand


def test_a_comparison_by_hand() -> None:
    # 20 questions in 10 documents: 4 both, 9 only B, 2 only A, 5 neither.
    first = run("rrrr" + "w" * 9 + "rr" + "wafww")
    second = run("rrrr" + "r" * 9 + "ww" + "wwwaf")
    found = compare(first, second, names=("before", "after"))
    assert (found.a, found.b) == ("before", "after")
    accuracy = found.headline
    assert (accuracy.measure, accuracy.questions, accuracy.documents) == ("accuracy", 20, 10)
    assert (accuracy.a, accuracy.b) == (0.3, 0.65)
    assert accuracy.difference == pytest.approx(0.35)
    assert (accuracy.wins, accuracy.ties, accuracy.losses, accuracy.left_out) == (9, 9, 2, 0)
    assert accuracy.by_question.p == mcnemar(9, 2)
    # Documents 0 to 9 hold questions n and n + 10: sums 1, 1, 1, 0-1, 1-1, 1, 1, 1, 1, 1 by hand.
    sums = [1.0, 1.0, 1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert accuracy.by_document == sign_flip(sums)
    assert accuracy.decisive is accuracy.by_document
    assert accuracy.adjusted is None
    assert accuracy.remark == ""
    assert accuracy.interval is not None
    assert accuracy.interval.method is IntervalMethod.BOOTSTRAP
    assert accuracy.interval.low < 0.35 < accuracy.interval.high
    assert accuracy.detectable is not None
    cells = found.cells
    assert [len(cell) for cell in (cells.both, cells.only_a, cells.only_b, cells.neither)] == [4, 2, 9, 5]
    assert cells.only_a == (("set", "013", 0), ("set", "014", 0))
    assert found.bracket is None
    assert not found.identical


def test_what_is_equal_on_every_question_is_no_test_among_others() -> None:
    def measured(told: list[CaseRecord], **more: float) -> list[CaseRecord]:
        return [one.model_copy(update={"measures": one.measures | more}) for one in told]

    first, second = run("rrwwwwwwwwww"), run("rrrrrrrrwwww")
    alone = {one.measure: one.adjusted for one in compare(first, second).contrasts}
    beside = compare(measured(first, mrr=0.5, iou=0.5), measured(second, mrr=0.5, iou=0.5))
    told = {one.measure: one.adjusted for one in beside.contrasts}
    assert told == alone | {"mrr": 1.0, "iou": 1.0}


def test_measures_are_those_that_both_runs_have_the_headline_first_and_the_others_corrected() -> None:
    first, second = run("rrwwwwwwwwww"), run("rrrrrrrrwwff")
    found = compare(first, second)
    assert [one.measure for one in found.contrasts] == ["accuracy", "f1", "turns"]
    headline, f1, turns = found.contrasts
    assert (f1.questions, f1.left_out) == (12, 0)  # a run that broke off has an F1 of 0
    assert (turns.questions, turns.left_out) == (10, 2)  # and turns that are not known
    assert f1.difference == headline.difference == 0.5
    assert f1.adjusted == min(1.0, 2 * f1.p if f1.p <= turns.p else max(f1.p, 2 * turns.p))
    asked = compare(first, second, measures=["turns", "nothing", "accuracy"])
    assert [one.measure for one in asked.contrasts] == ["turns", "accuracy"]
    assert asked.headline.adjusted is None
    assert asked.contrasts[1].adjusted == headline.p


def test_identical_runs_have_p_of_1_in_every_measure() -> None:
    found = compare(run("rwrafwrwru" * 3), run("rwrafwrwru" * 3))
    assert found.identical
    for one in found.contrasts:
        assert (one.p, one.difference, one.remark) == (1.0, 0.0, "identical on every question")
        assert one.detectable is None
    assert found.headline.interval is not None
    low, high = found.headline.interval.low, found.headline.interval.high
    assert low == -high < 0  # on others they could differ


# What is missing


def test_questions_without_a_verdict_are_left_out_counted_and_bracketed() -> None:
    found = compare(run("rrwwuuw"), run("rwwrrwu"))
    assert found.headline.questions == 4
    assert found.headline.left_out == 3
    assert [both.key[1] for both in found.pairing.unjudged] == ["004", "005", "006"]
    assert sum(map(len, (found.cells.both, found.cells.only_a, found.cells.only_b, found.cells.neither))) == 4
    assert found.bracket is not None
    # Of 7: A 2 right, B 3 and the missing one; then A 2 and both missing ones, B 3.
    assert found.bracket.worst_for_a.difference == pytest.approx((4 - 2) / 7)
    assert found.bracket.worst_for_b.difference == pytest.approx((3 - 4) / 7)
    # One without a verdict in both: wrong for the one, right for the other.
    both = compare(run("ru"), run("ru")).bracket
    assert both is not None
    assert (both.worst_for_a.difference, both.worst_for_b.difference) == (0.5, -0.5)


def test_a_run_that_always_broke_off_is_compared_in_what_it_has_earned_nothing_of() -> None:
    found = compare(run("fff"), run("rrw"))
    assert [(one.measure, one.a, one.questions) for one in found.contrasts] == [
        ("accuracy", 0, 3),
        ("f1", 0, 3),
    ]


def test_without_any_verdict_other_measures_are_compared() -> None:
    found = compare(run("uuu"), run("uuu"))
    assert [one.measure for one in found.contrasts] == ["f1", "turns"]
    with pytest.raises(CaseError, match="no measure in common"):
        compare([record(0, CaseOutcome.UNJUDGED)], [record(0, WRONG)])


def test_what_only_one_run_has_is_told() -> None:
    found = compare(run("rrww"), run("rrw"))
    assert found.pairing.only_a == (("set", "003", 0),)
    assert found.headline.questions == 3


# By question or by document


def test_few_documents_do_not_decide() -> None:
    first, second = "wwwwwwwwww", "rrrrrrrwww"
    few = compare(run(first, documents=5), run(second, documents=5)).headline
    assert few.by_document is None
    assert few.decisive is few.by_question
    assert few.remark == "few documents: says little about others"
    one = compare(run(first, documents=1), run(second, documents=1)).headline
    assert one.remark == "one document: says nothing about others"
    assert one.interval is not None
    assert (one.interval.documents, one.interval.method) == (
        1,
        IntervalMethod.BOOTSTRAP,
    )  # questions were drawn
    each = compare(run(first), run(second)).headline  # of its own
    assert (each.by_document, each.remark) == (None, "")
    assert (
        compare(run("wwww", documents=1), run("rrrr", documents=1)).headline.remark
        == "too few differ to tell"
    )


def test_samples_of_a_question_keep_their_signs_together() -> None:
    first = [record(at, WRONG, sample=sample) for at in range(6) for sample in range(3)]
    second = [record(at, RIGHT, sample=sample) for at in range(6) for sample in range(3)]
    found = compare(first, second).headline
    assert (found.questions, found.wins) == (18, 18)
    assert found.by_question == sign_flip([3.0] * 6)


# By group


def test_groups_are_told_by_each_label_and_corrected_within_their_kind() -> None:
    def labelled(outcomes: str) -> list[CaseRecord]:
        kinds = (("Table", "Chart"), ("Chart",), ())
        return [
            record(at, WORDS[letter], labels={"source_type": kinds[at % 3], "query_type": "one hop"})
            for at, letter in enumerate(outcomes)
        ]

    found = compare(labelled("w" * 30), labelled("rrw" * 9 + "wrw"))
    assert {(group.kind, group.label): group.contrasts[0].questions for group in found.groups} == {
        ("source_type", "Chart"): 20,
        ("source_type", "Table"): 10,
    }  # all have the same query type and benchmark: that is no group
    chart, table = (group.contrasts[0] for group in found.groups)
    assert (chart.difference, table.difference) == (0.95, 0.9)
    assert (chart.p, table.p) == (2**-10, 2**-9)
    assert chart.adjusted == 2 * chart.p
    assert table.adjusted == table.p


def test_no_group_is_told_of_a_measure_that_it_lacks() -> None:
    first = [
        record(0, RIGHT, labels={"query_type": "x"}),
        record(1, CaseOutcome.UNJUDGED, labels={"query_type": "y"}),
    ]
    assert [group.label for group in compare(first, first).groups] == ["x"]
    assert compare(first, first, by_group=()).groups == ()


# What does not change it


@settings(max_examples=30)
@given(OUTCOMES)
def test_order_does_not_change_a_comparison_and_exchange_turns_its_signs(
    outcomes: list[tuple[str, str]],
) -> None:
    first = run("".join(a for a, _ in outcomes), documents=7)
    second = run("".join(b for _, b in outcomes), documents=7)
    assume(any({a, b} != {"u", "f"} for a, b in outcomes))  # else they have no measure in common
    found, again, turned = (
        compare(*runs, resamples=50)
        for runs in ((first, second), (first[::-1], second[::-1]), (second, first))
    )
    assert again == found
    assert [one.measure for one in turned.contrasts] == [one.measure for one in found.contrasts]
    for one, other in zip(found.contrasts, turned.contrasts, strict=True):
        assert (one.by_question, one.by_document) == (other.by_question, other.by_document)
        assert (one.a, one.b, one.difference) == (other.b, other.a, -other.difference)
        assert (one.wins, one.losses) == (other.losses, other.wins)
        assert (one.detectable, one.adjusted) == (other.detectable, other.adjusted)
        assert (one.interval is None) == (other.interval is None)
        if one.interval and other.interval:
            assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)
    assert (found.cells.only_a, found.cells.only_b) == (turned.cells.only_b, turned.cells.only_a)


# As JSON


def test_all_of_it_is_json() -> None:
    found = compare(run("rrwwuw"), run("rwwrrwr"), names=("x", "y"))
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (told["a"], told["b"], told["pairs"], told["headline"]) == ("x", "y", 6, "accuracy")
    assert told["only_b"] == [["set", "006", 0]]
    assert told["unjudged"] == [["set", "004", 0]]
    assert told["cells"]["only_a"] == [["set", "001", 0]]
    accuracy = told["measures"]["accuracy"]
    assert {"a", "b", "difference", "low", "high", "p", "adjusted", "n"} <= accuracy.keys()
    assert accuracy["interval"]["low"] == accuracy["low"]
    assert accuracy["by"] == "question"
    assert told["bracket"]["worst_for_a"]["difference"] >= accuracy["difference"] * 5 / 6
    assert told["groups"] == {}


# False alarms, and what is found


def pool(
    chances: NDArray[np.float64], source: np.random.Generator, *, graded: bool
) -> list[list[CaseRecord]]:
    """Eight runs of one setting that answers each question rightly with a chance of its own."""
    rights = source.random((8, len(chances))) < chances
    marks = np.where(rights, np.round(source.random(rights.shape), 2), 0.0) if graded else rights * 1.0
    return [
        [
            record(at, RIGHT if rights[which, at] else WRONG, {"f1": float(marks[which, at])}, documents=12)
            for at in range(len(chances))
        ]
        for which in range(8)
    ]


@pytest.mark.parametrize(("measure", "graded"), [("accuracy", False), ("f1", True)])
def test_of_200_comparisons_of_a_setting_with_itself_4_to_16_are_significant(
    measure: str, graded: bool
) -> None:
    # For each question two of the eight runs are drawn. Drawing questions of two runs instead would
    # find again and again whatever these two happen to differ by.
    source = np.random.default_rng(7)
    runs = pool(source.beta(0.6, 0.6, 60), source, graded=graded)
    by_document = by_question = 0
    for _ in range(200):
        order = source.permuted(np.tile(np.arange(8), (60, 1)), axis=1)
        drawn: list[tuple[int, int]] = [(int(first), int(second)) for first, second in order[:, :2]]
        found = compare(
            [runs[which][at] for at, (which, _) in enumerate(drawn)],
            [runs[which][at] for at, (_, which) in enumerate(drawn)],
            measures=[measure],
            by_group=(),
            resamples=2,
        ).headline
        assert found.by_document is not None
        by_document += found.p <= 0.05
        by_question += found.by_question.p <= 0.05
    assert 4 <= by_document <= 16
    assert 4 <= by_question <= 16


def test_settings_that_differ_by_30_points_are_told_apart() -> None:
    source = np.random.default_rng(11)
    chances = source.beta(0.6, 0.6, 60)
    better = np.minimum(1.0, chances + 0.3)
    found = [
        compare(first, second, by_group=()).headline
        for first, second in zip(
            pool(chances, source, graded=False), pool(better, source, graded=False), strict=True
        )
    ]
    assert sum(one.p <= 0.05 for one in found) >= 6
    assert all(one.interval is not None and one.interval.high > 0.1 for one in found)
    truth = float((better - chances).mean())
    assert (
        sum(one.interval is not None and one.interval.low <= truth <= one.interval.high for one in found) >= 6
    )


def test_samples_of_a_question_make_no_interval_of_a_difference_narrower() -> None:
    def runs(samples: int) -> list[CaseRecord]:
        return [record(at, RIGHT, sample=sample) for at in range(3) for sample in range(samples)]

    def sides(samples: int) -> tuple[float, float]:
        told = compare(runs(samples), runs(samples), measures=["accuracy"]).as_dict()["measures"]["accuracy"]
        return told["low"], told["high"]

    assert sides(9) == sides(1) != (0, 0)
