"""Asks a model, and takes apart what comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from vrag.chat import (
    ChatDelta,
    ChatMessage,
    ChatOptions,
    ChatReply,
    ChatRetries,
    ChatRetry,
    ChatText,
    OpenAIChat,
)
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chat_server import ChatServer

ASK = (ChatMessage("user", (ChatText("How many passengers?"),)),)
QUICK = ChatRetries(times=3, first_pause=0.01, longest_pause=2.0)
TEXT = "<think>It is on page 2.</think><answer>48,200</answer>"

Part: TypeAlias = ChatDelta | ChatRetry | ChatReply


def client(server: ChatServer, **options: Any) -> OpenAIChat:  # noqa: ANN401 - of many types
    """One that repeats quickly."""
    chosen: dict[str, Any] = {"retries": QUICK, **options}
    return OpenAIChat(server.url, "scripted", **chosen)


async def parts_of(
    chat: OpenAIChat, options: ChatOptions | None = None, messages: Sequence[ChatMessage] = ASK
) -> list[Part]:
    """All of one reply, with the connections given back."""
    try:
        return [part async for part in chat.stream(messages, options)]
    finally:
        await chat.aclose()


def ask(chat: OpenAIChat, options: ChatOptions | None = None) -> list[Part]:
    return asyncio.run(asyncio.wait_for(parts_of(chat, options), 60))


def reply_of(parts: Sequence[Part]) -> ChatReply:
    *before, last = parts
    assert isinstance(last, ChatReply)
    assert not any(isinstance(part, ChatReply) for part in before)
    return last


def error_of(chat: OpenAIChat, options: ChatOptions | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(chat, options)
    return caught.value


def heard(parts: Sequence[Part], *, thought: bool) -> str:
    """The deltas since the last retry, joined."""
    since = max((at for at, part in enumerate(parts) if isinstance(part, ChatRetry)), default=-1) + 1
    deltas = [part for part in parts[since:] if isinstance(part, ChatDelta)]
    return "".join(delta.text for delta in deltas if delta.thought is thought)
