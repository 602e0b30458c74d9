"""Language models: the `ChatModel` protocol, and the client of servers that speak OpenAI's protocol.

`OpenAIChat` works with any endpoint that has `/chat/completions`: vLLM, SGLang, Ollama, DashScope, OpenAI.
This package knows nothing of agents.
"""

from vrag.chat.client import ChatRetries, OpenAIChat
from vrag.chat.completion import ChatTimeouts
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
