"""Messages to a language model, sampling options, replies, and the `ChatModel` protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

ChatRole = Literal["system", "user", "assistant"]
"""The author of a message."""


@dataclass(frozen=True, slots=True)
class ChatText:
    """A text in a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ChatImage:
    """An image in a message."""

    url: str
    """A data URL with its type, `data:image/jpeg;base64,…`: strict servers refuse one without."""


ChatPart = ChatText | ChatImage


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: ChatRole
    parts: tuple[ChatPart, ...]


class ThinkingSwitch(StrEnum):
    """The field of a request that turns thinking on or off."""

    TOP = "top"
    """`enable_thinking` in the request itself: DashScope."""
    TEMPLATE = "template"
    """`chat_template_kwargs.enable_thinking`: vLLM and SGLang with models of the Qwen3 family."""
    BOTH = "both"
    """Both fields, for servers that ignore the one they do not know."""
    EFFORT = "effort"
    """`reasoning_effort`, `medium` or `none`: OpenAI, Gemini, Ollama."""
    REASONING = "reasoning"
    """`reasoning.enabled`: OpenRouter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Sampling options. None sends nothing, which leaves the choice to the server."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Maximum length of the reply, thinking included."""
    stop: tuple[str, ...] = ()
    """Strings that end the reply. Servers leave them out of its text, so no closing tag of a grammar."""
    seed: int | None = None
    thinking: bool | None = None
    """True if a hybrid model thinks first."""
    thinking_switch: ThinkingSwitch = ThinkingSwitch.TOP
    """The field that the server reads for it."""
    logprobs: bool = False
    """Request the log-probability of each token; servers may leave it out."""
    token_ids: bool = False
    """Request prompt and reply as token ids (vLLM); servers may leave them out."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Native tools, as JSON schemas in OpenAI's format."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the request; the fields above take precedence."""


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """A piece of a reply as it is written."""

    text: str
    thought: bool = False
    """True if the server marks it as thinking."""


@dataclass(frozen=True, slots=True)
class ChatRetry:
    """A retry of the call after a failure: the deltas so far do not count."""

    reason: str
    """One sentence for people."""
    seconds: float = 0.0
    """Pause before it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A native tool call. Nothing about it has been validated."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: a JSON object, or any other text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The token counts of a reply; None if unknown."""

    prompt: int | None = None
    """Tokens of the prompt, images included."""
    completion: int | None = None
    """Tokens of the reply, thoughts included."""
    cached: int | None = None
    """Tokens of the prompt that came from the server's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Prompt and reply in the tokens of the model, as training needs them; empty if unknown."""

    prompt_ids: tuple[int, ...] = ()
    """The whole prompt, placeholders of images included."""
    ids: tuple[int, ...] = ()
    """The sampled tokens: thoughts, tool calls and the end-of-turn token included."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithm of the probability of each of `ids`, or of each token if the ids are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A complete reply."""

    text: str
    """The deltas since the last `ChatRetry` that are not thoughts, joined."""
    thought: str = ""
    """The deltas that are thoughts, joined."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    """The finish reason of the server: `stop`, `length`, `tool_calls`, `content_filter` …; empty if the reply
    is complete and the server gave none."""
    tokens: Tokens = Tokens()
    sampled: Sampled = Sampled()
    model: str = ""
    """The model that the server reports."""
    request: str = ""
    """The server's id of the call."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of a server."""

    name: str
    context: int | None = None
    """Maximum tokens of prompt and reply together, if known."""


class ChatModel(Protocol):
    """The protocol of language models: a conversation → the next reply.

    A model serves many conversations at once, in several event loops, and keeps no state of any.
    """

    @property
    def name(self) -> str:
        """Name of the model on the server."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions = ...
    ) -> AsyncGenerator[ChatDelta | ChatRetry | ChatReply, None]:
        """Writes the next reply: deltas, then the complete reply as the last part.

        Closing the generator ends the call at once, on the server as well.

        Raises `ContextTooLong` if the conversation is longer than the model can take and `ModelError` if no
        reply can be had.
        """
        ...

    async def aclose(self) -> None:
        """Releases its resources of the running event loop; it can be used again."""
        ...
