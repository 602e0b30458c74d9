"""Runs as spans: what is told, what is never told, and that nobody waits for a collector."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from vrag.agent.environment import Environment
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    AnswerGiven,
    Event,
    InvalidAction,
    ModelRetried,
    RunStarted,
    SearchRequested,
    StopReason,
    UsageReported,
)
from vrag.agent.limits import Limits
from vrag.agent.loop import Agent
from vrag.agent.policy import Delta, FinishReason, Reply, Retry, Tokens
from vrag.agent.vrag import Vrag
from vrag.errors import ModelError, SearchError
from vrag.profiles import PROFILES
from vrag.telemetry import observer_from_environment
from vrag.telemetry.names import Error, GenAi
from vrag.telemetry.names import Vrag as Ours
from vrag.telemetry.spans import Spans
from vrag.testing import MemorySearcher, ScriptedPolicy, page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from vrag.agent.policy import Message, Policy
    from vrag.types import Hit, Query

SECRET = "Xylophone"
"""Stands in all that people, models and documents say."""
SCRIPT = (
    f"<think>{SECRET}</think><search>ferry {SECRET}</search>",
    f"<think>{SECRET}</think><bbox>[0, 0, 400, {SECRET}]</bbox>",
    f"<think>{SECRET}</think><bbox>[0, 0, 400, 60]</bbox>",
    f"<think>{SECRET}</think><answer>48,200 {SECRET}</answer>",
)
CORPUS = MemorySearcher((page(f"{SECRET}.pdf", 1, f"The ferry carried 48,200 {SECRET}"),))
ENVIRONMENT = Environment(CORPUS, PROFILES["qwen2.5-vl"])
SAMPLING = {"model": "qwen", "temperature": 0, "top_p": 0.9, "seed": 7, "max_tokens": 512, "thinking": "on"}


class Telling:
    """A policy that tells its tokens and is asked twice for its first reply."""

    name, sampling = "chat:qwen", SAMPLING

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        if turn == 1:
            yield Retry(f"It said {SECRET}.", 0.5)
        yield Delta(SCRIPT[turn - 1])
        yield Reply(
            SCRIPT[turn - 1], FinishReason.STOP, Tokens(prompt=100 * turn, completion=turn, cached=10)
        )

    async def aclose(self) -> None:
        pass


class Broken(MemorySearcher):
    """Finds nothing, since it is broken."""

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        raise SearchError(f"It broke over {SECRET}.")


def run(
    policy: Policy | None = None, environment: Environment = ENVIRONMENT, limits: Limits | None = None
) -> list[Event]:
    agent = Agent(policy or Telling(), environment, Vrag(), limits)
    return list(agent.stream(f"How many {SECRET}?"))


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


def ns(ts: float) -> int:
    return round(ts * 1e9)


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
    assert told(root)[Error.TYPE] in {"ModelError", "SearchError"}
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
        async for event in Agent(Telling(), ENVIRONMENT, Vrag()).astream("?", cancel=cancel):
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
    first, second = _RUNS
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


_RUNS = (run(), run(ScriptedPolicy(SCRIPT[:2])))


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
    assert Error.TYPE == general.ERROR_TYPE


# What the environment asks for.


class Collector:
    """A real receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.came, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                collector.came.set()
                collector.may_answer.wait(60)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self) -> set[str]:
        return {
            pair.value.string_value
            for request in self.requests
            for resource in request.resource_spans
            for pair in resource.resource.attributes
            if pair.key == "service.name"
        }


@pytest.fixture
def collector() -> Generator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    yield collector
    collector.may_answer.set()
    collector.server.shutdown()
    collector.server.server_close()
    thread.join()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    return monkeypatch


@contextmanager
def observing() -> Generator[Any]:
    observer = observer_from_environment()
    assert observer is not None
    try:
        yield observer
    finally:
        observer.close()


def test_spans_arrive_at_a_collector(bare: pytest.MonkeyPatch, collector: Collector) -> None:
    bare.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    events = run()
    with observing() as observer:
        for event in events:
            observer(event)
    root = next(span for span in collector.spans if span.name == "invoke_agent vrag")
    others = [span for span in collector.spans if span is not root]
    assert {span.parent_span_id for span in others} == {root.span_id}
    assert {span.trace_id for span in others} == {root.trace_id}
    assert len(others) == 6
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (ns(events[0].ts), ns(events[-1].ts))
    assert collector.services == {"vrag"}
    assert SECRET not in str(collector.requests)


@pytest.mark.parametrize(("word", "there"), [("true", True), ("false", False), ("", False), ("yes", False)])
def test_the_variable_of_the_conventions_switches_content_on(
    bare: pytest.MonkeyPatch, collector: Collector, word: str, there: bool
) -> None:
    bare.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    bare.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", word)
    with observing() as observer:
        for event in run():
            observer(event)
    assert collector.spans
    assert (SECRET in str(collector.requests)) == there


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("OTEL_SERVICE_NAME", "desk", "desk"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a", "other"),
    ],
)
def test_the_service_is_named_as_the_environment_says(
    bare: pytest.MonkeyPatch, collector: Collector, variable: str, value: str, name: str
) -> None:
    bare.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    bare.setenv(variable, value)
    with observing() as observer:
        for event in run()[:3]:
            observer(event)
    assert collector.services == {name}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "vrag"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_observed_where_nothing_asks_for_it(
    bare: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        bare.setenv(name, value)
    assert observer_from_environment() is None


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin' is not known"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "'grpc' is not spoken here",
        ),
    ],
)
def test_what_cannot_be_done_is_said_and_hinders_nothing(
    bare: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        bare.setenv(name, value)
    assert observer_from_environment() is None
    assert said in caplog.text


def test_without_the_sdk_the_extra_is_named(
    bare: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bare.setenv("OTEL_TRACES_EXPORTER", "otlp")
    bare.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert observer_from_environment() is None
    assert "pip install 'vrag-agent[otel]'" in caplog.text


def test_a_collector_that_does_not_answer_delays_no_run(
    bare: pytest.MonkeyPatch, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    bare.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    bare.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    collector.may_answer.clear()
    observer = observer_from_environment()
    assert observer is not None
    first, *rest = _RUNS
    for event in first:
        observer(event)
    assert collector.came.wait(60)
    for events in rest:  # all of it while the collector holds what it was sent
        for event in events:
            observer(event)
    observer.close(0.01)
    assert "does not answer" in caplog.text
    collector.may_answer.set()


AT_THE_END = """
import sys
from vrag.agent.events import event_from_json
from vrag.telemetry import observer_from_environment
observer = observer_from_environment()
for line in sys.stdin:
    observer(event_from_json(line))
print("done")
"""


def at_the_end(events: Sequence[Event], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", AT_THE_END],
        input="\n".join(event.model_dump_json() for event in events),
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )


def test_what_is_open_when_the_process_ends_is_sent(collector: Collector) -> None:
    done = at_the_end(run()[:9], {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert done.stdout == "done\n"
    root = next(span for span in collector.spans if span.name == "invoke_agent vrag")
    assert Ours.INTERRUPTED in {pair.key for pair in root.attributes}


def test_the_console_is_standard_error() -> None:
    done = at_the_end(run(), {"OTEL_TRACES_EXPORTER": "console"})
    assert done.stdout == "done\n"
    assert "invoke_agent vrag" in done.stderr
    assert SECRET not in done.stderr


def test_a_collector_that_is_not_there_costs_no_answer() -> None:
    done = at_the_end(run(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert done.stdout == "done\n"
    assert SECRET not in done.stderr
