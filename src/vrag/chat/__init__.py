"""The one door to a language model: the `ChatModel` protocol and the client of compatible servers.

`OpenAIChat` speaks to any endpoint with `/chat/completions` as OpenAI has it: vLLM, SGLang,
Ollama, DashScope, OpenAI. Nothing here knows of agents.
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
