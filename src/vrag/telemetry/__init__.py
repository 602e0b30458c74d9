"""Runs as traces for OpenTelemetry, exported by its environment variables; none without them."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from vrag import __version__
from vrag.telemetry.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider

    from vrag.agent.events import Event

log = logging.getLogger("vrag.telemetry")

CLOSING_SECONDS = 5.0
"""Time to send the rest when the process ends, which an unreachable collector must not delay further."""
_PREFIX = "OTEL_EXPORTER_OTLP_"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


class Telemetry:
    """An observer of events that sends them as spans of a provider, with texts if `content`.

    A thread of its own sends them from a queue of bounded length: what exceeds it is dropped, and no run
    waits for a slow collector.
    """

    def __init__(self, provider: TracerProvider, *, content: bool = False) -> None:
        self._provider = provider
        self._spans = Spans(provider.get_tracer("vrag", __version__), content=content)
        self._ending, self._ended = threading.Event(), threading.Event()
        # It waits from the beginning: a process that ends can start no thread any more.
        threading.Thread(target=self._end, name="spans-closing", daemon=True).start()

    def __call__(self, event: Event) -> None:
        """Record one event."""
        self._spans(event)

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """End open spans and send the rest within `seconds`. Afterwards nothing is sent."""
        self._spans.close()
        self._ending.set()
        if not self._ended.wait(seconds):
            log.warning("The collector of traces does not answer: spans not sent yet are lost.")

    def _end(self) -> None:
        self._ending.wait()
        self._provider.shutdown()
        self._ended.set()


def observer_from_environment() -> Telemetry | None:
    """Create the observer that the environment asks for; None where it does not.

    `OTEL_TRACES_EXPORTER` names the exporters (`otlp`, `console`, `none`; several with commas between them);
    without it, any variable `OTEL_EXPORTER_OTLP_…` means `otlp`. The rest is read by the SDK itself:
    endpoint, headers, time limits, sampling, sizes of batches, resource attributes. Spans hold texts where
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`. The rest is sent when the process ends.
    """
    wanted = _exporters(os.environ)
    if not wanted:
        return None
    try:
        content = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().casefold()
        telemetry = _open(wanted, content=content in {"true", "1", "span_only", "span_and_event"})
    except ImportError:
        log.warning("Traces cannot be sent: a package is missing. Run: pip install 'vrag-agent[otel]'")
        return None
    if telemetry is not None:
        atexit.register(telemetry.close)
    return telemetry


def _exporters(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the requested exporters; warn of unknown ones."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().casefold() == "true":
        return []
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not named:
        others = (f"{_PREFIX}METRICS_", f"{_PREFIX}LOGS_", f"{_PREFIX}PROFILES_")
        names = [name for name in environ if name.startswith(_PREFIX) and not name.startswith(others)]
        return ["otlp"] if any(environ[name] for name in names) else []
    names = list(dict.fromkeys(name.strip().casefold() for name in named.split(",")))
    for name in names:
        if name not in {"otlp", "console", "none"}:
            log.warning("OTEL_TRACES_EXPORTER: unknown exporter %r. Known: otlp, console, none.", name)
    return [name for name in names if name in {"otlp", "console"}]


def _open(names: list[str], *, content: bool) -> Telemetry | None:
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    exporters: list[SpanExporter] = []
    if "otlp" in names:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), _PROTOCOL)
        if protocol.strip().casefold() == _PROTOCOL:
            exporters.append(OTLPSpanExporter())
        else:
            log.warning("Traces are sent by http/protobuf to port 4318; %r is not supported.", protocol)
    if "console" in names:
        exporters.append(ConsoleSpanExporter(out=sys.stderr))
    if not exporters:
        return None
    resource = Resource.create({SERVICE_VERSION: __version__})  # the environment outweighs our values
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "vrag"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Telemetry(provider, content=content)
