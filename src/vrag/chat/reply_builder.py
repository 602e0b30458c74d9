"""A reply built from the chunks of a stream, none of which is trusted."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from vrag.chat.messages import ChatDelta, ChatReply, Sampled, Tokens, ToolCall, json_object

_CLOSING_TAG = re.compile(r"</(?!think>)[a-z_]{1,40}>\s{0,40}\Z")


class LineTooLong(Exception):
    """A line of the stream is longer than allowed."""


class MalformedChunk(Exception):
    """A chunk is not a JSON object."""


class ReplyTooLong(Exception):
    """The reply has more characters than allowed."""


class StreamedError(Exception):
    """An error of the server, as JSON, in place of a chunk."""

    def __init__(self, body: bytes) -> None:
        super().__init__("an error in the stream")
        self.body = body


class EventReader:
    """A reader of server-sent events with a limit for the length of a line in bytes.

    Lines end with LF or CRLF. Comments and fields other than `data` are ignored: this protocol does not use
    them. Every line of data counts as an event of its own, since a chat server sends JSON on one line, and
    some servers leave out the empty line between events.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        """The line that has not ended yet."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of the events that these bytes complete.

        Raises `LineTooLong` if a line is longer than the limit.
        """
        *pieces, rest = data.split(b"\n")
        events: list[bytes] = []
        for piece in pieces:
            self._extend(piece)
            events += self.finish()
        self._extend(rest)
        return events

    def finish(self) -> list[bytes]:
        """Return the data of an event that ends without a line end."""
        name, colon, value = bytes(self._line).rstrip(b"\r").partition(b":")
        self._line.clear()
        return [value.removeprefix(b" ")] if colon and name == b"data" and value.strip() else []

    def _extend(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._limit:
            raise LineTooLong
        self._line += piece


@dataclass(slots=True)
class _PartialToolCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ReplyBuilder:
    """A reply under construction.

    A value of an unexpected type counts as missing. Ids or log-probabilities of which one is unreadable are
    dropped as a whole: with a gap they would not match the text.
    """

    limit: int
    """Remaining characters, thoughts and tool calls included."""
    finish: str | None = None
    """Finish reason; None while the model writes."""
    started: bool = False
    """True if a piece of the reply has arrived."""
    recognized: bool = False
    """True if a chunk in the form of chat completions has arrived, with or without a piece of the reply."""
    _text: list[str] = field(default_factory=list[str])
    _thought: list[str] = field(default_factory=list[str])
    _calls: dict[int, _PartialToolCall] = field(default_factory=dict[int, _PartialToolCall])
    _ids: list[int] | None = field(default_factory=list[int])
    _logprobs: list[float] | None = field(default_factory=list[float])
    _prompt_ids: tuple[int, ...] = ()
    _usage: dict[str, Any] = field(default_factory=dict[str, Any])
    _model: str = ""
    _request: str = ""

    def add(self, data: bytes) -> list[ChatDelta]:
        """Add a chunk and return its deltas.

        Raises `MalformedChunk` if it is not a JSON object, `StreamedError` if it is an error of the server,
        and `ReplyTooLong` if the reply has more characters or tool calls than allowed.
        """
        try:
            parsed: object = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise MalformedChunk from error
        if not isinstance(parsed, dict):
            raise MalformedChunk
        chunk = json_object(cast("object", parsed))
        if chunk.get("error") or chunk.get("object") == "error":
            raise StreamedError(data)
        self._usage = json_object(chunk.get("usage")) or self._usage
        self._model = _name(chunk.get("model")) or self._model
        self._request = _name(chunk.get("id")) or self._request
        self._prompt_ids = tuple(_ids(chunk.get("prompt_token_ids")) or ()) or self._prompt_ids
        self.recognized = self.recognized or isinstance(chunk.get("choices"), list)
        # The choice with number 0, or without one; there is none in a chunk of usage.
        choices = _objects(chunk.get("choices"))
        choice = next((choice for choice in choices if not choice.get("index")), dict[str, Any]())
        if (given := choice.get("token_ids")) is not None and self._ids is not None:
            ids = _ids(given)
            self._ids = None if ids is None else self._ids + ids
        content = json_object(choice.get("logprobs")).get("content")
        if content is not None and self._logprobs is not None:
            logprobs = _logprobs(content)
            self._logprobs = None if logprobs is None else self._logprobs + logprobs
        deltas = self._add_delta(json_object(choice.get("delta")) or json_object(choice.get("message")))
        self.finish = _name(choice.get("finish_reason")) or self.finish
        return deltas

    @property
    def closed(self) -> bool:
        """True if it ends as a complete reply: a closing tag, or a tool call or text of complete JSON.

        A closed thought is not a complete reply.
        """
        if self._calls:
            return _is_json_object(self._calls[max(self._calls)].arguments)
        if _CLOSING_TAG.search("".join(self._text[-64:])):  # the tag may be split over deltas
            return True
        return _is_json_object("".join(self._text))

    def reply(self) -> ChatReply:
        """Return the reply, as far as it has arrived."""
        ids, logprobs = tuple(self._ids or ()), tuple(self._logprobs or ())
        details = json_object(self._usage.get("prompt_tokens_details"))
        return ChatReply(
            text="".join(self._text),
            thought="".join(self._thought),
            tool_calls=tuple(
                ToolCall(call.id, call.name, call.arguments) for _, call in sorted(self._calls.items())
            ),
            finish=self.finish or "",
            tokens=Tokens(
                prompt=_count(self._usage.get("prompt_tokens")),
                completion=_count(self._usage.get("completion_tokens")),
                cached=_count(details.get("cached_tokens")),
            ),
            sampled=Sampled(
                prompt_ids=self._prompt_ids,
                ids=ids,
                logprobs=() if ids and len(ids) != len(logprobs) else logprobs,
            ),
            model=self._model,
            request=self._request,
        )

    def _add_delta(self, delta: dict[str, Any]) -> list[ChatDelta]:
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        text = _text(delta.get("content"))
        arguments = sum(self._add_tool_call(piece) for piece in _objects(delta.get("tool_calls")))
        self._thought.append(thought)
        self._text.append(text)
        self.limit -= len(thought) + len(text) + arguments
        if self.limit < 0:
            raise ReplyTooLong
        self.started = self.started or bool(thought or text or self._calls)
        return [delta for delta in (ChatDelta(thought, thought=True), ChatDelta(text)) if delta.text]

    def _add_tool_call(self, piece: dict[str, Any]) -> int:
        """Add a piece of a tool call and return its length in characters.

        It belongs to the call of its index, else to a new one if it has an id, else to the last one.
        """
        function = json_object(piece.get("function"))
        last = max(self._calls, default=-1)
        index = _count(piece.get("index"))
        if index is None:
            index = last + 1 if _name(piece.get("id")) or last < 0 else last
        call = self._calls.setdefault(index, _PartialToolCall())
        if len(self._calls) > 64:  # of one reply: a model that repeats itself
            raise ReplyTooLong
        call.id = call.id or _name(piece.get("id"))
        call.name = call.name or _name(function.get("name"))
        arguments = function.get("arguments")
        written = json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)
        call.arguments += written
        return len(written) + 1


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in map(json_object, _list(value)) if entry]


def _text(value: object) -> str:
    """Return a string, or the texts of a list of parts, without halves of surrogate pairs."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _objects(cast("object", value)))
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    name = _text(value)[:200] if isinstance(value, str) else ""  # names and ids are much shorter
    return "".join(filter(str.isprintable, name))


def _count(value: object) -> int | None:
    # No count of tokens, no id of one and no index comes near 2**31.
    return value if type(value) is int and 0 <= value < 2**31 else None


def _ids(value: object) -> list[int] | None:
    counts = [_count(entry) for entry in _list(value)]
    ids = [count for count in counts if count is not None]
    return ids if isinstance(value, list) and len(ids) == len(counts) else None


def _logprobs(value: object) -> list[float] | None:
    """Read log-probabilities; None if one of them cannot be one. vLLM writes -9999 for minus infinity."""
    values: list[object] = [json_object(entry).get("logprob") for entry in _list(value)]
    valid = [float(number) for number in values if isinstance(number, int | float) and -1e9 < number <= 0]
    return valid if isinstance(value, list) and len(valid) == len(values) else None
