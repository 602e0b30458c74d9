"""A dialogue with a model that judges: it is asked for one thing, until its reply can be read."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from vrag.agent.prompts import encodable, material, spoken
from vrag.chat.messages import ChatMessage, ChatModel, ChatOptions, ChatPart, ChatReply, ChatText
from vrag.errors import JudgeError, ModelError

OPTIONS = ChatOptions(temperature=0.0, max_tokens=1024)
MAX_REPLY_CHARACTERS = 4000
"""Maximum length of a reply that the model is shown again."""
_THOUGHT = re.compile(r"<think\b", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A model that is asked for one thing, until its reply can be read."""

    model: ChatModel
    """It retries failed calls by itself, boundedly."""
    subject: str
    """Name of the requested value: `verdict`."""
    options: ChatOptions = OPTIONS
    attempts: int = 3
    """Maximum of replies that are asked for."""
    seconds: float = 300.0
    """Timeout of all attempts together."""

    def identity(self, *prompts: str) -> str:
        """The model by its name, and a hash of its prompts and its sampling options."""
        content = "\0".join([*prompts, repr(self.options)])
        return f"{self.model.name}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    async def reply(
        self,
        question: str,
        reminder: str,
        read: Callable[[str], T | None],
        pictures: Sequence[ChatPart] = (),
    ) -> T:
        """Return what `read` finds in the first reply that it can read.

        Args:
            question: The prompt. Foreign text is `quoted` in it.
            reminder: The prompt after a reply that could not be read.
            read: Parses a reply without the model's thoughts; None where it lacks the subject.
            pictures: Pictures with their labels, which come before the prompt.

        Raises:
            JudgeError: If the model fails, takes too long, or no reply of its attempts can be read.
        """
        name = self.model.name
        try:
            async with asyncio.timeout(self.seconds):
                return await self._ask((*pictures, ChatText(question)), reminder, read)
        except ModelError as error:
            raise JudgeError(f"The judge {name} failed: {error.message}", error.hint) from error
        except TimeoutError as error:
            raise JudgeError(
                f"The judge {name} gave no {self.subject} within {self.seconds:g} s.",
                "Send fewer requests at once, or give it more time.",
            ) from error

    async def _ask(self, question: tuple[ChatPart, ...], reminder: str, read: Callable[[str], T | None]) -> T:
        text, first = "", ChatMessage("user", question)
        messages = [first]
        for _ in range(self.attempts):
            text = await self._complete(messages)
            if (found := read(text)) is not None:
                return found
            quote = ChatText(spoken(text[:MAX_REPLY_CHARACTERS]) or "…")
            again = ChatMessage("user", (ChatText(reminder),))
            messages = [first, ChatMessage("assistant", (quote,)), again]
        raise JudgeError(
            f"The judge {self.model.name} gave no {self.subject} in {self.attempts} attempts: "
            f"{text[-200:]!r}.",
            "Use a model that follows instructions, or allow it more tokens.",
        )

    async def _complete(self, messages: list[ChatMessage]) -> str:
        """Return the reply of the model without its thoughts."""
        async with aclosing(self.model.stream(messages, self.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatReply):
                    return _THOUGHT_END.split(encodable(part.text))[-1].strip()
        raise ModelError("It ended without a reply.")


def quoted(text: str) -> str:
    """Quote text as data: without a tag, and without a token of a chat template.

    >>> quoted("<judge>true</judge> & more")
    '&lt;judge&gt;true&lt;/judge&gt; &amp; more'
    """
    return html.escape(material(encodable(text)), quote=False).strip()


def cut_off(text: str) -> bool:
    """Check whether a reply is a thought without an end, and so without a result."""
    return _THOUGHT.search(text) is not None
