"""A context that is longer than the model takes, made shorter: pictures go, words stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.policy import EnclosedImage, Message, Picture, Text
from vrag.agent.prompts import prompt

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vrag.agent.policy import Part

__all__ = ["half_of", "shortened"]


def half_of(count: int) -> int:
    """How many of so many are taken out at once: half, rounded up, so that none is left after a few times."""
    return (count + 1) // 2


def shortened(
    messages: Sequence[Message], dropped: Collection[Picture | EnclosedImage], request: Sequence[Part]
) -> list[Message]:
    """The messages without some pictures; the last says so.

    Args:
        messages: What the model was to be told.
        dropped: Pictures of them.
        request: What is added to the last message, where it does not stand there yet.
    """
    gone = [_without(message, dropped) for message in messages]
    last = gone[-1]
    told = {part.text for part in last.parts if isinstance(part, Text)}
    added = [Text(prompt("shortened.md")), *request]
    more = tuple(part for part in added if not (isinstance(part, Text) and part.text in told))
    return [*gone[:-1], Message(last.role, (*last.parts, *more))]


def _without(message: Message, dropped: Collection[Picture | EnclosedImage]) -> Message:
    """A message without some pictures; the same one where it holds none of them."""
    if not any(part in dropped for part in message.parts):
        return message
    note = Text(prompt("out_of_sight.md"))
    return Message(message.role, tuple(note if part in dropped else part for part in message.parts))
