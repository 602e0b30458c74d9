"""The one door to a language model: the `ChatModel` protocol and the client of compatible servers.

`OpenAIChat` speaks to any endpoint with `/chat/completions` as OpenAI has it: vLLM, SGLang,
Ollama, DashScope, OpenAI. Nothing here knows of agents.
"""

from vrag.chat.base import (
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
from vrag.chat.call import ChatTimeouts
from vrag.chat.client import ChatRetries, OpenAIChat

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
