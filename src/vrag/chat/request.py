"""Requests to a model server: messages and options as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import to_json

from vrag.chat.messages import ChatMessage, ChatOptions, ChatText, ThinkingSwitch

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


def request_body(
    model: str, messages: Sequence[ChatMessage], options: ChatOptions, without: frozenset[str] = frozenset()
) -> bytes:
    """Encodes a streaming request without the optional fields that the server has refused.

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
    """Finds the fields of a refused request that can be left out without changing what the model writes.

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
    """The fields that only request more output."""
    fields: dict[str, Any] = {"stream_options": {"include_usage": True}}
    if options.logprobs:
        fields["logprobs"] = True
    if options.token_ids:
        fields["return_token_ids"] = True
    return fields


def _message(message: ChatMessage) -> dict[str, Any]:
    """A single text is sent as a string, which the templates of some models need."""
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
