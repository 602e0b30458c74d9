"""What a run earns, and who says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.runs.trajectory import Trajectory
    from vrag.types import Case

__all__ = ["Reward", "RewardPart", "Scorer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What one run earns.

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
    """Why it is missing, or 0 whatever its parts are; for people."""
    said: str = ""
    """The judge's words on the answer, where there is a verdict."""

    @property
    def missing(self) -> bool:
        """Whether there is none."""
        return self.total is None

    def as_dict(self) -> dict[str, Any]:
        """What is kept of it as JSON: `total`, `parts`, `correct`, `why`, `said`."""
        return {
            "total": self.total,
            "parts": dict(self.parts),
            "correct": self.correct,
            "why": self.why,
            "said": self.said,
        }


class Scorer(Protocol):
    """A run of a question whose answer is known → what it earns."""

    async def score(self, case: Case, run: Trajectory) -> Reward:
        """The reward; a missing one with its reason where it cannot be had, and no exception."""
        ...


class RewardPart(Protocol):
    """One part of a reward: what the entry points of `vrag.rewards` bring. One object serves all runs."""

    async def score(self, case: Case, run: Trajectory) -> float | None:
        """What the run earns in this respect, 0 to 1.

        Returns:
            None where it cannot be said. Whatever is raised means the same, and is logged.
        """
        ...
