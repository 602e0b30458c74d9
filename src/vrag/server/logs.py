"""The server's log, and the middleware that gives each request its id, headers, metrics and log line.

The log has one line for each request, and one for begin and end of each run. A line is a JSON object for
machines, or text for a terminal. It holds no token, no cookie, no query string, no question and no text of a
document. Whatever a name holds, it stays within its line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import time
import traceback
from contextvars import ContextVar
from typing import Any, Literal, TextIO, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrag.agent.events import AnswerCited, AnswerDelta, Event, RunFailed, RunStarted, ThoughtDelta
from vrag.agent.runs.run_result import RunResult
from vrag.errors import SettingsError, VragError
from vrag.server.http.errors import internal_error_response, problem_response
from vrag.server.metrics import CLIENT_LEFT_STATUS, ServerMetrics, route_template, with_security_headers

Style: TypeAlias = Literal["auto", "json", "text"]

requests = logging.getLogger("vrag.requests")
runs = logging.getLogger("vrag.runs")

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
REQUEST_ID_HEADER = b"x-request-id"
_REQUEST_FIELDS = ("request", "client", "method", "route", "status", "ms", "run")
_RUN_FIELDS = (
    "agent", "model", "session", "reason", "boundary", "seconds", "steps", "prompt_tokens",
    "completion_tokens", "visual_tokens", "cost",
)  # fmt: skip
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_RUN_ID = re.compile(r"[0-9a-f-]{1,40}")
_QUIET_ROUTES = frozenset({"/healthz", "/metrics", "/static/{path}"})
"""Requested every few seconds by machines, or some dozens for each page: logged at level debug."""
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that end lines, steer terminals or turn the direction of writing."""
_MAX_MESSAGE_CHARS = 2000

_request_id: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered; work that it starts keeps it."""


def configure_logs(style: Style = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Configure this process to write its log as lines, in place of whatever was configured.

    `style` is `json`, `text`, or `auto`: text on a terminal, else JSON. `level` (`debug`, `info`, `warning`
    or `error`) applies to vrag's own messages; libraries log from `warning` on. `stream` defaults to standard
    error. Raises `SettingsError` if the level is unknown.
    """
    number = LEVELS.get(level.casefold())
    if number is None:
        raise SettingsError(f"Unknown log level {level!r}.", f"Choose one of {', '.join(LEVELS)}.")
    handler = logging.StreamHandler(stream)
    as_text = style == "text" or (style == "auto" and handler.stream.isatty())
    handler.setFormatter(_LineFormatter(as_text=as_text, whole=number <= logging.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("vrag").setLevel(number)
    logging.captureWarnings(capture=True)


class RequestMiddleware:
    """Gives each request an id and security headers, counts it, and logs a line when it is answered.

    A client may send the id itself as `X-Request-ID` (letters, digits, `.`, `_`, `-`, 64 at most); it is
    sent back. Unexpected errors are answered without their details. Clients are told apart by a hash that
    means nothing to another process.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._salt = secrets.token_bytes(16)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        ids = [value for name, value in scope["headers"] if name == REQUEST_ID_HEADER]
        usable = len(ids) == 1 and _REQUEST_ID.fullmatch(ids[0])
        request_id = ids[0] if usable else secrets.token_hex(8).encode()
        started, status = time.perf_counter(), 0
        state = scope.setdefault("state", {})
        state["request_id"] = request_id.decode()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = with_security_headers(message.get("headers", ()))
                types = [value for name, value in headers if name.lower() == b"content-type"]
                state["streams"] = any(value.startswith(b"text/event-stream") for value in types)
                message = {**message, "headers": [(REQUEST_ID_HEADER, request_id), *headers]}
            await send(message)

        token = _request_id.set(request_id.decode())
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001 - logged with its trace
            response = internal_error_response(error, f"{scope['method']} {scope['path'][:200]!r}")
            if not status:
                await response(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # of requests that outlasted the time to shut down
            if not status:
                response = problem_response(503, "The server is shutting down.", "Try again later.")
                await response(scope, receive, send_with_headers)
        finally:
            self._record(scope, status or CLIENT_LEFT_STATUS, time.perf_counter() - started)
            _request_id.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route, state = route_template(scope), scope["state"]
        self._metrics.answered(route, scope["method"], status, None if state.get("streams") else seconds)
        level = logging.DEBUG if route in _QUIET_ROUTES else logging.INFO
        if not requests.isEnabledFor(level):
            return
        parameters: dict[str, Any] = scope.get("path_params") or {}
        run = str(next(iter(parameters.values()), "")) if route.startswith("/runs/{") else ""
        address: tuple[str, int] = scope.get("client") or ("", 0)
        client = str(state.get("client") or address[0])  # `AuthMiddleware` sees past proxies
        client_hash = hashlib.blake2s(client.encode(), key=self._salt, digest_size=4).hexdigest()
        fields = {
            "client": client_hash if client else None,
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "run": run if _RUN_ID.fullmatch(run) else None,
        }
        requests.log(level, "answered", extra={"fields": fields})


class RunLines:
    """An observer of events that logs a line when a run begins, and one when it ends."""

    def __init__(self) -> None:
        self._open: dict[str, RunResult] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, ThoughtDelta | AnswerDelta | AnswerCited):
            return
        if isinstance(event, RunStarted):
            self._open[event.run_id] = RunResult.of([event])
            runs.info("started", extra={"fields": {"session": event.session or event.run_id, **_run(event)}})
        elif event.run_id in self._open:
            outline = self._open[event.run_id] = self._open[event.run_id].plus(event)
            if (end := outline.end) is None:
                return
            del self._open[event.run_id]
            failed = isinstance(end, RunFailed)
            fields = _run(outline.started) | {
                "reason": end.stop_reason.value,
                "boundary": end.boundary if failed else None,
                "seconds": round(outline.seconds, 3),
                "steps": outline.calls,
                "prompt_tokens": outline.usage.prompt_tokens,
                "completion_tokens": outline.usage.completion_tokens,
                "visual_tokens": outline.usage.visual_tokens,
                "cost": outline.usage.cost,
            }
            runs.log(logging.WARNING if failed else logging.INFO, "ended", extra={"fields": fields})


def _run(started: RunStarted) -> dict[str, Any]:
    return {"run": started.run_id, "agent": started.settings.agent, "model": started.settings.policy}


class _LineFormatter(logging.Formatter):
    """The formatter of both styles; `whole` logs the messages of all errors.

    Else only those are logged that are written for people: others repeat the values that they failed on.
    """

    converter = time.gmtime
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, *, as_text: bool, whole: bool) -> None:
        super().__init__()
        self._as_text = as_text
        self._whole = whole

    def format(self, record: logging.LogRecord) -> str:
        all_fields: dict[str, Any] = {"request": _request_id.get()} | getattr(record, "fields", {})
        names = _REQUEST_FIELDS + _RUN_FIELDS
        fields = {name: all_fields[name] for name in names if all_fields.get(name) not in {None, ""}}
        error = record.exc_info[1] if record.exc_info else getattr(record, "fault", None)
        trace = _trace(error, whole=self._whole) if error else []
        level, message = record.levelname.lower(), record.getMessage()[:_MAX_MESSAGE_CHARS]
        if self._as_text:
            pairs = " ".join(f"{key}={value}" for key, value in fields.items())
            head = f"{self.formatTime(record)[11:23]} {level:7} {record.name.removeprefix('vrag.')}: "
            body = _printable(f"{message} {pairs}".rstrip())
            return "\n".join([head + body, *(f"    {_printable(line)}" for line in trace)])
        line = {"ts": self.formatTime(record), "level": level, "logger": record.name, "message": message}
        line |= fields | ({"trace": trace} if trace else {})
        return json.dumps(line, default=str)  # ASCII: nothing in it ends a line or steers a terminal


def _printable(text: str) -> str:
    """Escape what would end a line or steer a terminal."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode-escape").decode(), text)


def _trace(error: BaseException, *, whole: bool) -> list[str]:
    """List errors with their frames, the cause first, without lines of source: they may hold user data."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = _trace(cause, whole=whole) if cause is not None else []
    frames = traceback.extract_tb(error.__traceback__, limit=-30)
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    name = type(error).__name__
    message = f"{name} (its message is logged at level debug)"
    if whole or isinstance(error, VragError | OSError):
        message = f"{name}: {str(error)[:_MAX_MESSAGE_CHARS]}"
    return [*earlier, *places, message]
