"""Experts: models behind endpoints, what they cost, and how they are asked until a reply can be used."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.budget import Prices
from vrag.agent.policy import Retry
from vrag.agent.prompts import prompt_in
from vrag.chat.messages import ChatMessage, ChatOptions, ChatReply, ChatRetry, ChatText
from vrag.distill.expert_reply import UnusableReplyError
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.chat.messages import ChatModel
    from vrag.model_profiles import Profile

T = TypeVar("T")
MAX_QUOTED_CHARACTERS = 4000
"""Of an unusable reply that the expert is shown again."""
prompt = partial(prompt_in, "vrag.distill.prompts")
"""As `vrag.agent.prompts.prompt`, of the files in `prompts/`: every text that an expert is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """A model that is good at one thing."""

    role: str
    """`planner`, `grounder` or `judge`."""
    model: ChatModel
    profile: Profile
    """Its family: the sizes of images that it sees as they are, and the space of its boxes."""
    options: ChatOptions = field(default_factory=ChatOptions)
    prices: Prices = field(default_factory=Prices)
    tries: int = 3
    """Maximum of replies, until one can be used."""

    @property
    def identity(self) -> dict[str, Any]:
        """The JSON values that its replies depend on, without its server and its prices."""
        return {"model": self.model.name, "profile": self.profile.name, **asdict(self.options)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts that make samples."""

    planner: Expert
    judge: Expert
    grounder: Expert | None = None
    """None leaves the boxes to the planner."""

    @property
    def all(self) -> tuple[Expert, ...]:
        """All of them."""
        return tuple(expert for expert in (self.planner, self.grounder, self.judge) if expert is not None)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        for expert in self.all:
            await expert.model.aclose()


@dataclass(slots=True)
class Tally:
    """The calls of an expert and their cost, so far."""

    calls: int = 0
    """Replies that came."""
    retries: int = 0
    """Calls that failed and were made again: refused for now, too late, interrupted."""
    faults: int = 0
    """Replies that could not be used."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """None where the prices are not known."""
    seconds: float = 0.0
    """From calls to their replies, together."""

    def add(self, expert: Expert, reply: ChatReply, seconds: float) -> None:
        """Count a reply."""
        prompt_tokens, completion_tokens = reply.tokens.prompt or 0, reply.tokens.completion or 0
        cost = expert.prices.cost(reply.tokens.prompt, reply.tokens.completion, reply.tokens.cached)
        self.join(Tally(1, 0, 0, prompt_tokens, completion_tokens, cost, seconds))

    def join(self, other: Tally) -> None:
        """Add the numbers of another tally."""
        self.calls += other.calls
        self.retries += other.retries
        self.faults += other.faults
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost

    def as_dict(self) -> dict[str, Any]:
        """Return its JSON values by the names of its fields; seconds to the thousandth."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


def _ignore(_: Retry) -> None:
    pass


async def consult(
    expert: Expert,
    messages: Sequence[ChatMessage],
    read: Callable[[str], T],
    tally: Tally,
    report: Callable[[Retry], None] = _ignore,
) -> T:
    """Ask an expert and return what `read` finds in its reply.

    An unusable reply is shown to the expert again with its fault, `Expert.tries` times in all; only the
    latest one is, so that the prompt does not grow.

    Args:
        expert: The expert to ask.
        messages: The prompt.
        read: Parses a reply; raises `UnusableReplyError` with a sentence for the expert.
        tally: Of the expert; each reply is added, usable or not.
        report: Called whenever a call or a reply failed, and the expert is asked again.

    Raises:
        ContextTooLong: If the conversation is longer than the model can take.
        ModelError: If no reply can be had, or none that can be used.
    """
    conversation = list(messages)
    reason = ""
    for number in range(1, expert.tries + 1):
        text = await _complete(expert, conversation, tally, report)
        try:
            return read(text)
        except UnusableReplyError as error:
            reason = str(error)
        tally.faults += 1
        quote = ChatText(text[:MAX_QUOTED_CHARACTERS].strip() or "(nothing)")
        correction = ChatText(prompt("again.md", reason=reason))
        conversation = [*messages, ChatMessage("assistant", (quote,)), ChatMessage("user", (correction,))]
        if number < expert.tries:
            report(Retry(f"The {expert.role} is asked again: {reason}"))
    raise ModelError(
        f"The {expert.role} sent {expert.tries} unusable replies; the last: {reason}",
        f"Is {expert.model.name} the right model for it?",
    )


async def _complete(
    expert: Expert, messages: Sequence[ChatMessage], tally: Tally, report: Callable[[Retry], None]
) -> str:
    """Return the text of the reply; raise `ModelError` if none can be had."""
    began = time.perf_counter()
    try:
        async with aclosing(expert.model.stream(messages, expert.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatRetry):
                    tally.retries += 1
                    report(Retry(f"The {expert.role}: {part.reason}", part.seconds))
                elif isinstance(part, ChatReply):
                    tally.add(expert, part, time.perf_counter() - began)
                    return part.text
    except ModelError as error:
        raise type(error)(f"The {expert.role}: {error.message}", error.hint) from error
    raise ModelError(f"The {expert.role} ended without a reply.")
