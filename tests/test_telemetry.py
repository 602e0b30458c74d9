"""Runs as spans: what is told, what is never told, and that nobody waits for a collector."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observed_runs import ENVIRONMENT, RUNS, SCRIPT, SECRET, Telling, ns, run
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    AnswerGiven,
    Event,
    ImageShown,
    InvalidAction,
    ModelRetried,
    RunStarted,
    SearchRequested,
    StopReason,
    UsageReported,
)
from vrag.agent.methods.baselines import Rag
from vrag.agent.methods.vrag import VragMethod
from vrag.errors import ModelError, SearchError
from vrag.model_profiles import PROFILES
from vrag.telemetry.spans import ERROR_TYPE, GenAi, Spans
from vrag.telemetry.spans import VragAttributes as Ours
from vrag.testing import MemorySearcher, ScriptedPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.policy import Policy
    from vrag.types import Hit, Query


class Broken(MemorySearcher):
    """Finds nothing, since it is broken."""

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        raise SearchError(f"It broke over {SECRET}.")


def folded(*events: Event, content: bool = False, close: bool = True) -> list[ReadableSpan]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider.get_tracer("test"), content=content)
    for event in events:
        spans(event)
    if close:
        spans.close()
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def written(spans: Sequence[ReadableSpan]) -> str:
    return "\n".join(span.to_json() for span in spans)


def test_a_run_is_a_tree_of_calls_and_tools() -> None:
    events = run()
    spans = folded(*events, close=False)
    assert sorted(span.name for span in spans) == sorted(
        ["invoke_agent vrag", *["chat qwen"] * 4, "execute_tool search", "execute_tool crop"]
    )
    root = named(spans, "invoke_agent vrag")[0]
    assert root.parent is None
    for span in spans:
        if span is not root:
            assert span.parent is not None
            assert span.parent.span_id == root.get_span_context().span_id  # pyright: ignore[reportOptionalMemberAccess]
    assert told(root)[GenAi.AGENT_NAME] == "vrag"
    assert told(root)[Ours.STOP_REASON] == "answered"
    assert told(root)[GenAi.INPUT_TOKENS] == 1000
    assert told(root)[GenAi.OUTPUT_TOKENS] == 10
    assert told(root)[Ours.STEPS] == 4
    assert told(root)[Ours.RETRIES] == 1
    assert root.status.status_code is StatusCode.UNSET


def test_every_span_says_operation_provider_and_conversation() -> None:
    events = run()
    for span in folded(*events):
        operation, _, _ = span.name.partition(" ")
        assert told(span)[GenAi.OPERATION] == operation
        assert told(span)[GenAi.PROVIDER] == "openai"
        assert told(span)[GenAi.CONVERSATION] == events[0].run_id
        assert span.kind is (SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL)


def test_a_follow_up_has_the_conversation_of_its_session() -> None:
    events = run()
    assert isinstance(events[0], RunStarted)
    spans = folded(events[0].model_copy(update={"session": "20260101-000000-000000-aaaa"}), *events[1:])
    assert {told(span)[GenAi.CONVERSATION] for span in spans} == {"20260101-000000-000000-aaaa"}
    assert {told(span)[Ours.RUN] for span in spans} == {events[0].run_id}


def test_times_are_those_of_the_events() -> None:
    events = run()
    spans = folded(*events)
    root, calls = named(spans, "invoke_agent vrag")[0], named(spans, "chat qwen")
    assert (root.start_time, root.end_time) == (ns(events[0].ts), ns(events[-1].ts))
    ends = [event for event in events if isinstance(event, UsageReported)]
    begins = [ns(events[0].ts), *(ns(end.ts) for end in ends)]
    assert [call.start_time for call in calls] == begins[: len(calls)]
    replies = [ns(event.ts) for event in events if event.type == "model_called"]
    assert [call.end_time for call in calls] == replies
    search = named(spans, "execute_tool search")[0]
    asked = next(event for event in events if isinstance(event, SearchRequested))
    assert (search.start_time, search.end_time) == (ns(asked.ts), ns(ends[0].ts))


def test_a_call_says_how_it_was_sampled_and_what_it_cost() -> None:
    call = named(folded(*run()), "chat qwen")[1]
    assert (
        told(call).items()
        >= {
            GenAi.MODEL: "qwen",
            GenAi.TEMPERATURE: 0.0,
            GenAi.TOP_P: 0.9,
            GenAi.SEED: 7,
            GenAi.MAX_TOKENS: 512,
            GenAi.INPUT_TOKENS: 200,
            GenAi.OUTPUT_TOKENS: 2,
            GenAi.CACHED_TOKENS: 10,
            GenAi.FINISH_REASONS: ("stop",),
            Ours.STEP: 2,
        }.items()
    )
    assert told(call)[Ours.VISUAL_TOKENS] > 0


def test_a_retry_is_an_event_of_its_call() -> None:
    events = run()
    call = named(folded(*events), "chat qwen")[0]
    retried = next(event for event in events if isinstance(event, ModelRetried))
    [seen] = call.events
    assert (seen.name, seen.timestamp) == ("retry", ns(retried.ts))
    assert dict(seen.attributes or {}) == {Ours.RETRY_PAUSE: 0.5}


def test_a_reply_that_is_not_carried_out_is_marked() -> None:
    spans = folded(*run())
    refused = [Ours.REFUSED in told(call) for call in named(spans, "chat qwen")]
    assert refused == [False, True, False, False]
    assert told(named(spans, "execute_tool search")[0])[Ours.HITS] == 1
    assert told(named(spans, "execute_tool crop")[0])[Ours.SHOWN] == 1


@pytest.mark.parametrize("content", [False, True])
def test_texts_are_told_only_where_content_is_asked_for(content: bool) -> None:
    events = [*run(), *run(environment=Environment(Broken(()), PROFILES["qwen2.5-vl"]))]
    events = [e.model_copy(update={"reason": SECRET}) if isinstance(e, InvalidAction) else e for e in events]
    assert SECRET in "".join(event.model_dump_json() for event in events)
    assert (SECRET in written(folded(*events, content=content))) == content


def test_content_is_texts_in_the_shape_of_the_conventions_and_no_pictures() -> None:
    events = run()
    spans = folded(*events, content=True)
    root, call = named(spans, "invoke_agent vrag")[0], named(spans, "chat qwen")[0]
    assert json.loads(told(root)[GenAi.INPUT_MESSAGES]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"How many {SECRET}?"}]}
    ]
    [answer] = json.loads(told(root)[GenAi.OUTPUT_MESSAGES])
    assert answer["parts"][0]["content"] == f"48,200 {SECRET}"
    assert json.loads(told(call)[GenAi.OUTPUT_MESSAGES])[0]["parts"][0]["content"] == SCRIPT[0]
    search = told(named(spans, "execute_tool search")[0])
    assert json.loads(search[GenAi.TOOL_ARGUMENTS]) == {"query": f"ferry {SECRET}"}
    assert "base64" not in written(spans)


@pytest.mark.parametrize(
    ("policy", "environment", "faulty"),
    [
        (ScriptedPolicy((ModelError(SECRET),), name="chat:qwen"), ENVIRONMENT, "chat qwen"),
        (Telling(), Environment(Broken(()), PROFILES["qwen2.5-vl"]), "execute_tool search"),
    ],
    ids=["model", "search"],
)
def test_a_failure_is_the_status_of_what_failed_and_of_the_run(
    policy: Policy, environment: Environment, faulty: str
) -> None:
    events = run(policy, environment)
    spans = folded(*events)
    failed = {span.name for span in spans if span.status.status_code is StatusCode.ERROR}
    assert failed == {faulty, "invoke_agent vrag"}
    assert SECRET not in written(spans)
    root = named(spans, "invoke_agent vrag")[0]
    assert told(root)[ERROR_TYPE] in {"ModelError", "SearchError"}
    assert told(root)[Ours.STOP_REASON] in {"model_error", "search_error"}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=1), "out_of_steps"),
        (Limits(steps=2), "out_of_steps"),
        (Limits(visual_tokens=1), "out_of_budget"),
    ],
)
def test_a_limit_is_an_attribute_and_no_error(limits: Limits, reason: str) -> None:
    spans = folded(*run(limits=limits))
    assert told(named(spans, "invoke_agent vrag")[0])[Ours.STOP_REASON] == reason
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}


def test_a_cancelled_run_ends_the_call_that_was_under_way() -> None:
    async def cancelled() -> list[Event]:
        cancel, seen = asyncio.Event(), list[Event]()
        async for event in Agent(Telling(), ENVIRONMENT, VragMethod()).astream("?", cancel=cancel):
            seen.append(event)
            if event.type == "model_called":
                cancel.set()
        return seen

    events = asyncio.run(cancelled())
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    assert end.stop_reason is StopReason.CANCELLED
    spans = folded(*events, close=False)
    root = named(spans, "invoke_agent vrag")[0]
    assert told(root)[Ours.STOP_REASON] == "cancelled"
    assert root.status.status_code is StatusCode.UNSET
    assert len(named(spans, "chat qwen")) == 1


def test_an_action_of_others_is_a_tool_that_extends() -> None:
    events = run()
    at: dict[str, Any] = {"run_id": events[0].run_id, "seq": 5, "ts": events[2].ts, "step": 1}
    asked = ActionRequested(**at, name="weigh", text=SECRET)
    spans = folded(*events[:2], asked, ActionReturned(**at, items=(), texts=(SECRET,)))
    [tool] = named(spans, "execute_tool weigh")
    assert told(tool)[GenAi.TOOL_TYPE] == "extension"
    assert SECRET not in written(spans)


@pytest.mark.parametrize("length", range(1, 12))
def test_a_run_without_an_end_is_told_as_interrupted(length: int) -> None:
    events = run()[:length]
    spans = folded(*events)
    root = named(spans, "invoke_agent vrag")[0]
    assert told(root)[Ours.INTERRUPTED] is True
    assert root.status.status_code is StatusCode.ERROR
    assert root.end_time == ns(events[-1].ts)
    assert all((span.end_time or 0) <= ns(events[-1].ts) for span in spans)


@given(st.lists(st.booleans(), max_size=60))
def test_mixed_runs_are_told_as_if_each_were_alone(order: list[bool]) -> None:
    first, second = RUNS
    mixed, waiting = list[Event](), [list(first), list(second)]
    for which in order:
        if waiting[which]:
            mixed.append(waiting[which].pop(0))
    mixed += waiting[0] + waiting[1]
    spans = folded(*mixed)
    for events in (first, second):
        mine = [span for span in spans if told(span)[Ours.RUN] == events[0].run_id]
        assert [_shape(span) for span in mine] == [_shape(span) for span in folded(*events)]
        assert len({_trace(span) for span in mine}) == 1
    assert len({_trace(span) for span in spans}) == 2


def _shape(span: ReadableSpan) -> tuple[Any, ...]:
    return span.name, span.start_time, span.end_time, told(span)


def _trace(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def test_a_run_whose_beginning_was_not_seen_is_left_out() -> None:
    assert folded(*run()[1:]) == []


def test_our_own_models_are_no_provider_elsewhere() -> None:
    spans = folded(*run(ScriptedPolicy(SCRIPT)))
    assert {told(span)[GenAi.PROVIDER] for span in spans} == {"vrag"}
    assert {span.kind for span in spans} == {SpanKind.INTERNAL}


def test_names_are_those_of_the_installed_conventions() -> None:
    module: Any = importlib.import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {getattr(module, name) for name in dir(module) if name.startswith("GEN_AI_")}
    assert {value for name, value in vars(GenAi).items() if name.isupper()} <= known
    general: Any = importlib.import_module("opentelemetry.semconv.attributes.error_attributes")
    assert ERROR_TYPE == general.ERROR_TYPE


def test_a_search_before_the_call_ends_with_it_and_is_not_blamed_for_the_reply() -> None:
    events = list(Agent(ScriptedPolicy(("no action",)), ENVIRONMENT, Rag()).stream(f"{SECRET} ferry"))
    (search,) = named(folded(*events), "execute_tool search")
    assert search.end_time == ns(max(event.ts for event in events if isinstance(event, ImageShown)))
    assert search.status.is_unset
