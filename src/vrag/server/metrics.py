"""What a server counts, for Prometheus. Each application has a registry of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

__all__ = ["CONTENT_TYPE", "ServerMetrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_RUN_SECONDS = (0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)


class ServerMetrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory, processor time, open files; on Linux
        self._requests = Counter(
            "vrag_requests",
            "Requests answered, by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "vrag_request_seconds",
            "Time from a request's head to the end of its response, in seconds.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.batch_queries = Histogram(
            "vrag_search_batch_queries",
            "Queries that were searched in one call.",
            buckets=_QUERIES,
            registry=self._registry,
        )
        self.batch_seconds = Histogram(
            "vrag_search_batch_seconds",
            "Time of one call of the searcher, in seconds.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.waiting_queries = Gauge(
            "vrag_search_waiting_queries", "Queries that wait for their batch.", registry=self._registry
        )
        self.waiting_items = Gauge(
            "vrag_items_waiting", "Requests for items that wait or are worked on.", registry=self._registry
        )

        self._refused = Counter(
            "vrag_refused",
            "What was refused before any route, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self._of_runs()

    def _of_runs(self) -> None:
        self._started = Counter(
            "vrag_runs_started", "Runs that began, by agent.", ("agent",), registry=self._registry
        )
        self._ended = Counter(
            "vrag_runs_ended",
            "Runs that ended, by agent and reason.",
            ("agent", "reason"),
            registry=self._registry,
        )
        self._running = Gauge("vrag_runs_running", "Runs that go on.", registry=self._registry)
        self._run_seconds = Histogram(
            "vrag_run_seconds",
            "Time from a run's begin to its end, in seconds.",
            ("agent",),
            buckets=_RUN_SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter("vrag_tokens", "Tokens of runs, by kind.", ("kind",), registry=self._registry)
        self.streams = Gauge("vrag_streams", "Streams of events that are followed.", registry=self._registry)
        self.events = Counter("vrag_stream_events", "Events that were sent.", registry=self._registry)
        self._uploads = Counter(
            "vrag_uploads",
            "Documents that were sent, by how that ended.",
            ("state",),
            registry=self._registry,
        )

    def run_started(self, agent: str) -> None:
        """Counts a run that begins."""
        self._started.labels(agent).inc()
        self._running.inc()

    def run_ended(self, agent: str, reason: str, seconds: float) -> None:
        """Counts a run that ends.

        Args:
            agent: As when it began.
            reason: Its stop reason, or a word for how it ended without one.
            seconds: How long it took.
        """
        self._ended.labels(agent, reason).inc()
        self._running.dec()
        self._run_seconds.labels(agent).observe(seconds)

    def used(self, *, prompt: int = 0, completion: int = 0, visual: int = 0) -> None:
        """Counts tokens of calls of a model; those of pictures are part of the prompt's."""
        for kind, number in (("prompt", prompt), ("completion", completion), ("visual", visual)):
            self._tokens.labels(kind).inc(number)

    def upload_ended(self, state: str) -> None:
        """Counts a document that was sent, with the state that its job ended in."""
        self._uploads.labels(state).inc()

    def refused(self, reason: str) -> None:
        """Counts what was refused, with one word for why."""
        self._refused.labels(reason).inc()

    def answered(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Counts a request.

        Args:
            route: The route's template, never the address asked for: clients do not make series.
            method: As sent; unknown ones count as one.
            status: Of the response; 499 when the client left before it.
            seconds: How long it took; None for a stream, whose end says nothing about the server.
        """
        known = method if method in {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"} else "other"
        self._requests.labels(route, known, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
