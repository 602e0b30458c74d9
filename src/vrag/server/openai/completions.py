"""Answers as chat completions: whole, or as a stream of chunks.

They have the form that OpenAI's clients expect. Our own fields are `vrag` and `reasoning_content` of a
message or delta, `vrag` of usage.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from vrag.server.http.errors import FrozenModel, Refusal
from vrag.server.openai.answers import FinishedAnswer, PieceStream, StreamedPiece
from vrag.server.openai.errors import ErrorBody, error_body
from vrag.server.openai.reply import Annotation, CompletionUsage, VragPart
from vrag.server.runs.sse import BEAT

Finish = Literal["stop", "length", "tool_calls"]


class CalledFunction(FrozenModel):
    """A function of the client, and its arguments as JSON."""

    name: str
    arguments: str


class FunctionToolCall(FrozenModel):
    """An answer in the arguments of a function that the request demands."""

    index: Literal[0] = 0
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class CompletionMessage(FrozenModel):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = Field(default=None, description="Why there is no answer in the form asked for.")
    tool_calls: tuple[FunctionToolCall, ...] | None = None
    annotations: tuple[Annotation, ...]
    reasoning_content: str = Field(description="Thoughts and steps, as in a stream.")
    vrag: VragPart | None = Field(description="Null for a side question of a chat program, such as a title.")


class CompletionChoice(FrozenModel):
    """The one answer."""

    index: Literal[0] = 0
    message: CompletionMessage
    logprobs: None = None
    finish_reason: Finish


class Completion(FrozenModel):
    """A complete response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description="The name in the request.")
    choices: tuple[CompletionChoice]
    usage: CompletionUsage


class ChunkDelta(FrozenModel):
    """The content of a chunk. Only fields that were set are sent."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    reasoning_content: str = ""
    refusal: str = ""
    tool_calls: tuple[FunctionToolCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    vrag: VragPart | None = None

    @model_serializer(mode="wrap")
    def _only_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class ChunkChoice(FrozenModel):
    """A piece of the one answer."""

    index: Literal[0] = 0
    delta: ChunkDelta
    logprobs: None = None
    finish_reason: Finish | None = None


class Chunk(FrozenModel):
    """A piece of a response."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | None = None


@dataclass(frozen=True, slots=True)
class CompletionWriter:
    """Writes an answer as a chat completion."""

    id: str
    """The id of the run, or another one."""
    model: str
    """The name in the request."""
    created: int
    """Seconds since 1970."""
    with_usage: bool
    """True if a stream ends with the usage."""

    def write(self, answer: FinishedAnswer, thoughts: str) -> Completion:
        """Return the whole completion."""
        message = CompletionMessage(
            content=answer.text or None if answer.function or answer.refusal else answer.text,
            refusal=answer.refusal or None,
            tool_calls=self._tool_calls(answer) or None,
            annotations=answer.annotations,
            reasoning_content=thoughts,
            vrag=answer.vrag,
        )
        return Completion(
            id=f"chatcmpl-{self.id}",
            created=self.created,
            model=self.model,
            choices=(CompletionChoice(message=message, finish_reason=_finish_reason(answer)),),
            usage=answer.usage,
        )

    async def frames(self, pieces: PieceStream) -> AsyncGenerator[bytes, None]:
        """Yield the chunks: thoughts, steps and answer as they come, then its evidence and the usage."""
        try:
            async with aclosing(pieces):
                yield self._delta(role="assistant", content="")
                async for piece in pieces:
                    match piece:
                        case None:
                            yield BEAT
                        case StreamedPiece(thought, content):
                            fields = {"reasoning_content": thought, "content": content}
                            set_fields = {name: text for name, text in fields.items() if text}
                            yield self._delta(None, **set_fields)
                        case FinishedAnswer():
                            for frame in self._last_frames(piece):
                                yield frame
        except Refusal as refusal:
            yield _frame(error_body(refusal.status, str(refusal)))
        yield b"data: [DONE]\n\n"

    def _last_frames(self, answer: FinishedAnswer) -> list[bytes]:
        frames = [self._delta(content=text) for text in answer.pieces]
        if answer.refusal:
            frames.append(self._delta(refusal=answer.refusal))
        elif answer.function:
            frames.append(self._delta(tool_calls=self._tool_calls(answer)))
        frames.append(self._delta(_finish_reason(answer), annotations=answer.annotations, vrag=answer.vrag))
        if self.with_usage:
            frames.append(_frame(self._chunk().model_copy(update={"usage": answer.usage})))
        return frames

    def _tool_calls(self, answer: FinishedAnswer) -> tuple[FunctionToolCall, ...]:
        if not answer.function or answer.refusal:
            return ()
        called = CalledFunction(name=answer.function, arguments=answer.arguments)
        return (FunctionToolCall(id=f"call_{self.id}", function=called),)

    def _delta(self, finish: Finish | None = None, **fields: Any) -> bytes:  # noqa: ANN401 - of `ChunkDelta`
        return _frame(self._chunk(ChunkChoice(delta=ChunkDelta(**fields), finish_reason=finish)))

    def _chunk(self, *choices: ChunkChoice) -> Chunk:
        return Chunk(id=f"chatcmpl-{self.id}", created=self.created, model=self.model, choices=choices)


def _finish_reason(answer: FinishedAnswer) -> Finish:
    if answer.function and not answer.refusal:
        return "tool_calls"
    return "length" if answer.is_cut else "stop"


def _frame(content: Chunk | ErrorBody) -> bytes:
    return f"data: {content.model_dump_json()}\n\n".encode()
