"""Records become results; every expected number is worked out beside it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.evaluation.record import CaseOutcome, CaseRecord, Subject
from vrag.evaluation.summary import MeasureValues, percentiles, summarise

FEW = 40
"""Draws of an interval: enough for tests of other things."""


def record(
    uid: str,
    outcome: CaseOutcome = CaseOutcome.RIGHT,
    *,
    answerable: bool = True,
    stop: str | None = "answered",
    document: str = "a.pdf",
    benchmark: str = "small",
    sources: tuple[str, ...] = (),
    query_type: str = "",
    **measures: float,
) -> CaseRecord:
    return CaseRecord(
        subject=Subject(
            benchmark=benchmark,
            uid=uid,
            question="?",
            references=("9",),
            answerable=answerable,
            document=document,
            source_type=sources,
            query_type=query_type,
        ),
        outcome=outcome,
        stop=stop,
        measures=measures,
    )


def figures(*records: CaseRecord) -> MeasureValues:
    return summarise(records, resamples=FEW).overall


def means(*records: CaseRecord) -> dict[str, tuple[float, int]]:
    return {name: (one.mean, one.n) for name, one in figures(*records).measures.items()}


def test_samples_of_a_question_make_no_interval_narrower() -> None:
    once = [record("1", CaseOutcome.RIGHT, em=1.0), record("2", CaseOutcome.WRONG, em=1.0)]
    often = [one.model_copy(update={"sample": sample}) for one in once for sample in range(9)]
    for name in ("accuracy", "em"):
        one, many = figures(*once).measures[name], figures(*often).measures[name]
        assert (one.low, one.high) == (many.low, many.high)
        assert (one.n, many.n) == (2, 18)


def test_what_is_unjudged_is_not_wrong_and_what_failed_is() -> None:
    found = figures(*(record(outcome.value, outcome) for outcome in CaseOutcome))
    assert found.measures["accuracy"].mean == 1 / 4
    assert found.measures["accuracy"].n == 4
    assert found.outcomes == dict.fromkeys(CaseOutcome, 1)
    assert found.records == found.questions == 5


def test_ratios_are_of_sums_and_not_means_of_ratios() -> None:
    """DocScope's shares: 3 of 4 boxes of one question and 0 of 1 of another are 3 of 5."""
    names = ("docscope/boxes", "docscope/boxes_covered", "docscope/boxes_imprecise")
    rows = [
        record("a", document="a.pdf", **dict(zip(names, (4.0, 3.0, 1.0), strict=True))),
        record("b", document="b.pdf", **dict(zip(names, (1.0, 0.0, 0.0), strict=True))),
        record("c", document="c.pdf", **dict(zip(names, (0.0, 0.0, 0.0), strict=True))),
    ]
    found = means(*rows, record("d"))
    assert found["docscope/covered"] == (pytest.approx(3 / 5), 3)
    assert found["docscope/imprecise"] == (pytest.approx(1 / 5), 3)
    assert found["docscope/boxes"] == (pytest.approx(5 / 3), 3)
    assert "docscope/facts_consistent" not in found
    assert "docscope/covered" not in means(record("d"))


def test_without_a_verdict_there_is_no_accuracy() -> None:
    assert "accuracy" not in means(record("a", CaseOutcome.UNJUDGED))


def test_means_are_over_those_that_have_the_measure() -> None:
    found = means(record("a", iou=0.2, turns=3.0), record("b", iou=0.4), record("c", turns=5.0))
    assert found["iou"] == (pytest.approx(0.3), 2)
    assert found["turns"] == (4.0, 2)


def test_what_nothing_measures_so_is_not_measured() -> None:
    assert means(record("a", iou=1e308), record("b", iou=0.5))["iou"] == (0.5, 1)
    assert "iou" not in means(record("a", iou=-1e308))


def test_abstention() -> None:
    """4 answerable, 1 abstained; 3 not, 2 abstained, 1 answered."""
    records = [
        *(record(f"a{at}") for at in range(3)),
        record("a3", CaseOutcome.ABSTAINED, stop="abstained"),
        *(record(f"u{at}", stop="abstained", answerable=False) for at in range(2)),
        record("u2", CaseOutcome.WRONG, answerable=False),
    ]
    found = means(*records)
    assert found["abstention_precision"] == (2 / 3, 3)
    assert found["abstention_recall"] == (2 / 3, 3)
    assert found["false_abstention"] == (1 / 4, 4)
    assert found["accuracy"] == (5 / 7, 7)


def test_a_failed_run_did_not_abstain() -> None:
    found = means(record("u", CaseOutcome.FAILED, stop=None, answerable=False))
    assert found["abstention_recall"] == (0.0, 1)
    assert "abstention_precision" not in found
    assert "false_abstention" not in found


def test_mmlongbench_by_the_published_scorer() -> None:
    """Scores 1, .6, 0 of answerable ones, of which the last abstained; of others 1 (abstained), 0, .93.

    Worked with the published scorer: accuracy .588333…, recall 1.6 / 3, precision 1.6 / 4, F1 .457142857.
    """
    records = [
        record("a", mmlongbench=1.0),
        record("b", CaseOutcome.WRONG, mmlongbench=0.6, document="b.pdf"),
        record("c", CaseOutcome.ABSTAINED, stop="abstained", mmlongbench=0.0),
        record("d", stop="abstained", answerable=False, mmlongbench=1.0),
        record("e", CaseOutcome.WRONG, answerable=False, mmlongbench=0.0, document="b.pdf"),
        record("f", answerable=False, mmlongbench=0.93),
    ]
    found = figures(*records, record("g", document="c.pdf")).measures
    assert found["mmlongbench"].mean == pytest.approx(0.588333, abs=1e-6)
    assert found["mmlongbench/f1"].mean == pytest.approx(0.457142857)
    assert found["mmlongbench/f1"].n == 6
    assert found["mmlongbench/f1"].low is not None


def test_mmlongbench_is_not_measured_on_others() -> None:
    assert "mmlongbench/f1" not in means(record("a"))


def test_mmlongbench_is_0_where_nothing_can_be_divided() -> None:
    alone = record("a", answerable=False, stop="abstained", mmlongbench=1.0)
    assert means(alone)["mmlongbench/f1"] == (0, 1)


def test_a_question_counts_in_each_of_its_source_types() -> None:
    records = [
        record("a", sources=("Table", "Chart")),
        record("b", CaseOutcome.WRONG, sources=("Table", "Table")),
        record("c"),
    ]
    groups = summarise(records, resamples=FEW).groups
    assert groups.keys() == {"benchmark", "source_type", "answerable"}
    assert {label: one.records for label, one in groups["source_type"].items()} == {"Chart": 1, "Table": 2}
    assert groups["source_type"]["Table"].measures["accuracy"].mean == 1 / 2


def test_groups_by_everything_else() -> None:
    records = [
        record("a", query_type="Single-Hop", benchmark="one"),
        record("b", CaseOutcome.WRONG, query_type="Multi-Hop", benchmark="two", answerable=False),
    ]
    groups = summarise(records, resamples=FEW).groups
    assert {kind: list(those) for kind, those in groups.items()} == {
        "benchmark": ["one", "two"],
        "query_type": ["Multi-Hop", "Single-Hop"],
        "answerable": ["answerable", "not answerable"],
    }
    assert groups["answerable"]["not answerable"].measures["accuracy"].mean == 0


def test_samples_and_documents_are_told_apart() -> None:
    twice = record("a").model_copy(update={"sample": 1})
    found = figures(record("a"), twice, record("b"), record("a", benchmark="other"))
    assert (found.records, found.questions, found.documents) == (4, 3, 2)


def test_percentiles_of_seconds() -> None:
    found = figures(*(record(str(at), seconds=float(at)) for at in range(101)))
    assert found.seconds == {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([]) == {}


def test_intervals_are_over_documents() -> None:
    """Two documents, one all right and one all wrong: whatever is drawn, the mean is 0, a half or 1."""
    records = [record(f"{name}{at}", outcome, document=name) for name, outcome in OUTCOMES for at in range(9)]
    found = summarise(records).overall.measures["accuracy"]
    assert (found.mean, found.low, found.high, found.few) == (0.5, 0.0, 1.0, True)


OUTCOMES = (("a.pdf", CaseOutcome.RIGHT), ("b.pdf", CaseOutcome.WRONG))


def test_counts_have_intervals_beyond_1() -> None:
    records = [record(str(at), document=f"{at}.pdf", turns=float(at)) for at in range(1, 9)]
    found = figures(*records).measures["turns"]
    assert found.low is not None
    assert found.high is not None
    assert 1 < found.low < 4.5 < found.high < 8


def test_a_count_is_no_share_though_it_is_below_1() -> None:
    """Of one document Wilson's interval would tell something of a share."""
    found = figures(record("a", seconds=0.5, iou=0.5)).measures
    assert found["iou"].low is not None
    assert found["seconds"].low is None


def test_a_share_beyond_1_is_reported_as_it_is() -> None:
    records = [record(str(at), document=f"{at}.pdf", strange=float(at)) for at in range(5)]
    assert figures(*records).measures["strange"].mean == 2


def test_the_order_of_records_does_not_matter() -> None:
    records = [record(str(at), document=f"{at % 3}.pdf", iou=at / 10, sources=("Table",)) for at in range(9)]
    assert summarise(records, resamples=FEW).as_dict() == summarise(records[::-1], resamples=FEW).as_dict()


def test_no_records_have_no_results() -> None:
    found = summarise([]).as_dict()
    assert found["measures"] == found["groups"] == found["seconds"] == {}
    assert found["records"] == 0


def test_is_json_of_the_promised_shape() -> None:
    found = json.loads(json.dumps(summarise([record("a", iou=0.5)], resamples=FEW).as_dict()))
    assert found["outcomes"] == {"right": 1, "wrong": 0, "abstained": 0, "unjudged": 0, "failed": 0}
    assert found["measures"]["iou"].keys() == {"mean", "n", "low", "high", "few"}
    assert found["groups"]["benchmark"]["small"]["measures"]["iou"]["mean"] == 0.5


MARKS = st.tuples(st.booleans(), st.floats(0, 1), st.booleans()).filter(
    lambda mark: not mark[0] or mark[2] or not mark[1]  # abstaining earns nothing where there is an answer
)


@given(st.lists(MARKS, min_size=1, max_size=9))
def test_the_f1_is_the_harmonic_mean_of_precision_and_recall(marks: list[tuple[bool, float, bool]]) -> None:
    records = [
        record(str(n), answerable=answerable, stop="answered" if said else "abstained", mmlongbench=score)
        for n, (answerable, score, said) in enumerate(marks)
    ]
    earned = math.fsum(score for answerable, score, _ in marks if answerable)
    shares = [earned / max(1, sum(mark[at] for mark in marks)) for at in (0, 2)]
    f1 = 2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0
    assert means(*records)["mmlongbench/f1"][0] == pytest.approx(f1)
