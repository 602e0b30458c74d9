"""A judge that is a language model behind any `ChatModel`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.reward.judge import Verdict
from vrag.reward.judges.validated_reply import OPTIONS, Dialogue, cut_off, quoted
from vrag.reward.prompts import prompt

if TYPE_CHECKING:
    from vrag.chat.messages import ChatModel, ChatOptions

__all__ = ["EndpointJudge"]

_VERDICT = re.compile(r"<judge>\s*(true|false)\s*</judge>[\s.*`]*\Z", re.IGNORECASE)
"""At the end, where it was asked for: what stands earlier may be quoted from the answer."""
_LONGEST_WHY = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, slots=True)
class EndpointJudge:
    """Asks a model whether an answer is right, and reads `<judge>true</judge>` or `<judge>false</judge>`.

    VRAG-RL (arXiv 2505.22019) asks a model in the same way; the wording is ours. Question, reference and
    answer are quoted as data: every `<` and `>` of theirs is written `&lt;` and `&gt;`, and only what the
    model's own reply ends with is a verdict.
    """

    model: ChatModel
    """It repeats what fails on the way (too busy, broken off) by itself, boundedly."""
    options: ChatOptions = OPTIONS
    attempts: int = 3
    """Replies that are asked for at most, until one ends with a verdict. The reference never stops."""
    seconds: float = 300.0
    """After which a verdict is given up, all attempts together."""

    @property
    def identity(self) -> str:
        """The model by its name, and a hash of the prompts and of how it is sampled."""
        prompts = prompt("judge_again.md"), _asked("$question", "$reference", "$answer")
        return f"endpoint:{self._dialogue.identity(*prompts)}"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Asks, and asks again where no verdict came; see `Judge`.

        Raises:
            JudgeError: If the model fails, takes too long, or gives no verdict in any of its attempts.
        """
        return await self._dialogue.reply(
            _asked(question, reference, answer), prompt("judge_again.md"), _verdict
        )

    async def aclose(self) -> None:
        """Closes the model's connections of the running event loop."""
        await self.model.aclose()

    @property
    def _dialogue(self) -> Dialogue:
        return Dialogue(self.model, "verdict", self.options, self.attempts, self.seconds)


def _asked(question: str, reference: str, answer: str) -> str:
    return prompt("judge.md", question=quoted(question), reference=quoted(reference), answer=quoted(answer))


def _verdict(text: str) -> Verdict | None:
    """What a reply ends with; None when that is no verdict."""
    found = _VERDICT.search(text)
    if found is None or cut_off(text):
        return None
    return Verdict(found[1].lower() == "true", None, text[: found.start()].strip()[-_LONGEST_WHY:])
