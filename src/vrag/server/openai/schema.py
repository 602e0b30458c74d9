"""Responses of the OpenAI interface, in the form that its clients expect.

Our own fields are `vrag` and `reasoning_content` of a message or delta, `vrag` of usage.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from vrag.agent.events import StopReason
from vrag.agent.evidence import Evidence

Finish = Literal["stop", "length"]


class _FrozenResponse(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelCard(_FrozenResponse):
    """A model that a request may name: an agent, alone or with the model that writes its replies."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When the server was started, in seconds since 1970.")
    owned_by: Literal["vrag"] = "vrag"


class ModelCards(_FrozenResponse):
    """All models."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]


class UrlCitation(_FrozenResponse):
    """A marker in the text, and its source."""

    start_index: int = Field(description="Start of the marker in the content, in characters.")
    end_index: int = Field(description="Its end.")
    title: str = Field(description="Document and page, or time span of a video.")
    url: str = Field(description="The run on this server's page.")


class Annotation(_FrozenResponse):
    """A citation in OpenAI's form."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class AnswerSource(Evidence):
    """A piece of evidence of the answer."""

    number: int = Field(description="Number of its marker in the content, from 1.")
    url: str = Field(description="The run on this server's page.")


class VragPart(_FrozenResponse):
    """Fields that OpenAI's form has no place for."""

    run_id: str = Field(description="Id of the run: GET /runs/{id} has its details.")
    stop_reason: StopReason
    evidence: tuple[AnswerSource, ...] = Field(
        description="Evidence of the answer; of an abstention, where the agent looked."
    )
    looked_at: tuple[AnswerSource, ...] = Field(
        default=(), description="What else was looked at, with further numbers and without markers."
    )


class CompletionMessage(_FrozenResponse):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: tuple[Annotation, ...]
    reasoning_content: str = Field(description="Thoughts and steps, as in a stream.")
    vrag: VragPart


class VragUsage(_FrozenResponse):
    """The cost of a run besides tokens."""

    visual_tokens: int = Field(description="Visual tokens of all pictures shown to the model.")
    steps: int = Field(description="Model calls.")
    seconds: float
    cost: float | None = Field(description="In the currency of the prices; null where they are unknown.")


class CompletionUsage(_FrozenResponse):
    """Tokens of all model calls of the run; 0 if the model does not report them."""

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
    """A complete response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description="The name in the request.")
    choices: tuple[CompletionChoice]
    usage: CompletionUsage


class ChunkDelta(_FrozenResponse):
    """The content of a chunk. Only fields that were set are sent."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    reasoning_content: str = ""
    annotations: tuple[Annotation, ...] = ()
    vrag: VragPart | None = None

    @model_serializer(mode="wrap")
    def _only_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class ChunkChoice(_FrozenResponse):
    """A piece of the one answer."""

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
    """The details of an error."""

    message: str = Field(description="One or two sentences: what is wrong, and what to do.")
    type: str
    param: str | None = Field(default=None, description="The field that is wrong.")
    code: str | None = None


class ErrorBody(_FrozenResponse):
    """An error in OpenAI's form."""

    error: ErrorDetail
