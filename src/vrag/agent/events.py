"""What an agent says while it works, one frozen class per event.

Events are the only output of an agent. The command line, the web page, run files and training
rows are folds of them. They are versioned JSON, discriminated on `type`. Where the AG-UI protocol
has an event of the same meaning its name is given.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from vrag.agent.environment import EnvironmentOptions
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.policy import FinishReason
from vrag.types import Hit

__all__ = [
    "SCHEMA_VERSION",
    "AnswerGiven",
    "CropRequested",
    "Event",
    "EventBase",
    "ImageShown",
    "InvalidAction",
    "ModelCalled",
    "PassageShown",
    "RunFailed",
    "RunSettings",
    "RunStarted",
    "SearchRequested",
    "SearchReturned",
    "StopReason",
    "ThoughtDelta",
    "ThoughtGiven",
    "UsageReported",
    "event_from_json",
]

SCHEMA_VERSION = 1
"""Raised when an old reader could misunderstand a new file."""


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    """The agent gave an answer."""
    ABSTAINED = "abstained"
    """The agent said that the documents do not hold an answer."""
    OUT_OF_STEPS = "out_of_steps"
    """The step limit was reached without an answer."""
    OUT_OF_TOKENS = "out_of_tokens"
    """The model's context or the token limit was exhausted."""
    OUT_OF_BUDGET = "out_of_budget"
    """The run's budget was spent."""
    CANCELLED = "cancelled"
    """Somebody stopped it."""
    MODEL_ERROR = "model_error"
    """The model failed or could not be reached."""
    SEARCH_ERROR = "search_error"
    """The search or the collection failed."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunSettings(_Frozen):
    """All that a replay needs to know beside the replies."""

    agent: str
    policy: str
    profile: str
    max_steps: int = Field(ge=1)
    environment: EnvironmentOptions = Field(default_factory=EnvironmentOptions)


class EventBase(_Frozen):
    """What every event carries."""

    run_id: str
    seq: int = Field(ge=0)
    """Position in the run, from 0, without gaps."""
    ts: float
    """Seconds since 1970, UTC."""
    step: int = Field(ge=0)
    """Number of the model call it belongs to, from 1; 0 before the first."""


class RunStarted(EventBase):
    """A question was taken up (AG-UI: RUN_STARTED)."""

    type: Literal["run_started"] = "run_started"
    schema_version: int = SCHEMA_VERSION
    question: str
    settings: RunSettings
    collection: str
    """Version of the collection's content; a replay needs the same."""


class ThoughtDelta(EventBase):
    """A piece of a thought as it is written (AG-UI: THINKING_TEXT_MESSAGE_CONTENT)."""

    type: Literal["thought_delta"] = "thought_delta"
    text: str


class ThoughtGiven(EventBase):
    """A whole thought."""

    type: Literal["thought"] = "thought"
    text: str


class ModelCalled(EventBase):
    """A reply was received. Training rows and replays are made of this event alone."""

    type: Literal["model_called"] = "model_called"
    messages: tuple[str, ...]
    """SHA-256 of each message's JSON, in order; the files lie with the run."""
    reply: str
    """As it came, nothing dropped."""
    executed: int = Field(ge=0)
    """Characters of the reply up to the end of the action that ran."""
    chunks: tuple[int, ...]
    """Lengths of the pieces the reply came in, in characters."""
    finish: FinishReason
    flags: tuple[str, ...] = ()
    """Faults of the reply that did not keep its action from running."""


class SearchRequested(EventBase):
    """The agent searches (AG-UI: TOOL_CALL_START)."""

    type: Literal["search_requested"] = "search_requested"
    query: str


class SearchReturned(EventBase):
    """A search came back (AG-UI: TOOL_CALL_RESULT)."""

    type: Literal["search_returned"] = "search_returned"
    hits: tuple[Hit, ...]
    damaged: tuple[str, ...] = ()
    """Why items were found and could not be opened; the next best were shown instead."""


class ImageShown(EventBase):
    """The model was shown a picture."""

    type: Literal["image_shown"] = "image_shown"
    number: int
    """In the order shown, from 1, crops included."""
    item: str
    document: str
    page: int
    region: BoxSides
    """The part shown, in item pixels."""
    box: BoxSides
    """The same as fractions of the page, 0 to 1."""
    width: int
    """Of the picture shown, in pixels."""
    height: int
    visual_tokens: int
    sha256: str
    crop: bool


class PassageShown(EventBase):
    """The model was shown a passage of text."""

    type: Literal["passage_shown"] = "passage_shown"
    item: str
    document: str
    page: int


class CropRequested(EventBase):
    """The agent looks closer (AG-UI: TOOL_CALL_START)."""

    type: Literal["crop_requested"] = "crop_requested"
    image: int | None
    """Number of the picture; None for the last one."""
    box: BoxSides
    """As the model wrote it, in the coordinate space of its profile."""


class InvalidAction(EventBase):
    """A reply was not carried out; the run goes on."""

    type: Literal["invalid_action"] = "invalid_action"
    reason: str


class UsageReported(EventBase):
    """What a step cost."""

    type: Literal["usage"] = "usage"
    prompt_tokens: int | None
    completion_tokens: int | None
    visual_tokens: int
    """Of the pictures shown in this step."""
    seconds: float


class AnswerGiven(EventBase):
    """The run ended without a failure (AG-UI: RUN_FINISHED)."""

    type: Literal["answer"] = "answer"
    text: str | None
    """None when the agent abstained or never answered."""
    evidence: tuple[Evidence, ...]
    """Where the answer was seen; of an abstention, where the agent looked."""
    stop_reason: StopReason


class RunFailed(EventBase):
    """The run ended with a failure (AG-UI: RUN_ERROR)."""

    type: Literal["run_failed"] = "run_failed"
    boundary: str
    """Class of the error: the boundary that was crossed."""
    message: str
    stop_reason: StopReason


Event = Annotated[
    RunStarted
    | ThoughtDelta
    | ThoughtGiven
    | ModelCalled
    | SearchRequested
    | SearchReturned
    | ImageShown
    | PassageShown
    | CropRequested
    | InvalidAction
    | UsageReported
    | AnswerGiven
    | RunFailed,
    Field(discriminator="type"),
]

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def event_from_json(line: str | bytes) -> Event:
    """Reads one event.

    Raises:
        pydantic.ValidationError: If it is not an event of this schema.
    """
    return _ADAPTER.validate_json(line)
