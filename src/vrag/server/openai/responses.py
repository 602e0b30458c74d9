"""Answers as OpenAI's responses: whole, or as a stream of events.

The items of the output are those of OpenAI: `reasoning` with the thoughts and steps, and then a `message`
with the answer, or a `function_call` whose arguments are the answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fastapi.sse import format_sse_event
from pydantic import Field
from pydantic_core import to_json

from vrag.server.http.errors import FrozenModel, Refusal
from vrag.server.openai.answers import FinishedAnswer, PieceStream, StreamedPiece
from vrag.server.openai.errors import error_body
from vrag.server.openai.reply import VragPart, VragUsage
from vrag.server.runs.sse import BEAT

Json = dict[str, Any]


class ResponseUsage(FrozenModel):
    """Tokens of all model calls of the run; 0 if the model does not report them."""

    input_tokens: int
    input_tokens_details: dict[str, int] = Field(default={"cached_tokens": 0})
    output_tokens: int
    output_tokens_details: dict[str, int] = Field(default={"reasoning_tokens": 0})
    total_tokens: int
    vrag: VragUsage


class ResponseObject(FrozenModel):
    """A response."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
    error: None = None
    incomplete_details: dict[str, str] | None = Field(
        default=None, description="Set if a limit ended the run."
    )
    model: str = Field(description="The name in the request.")
    output: tuple[Json, ...] = Field(
        default=(), description="Items of the types `reasoning`, `message` and `function_call`."
    )
    parallel_tool_calls: bool = False
    previous_response_id: str | None = None
    tool_choice: Literal["auto"] = "auto"
    tools: tuple[()] = ()
    usage: ResponseUsage | None = None
    vrag: VragPart | None = Field(
        default=None, description="As in chat completions; null for a side question of a chat program."
    )


class _TextKind(NamedTuple):
    """The names in items and events of a kind of text."""

    item: str
    prefix: str
    """Begins the id of its item."""
    parts: str
    """The field of the item that has the text, in a part; empty if the item itself has it."""
    part: str
    """The type of the part, and the name of the events with pieces of the text."""
    field: str
    """The field that has the text."""

    @property
    def part_event(self) -> str:
        return "reasoning_summary_part" if self.parts == "summary" else "content_part"

    @property
    def text_event(self) -> str:
        return "reasoning_summary_text" if self.parts == "summary" else self.part


_THOUGHTS = _TextKind("reasoning", "rs", "summary", "summary_text", "text")
_ANSWER = _TextKind("message", "msg", "content", "output_text", "text")
_REFUSAL = _TextKind("message", "msg", "content", "refusal", "refusal")
_ARGUMENTS = _TextKind("function_call", "fc", "", "function_call_arguments", "arguments")


def _kind_of(answer: FinishedAnswer) -> _TextKind:
    if answer.refusal:
        return _REFUSAL
    return _ARGUMENTS if answer.function else _ANSWER


@dataclass(frozen=True, slots=True)
class ResponseWriter:
    """Writes an answer as a response."""

    id: str
    """The id of the run, or another one."""
    model: str
    """The name in the request."""
    created: int
    """Seconds since 1970."""
    previous: str | None
    """The response that it follows."""

    def write(self, answer: FinishedAnswer, thoughts: str) -> ResponseObject:
        """Return the whole response."""
        stream = _EventStream(self)
        for _ in stream.add(StreamedPiece(thoughts, "")):
            pass
        for _ in stream.finish(answer):
            pass
        return self.response(answer, stream.output)

    async def frames(self, pieces: PieceStream) -> AsyncGenerator[bytes, None]:
        """Yield the events: thoughts and steps until the answer begins, then the answer."""
        stream = _EventStream(self)
        yield stream.event("response.created", response=self.response())
        yield stream.event("response.in_progress", response=self.response())
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    match piece:
                        case None:
                            yield BEAT
                        case StreamedPiece():
                            yield b"".join(stream.add(piece))
                        case FinishedAnswer():
                            yield b"".join(stream.finish(piece))
        except Refusal as refusal:
            error = error_body(refusal.status, str(refusal)).error
            yield stream.event("error", error=error, message=error.message, code=error.code, param=None)

    def response(
        self, answer: FinishedAnswer | None = None, output: list[Json] | None = None
    ) -> ResponseObject:
        """Return the response; without an answer, as it begins."""
        common = ResponseObject(
            id=f"resp_{self.id}",
            created_at=self.created,
            model=self.model,
            previous_response_id=self.previous,
        )
        if answer is None:
            return common
        usage = ResponseUsage(
            input_tokens=answer.usage.prompt_tokens,
            output_tokens=answer.usage.completion_tokens,
            total_tokens=answer.usage.total_tokens,
            vrag=answer.usage.vrag,
        )
        ended: Json = {
            "status": "completed",
            "output": tuple(output or ()),
            "usage": usage,
            "vrag": answer.vrag,
        }
        if answer.is_cut:
            ended |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return common.model_copy(update=ended)


@dataclass(slots=True)
class _EventStream:
    """The events of a response, numbered, with the item that is being sent."""

    writer: ResponseWriter
    output: list[Json] = field(default_factory=list[Json])
    """The items that were sent."""
    _number: int = 0
    _kind: _TextKind | None = None
    """The kind of text that is being sent."""
    _text: str = ""
    """What was sent of it."""

    def event(self, type: str, **fields: Any) -> bytes:  # noqa: ANN401 - JSON
        """Return an event."""
        data = {"type": type, "sequence_number": self._number, **fields}
        self._number += 1
        return format_sse_event(event=type, data_str=to_json(data).decode())

    def add(self, piece: StreamedPiece) -> Iterator[bytes]:
        """Yield the events of a piece; thoughts that come after the answer has begun are left out."""
        if piece.thought and self._kind is not _ANSWER:
            yield from self._send(_THOUGHTS, piece.thought)
        if piece.content:
            yield from self._send(_ANSWER, piece.content)

    def finish(self, answer: FinishedAnswer) -> Iterator[bytes]:
        """Yield the events that are left, and the whole response."""
        kind = _kind_of(answer)
        for text in answer.pieces or (answer.arguments or answer.refusal,):
            yield from self._send(kind, text, answer.function)
        citations = [{"type": each.type, **dict(each.url_citation)} for each in answer.annotations]
        for number, citation in enumerate(citations):
            yield self._text_event(
                "output_text.annotation.added", annotation_index=number, annotation=citation
            )
        yield from self._end(citations, answer.function)
        response = self.writer.response(answer, self.output)
        yield self.event(f"response.{response.status}", response=response)

    def _send(self, kind: _TextKind, text: str, function: str = "") -> Iterator[bytes]:
        """Yield the events that add to the text of an item, and those that begin it."""
        if self._kind is not kind:
            yield from self._end()
            self._kind, self._text = kind, ""
            item = self._item(kind, [], function, "in_progress")
            yield self.event("response.output_item.added", output_index=len(self.output), item=item)
            if kind.parts:
                yield self._text_event(f"{kind.part_event}.added", part=self._part(kind, []))
        self._text += text
        yield self._text_event(f"{kind.text_event}.delta", delta=text)

    def _end(self, citations: list[Json] | None = None, function: str = "") -> Iterator[bytes]:
        """Yield the events that end the item that is being sent."""
        if (kind := self._kind) is None:
            return
        part = self._part(kind, citations or [])
        yield self._text_event(f"{kind.text_event}.done", **{kind.field: self._text})
        if kind.parts:
            yield self._text_event(f"{kind.part_event}.done", part=part)
        item = self._item(kind, [part], function, "completed")
        yield self.event("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)
        self._kind = None

    def _part(self, kind: _TextKind, citations: list[Json]) -> Json:
        more = {"annotations": citations, "logprobs": []} if kind is _ANSWER else {}
        return {"type": kind.part, kind.field: self._text, **more}

    def _item(self, kind: _TextKind, parts: list[Json], function: str, status: str) -> Json:
        common = {"type": kind.item, "id": f"{kind.prefix}_{self.writer.id}"}
        if kind is _ARGUMENTS:
            called = {"call_id": f"call_{self.writer.id}", "name": function, "arguments": self._text}
            return {**common, **called, "status": status}
        role = {} if kind is _THOUGHTS else {"role": "assistant", "status": status}
        return {**common, **role, kind.parts: parts}

    def _text_event(self, type: str, **fields: Any) -> bytes:  # noqa: ANN401 - JSON
        """Return an event about the text that is being sent."""
        assert self._kind is not None
        place = {f"{self._kind.parts}_index": 0} if self._kind.parts else {}
        logprobs: Json = {"logprobs": []} if type in {"output_text.delta", "output_text.done"} else {}
        id = f"{self._kind.prefix}_{self.writer.id}"
        common = {"item_id": id, "output_index": len(self.output), **place, **logprobs}
        return self.event(f"response.{type}", **common, **fields)
