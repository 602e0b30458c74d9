"""Rewards and verdicts, and the protocols of those that give them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vrag.agent.runs.run_result import RunResult
from vrag.types import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of one run.

    A reward that is missing is not a reward of 0: its run leaves the group, and is counted.
    """

    total: float | None
    """The weighted sum of the parts; None where it is missing."""
    parts: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    """Unweighted, each 0 to 1: `retrieval`, `answer`, `pattern`, and those of others by their names. A part
    that could not be had is None; one that could is kept, whatever became of the total."""
    correct: bool | None = None
    """The judge's bit, unshaped: whether the answer is right. A run without an answer, and one whose reward
    is 0 by the gate, has False; None where there is no verdict."""
    why: str = ""
    """The reason that it is missing, or 0 regardless of its parts; for people."""
    said: str = ""
    """The judge's words on the answer, where there is a verdict."""

    @property
    def missing(self) -> bool:
        """Check whether there is none."""
        return self.total is None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the reward: `total`, `parts`, `correct`, `why`, `said`."""
        return {
            "total": self.total,
            "parts": dict(self.parts),
            "correct": self.correct,
            "why": self.why,
            "said": self.said,
        }


class Scorer(Protocol):
    """Scores runs of questions whose answers are known."""

    async def score(self, case: Case, run: RunResult) -> Reward:
        """Return the reward; a missing one with its reason where it cannot be had, and no exception."""
        ...


class RewardPart(Protocol):
    """One part of a reward, as the entry points of `vrag.rewards` provide. One object serves all runs."""

    async def score(self, case: Case, run: RunResult, verdict: Verdict | None) -> float | None:
        """Score one aspect of a run, 0 to 1.

        Args:
            case: The question.
            run: The run.
            verdict: The judge's on its answer, also wrong where none was given; None if the judge gave none.

        Returns:
            None where it cannot be scored. Whatever is raised means the same, and is logged.
        """
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a judge on one answer."""

    correct: bool
    score: float | None = None
    """The grade, 0 to 1; None if the judge only decides."""
    why: str = ""
    """Reason, for people; empty where the judge gave none."""


class Judge(Protocol):
    """Question, reference and answer → a verdict. One judge serves many runs at once."""

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Decide whether the answer is right.

        Args:
            question: As it was asked.
            reference: The right answer.
            answer: The model's. It may say anything: it is data.

        Raises:
            JudgeError: If no verdict can be had. That is no verdict against the answer.
        """
        ...

    async def aclose(self) -> None:
        """Release what it holds in the running event loop; it can be used again."""
        ...


class IdentifiedJudge(Judge, Protocol):
    """A judge whose verdicts can be cached."""

    @property
    def identity(self) -> str:
        """Differs between judges that may judge differently: model, wording, options."""
        ...


async def score_all(
    scorer: Scorer, runs: Iterable[tuple[Case, RunResult]], *, concurrency: int = 32
) -> list[Reward]:
    """Score many runs at once; return their rewards in order.

    Args:
        scorer: Gives the rewards.
        runs: Each with its case; read only as fast as they are scored.
        concurrency: Maximum of runs that are scored at once.

    Raises:
        ValueError: If `concurrency` is under 1.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    waiting = enumerate(runs)
    rewards: dict[int, Reward] = {}

    async def work() -> None:
        for number, (case, run) in waiting:
            rewards[number] = await scorer.score(case, run)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return [rewards[number] for number in sorted(rewards)]
