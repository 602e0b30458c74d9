"""Where spans go: what the variables of OpenTelemetry ask for, and nothing without them."""

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

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from vrag.agent.events import Event


log = logging.getLogger("vrag.telemetry")

CLOSING_SECONDS = 5.0
"""For what was not sent yet when the process ends. A collector that is gone must not keep it."""
_PREFIX = "OTEL_EXPORTER_OTLP_"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


class Telemetry:
    """An observer of events that sends them as spans.

    Sending is done in a thread of its own, from a queue of bounded length: what a slow collector leaves in
    it is dropped, and no run waits.

    Args:
        provider: What makes and sends spans.
        content: Whether texts are told.
    """

    def __init__(self, provider: TracerProvider, *, content: bool = False) -> None:
        self._provider = provider
        self._spans = Spans(provider.get_tracer("vrag", __version__), content=content)
        self._ending, self._ended = threading.Event(), threading.Event()
        # It waits from the beginning: a process that ends can start no thread any more.
        threading.Thread(target=self._end, name="spans-closing", daemon=True).start()

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        self._spans(event)

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Ends what is open and sends what is left, as far as there is time. Afterwards nothing is sent.

        Args:
            seconds: Time for that.
        """
        self._spans.close()
        self._ending.set()
        if not self._ended.wait(seconds):
            log.warning("The collector of traces does not answer: what it was not sent yet is lost.")

    def _end(self) -> None:
        self._ending.wait()
        self._provider.shutdown()
        self._ended.set()


def observer_from_environment() -> Telemetry | None:
    """What sends spans as the environment asks for; None where it does not.

    `OTEL_TRACES_EXPORTER` says where to (`otlp`, `console`, `none`; several with commas between them);
    without it, any variable `OTEL_EXPORTER_OTLP_…` means `otlp`. The rest is read by the SDK itself:
    endpoint, headers, time limits, sampling, sizes of batches, resource attributes. Texts are told where
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`. What is left when the process ends is
    sent then.
    """
    wanted = _exporters(os.environ)
    if not wanted:
        return None
    try:
        telemetry = _opened(wanted, content=_tells_content(os.environ))
    except ImportError:
        log.warning("Traces are asked for, and cannot be sent. Run: pip install 'vrag-agent[otel]'")
        return None
    if telemetry is not None:
        atexit.register(telemetry.close)
    return telemetry


def _exporters(environ: Mapping[str, str]) -> list[str]:
    """The exporters that are asked for; those that are not known are told of."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().casefold() == "true":
        return []
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not named:
        otlp = any(name.startswith(_PREFIX) and _of_traces(name) and environ[name] for name in environ)
        return ["otlp"] if otlp else []
    names = list(dict.fromkeys(name.strip().casefold() for name in named.split(",")))
    for name in names:
        if name not in {"otlp", "console", "none"}:
            log.warning("OTEL_TRACES_EXPORTER: %r is not known; known are otlp, console and none.", name)
    return [name for name in names if name in {"otlp", "console"}]


def _of_traces(name: str) -> bool:
    return not name.startswith((f"{_PREFIX}METRICS_", f"{_PREFIX}LOGS_", f"{_PREFIX}PROFILES_"))


def _tells_content(environ: Mapping[str, str]) -> bool:
    return environ.get(_CONTENT, "").strip().casefold() in {"true", "1", "span_only", "span_and_event"}


def _opened(names: list[str], *, content: bool) -> Telemetry | None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporters = [made for name in names if (made := _exporter(name)) is not None]
    if not exporters:
        return None
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Telemetry(provider, content=content)


def _exporter(name: str) -> SpanExporter | None:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), _SPOKEN)
    if protocol.strip().casefold() != _SPOKEN:
        log.warning("Traces are sent by http/protobuf to port 4318; %r is not spoken here.", protocol)
        return None
    return OTLPSpanExporter()


def _resource() -> Resource:
    """What is told of this process: the environment's word goes before ours."""
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

    given = Resource.create({SERVICE_VERSION: __version__})
    unnamed = str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    return given.merge(Resource({SERVICE_NAME: "vrag"})) if unnamed else given
