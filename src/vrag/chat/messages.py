"""Messages to a language model, sampling options, requests as JSON, replies, and the `ChatModel` protocol."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, cast

from pydantic_core import to_json

ChatRole = Literal["system", "user", "assistant"]
"""The author of a message."""
RENAMED = "max_tokens"
"""Newer models of OpenAI call it `max_completion_tokens`."""
_NEW_NAME = "max_completion_tokens"
_ABOUT_FIELDS = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|unexpected|not (?:supported|permitted|allowed)|extra|additional",
    re.IGNORECASE,
)
"""Messages of strict servers about a field that they do not know."""
_ONLY_DEFAULT = re.compile(r"'(temperature|top_p)' (?:does not support|is not supported)", re.IGNORECASE)
"""Messages of OpenAI's reasoning models, which accept only their default."""


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


def join_texts(parts: Iterable[ChatPart]) -> tuple[ChatPart, ...]:
    """Join texts in a row with line breaks, since servers put nothing between them."""
    joined: list[ChatPart] = []
    for part in parts:
        if isinstance(part, ChatText) and joined and isinstance(before := joined[-1], ChatText):
            joined[-1] = ChatText(f"{before.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)


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
        """Write the next reply: deltas, then the complete reply as the last part.

        Closing the generator ends the call at once, on the server as well.

        Raises `ContextTooLong` if the conversation is longer than the model can take and `ModelError` if no
        reply can be had.
        """
        ...

    async def aclose(self) -> None:
        """Release its resources of the running event loop; it can be used again."""
        ...


def request_body(
    model: str, messages: Sequence[ChatMessage], options: ChatOptions, without: frozenset[str] = frozenset()
) -> bytes:
    """Encode a streaming request without the optional fields that the server has refused.

    `max_tokens` is renamed, not left out. Raises `ValueError` if `options.extra` holds a value that JSON
    cannot represent.
    """
    sampling: dict[str, Any] = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        RENAMED: options.max_tokens,
        "seed": options.seed,
        "stop": list(options.stop) or None,
        "tools": list(options.tools) or None,
    }
    set_fields = {name: value for name, value in sampling.items() if value is not None}
    body = {**options.extra, **set_fields, **_thinking(options), **_output_fields(options)}
    for name in without - {RENAMED}:
        body.pop(name, None)
    if RENAMED in without and RENAMED in body:
        body[_NEW_NAME] = body.pop(RENAMED)
    try:
        json.dumps(body, allow_nan=False)
    except TypeError as error:
        raise ValueError(str(error)) from error
    body |= {"model": model, "messages": [_message(message) for message in messages], "stream": True}
    return to_json(body)  # images make it long: this takes half the time of `json.dumps`


def can_do_without(body: bytes, message: str) -> frozenset[str]:
    """Find the fields of a refused request that can be left out without changing what the model writes.

    These are the fields that request more output, the old name of `max_tokens`, and a temperature or top-p
    that the model has fixed, as far as the message names them. If it is about fields and names none of
    them, they are all fields that request more output.
    """
    fields = cast("dict[str, Any]", json.loads(body))
    sent = {name for name in _output_fields(ChatOptions(logprobs=True, token_ids=True)) if name in fields}
    named = {name for name in sent if name in message}
    if RENAMED in fields and _NEW_NAME in message:
        named.add(RENAMED)
    if fixed := _ONLY_DEFAULT.search(message):
        named |= {fixed[1]} & fields.keys()
    return frozenset(named or (sent if _ABOUT_FIELDS.search(message) else ()))


def _thinking(options: ChatOptions) -> dict[str, Any]:
    if options.thinking is None:
        return {}
    switch = {"enable_thinking": options.thinking}
    match options.thinking_switch:
        case ThinkingSwitch.TOP:
            return switch
        case ThinkingSwitch.TEMPLATE | ThinkingSwitch.BOTH:
            given: Mapping[str, Any] = options.extra.get("chat_template_kwargs") or {}
            top = switch if options.thinking_switch is ThinkingSwitch.BOTH else {}
            return {**top, "chat_template_kwargs": {**given, **switch}}
        case ThinkingSwitch.EFFORT:
            return {"reasoning_effort": "medium" if options.thinking else "none"}
        case ThinkingSwitch.REASONING:
            return {"reasoning": {"enabled": options.thinking}}


def _output_fields(options: ChatOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {"stream_options": {"include_usage": True}}
    if options.logprobs:
        fields["logprobs"] = True
    if options.token_ids:
        fields["return_token_ids"] = True
    return fields


def json_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _message(message: ChatMessage) -> dict[str, Any]:
    """Encode a message; a single text as a string, which the templates of some models need."""
    match message.parts:
        case (ChatText(text),):
            return {"role": message.role, "content": text}
        case parts:
            content = [
                {"type": "text", "text": part.text}
                if isinstance(part, ChatText)
                else {"type": "image_url", "image_url": {"url": part.url}}
                for part in parts
            ]
            return {"role": message.role, "content": content}
