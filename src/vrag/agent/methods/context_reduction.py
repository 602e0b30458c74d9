"""A context that is longer than the model takes, made shorter: pictures go, words stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Text
from vrag.agent.prompts import prompt


def half_of(count: int) -> int:
    """Return the number of pictures to remove at once: half, rounded up, so that none is left at last."""
    return (count + 1) // 2


def shortened(
    messages: Sequence[Message], dropped: Collection[Picture | EnclosedImage], request: Sequence[Part]
) -> list[Message]:
    """Return the messages without some pictures; the last says so."""
    gone = [_without(message, dropped) for message in messages]
    last = gone[-1]
    told = {part.text for part in last.parts if isinstance(part, Text)}
    added = [Text(prompt("shortened.md")), *request]
    more = tuple(part for part in added if not (isinstance(part, Text) and part.text in told))
    return [*gone[:-1], Message(last.role, (*last.parts, *more))]


def _without(message: Message, dropped: Collection[Picture | EnclosedImage]) -> Message:
    """Return a message without some pictures; the same one where it holds none of them."""
    if not any(part in dropped for part in message.parts):
        return message
    note = Text(prompt("out_of_sight.md"))
    return Message(message.role, tuple(note if part in dropped else part for part in message.parts))
