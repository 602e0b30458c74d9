"""Prometheus metrics, one registry for each application, and the security headers of every response."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from vrag.agent.events import AnswerGiven, Event, RunFailed, RunStarted, UsageReported
from vrag.reading.page_faults import FAULT_COUNTS, UnreadPart

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_LEFT_STATUS = 499
"""Status of a request whose client left before the response."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_RUN_SECONDS = (0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)
_STRICT_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"
"""Pictures and texts come from documents that nobody has checked."""
_POLICY = b"content-security-policy"
_COMMON: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
_UNCACHED_TYPES = (b"application/json", b"text/event-stream", b"text/plain")
_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})


class ServerMetrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory, processor time, open files; on Linux
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        route_labels = ("route", "method", "status")
        self._requests = counter("vrag_requests", "Requests by route, method and status.", route_labels)
        self._seconds = histogram(
            "vrag_request_seconds",
            "Time from a request's head to the end of its response, in seconds.",
            ("route",),
            buckets=_SECONDS,
        )
        self._refused = counter("vrag_refused", "Requests refused before any route, by reason.", ("reason",))
        self.batch_queries = histogram(
            "vrag_search_batch_queries", "Queries per call of the searcher.", buckets=_QUERIES
        )
        self.batch_seconds = histogram(
            "vrag_search_batch_seconds", "Time of one call of the searcher, in seconds.", buckets=_SECONDS
        )
        self.waiting_queries = gauge("vrag_search_waiting_queries", "Queries waiting for their batch.")
        self.waiting_items = gauge("vrag_items_waiting", "Requests for items that wait or are processed.")
        self.runs_started = counter("vrag_runs_started", "Runs started, by agent.", ("agent",))
        self.runs_ended = counter("vrag_runs_ended", "Runs ended, by agent and reason.", ("agent", "reason"))
        self.runs_running = gauge("vrag_runs_running", "Runs in progress.")
        self.runs_waiting = gauge("vrag_runs_waiting", "Runs that wait for others to end.")
        self.run_seconds = histogram(
            "vrag_run_seconds", "Duration of a run, in seconds.", ("agent",), buckets=_RUN_SECONDS
        )
        self.tokens = counter("vrag_tokens", "Tokens of runs, by kind.", ("kind",))
        self.streams = gauge("vrag_streams", "Open streams of events.")
        self.events = counter("vrag_stream_events", "Events sent.")
        self._uploads = counter("vrag_uploads", "Uploaded documents, by final state.", ("state",))
        self._registry.register(PageFaultCollector())

    def upload_ended(self, state: str) -> None:
        """Count an uploaded document, with the final state of its job."""
        self._uploads.labels(state).inc()

    def refused(self, reason: str) -> None:
        """Count a refused request or connection, with one word for the reason."""
        self._refused.labels(reason).inc()

    def answered(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count a request; `seconds` is None for a stream, whose end says nothing about the server.

        The route is a template, never the path of the request: clients must not make series.
        """
        self._requests.labels(route, method if method in _KNOWN_METHODS else "other", str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Render all of them in Prometheus' text format."""
        return generate_latest(self._registry)


class PageFaultCollector(Collector):
    """The faults of the parts that read pages, since the process began."""

    def collect(self) -> Iterable[Metric]:
        """Return the counter, by part."""
        faults = CounterMetricFamily(
            "vrag_page_faults",
            "Pages of which a part could not be read, by a fault of vrag.",
            labels=("part",),
        )
        for part in UnreadPart:
            faults.add_metric([part.value], FAULT_COUNTS[part])
        return [faults]


class RunCounter:
    """An observer of events that counts runs and their tokens; those of pictures are part of the prompt's."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._running: dict[str, RunStarted] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        metrics = self._metrics
        match event:
            case RunStarted():
                self._running[event.run_id] = event
                metrics.runs_started.labels(event.settings.agent).inc()
                metrics.runs_running.inc()
            case UsageReported():
                metrics.tokens.labels("prompt").inc(event.prompt_tokens or 0)
                metrics.tokens.labels("completion").inc(event.completion_tokens or 0)
                metrics.tokens.labels("visual").inc(event.visual_tokens)
            case AnswerGiven() | RunFailed():
                started = self._running.pop(event.run_id)
                agent = started.settings.agent
                metrics.runs_ended.labels(agent, event.stop_reason).inc()
                metrics.runs_running.dec()
                metrics.run_seconds.labels(agent).observe(event.ts - started.ts)
            case _:
                pass


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers that it lacks; a route sets its own first.

    A policy with `sandbox` goes without Cross-Origin-Opener-Policy: by the HTML standard a browser opens
    nothing that has both.
    """
    present = list(headers)
    values = {name.lower(): value for name, value in present}
    policy = values.get(_POLICY, _STRICT_POLICY)
    wanted = [*_COMMON, (_POLICY, policy)]
    if b"sandbox" not in policy:
        wanted.append((b"cross-origin-opener-policy", b"same-origin"))
    if values.get(b"content-type", b"").startswith(_UNCACHED_TYPES):
        wanted.append((b"cache-control", b"no-store"))
    return [*present, *((name, value) for name, value in wanted if name not in values)]


def route_template(scope: Scope) -> str:
    """Return the template of the route that handled a request; call it after the response.

    `none` means that the request reached no route: it was refused before, or its path is unknown. FastAPI
    notes its own routes in the scope. Those of Starlette, such as mounted files, are looked up in the
    application's list: `/static/{path}`. The path itself is never used: clients choose it.
    """
    route = scope.get("route")
    if route is None and (endpoint := scope.get("endpoint")) is not None:
        for known in getattr(scope.get("app"), "routes", ()):
            if (getattr(known, "endpoint", None) or getattr(known, "app", None)) is endpoint:
                route = known
                break
    return str(getattr(route, "path_format", "none"))
