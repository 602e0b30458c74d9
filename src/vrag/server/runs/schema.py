"""Requests and responses of the routes about runs, and the provider of the agents that answer them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from vrag.agent.agent import Agent
from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.answers.conflicts import FoundConflict
from vrag.agent.events import AnswerReading, DocumentChoice, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_meta import MAX_TITLE_CHARS, PROGRAMS, RunMeta, Via
from vrag.agent.runs.run_result import ResultKind, RunResult
from vrag.agent.runs.run_store import RunRow, RunState, RunStore, StoredRun
from vrag.render.annotations.evidence_sources import EvidenceSources
from vrag.server.http.errors import FrozenModel
from vrag.server.setup.choices import ChosenModel
from vrag.settings import AgentName

MAX_QUESTION_CHARS = 8000
MAX_SEARCH_CHARS = 300
MAX_IMAGES, MAX_IMAGE_BYTES = 4, 8 * 1024 * 1024
MAX_STEPS, MAX_HITS = 200, 100
MAX_DOCUMENTS, MAX_RUNS = 10_000, 200
"""Documents and runs that a request may name."""
RUN_ID = r"^[0-9a-f-]{1,40}$"
_OPTIONAL_RUN_ID = f"{RUN_ID}|^$"
RunId = Annotated[str, StringConstraints(pattern=RUN_ID)]
DocumentId = Annotated[str, StringConstraints(max_length=100)]
Thinking = Literal["auto", "on", "off"]
Verify = Literal["off", "tell", "repair", "withdraw"]
EVIDENCE_FORMATS = frozenset({"pdf", "annotations", "pictures"})
"""The formats of exports and reports that are the evidence alone."""
ReportFormat = Literal["html", "markdown", "pdf", "annotations", "pictures"]
ExportFormat = Literal["html", "markdown", "json", "pdf", "annotations", "pictures"]
Removal = Literal["run", "conversation"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def at_most(limit: int) -> BeforeValidator:
    """Count entries before each is validated: to report what is wrong with millions takes minutes."""

    def check(value: object) -> object:
        if isinstance(value, Sized) and not isinstance(value, str) and len(value) > limit:
            raise ValueError(f"it has {len(value):,} entries, of {limit:,} at most")
        return value

    return BeforeValidator(check)


def _picture(text: str) -> str:
    """Return the base64 text of a picture or data URL."""
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
            raise ValueError("a data URL looks like data:image/png;base64,…")
    if len(text) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise ValueError(f"it has more than {MAX_IMAGE_BYTES:,} bytes")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None
    return text


class _RequestModel(FrozenModel):
    """A request. With a million wrong fields it is refused at once: to report each takes time."""

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, value: object) -> object:
        if isinstance(value, Sized) and len(value) > 2 * len(cls.model_fields):
            raise ValueError("it has too many fields")
        return value


class RunOptions(_RequestModel):
    """Options of a question to an agent. The server's settings are the defaults."""

    collection: str | None = Field(
        default=None, max_length=200, description="The collection to search; all if absent."
    )
    documents: Annotated[tuple[DocumentId, ...] | None, at_most(MAX_DOCUMENTS)] = Field(
        default=None,
        min_length=1,
        max_length=MAX_DOCUMENTS,
        description="Ids of the documents to search; all if absent.",
    )
    max_steps: int | None = Field(
        default=None, ge=1, le=MAX_STEPS, description="Maximum number of model calls."
    )
    top_k: int | None = Field(default=None, ge=1, le=MAX_HITS, description="Hits per search.")
    thinking: Thinking | None = Field(default=None, description="Whether the model thinks before its reply.")
    crop_nodes: bool | None = Field(
        default=None, description="Whether vimrag may zoom into pictures from memory."
    )
    verify: Verify | None = Field(
        default=None,
        description="What is done about claims that the evidence does not support: nothing is checked (off), "
        "it is shown (tell), the model looks again (repair), or the answer is withdrawn.",
    )


class RunRequest(RunOptions):
    """A question to an agent. The server's settings are the defaults."""

    question: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_QUESTION_CHARS), AfterValidator(_not_blank)
    ] = Field(description="The question.")
    agent: AgentName | None = Field(default=None, description="The agent.")
    model: str | None = Field(
        default=None,
        max_length=300,
        description="One of the available models; empty for none.",
    )
    session: RunId | None = Field(
        default=None, description="The conversation to continue: id of its first run."
    )
    images: Annotated[tuple[Annotated[str, AfterValidator(_picture)], ...], at_most(MAX_IMAGES)] = Field(
        default=(), max_length=MAX_IMAGES, description="Pictures, as base64 or data URLs: JPEG, PNG or WebP."
    )

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """The decoded pictures."""
        return tuple(base64.b64decode(text) for text in self.images)


class RunSummary(FrozenModel):
    """A run as a list entry."""

    id: str
    session: str = Field(description="Id of the first run of the conversation.")
    question: str
    agent: str
    model: str = Field(description="The policy or model.")
    collection: str | None = Field(description="The searched collection; null for all.")
    documents: tuple[str, ...] | None = Field(
        default=None, description="Ids of the documents that were searched; null for all."
    )
    state: RunState
    position: int | None = Field(
        default=None, description="Of a waiting run: its position in the queue, from 1, which may grow."
    )
    stop_reason: StopReason | None = Field(description="Why it ended; null while it waits or runs.")
    answer: str | None
    kind: ResultKind = Field(
        default=ResultKind.NONE,
        description="answer; places: no answer without a model, but evidence that may answer; or none.",
    )
    started: float = Field(description="Seconds since 1970.")
    seconds: float
    steps: int = Field(description="Model calls so far.")
    prompt_tokens: int | None
    completion_tokens: int | None
    visual_tokens: int
    cost: float | None = Field(description="In the currency of the prices; null where they are unknown.")
    events: int = Field(description="Events so far.")
    owner: str = Field(default="", description="Name of the user who asked; empty if it has no owner.")
    via: Via = Field(default=Via.CLI, description="The interface by which the question came.")
    title: str = Field(default="", description="Title of the conversation; by default its first question.")
    pinned: bool = Field(default=False, description="Whether the conversation is pinned.")
    shared: bool = Field(default=False, description="Whether every user may read the conversation.")

    @classmethod
    def of(cls, id: str, outline: RunResult, state: RunState, position: int | None = None) -> RunSummary:
        """Summarize a run, without its metadata."""
        started, usage = outline.started, outline.usage
        documents = started.settings.environment.documents
        return cls(
            id=id,
            session=started.session or id,
            question=started.question,
            agent=started.settings.agent,
            model=started.settings.policy,
            collection=started.settings.environment.collection,
            documents=None if documents is None else tuple(sorted(documents)),
            state=state,
            position=position,
            stop_reason=outline.stop_reason,
            answer=outline.answer,
            kind=outline.kind,
            started=started.ts,
            seconds=outline.seconds,
            steps=outline.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            visual_tokens=usage.visual_tokens,
            cost=usage.cost,
            events=outline.events,
        )

    def with_meta(self, own: RunMeta, first: RunMeta, question: str) -> Self:
        """Return a copy with the metadata of the run, and that of the first run of its conversation."""
        return self.model_copy(
            update={
                "owner": own.owner,
                "via": own.via,
                "title": first.title or question,
                "pinned": first.pinned,
                "shared": first.shared,
            }
        )


class NumberedEvidence(Evidence):
    """A piece of evidence with the number by which the answer cites it."""

    number: int = Field(
        description="The number of its markers, from 1; what was only looked at has the next."
    )

    @classmethod
    def all_of(cls, outline: RunResult) -> tuple[tuple[NumberedEvidence, ...], tuple[NumberedEvidence, ...]]:
        """Number the evidence of a run; return what its answer rests on, and what else was looked at."""
        places = tuple(cls(**dict(place), number=number) for number, place in enumerate(outline.evidence, 1))
        return places[: outline.cited], places[outline.cited :]


class RunDetail(RunSummary):
    """A run with the evidence of its answer."""

    marked: str | None = Field(
        default=None, description="The answer, or the one that was withdrawn, with markers such as [1]."
    )
    withdrawn: str | None = Field(
        default=None, description="An answer that was withdrawn, since its evidence does not support it."
    )
    citations: tuple[Citation, ...] = Field(
        default=(), description="Parts of the answer, by characters, and the numbers of their evidence."
    )
    claims: tuple[CheckedClaim, ...] = Field(
        default=(), description="Claims of the answer, by characters, and what the evidence says about each."
    )
    conflicts: tuple[FoundConflict, ...] = Field(
        default=(),
        description="Where other documents disagree with the answer, both sides with their places.",
    )
    evidence: tuple[NumberedEvidence, ...] = Field(
        default=(), description="Evidence of the answer; of an abstention, where the agent looked."
    )
    looked_at: tuple[NumberedEvidence, ...] = Field(default=(), description="What else was looked at.")
    unsupported: tuple[str, ...] = ()
    reading: AnswerReading | None = Field(
        default=None, description="Where a short answer stands, and how it was found."
    )
    history: tuple[PreviousTurn, ...] = Field(
        default=(), description="Earlier questions of the conversation, as the model was given them."
    )
    attached: tuple[str, ...] = Field(
        default=(), description="SHA-256 of the pictures that came with the question."
    )
    notices: tuple[str, ...] = Field(default=(), description="What there is to know about the setup.")
    choices: tuple[DocumentChoice, ...] = Field(
        default=(), description="Documents that the question may be about, where it does not say which."
    )
    absence: str = Field(
        default="", description="Why nothing was found without a model; empty where something was."
    )
    failure: str | None = None

    @classmethod
    def of(cls, id: str, outline: RunResult, state: RunState, position: int | None = None) -> RunDetail:
        """Summarize a run with its evidence."""
        evidence, looked_at = NumberedEvidence.all_of(outline)
        return cls(
            **dict(RunSummary.of(id, outline, state, position)),
            marked=outline.marked_answer.text or None,
            withdrawn=outline.withdrawn,
            citations=outline.citations,
            claims=outline.claims,
            conflicts=outline.conflicts,
            evidence=evidence,
            looked_at=looked_at,
            unsupported=outline.unsupported,
            reading=outline.reading,
            history=outline.started.history,
            attached=outline.started.attached,
            notices=outline.started.notices,
            choices=outline.choices,
            absence=outline.absence,
            failure=outline.failure,
        )


class RunQuery(BaseModel):
    """The runs that a list has; by default all."""

    model_config = ConfigDict(frozen=True)

    limit: int = Field(default=50, ge=1, le=200, description="Maximum number.")
    before: str = Field(default="", pattern=_OPTIONAL_RUN_ID, description="Id of a run: only older ones.")
    session: str = Field(
        default="", pattern=_OPTIONAL_RUN_ID, description="Only one conversation: the id of its first run."
    )
    text: str = Field(
        default="", max_length=MAX_SEARCH_CHARS, description="Words in title, question or answer."
    )
    agent: str = Field(default="", max_length=20, description="Only runs of an agent.")
    collection: str = Field(default="", max_length=200, description="Only runs in a collection.")
    owner: str | None = Field(default=None, max_length=64, description="Only runs of a user.")
    asker: Literal["people", "programs"] | None = Field(
        default=None, description="Only runs that people or programs asked for."
    )
    pinned: bool = Field(default=False, description="Only pinned conversations.")

    def has_asker(self, via: Via) -> bool:
        """Return whether a run was asked by those whose runs it selects."""
        return self.asker is None or self.asker == ("programs" if via in PROGRAMS else "people")

    def has(self, row: RunRow, first: RunRow) -> bool:
        """Return whether a run is one of them; `first` is the first of its conversation."""
        content = f"{first.title or first.question}\n{row.question}\n{row.answer or ''}".casefold()
        return (
            not (self.before and row.id >= self.before)
            and self.has_asker(row.via)
            and self.owner in {None, row.owner}
            and (not self.session or self.session in {row.id, row.session})
            and (not self.pinned or first.pinned)
            and self.agent in {"", row.agent}
            and self.collection in {"", row.collection}
            and all(word in content for word in self.text.casefold().split())
        )


class RunList(FrozenModel):
    """Runs, the newest first."""

    runs: tuple[RunSummary, ...]
    more: bool = Field(description="Whether there may be older ones.")
    next: str = Field(default="", description="If there may be older ones: the `before` to list them.")
    people: int = Field(default=0, description="All runs that people asked for, however listed.")
    programs: int = Field(default=0, description="All runs that programs asked for, however listed.")
    pinned: int = Field(default=0, description="All pinned conversations of those that `asker` selects.")
    owners: tuple[str, ...] = Field(default=(), description="Owners of all; for administrators.")


class RunChanges(_RequestModel):
    """Changes of a conversation. What is absent stays as it is."""

    title: str | None = Field(
        default=None, max_length=MAX_TITLE_CHARS, description="Its title; empty for its first question."
    )
    pinned: bool | None = Field(default=None, description="Whether it is pinned.")
    shared: bool | None = Field(default=None, description="Whether every user of the server may read it.")


class ReportRequest(_RequestModel):
    """Runs to combine into one document."""

    runs: Annotated[tuple[RunId, ...], at_most(MAX_RUNS)] = Field(min_length=1, max_length=MAX_RUNS)
    title: str = Field(default="", max_length=300)
    format: ReportFormat = "html"


class AgentChoice(FrozenModel):
    """An available agent."""

    name: AgentName
    title: str
    steps: int = Field(description="Default maximum of model calls.")
    hits: int = Field(description="Default number of hits per search.")


class ModelChoice(FrozenModel):
    """An available model."""

    name: str = Field(description="Empty for answers without a model.")
    title: str


class CollectionChoice(FrozenModel):
    """A searchable collection."""

    name: str
    documents: int
    items: int
    writable: bool
    embedder: str | None


class Defaults(FrozenModel):
    """Defaults of a request."""

    agent: AgentName
    model: str
    collection: str | None = None
    max_steps: int | None = None
    top_k: int | None = None
    thinking: Thinking = "auto"
    crop_nodes: bool = True
    verify: Verify = "tell"


class UnreadableTypes(FrozenModel):
    """Types of files that need software which is not installed."""

    types: tuple[str, ...] = Field(description="Their suffixes.")
    needs: str = Field(description="The software.")
    install: str = Field(description="How to install it, for whoever runs the server.")


class CapabilityLimits(FrozenModel):
    """Limits of a request."""

    question_chars: int = MAX_QUESTION_CHARS
    images: int = MAX_IMAGES
    image_bytes: int = MAX_IMAGE_BYTES
    upload_bytes: int
    upload_types: tuple[str, ...] = Field(description="Suffixes of files that can be uploaded.")
    unreadable: tuple[UnreadableTypes, ...] = Field(
        default=(), description="Types of files that could be, if more software was installed."
    )
    steps: int = MAX_STEPS
    top_k: int = MAX_HITS


class Capabilities(FrozenModel):
    """The agents, models, collections and limits that a server offers."""

    agents: tuple[AgentChoice, ...]
    models: tuple[ModelChoice, ...]
    collections: tuple[CollectionChoice, ...]
    defaults: Defaults
    limits: CapabilityLimits
    examples: tuple[str, ...] = ()
    setup: bool = Field(default=False, description="Whether models can be chosen at `/setup`.")
    no_uploads: str = Field(default="", description="Why the user cannot add documents to any collection.")
    version: str

    def without_uploads(self, reason: str) -> Capabilities:
        """Return what is offered to a user who may not add documents, with the reason."""
        closed = tuple(each.model_copy(update={"writable": False}) for each in self.collections)
        return self.model_copy(update={"collections": closed, "no_uploads": reason})

    def with_models(self, chosen: Sequence[str], *, setup: bool) -> Capabilities:
        """Add models that were chosen on the page, of which the first is the default, and `setup`."""
        if not chosen:
            return self.model_copy(update={"setup": setup})
        known = [model for model in self.models if model.name not in chosen]
        added = [ModelChoice(name=name, title=name) for name in dict.fromkeys(chosen)]
        defaults = self.defaults.model_copy(update={"model": chosen[0]})
        return self.model_copy(update={"models": (*known, *added), "defaults": defaults, "setup": setup})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSelection:
    """The agent that a request selects; None stands for the server's default."""

    agent: str | None = None
    model: str | None = None
    """Empty for answers without a model."""
    collection: str | None = None
    documents: frozenset[str] | None = None
    max_steps: int | None = None
    top_k: int | None = None
    thinking: Thinking | None = None
    crop_nodes: bool | None = None
    verify: Verify | None = None
    chosen: ChosenModel | None = None
    """The model that was chosen on the page, in place of `model`."""
    user: str = ""
    """Name of the user who asks."""

    @classmethod
    def of(cls, request: RunRequest, chosen: ChosenModel | None = None, user: str = "") -> AgentSelection:
        """Read the selection of a request; `chosen` is the chosen model that it names or has by default."""
        return cls(
            agent=request.agent,
            model=request.model,
            collection=request.collection,
            documents=None if request.documents is None else frozenset(request.documents),
            max_steps=request.max_steps,
            top_k=request.top_k,
            thinking=request.thinking,
            crop_nodes=request.crop_nodes,
            verify=request.verify,
            chosen=chosen,
            user=user,
        )


class AgentProvider(Protocol):
    """Builds agents on demand, and knows where their runs are recorded. Used from several threads."""

    @property
    def offer(self) -> Capabilities:
        """The agents, models and collections that can be requested now. May block."""
        ...

    @property
    def store(self) -> RunStore:
        """The store in which runs are recorded."""
        ...

    def evidence_sources(self, runs: Sequence[StoredRun]) -> EvidenceSources:
        """Return where the files and pages of the evidence of runs are."""
        ...

    def agent(self, choice: AgentSelection) -> Agent:
        """Build or reuse the agent that a request selects. May block.

        Raises `SettingsError` if there is no such model or collection, or the choices contradict each other,
        and `ModelError` if a checkpoint cannot be opened.
        """
        ...

    async def aclose(self) -> None:
        """Give back what agents hold in the running event loop."""
        ...
