"""A run as one value, the fold of its events, and the evidence on which its answer rests."""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from markupsafe import Markup

from vrag.agent.answers.citation import CheckedClaim, Citation, MarkedText, with_markers
from vrag.agent.answers.conflicts import FoundConflict
from vrag.agent.events import (
    ActionRequested,
    AnswerDelta,
    AnswerDoubted,
    AnswerGiven,
    AnswerReading,
    ConflictFound,
    ContextShortened,
    CropRequested,
    DocumentChoice,
    Event,
    GraphChanged,
    ImageShown,
    InvalidAction,
    ModelCalled,
    ModelRetried,
    RunFailed,
    RunSettings,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import BoxSides, Evidence, place_of
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.methods import METHODS
from vrag.agent.policy import WITHOUT_MODEL
from vrag.errors import RunError, VragError
from vrag.types import Hit

OUTLINED = frozenset({"run_started", "usage", "conflict_found", "answer", "run_failed"})
"""Event types from which all fields except `steps`, `graph` and `draft` are computed. Of other events, only
the time of the last matters."""

LOOK_WHETHER = "Check whether it answers the question."
BY_READER = f"Found on the page, without a model. {LOOK_WHETHER}"
"""The remark on an answer without a model: nothing but its own text has been compared with it."""
MAY_ANSWER = "These passages may answer it"
"""What is said of places without a model, where no answer is certain enough."""
SEVERAL_DOCUMENTS = "This may be about several documents"
"""The beginning of a sentence with the documents that a question may be about."""
NOTHING_FOUND = "Nothing was found in the documents searched."
"""What is said where a search without a model has found nothing."""
WHOLE = 0.995
"""Part of each side of a page from which a box is the whole of it."""

MAX_REPR_CHARS, MAX_REPR_PLACES = 100, 3
"""Characters of a text, and places, in the representation of a result."""
MAX_PICTURES = 3
"""Places whose pictures a notebook shows."""

N = TypeVar("N", int, float)


class ResultKind(StrEnum):
    """The kind of result that a run has for the question."""

    ANSWER = "answer"
    """An answer."""
    PLACES = "places"
    """No answer, but places that may answer the question, best first: the evidence."""
    NONE = "none"
    """Neither."""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """The cost of a run. A count is None when no step could tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    visual_tokens: int = 0
    """Tokens of the pictures in all prompts: a picture counts once in every prompt that holds it."""
    pixels: int = 0
    """Pixels of the same pictures."""
    seconds: float = 0.0
    model_seconds: float = 0.0
    cost: float | None = None
    """The cost in the currency of the prices; None where they are unknown."""
    cached_tokens: int | None = None

    def plus(self, event: UsageReported) -> RunUsage:
        """Add the cost of one step."""
        return RunUsage(
            _sum(self.prompt_tokens, event.prompt_tokens),
            _sum(self.completion_tokens, event.completion_tokens),
            self.visual_tokens + event.visual_tokens,
            self.pixels + event.pixels,
            self.seconds + event.seconds,
            self.model_seconds + event.model_seconds,
            _sum(self.cost, event.cost),
            _sum(self.cached_tokens, event.cached_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One model call and its consequences."""

    number: int
    thought: str | None = None
    query: str | None = None
    """The text of the search or of the custom tool."""
    crop: BoxSides | None = None
    """The box of a crop as the model wrote it."""
    action: str | None = None
    """Name of the custom tool that was taken."""
    node: str | None = None
    """The node of the memory graph that it made."""
    invalid: str | None = None
    """The reason the reply was not carried out."""
    hits: tuple[Hit, ...] = ()
    shown: tuple[ImageShown, ...] = ()
    reply: str = ""
    flags: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    """The reading of a reply that breaks the grammar, where its meaning is clear."""
    usage: UsageReported | None = None
    """The cost of the step; None if it was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """A run so far: question, steps, how it ended and what it cost.

    `plus` adds one event, so a run in progress has a result too.
    """

    start: RunStarted | None = None
    end: AnswerGiven | RunFailed | None = None
    """The last event; None while the run goes on, or when it was cut off."""
    run_id: str = ""
    question: str = ""
    steps: tuple[RunStep, ...] = ()
    calls: int = 0
    """Model calls; known also where the events of the steps were not read."""
    answer: str | None = None
    """The answer; None when the agent abstained, failed or never answered."""
    draft: str = ""
    """The answer as far as the model has written it; empty once it is given, or where it does not count."""
    draft_step: int = 0
    """The model call that writes it."""
    evidence: tuple[Evidence, ...] = ()
    """The evidence by its numbers, from 1, what is cited first; of an abstention where the agent looked."""
    cited: int = 0
    """The number of pieces of evidence that the answer rests on; the others were looked at."""
    reading: AnswerReading | None = None
    """What the reader of pages knows of the answer; None where it does not find it on the pages seen."""
    citations: tuple[Citation, ...] = ()
    """The parts of the answer and the evidence that each rests on."""
    claims: tuple[CheckedClaim, ...] = ()
    """The claims of the answer, and what the evidence says about each."""
    named: tuple[str, ...] = ()
    """SHA-256 of the pictures that the model itself names as evidence, as it was shown them."""
    conflicts: tuple[FoundConflict, ...] = ()
    """Where other documents disagree with what the answer rests on."""
    withdrawn: str | None = None
    """The answer that was withdrawn because its evidence does not support it."""
    unsupported: tuple[str, ...] = ()
    """The reason pieces of evidence were left out."""
    choices: tuple[DocumentChoice, ...] = ()
    """The documents that the question may be about, where it does not say which."""
    stop_reason: StopReason | None = None
    """The reason for the end; None while the run goes on, or when it was cut off."""
    absence: str = ""
    """Why a run without a model has found nothing; empty where it has, or where nobody can tell."""
    failure: str | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    graph: Graph | None = None
    """The memory graph at the end; None without one."""
    last: float = 0.0
    """Time of the last event, in seconds since 1970."""
    events: int = 0
    """Number of events."""
    draw_place: Callable[[Evidence], bytes] | None = field(default=None, compare=False)
    """A function that draws the place of a piece of evidence as JPEG, for notebooks; None where it cannot.
    Copies and pickles are without it: it holds the open collections."""

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], RunResult], tuple[dict[str, Any]]]:
        """Return what copies and pickles are made from."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "draw_place"}
        return _restore_result, (values,)

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunResult:
        """Fold the events of one run; raise `RunError` if they do not begin with the start of a run."""
        result = cls()
        for event in events:
            result = result.plus(event)
        if result.start is None:
            raise RunError("These events hold no run: the first one must be run_started.")
        return result

    @property
    def rests(self) -> tuple[Evidence, ...]:
        """The evidence on which the answer rests; without an answer, where the agent looked."""
        return self.evidence[: self.cited]

    @property
    def looked_at(self) -> tuple[Evidence, ...]:
        """Items that were looked at, and of which nothing is among the cited evidence."""
        return self.evidence[self.cited :]

    @property
    def checked_text(self) -> str:
        """The text that citations and claims refer to: the answer, or the one that was withdrawn."""
        return self.answer if self.answer is not None else self.withdrawn or ""

    @property
    def marked_answer(self) -> MarkedText:
        """The answer, or the one that was withdrawn, with the markers of its citations."""
        text = self.checked_text
        return with_markers(text, self.citations if text else ())

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences to know about the answer: of the model, of files still being read, of the documents."""
        of_setup = () if self.start is None else self.start.notices
        return (*of_setup, *filter(None, [describe_choices(self.choices)]))

    @property
    def started(self) -> RunStarted:
        """The first event."""
        assert self.start is not None
        return self.start

    @property
    def seconds(self) -> float:
        """Seconds from the first event to the last."""
        return max(0.0, self.last - self.started.ts)

    @property
    def pages_shown(self) -> tuple[str, ...]:
        """Ids of the items shown whole, in order, each once."""
        shown = (image for step in self.steps for image in step.shown if not image.crop)
        return tuple(dict.fromkeys(image.item for image in shown))

    def __repr__(self) -> str:
        """Return question, outcome, places and cost in a few lines."""
        places = [
            f"  [{number}] {piece.document}, {piece.page_name}"
            for number, piece in enumerate(self.rests[:MAX_REPR_PLACES], 1)
        ]
        lines = [f"RunResult({_shorten(self.question)!r})", f"  {_shorten(self._outcome)}", *places]
        return "\n".join([*lines, f"  {self._cost}"])

    @property
    def _outcome(self) -> str:
        return self.unanswered(under_way=True) if self.answer is None else self.marked_answer.text

    @property
    def _cost(self) -> str:
        steps = f"{len(self.steps)} steps"
        return steps if self.is_without_model else f"{steps}, {self.usage.visual_tokens:,} visual tokens"

    def _repr_html_(self) -> Markup:
        """Return question, answer, evidence with pictures, and cost as HTML for a notebook.

        No text of theirs is markup.
        """
        entry = Markup('<li value="{}">{}{}</li>')
        evidence = Markup().join(
            entry.format(number, piece, self._picture(piece) if number <= MAX_PICTURES else "")
            for number, piece in enumerate(self.rests, 1)
        )
        notes = [BY_READER] if self.answer is not None and self.is_without_model else []
        outcome, cost = self._outcome, " · ".join([*notes, self._cost, *self.notices])
        return Markup(
            '<div class="tex2jax_ignore mathjax_ignore"><p><bdi>{}</bdi></p>'
            '<p style="white-space: pre-line"><strong><bdi>{}</bdi></strong></p>'
            "<ol>{}</ol><small>{}</small></div>"
        ).format(self.question, outcome, evidence, cost)

    def _picture(self, piece: Evidence) -> Markup:
        """Return the picture of a place as HTML; empty where it cannot be drawn."""
        try:
            jpeg = self.draw_place(piece) if self.draw_place else b""
        except (VragError, OSError):
            jpeg = b""
        data = base64.b64encode(jpeg).decode()
        image = Markup(
            '<br><img alt="The cited place" style="max-width: 100%" src="data:image/jpeg;base64,{}">'
        )
        return image.format(data) if data else Markup()

    @property
    def kind(self) -> ResultKind:
        """An answer, places without an answer, or neither. Only runs without a model have places."""
        if self.answer is not None:
            return ResultKind.ANSWER
        is_abstention = self.is_without_model and self.stop_reason is StopReason.ABSTAINED
        has_places = is_abstention and self.withdrawn is None and bool(self.evidence)
        return ResultKind.PLACES if has_places else ResultKind.NONE

    @property
    def is_without_model(self) -> bool:
        """True if the question is answered without a model, which must be said."""
        return self.start is not None and self.start.settings.policy == WITHOUT_MODEL

    def unanswered(self, *, under_way: bool = False) -> str:
        """Say in a sentence why there is no answer; without an end, that it is `under_way` or interrupted."""
        if self.failure is not None:
            return self.failure
        if self.withdrawn is not None:
            return f"The evidence does not support this answer: {self.withdrawn}"
        if self.stop_reason is None:
            return (
                f"This run {'is still running' if under_way else 'was interrupted when its process ended'}."
            )
        if self.stop_reason is not StopReason.ABSTAINED:
            return "The run ended before the agent answered."
        if self.kind is ResultKind.PLACES:
            return f"{MAY_ANSWER}."
        return (
            self.absence or NOTHING_FOUND
            if self.is_without_model
            else "The agent found no answer in the documents that it can support."
        )

    def plus(self, event: Event) -> RunResult:
        """Add one event."""
        begins_step = event.step > self.draft_step
        changes = ({"draft": ""} if begins_step else {}) | self._changes(event)
        calls = max(self.calls, event.step)
        return replace(self, last=event.ts, events=event.seq + 1, calls=calls, **changes)

    def _changes(self, event: Event) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912 - one flat case per event
        """Return the fields that an event changes, and their new values."""
        match event:
            case RunStarted():
                return {"start": event, "run_id": event.run_id, "question": event.question}
            case AnswerGiven():
                return self._answer_changes(event)
            case ConflictFound():
                return {"conflicts": (*self.conflicts, event.conflict)}
            case RunFailed():
                failure = {"failure": event.message, "stop_reason": event.stop_reason}
                return {"end": event, "draft": "", **failure}
            case AnswerDelta():
                before = self.draft if event.step == self.draft_step else ""
                return {"draft": before + event.text, "draft_step": event.step}
            case ModelRetried() | ContextShortened() | AnswerDoubted():
                return {"draft": ""}
            case UsageReported():
                return self._step(event, usage=event) | {"usage": self.usage.plus(event)}
            case ModelCalled():
                return self._step(event, reply=event.reply, flags=event.flags, repairs=event.repairs)
            case ThoughtGiven():
                return self._step(event, thought=event.text)
            case SearchRequested():
                return self._step(event, query=event.query, node=event.node)
            case SearchReturned():
                return self._step(event, hits=event.hits)
            case CropRequested():
                return self._step(event, crop=event.box, node=event.node)
            case ActionRequested():
                return self._step(event, action=event.name, query=event.text, node=event.node)
            case InvalidAction():
                return self._step(event, invalid=event.reason) | {"draft": ""}
            case ImageShown():
                shown = self.steps[-1].shown if self.steps else ()
                return self._step(event, shown=(*shown, event))
            case GraphChanged():
                return {"graph": event.graph}
            case _:
                return {}

    def _answer_changes(self, event: AnswerGiven) -> dict[str, Any]:
        """Return the fields that the answer changes."""
        settings = None if self.start is None else self.start.settings
        answered = event.text is not None
        evidence, cited = _order_evidence(event.evidence, event.citations, settings, answered=answered)
        citations = event.citations
        if event.text and cited and not citations:
            numbers = tuple(range(1, cited + 1))
            citations = (Citation(start=0, end=len(event.text), numbers=numbers, source="looked_at"),)
        return {
            "answer": event.text,
            "draft": "",
            "evidence": evidence,
            "cited": cited,
            "citations": citations,
            "claims": event.claims,
            "named": event.named,
            "withdrawn": event.withdrawn,
            "reading": event.reading,
            "unsupported": event.unsupported,
            "absence": event.absence,
            "choices": event.choices,
            "end": event,
            "stop_reason": event.stop_reason,
        }

    def _step(self, event: Event, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - checked by replace
        """Return the steps with changes to the step of an event."""
        *before, last = (*self.steps, RunStep(number=event.step))
        if before and before[-1].number == event.step:
            last = before.pop()
        return {"steps": (*before, replace(last, **changes))}


def describe_choices(choices: Sequence[DocumentChoice]) -> str:
    """Say that a question may be about several documents; empty where there is no choice."""
    if not choices:
        return ""
    names = ", ".join(choice.name for choice in choices)
    return f"{SEVERAL_DOCUMENTS}: {names}. Name one in the question, or choose documents."


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REPR_CHARS else f"{line[: MAX_REPR_CHARS - 1]}…"


def _sum(a: N | None, b: N | None) -> N | None:
    return b if a is None else a if b is None else a + b


def _order_evidence(
    evidence: Iterable[Evidence],
    citations: Sequence[Citation],
    settings: RunSettings | None,
    *,
    answered: bool,
) -> tuple[tuple[Evidence, ...], int]:
    """Return the evidence in the order of its numbers, each place once, and how much of it is cited.

    Runs from before citations were recorded name none: of an agent with a graph, and of one that was asked
    which of its evidence counts, all evidence is meant; of the others the closer looks, or the first page
    when there was none. Of what is not cited, items that are cited are left out.

    Args:
        evidence: The evidence as the answer lists it.
        citations: The citations of the answer.
        settings: The settings of the run, where they are known.
        answered: Whether there is an answer; without one, all evidence is where the agent looked.
    """
    pieces: dict[Hashable, Evidence] = {}
    for piece in evidence:
        pieces.setdefault(place_of(piece), piece)
    distinct = tuple(pieces.values())
    if citations:
        cited = distinct[: max(max(citation.numbers, default=0) for citation in citations)]
    elif not answered or _names_evidence(settings):
        cited = distinct
    else:
        closer = tuple(piece for piece in distinct if piece.box is not None and not is_whole(piece.box))
        cited = closer or distinct[:1]
    items = {piece.item for piece in cited}
    besides: dict[str, Evidence] = {}
    for piece in distinct:
        if piece.item not in items:
            besides.setdefault(piece.item, piece)
    return (*cited, *besides.values()), len(cited)


def _restore_result(values: dict[str, Any]) -> RunResult:
    return RunResult(**values)


def _names_evidence(settings: RunSettings | None) -> bool:
    """Return whether all evidence of an agent is what its answer rests on."""
    method = METHODS.get(settings.agent) if settings is not None else None
    return settings is not None and (settings.reselect or (method is not None and method.uses_graph))


def is_whole(box: BoxSides) -> bool:
    """Return whether a box is as good as the whole page."""
    x1, y1, x2, y2 = box
    return min(x2 - x1, y2 - y1) >= WHOLE
