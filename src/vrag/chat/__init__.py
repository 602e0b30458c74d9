"""Language models: the `ChatModel` protocol, and the client of servers that speak OpenAI's protocol.

`OpenAIChat` works with any endpoint that has `/chat/completions`: vLLM, SGLang, Ollama, DashScope, OpenAI.
This package knows nothing of agents. The client and httpx are imported when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from vrag.chat.messages import (
    ChatDelta,
    ChatImage,
    ChatMessage,
    ChatModel,
    ChatOptions,
    ChatPart,
    ChatReply,
    ChatRetry,
    ChatRole,
    ChatText,
    ServedModel,
    ThinkingSwitch,
    ToolCall,
)

if TYPE_CHECKING:
    from vrag.chat.client import ChatRetries, OpenAIChat
    from vrag.chat.completion import ChatTimeouts

__all__ = [
    "ChatDelta",
    "ChatImage",
    "ChatMessage",
    "ChatModel",
    "ChatOptions",
    "ChatPart",
    "ChatReply",
    "ChatRetries",
    "ChatRetry",
    "ChatRole",
    "ChatText",
    "ChatTimeouts",
    "OpenAIChat",
    "ServedModel",
    "ThinkingSwitch",
    "ToolCall",
]

_MODULES = {"ChatRetries": "client", "ChatTimeouts": "completion", "OpenAIChat": "client"}
"""Modules of the names that are imported when they are used."""


def __getattr__(name: str) -> object:
    """Import the client when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
