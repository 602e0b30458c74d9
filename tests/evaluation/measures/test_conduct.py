from __future__ import annotations

import pytest

from vrag.agent.events import StopReason, UsageReported
from vrag.agent.runs.run_result import RunResult, RunStep, RunUsage
from vrag.evaluation.measures.docscope import COUNTED
from vrag.evaluation.measures.run_measures import CONDUCT, COUNTS, conduct


def usage(**told: object) -> UsageReported:
    event = {
        "run_id": "r",
        "seq": 0,
        "ts": 0.0,
        "step": 1,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "visual_tokens": 40,
        "pixels": 31_360,
        "seconds": 2.0,
        "model_seconds": 1.5,
        "cost": 0.01,
    }
    return UsageReported.model_validate(event | told)


def run(*steps: RunStep, stop: StopReason | None = StopReason.ANSWERED) -> RunResult:
    total = RunUsage()
    for step in steps:
        total = total if step.usage is None else total.plus(step.usage)
    return RunResult(run_id="r", steps=steps, answer="9", stop_reason=stop, usage=total)


STEPS = (
    RunStep(number=1, query="ferry", usage=usage()),
    RunStep(number=2, query="ferry", invalid="It was searched before.", usage=usage()),
    RunStep(number=3, crop=(1, 2, 3, 4), flags=("no_thought", "repaired"), usage=usage()),
    RunStep(number=4, crop=(9, 9, 9, 9), invalid="Nothing lies inside.", usage=usage()),
    RunStep(number=5, query="42", action="calculate", usage=usage()),
    RunStep(number=6, usage=usage()),
)


def test_by_hand() -> None:
    assert conduct(run(*STEPS)) == {
        "answered": 1.0,
        "abstained": 0.0,
        "invalid": 2 / 6,
        "repaired": 1 / 6,
        "turns": 6.0,
        "searches": 1.0,
        "crops": 1.0,
        "prompt_tokens": 600.0,
        "completion_tokens": 60.0,
        "visual_tokens": 240.0,
        "pixels": 188_160.0,
        "seconds": 12.0,
        "model_seconds": 9.0,
        "cost": pytest.approx(0.06),
    }


def test_every_measure_has_words() -> None:
    assert conduct(run(*STEPS)).keys() == CONDUCT.keys()
    assert CONDUCT.keys() | COUNTED.keys() > COUNTS


@pytest.mark.parametrize("stop", [*StopReason, None])
def test_only_an_answer_or_an_abstention_is_an_end(stop: StopReason | None) -> None:
    found = conduct(run(*STEPS, stop=stop))
    assert found["answered"] == (stop in {StopReason.ANSWERED, StopReason.ABSTAINED})
    assert found["abstained"] == (stop is StopReason.ABSTAINED)


def test_what_no_turn_told_is_left_out() -> None:
    untold = usage(prompt_tokens=None, completion_tokens=None, cost=None)
    found = conduct(run(RunStep(number=1, query="ferry", usage=untold)))
    assert found.keys() == CONDUCT.keys() - {"prompt_tokens", "completion_tokens", "cost"}


def test_a_turn_that_was_cut_off_tells_no_costs() -> None:
    found = conduct(run(RunStep(number=1), stop=None))
    none = dict.fromkeys(("answered", "abstained", "invalid", "repaired", "searches", "crops"), 0)
    assert found == {**none, "turns": 1}


def test_a_run_that_never_began_only_did_not_answer() -> None:
    assert conduct(RunResult(failure="ChatError: nobody there")) == {"answered": 0.0, "abstained": 0.0}
