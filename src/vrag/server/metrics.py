"""What a server counts, for Prometheus. Each application has a registry of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts a request.

        Args:
            route: The route's template, never the address asked for: clients do not make series.
            method: As sent; unknown ones count as one.
            status: Of the response; 499 when the client left before it.
            seconds: How long it took.
        """
        known = method if method in {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"} else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
