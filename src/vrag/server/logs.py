"""What a server writes about itself: one line for each request and for each end of a run.

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
from vrag.server.http.route_name import template_of

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vrag.agent.events import Event

__all__ = ["RequestLines", "RunLines", "Style", "configure_logs"]

Style: TypeAlias = Literal["auto", "json", "text"]

requests = logging.getLogger("vrag.requests")
runs = logging.getLogger("vrag.runs")

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
HEADER = b"x-request-id"
FIELDS = ("request", "client", "method", "route", "status", "ms", "run")
"""Of a line, beside what every line has; in this order, those of runs after them."""
RUN_FIELDS = (
    "agent", "model", "session", "reason", "boundary", "seconds", "steps", "prompt_tokens",
    "completion_tokens", "visual_tokens", "cost",
)  # fmt: skip
LEFT = 499
"""Status of a request whose client left before the response."""
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_RUN = re.compile(r"[0-9a-f-]{1,40}")
_QUIET = frozenset({"/healthz", "/metrics", "/static/{path}"})
"""Asked for every few seconds by machines, and some dozens for each page: told at level debug."""
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Ends lines, steers terminals or turns the direction of writing."""
_MESSAGE = 2000
"""Characters of a message."""

_request: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered; work that it starts keeps it."""


def configure_logs(style: Style = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Makes this process write its log as lines, in place of whatever was configured.

    Args:
        style: `json`, `text`, or `auto`: text on a terminal, else JSON.
        level: `debug`, `info`, `warning` or `error`, of what vrag says itself. Libraries speak from
            warning on.
        stream: Where to; standard error when it is not given.

    Raises:
        SettingsError: If there is no such level.
    """
    number = LEVELS.get(level.casefold())
    if number is None:
        raise SettingsError(f"There is no level {level!r} of logs.", f"Choose one of {', '.join(LEVELS)}.")
    handler = logging.StreamHandler(stream)
    as_text = style == "text" or (style == "auto" and handler.stream.isatty())
    handler.setFormatter((_TextLines if as_text else _JsonLines)(whole=number <= logging.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("vrag").setLevel(number)
    logging.captureWarnings(capture=True)


class RequestLines:
    """Gives each request an id, and writes a line when it is answered. Stands before everything else.

    A client may bring the id itself as `X-Request-ID` (letters, digits, `.`, `_`, `-`, 64 at most); it is
    sent back. Clients are told apart by a hash that means nothing to another process.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._salt = secrets.token_bytes(16)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, started, status = _id(scope["headers"]), time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, request.encode())]}
            await send(message)

        token = _request.set(request)
        try:
            await self._app(scope, receive, sending)
        finally:
            self._tell(scope, status or LEFT, time.perf_counter() - started)
            _request.reset(token)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = template_of(scope)
        level = logging.DEBUG if route in _QUIET else logging.INFO
        if not requests.isEnabledFor(level):
            return
        about = {
            "client": self._client(scope),
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "run": _run(route, scope.get("path_params") or {}),
        }
        requests.log(level, "answered", extra={"fields": about})

    def _client(self, scope: Scope) -> str | None:
        """Who asks: as the gate knows it, for whom a proxy may ask; else by address."""
        state: dict[str, Any] = scope.get("state") or {}
        address: tuple[str, int] | None = scope.get("client")
        known = str(state.get("client") or (address[0] if address else ""))
        if not known:
            return None
        return hashlib.blake2s(known.encode(), key=self._salt, digest_size=4).hexdigest()


def _id(headers: list[tuple[bytes, bytes]]) -> str:
    """The id that a request brings, or one that is made for it."""
    brought = [value for name, value in headers if name == HEADER]
    if len(brought) == 1 and _SANE.fullmatch(brought[0]):
        return brought[0].decode()
    return secrets.token_hex(8)


def _run(route: str, parameters: dict[str, Any]) -> str | None:
    """The run that a request is about."""
    given = str(next(iter(parameters.values()), "")) if route.startswith("/runs/{") else ""
    return given if _RUN.fullmatch(given) else None


class RunLines:
    """An observer of events that writes a line when a run begins, and one when it ends."""

    def __init__(self) -> None:
        self._open: dict[str, RunResult] = {}

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, ThoughtDelta):
            return
        if isinstance(event, RunStarted):
            self._open[event.run_id] = RunResult.of([event])
            about = {"session": event.session or event.run_id} | _about(event)
            runs.info("started", extra={"fields": about})
        elif event.run_id in self._open:
            outline = self._open[event.run_id] = self._open[event.run_id].plus(event)
            if outline.end is not None:
                del self._open[event.run_id]
                level = logging.WARNING if isinstance(outline.end, RunFailed) else logging.INFO
                runs.log(level, "ended", extra={"fields": _ended(outline)})


def _about(started: RunStarted) -> dict[str, Any]:
    settings = started.settings
    return {"run": started.run_id, "agent": settings.agent, "model": settings.policy}


def _ended(outline: RunResult) -> dict[str, Any]:
    assert outline.end is not None
    usage = outline.usage
    return _about(outline.started) | {
        "reason": outline.end.stop_reason.value,
        "boundary": outline.end.boundary if isinstance(outline.end, RunFailed) else None,
        "seconds": round(outline.seconds, 3),
        "steps": outline.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "visual_tokens": usage.visual_tokens,
        "cost": usage.cost,
    }


class _Lines(logging.Formatter):
    """What all lines have in common.

    Args:
        whole: Whether messages of all errors are told. Else only of those that are written for people:
            others repeat the values that they stumbled over.
    """

    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What a record says beside its message; nothing for what is not known."""
        given: dict[str, Any] = {"request": _request.get()} | getattr(record, "fields", {})
        return {name: given[name] for name in FIELDS + RUN_FIELDS if given.get(name) not in {None, ""}}

    def trace(self, record: logging.LogRecord) -> list[str]:
        """Where an error came from, and what it says as far as that may be told."""
        if not record.exc_info or record.exc_info[1] is None:
            return []
        return _trace(record.exc_info[1], record.exc_info[2], whole=self.whole)


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MESSAGE],
        }
        line |= self.fields(record)
        if trace := self.trace(record):
            line["trace"] = trace
        return json.dumps(line, default=str)  # ASCII: nothing in it ends a line or steers a terminal


class _TextLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("vrag.")
        fields = " ".join(f"{key}={value}" for key, value in self.fields(record).items())
        head = f"{_moment(record.created)[11:23]} {record.levelname.lower():7} {name}: "
        body = f"{record.getMessage()[:_MESSAGE]} {fields}".rstrip()
        lines = [head + _plain(body), *(f"    {_plain(line)}" for line in self.trace(record))]
        return "\n".join(lines)


def _moment(created: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{whole}.{int(created % 1 * 1000):03d}Z"


def _plain(text: str) -> str:
    """Text without what would end a line or steer a terminal."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode-escape").decode(), text)


def _trace(error: BaseException, frames: TracebackType | None, *, whole: bool) -> list[str]:
    """Errors with their frames, the cause first. Lines of source stay out: they may hold what they handle."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = _trace(cause, cause.__traceback__, whole=whole) if cause is not None else []
    places = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(frames, limit=-30)
    ]
    told = whole or isinstance(error, VragError | OSError)
    name = type(error).__name__
    said = f"{name}: {str(error)[:_MESSAGE]}" if told else f"{name} (what it says is told at level debug)"
    return [*earlier, *places, said]
