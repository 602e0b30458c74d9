"""The check of `Content-Type`, on every route that has a JSON body."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fastapi.routing import APIRoute
from hosting import Nothing, Scripted
from server_harness import asked
from starlette.routing import BaseRoute, Route

from vrag.server.app import Service, create_app
from vrag.server.http.content_types import takes_json
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fastapi import FastAPI

JSON_ROUTES = {
    "POST /search",
    "POST /session",
    "POST /runs",
    "PATCH /runs/{id}",
    "POST /reports",
    "POST /collections",
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /mcp",
}
WRONG = (
    None,
    "",
    "application/x-www-form-urlencoded",
    "text/plain",
    "text/plain; application/json",
    "text/json",
    "multipart/form-data; boundary=a",
    "application/jsonx",
    "application/json, text/plain",
    "application/json; charset=utf-16",
)
RIGHT = (
    "application/json",
    "Application/JSON",
    "application/json; charset=utf-8",
    'application/json;charset="UTF-8"',
    "application/vnd.api+json",
)


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(tiny_corpus(), service=Service(Scripted(tmp_path), Nothing()))


def list_routes(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in routes:
        if isinstance(route, Route):
            yield route
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from list_routes(inner.routes)


def test_every_route_with_a_json_body_refuses_other_types(app: FastAPI) -> None:
    """The routes are those of the application: a new one is checked without a line here."""
    found = [route for route in list_routes(app.routes) if takes_json(route, route.endpoint)]
    names = {
        f"{method} {route.path}"
        for route in found
        for method in route.methods or {"POST"}
        if method != "HEAD"
    }
    assert names >= JSON_ROUTES

    async def send() -> None:
        async with asked(app) as client:
            for route in found:
                for method in (route.methods or {"POST"}) - {"HEAD"}:
                    for type_ in WRONG:
                        headers = {} if type_ is None else {"Content-Type": type_}
                        path = route.path.replace("{id}", "a")
                        response = await client.request(method, path, content=b'{"a": 1}', headers=headers)
                        assert response.status_code == 415, (method, path, type_, response.text)
                        assert "Content-Type: application/json" in response.text

    asyncio.run(send())


def test_every_operation_with_a_json_body_says_so(app: FastAPI) -> None:
    """A route that reads JSON without declaring it would not be checked."""
    declared = {
        f"{method.upper()} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    }
    checked = {
        f"{method} {route.path}"
        for route in list_routes(app.routes)
        if isinstance(route, APIRoute) and takes_json(route)
        for method in route.methods or ()
    }
    assert declared == checked
    for name in declared:
        method, path = name.split(" ")
        assert "415" in app.openapi()["paths"][path][method.lower()]["responses"], name


@pytest.mark.parametrize("type_", RIGHT)
def test_json_is_read_under_its_names(app: FastAPI, type_: str) -> None:
    async def send() -> None:
        async with asked(app, **{"Content-Type": type_}) as client:
            for path in ("/search", "/session"):
                assert (await client.post(path, content=b"{}")).status_code == 422, path
            found = await client.post("/search", content='{"queries": "ferry"}')
            assert found.status_code == 200

    asyncio.run(send())


def test_a_missing_body_is_not_one_of_a_wrong_type(app: FastAPI) -> None:
    async def send() -> None:
        async with asked(app) as client:
            for path in ("/search", "/session", "/runs", "/collections"):
                for headers in ({}, {"Content-Type": "text/plain"}):
                    response = await client.post(path, headers=headers)
                    assert response.status_code == 422, (path, response.text)
            for path in ("/v1/chat/completions", "/v1/responses"):
                assert (await client.post(path)).status_code == 400

    asyncio.run(send())
