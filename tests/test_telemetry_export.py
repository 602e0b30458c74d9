"""What the environment asks for: spans that arrive at a collector, or a reason why not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from observed_runs import RUNS, SECRET, ns, run
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from vrag.telemetry import observer_from_environment
from vrag.telemetry.spans import VragAttributes as Ours

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from vrag.agent.events import Event


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
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "unknown exporter 'zipkin'"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "'grpc' is not supported",
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
    first, *rest = RUNS
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


@pytest.mark.slow
def test_what_is_open_when_the_process_ends_is_sent(collector: Collector) -> None:
    done = at_the_end(run()[:9], {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert done.stdout == "done\n"
    root = next(span for span in collector.spans if span.name == "invoke_agent vrag")
    assert Ours.INTERRUPTED in {pair.key for pair in root.attributes}


@pytest.mark.slow
def test_the_console_is_standard_error() -> None:
    done = at_the_end(run(), {"OTEL_TRACES_EXPORTER": "console"})
    assert done.stdout == "done\n"
    assert "invoke_agent vrag" in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.slow
def test_a_collector_that_is_not_there_costs_no_answer() -> None:
    done = at_the_end(run(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert done.stdout == "done\n"
    assert SECRET not in done.stderr
