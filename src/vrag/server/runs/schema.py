"""Requests and responses of the routes about runs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sized
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from vrag.agent.citations import citations
from vrag.agent.events import AnswerGiven, RunFailed, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_store import RunState
from vrag.settings import AgentName

if TYPE_CHECKING:
    from vrag.agent.runs.run_result import RunResult

__all__ = [
    "AgentChoice",
    "Capabilities",
    "CapabilityLimits",
    "CollectionChoice",
    "Defaults",
    "ModelChoice",
    "ReportRequest",
    "RunDetail",
    "RunList",
    "RunRequest",
    "RunSummary",
    "Thinking",
]

QUESTION_CHARS = 8000
IMAGES, IMAGE_BYTES = 4, 8 * 1024 * 1024
MAX_STEPS, MAX_HITS = 200, 100
DOCUMENTS, RUNS = 10_000, 200
"""That a request names."""
RUN_ID = r"^[0-9a-f-]{1,40}$"
RunId = Annotated[str, StringConstraints(pattern=RUN_ID)]
DocumentId = Annotated[str, StringConstraints(max_length=100)]
Thinking = Literal["auto", "on", "off"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def at_most(most: int) -> BeforeValidator:
    """Counts before it looks at each: to say of millions what is wrong with them takes minutes."""

    def counted(given: object) -> object:
        if isinstance(given, Sized) and not isinstance(given, str) and len(given) > most:
            raise ValueError(f"these are {len(given):,}, of {most:,} at most")
        return given

    return BeforeValidator(counted)


def _picture(text: str) -> str:
    """Base64, with or without the head of a data URL."""
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
            raise ValueError("a data URL looks like data:image/png;base64,…")
    if len(text) > IMAGE_BYTES * 4 // 3 + 4:
        raise ValueError(f"it has more than {IMAGE_BYTES:,} bytes")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None
    return text


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _RequestModel(_Closed):
    """A request. Of one that is wrong in a million places the first few are enough: each takes its time."""

    @model_validator(mode="before")
    @classmethod
    def _of_few_fields(cls, given: object) -> object:
        if isinstance(given, Sized) and len(given) > 2 * len(cls.model_fields):
            raise ValueError("it has too many fields")
        return given


class RunRequest(_RequestModel):
    """A question to an agent. What is left out is as the server's settings say."""

    question: Annotated[
        str, StringConstraints(min_length=1, max_length=QUESTION_CHARS), AfterValidator(_not_blank)
    ] = Field(description="What to answer.")
    agent: AgentName | None = Field(default=None, description="Which agent answers.")
    model: str | None = Field(
        default=None, max_length=300, description="One of the models offered; empty for the offline policy."
    )
    collection: str | None = Field(
        default=None, max_length=200, description="Where to look; all collections when absent."
    )
    documents: Annotated[tuple[DocumentId, ...] | None, at_most(DOCUMENTS)] = Field(
        default=None,
        min_length=1,
        max_length=DOCUMENTS,
        description="Ids of the documents to look at; all when absent.",
    )
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS, description="Model calls at most.")
    top_k: int | None = Field(default=None, ge=1, le=MAX_HITS, description="Hits of a search.")
    thinking: Thinking | None = Field(
        default=None, description="Whether the model thinks apart from its reply."
    )
    session: RunId | None = Field(
        default=None, description="The conversation that this continues: id of the run that began it."
    )
    images: Annotated[tuple[Annotated[str, AfterValidator(_picture)], ...], at_most(IMAGES)] = Field(
        default=(), max_length=IMAGES, description="Pictures, as base64 or data URLs: JPEG, PNG or WebP."
    )

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """The files of its pictures."""
        return tuple(base64.b64decode(text) for text in self.images)


class RunSummary(_Closed):
    """A run, as a list shows it."""

    id: str
    session: str = Field(description="Id of the run that began the conversation.")
    question: str
    agent: str
    model: str = Field(description="What wrote the replies.")
    collection: str | None = Field(description="Where it looked; all collections when null.")
    state: RunState
    stop_reason: StopReason | None = Field(description="Why it ended; null while it runs.")
    answer: str | None
    started: float = Field(description="Seconds since 1970.")
    seconds: float
    steps: int = Field(description="Model calls so far.")
    prompt_tokens: int | None
    completion_tokens: int | None
    visual_tokens: int
    cost: float | None = Field(description="In the currency of the prices; null where they are unknown.")
    events: int = Field(description="Events so far.")

    @classmethod
    def of(cls, id: str, outline: RunResult, state: RunState) -> RunSummary:
        """The summary of a run."""
        started, usage = outline.started, outline.usage
        return cls(
            id=id,
            session=started.session or id,
            question=started.question,
            agent=started.settings.agent,
            model=started.settings.policy,
            collection=started.settings.environment.collection,
            state=state,
            stop_reason=outline.stop_reason,
            answer=outline.answer,
            started=started.ts,
            seconds=outline.seconds,
            steps=outline.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            visual_tokens=usage.visual_tokens,
            cost=usage.cost,
            events=outline.events,
        )


class RunDetail(RunSummary):
    """A run with what its answer rests on."""

    evidence: tuple[Evidence, ...] = Field(
        default=(), description="What the answer rests on; of an abstention, where the agent looked."
    )
    looked_at: tuple[Evidence, ...] = Field(default=(), description="What was looked at besides.")
    unsupported: tuple[str, ...] = ()
    failure: str | None = None

    @classmethod
    def of(cls, id: str, outline: RunResult, state: RunState) -> RunDetail:
        """The detail of a run."""
        summary = dict(RunSummary.of(id, outline, state))
        match outline.end:
            case AnswerGiven() as end:
                cited = citations(end.evidence, outline.started.settings, answered=end.text is not None)
                return cls(
                    **summary, evidence=cited.rests, looked_at=cited.besides, unsupported=end.unsupported
                )
            case RunFailed(message=message):
                return cls(**summary, failure=message)
            case _:
                return cls(**summary)


class RunList(_Closed):
    """Some runs, the newest first."""

    runs: tuple[RunSummary, ...]
    more: bool = Field(description="Whether there are older ones.")


class ReportRequest(_RequestModel):
    """Runs that become one document."""

    runs: Annotated[tuple[RunId, ...], at_most(RUNS)] = Field(min_length=1, max_length=RUNS)
    title: str = Field(default="", max_length=300)
    format: Literal["html", "markdown"] = "html"


class AgentChoice(_Closed):
    """An agent that may be asked."""

    name: AgentName
    title: str
    steps: int = Field(description="Model calls at most, where nothing else is said.")
    hits: int = Field(description="Hits of a search, where nothing else is said.")


class ModelChoice(_Closed):
    """A model that may be asked."""

    name: str = Field(description="Empty for the offline policy.")
    title: str


class CollectionChoice(_Closed):
    """A collection that may be searched."""

    name: str
    documents: int
    items: int
    writable: bool
    embedder: str | None


class Defaults(_Closed):
    """What holds where a request says nothing."""

    agent: AgentName
    model: str
    collection: str | None = None
    max_steps: int | None = None
    top_k: int | None = None
    thinking: Thinking = "auto"


class CapabilityLimits(_Closed):
    """How much a request may ask for."""

    question_chars: int = QUESTION_CHARS
    images: int = IMAGES
    image_bytes: int = IMAGE_BYTES
    upload_bytes: int
    upload_types: tuple[str, ...]
    steps: int = MAX_STEPS
    top_k: int = MAX_HITS


class Capabilities(_Closed):
    """What a server can be asked for."""

    agents: tuple[AgentChoice, ...]
    models: tuple[ModelChoice, ...]
    collections: tuple[CollectionChoice, ...]
    defaults: Defaults
    limits: CapabilityLimits
    examples: tuple[str, ...] = ()
    version: str
