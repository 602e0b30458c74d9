"""A reply as it comes together from the chunks of a stream, none of which is trusted."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from vrag.chat.messages import ChatDelta, ChatReply, ToolCall

__all__ = ["MalformedChunk", "ReplyBuilder", "ReplyTooLong", "StreamedError"]

_MAX_CALLS = 64
"""Tool calls that a reply may hold."""
_MAX_TOKENS = 2**31
"""Beyond this a count or an id is no count and no id."""
_TAIL_CHUNKS = 64
"""Chunks at the end of a reply in which its last tag is looked for."""
_CLOSING_TAG = re.compile(r"</(?!think>)[a-z_]{1,40}>\s{0,40}\Z")
_NAME = 200
"""Characters of a name that a server or model gives."""


class MalformedChunk(Exception):
    """A chunk is no JSON object."""


class ReplyTooLong(Exception):
    """The reply has more characters than allowed."""


class StreamedError(Exception):
    """The server sends an error in place of a chunk.

    Args:
        body: What it sends.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__("an error in the stream")
        self.body = body


@dataclass(slots=True)
class _PartialToolCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ReplyBuilder:
    """Takes chunks and becomes a reply.

    What has an unexpected type counts as missing. Ids or log-probabilities of which one cannot be
    read are given up as a whole: with a gap they would not belong to the text.
    """

    limit: int
    """Characters that the reply may have, thoughts and tool calls included."""
    finish: str | None = None
    """Why the model stopped; None while it writes."""
    spoken: bool = False
    """Whether anything of the reply has come."""
    begun: bool = False
    """Whether a chunk of the form has come, with or without a piece of the reply."""
    _text: list[str] = field(default_factory=list[str])
    _thought: list[str] = field(default_factory=list[str])
    _calls: dict[int, _PartialToolCall] = field(default_factory=dict[int, _PartialToolCall])
    _ids: list[int] | None = field(default_factory=list[int])
    _logprobs: list[float] | None = field(default_factory=list[float])
    _prompt_ids: tuple[int, ...] = ()
    _usage: dict[str, Any] = field(default_factory=dict[str, Any])
    _model: str = ""
    _request: str = ""

    def take(self, data: bytes) -> list[ChatDelta]:
        """What a chunk adds.

        Raises:
            MalformedChunk: If it is no JSON object.
            StreamedError: If it is an error.
            ReplyTooLong: If the reply has become longer than allowed.
        """
        chunk = _parsed(data)
        if chunk.get("error") or chunk.get("object") == "error":
            raise StreamedError(data)
        self._usage = _object(chunk.get("usage")) or self._usage
        self._model = _name(chunk.get("model")) or self._model
        self._request = _name(chunk.get("id")) or self._request
        self._prompt_ids = tuple(_ids(chunk.get("prompt_token_ids")) or ()) or self._prompt_ids
        self.begun = self.begun or isinstance(chunk.get("choices"), list)
        choice = _first_choice(chunk)
        self._sampled(choice)
        deltas = self._deltas(_object(choice.get("delta")) or _object(choice.get("message")))
        self.finish = _name(choice.get("finish_reason")) or self.finish
        return deltas

    @property
    def closed(self) -> bool:
        """Whether it ends as a whole reply does: with a closing tag, or as a tool call or text of whole JSON.

        A thought that is closed is no whole reply.
        """
        if self._calls:
            return _is_object(self._calls[max(self._calls)].arguments)
        if _CLOSING_TAG.search("".join(self._text[-_TAIL_CHUNKS:])):
            return True
        return _is_object("".join(self._text))

    def reply(self) -> ChatReply:
        """The whole, as far as it has come."""
        ids, logprobs = tuple(self._ids or ()), tuple(self._logprobs or ())
        details = _object(self._usage.get("prompt_tokens_details"))
        return ChatReply(
            text="".join(self._text),
            thought="".join(self._thought),
            tool_calls=tuple(
                ToolCall(call.id, call.name, call.arguments) for _, call in sorted(self._calls.items())
            ),
            finish=self.finish or "",
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            completion_tokens=_count(self._usage.get("completion_tokens")),
            cached_tokens=_count(details.get("cached_tokens")),
            prompt_ids=self._prompt_ids,
            ids=ids,
            logprobs=() if ids and len(ids) != len(logprobs) else logprobs,
            model=self._model,
            request=self._request,
        )

    def _deltas(self, delta: dict[str, Any]) -> list[ChatDelta]:
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        text = _text(delta.get("content"))
        arguments = sum(self._call(piece) for piece in _objects(delta.get("tool_calls")))
        self._thought.append(thought)
        self._text.append(text)
        self.limit -= len(thought) + len(text) + arguments
        if self.limit < 0:
            raise ReplyTooLong
        self.spoken = self.spoken or bool(thought or text or self._calls)
        return [delta for delta in (ChatDelta(thought, thought=True), ChatDelta(text)) if delta.text]

    def _call(self, piece: dict[str, Any]) -> int:
        """Adds a piece of a tool call; returns its characters."""
        function = _object(piece.get("function"))
        call = self._calls.setdefault(self._place(piece), _PartialToolCall())
        if len(self._calls) > _MAX_CALLS:
            raise ReplyTooLong
        call.id = call.id or _name(piece.get("id"))
        call.name = call.name or _name(function.get("name"))
        arguments = function.get("arguments")
        written = json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)
        call.arguments += written
        return len(written) + 1

    def _place(self, piece: dict[str, Any]) -> int:
        """Which call the piece belongs to: by number, else a new one where it has an id, else the last."""
        index = _count(piece.get("index"))
        last = max(self._calls, default=-1)
        if index is not None:
            return index
        return last + 1 if _name(piece.get("id")) or last < 0 else last

    def _sampled(self, choice: dict[str, Any]) -> None:
        if (given := choice.get("token_ids")) is not None and self._ids is not None:
            ids = _ids(given)
            self._ids = None if ids is None else self._ids + ids
        content = _object(choice.get("logprobs")).get("content")
        if content is not None and self._logprobs is not None:
            logprobs = _logprobs(content)
            self._logprobs = None if logprobs is None else self._logprobs + logprobs


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        chunk: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedChunk from error
    if not isinstance(chunk, dict):
        raise MalformedChunk
    return cast("dict[str, Any]", chunk)


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """That with number 0, or without one; there may be none, as in a chunk of usage."""
    choices = _objects(chunk.get("choices"))
    return next((choice for choice in choices if not choice.get("index")), dict[str, Any]())


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in map(_object, _list(value)) if entry]


def _text(value: object) -> str:
    """A string, or the texts of a list of parts; half a surrogate pair is no text."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _objects(cast("object", value)))
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    return "".join(filter(str.isprintable, _text(value)[:_NAME])) if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MAX_TOKENS else None


def _ids(value: object) -> list[int] | None:
    counts = [_count(entry) for entry in _list(value)]
    ids = [count for count in counts if count is not None]
    return ids if isinstance(value, list) and len(ids) == len(counts) else None


def _logprobs(value: object) -> list[float] | None:
    """None where one of them is no logarithm of a probability; vLLM writes -9999 for minus infinity."""
    found: list[object] = [_object(entry).get("logprob") for entry in _list(value)]
    known = [float(one) for one in found if isinstance(one, int | float) and -1e9 < one <= 0]
    return known if isinstance(value, list) and len(known) == len(found) else None
