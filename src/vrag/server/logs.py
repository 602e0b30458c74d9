"""The server's log: one line for each request and for begin and end of each run.

A line is a JSON object for machines, or text for a terminal. It holds no token, no cookie, no query string,
no question and no text of a document. Whatever a name holds, it stays within its line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import time
import traceback
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from vrag.agent.events import RunFailed, RunStarted, ThoughtDelta
from vrag.agent.runs.run_result import RunResult
from vrag.errors import SettingsError, VragError
from vrag.server.metrics import CLIENT_LEFT_STATUS, route_template

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vrag.agent.events import Event

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

    Args:
        style: `json`, `text`, or `auto`: text on a terminal, else JSON.
        level: `debug`, `info`, `warning` or `error`, for vrag's own messages. Libraries log from warning on.
        stream: The destination; standard error by default.

    Raises:
        SettingsError: If there is no such level.
    """
    number = LEVELS.get(level.casefold())
    if number is None:
        raise SettingsError(f"Unknown log level {level!r}.", f"Choose one of {', '.join(LEVELS)}.")
    handler = logging.StreamHandler(stream)
    as_text = style == "text" or (style == "auto" and handler.stream.isatty())
    handler.setFormatter((_TextFormatter if as_text else _JsonFormatter)(whole=number <= logging.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("vrag").setLevel(number)
    logging.captureWarnings(capture=True)


class RequestLines:
    """Middleware that gives each request an id and logs a line when it is answered. Stands first.

    A client may send the id itself as `X-Request-ID` (letters, digits, `.`, `_`, `-`, 64 at most); it is
    sent back. Clients are told apart by a hash that means nothing to another process.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._salt = secrets.token_bytes(16)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        ids = [value for name, value in scope["headers"] if name == REQUEST_ID_HEADER]
        usable = len(ids) == 1 and _REQUEST_ID.fullmatch(ids[0])
        request_id = ids[0].decode() if usable else secrets.token_hex(8)
        started, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (REQUEST_ID_HEADER, request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        token = _request_id.set(request_id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._log(scope, status or CLIENT_LEFT_STATUS, time.perf_counter() - started)
            _request_id.reset(token)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        route = route_template(scope)
        level = logging.DEBUG if route in _QUIET_ROUTES else logging.INFO
        if not requests.isEnabledFor(level):
            return
        parameters: dict[str, Any] = scope.get("path_params") or {}
        run = str(next(iter(parameters.values()), "")) if route.startswith("/runs/{") else ""
        fields = {
            "client": self._client_hash(scope),
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "run": run if _RUN_ID.fullmatch(run) else None,
        }
        requests.log(level, "answered", extra={"fields": fields})

    def _client_hash(self, scope: Scope) -> str | None:
        """Hash the client's name from `AuthMiddleware`, which sees past proxies; else the address."""
        state: dict[str, Any] = scope.get("state") or {}
        address: tuple[str, int] | None = scope.get("client")
        name = str(state.get("client") or (address[0] if address else ""))
        return hashlib.blake2s(name.encode(), key=self._salt, digest_size=4).hexdigest() if name else None


class RunLines:
    """An observer of events that logs a line when a run begins, and one when it ends."""

    def __init__(self) -> None:
        self._open: dict[str, RunResult] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, ThoughtDelta):
            return
        if isinstance(event, RunStarted):
            self._open[event.run_id] = RunResult.of([event])
            fields = {"session": event.session or event.run_id} | _run_fields(event)
            runs.info("started", extra={"fields": fields})
        elif event.run_id in self._open:
            outline = self._open[event.run_id] = self._open[event.run_id].plus(event)
            if outline.end is not None:
                del self._open[event.run_id]
                level = logging.WARNING if isinstance(outline.end, RunFailed) else logging.INFO
                runs.log(level, "ended", extra={"fields": _end_fields(outline)})


def _run_fields(started: RunStarted) -> dict[str, Any]:
    return {"run": started.run_id, "agent": started.settings.agent, "model": started.settings.policy}


def _end_fields(outline: RunResult) -> dict[str, Any]:
    assert outline.end is not None
    usage = outline.usage
    return _run_fields(outline.started) | {
        "reason": outline.end.stop_reason.value,
        "boundary": outline.end.boundary if isinstance(outline.end, RunFailed) else None,
        "seconds": round(outline.seconds, 3),
        "steps": outline.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "visual_tokens": usage.visual_tokens,
        "cost": usage.cost,
    }


class _LineFormatter(logging.Formatter):
    """The common part of both styles.

    Args:
        whole: Whether messages of all errors are logged. Else only of those that are written for people:
            others repeat the values that they failed on.
    """

    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the known fields of a record besides its message, in order."""
        fields: dict[str, Any] = {"request": _request_id.get()} | getattr(record, "fields", {})
        names = _REQUEST_FIELDS + _RUN_FIELDS
        return {name: fields[name] for name in names if fields.get(name) not in {None, ""}}

    def trace(self, record: logging.LogRecord) -> list[str]:
        """Return the lines of an error's traceback."""
        if not record.exc_info or record.exc_info[1] is None:
            return []
        return _trace(record.exc_info[1], record.exc_info[2], whole=self.whole)


class _JsonFormatter(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MAX_MESSAGE_CHARS],
        }
        line |= self.fields(record)
        if trace := self.trace(record):
            line["trace"] = trace
        return json.dumps(line, default=str)  # ASCII: nothing in it ends a line or steers a terminal


class _TextFormatter(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("vrag.")
        fields = " ".join(f"{key}={value}" for key, value in self.fields(record).items())
        head = f"{_timestamp(record.created)[11:23]} {record.levelname.lower():7} {name}: "
        body = f"{record.getMessage()[:_MAX_MESSAGE_CHARS]} {fields}".rstrip()
        trace = [f"    {_printable(line)}" for line in self.trace(record)]
        return "\n".join([head + _printable(body), *trace])


def _timestamp(created: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{whole}.{int(created % 1 * 1000):03d}Z"


def _printable(text: str) -> str:
    """Escape what would end a line or steer a terminal."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode-escape").decode(), text)


def _trace(error: BaseException, frames: TracebackType | None, *, whole: bool) -> list[str]:
    """List errors with their frames, the cause first, without lines of source: they may hold user data."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = _trace(cause, cause.__traceback__, whole=whole) if cause is not None else []
    places = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(frames, limit=-30)
    ]
    name = type(error).__name__
    message = f"{name} (its message is logged at level debug)"
    if whole or isinstance(error, VragError | OSError):
        message = f"{name}: {str(error)[:_MAX_MESSAGE_CHARS]}"
    return [*earlier, *places, message]
