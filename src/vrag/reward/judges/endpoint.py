"""A judge that is a language model behind any `ChatModel`."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.material import encodable, material, spoken
from vrag.chat.base import ChatMessage, ChatOptions, ChatReply, ChatText
from vrag.errors import JudgeError, ModelError
from vrag.reward.judge import Verdict
from vrag.reward.prompts import prompt

if TYPE_CHECKING:
    from vrag.chat.base import ChatModel

__all__ = ["EndpointJudge"]

OPTIONS = ChatOptions(temperature=0.0, max_tokens=1024)
_VERDICT = re.compile(r"<judge>\s*(true|false)\s*</judge>[\s.*`]*\Z", re.IGNORECASE)
"""At the end, where it was asked for: what stands earlier may be quoted from the answer."""
_THOUGHT = re.compile(r"<think\b", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
_LONGEST_WHY = 500
"""Characters of a reason that are kept."""
_LONGEST_REPLY = 4000
"""Characters of a reply without a verdict that the judge is reminded of."""


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
        said = "\0".join(
            [prompt("judge_again.md"), _asked("$question", "$reference", "$answer"), repr(self.options)]
        )
        return f"endpoint:{self.model.name}:{hashlib.sha256(said.encode()).hexdigest()[:16]}"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Asks, and asks again where no verdict came; see `Judge`.

        Raises:
            JudgeError: If the model fails, takes too long, or gives no verdict in any of its attempts.
        """
        messages = [_message("user", _asked(question, reference, answer))]
        try:
            async with asyncio.timeout(self.seconds):
                return await self._attempted(messages)
        except ModelError as error:
            raise JudgeError(f"The judge {self.model.name} failed: {error.message}", error.hint) from error
        except TimeoutError as error:
            raise JudgeError(
                f"The judge {self.model.name} gave no verdict within {self.seconds:g} s.",
                "Ask fewer at once, or give it more time.",
            ) from error

    async def aclose(self) -> None:
        """Closes the model's connections of the running event loop."""
        await self.model.aclose()

    async def _attempted(self, messages: list[ChatMessage]) -> Verdict:
        text = ""
        for _ in range(self.attempts):
            text = await self._reply(messages)
            if (verdict := _verdict(text)) is not None:
                return verdict
            said = _message("assistant", spoken(text[:_LONGEST_REPLY]) or "…")
            messages = [messages[0], said, _message("user", prompt("judge_again.md"))]
        raise JudgeError(
            f"The judge {self.model.name} gave no verdict in {self.attempts} attempts: {text[-200:]!r}.",
            "Take a model that follows instructions, or give it more tokens.",
        )

    async def _reply(self, messages: list[ChatMessage]) -> str:
        """What the model says, without what it thinks."""
        async with aclosing(self.model.stream(messages, self.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatReply):
                    return _THOUGHT_END.split(encodable(part.text))[-1].strip()
        raise ModelError("It ended without a reply.")


def _asked(question: str, reference: str, answer: str) -> str:
    return prompt(
        "judge.md", question=_quoted(question), reference=_quoted(reference), answer=_quoted(answer)
    )


def _quoted(text: str) -> str:
    """As data: without a tag, and without a token of a chat template."""
    return html.escape(material(encodable(text)), quote=False).strip()


def _message(role: str, text: str) -> ChatMessage:
    return ChatMessage("assistant" if role == "assistant" else "user", (ChatText(text),))


def _verdict(text: str) -> Verdict | None:
    """What a reply ends with; None when that is no verdict."""
    found = _VERDICT.search(text)
    if found is None or _THOUGHT.search(text):  # a thought that was cut off has come to nothing
        return None
    return Verdict(found[1].lower() == "true", None, text[: found.start()].strip()[-_LONGEST_WHY:])
