"""Spans of OpenTelemetry, made of the events of runs.

A run is a span `invoke_agent vrag`; each model call is a child of it (`chat MODEL`), and so is each search,
crop or other action (`execute_tool search`). Times are those of the events: a model call begins where the
step before it ended, an action at its request, and it ends with its step, when all its results can be shown.

Questions, replies, queries and answers stay out, unless content is asked for; pictures stay out
always. Messages of errors are content too: a server may repeat its input in them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag import __version__
from vrag.agent import events
from vrag.agent.events import Event
from vrag.agent.runs.run_result import RunUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span, SpanKind, Tracer


class GenAi:
    """Attributes of OpenTelemetry's conventions for generative AI.

    The conventions are still being developed and move between packages; a test compares these names with the
    package that is installed.
    """

    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    CONVERSATION = "gen_ai.conversation.id"
    AGENT_NAME = "gen_ai.agent.name"
    AGENT_VERSION = "gen_ai.agent.version"
    MODEL = "gen_ai.request.model"
    TEMPERATURE = "gen_ai.request.temperature"
    TOP_P = "gen_ai.request.top_p"
    TOP_K = "gen_ai.request.top_k"
    SEED = "gen_ai.request.seed"
    MAX_TOKENS = "gen_ai.request.max_tokens"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    TOOL_NAME = "gen_ai.tool.name"
    TOOL_TYPE = "gen_ai.tool.type"
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
    TOOL_RESULT = "gen_ai.tool.call.result"
    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"


class VragAttributes:
    """Attributes of vrag."""

    RUN = "vrag.run.id"
    COLLECTION = "vrag.collection.version"
    PROFILE = "vrag.profile"
    STOP_REASON = "vrag.stop_reason"
    INTERRUPTED = "vrag.interrupted"
    STEP = "vrag.step"
    STEPS = "vrag.steps"
    EVIDENCE = "vrag.evidence.count"
    VISUAL_TOKENS = "vrag.usage.visual_tokens"
    COST = "vrag.usage.cost"
    RETRIES = "vrag.retries"
    RETRY_PAUSE = "vrag.retry.pause"
    REFUSED = "vrag.action.refused"
    REASON = "vrag.reason"
    HITS = "vrag.search.hits"
    SHOWN = "vrag.shown"
    DAMAGED = "vrag.damaged"


Attributes: TypeAlias = "dict[str, str | int | float | bool | list[str]]"

ERROR_TYPE = "error.type"
"""Attribute of OpenTelemetry's general conventions."""
SERVED, LOCAL = "openai", "vrag"
"""Providers: of models with OpenAI's API, whoever serves them, and of models in this process."""
_SERVED_POLICY = "chat:"
_SAMPLING = {
    "temperature": (GenAi.TEMPERATURE, float),
    "top_p": (GenAi.TOP_P, float),
    "top_k": (GenAi.TOP_K, int),
    "seed": (GenAi.SEED, int),
    "max_tokens": (GenAi.MAX_TOKENS, int),
}
_MAX_OPEN_RUNS = 10_000
"""Limit of open runs. Beyond it the oldest are interrupted: they were abandoned."""


class Spans:
    """An observer of events: call it with each, in the order of its run.

    Runs may be mixed. Events of a run whose beginning was not seen are left out. With `content`, spans hold
    texts: questions, replies, queries, answers, messages of errors.
    """

    def __init__(self, tracer: Tracer, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content
        self._runs: OrderedDict[str, _RunSpans] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Record one event."""
        if isinstance(event, events.RunStarted):
            self._runs[event.run_id] = _RunSpans(self._tracer, event, content=self._content)
            if len(self._runs) > _MAX_OPEN_RUNS:
                self._runs.popitem(last=False)[1].interrupt()
            return
        run = self._runs.get(event.run_id)
        if run is not None and run.take(event):
            del self._runs[event.run_id]

    def close(self) -> None:
        """End the spans of open runs, as interrupted. Call it when the process stops."""
        while self._runs:
            self._runs.popitem()[1].interrupt()


def _usage_attributes(usage: RunUsage | events.UsageReported) -> Attributes:
    values = {
        GenAi.INPUT_TOKENS: usage.prompt_tokens,
        GenAi.OUTPUT_TOKENS: usage.completion_tokens,
        GenAi.CACHED_TOKENS: usage.cached_tokens,
        VragAttributes.VISUAL_TOKENS: usage.visual_tokens,
        VragAttributes.COST: usage.cost,
    }
    return {name: value for name, value in values.items() if value is not None}


class _RunSpans:
    def __init__(self, tracer: Tracer, started: events.RunStarted, *, content: bool) -> None:
        from opentelemetry.trace import SpanKind

        settings = started.settings
        self._tracer, self._content, self._kinds = tracer, content, SpanKind
        self._served = settings.policy.startswith(_SERVED_POLICY)
        self._model = str(settings.sampling.get("model") or settings.policy.removeprefix(_SERVED_POLICY))
        self._shared: Attributes = {
            GenAi.PROVIDER: SERVED if self._served else LOCAL,
            GenAi.CONVERSATION: started.session or started.run_id,
            VragAttributes.RUN: started.run_id,
        }
        self._usage = RunUsage()
        self._steps = self._retries = 0
        self._last = started.ts
        self._chat: _CallSpan | None = None
        self._tool: _ToolSpan | None = None
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

    @property
    def _totals(self) -> Attributes:
        counts: Attributes = {VragAttributes.STEPS: self._steps, VragAttributes.RETRIES: self._retries}
        return _usage_attributes(self._usage) | counts

    def take(self, event: Event) -> bool:
        """Record an event; return whether it ends the run."""
        if event.step > self._steps:  # a model call begins where the step before it ended
            self._close(self._last, None)
            self._steps = event.step
            kind = self._kinds.CLIENT if self._served else None
            about: Attributes = {GenAi.MODEL: self._model, VragAttributes.STEP: event.step}
            self._chat = _CallSpan(self._span("chat", self._model, self._last, about, kind))
        if self._tool is not None and isinstance(
            event, events.ThoughtDelta | events.AnswerDelta | events.ModelRetried | events.ModelCalled
        ):
            self._tool.close(self._last, None)  # RAG searches before it asks
            self._tool = None
        match event:
            case events.ModelCalled() | events.ModelRetried() | events.UsageReported():
                self._called(event)
            case events.SearchRequested() | events.CropRequested() | events.ActionRequested():
                self._begin_tool(event)
            case events.InvalidAction():  # an error of the action, or of the reply where there is none
                reason = event.reason if self._content else ""
                if self._tool is not None:
                    self._tool.fault = ("invalid_action", reason)
                elif self._chat is not None:
                    self._chat.refused(event.ts, reason)
            case events.AnswerGiven() | events.RunFailed():
                self._end(event)
                return True
            case _ if self._tool is not None:
                self._tool.take(event, content=self._content)
            case _:
                pass
        self._last = event.ts
        return False

    def interrupt(self) -> None:
        """End a run that has no end of its own."""
        self._close(self._last, "interrupted")
        self._root.set_attribute(VragAttributes.INTERRUPTED, True)
        _finish(self._root, self._last, self._totals, "interrupted")

    def _called(self, event: events.ModelCalled | events.ModelRetried | events.UsageReported) -> None:
        call = self._chat
        match event:
            case events.ModelCalled():
                if call is not None:
                    call.replied(event, content=self._content)
            case events.ModelRetried():
                self._retries += 1
                if call is not None:
                    call.retried(event, content=self._content)
            case events.UsageReported():  # a call is complete with its usage
                self._usage = self._usage.plus(event)
                if self._tool is not None:
                    self._tool.until = event.ts
                if call is not None:
                    _finish(call.span, call.until or event.ts, _usage_attributes(event))
                self._chat = None

    def _begin_tool(
        self, event: events.SearchRequested | events.CropRequested | events.ActionRequested
    ) -> None:
        arguments: dict[str, Any]
        match event:
            case events.SearchRequested():
                name, kind, arguments = "search", "datastore", {"query": event.query}
            case events.CropRequested():
                name, kind = "crop", "function"
                arguments = {"image": event.image, "label": event.label, "box": event.box}
            case events.ActionRequested():
                name, kind, arguments = event.name, "extension", {"text": event.text}
        about: Attributes = {GenAi.TOOL_NAME: name, GenAi.TOOL_TYPE: kind, VragAttributes.STEP: event.step}
        if self._content:
            about[GenAi.TOOL_ARGUMENTS] = _json(arguments)
        self._tool = _ToolSpan(self._span("execute_tool", name, event.ts, about, None))

    def _end(self, event: events.AnswerGiven | events.RunFailed) -> None:
        about = self._totals | {VragAttributes.STOP_REASON: event.stop_reason.value}
        if isinstance(event, events.RunFailed):
            self._close(event.ts, event.boundary, in_tool=event.stop_reason is events.StopReason.SEARCH_ERROR)
            _finish(self._root, event.ts, about, event.boundary, event.message if self._content else "")
            return
        broken = self._chat is not None or (self._tool is not None and self._tool.until is None)
        self._close(event.ts, event.stop_reason.value if broken else None)
        about[VragAttributes.EVIDENCE] = len(event.evidence)
        if self._content:
            about[GenAi.OUTPUT_MESSAGES] = _message("assistant", event.text or "", event.stop_reason.value)
        _finish(self._root, event.ts, about)

    def _close(self, ts: float, fault: str | None, *, in_tool: bool = True) -> None:
        """End the open spans beneath the run at `ts`, unless they ended before.

        `fault` is why they were cut off, if they were; `in_tool` whether an action that has ended may be to
        blame.
        """
        if self._chat is not None:
            self._chat.close(ts, fault)
        if self._tool is not None:
            blamed = in_tool or self._tool.until is None
            self._tool.close(ts, fault if blamed else None)
        self._chat = self._tool = None

    def _span(self, operation: str, name: str, ts: float, about: Attributes, kind: SpanKind | None) -> Span:
        """Start a span; the first is the parent of all."""
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
class _CallSpan:
    span: Span
    until: float | None = None
    """Time at which the reply was complete."""

    def replied(self, event: events.ModelCalled, *, content: bool) -> None:
        self.until = event.ts
        about: Attributes = {GenAi.FINISH_REASONS: [event.finish.value]}
        for name, (attribute, kind) in _SAMPLING.items():
            if isinstance(value := event.sampling.get(name), int | float):
                about[attribute] = kind(value)
        if content:
            about[GenAi.OUTPUT_MESSAGES] = _message("assistant", event.reply, event.finish.value)
        self.span.set_attributes(about)

    def retried(self, event: events.ModelRetried, *, content: bool) -> None:
        about: dict[str, str | float] = {VragAttributes.RETRY_PAUSE: event.seconds}
        if content:
            about[VragAttributes.REASON] = event.reason
        self.span.add_event("retry", about, _ns(event.ts))

    def refused(self, ts: float, reason: str) -> None:
        self.span.set_attribute(VragAttributes.REFUSED, True)
        self.span.add_event("refused", {VragAttributes.REASON: reason} if reason else {}, _ns(ts))

    def close(self, ts: float, fault: str | None) -> None:
        """End the span without its usage."""
        _finish(self.span, self.until or ts, {}, None if self.until else fault)


@dataclass(slots=True)
class _ToolSpan:
    span: Span
    until: float | None = None
    """Time at which its step ended."""
    shown: int = 0
    """Number of pictures and passages in its results."""
    fault: tuple[str, str] | None = None

    def take(self, event: Event, *, content: bool) -> None:
        """Record an event of its results."""
        match event:
            case events.SearchReturned():
                self.span.set_attributes(
                    {VragAttributes.HITS: len(event.hits), VragAttributes.DAMAGED: len(event.damaged)}
                )
                if content:
                    hits = [{"id": hit.item, "score": hit.score} for hit in event.hits]
                    self.span.set_attribute(GenAi.TOOL_RESULT, _json(hits))
            case events.ActionReturned():
                self.span.set_attribute(VragAttributes.DAMAGED, len(event.damaged))
                if content:
                    self.span.set_attribute(GenAi.TOOL_RESULT, _json(event.texts))
            case events.ImageShown() | events.PassageShown():
                self.shown += 1
            case _:
                pass

    def close(self, ts: float, fault: str | None) -> None:
        kind, reason = self.fault or (fault, "")
        _finish(self.span, self.until or ts, {VragAttributes.SHOWN: self.shown}, kind, reason)


def _finish(
    span: Span, ts: float, about: Mapping[str, Any], fault: str | None = None, message: str = ""
) -> None:
    """End a span; as an error where there is a fault."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes(about)
    if fault is not None:
        span.set_attribute(ERROR_TYPE, fault)
        span.set_status(Status(StatusCode.ERROR, message or None))
    span.end(_ns(ts))


def _ns(ts: float) -> int:
    return round(ts * 1e9)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _message(role: str, text: str, finish: str | None = None) -> str:
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return _json([message if finish is None else message | {"finish_reason": finish}])
