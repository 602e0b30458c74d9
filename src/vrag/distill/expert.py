"""An expert: a model behind an endpoint, what it costs, and how it is asked until its reply can be used."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vrag.agent.budget import Prices
from vrag.agent.policy import Retry
from vrag.chat.messages import ChatMessage, ChatOptions, ChatReply, ChatRetry, ChatText
from vrag.distill.json_extract import Unusable
from vrag.distill.prompts import prompt
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.chat.messages import ChatModel
    from vrag.model_profiles import Profile

__all__ = ["Expert", "Experts", "Tally", "Usable", "consult"]

T = TypeVar("T")
_QUOTED = 4000
"""Characters of a useless reply that the expert is shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """A model that is good at one thing."""

    role: str
    """`planner`, `grounder` or `judge`."""
    model: ChatModel
    profile: Profile
    """Its family: the sizes of pictures that it sees as they are, and the space of its boxes."""
    options: ChatOptions = field(default_factory=ChatOptions)
    prices: Prices = field(default_factory=Prices)
    tries: int = 3
    """Replies that are asked for, until one can be used."""

    @property
    def identity(self) -> dict[str, Any]:
        """What its replies depend on, as JSON values; where it is served, and at what price, is not of it."""
        return {"model": self.model.name, "profile": self.profile.name, **asdict(self.options)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Who makes a sample."""

    planner: Expert
    judge: Expert
    grounder: Expert | None = None
    """None leaves the boxes to the planner."""

    @property
    def all(self) -> tuple[Expert, ...]:
        """All of them."""
        return tuple(one for one in (self.planner, self.grounder, self.judge) if one is not None)

    async def aclose(self) -> None:
        """Gives back the connections of the running event loop."""
        for expert in self.all:
            await expert.model.aclose()


@dataclass(slots=True)
class Tally:
    """What an expert was asked and what that cost, so far."""

    calls: int = 0
    """Replies that came."""
    retries: int = 0
    """Calls that failed and were made again: refused for now, too late, cut off."""
    faults: int = 0
    """Replies that could not be used."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """None where the prices are not known."""
    seconds: float = 0.0
    """From calls to their replies, together."""

    def add(self, expert: Expert, reply: ChatReply, seconds: float) -> None:
        """Counts a reply."""
        self.calls += 1
        self.prompt_tokens += reply.prompt_tokens or 0
        self.completion_tokens += reply.completion_tokens or 0
        self.seconds += seconds
        cost = expert.prices.cost(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def join(self, other: Tally) -> None:
        """Adds what was counted elsewhere."""
        self.calls += other.calls
        self.retries += other.retries
        self.faults += other.faults
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost

    def as_dict(self) -> dict[str, Any]:
        """What is kept of it as JSON, by the names of its fields; seconds to the thousandth."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class Usable(Generic[T]):
    """What was read from a reply."""

    value: T


async def consult(
    expert: Expert, messages: Sequence[ChatMessage], read: Callable[[str], T], tally: Tally
) -> AsyncGenerator[Retry | Usable[T], None]:
    """Asks an expert: what went wrong on the way, then what was read.

    A reply that cannot be read is shown to the expert again with what is wrong with it, `Expert.tries`
    times in all.

    Args:
        expert: Who is asked.
        messages: What it is told.
        read: Takes a reply apart; raises `Unusable` with a sentence for the expert.
        tally: Of the expert; each reply is added, useful or not.

    Raises:
        ContextTooLong: If the conversation is longer than the model can take.
        ModelError: If no reply can be had, or none that can be used.
    """
    told = list(messages)
    reason = ""
    for number in range(1, expert.tries + 1):
        text = ""
        async with aclosing(_asked(expert, told, tally)) as parts:
            async for part in parts:
                if isinstance(part, Retry):
                    yield part
                else:
                    text = part
        try:
            value = read(text)
        except Unusable as error:
            reason = str(error)
        else:
            yield Usable(value)
            return
        tally.faults += 1
        told = [*messages, *_complaint(text, reason)]
        if number < expert.tries:
            yield Retry(f"The {expert.role} is asked again: {reason}")
    raise ModelError(
        f"The {expert.role} sent {expert.tries} replies that cannot be used; the last: {reason}",
        f"Is {expert.model.name} the right model for it?",
    )


async def _asked(
    expert: Expert, messages: Sequence[ChatMessage], tally: Tally
) -> AsyncGenerator[Retry | str, None]:
    """What went wrong, then the text of the reply.

    Raises:
        ModelError: If no reply can be had.
    """
    began = time.perf_counter()
    try:
        async with aclosing(expert.model.stream(messages, expert.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatRetry):
                    tally.retries += 1
                    yield Retry(f"The {expert.role}: {part.reason}", part.seconds)
                elif isinstance(part, ChatReply):
                    tally.add(expert, part, time.perf_counter() - began)
                    yield part.text
                    return
    except ModelError as error:
        raise type(error)(f"The {expert.role}: {error.message}", error.hint) from error
    raise ModelError(f"The {expert.role} ended without a reply.")


def _complaint(text: str, reason: str) -> tuple[ChatMessage, ...]:
    """The reply once more, and what is wrong with it; of the latest only: the prompt does not grow."""
    again = ChatMessage("user", (ChatText(prompt("again.md", reason=reason)),))
    said = ChatMessage("assistant", (ChatText(text[:_QUOTED].strip() or "(nothing)"),))
    return said, again
