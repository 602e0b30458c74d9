"""Responses of the door for OpenAI's clients, in the shapes that their types expect.

Fields of ours stand beside theirs: `vrag` and `reasoning_content` of a message or delta, `vrag` of usage.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from vrag.agent.events import StopReason
from vrag.agent.evidence import Evidence

__all__ = [
    "Annotation",
    "AnswerSource",
    "Chunk",
    "ChunkChoice",
    "ChunkDelta",
    "Completion",
    "CompletionChoice",
    "CompletionMessage",
    "CompletionUsage",
    "ErrorBody",
    "ErrorDetail",
    "ModelCard",
    "ModelCards",
    "UrlCitation",
    "VragPart",
    "VragUsage",
]

Finish = Literal["stop", "length"]


class _FrozenResponse(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelCard(_FrozenResponse):
    """A model that may be named in a request: an agent, alone or with what writes its replies."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When the server was started, in seconds since 1970.")
    owned_by: Literal["vrag"] = "vrag"


class ModelCards(_FrozenResponse):
    """All of them."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]


class UrlCitation(_FrozenResponse):
    """A marker in the text, and what it cites."""

    start_index: int = Field(description="Where the marker begins in the content, in characters.")
    end_index: int = Field(description="Where it ends.")
    title: str = Field(description="Document and page, or stretch of a video.")
    url: str = Field(description="The run on this server's page.")


class Annotation(_FrozenResponse):
    """A citation, as OpenAI's clients know them."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class AnswerSource(Evidence):
    """A place on which the answer rests."""

    number: int = Field(description="Of its marker in the content, from 1.")
    url: str = Field(description="The run on this server's page.")


class VragPart(_FrozenResponse):
    """What OpenAI's shapes have no place for."""

    run_id: str = Field(description="Of the run: GET /runs/{id} has all of it.")
    stop_reason: StopReason
    evidence: tuple[AnswerSource, ...] = Field(
        description="What the answer rests on; of an abstention, where the agent looked."
    )
    looked_at: tuple[AnswerSource, ...] = Field(
        default=(), description="What was looked at besides. Numbered on; without markers."
    )


class CompletionMessage(_FrozenResponse):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: tuple[Annotation, ...]
    reasoning_content: str = Field(description="Thoughts and steps, as a stream has them.")
    vrag: VragPart


class VragUsage(_FrozenResponse):
    """What a run took beside tokens."""

    visual_tokens: int = Field(description="Of all pictures that the model was shown.")
    steps: int = Field(description="Model calls.")
    seconds: float
    cost: float | None = Field(description="In the currency of the prices; null where they are unknown.")


class CompletionUsage(_FrozenResponse):
    """Tokens of all model calls of the run; 0 where the model does not tell them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    vrag: VragUsage


class CompletionChoice(_FrozenResponse):
    """The one answer."""

    index: Literal[0] = 0
    message: CompletionMessage
    logprobs: None = None
    finish_reason: Finish


class Completion(_FrozenResponse):
    """A whole response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description="As it was asked for.")
    choices: tuple[CompletionChoice]
    usage: CompletionUsage


class ChunkDelta(_FrozenResponse):
    """What a chunk adds. Of the fields those are sent that were set."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    reasoning_content: str = ""
    annotations: tuple[Annotation, ...] = ()
    vrag: VragPart | None = None

    @model_serializer(mode="wrap")
    def _what_was_set(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class ChunkChoice(_FrozenResponse):
    """The one answer, a piece of it."""

    index: Literal[0] = 0
    delta: ChunkDelta
    logprobs: None = None
    finish_reason: Finish | None = None


class Chunk(_FrozenResponse):
    """A piece of a response."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | None = None


class ErrorDetail(_FrozenResponse):
    """What is wrong."""

    message: str = Field(description="In a sentence or two: what is wrong, and what to do.")
    type: str
    param: str | None = Field(default=None, description="The field that it concerns.")
    code: str | None = None


class ErrorBody(_FrozenResponse):
    """An error, as OpenAI's clients know them."""

    error: ErrorDetail
