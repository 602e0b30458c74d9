"""`/docs`: the reference of the HTTP interface, drawn from the OpenAPI document.

FastAPI's own pages load Swagger UI or ReDoc from another site, and packages that bring them along weigh
megabytes of scripts, which the policy of this server would not run. This page has no script, so that the
browser's own search finds everything in it, and fetches nothing. It needs the token, as the OpenAPI document
does: both name the collections.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.responses import JSONResponse, Response

from vrag.render.markup import environment, package_text
from vrag.render.text_format import printable
from vrag.server.http.errors import responses
from vrag.server.http.root_path import root_path_of
from vrag.server.page_files import PageFile

_STYLE = ("vrag.server", "api_reference.css")
_GROUPS = {
    "runs": "Questions and runs",
    "search": "Search",
    "items": "Pages, clips and passages",
    "collections": "Collections and documents",
    "openai": "For clients of OpenAI",
    "session": "Sign-in of browsers",
    "status": "State of the server",
}
"""Titles of the tags of routes, in their order; further tags follow under their own names."""
_EXAMPLES: Mapping[str, Any] = {
    "question": "What was the revenue in 2023?",
    "queries": ["shore power"],
    "name": "reports",
    "runs": ["RUN"],
    "token": "TOKEN",
    "model": "vrag",
    "messages": [{"role": "user", "content": "What was the revenue in 2023?"}],
    "box": "0.1,0.2,0.5,0.4",
    "size": "800x600",
    "older_than": 30,
}
"""Values of required fields and parameters in examples, by name."""
_COMMON_STATUSES = {str(status): response["description"] for status, response in responses().items()}
"""Of every route, with their meanings."""
_JSON, _EVENTS = "application/json", "text/event-stream"
_SCHEMA = "#/components/schemas/"
_FRAMEWORK_SCHEMAS = frozenset({"HTTPValidationError", "ValidationError"})
"""Of FastAPI's own errors, which this server does not send."""

SchemaType = tuple[tuple[str, str], ...]
"""A type in words: each part with the name of the schema that it links to, or an empty string."""


@dataclass(frozen=True, slots=True)
class DescribedField:
    """A parameter, or a field of a body."""

    name: str
    type: SchemaType
    required: bool
    description: Markup
    place: str = ""
    """`path`, `query` or `header` of a parameter."""
    default: str = ""


@dataclass(frozen=True, slots=True)
class DescribedResponse:
    """A response that a route may give."""

    status: str
    description: str
    type: SchemaType
    media_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribedRoute:
    """A method of a path."""

    method: str
    path: str
    tag: str
    summary: str
    description: Markup
    public: bool
    """True if it needs no token, and others do."""
    role: str
    """The least role that a token needs; empty if the server has no tokens, and for a public route."""
    parameters: tuple[DescribedField, ...]
    body: SchemaType
    """Empty without a body."""
    body_fields: tuple[DescribedField, ...]
    responses: tuple[DescribedResponse, ...]
    curl: str

    @property
    def anchor(self) -> str:
        """Its place in the page."""
        return re.sub(r"\W+", "-", f"{self.method.lower()} {self.path}").strip("-")


@dataclass(frozen=True, slots=True)
class DescribedSchema:
    """A named object that bodies and responses consist of."""

    name: str
    description: Markup
    type: SchemaType
    fields: tuple[DescribedField, ...]


def reference_routes(openapi: Callable[[], dict[str, Any]]) -> APIRouter:
    """Build `/openapi.json` and `/docs` of an application, whose OpenAPI document `openapi` returns."""
    router = APIRouter(include_in_schema=False)

    def described(request: Request) -> dict[str, Any]:
        root_path = root_path_of(request)
        return openapi() | ({"servers": [{"url": root_path}]} if root_path else {})

    @router.api_route("/openapi.json", methods=["GET", "HEAD"])
    async def document(request: Request) -> Response:
        return JSONResponse(described(request))

    @router.api_route("/docs", methods=["GET", "HEAD"])
    def reference(request: Request) -> Response:  # in a thread: it takes a moment
        return _page_file(json.dumps(described(request))).response(request)

    return router


@lru_cache(1)
def _page_file(document: str) -> PageFile:
    digest = base64.b64encode(hashlib.sha256(package_text(*_STYLE).encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    page = render_reference(json.loads(document), policy)
    return PageFile(page.encode(), "text/html", "no-cache", f"{policy}; frame-ancestors 'none'")


def render_reference(document: dict[str, Any], policy: str) -> str:
    """Render the reference of an OpenAPI document as an HTML page with a content security policy."""
    reference = Reference(document)
    template = environment("vrag.server").get_template("api_reference.html.jinja")
    return template.render(
        info=document["info"], reference=reference, statuses=_COMMON_STATUSES, styles=[_STYLE], policy=policy
    )


class Reference:
    """The content of an OpenAPI document, in words."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, Any] = document["components"]["schemas"]
        self.secured = "securitySchemes" in document["components"]
        """True if routes need a token."""
        servers = document.get("servers") or [{"url": ""}]
        self.root_path: str = servers[0]["url"]
        """The path below which the server is served; empty if there is none."""
        self._operations: list[tuple[str, str, dict[str, Any]]] = [
            (method.upper(), path, operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        ]

    def groups(self) -> dict[str, list[DescribedRoute]]:
        """Return the routes by the titles of their tags."""
        routes = [self._route(*operation) for operation in self._operations]
        tags = dict.fromkeys((*_GROUPS, *(route.tag for route in routes)))
        groups = {tag: [route for route in routes if route.tag == tag] for tag in tags}
        return {_GROUPS.get(tag, tag.capitalize()): group for tag, group in groups.items() if group}

    def schemas(self) -> list[DescribedSchema]:
        """Return the named objects, by name."""
        return [
            DescribedSchema(
                name, _prose(schema.get("description", "")), _type(schema), tuple(self._fields(schema))
            )
            for name, schema in sorted(self._schemas.items())
            if name not in _FRAMEWORK_SCHEMAS
        ]

    def _route(self, method: str, path: str, operation: dict[str, Any]) -> DescribedRoute:
        media_type, schema = self._body(operation)
        return DescribedRoute(
            method=method,
            path=path,
            tag=operation["tags"][0],
            summary=operation["summary"],
            description=_prose(operation.get("description", "")),
            role=str(operation.get("x-role") or ""),
            public=self.secured and operation.get("security") == [],
            parameters=tuple(map(_parameter, operation.get("parameters", ()))),
            body=(("the file", ""),) if media_type not in {"", _JSON} else ((media_type and "JSON", ""),),
            body_fields=tuple(self._fields(schema)),
            responses=tuple(
                _response(status, response)
                for status, response in sorted(operation["responses"].items())
                if status not in _COMMON_STATUSES
            ),
            curl=self._curl(method, path, operation),
        )

    def _body(self, operation: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the media type and the schema of a body; empty ones without a body."""
        content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
        media_type = next(iter(content), "")
        schema: dict[str, Any] = content[media_type]["schema"] if media_type else {}
        return media_type, self._schemas[_named(schema)] if "$ref" in schema else schema

    def _fields(self, schema: dict[str, Any], prefix: str = "") -> Iterator[DescribedField]:
        """Yield the fields of an object, required ones first, and those of objects in it without a name."""
        required = set(schema.get("required", ()))
        fields: dict[str, dict[str, Any]] = schema.get("properties", {})
        for name, inner in sorted(fields.items(), key=lambda field: field[0] not in required):
            path = f"{prefix}{name}"
            text = _prose(inner.get("description", ""))
            yield DescribedField(path, _type(inner), name in required, text, default=_default(inner))
            for part, suffix in _nested(inner):
                yield from self._fields(part, f"{path}{suffix}.")

    def _curl(self, method: str, path: str, operation: dict[str, Any]) -> str:
        """Return a command that sends an example, for a shell that knows ADDRESS and VRAG_API_KEY."""
        words = ["curl"]
        done = [response for status, response in operation["responses"].items() if status < "300"]
        types = {media_type for response in done for media_type in response.get("content", ())}
        if types == {_EVENTS}:
            words.append("-N")
        if self.secured and operation.get("security") != []:
            words += ["-H", '"Authorization: Bearer $VRAG_API_KEY"']
        media_type, schema = self._body(operation)
        target = re.sub(r"{(\w+)}", lambda match: match[1].upper(), path)
        if media_type == _JSON:
            body = {name: _EXAMPLES.get(name, name.upper()) for name in schema.get("required", ())}
            words += ["-H", f"'Content-Type: {_JSON}'", "-d", shlex.quote(json.dumps(body))]
        elif media_type:  # curl appends the name of the file
            words += ["-T", "FILE"]
            target = target.removesuffix("FILENAME")
        elif method != "GET":
            words += ["-X", method]
        if types and not types & {_JSON, _EVENTS, "text/plain"}:
            words.append("-O")
        return " ".join([*words, f'"$ADDRESS{target}{_query(operation)}"'])


def _query(operation: dict[str, Any]) -> str:
    """Return the parameters that a request must have behind its path."""
    parameters = operation.get("parameters", ())
    names = [field["name"] for field in parameters if field["in"] == "query" and field["required"]]
    values = {name: _EXAMPLES.get(name, name.upper()) for name in names}
    return f"?{urlencode(values, doseq=True, safe=',')}" if values else ""


def _parameter(parameter: dict[str, Any]) -> DescribedField:
    schema = parameter["schema"]
    text = _prose(parameter.get("description", ""))
    return DescribedField(
        parameter["name"], _type(schema), parameter["required"], text, parameter["in"], _default(schema)
    )


def _response(status: str, response: dict[str, Any]) -> DescribedResponse:
    content: dict[str, Any] = response.get("content", {})
    schema = content.get(_JSON, {}).get("schema", {})
    meaning: str = response["description"]
    if meaning == "Successful Response":  # FastAPI's
        meaning = f"{HTTPStatus(int(status)).phrase}."
    return DescribedResponse(status, meaning, _type(schema) if schema else (), tuple(content))


def _nested(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects without a name in a schema, each with what follows the name of its field."""
    if "properties" in schema:
        yield schema, ""
    for part in _alternatives(schema):
        yield from _nested(part)
    if isinstance(schema.get("items"), dict):
        yield from ((part, f"[]{suffix}") for part, suffix in _nested(schema["items"]))


def _alternatives(schema: dict[str, Any]) -> Sequence[dict[str, Any]]:
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _named(schema: dict[str, Any]) -> str:
    return schema["$ref"].removeprefix(_SCHEMA)


def _type(schema: dict[str, Any]) -> SchemaType:
    """Describe a type in words; schemas with a name become links."""
    if "$ref" in schema:
        return ((_named(schema), _named(schema)),)
    if alternatives := _alternatives(schema):
        return _joined(list(dict.fromkeys(map(_type, alternatives))), " or ")
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return ((" | ".join(map(json.dumps, values)), ""),)
    if "prefixItems" in schema:
        return (("[", ""), *_joined(list(map(_type, schema["prefixItems"])), ", "), ("]", ""))
    kind = schema.get("type", "any value")
    if kind == "array":
        limits = _limits(schema, "minItems", "maxItems", " entries")
        return ((f"list{limits}{':' if limits else ' of'} ", ""), *_type(schema.get("items", {})))
    limits = ("minLength", "maxLength", " characters") if kind == "string" else ("minimum", "maximum", "")
    return ((f"{kind}{_limits(schema, *limits)}", ""),)


def _joined(kinds: Sequence[SchemaType], between: str) -> SchemaType:
    parts = [part for kind in kinds for part in ((between, ""), *kind)]
    return tuple(parts[1:])


def _limits(schema: dict[str, Any], low: str, high: str, unit: str) -> str:
    """Return a range in words, such as `, 1 to 8,000`; empty without limits."""
    least, most = (f"{schema[key]:,.0f}" if key in schema else "" for key in (low, high))
    if least and most:
        return f", {least if least == most else f'{least} to {most}'}{unit}"
    return f", at most {most}{unit}" if most else f", at least {least}{unit}" if least else ""


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", []) else json.dumps(value, ensure_ascii=False)


def _prose(text: str) -> Markup:
    """Render the Markdown of a docstring; HTML in it stays text."""
    html = MarkdownIt("commonmark", {"html": False}).render(printable(text))
    return Markup(html)  # noqa: S704 - its text is escaped
