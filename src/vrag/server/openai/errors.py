"""Errors in the shape that OpenAI's clients read: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from vrag.server.http.errors import Refusal
from vrag.server.openai.schema import ErrorBody, ErrorDetail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PREFIX", "ErrorShape", "InvalidRequest", "answer_error", "error_of"]

PREFIX = "/v1/"
"""Paths of this door."""
_INVALID = "invalid_request_error"
_KINDS: dict[int, tuple[str, str | None]] = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: (_INVALID, "not_found"),
    413: (_INVALID, "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
"""Type and code of an error by its status."""
_MOST = 64 * 1024
"""Bytes of a problem that is put into another shape; a longer response is none."""


class InvalidRequest(Refusal):
    """A request that this door cannot carry out, and the field that keeps it from that."""

    def __init__(
        self, message: str, hint: str = "", *, param: str, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(status, message, hint)
        self.param = param
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by its own arguments."""
        named = {"param": self.param, "code": self.code, "status": self.status}
        return _unfit, (self.message, self.hint, named)


def _unfit(message: str, hint: str, named: dict[str, Any]) -> InvalidRequest:
    return InvalidRequest(message, hint, **named)


def error_of(status: int, message: str, *, param: str | None = None, code: str | None = None) -> ErrorBody:
    """The body of an error."""
    kind, usual = _KINDS.get(status, (_INVALID if status < 500 else "server_error", None))
    return ErrorBody(error=ErrorDetail(message=message, type=kind, param=param, code=code or usual))


def answer_error(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """The response for a request that this door does not carry out."""
    named = {"param": refusal.param, "code": refusal.code} if isinstance(refusal, InvalidRequest) else {}
    body = error_of(refusal.status, str(refusal), **named)
    return Response(body.model_dump_json(), refusal.status, headers, "application/json")


class ErrorShape:
    """Puts the problems that other parts answer on this door's paths into its shape.

    It stands around everything else, so that what is refused before any route, or fails in one, arrives as
    OpenAI's clients read it. A request that cannot be used is 400 here, where other routes say 422.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Reshaping(send))


class _Reshaping:
    """`send` that holds back the response of a problem until it is whole."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Sends a message, or keeps it."""
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._flush(self._start)

    async def _flush(self, start: Message) -> None:
        status, body = _reshaped(start["status"], self._body)
        start = {**start, "status": status, "headers": list(start.get("headers", ()))}
        if body != self._body:
            MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    headers = dict(start.get("headers", ()))
    length = headers.get(b"content-length", b"0")
    return (
        start["status"] >= 400
        and headers.get(b"content-type", b"").startswith(b"application/json")
        and length.isdigit()
        and int(length) <= _MOST
    )


def _reshaped(status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body of a problem in this door's shape; what is none, or has it already, as it is."""
    try:
        problem: Any = json.loads(body)
    except ValueError:
        return status, body
    if not isinstance(problem, dict) or "detail" not in problem:
        return status, body
    told = cast("dict[str, Any]", problem)
    status = 400 if status == 422 else status
    sentence = str(told["detail"])
    ended = sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
    message = f"{ended} {told.get('hint', '')}".rstrip()
    return status, error_of(status, message).model_dump_json().encode()
