"""Errors become responses: a status, one sentence, what to do. Never a stack trace, never a path."""

from __future__ import annotations

import logging
import math
import secrets
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from vrag.errors import SearchError, ServerError, VragError
from vrag.search.schema import ProblemDetails, SearchRequest
from vrag.server.http.value_errors import fault_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.routing import BaseRoute

__all__ = [
    "ClientLeft",
    "Refusal",
    "Responses",
    "answer_problem",
    "answer_unexpected",
    "register",
    "responses",
]

log = logging.getLogger("vrag.server")

_MEANINGS = {
    401: "No token, or a wrong one.",
    403: "Not asked for under the server's own name, or from a page of another site.",
    404: "There is no such thing.",
    408: "The body took too long to arrive.",
    409: "It does not fit what is there now.",
    413: "The body is too long.",
    416: "There is no such range.",
    422: "Something in the request cannot be used; the message says what.",
    429: "The client asks too often, or for too much at one time.",
    500: "A fault of the server; its log has more under the id.",
    502: "The server behind this one failed.",
    503: "Too much is waiting already, or the collection cannot be read: come back later.",
    504: "It took too long.",
}
_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
_NAME = 60
"""Characters of a field's name in a message."""
_ROUTES = "GET /openapi.json describes every route."
_IDS = {
    "items": "Ids come from a search: the field id of what was found.",
    "runs": "GET /runs lists them.",
    "jobs": "The answer to an upload has it.",
    "documents": "GET /collections/{name}/documents lists them.",
    "collections": "GET /collections/{name}/documents lists them.",
}
"""Where ids come from, by the beginning of the path."""
_EXAMPLES = {
    "search": 'Send a JSON object such as {"queries": ["shore power"], "top_k": 3}.',
    "runs": 'Send a JSON object such as {"question": "What was the revenue in 2023?"}.',
    "collections": 'Send a JSON object such as {"name": "reports"}.',
}
"""What a body looks like, by the beginning of the path."""
_HTTP_HINTS = {404: _ROUTES, 405: _ROUTES}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MATCHED = frozenset({"type", "path", "root_path", "headers", "query_string"})
"""What routes look at, without what was noted about the one that was found."""
_OTHER_TYPE = frozenset({"string_type", "list_type", "none_required"})
"""Faults of a union's members that the value was not meant for."""


class Refusal(VragError):
    """A request that is not carried out, with the status that says so.

    Args:
        status: Of the response.
        message: What is wrong, in one sentence.
        hint: What to do about it.
        wait: Seconds after which it may be tried again, where that is known.
        reason: One word for what counts refusals.
    """

    def __init__(
        self, status: int, message: str, hint: str = "", wait: float | None = None, reason: str = "other"
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.wait = wait
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by its own arguments."""
        return type(self), (self.status, self.message, self.hint, self.wait, self.reason)

    def response(self) -> Response:
        """What the client is told."""
        after = {} if self.wait is None else {"Retry-After": str(max(1, math.ceil(self.wait)))}
        return answer_problem(self.status, self.message, self.hint, headers=after)


class ClientLeft(Exception):
    """The client closed its connection: nobody waits for the response."""


Responses: TypeAlias = dict[int | str, dict[str, Any]]
"""What OpenAPI says of the responses of a route, by status."""


def responses(*statuses: int) -> Responses:
    """What OpenAPI says of these statuses, and of those that every route has."""
    always = {401, 403, 422, 429, 500}
    return {
        status: {"model": ProblemDetails, "description": _MEANINGS[status]}
        for status in sorted({*statuses, *always})
    }


def answer_problem(
    status: int,
    detail: str,
    hint: str = "",
    *,
    id: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response for a problem."""
    content = ProblemDetails(detail=detail, hint=hint, id=id).model_dump_json(exclude_none=True)
    extra = {**_HEADERS.get(status, {}), **(headers or {})}
    return Response(content, status, extra, "application/json")


def answer_unexpected(error: BaseException, doing: str) -> Response:
    """The response for a fault of ours: an id under which the log has the rest."""
    mark = secrets.token_hex(6)
    log.error("%s failed [%s]", doing, mark, exc_info=error)
    return answer_problem(500, "The server failed.", f"Its log has more under the id {mark}.", id=mark)


def register(app: FastAPI) -> None:
    """Makes an application answer errors this way."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(VragError, _vrag)
    app.add_exception_handler(ClientLeft, _left)
    app.add_exception_handler(ClientDisconnect, _left)  # before its body was there


def _left(_: Request, __: Exception) -> Response:
    """Of which nothing is sent; the status is for the counters."""
    return Response(status_code=499)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | ValidationError)
    faults: list[Any] = list(error.errors())
    telling = [fault for fault in faults if fault["type"] not in _OTHER_TYPE]
    fault = max(telling or faults, key=lambda fault: len(fault["loc"]))
    names = [part for part in fault["loc"] if part not in {"body", "query", "path", "header"}]
    if fault["type"] == "json_invalid":
        names = []  # it is a position
    if telling or not names:
        messages = [fault_message(fault)]
    else:  # none of what the field may be
        alike = [other for other in faults if _place(other) == _place(fault)]
        first, *others = map(fault_message, alike)
        messages = [first, *(other.removeprefix("Input should be ") for other in others)]
    advice = _advice(names, request.scope["path"])
    return answer_problem(422, _sentence(names, " or ".join(dict.fromkeys(messages))), advice)


def _place(fault: Any) -> tuple[object, int]:  # noqa: ANN401 - pydantic's, typed differently by its makers
    return fault["loc"][0], len(fault["loc"])


def _sentence(names: Sequence[Any], message: str) -> str:
    """What is wrong, and where."""
    numbers = [f"[{part}]" for part in names[1:] if isinstance(part, int)]
    return f"{str(names[0])[:_NAME]}{''.join(numbers)}: {message}." if names else f"{message}."


def _advice(names: Sequence[Any], path: str) -> str:
    """What a field is for, where it is one of a search; of ids, where they come from."""
    if not names:
        return _EXAMPLES.get(path.split("/")[1], _ROUTES)
    if names[0] == "id":
        return _IDS.get(path.split("/")[1], _ROUTES)
    field = SearchRequest.model_fields.get(str(names[0]))
    return field.description or _ROUTES if field else _ROUTES


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and error.__cause__ is not None:
        return _unread(error.__cause__)
    hint = _HTTP_HINTS.get(error.status_code, "")
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(_allowed(request)) or headers["Allow"]
    return answer_problem(error.status_code, str(error.detail), hint, headers=headers)


def _allowed(request: Request) -> list[str]:
    """The methods of an address. Each of FastAPI's routes knows of its own alone."""
    routes: list[BaseRoute] = request.app.routes
    scope = {name: value for name, value in request.scope.items() if name in _MATCHED}
    return [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def _unread(error: BaseException) -> Response:
    """Why a body was not read, which FastAPI says of every error while it read one, ours included."""
    match error:
        case Refusal():
            return error.response()
        case ClientDisconnect() | ClientLeft():
            return Response(status_code=499)
        case _:  # no UTF-8, or nested too deeply
            return answer_problem(422, "The body is not JSON.", _ROUTES)


def _vrag(request: Request, error: Exception) -> Response:
    """What a part of vrag could not do. Only what concerns the request itself is told to the client."""
    assert isinstance(error, VragError)
    match error:
        case Refusal():
            return error.response()
        case ServerError():
            log.warning("%s: %s", request.url.path, error)
            return answer_problem(502, "The search server behind this one failed.", "Come back later.")
        case SearchError():
            return answer_problem(422, error.message, error.hint)
        case _:
            mark = secrets.token_hex(6)
            log.error("%s failed [%s]: %s", request.url.path, mark, error)
            hint = f"Its log has more under the id {mark}."
            return answer_problem(503, "The server cannot do this now.", hint, id=mark)
