"""HTTP errors: a status, one sentence and a hint, never a stack trace, a path or a value that was sent."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from vrag.errors import SearchError, ServerError, VragError, as_sentence
from vrag.search.schema import NOT_BLANK, ProblemDetails, SearchRequest

log = logging.getLogger("vrag.server")

Responses: TypeAlias = dict[int | str, dict[str, Any]]
"""OpenAPI's description of the responses of a route, by status."""

JSON_TYPE = "application/json"
MEANINGS = {
    401: "The token is missing or wrong.",
    403: "The token's role does not allow it, the request did not use the server's own name, or it came from "
    "a page of another site.",
    404: "Not found.",
    408: "The body took too long to arrive.",
    409: "Conflicts with the current state; the message says why.",
    413: "The body is too long.",
    415: "The body is not of a type that the route takes; of a file, not what its suffix says.",
    416: "The requested range does not exist.",
    422: "Part of the request is invalid; the message says which.",
    429: "The client sends too many requests, or too many at one time.",
    500: "Internal server error; the log has details under the id.",
    502: "The server behind this one failed.",
    503: "The server is overloaded or the collection cannot be read: try again later.",
    504: "The request timed out.",
    507: "The server's disk is full.",
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}
_SEE_LOG = "The server's log has details under the id {}."
_SEE_ROUTES = "GET /openapi.json describes every route."
_ID_HINTS = {
    "items": "Ids come from a search: the field id of each hit.",
    "runs": "Reload the list of questions.",
    "jobs": "The response to an upload has the id of its job.",
    "documents": "Reload the list of documents.",
    "collections": "Reload the list of documents.",
}
"""Where ids come from, by the first part of the path. People read these hints on the page too."""
_BODY_EXAMPLES = {
    "search": 'Send a JSON object such as {"queries": ["shore power"], "top_k": 3}.',
    "runs": 'Send a JSON object such as {"question": "What was the revenue in 2023?"}.',
    "collections": 'Send a JSON object such as {"name": "reports"}.',
}
_ROUTING_KEYS = frozenset({"type", "path", "root_path", "headers", "query_string"})
"""Keys of a scope that routes match, without what was noted about the route that was found."""
_OTHER_TYPE = frozenset({"string_type", "list_type", "none_required"})
"""Errors of those members of a union that the value was not meant for."""
_MESSAGES = {
    "json_invalid": "The body is not JSON",
    "missing": "It is missing",
    "extra_forbidden": "There is no such field",
    "string_too_long": "It has more than {max_length:,} characters",
    "string_too_short": "It has fewer than {min_length:,} characters",
    "too_long": "It has more than {max_length:,} entries",
    "too_short": "It has fewer than {min_length:,} entries",
    "model_attributes_type": "It is not a JSON object",
    "model_type": "It is not a JSON object",
    "dict_type": "It is not a JSON object",
    "greater_than_equal": "It must be at least {ge}",
    "less_than_equal": "It must be at most {le}",
    "literal_error": "It must be {expected}",
    "enum": "It must be {expected}",
    "int_type": "It is not a whole number",
    "int_parsing": "It is not a whole number",
    "int_from_float": "It is not a whole number",
    "bool_type": "It is not true or false",
    "bool_parsing": "It is not true or false",
}


class Refusal(VragError):
    """A request that is not carried out, and the status of its response.

    `wait` are the seconds after which the client may try again, where that is known; `reason` is the word
    under which the refusal is counted.
    """

    def __init__(
        self, status: int, message: str, hint: str = "", wait: float | None = None, reason: str = "other"
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.wait = wait
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by its own arguments."""
        return type(self), (self.status, self.message, self.hint, self.wait, self.reason)

    def response(self) -> Response:
        """Return the response to the client."""
        headers = {} if self.wait is None else {"Retry-After": str(max(1, math.ceil(self.wait)))}
        return problem_response(self.status, self.message, self.hint, headers=headers)


class ClientLeft(Exception):
    """The client closed its connection: nobody waits for the response."""


class FrozenModel(BaseModel):
    """Base of immutable requests and responses; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def responses(*statuses: int, model: type[BaseModel] = ProblemDetails) -> Responses:
    """Describe these statuses, and those that every route has, for OpenAPI.

    FastAPI builds a validator for each response with a model, which would take most of the time to build an
    application: one response defines the schema, and the others refer to it.
    """
    content = {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    others = sorted({*statuses, 403, 408, 413, 422, 429, 500})
    return {
        401: {"model": model, "description": MEANINGS[401]},
        **{status: {"description": MEANINGS[status], "content": content} for status in others},
    }


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a JSON body that a route reads itself, for OpenAPI and the check of its type."""
    return {"requestBody": {"required": True, "content": {JSON_TYPE: {"schema": schema}}}}


def problem_response(
    status: int,
    detail: str,
    hint: str = "",
    *,
    id: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Build the response for a problem."""
    content = ProblemDetails(detail=detail, hint=hint, id=id).model_dump_json(exclude_none=True)
    return Response(content, status, {**_HEADERS.get(status, {}), **(headers or {})}, "application/json")


def log_error(error: BaseException, action: str, *, trace: bool = True) -> str:
    """Log an internal error; return the id under which the log has it."""
    error_id = secrets.token_hex(6)
    if trace:
        log.error("%s failed [%s]", action, error_id, exc_info=error)
    else:
        log.error("%s failed [%s]: %s", action, error_id, error)
    return error_id


def internal_error_response(error: BaseException, action: str) -> Response:
    """Log an unexpected error and build its response, which names only the id in the log."""
    error_id = log_error(error, action)
    return problem_response(500, "Internal server error.", _SEE_LOG.format(error_id), id=error_id)


def register(app: FastAPI) -> None:
    """Make an application answer errors this way."""
    app.add_exception_handler(RequestValidationError, _validation_response)
    app.add_exception_handler(ValidationError, _validation_response)
    app.add_exception_handler(HTTPException, _http_response)
    app.add_exception_handler(VragError, _vrag_response)
    app.add_exception_handler(ClientLeft, _client_left_response)
    app.add_exception_handler(ClientDisconnect, _client_left_response)  # before its body had arrived


def _client_left_response(_: Request, __: Exception) -> Response:
    """Build a response that nobody receives; its status is for the counters."""
    return Response(status_code=499)


def fault_message(fault: Any) -> str:  # noqa: ANN401 - pydantic's, typed differently by its makers
    """Say what is wrong, without full stop and value; `fault` is one of pydantic's `errors()`."""
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return "It must not be blank" if context["pattern"] == NOT_BLANK else "It does not have a valid form"
    if kind in {"string_too_short", "too_short"} and context.get("min_length") == 1:
        return "It is empty"
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(**context)
    return as_sentence(str(fault["msg"]).removeprefix("Value error, ")).removesuffix(".")


def located_fault(fault: Any) -> tuple[str, str]:  # noqa: ANN401 - as above
    """Return the place of a fault, with dots between its parts, and a sentence that names the place."""
    place = ".".join(str(part)[:40] for part in fault["loc"])
    return place, f"{place}: {fault_message(fault)}." if place else f"{fault_message(fault)}."


def _validation_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | ValidationError)
    faults: list[Any] = list(error.errors())
    specific = [fault for fault in faults if fault["type"] not in _OTHER_TYPE]
    fault = max(specific or faults, key=lambda fault: len(fault["loc"]))
    names = [part for part in fault["loc"] if part not in {"body", "query", "path", "header"}]
    if fault["type"] == "json_invalid":
        names = []  # it is a position
    messages = [fault_message(fault)]
    if names and not specific:  # the value has none of the types that the field may have
        place = fault["loc"][0], len(fault["loc"])
        alternatives = [
            fault_message(other) for other in faults if (other["loc"][0], len(other["loc"])) == place
        ]
        messages = [alternatives[0], *(text.removeprefix("Input should be ") for text in alternatives[1:])]
    message = " or ".join(dict.fromkeys(messages))
    section = request.scope["path"].split("/")[1]
    if not names:
        return problem_response(422, f"{message}.", _BODY_EXAMPLES.get(section, _SEE_ROUTES))
    indices = "".join(f"[{part}]" for part in names[1:] if isinstance(part, int))
    name = str(names[0])
    field = SearchRequest.model_fields.get(name)
    hint = (field.description if field else None) or _SEE_ROUTES
    if name == "id":
        hint = _ID_HINTS.get(section, _SEE_ROUTES)
    return problem_response(422, f"{name[:60]}{indices}: {message}.", hint)


def _http_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and error.__cause__ is not None:
        # An error while FastAPI read a body: it turns all of them, ours included, into status 400.
        match error.__cause__:
            case Refusal() as refusal:
                return refusal.response()
            case ClientDisconnect() | ClientLeft():
                return Response(status_code=499)
            case _:  # not UTF-8, or nested too deeply
                return problem_response(422, "The body is not JSON.", _SEE_ROUTES)
    hint = _SEE_ROUTES if error.status_code in {404, 405} else ""
    headers = dict(error.headers or {})
    if "Allow" in headers:  # each of FastAPI's routes knows of its own method alone
        scope = {name: value for name, value in request.scope.items() if name in _ROUTING_KEYS}
        methods: list[str] = []
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            matches = (route.matches({**scope, "method": method})[0] for route in request.app.routes)
            if Match.FULL in matches:
                methods.append(method)
        headers["Allow"] = ", ".join(methods) or headers["Allow"]
    return problem_response(error.status_code, str(error.detail), hint, headers=headers)


def _vrag_response(request: Request, error: Exception) -> Response:
    """Answer an error of vrag. Clients see only what concerns the request itself."""
    assert isinstance(error, VragError)
    match error:
        case Refusal():
            return error.response()
        case ServerError():
            log.warning("%s: %s", request.url.path, error)
            return problem_response(502, "The search server behind this one failed.", "Try again later.")
        case SearchError():
            return problem_response(422, error.message, error.hint)
        case _:
            error_id = log_error(error, request.url.path, trace=False)
            detail = "The server cannot handle this request at the moment."
            return problem_response(503, detail, _SEE_LOG.format(error_id), id=error_id)
