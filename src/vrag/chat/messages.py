"""What is said to a language model, how, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

__all__ = [
    "ChatDelta",
    "ChatImage",
    "ChatMessage",
    "ChatModel",
    "ChatOptions",
    "ChatPart",
    "ChatReply",
    "ChatRetry",
    "ChatRole",
    "ChatText",
    "ServedModel",
    "ThinkingSwitch",
    "ToolCall",
]

ChatRole = Literal["system", "user", "assistant"]
"""Who speaks."""


@dataclass(frozen=True, slots=True)
class ChatText:
    """A stretch of text in a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ChatImage:
    """A picture in a message."""

    url: str
    """A data URL with its type, `data:image/jpeg;base64,…`: strict servers refuse one without."""


ChatPart = ChatText | ChatImage


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: ChatRole
    parts: tuple[ChatPart, ...]


class ThinkingSwitch(StrEnum):
    """Where a server looks for the switch that turns thinking on or off."""

    TOP = "top"
    """`enable_thinking` in the request itself: DashScope."""
    TEMPLATE = "template"
    """`chat_template_kwargs.enable_thinking`: vLLM and SGLang with models of the Qwen3 family."""
    BOTH = "both"
    """Both fields, for a server that ignores the one it does not know."""
    EFFORT = "effort"
    """`reasoning_effort`, `medium` or `none`: OpenAI, Gemini, Ollama."""
    REASONING = "reasoning"
    """`reasoning.enabled`: OpenRouter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a reply is sampled. None leaves the choice to the server: nothing is sent."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Of the reply, thinking included."""
    stop: tuple[str, ...] = ()
    """Strings that end the reply. Servers leave them out of its text, so no closing tag of a grammar."""
    seed: int | None = None
    thinking: bool | None = None
    """Whether a model that can do both thinks first."""
    thinking_switch: ThinkingSwitch = ThinkingSwitch.TOP
    """Where the server looks for it."""
    logprobs: bool = False
    """Ask for the log-probability of each token; a server that does not have it may leave it out."""
    token_ids: bool = False
    """Ask for prompt and reply in token ids (vLLM); a server that does not have them may leave them out."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Native tools, as JSON schemas in OpenAI's wrapping."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the request holds; fields of the protocol itself win over it."""


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """A piece of a reply as it is written."""

    text: str
    thought: bool = False
    """Whether the server says that it is thinking, not reply."""


@dataclass(frozen=True, slots=True)
class ChatRetry:
    """The call failed and is made again: the deltas so far do not count."""

    reason: str
    """For people, in one sentence."""
    seconds: float
    """Pause before it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A native call of a tool. Nothing about it has been checked."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: a JSON object, or anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A complete reply. Counts and ids are None or empty where the server did not tell them."""

    text: str
    """That of the deltas since the last `ChatRetry` that are no thought, joined."""
    thought: str = ""
    """That of those that are."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    """The server's word: `stop`, `length`, `tool_calls`, `content_filter` …; empty where the reply came to
    its end and the server did not say why."""
    prompt_tokens: int | None = None
    """All of the prompt, pictures included."""
    completion_tokens: int | None = None
    """All that was written, thoughts included."""
    cached_tokens: int | None = None
    """Those of the prompt that the server had computed before."""
    prompt_ids: tuple[int, ...] = ()
    """The prompt in tokens of the model."""
    ids: tuple[int, ...] = ()
    """What the model sampled: thoughts, tool calls and its end-of-turn token included."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithm of the probability of each of `ids`, or of each token where ids are unknown."""
    model: str = ""
    """What the server says that it ran."""
    request: str = ""
    """The server's name for the call."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers."""

    name: str
    context: int | None = None
    """Tokens that prompt and reply may have together, where the server tells."""


class ChatModel(Protocol):
    """A conversation → the next reply.

    One model serves many conversations at once, in several event loops, and keeps nothing of any.
    """

    @property
    def name(self) -> str:
        """What the server calls the model."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions = ...
    ) -> AsyncGenerator[ChatDelta | ChatRetry | ChatReply, None]:
        """Writes the next reply: deltas, then the whole as the last part.

        Closing the generator ends the call at once, on the server as well.

        Raises:
            ContextTooLong: If the conversation is longer than the model can take.
            ModelError: If no reply can be had.
        """
        ...

    async def aclose(self) -> None:
        """Gives back what it holds in the running event loop; it can be used again."""
        ...
