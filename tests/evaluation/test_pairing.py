from __future__ import annotations

from typing import Any

import pytest

from vrag.errors import CaseError
from vrag.evaluation.pairs import document_of, pair, value
from vrag.evaluation.record import CaseOutcome, CaseRecord, EvidencePlace, Subject


def subject(uid: str = "1", benchmark: str = "set", **more: object) -> Subject:
    told: dict[str, object] = {
        "benchmark": benchmark,
        "uid": uid,
        "question": f"{uid}?",
        "references": ("yes",),
        "answerable": True,
        "document": "a.pdf",
    }
    return Subject.model_validate(told | more)


def record(uid: str = "1", outcome: CaseOutcome = CaseOutcome.RIGHT, **more: object) -> CaseRecord:
    told: dict[str, object] = {"subject": subject(uid), "outcome": outcome, "measures": {}}
    told |= {"judge": "rules", "answer": "yes"}
    return CaseRecord.model_validate(told | more)


# Which belong together


def test_questions_are_paired_by_benchmark_uid_and_sample_in_any_order() -> None:
    other = CaseRecord(subject=subject("1", "other"), outcome=CaseOutcome.WRONG, measures={})
    first = [record("1"), record("2"), record("2", sample=1), other]
    second = [other, record("2", CaseOutcome.WRONG, sample=1), record("1"), record("3")]
    found = pair(first, second)
    assert [one.key for one in found.pairs] == [("other", "1", 0), ("set", "1", 0), ("set", "2", 1)]
    assert [one.b.outcome for one in found.pairs] == [CaseOutcome.WRONG, CaseOutcome.RIGHT, CaseOutcome.WRONG]
    assert found.pairs[2].question == ("set", "2")
    assert found.only_a == (("set", "2", 0),)
    assert found.only_b == (("set", "3", 0),)
    assert pair(reversed(first), reversed(second)) == found


def test_pairs_without_a_verdict_in_either_run_are_told() -> None:
    first = [record("1", CaseOutcome.UNJUDGED), record("2"), record("3"), record("4", CaseOutcome.FAILED)]
    second = [record("1"), record("2", CaseOutcome.UNJUDGED), record("3"), record("4", CaseOutcome.ABSTAINED)]
    assert [one.key[1] for one in pair(first, second).unjudged] == ["1", "2"]


# What is refused


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("question", "2?"),
        ("references", ("no",)),
        ("answerable", False),
        ("document", "b.pdf"),
        ("gold", (EvidencePlace(document="a.pdf", page=1, box=None),)),
    ],
)
def test_one_key_for_two_questions_is_refused(field: str, other: object) -> None:
    with pytest.raises(CaseError, match=rf"'1' of set is not the same in both runs: {field} differ") as error:
        pair([record()], [record(subject=subject().model_copy(update={field: other}))])
    assert error.value.hint


def test_labels_that_group_questions_may_differ() -> None:
    again = record(subject=subject(document_type="Report", source_type=("Table",), query_type="Multi-Hop"))
    assert len(pair([record()], [again]).pairs) == 1


def test_runs_without_a_common_question_are_refused() -> None:
    for first, second in (([record("1")], [record("2")]), ([], [record("1")]), ([], [])):
        with pytest.raises(CaseError, match="no question in common"):
            pair(first, second)


def test_a_key_that_comes_twice_is_refused() -> None:
    with pytest.raises(CaseError, match="second run has '1' of set, sample 2 twice"):
        pair([record()], [record(sample=2), record(sample=2)])


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [("qwen", "gpt", "by qwen in the first run and by gpt"), ("rules", "gpt", "by rules in the first run")],
)
def test_answers_that_were_judged_by_others_are_refused(first: str, second: str, said: str) -> None:
    one, other = record(judge=first), record(outcome=CaseOutcome.WRONG, judge=second)
    with pytest.raises(CaseError, match=said) as error:
        pair([one], [other])
    assert "again" in error.value.hint


@pytest.mark.parametrize(
    "more",
    [
        {"outcome": CaseOutcome.ABSTAINED, "judge": "rules", "answer": None},
        {"outcome": CaseOutcome.RIGHT, "judge": "rules", "answer": None},  # abstained, as it should
        {"outcome": CaseOutcome.FAILED, "judge": "", "answer": None},
        {"outcome": CaseOutcome.UNJUDGED, "judge": ""},
    ],
)
def test_what_no_model_had_to_judge_does_not_tell_who_judges(more: dict[str, Any]) -> None:
    judged = [record("1", judge="qwen"), record("2", judge="qwen")]
    assert len(pair(judged, [record("1", judge="qwen"), record("2", **more)]).pairs) == 2
    assert len(pair(judged[:1], [record("1", **more)]).pairs) == 1


def test_each_benchmark_may_have_its_own_judge_and_rules_beside_a_model() -> None:
    other = record(subject=subject("1", "other"), judge="rules")
    first = [record("1", judge="qwen"), record("2", judge="rules"), other]
    second = [record("1", judge="rules"), record("2", judge="qwen"), other]
    assert len(pair(first, second).pairs) == 3
    assert len(pair(first[:2], [record("1", judge="qwen"), record("2", judge="qwen")]).pairs) == 2


def test_judges_of_one_name_that_judge_otherwise_are_refused() -> None:
    first, second = [record(judge="qwen")], [record(outcome=CaseOutcome.WRONG, judge="qwen")]
    with pytest.raises(
        CaseError, match="by endpoint:qwen:1 in the first run and by endpoint:qwen:2"
    ) as error:
        pair(first, second, judges=("endpoint:qwen:1", "endpoint:qwen:2"))
    assert "again" in error.value.hint
    with pytest.raises(CaseError, match=r"rules-2:0\.5"):
        pair([record()], [record()], judges=("rules-2:0.5", "rules-3:0.5"))


@pytest.mark.parametrize("judges", [("one", "one"), ("", "one"), ("one", ""), ("", "")])
def test_the_same_judge_is_taken_and_one_that_was_not_kept(judges: tuple[str, str]) -> None:
    assert len(pair([record(judge="qwen")], [record(judge="qwen")], judges=judges).pairs) == 1


@pytest.mark.parametrize(
    "more",
    [
        {
            "outcome": CaseOutcome.WRONG,
            "judge": "",
            "answer": "It was answered, though there is not an answer.",
        },
        {"outcome": CaseOutcome.ABSTAINED, "judge": "", "answer": None},
        {"outcome": CaseOutcome.UNJUDGED, "judge": ""},
    ],
)
def test_how_a_judge_judges_does_not_matter_where_nobody_judged(more: dict[str, Any]) -> None:
    assert len(pair([record()], [record("1", **more)], judges=("one", "other")).pairs) == 1


# What a question counts


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (CaseOutcome.RIGHT, 1.0),
        (CaseOutcome.WRONG, 0.0),
        (CaseOutcome.ABSTAINED, 0.0),
        (CaseOutcome.FAILED, 0.0),
        (CaseOutcome.UNJUDGED, None),
    ],
)
def test_accuracy_is_of_the_outcome_whatever_else_was_written(
    outcome: CaseOutcome, counts: float | None
) -> None:
    assert value(record(outcome=outcome, measures={"accuracy": 0.5}), "accuracy") == counts


@pytest.mark.parametrize("measure", ["f1", "hotpotqa/f1", "mmlongbench", "seen_recall", "turns"])
def test_a_run_that_broke_off_counts_where_its_question_is_measured_so(measure: str) -> None:
    """A failed question of SQuAD is none of MMLongBench-Doc's; one without gold has nothing to be seen."""
    assert value(record(outcome=CaseOutcome.FAILED), measure) is None
    assert value(record(outcome=CaseOutcome.FAILED, measures={measure: 0.0}), measure) == 0.0


def test_what_nothing_measures_so_is_not_measured() -> None:
    assert value(record(measures={"f1": 1e308}), "f1") is None
    assert value(record(measures={"turns": -1e300}), "turns") is None


def test_a_question_is_drawn_with_its_document_and_alone_without_one() -> None:
    assert document_of(subject("1")) == document_of(subject("2"))
    assert document_of(subject("1")) != document_of(subject("1", "other"))
    lone = [document_of(subject(uid, document="")) for uid in "12"]
    assert lone[0] != lone[1]
    assert document_of(subject("a.pdf", document="")) != document_of(subject("1"))
