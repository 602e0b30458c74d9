"""The rewards that training uses: weighted sums of built-in parts and of parts that other packages provide.

Some built-in parts are used by name, like those of other packages (`BUILT_IN`); so are mixtures (`PRESETS`).

Packages provide parts by the entry point `vrag.rewards`::

    [project.entry-points."vrag.rewards"]
    brevity = "my_package:Brevity"        # called without arguments, it returns a `RewardPart`
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from vrag.agent.actions import Flag
from vrag.agent.events import StopReason
from vrag.agent.runs.run_result import RunResult
from vrag.errors import JudgeError, SettingsError
from vrag.reward import unidoc
from vrag.reward.parts import (
    answer_of,
    attribution_reward,
    excess_turns,
    pattern_reward,
    region_reward,
    repeated_searches,
    retrieval_reward,
    searched,
    support_reward,
)
from vrag.reward.reward import Judge, Reward, RewardPart, Verdict
from vrag.types import Case

OWN_PARTS = ("retrieval", "answer", "pattern")
"""Names of the parts that every reward has."""
COSTS = ("turn_cost", "repeat_cost")
"""Names of the costs, which are subtracted from the weighted sum."""
_BLAMELESS = frozenset(
    {StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT, None}
)
"""Ends of a run that say nothing about the model; None: it was interrupted."""
_WRONG = Verdict(correct=False, score=0.0)
"""Verdict on an answer that was not given, or that the gate withholds from the judge."""
log = logging.getLogger("vrag.reward")
GROUP = "vrag.rewards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of each part; together 1.

    r = α·r_Ret + β·r_Ans + γ·r_Pat (VRAG-RL, arXiv 2505.22019, §3). The defaults are those of its code; after
    supervised training γ may be 0, with 0.2 and 0.8. Raises `SettingsError` if a weight is negative or not
    finite, or they do not sum to 1.
    """

    retrieval: float = 0.2
    answer: float = 0.7
    pattern: float = 0.1
    extras: Mapping[str, float] = field(default_factory=dict[str, float])
    """Weights of further parts, by their names: `region`, `support`, and custom ones."""
    turn_cost: float = 0.0
    """Cost of each model call beyond the two that a search and an answer take; no part of the sum."""
    repeat_cost: float = 0.0
    """Cost of each search in the words of an earlier one; no part of the sum."""

    def __post_init__(self) -> None:
        _check_names(self.extras)
        values = [*self.by_part.values(), self.turn_cost, self.repeat_cost]
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise SettingsError(f"Reward weights and costs must be 0 or more: {self._list}.")
        total = math.fsum(self.by_part.values())
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise SettingsError(
                f"Reward weights must sum to 1, not {total:g}: {self._list}.",
                "Change the weights.",
            )

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Weights:
        """Return the weights and costs by name; what is not named is 0.

        >>> Weights.of({"answer": 0.9, "region": 0.1, "turn_cost": 0.02}).extras
        {'region': 0.1}
        """
        given = dict(values)
        own = {name: given.pop(name, 0.0) for name in (*OWN_PARTS, *COSTS)}
        return cls(**own, extras=given)

    @property
    def has_costs(self) -> bool:
        """True if turns or repeated searches cost anything; then rewards have the part `cost`."""
        return self.turn_cost > 0 or self.repeat_cost > 0

    def cost(self, run: RunResult) -> float:
        """Return the cost of the turns and repeated searches of a run."""
        return self.turn_cost * excess_turns(run) + self.repeat_cost * repeated_searches(run)

    @property
    def by_part(self) -> dict[str, float]:
        """All weights, by the name of their part."""
        own = {"retrieval": self.retrieval, "answer": self.answer, "pattern": self.pattern}
        return own | dict(self.extras)

    @property
    def _list(self) -> str:
        costs = {name: value for name in COSTS if (value := getattr(self, name))}
        return ", ".join(f"{name} {value:g}" for name, value in (self.by_part | costs).items())


@dataclass(frozen=True, slots=True)
class CompositeReward:
    """VRAG's reward: looking at the right pages, a right answer, and keeping to the grammar.

    - A run that ended by no fault of the model (`MODEL_ERROR`, `SEARCH_ERROR`, `FAULT`, `CANCELLED`, or
      interrupted) has no reward: all its parts are missing.
    - With the gate, a run without an answer or without a search has 0, and no judge is asked: a verdict, not
      a missing one. That holds for runs that used up their steps, tokens or budget.
    - A part that is missing and counts makes the total missing; the other parts are kept.
    - Costs are subtracted, down to 0; the part `cost` says how much.

    Raises `SettingsError` if a custom part has a weight and is missing.
    """

    judge: Judge
    weights: Weights = field(default_factory=Weights)
    gate: bool = True
    """True if the total is 0 without a search or without an answer, as in the reference."""
    extras: Mapping[str, RewardPart] = field(default_factory=dict[str, RewardPart])
    """Custom parts, by name; one without a weight is measured and does not count."""
    tolerated: frozenset[Flag] = frozenset()
    """Flags of a reply that do not cost the pattern part."""
    graded: bool = False
    """True if the answer part is the judge's score, where it gives one; its bit otherwise."""

    def __post_init__(self) -> None:
        _check_names(self.extras)
        if absent := sorted(set(self.weights.extras) - set(self.extras)):
            raise SettingsError(f"The reward part {absent[0]!r} has a weight, but is missing from extras.")

    async def score(self, case: Case, run: RunResult) -> Reward:
        """Return the reward with all its parts; see `Scorer`."""
        if run.stop_reason in _BLAMELESS:
            parts = dict.fromkeys([*OWN_PARTS, *self.extras, *(["cost"] if self.weights.has_costs else [])])
            return Reward(total=None, parts=parts, why=_describe_end(run))
        closed = self.find_closed(run)
        verdict, why = (_WRONG, closed) if closed else await self._judge_answer(case, run)
        grade = verdict.score if verdict and self.graded else None
        parts: dict[str, float | None] = {
            "retrieval": retrieval_reward(case, run),
            "answer": None if verdict is None else float(grade if grade is not None else verdict.correct),
            "pattern": pattern_reward(run, tolerated=self.tolerated),
        }
        for name, part in self.extras.items():
            parts[name] = await _score_extra(name, part, case, run, verdict)
        if self.weights.has_costs:
            parts["cost"] = min(1.0, self.weights.cost(run))
        if closed:
            return Reward(total=0.0, parts=parts, correct=False, why=closed)
        return self._sum(parts, verdict, why)

    async def aclose(self) -> None:
        """Close the judge; see `Judge.aclose`."""
        await self.judge.aclose()

    def find_closed(self, run: RunResult) -> str:
        """Return why the total is 0 whatever the parts are; empty where the gate is open."""
        if self.gate and answer_of(run) is None:
            return _describe_end(run)
        return "The run searched nothing." if self.gate and not searched(run) else ""

    async def _judge_answer(self, case: Case, run: RunResult) -> tuple[Verdict | None, str]:
        """Return the verdict, or why there is none; an answer that was not given is not judged.

        It is judged by the reference answer; where that is wrong, by the alternatives, one by one.
        """
        answer = answer_of(run)
        if answer is None:
            return _WRONG, _describe_end(run)
        if not case.reference_answer.strip():
            return None, f"The case {case.uid} has no reference answer."
        verdicts: list[Verdict] = []
        try:
            for reference in dict.fromkeys((case.reference_answer, *case.alternatives)):
                verdicts.append(await self.judge.judge(case.query, reference, answer))
                if verdicts[-1].correct:
                    return verdicts[-1], ""
        except JudgeError as error:
            return None, str(error)
        return verdicts[0], ""

    def _sum(self, parts: dict[str, float | None], verdict: Verdict | None, why: str) -> Reward:
        weights = self.weights.by_part
        counted = {name: parts[name] for name, weight in weights.items() if weight > 0}
        lacking = [name for name, value in counted.items() if value is None]
        correct, words = (None, "") if verdict is None else (verdict.correct, verdict.why)
        if lacking:
            reason = why or f"The part {lacking[0]} is missing."
            return Reward(total=None, parts=parts, correct=correct, why=reason, said=words)
        total = math.fsum(weights[name] * (value or 0.0) for name, value in counted.items())
        total -= parts.get("cost") or 0.0
        return Reward(total=min(1.0, max(0.0, total)), parts=parts, correct=correct, why=why, said=words)


@dataclass(frozen=True, slots=True)
class OutcomeReward(CompositeReward):
    """VimRAG's reward: 1 for a right answer, 0 for a wrong one or none (arXiv 2602.12735).

    The graph gives credit to the steps, not the reward (`vrag.rl`). The other parts are measured all the
    same; a study may give them weight, and with it the arms that it compares the same shaped reward:
    `OutcomeReward(judge, Weights(retrieval=0.3, answer=0.7, pattern=0.0))`.
    """

    weights: Weights = field(default_factory=lambda: Weights(retrieval=0.0, answer=1.0, pattern=0.0))
    gate: bool = False


def _describe_end(run: RunResult) -> str:
    """Describe how a run without an answer ended."""
    end = "interrupted" if run.stop_reason is None else run.stop_reason.value
    return f"The run ended without an answer ({end}){f': {run.failure}' if run.failure else '.'}"


def _check_names(extras: Iterable[str]) -> None:
    """Raise `SettingsError` if a further part has the name of one that every reward has, or of a cost."""
    if taken := sorted(set(extras) & {*OWN_PARTS, *COSTS, "cost"}):
        raise SettingsError(f"A custom part cannot be called {taken[0]!r}: that name is built in.")


async def _score_extra(
    name: str, part: RewardPart, case: Case, run: RunResult, verdict: Verdict | None
) -> float | None:
    """Score a custom part; None where it fails, or its value is no number from 0 to 1."""
    try:
        value = await part.score(case, run, verdict)
        if value is None or 0 <= float(value) <= 1:
            return None if value is None else float(value)
        raise ValueError(f"it gave {value!r:.100}, not a number from 0 to 1")  # noqa: TRY301 - like its own
    except Exception:  # custom parts may raise anything, and no rollout ends by it
        log.exception("The reward part %s failed.", name)
        return None


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """A built-in part that is a function of case and run."""

    measure: Callable[[Case, RunResult], float | None]

    async def score(self, case: Case, run: RunResult, verdict: Verdict | None) -> float | None:  # noqa: ARG002
        """Score a run, whatever the verdict on its answer is."""
        return self.measure(case, run)


@dataclass(frozen=True, slots=True)
class AttributionPart:
    """The part `attribution`: evidence is paid for where the judge finds the answer right."""

    async def score(self, case: Case, run: RunResult, verdict: Verdict | None) -> float | None:
        """Score a run; None without a verdict. See `attribution_reward`."""
        return None if verdict is None else attribution_reward(case, run, correct=verdict.correct)


BUILT_IN: Mapping[str, RewardPart] = {
    "region": MeasuredPart(region_reward),
    "attribution": AttributionPart(),
    "support": MeasuredPart(support_reward),
    "selection": MeasuredPart(unidoc.selection_reward),
    "unidoc_ndcg": MeasuredPart(unidoc.ranking_reward),
    "unidoc_region": MeasuredPart(unidoc.region_reward),
    "unidoc_format": MeasuredPart(lambda _, run: unidoc.format_reward(run)),
}
"""Built-in parts that are measured where they are asked for by name; see `load_parts`."""

UNIDOC_WEIGHTS = {
    "answer": 0.6,
    "unidoc_ndcg": 0.1,
    "selection": 0.1,
    "unidoc_region": 0.1,
    "unidoc_format": 0.1,
}
PRESETS: Mapping[str, Mapping[str, float]] = {
    "vrag": {"retrieval": 0.2, "answer": 0.7, "pattern": 0.1},
    "vrag-after-sft": {"retrieval": 0.2, "answer": 0.8},
    "attribution": {"retrieval": 0.1, "answer": 0.6, "pattern": 0.1, "attribution": 0.2},
    "unidoc": UNIDOC_WEIGHTS,
}
"""Mixtures by name: VRAG-RL's code, and its paper's after supervised training; evidence paid for where the
answer is right (LAT's rule, our weights); UniDoc-RL's."""


@dataclass(frozen=True, slots=True)
class UnidocReward(CompositeReward):
    """UniDoc-RL's reward, equal to that of its code (`rm.py`; arXiv 2604.14967); see `vrag.reward.unidoc`.

    .6 judge + .1 nDCG + .1 selection + .1 regions + .1 format. The total is 0 where the format is: without a
    search, a selected page and an `<information>` element. A run without an answer keeps its other parts.
    The agent must offer `<select>`.
    """

    weights: Weights = field(default_factory=lambda: Weights.of(UNIDOC_WEIGHTS))
    gate: bool = False
    extras: Mapping[str, RewardPart] = field(
        default_factory=lambda: {name: BUILT_IN[name] for name in Weights.of(UNIDOC_WEIGHTS).extras}
    )

    def find_closed(self, run: RunResult) -> str:
        """Return why the total is 0 whatever the parts are; empty where the format is not 0."""
        return "" if unidoc.format_reward(run) else "The run lacks a search, a selection or its information."


def open_preset(name: str, judge: Judge) -> CompositeReward:
    """Return the reward of `PRESETS` with that name. Raises `SettingsError` if there is none."""
    if name not in PRESETS:
        raise SettingsError(f"There is no reward preset {name!r}.", f"Known: {', '.join(PRESETS)}.")
    if name == "unidoc":
        return UnidocReward(judge)
    weights = Weights.of(PRESETS[name])
    return CompositeReward(judge, weights, extras=load_parts(weights.extras))


def installed_parts() -> list[str]:
    """List the names of the parts that installed packages provide."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_parts(names: Iterable[str]) -> dict[str, RewardPart]:
    """Load parts by name, for `CompositeReward(…, extras=…)`: `BUILT_IN` and those of other packages.

    Raises `SettingsError` if one is not installed, cannot be loaded, or has the name of a built-in part.
    """
    parts: dict[str, RewardPart] = {}
    for name in dict.fromkeys(names):
        if name in {*OWN_PARTS, *COSTS}:
            raise SettingsError(f"The reward part {name!r} is built in and always present.")
        entry = next(iter(entry_points(group=GROUP, name=name)), None)
        if name in BUILT_IN:
            if entry is not None:
                raise SettingsError(
                    f"The reward part {name} ({entry.value}) has the name of a built-in part.",
                    "Rename it in its package, or remove the package.",
                )
            parts[name] = BUILT_IN[name]
            continue
        if entry is None:
            known = ", ".join([*OWN_PARTS, *BUILT_IN, *installed_parts()])
            raise SettingsError(
                f"There is no reward part {name!r}.",
                f"Known: {known}. Install the package that provides it.",
            )
        try:
            part: RewardPart = entry.load()()
            usable = inspect.iscoroutinefunction(part.score)
        except Exception as error:  # importing foreign code may raise anything; the message names the package
            raise SettingsError(
                f"The reward part {name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
                "Leave it out, or fix its package.",
            ) from error
        if not usable:
            raise SettingsError(
                f"The reward part {name} ({entry.value}) has no coroutine `score(case, run, verdict)`.",
                "Write it as `async def score`.",
            )
        parts[name] = part
    return parts
