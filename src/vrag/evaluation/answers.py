"""How well an agent answers questions whose answers are known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence

    from vrag.agent.trajectory import Trajectory
    from vrag.reward.base import Reward, Scorer
    from vrag.types import Case

__all__ = ["AnswerReport", "AnswerScore", "score_answers"]


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """How one question went."""

    case: Case
    answer: str | None
    reward: Reward
    calls: int
    """Calls of the model."""
    seconds: float
    visual_tokens: int
    failure: str | None

    def as_dict(self) -> dict[str, Any]:
        """What is written of it as JSON."""
        return {
            "uid": self.case.uid,
            "question": self.case.query,
            "reference": self.case.reference_answer,
            "answer": self.answer,
            "reward": self.reward.as_dict(),
            "calls": self.calls,
            "seconds": self.seconds,
            "visual_tokens": self.visual_tokens,
            "failure": self.failure,
        }


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """How well a data set was answered."""

    scores: tuple[AnswerScore, ...]
    """In the order of the data set."""

    @property
    def measures(self) -> dict[str, float]:
        """`accuracy` over the questions with a verdict, means of the parts of the reward, what it took.

        What nothing was measured on is not in it: no accuracy is not an accuracy of 0.
        """
        rewards = [score.reward for score in self.scores]
        names = sorted({name for reward in rewards for name in reward.parts})
        means = {
            "accuracy": _mean(reward.correct for reward in rewards),
            **{f"reward/{name}": _mean(reward.parts.get(name) for reward in rewards) for name in names},
            "calls": _mean(score.calls for score in self.scores),
            "visual_tokens": _mean(score.visual_tokens for score in self.scores),
            "seconds": _mean(score.seconds for score in self.scores),
        }
        return {name: mean for name, mean in means.items() if mean is not None}

    @property
    def failed(self) -> int:
        """Questions whose run broke off."""
        return sum(score.failure is not None for score in self.scores)

    @property
    def unjudged(self) -> int:
        """Questions without a verdict, those that failed among them."""
        return sum(score.reward.correct is None for score in self.scores)

    def as_dict(self) -> dict[str, Any]:
        """The measures, `questions`, `unjudged` and `failed` counts, and every question."""
        return {
            **self.measures,
            "questions": len(self.scores),
            "unjudged": self.unjudged,
            "failed": self.failed,
            "answers": [score.as_dict() for score in self.scores],
        }


async def score_answers(
    cases: Sequence[Case],
    runs: AsyncIterable[tuple[Case, Trajectory]],
    scorer: Scorer,
    *,
    concurrency: int = 32,
    progress: Callable[[AnswerScore], None] | None = None,
) -> AnswerReport:
    """Scores runs as they come, in whatever order; a slow judge does not hold up the next run.

    Args:
        cases: The questions, in the order of the report.
        runs: Each with its case.
        scorer: Says what is right.
        concurrency: Runs that are scored at once, at most.
        progress: Is told of each.

    Raises:
        Exception: What taking a run raised; the runs before it were scored.
    """
    scored: dict[str, AnswerScore] = {}
    places = asyncio.Semaphore(concurrency)

    async def work(case: Case, run: Trajectory) -> None:
        try:
            scored[case.uid] = score = _score(case, run, await scorer.score(case, run))
        finally:
            places.release()
        if progress is not None:
            progress(score)

    try:
        async with asyncio.TaskGroup() as group:
            async for case, run in runs:
                await places.acquire()
                group.create_task(work(case, run))
    except ExceptionGroup as faults:  # of the runs: whoever scores says of itself what is missing
        raise faults.exceptions[0] from None
    return AnswerReport(tuple(scored[case.uid] for case in cases if case.uid in scored))


def _score(case: Case, run: Trajectory, reward: Reward) -> AnswerScore:
    return AnswerScore(
        case=case,
        answer=run.answer,
        reward=reward,
        calls=len(run.steps),
        seconds=run.usage.seconds,
        visual_tokens=run.usage.visual_tokens,
        failure=run.failure,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Over those that there are; None without any."""
    given = [float(value) for value in values if value is not None]
    return sum(given) / len(given) if given else None
