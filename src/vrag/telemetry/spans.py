"""The events of runs, folded into spans.

A run is a span `invoke_agent vrag`; each model call is a child of it (`chat MODEL`), and so is each search,
crop or other action (`execute_tool search`). Times are those of the events: a model call begins where the
step before it ended, an action where it was asked for, and it ends with its step, when all that it brought
is there to be shown.

What was asked, written, searched for and answered stays out, unless content is asked for; pictures stay out
always. Messages of errors are content too: a server may repeat in them what it was sent.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag import __version__
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    AnswerGiven,
    CropRequested,
    ImageShown,
    InvalidAction,
    ModelCalled,
    ModelRetried,
    PassageShown,
    RunFailed,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    UsageReported,
)
from vrag.agent.runs.run_result import RunUsage
from vrag.telemetry.attributes import Error, GenAi, VragAttributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span, SpanKind, Tracer

    from vrag.agent.events import Event


Attributes: TypeAlias = "dict[str, str | int | float | bool | list[str]]"

SERVED, OURS = "openai", "vrag"
"""Providers: who is asked in OpenAI's way is named so, whoever answers; what runs in this process is ours."""
_SERVED_POLICY = "chat:"
_SAMPLING = {
    "temperature": (GenAi.TEMPERATURE, float),
    "top_p": (GenAi.TOP_P, float),
    "top_k": (GenAi.TOP_K, int),
    "seed": (GenAi.SEED, int),
    "max_tokens": (GenAi.MAX_TOKENS, int),
}
_MOST = 10_000
"""Runs that may be open at once. Further ones push out those that began first: they were abandoned."""


class Spans:
    """An observer of events: call it with each, in the order of its run.

    Runs may be mixed. Events of a run whose beginning was not seen are left out.

    Args:
        tracer: What makes spans.
        content: Whether texts are told: questions, replies, queries, answers, messages of errors.
    """

    def __init__(self, tracer: Tracer, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, RunStarted):
            self._runs[event.run_id] = _Run(self._tracer, event, content=self._content)
            if len(self._runs) > _MOST:
                self._runs.popitem(last=False)[1].interrupt()
            return
        run = self._runs.get(event.run_id)
        if run is not None and run.take(event):
            del self._runs[event.run_id]

    def close(self) -> None:
        """Ends the spans of runs that have no end yet, as interrupted. Call it when the process stops."""
        while self._runs:
            self._runs.popitem()[1].interrupt()


@dataclass(slots=True)
class _Counted:
    """What a run did, in numbers."""

    usage: RunUsage = field(default_factory=RunUsage)
    steps: int = 0
    retries: int = 0

    @property
    def attributes(self) -> Attributes:
        told = {
            GenAi.INPUT_TOKENS: self.usage.prompt_tokens,
            GenAi.OUTPUT_TOKENS: self.usage.completion_tokens,
            GenAi.CACHED_TOKENS: self.usage.cached_tokens,
            VragAttributes.VISUAL_TOKENS: self.usage.visual_tokens,
            VragAttributes.COST: self.usage.cost,
            VragAttributes.STEPS: self.steps,
            VragAttributes.RETRIES: self.retries,
        }
        return {name: value for name, value in told.items() if value is not None}


class _Run:
    """The open spans of one run."""

    def __init__(self, tracer: Tracer, started: RunStarted, *, content: bool) -> None:
        from opentelemetry.trace import SpanKind

        settings = started.settings
        self._tracer, self._content, self._kinds = tracer, content, SpanKind
        self._served = settings.policy.startswith(_SERVED_POLICY)
        self._model = str(settings.sampling.get("model") or settings.policy.removeprefix(_SERVED_POLICY))
        self._shared: Attributes = {
            GenAi.PROVIDER: SERVED if self._served else OURS,
            GenAi.CONVERSATION: started.session or started.run_id,
            VragAttributes.RUN: started.run_id,
        }
        self._counted = _Counted()
        self._last = started.ts
        self._chat: _ModelCall | None = None
        self._tool: _Tool | None = None
        about: Attributes = {
            GenAi.AGENT_NAME: settings.agent,
            GenAi.AGENT_VERSION: __version__,
            GenAi.MODEL: self._model,
            VragAttributes.PROFILE: settings.profile,
            VragAttributes.COLLECTION: started.collection,
        }
        if content:
            about[GenAi.INPUT_MESSAGES] = _message("user", started.question)
        self._root = self._span("invoke_agent", settings.agent, started.ts, about, None)

    def take(self, event: Event) -> bool:
        """Whether the run is over with this event."""
        if event.step > self._counted.steps:
            self._begin_call(event.step)
        if self._tool is not None and isinstance(event, ThoughtDelta | ModelRetried | ModelCalled):
            self._tool.close(self._last, None)  # RAG searches before it asks
            self._tool = None
        match event:
            case ModelCalled() | ModelRetried() | UsageReported():
                self._called(event)
            case SearchRequested() | CropRequested() | ActionRequested():
                self._begin_tool(event)
            case InvalidAction():
                self._refused(event)
            case AnswerGiven() | RunFailed():
                self._end(event)
                return True
            case _ if self._tool is not None:
                self._tool.take(event, content=self._content)
            case _:
                pass
        self._last = event.ts
        return False

    def interrupt(self) -> None:
        """The run will have no end."""
        self._close(self._last, "interrupted")
        self._root.set_attribute(VragAttributes.INTERRUPTED, True)
        _finish(self._root, self._last, self._counted.attributes, "interrupted")

    def _begin_call(self, step: int) -> None:
        """A model call begins: where the step before it ended."""
        self._close(self._last, None)
        self._counted.steps = step
        kind = self._kinds.CLIENT if self._served else None
        about: Attributes = {GenAi.MODEL: self._model, VragAttributes.STEP: step}
        self._chat = _ModelCall(self._span("chat", self._model, self._last, about, kind))

    def _called(self, event: ModelCalled | ModelRetried | UsageReported) -> None:
        """What is told of a call; with its usage it is complete."""
        call = self._chat
        if isinstance(event, UsageReported):
            self._counted.usage = self._counted.usage.plus(event)
            if self._tool is not None:
                self._tool.until = event.ts
        elif isinstance(event, ModelRetried):
            self._counted.retries += 1
        if call is None:
            return
        match event:
            case ModelCalled():
                call.replied(event, content=self._content)
            case ModelRetried():
                call.retried(event, content=self._content)
            case UsageReported():
                call.cost(event)
                self._chat = None

    def _begin_tool(self, event: SearchRequested | CropRequested | ActionRequested) -> None:
        name, kind, arguments = _tool(event)
        about: Attributes = {GenAi.TOOL_NAME: name, GenAi.TOOL_TYPE: kind, VragAttributes.STEP: event.step}
        if self._content:
            about[GenAi.TOOL_ARGUMENTS] = _json(arguments)
        self._tool = _Tool(self._span("execute_tool", name, event.ts, about, None))

    def _refused(self, event: InvalidAction) -> None:
        """A reply was not carried out: a fault of the action, or of the reply where there is none."""
        reason = event.reason if self._content else ""
        if self._tool is not None:
            self._tool.fault = ("invalid_action", reason)
        elif self._chat is not None:
            self._chat.refused(event.ts, reason)

    def _end(self, event: AnswerGiven | RunFailed) -> None:
        about = self._counted.attributes | {VragAttributes.STOP_REASON: event.stop_reason.value}
        if isinstance(event, RunFailed):
            self._close(event.ts, event.boundary, in_tool=event.stop_reason is StopReason.SEARCH_ERROR)
            _finish(self._root, event.ts, about, event.boundary, event.message if self._content else "")
            return
        broken = self._chat is not None or (self._tool is not None and self._tool.until is None)
        self._close(event.ts, event.stop_reason.value if broken else None)
        about[VragAttributes.EVIDENCE] = len(event.evidence)
        if self._content:
            about[GenAi.OUTPUT_MESSAGES] = _message("assistant", event.text or "", event.stop_reason.value)
        _finish(self._root, event.ts, about)

    def _close(self, ts: float, fault: str | None, *, in_tool: bool = True) -> None:
        """Ends what is open beneath the run.

        Args:
            ts: When, for what has no end of its own.
            fault: Why it was cut off, if it was.
            in_tool: Whether an action that has ended may be to blame.
        """
        if self._chat is not None:
            self._chat.close(ts, fault)
        if self._tool is not None:
            blamed = in_tool or self._tool.until is None
            self._tool.close(ts, fault if blamed else None)
        self._chat = self._tool = None

    def _span(self, operation: str, name: str, ts: float, about: Attributes, kind: SpanKind | None) -> Span:
        """A span that begins; the first is the parent of all."""
        from opentelemetry.trace import set_span_in_context

        root: Span | None = getattr(self, "_root", None)
        return self._tracer.start_span(
            f"{operation} {name}",
            context=None if root is None else set_span_in_context(root),
            kind=kind or self._kinds.INTERNAL,
            attributes=self._shared | {GenAi.OPERATION: operation} | about,
            start_time=_ns(ts),
        )


@dataclass(slots=True)
class _ModelCall:
    """A model call that is open."""

    span: Span
    until: float | None = None
    """When the reply was complete."""

    def replied(self, event: ModelCalled, *, content: bool) -> None:
        self.until = event.ts
        about: Attributes = {GenAi.FINISH_REASONS: [event.finish.value]}
        for name, (attribute, kind) in _SAMPLING.items():
            if isinstance(value := event.sampling.get(name), int | float):
                about[attribute] = kind(value)
        if content:
            about[GenAi.OUTPUT_MESSAGES] = _message("assistant", event.reply, event.finish.value)
        self.span.set_attributes(about)

    def retried(self, event: ModelRetried, *, content: bool) -> None:
        about: dict[str, str | float] = {VragAttributes.RETRY_PAUSE: event.seconds}
        if content:
            about[VragAttributes.REASON] = event.reason
        self.span.add_event("retry", about, _ns(event.ts))

    def refused(self, ts: float, reason: str) -> None:
        self.span.set_attribute(VragAttributes.REFUSED, True)
        self.span.add_event("refused", {VragAttributes.REASON: reason} if reason else {}, _ns(ts))

    def cost(self, event: UsageReported) -> None:
        told = {
            GenAi.INPUT_TOKENS: event.prompt_tokens,
            GenAi.OUTPUT_TOKENS: event.completion_tokens,
            GenAi.CACHED_TOKENS: event.cached_tokens,
            VragAttributes.VISUAL_TOKENS: event.visual_tokens,
            VragAttributes.COST: event.cost,
        }
        _finish(self.span, self.until or event.ts, {n: v for n, v in told.items() if v is not None})

    def close(self, ts: float, fault: str | None) -> None:
        """Without its usage."""
        _finish(self.span, self.until or ts, {}, None if self.until else fault)


@dataclass(slots=True)
class _Tool:
    """An action that is open."""

    span: Span
    until: float | None = None
    """When its step ended."""
    shown: int = 0
    """Pictures and passages that it brought."""
    fault: tuple[str, str] | None = None

    def take(self, event: Event, *, content: bool) -> None:
        """What it brought."""
        match event:
            case SearchReturned():
                self.span.set_attributes(
                    {VragAttributes.HITS: len(event.hits), VragAttributes.DAMAGED: len(event.damaged)}
                )
                if content:
                    hits = [{"id": hit.item, "score": hit.score} for hit in event.hits]
                    self.span.set_attribute(GenAi.TOOL_RESULT, _json(hits))
            case ActionReturned():
                self.span.set_attribute(VragAttributes.DAMAGED, len(event.damaged))
                if content:
                    self.span.set_attribute(GenAi.TOOL_RESULT, _json(event.texts))
            case ImageShown() | PassageShown():
                self.shown += 1
            case _:
                pass

    def close(self, ts: float, fault: str | None) -> None:
        kind, reason = self.fault or (fault, "")
        _finish(self.span, self.until or ts, {VragAttributes.SHOWN: self.shown}, kind, reason)


def _tool(event: SearchRequested | CropRequested | ActionRequested) -> tuple[str, str, dict[str, Any]]:
    """Name, type and arguments of an action."""
    match event:
        case SearchRequested():
            return "search", "datastore", {"query": event.query}
        case CropRequested():
            return "crop", "function", {"image": event.image, "label": event.label, "box": event.box}
        case ActionRequested():
            return event.name, "extension", {"text": event.text}


def _finish(
    span: Span, ts: float, about: Mapping[str, Any], fault: str | None = None, message: str = ""
) -> None:
    """Ends a span; as an error where something is at fault."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes(about)
    if fault is not None:
        span.set_attribute(Error.TYPE, fault)
        span.set_status(Status(StatusCode.ERROR, message or None))
    span.end(_ns(ts))


def _ns(ts: float) -> int:
    return round(ts * 1e9)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _message(role: str, text: str, finish: str | None = None) -> str:
    """One message, in the shape of the conventions."""
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return _json([message if finish is None else message | {"finish_reason": finish}])
