"""How well an agent answers questions whose answers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

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
        """`accuracy` over the questions with a verdict, means of the parts of the reward, what it took."""
        judged = [score for score in self.scores if score.reward.correct is not None]
        means = {"accuracy": _mean([float(bool(score.reward.correct)) for score in judged])}
        for name in sorted({name for score in self.scores for name in score.reward.parts}):
            given = [score.reward.parts[name] for score in self.scores]
            means[f"reward/{name}"] = _mean([value for value in given if value is not None])
        means["calls"] = _mean([float(score.calls) for score in self.scores])
        means["visual_tokens"] = _mean([float(score.visual_tokens) for score in self.scores])
        means["seconds"] = _mean([score.seconds for score in self.scores])
        return means

    def as_dict(self) -> dict[str, Any]:
        """The measures, `questions`, `unjudged` and `failed` counts, and every question."""
        return {
            **self.measures,
            "questions": len(self.scores),
            "unjudged": sum(score.reward.correct is None for score in self.scores),
            "failed": sum(score.failure is not None for score in self.scores),
            "answers": [score.as_dict() for score in self.scores],
        }


async def score_answers(
    cases: Sequence[Case],
    runs: AsyncIterable[tuple[Case, Trajectory]],
    scorer: Scorer,
    *,
    progress: Callable[[AnswerScore], None] | None = None,
) -> AnswerReport:
    """Scores runs as they come, in whatever order.

    Args:
        cases: The questions, in the order of the report.
        runs: Each with its case.
        scorer: Says what is right.
        progress: Is told of each.
    """
    scored: dict[str, AnswerScore] = {}
    async for case, run in runs:
        score = AnswerScore(
            case=case,
            answer=run.answer,
            reward=await scorer.score(case, run),
            calls=len(run.steps),
            seconds=run.usage.seconds,
            visual_tokens=run.usage.visual_tokens,
            failure=run.failure,
        )
        scored[case.uid] = score
        if progress is not None:
            progress(score)
    return AnswerReport(tuple(scored[case.uid] for case in cases if case.uid in scored))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
