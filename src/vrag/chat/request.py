"""A call as a server wants it: messages and options as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from vrag.chat.messages import ChatMessage, ChatOptions, ChatText, ThinkingSwitch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RENAMED", "can_do_without", "request_body"]

RENAMED = "max_tokens"
"""Newer models of OpenAI want it as `max_completion_tokens`."""
_NEW_NAME = "max_completion_tokens"
_ABOUT_FIELDS = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|unexpected|not (?:supported|permitted|allowed)|extra|additional",
    re.IGNORECASE,
)
"""How servers that check it complain about a field that they do not know."""
_ONLY_DEFAULT = re.compile(r"'(temperature|top_p)' (?:does not support|is not supported)", re.IGNORECASE)
"""How OpenAI's reasoning models refuse any value but their own."""


def request_body(
    model: str, messages: Sequence[ChatMessage], options: ChatOptions, without: frozenset[str] = frozenset()
) -> bytes:
    """The JSON of a streaming call.

    Args:
        model: What the server calls the model.
        messages: The conversation.
        options: How to sample.
        without: Optional fields that this server has refused; `max_tokens` is renamed, not left out.

    Raises:
        ValueError: If `options.extra` holds what JSON cannot.
    """
    body = {**options.extra, **_sampling(options), **_thinking(options), **_optional(options)}
    for name in without - {RENAMED}:
        body.pop(name, None)
    if RENAMED in without and RENAMED in body:
        body[_NEW_NAME] = body.pop(RENAMED)
    try:
        json.dumps(body, allow_nan=False)
    except TypeError as error:
        raise ValueError(str(error)) from error
    body |= {"model": model, "messages": [_message(message) for message in messages], "stream": True}
    return to_json(body)  # pictures make it long: this takes half the time of `json.dumps`


def can_do_without(body: bytes, complaint: str) -> frozenset[str]:
    """Which fields of a refused call may be left out without changing what the model writes.

    They are those that only ask to be told more, the old name of `max_tokens`, and a temperature or top-p of
    which the model has but one value. Those that the complaint names; where it is about fields and names none
    of them, all that only ask to be told more.

    Args:
        body: The call.
        complaint: What the server says.
    """
    fields = cast("dict[str, Any]", json.loads(body))
    sent = {name for name in _optional(ChatOptions(logprobs=True, token_ids=True)) if name in fields}
    named = {name for name in sent if name in complaint}
    if RENAMED in fields and _NEW_NAME in complaint:
        named.add(RENAMED)
    if fixed := _ONLY_DEFAULT.search(complaint):
        named |= {fixed[1]} & fields.keys()
    return frozenset(named or (sent if _ABOUT_FIELDS.search(complaint) else ()))


def _sampling(options: ChatOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        RENAMED: options.max_tokens,
        "seed": options.seed,
        "stop": list(options.stop) or None,
        "tools": list(options.tools) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


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


def _optional(options: ChatOptions) -> dict[str, Any]:
    """What only asks to be told more."""
    fields: dict[str, Any] = {"stream_options": {"include_usage": True}}
    if options.logprobs:
        fields["logprobs"] = True
    if options.token_ids:
        fields["return_token_ids"] = True
    return fields


def _message(message: ChatMessage) -> dict[str, Any]:
    """One text goes as a string, as the templates of some models want it."""
    match message.parts:
        case (ChatText(text),):
            return {"role": message.role, "content": text}
        case parts:
            return {"role": message.role, "content": [_part(part) for part in parts]}


def _part(part: Any) -> dict[str, Any]:  # noqa: ANN401 - narrowed below
    if isinstance(part, ChatText):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.url}}
