"""The rewards that training uses: parts, weighted and summed."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.events import StopReason
from vrag.errors import JudgeError, SettingsError
from vrag.reward.format import answer_of, pattern_reward, searched
from vrag.reward.judge import Verdict
from vrag.reward.retrieval import retrieval_reward
from vrag.reward.reward import Reward, RewardPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.actions import Flag
    from vrag.agent.runs.trajectory import Trajectory
    from vrag.reward.judge import Judge
    from vrag.types import Case

__all__ = ["OWN_PARTS", "CompositeReward", "OutcomeReward", "Weights"]

OWN_PARTS = ("retrieval", "answer", "pattern")
"""Names of the parts that every reward has."""

_BLAMELESS = frozenset(
    {StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT, None}
)
"""Ends of a run that say nothing about the model; None: it was cut off."""

_WRONG = Verdict(correct=False, score=0.0)
"""Of an answer that was not given, or that the gate keeps from the judge."""

log = logging.getLogger("vrag.reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each part counts; together 1.

    r = α·r_Ret + β·r_Ans + γ·r_Pat (VRAG-RL, arXiv 2505.22019, §3). The defaults are those of its code;
    after supervised training γ may be 0, with 0.2 and 0.8.

    Raises:
        SettingsError: If a weight is negative or not finite, or they do not sum to 1.
    """

    retrieval: float = 0.2
    answer: float = 0.7
    pattern: float = 0.1
    extras: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of parts of others, by their names."""

    def __post_init__(self) -> None:
        if taken := sorted(set(self.extras) & set(OWN_PARTS)):
            raise SettingsError(f"No part of others can be called {taken[0]!r}: it is one of ours.")
        values = self.by_part.values()
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise SettingsError(f"The weights of a reward are not all 0 or more: {self._said}.")
        if not math.isclose(math.fsum(values), 1.0, abs_tol=1e-6):
            raise SettingsError(
                f"The weights of a reward sum to {math.fsum(values):g}, not to 1: {self._said}.",
                "Change them so that they do.",
            )

    @property
    def by_part(self) -> dict[str, float]:
        """All of them, by the name of their part."""
        own = {"retrieval": self.retrieval, "answer": self.answer, "pattern": self.pattern}
        return own | dict(self.extras)

    @property
    def _said(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in self.by_part.items())


@dataclass(frozen=True, slots=True)
class CompositeReward:
    """VRAG's reward: did it look at the right pages, is the answer right, did it keep to the grammar.

    - A run that ended by no fault of the model (`MODEL_ERROR`, `SEARCH_ERROR`, `FAULT`, `CANCELLED`, or cut
      off) has no reward: all its parts are missing.
    - With the gate, a run without an answer or without a search has 0, and no judge is asked: a verdict, not
      a missing one. That holds for runs that used up their steps, tokens or budget.
    - A part that is missing and counts makes the total missing; the other parts are kept.

    Raises:
        SettingsError: If a part of others has a weight and is not there.
    """

    judge: Judge
    weights: Weights = field(default_factory=Weights)
    gate: bool = True
    """Whether the total is 0 without a search or without an answer, as in the reference."""
    extras: Mapping[str, RewardPart] = field(default_factory=dict[str, RewardPart])
    """Parts of others, by name; one without a weight is measured and does not count."""
    tolerated: frozenset[Flag] = frozenset()
    """Flags of a reply that do not cost the pattern part."""
    graded: bool = False
    """Whether the answer part is the judge's score, where it gives one; its bit otherwise."""

    def __post_init__(self) -> None:
        if taken := sorted(set(self.extras) & set(OWN_PARTS)):
            raise SettingsError(f"No part of others can be called {taken[0]!r}: it is one of ours.")
        if absent := sorted(set(self.weights.extras) - set(self.extras)):
            raise SettingsError(f"The part {absent[0]!r} of the reward has a weight and is not there.")

    async def score(self, case: Case, run: Trajectory) -> Reward:
        """The reward with all its parts; see `Scorer`."""
        if run.stop_reason in _BLAMELESS:
            parts = dict.fromkeys([*OWN_PARTS, *self.extras])
            return Reward(total=None, parts=parts, why=_ending(run))
        closed = _closed(run) if self.gate else ""
        verdict, why = (_WRONG, closed) if closed else await self._judged(case, run)
        parts: dict[str, float | None] = {
            "retrieval": retrieval_reward(case, run),
            "answer": None if verdict is None else self._value(verdict),
            "pattern": pattern_reward(run, tolerated=self.tolerated),
        }
        for name, part in self.extras.items():
            parts[name] = await _of_others(name, part, case, run)
        if closed:
            return Reward(total=0.0, parts=parts, correct=False, why=closed)
        return self._summed(parts, verdict, why)

    async def aclose(self) -> None:
        """Closes the judge; see `Judge.aclose`."""
        await self.judge.aclose()

    async def _judged(self, case: Case, run: Trajectory) -> tuple[Verdict | None, str]:
        """The verdict, or why there is none; nobody is asked about an answer that was not given."""
        answer = answer_of(run)
        if answer is None:
            return _WRONG, _ending(run)
        if not case.reference_answer.strip():
            return None, f"The case {case.uid} has no reference answer."
        try:
            return await self._best(case, answer), ""
        except JudgeError as error:
            return None, str(error)

    async def _best(self, case: Case, answer: str) -> Verdict:
        """The verdict by the usual answer; where that is wrong, by others that are as right, one by one."""
        first = verdict = await self.judge.judge(case.query, case.reference_answer, answer)
        for reference in dict.fromkeys(case.alternatives):
            if verdict.correct:
                return verdict
            verdict = await self.judge.judge(case.query, reference, answer)
        return verdict if verdict.correct else first

    def _value(self, verdict: Verdict) -> float:
        graded = self.graded and verdict.score is not None
        return float(verdict.score or 0.0) if graded else float(verdict.correct)

    def _summed(self, parts: dict[str, float | None], verdict: Verdict | None, why: str) -> Reward:
        weights = self.weights.by_part
        counted = {name: parts[name] for name, weight in weights.items() if weight > 0}
        lacking = [name for name, value in counted.items() if value is None]
        correct, said = (None, "") if verdict is None else (verdict.correct, verdict.why)
        if lacking:
            reason = why or f"The part {lacking[0]} could not be had."
            return Reward(total=None, parts=parts, correct=correct, why=reason, said=said)
        total = math.fsum(weights[name] * (value or 0.0) for name, value in counted.items())
        return Reward(total=min(1.0, total), parts=parts, correct=correct, why=why, said=said)


@dataclass(frozen=True, slots=True)
class OutcomeReward(CompositeReward):
    """VimRAG's reward: 1 for a right answer, 0 for a wrong one or none (arXiv 2602.12735).

    The graph gives credit to the steps, not the reward (`vrag.rl`). The other parts are measured all the
    same; a study may give them weight, and with it the arms that it compares the same shaped reward:
    `OutcomeReward(judge, Weights(retrieval=0.3, answer=0.7, pattern=0.0))`.
    """

    weights: Weights = field(default_factory=lambda: Weights(retrieval=0.0, answer=1.0, pattern=0.0))
    gate: bool = False


def _closed(run: Trajectory) -> str:
    """Why the gate is closed; empty where it is open."""
    if answer_of(run) is None:
        return _ending(run)
    return "" if searched(run) else "The run searched nothing."


def _ending(run: Trajectory) -> str:
    """How a run without an answer ended, as a sentence."""
    ended = "cut off" if run.stop_reason is None else run.stop_reason.value
    return f"The run ended without an answer ({ended}){f': {run.failure}' if run.failure else '.'}"


async def _of_others(name: str, part: RewardPart, case: Case, run: Trajectory) -> float | None:
    """What a part of others says; None where it fails, or says what no part of a reward can be."""
    try:
        value = await part.score(case, run)
        if value is None or 0 <= float(value) <= 1:
            return None if value is None else float(value)
        raise ValueError(f"it gave {value!r:.100}, not a number from 0 to 1")  # noqa: TRY301 - like what it raises itself
    except Exception:  # code of others may raise anything, and no rollout ends by it
        log.exception("The part %s of the reward failed.", name)
        return None
