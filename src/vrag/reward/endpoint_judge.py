"""A judge that is a language model behind any `ChatModel`, asked until its reply ends as it should."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vrag.agent.dialogue import OPTIONS, Dialogue, cut_off, quoted
from vrag.agent.prompts import prompt_in
from vrag.chat.messages import ChatModel, ChatOptions
from vrag.reward.reward import Verdict

PROMPTS = "vrag.reward.prompts"
MAX_WHY_CHARACTERS = 500
"""Maximum length of a reason that is kept."""
_VERDICT = re.compile(r"<judge>\s*(true|false)\s*</judge>[\s.*`]*\Z", re.IGNORECASE)
"""At the end, where it was asked for: an earlier one may be quoted from the answer."""


@dataclass(frozen=True, slots=True)
class EndpointJudge:
    """Asks a model whether an answer is right, and reads `<judge>true</judge>` or `<judge>false</judge>`.

    VRAG-RL (arXiv 2505.22019) asks a model in the same way; the wording is ours. Question, reference and
    answer are quoted as data: every `<` and `>` of theirs is written `&lt;` and `&gt;`, and only the end
    of the model's own reply is a verdict.
    """

    model: ChatModel
    """It retries failed calls by itself, boundedly."""
    options: ChatOptions = OPTIONS
    attempts: int = 3
    """Maximum of replies, until one ends with a verdict. The reference never stops."""
    seconds: float = 300.0
    """Timeout of a verdict, all attempts together."""

    @property
    def identity(self) -> str:
        """The model by its name, and a hash of its prompts and its sampling options."""
        prompts = prompt_in(PROMPTS, "judge_again.md"), _prompt("$question", "$reference", "$answer")
        return f"endpoint:{self._dialogue.identity(*prompts)}"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Ask for a verdict, again where none came; see `Judge`.

        Raises `JudgeError` if the model fails, takes too long, or gives no verdict in any of its attempts.
        """
        reminder = prompt_in(PROMPTS, "judge_again.md")
        return await self._dialogue.reply(_prompt(question, reference, answer), reminder, _read_verdict)

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop."""
        await self.model.aclose()

    @property
    def _dialogue(self) -> Dialogue:
        return Dialogue(self.model, "verdict", self.options, self.attempts, self.seconds)


def _prompt(question: str, reference: str, answer: str) -> str:
    values = {"question": quoted(question), "reference": quoted(reference), "answer": quoted(answer)}
    return prompt_in(PROMPTS, "judge.md", **values)


def _read_verdict(text: str) -> Verdict | None:
    found = _VERDICT.search(text)
    if found is None or cut_off(text):
        return None
    return Verdict(found[1].lower() == "true", None, text[: found.start()].strip()[-MAX_WHY_CHARACTERS:])
