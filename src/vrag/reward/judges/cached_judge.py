"""A judge that is asked once about the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.reward.judge import Verdict
from vrag.reward.judges.verdict_cache import VerdictCache, VerdictTable

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.reward.judge import IdentifiedJudge

__all__ = ["CachedJudge"]

_VERDICTS = VerdictTable(
    "verdicts",
    ("correct INTEGER NOT NULL", "score REAL", "why TEXT NOT NULL"),
    row=lambda verdict: (int(verdict.correct), verdict.score, verdict.why),
    value=lambda row: Verdict(bool(row[0]), row[1], row[2]),
)


class CachedJudge:
    """Keeps verdicts by what they depend on: the judge's identity, question, reference and answer.

    Whoever asks for a verdict that is just being given waits for that one, so that the rollouts of a group
    that say the same cost one call. What failed is not kept. A verdict that cannot be written counts all the
    same, with a line in the log.

    Args:
        judge: Who is asked.
        path: An SQLite file in which verdicts outlive the process; None keeps them in memory; see
            `VerdictCache`.
        most: Verdicts in memory; the oldest go first.

    Raises:
        JudgeError: If the file cannot be used.
    """

    def __init__(self, judge: IdentifiedJudge, path: Path | None = None, *, most: int = 100_000) -> None:
        self._judge, self.identity = judge, judge.identity
        self._kept = VerdictCache(_VERDICTS, path, most=most)

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """The verdict that is kept, or a new one; see `Judge`.

        Raises:
            JudgeError: If there is none, and none can be had.
        """
        return await self._kept.value(
            (self.identity, question, reference, answer),
            lambda: self._judge.judge(question, reference, answer),
        )

    async def aclose(self) -> None:
        """Closes the judge that is asked; what is kept stays."""
        await self._judge.aclose()
