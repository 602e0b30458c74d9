"""The check of `Content-Type` on all routes that read JSON, by the body that each route declares.

A page of another site can have a browser send text or a form without asking first, and JSON only after asking
(CORS). Clients that send JSON under another type are told what to send instead.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import Scope

from vrag.server.http.errors import JSON_TYPE, Refusal

_JSON = re.compile(
    r"application/(?:[\w.!#$&^-]+\+)?json\s*(?:;\s*charset\s*=\s*\"?utf-?8\"?\s*)?;?", re.IGNORECASE
)


def takes_json(route: Any, endpoint: Any = None) -> bool:  # noqa: ANN401 - of several frameworks
    """Return whether a route declares a JSON body.

    It does so by a model, by `json_body`, or, as an ASGI application, by its attribute `takes_json`.
    """
    if not isinstance(route, APIRoute):
        return bool(getattr(endpoint, "takes_json", False))
    declared = (route.openapi_extra or {}).get("requestBody", {}).get("content", {})
    return route.body_field is not None or JSON_TYPE in declared


def check_content_type(scope: Scope) -> None:
    """Refuse a body of another type where the route takes JSON (415); a request without body passes."""
    headers = Headers(scope=scope)
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""
    if not has_body or not takes_json(scope.get("route"), scope.get("endpoint")):
        return
    types = headers.getlist("content-type")
    if len(types) != 1 or not _JSON.fullmatch(types[0].strip()):
        hint = f"Send the header Content-Type: {JSON_TYPE}, and the body in UTF-8."
        raise Refusal(415, "The route takes JSON.", hint, reason="type")
