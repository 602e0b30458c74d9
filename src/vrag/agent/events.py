"""The events of a run, one frozen class each.

Events are the only output of an agent. The command line, the web page, run files and training
rows are folds of them. They are versioned JSON, discriminated on `type`. Where the AG-UI protocol
has an event of the same meaning its name is given.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.answers.conflicts import FoundConflict
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits, Prices, StopReason
from vrag.agent.environment import EnvironmentOptions
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.policy import FinishReason, PictureOrigin
from vrag.agent.question import PreviousTurn
from vrag.model_profiles import Profile
from vrag.reading.verification.claim import ClaimVerdict
from vrag.types import Hit

SCHEMA_VERSION = 4
"""Raised when an old reader could misunderstand a new file, or take it for damaged, or when a new one cannot
read an old one. Version 3 added the drafts of answers, version 4 the ladder of verdicts, conflicts, and the
documents that a question may be about."""
OLDEST_SCHEMA_VERSION = 2
"""The oldest version that is still read."""


class DraftMode(StrEnum):
    """The events of an answer while the model writes it."""

    OFF = "off"
    """None."""
    TEXT = "text"
    """Its text."""
    CITED = "cited"
    """Its text, and after each sentence what it rests on so far."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunSettings(_Frozen):
    """All settings that a replay needs besides the replies."""

    agent: str
    """Name of the method: `vrag`, `vimrag`, `rag` or `react`."""
    policy: str
    profile: str
    own_profile: Profile | None = None
    """The whole profile, where it is none of the built-in ones: it came with a checkpoint."""
    limits: Limits = Field(default_factory=Limits)
    prices: Prices = Field(default_factory=Prices)
    environment: EnvironmentOptions = Field(default_factory=EnvironmentOptions)
    memory: MemoryOptions | None = None
    """The memory options of VimRAG; None for the other agents."""
    actions: tuple[str, ...] = ()
    """Names of the custom tools on offer."""
    instruction: str | None = None
    """The user's own wording of the instruction; None for the built-in one."""
    reselect: bool = False
    """True if the model is asked which of its evidence counts before the answer is given."""
    repair: bool = False
    """True if replies that break the grammar are read where their meaning is clear. Runs without this field
    were recorded when none were."""
    own_ids: bool = False
    """True if ids of nodes are the model's own words, and unknown parents are left out. Runs without this
    field were recorded when a title became `Ferry_fares_2023`."""
    verify: VerifyMode = VerifyMode.OFF
    """What is done about claims that the evidence does not support. Runs without this field were recorded
    when none were checked."""
    second_reading: bool = False
    """True if OCR reads again what the claims rest on. Runs without this field were recorded before."""
    conflicts: bool = False
    """True if what an answer rests on is compared with other documents. Runs without this field were recorded
    when it was not."""
    locate: bool = True
    """True if the places of an answer are looked for on its evidence; false in training. Runs without this
    field were recorded when they always were."""
    draft: DraftMode = DraftMode.OFF
    """The events of an answer while it is written. Runs without this field have none."""
    sampling: dict[str, float | int | str | bool] = Field(default_factory=dict)
    """Sampling parameters of the policy; a replay does not use them."""


class EventBase(_Frozen):
    """The fields of every event."""

    run_id: str
    seq: int = Field(ge=0)
    """Position in the run, from 0, without gaps."""
    ts: float
    """Seconds since 1970, UTC."""
    step: int = Field(ge=0)
    """Number of the model call it belongs to, from 1; 0 before the first."""


class RunStarted(EventBase):
    """A run started (AG-UI: RUN_STARTED)."""

    type: Literal["run_started"] = "run_started"
    schema_version: int = SCHEMA_VERSION
    question: str
    settings: RunSettings
    collection: str
    """Version of the collection's content; a replay needs the same. Empty when it could not be had."""
    history: tuple[PreviousTurn, ...] = ()
    """Earlier questions and answers of the same conversation, as the model is given them, oldest first."""
    attached: tuple[str, ...] = ()
    """SHA-256 of the pictures that came with the question, in order; the files lie with the run."""
    session: str = ""
    """Id of the run that began the conversation; empty for that run itself."""
    notices: tuple[str, ...] = ()
    """Sentences for the user about the setup of the run, such as that the model family is unknown."""


class ThoughtDelta(EventBase):
    """A piece of a thought as it is written (AG-UI: THINKING_TEXT_MESSAGE_CONTENT)."""

    type: Literal["thought_delta"] = "thought_delta"
    text: str


class ThoughtGiven(EventBase):
    """A whole thought."""

    type: Literal["thought"] = "thought"
    text: str


class AnswerDelta(EventBase):
    """A piece of an answer as it is written, without markers (AG-UI: TEXT_MESSAGE_CONTENT).

    The pieces of a call are the beginning of the answer that it gives. They are a draft: an event of a later
    step, `model_retried`, `context_shortened`, `invalid_action` and `answer_doubted` discard it, and `answer`
    replaces it.
    """

    type: Literal["answer_delta"] = "answer_delta"
    text: str
    follows_marker: bool = False
    """True if the model cites something right before it, in a marker that was left out."""


class AnswerCited(EventBase):
    """The evidence of a draft, as far as it is written; it replaces the event before."""

    type: Literal["answer_cited"] = "answer_cited"
    length: int = Field(ge=0)
    """Characters of the draft that were looked at."""
    citations: tuple[Citation, ...]
    evidence: tuple[Evidence, ...]
    """The evidence that is cited, by its numbers from 1. That of `answer` may be numbered otherwise."""


class ModelCalled(EventBase):
    """A reply was received. Training rows and replays are made of this event alone."""

    type: Literal["model_called"] = "model_called"
    messages: tuple[str, ...]
    """SHA-256 of each message's JSON, in order; the files lie with the run."""
    reply: str
    """The complete, unmodified reply."""
    executed: int = Field(ge=0)
    """Characters of the reply up to the end of the action that ran."""
    chunks: tuple[int, ...]
    """Lengths of the pieces the reply came in, in characters."""
    finish: FinishReason
    flags: tuple[str, ...] = ()
    """Faults of the reply that did not keep its action from running."""
    repairs: tuple[str, ...] = ()
    """Short phrases on what breaks the grammar and how it was read, for a reply with the flag `repaired`."""
    prompt_ids: tuple[int, ...] = ()
    """The prompt in tokens, if the policy reports them."""
    ids: tuple[int, ...] = ()
    """The sampled tokens, if the policy reports them."""
    logprobs: tuple[float, ...] = ()
    """Natural logarithms of their probabilities, if the policy reports them."""
    sampling: dict[str, float | int | str | bool] = Field(default_factory=dict)


class ModelRetried(EventBase):
    """A call failed and is made again; thought and answer deltas of this step so far do not count."""

    type: Literal["model_retried"] = "model_retried"
    reason: str
    seconds: float
    """Pause before it."""
    partial: str
    """The part of the reply that had arrived."""
    chunks: tuple[int, ...]
    """Lengths of the pieces it came in."""


class ModelFailed(EventBase):
    """A call failed when a part of its reply had arrived, and is not made again."""

    type: Literal["model_failed"] = "model_failed"
    partial: str
    """The part of the reply that had arrived."""
    chunks: tuple[int, ...]
    """Lengths of the pieces it came in."""


class ContextShortened(EventBase):
    """The context was too long for the model; pictures were removed and the call is repeated."""

    type: Literal["context_shortened"] = "context_shortened"
    reason: str
    """The message of the server or the model."""
    dropped: tuple[str, ...]
    """The pictures that were removed, by the names under which the model knew them."""
    partial: str = ""
    """The part of a reply that had arrived, in a run with drafts."""
    chunks: tuple[int, ...] = ()
    """Lengths of the pieces it came in."""


class SearchRequested(EventBase):
    """The agent searches (AG-UI: TOOL_CALL_START)."""

    type: Literal["search_requested"] = "search_requested"
    query: str
    node: str | None = None
    """The node that it makes, in a graph."""
    continued: bool = False
    """True if the query is that of the search before: its next hits are shown, and nothing is searched."""


class SearchReturned(EventBase):
    """A search returned (AG-UI: TOOL_CALL_RESULT)."""

    type: Literal["search_returned"] = "search_returned"
    hits: tuple[Hit, ...]
    damaged: tuple[str, ...] = ()
    """The reason items that were found are not shown: they cannot be opened, or there is no room for them."""


class ImageShown(EventBase):
    """The model was shown a picture."""

    type: Literal["image_shown"] = "image_shown"
    number: int
    """Position in the order shown, from 1, crops included; 0 where pictures are labelled by node."""
    label: str
    """The name for the model: `Image 2`, or within its node `Picture 3`, `Video 1`."""
    node: str | None = None
    """The node whose result it is, in a graph."""
    item: str
    document: str
    page: int
    seconds: float | None = None
    """Position of the frame in its video, in seconds; None for other pictures."""
    region: BoxSides
    """The part shown, in item pixels."""
    box: BoxSides
    """The part as fractions of the page, 0 to 1."""
    width: int
    """Width of the picture shown, in pixels."""
    height: int
    visual_tokens: int
    sha256: str
    crop: bool
    origin: PictureOrigin = PictureOrigin.PAGE
    """What it was drawn from: the stored picture, or the file of the document, which may be gone since."""


class PassageShown(EventBase):
    """The model was shown a passage of text."""

    type: Literal["passage_shown"] = "passage_shown"
    item: str
    document: str
    page: int
    label: str = ""
    """The name for the model: `Text 2` within its node; empty where passages are not labelled."""
    node: str | None = None


class CropRequested(EventBase):
    """The agent looks closer (AG-UI: TOOL_CALL_START)."""

    type: Literal["crop_requested"] = "crop_requested"
    image: int | None
    """Number of the picture; None for the last one, and in a graph."""
    box: BoxSides
    """The box as the model wrote it, in the coordinate space of its profile."""
    node: str | None = None
    """The node that it makes, in a graph."""
    label: str = ""
    """The enlarged item, in a graph: a label among the results of a parent."""


class ActionRequested(EventBase):
    """The agent uses a custom tool (AG-UI: TOOL_CALL_START)."""

    type: Literal["action_requested"] = "action_requested"
    name: str
    text: str
    node: str | None = None
    """The node that it makes, in a graph."""


class ActionReturned(EventBase):
    """A custom tool returned (AG-UI: TOOL_CALL_RESULT)."""

    type: Literal["action_returned"] = "action_returned"
    items: tuple[str, ...]
    """Ids of the items that it named."""
    texts: tuple[str, ...]
    """The texts that it returned."""
    damaged: tuple[str, ...] = ()
    """The reason items that it named could not be opened."""


class MemoryEntry(_Frozen):
    """An item that the model is shown from memory, or that there was no room for."""

    node: str
    """The newest node that remembers it."""
    label: str
    """The label there."""
    item: str
    energy: float
    """Ω."""
    seconds: tuple[float, ...] = ()
    """The frames of a clip that are shown, or dropped."""
    width: int = 0
    """Width of the picture, or of each frame; 0 for what was dropped."""
    height: int = 0
    tokens: int = 0
    """Visual tokens, all frames together."""
    reason: str = ""
    """The reason it was dropped; empty for what was kept."""


class MemoryUpdated(EventBase):
    """The items that the model is shown from memory from now on (AG-UI: STATE_DELTA)."""

    type: Literal["memory_updated"] = "memory_updated"
    node: str
    """The node that was completed."""
    kept: tuple[MemoryEntry, ...]
    dropped: tuple[MemoryEntry, ...]
    tokens: int
    """Visual tokens of all that was kept."""
    pixels: int
    budget: int
    """Visual tokens that memory may take."""
    reports: tuple[str, ...] = ()
    """Sentences on requests of the model that could not be met."""


class GraphChanged(EventBase):
    """The memory graph, whole (AG-UI: STATE_SNAPSHOT)."""

    type: Literal["graph_changed"] = "graph_changed"
    graph: Graph


class InvalidAction(EventBase):
    """A reply was not carried out; the run goes on."""

    type: Literal["invalid_action"] = "invalid_action"
    reason: str


class UsageReported(EventBase):
    """The cost of a step."""

    type: Literal["usage"] = "usage"
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None
    visual_tokens: int
    """Visual tokens of all pictures in the prompt."""
    memory_tokens: int = 0
    """The part of them that comes from memory."""
    fresh_tokens: int = 0
    """The part of them that the step before brought."""
    pixels: int = 0
    """Pixels of all pictures in the prompt."""
    seconds: float
    """Time from the call to the end of its action."""
    model_seconds: float = 0.0
    """The part of it spent waiting for the model."""
    cost: float | None = None
    """The cost in the currency of the prices; None where prices or counts are unknown."""


class AnswerReading(BaseModel):
    """Where a short answer stands, and how it was found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    """Id of the item that holds it."""
    context: str = ""
    """Its sentence, or its row with the heads; empty where that says no more than the answer."""
    arithmetic: str = ""
    """The computation, such as `406,000 → 424,800: +4.6 %`; empty for an answer that stands on the page."""
    probability: float
    """The estimated probability that it is right, 0 to 1."""


class DocumentChoice(BaseModel):
    """A document that the question may be about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str
    """Id of the document."""
    name: str
    """Its name for people."""


_VERDICTS = frozenset(verdict.value for verdict in ClaimVerdict)


def _drop_old_claims(claims: object) -> object:
    """Leave out the claims of a run of before version 4, whose verdicts meant something else."""
    if not isinstance(claims, list):
        return claims
    known = cast("list[object]", claims)
    verdicts = (cast("dict[str, object]", claim).get("verdict") for claim in known if isinstance(claim, dict))
    return known if all(verdict in _VERDICTS for verdict in verdicts) else []


CheckedClaims = Annotated[tuple[CheckedClaim, ...], BeforeValidator(_drop_old_claims)]


class AnswerDoubted(EventBase):
    """An answer is in doubt: its evidence does not say it, or what the model was shown disagrees.

    The model is told, and may answer anew.
    """

    type: Literal["answer_doubted"] = "answer_doubted"
    text: str
    """The answer in doubt."""
    claims: CheckedClaims
    """All its claims, with their verdicts; numbers are those of the evidence at this time."""
    conflicts: tuple[FoundConflict, ...] = ()
    """Conflicts of items that the model was shown, and is asked to judge."""


class ConflictFound(EventBase):
    """Another document disagrees with what the answer rests on; comes before the answer."""

    type: Literal["conflict_found"] = "conflict_found"
    conflict: FoundConflict


class AnswerGiven(EventBase):
    """The run ended without a failure (AG-UI: RUN_FINISHED)."""

    type: Literal["answer"] = "answer"
    text: str | None
    """The answer; None when the agent abstained or never answered."""
    evidence: tuple[Evidence, ...]
    """The places where the answer was seen; of an abstention, where the agent looked."""
    reading: AnswerReading | None = None
    """What the reader of pages knows of the answer; None where it does not find it on the pages seen."""
    citations: tuple[Citation, ...] = ()
    """The parts of the text and the evidence that each rests on. What is cited stands first in `evidence`."""
    claims: CheckedClaims = ()
    """The claims of the text, and what the evidence says about each; empty where they are not checked."""
    named: tuple[str, ...] = ()
    """SHA-256 of the pictures that the model itself names as evidence, as it was shown them: by markers, by
    selection, or as results of the nodes that a graph's answer rests on. `evidence` may show other parts."""
    withdrawn: str | None = None
    """The answer that was withdrawn because its evidence does not support it; then `text` is None."""
    unsupported: tuple[str, ...] = ()
    """The reason evidence was left out: it no longer agrees with the collection, or was never shown."""
    absence: str = ""
    """Why a run without a model has found nothing, for people; empty where it has."""
    choices: tuple[DocumentChoice, ...] = ()
    """The documents that the question may be about, best first, where it does not say which."""
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
    | AnswerDelta
    | AnswerCited
    | ModelCalled
    | ModelRetried
    | ModelFailed
    | ContextShortened
    | SearchRequested
    | SearchReturned
    | ImageShown
    | PassageShown
    | CropRequested
    | ActionRequested
    | ActionReturned
    | MemoryUpdated
    | GraphChanged
    | InvalidAction
    | UsageReported
    | AnswerDoubted
    | ConflictFound
    | AnswerGiven
    | RunFailed,
    Field(discriminator="type"),
]

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def event_from_json(line: str | bytes) -> Event:
    """Read one event; raise `pydantic.ValidationError` if it is not an event of this schema."""
    return _ADAPTER.validate_json(line)
