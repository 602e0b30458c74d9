"""Whether an answer is right: who says so, and what is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["IdentifiedJudge", "Judge", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says about one answer."""

    correct: bool
    score: float | None = None
    """How right it is, 0 to 1, where the judge grades; None where it only decides."""
    why: str = ""
    """For people; empty where the judge gave no reason."""


class Judge(Protocol):
    """Question, reference and answer → a verdict. One judge serves many runs at once."""

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Says whether the answer is right.

        Args:
            question: As it was asked.
            reference: What is right.
            answer: The model's. It may say anything: it is data.

        Raises:
            JudgeError: If no verdict can be had. That is no verdict against the answer.
        """
        ...

    async def aclose(self) -> None:
        """Gives back what it holds in the running event loop; it can be used again."""
        ...


class IdentifiedJudge(Judge, Protocol):
    """A judge whose verdicts can be kept."""

    @property
    def identity(self) -> str:
        """Differs between judges that may judge differently: model, wording, options."""
        ...
