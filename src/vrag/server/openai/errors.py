"""Errors in the shape that OpenAI's clients read: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from pydantic import Field
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrag.server.http.errors import FrozenModel, Refusal

_INVALID_TYPE = "invalid_request_error"
_TYPES: dict[int, tuple[str, str | None]] = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: (_INVALID_TYPE, "not_found"),
    413: (_INVALID_TYPE, "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
"""Type and code of an error by its status."""


class ErrorDetail(FrozenModel):
    """The details of an error."""

    message: str = Field(description="One or two sentences: what is wrong, and what to do.")
    type: str
    param: str | None = Field(default=None, description="The field that is wrong.")
    code: str | None = None


class ErrorBody(FrozenModel):
    """An error in OpenAI's form."""

    error: ErrorDetail


class InvalidRequest(Refusal):
    """A request that this interface cannot carry out, and the field that is the reason."""

    def __init__(
        self, message: str, hint: str = "", *, param: str, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(status, message, hint)
        self.param = param
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by its own arguments."""
        named = {"param": self.param, "code": self.code, "status": self.status}
        return partial(InvalidRequest, **named), (self.message, self.hint)


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> ErrorBody:
    """Build the body of an error."""
    kind, default_code = _TYPES.get(status, (_INVALID_TYPE if status < 500 else "server_error", None))
    return ErrorBody(error=ErrorDetail(message=message, type=kind, param=param, code=code or default_code))


def error_response(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response for a refused request."""
    named = {"param": refusal.param, "code": refusal.code} if isinstance(refusal, InvalidRequest) else {}
    body = error_body(refusal.status, str(refusal), **named)
    return Response(body.model_dump_json(), refusal.status, headers, "application/json")


class ErrorShape:
    """Middleware that converts problems on the paths of this interface to OpenAI's form.

    It stands around everything else, so that what is refused before any route, or fails in one, arrives as
    OpenAI's clients read it. An invalid request has status 400 here, where other routes say 422.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; hold back the response of a problem until it is whole."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def send_converted(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    status, converted = _convert(start["status"], body)
                    headers = MutableHeaders(raw=list(start.get("headers", ())))
                    headers["content-length"] = str(len(converted))
                    await send({**start, "status": status, "headers": headers.raw})
                    await send({"type": "http.response.body", "body": converted})

        await self._app(scope, receive, send_converted)


def _is_problem(start: Message) -> bool:
    headers = MutableHeaders(raw=list(start.get("headers", ())))
    length = headers.get("content-length", "0")
    is_json = headers.get("content-type", "").startswith("application/json")
    is_short = length.isdigit() and int(length) <= 64 * 1024  # a longer body is not a ProblemDetails
    return start["status"] >= 400 and is_json and is_short


def _convert(status: int, body: bytes) -> tuple[int, bytes]:
    """Return status and body of a problem in OpenAI's form; other bodies stay as they are."""
    try:
        problem: Any = json.loads(body)
    except ValueError:
        return status, body
    if not isinstance(problem, dict) or "detail" not in problem:
        return status, body
    fields = cast("dict[str, Any]", problem)
    status = 400 if status == 422 else status
    detail = str(fields["detail"])
    sentence = detail if detail.endswith((".", "!", "?", "…")) else f"{detail}."
    message = f"{sentence} {fields.get('hint', '')}".rstrip()
    return status, error_body(status, message).model_dump_json().encode()
