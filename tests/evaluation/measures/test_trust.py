"""What the result of a run is worth: right, wrong, places or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shown_runs import evidence, run

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.events import RunSettings, RunStarted, StopReason
from vrag.agent.policy import WITHOUT_MODEL
from vrag.agent.runs.run_result import RunResult
from vrag.evaluation.measures.run_measures import TRUST, trust

OUTCOMES = ("right_answers", "wrong_answers", "places", "nothing")


def claimed(*verdicts: str) -> RunResult:
    """A run whose answer has claims with these verdicts."""
    claims = (
        CheckedClaim.model_construct(kind="number", start=0, end=1, verdict=verdict) for verdict in verdicts
    )
    return replace(run(), claims=tuple(claims))


def abstained(*, without_model: bool, shows: bool = True) -> RunResult:
    """A run without an answer that shows one piece of evidence, or none."""
    start = RunStarted.model_construct(
        settings=RunSettings.model_construct(policy=WITHOUT_MODEL if without_model else "a model")
    )
    cites = (evidence(3),) if shows else ()
    return replace(run(cites=cites, answer=None, stop=StopReason.ABSTAINED), start=start)


@pytest.mark.parametrize(
    ("result", "answerable", "right", "outcome"),
    [
        (run(), True, True, "right_answers"),
        (run(), True, False, "wrong_answers"),
        (run(), False, False, "wrong_answers"),
        (run(), False, True, "nothing"),  # a judge takes the answer for an abstention
        (abstained(without_model=True), True, False, "places"),
        (abstained(without_model=True), False, True, "places"),
        (abstained(without_model=True, shows=False), True, False, "nothing"),
        (abstained(without_model=False), True, False, "nothing"),
    ],
)
def test_every_question_has_one_outcome(
    result: RunResult, answerable: bool, right: bool, outcome: str
) -> None:
    measures = trust(result, answerable=answerable, right=right)
    assert {name: measures[name] for name in OUTCOMES} == {name: float(name == outcome) for name in OUTCOMES}
    assert measures.keys() <= TRUST.keys()


def test_precision_is_of_the_answers_given() -> None:
    assert trust(run(), answerable=True, right=True)["answer_precision"] == 1
    assert trust(run(), answerable=False, right=False)["answer_precision"] == 0
    assert "answer_precision" not in trust(abstained(without_model=True), answerable=True, right=False)


def test_an_answer_without_a_verdict_is_not_measured() -> None:
    assert trust(run(), answerable=True, right=None) == {}
    assert trust(abstained(without_model=True), answerable=True, right=None)["places"] == 1


@pytest.mark.parametrize(
    ("verdicts", "right", "seen"),
    [
        (("seen", "computed"), False, 1),
        (("seen", "computed"), True, 0),
        (("seen", "stated"), False, 0),
        ((), False, 0),
    ],
)
def test_a_wrong_answer_is_seen_if_all_its_claims_are(
    verdicts: tuple[str, ...], right: bool, seen: float
) -> None:
    assert trust(claimed(*verdicts), answerable=True, right=right)["wrong_but_seen"] == seen
