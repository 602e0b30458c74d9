"""Roles: each route of the application lets in those whose role it needs, and nobody else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from completions_client import QUESTION
from hosting import ANSWER, SEARCH, Nothing
from hypothesis import given
from hypothesis import strategies as st
from library_harness import library
from server_harness import asked, serving
from service_harness import scripted
from setup_harness import setup_server
from starlette.routing import Match, Route

from vrag.doctor.inspector import DoctorInspector
from vrag.factory.server import model_servers
from vrag.server.app import Service, create_app
from vrag.server.http.auth import is_public
from vrag.server.http.roles import ROUTES, rule_of
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions
from vrag.server.setup.routes import ModelSetup
from vrag.settings import Settings
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI

ASK, UPLOAD, MANAGE, ADMINISTER = UserRole
VALUES = {"id": "0" * 64, "name": "first", "sha256": "0" * 64, "filename": "a/b.txt", "path": "app.js"}
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}
REFUSED = re.compile(r"Your token has the role (\w+), which does not allow you to")


@dataclass
class Team:
    """An application with a user of each role, who bears the name of the role."""

    app: FastAPI
    tokens: dict[UserRole, str]
    file: TokenFile

    def headers(self, role: UserRole) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[role]}"}


def team_options(folder: Path, **more: Any) -> tuple[ServerOptions, TokenFile, dict[UserRole, str]]:  # noqa: ANN401
    file = TokenFile(folder / "tokens.toml")
    tokens = {role: file.add(role.value, role) for role in UserRole}
    return ServerOptions(tokens=file, drain_seconds=2, **more), file, tokens


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    folder = tmp_path_factory.mktemp("roles")
    settings = Settings(collection=str(folder / "none"))
    setup = ModelSetup(model_servers(settings), DoctorInspector(settings, (), 0.1))
    options, file, tokens = team_options(folder)
    service = Service(scripted(folder / "runs", (SEARCH, ANSWER)), Nothing(), setup=setup)
    return Team(create_app(tiny_corpus(), options, service=service), tokens, file)


def routes_of(routes: Sequence[Any]) -> Iterator[Route]:
    """All routes, those of included routers too."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from routes_of(included.routes)
        else:
            yield route


def operations(app: FastAPI) -> list[tuple[str, str, Route]]:
    """Method and path of every route; a route of any method has those that MCP clients send."""
    return [
        (method, route.path, route)
        for route in routes_of(app.routes)
        for method in sorted((route.methods or {"GET", "POST"}) - {"HEAD"})
    ]


def address_of(path: str, values: dict[str, str] = VALUES) -> str:
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda match: values[match[1]], path)


class TestTable:
    def test_every_route_has_a_row_and_every_row_a_route(self, team: Team) -> None:
        assert {(method, path) for method, path, _ in operations(team.app)} == set(ROUTES)

    def test_rows_without_a_role_are_those_that_need_no_token(self) -> None:
        public = {row for row, rule in ROUTES.items() if rule.role is None}
        assert public == {row for row in ROUTES if is_public(address_of(row[1]))}

    def test_what_changes_something_has_a_name_in_the_audit_log(self) -> None:
        reads = {"/search", "/setup/models", "/setup/test", "/mcp", "/reports"}
        changing = {row for row in ROUTES if row[0] != "GET" and row[1] not in reads | {"/session"}}
        assert {row for row in changing if not (ROUTES[row].action and ROUTES[row].changes)} == set()

    @given(
        number=st.integers(0, 10**6),
        text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
        end=st.sampled_from(["", "", "\n", "/", "x"]),
    )
    def test_whatever_stands_in_a_path_it_has_the_rule_of_the_route_that_answers(
        self, team: Team, number: int, text: str, end: str
    ) -> None:
        known = operations(team.app)
        method, path, _ = known[number % len(known)]
        target = address_of(path, dict.fromkeys(VALUES, text)) + end
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": target,
            "root_path": "",
            "headers": [],
        }
        answering = next((r for m, _, r in known if m == method and r.matches(scope)[0] is Match.FULL), None)
        if answering is not None:
            assert rule_of(method, target)[0] == ROUTES[method, answering.path]

    def test_a_method_that_a_path_does_not_have_is_405_for_whoever_may_send_another(self, team: Team) -> None:
        known = operations(team.app)

        def roles_of(address: str) -> dict[str, UserRole | None]:
            """Roles of the routes that answer at an address, by their methods."""
            scope: dict[str, Any] = {"type": "http", "path": address, "root_path": "", "headers": []}
            return {
                method: ROUTES[method, route.path].role
                for method, _, route in known
                if route.matches({**scope, "method": method})[0] is Match.FULL
            }

        async def check(role: UserRole) -> None:
            async with asked(team.app, **team.headers(role)) as client:
                for address in {address_of(path) for _, path, _ in known if path != "/mcp"}:  # it answers all
                    roles = roles_of(address)
                    may = any(each is None or role.includes(each) for each in roles.values())
                    for method in METHODS - set(roles):
                        response = await client.request(method, address)
                        allowed = set(response.headers.get("allow", "").split(", ")) - {"HEAD"}
                        expected = (405, set(roles)) if may else (403, {""})
                        assert (response.status_code, allowed) == expected, (role, method, address)

        for role in UserRole:
            asyncio.run(check(role))

    def test_an_unknown_change_is_for_administrators(self, team: Team) -> None:
        async def statuses(role: UserRole) -> list[int]:
            async with asked(team.app, **team.headers(role)) as client:
                return [
                    (await client.request(method, "/new")).status_code for method in ("GET", "POST", "DELETE")
                ]

        assert asyncio.run(statuses(MANAGE)) == [404, 403, 403]
        assert asyncio.run(statuses(ADMINISTER)) == [404, 404, 404]


@pytest.mark.parametrize("role", UserRole)
def test_every_route_refuses_a_lesser_role_and_no_other(team: Team, role: UserRole) -> None:
    async def refused() -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        async with asked(team.app, **team.headers(role)) as client:
            for method, path, _ in operations(team.app):
                response = await client.request(method, address_of(path))
                if response.status_code == 403:
                    problem = response.json()
                    assert REFUSED.match(problem["detail"])[1] == role.value  # type: ignore[index]
                    least = ROUTES[method, path].role
                    assert problem["hint"].endswith(f"vrag tokens role {role.value} {least}")
                    found.add((method, path))
        return found

    missing = {row for row, rule in ROUTES.items() if rule.role and not role.includes(rule.role)}
    assert asyncio.run(refused()) == missing
    assert bool(missing) == (role is not ADMINISTER)


def test_nobody_gets_past_a_role_by_a_cookie_or_a_head_request(team: Team) -> None:
    async def visit() -> None:
        own = {"origin": "http://127.0.0.1:8001"}
        async with asked(team.app, **own) as browser:
            assert (await browser.post("/session", json={"token": team.tokens[ASK]})).status_code == 204
            told = (await browser.get("/session")).json()
            assert (told["role"], told["admin"], told["user"]) == ("ask", False, "ask")
            assert (await browser.put("/collections/a/documents/b.txt", content=b"x")).status_code == 403
            assert (await browser.head("/retention")).status_code == 403
            assert (await browser.get("/version")).status_code == 200

    asyncio.run(visit())


def test_the_reference_has_the_role_of_each_route(team: Team) -> None:
    document = team.app.openapi()
    for (method, path), rule in ROUTES.items():
        operation = document["paths"].get(re.sub(r":\w+}", "}", path), {}).get(method.lower())
        assert operation is None or operation["x-role"] == rule.role


def test_a_changed_role_holds_at_the_next_request(tmp_path: Path) -> None:
    options, file, tokens = team_options(tmp_path)
    with (
        library(tmp_path, options=options) as desk,
        httpx.Client(base_url=desk.address, headers={"origin": desk.address}) as browser,
    ):
        assert browser.post("/session", json={"token": tokens[ASK]}).status_code == 204
        token = {"authorization": f"Bearer {tokens[ASK]}"}
        path = "/collections/first/documents/note.txt"

        def statuses() -> set[int]:
            return {
                browser.put(path, content=b"The ferry").status_code,
                httpx.put(desk.address + path, content=b"The ferry", headers=token).status_code,
            }

        assert statuses() == {403}
        file.set_role("ask", UPLOAD)
        assert statuses() == {202}
        file.set_role("ask", ASK)
        assert statuses() == {403}


def test_lists_say_what_the_user_may_change_and_who_can_allow_the_rest(tmp_path: Path) -> None:
    options, _, tokens = team_options(tmp_path)
    told: dict[UserRole, tuple[bool, bool, bool]] = {}
    with library(tmp_path, options=options) as desk:
        for role, token in tokens.items():
            desk.client.headers["authorization"] = f"Bearer {token}"
            if role is ASK:
                admin = {"authorization": f"Bearer {tokens[ADMINISTER]}"}
                desk.client.post("/collections", json={"name": "second"}, headers=admin).raise_for_status()
            listing = desk.client.get("/collections").json()
            first, second = listing["collections"]
            told[role] = (first["writable"], second["removable"], listing["creatable"])
            assert ("role ask upload" in (first["reason"] or "")) == (role is ASK)
            assert (f"role {role} manage" in (listing["not_creatable"] or "")) == (role in {ASK, UPLOAD})
    assert told == {
        ASK: (False, False, False),
        UPLOAD: (True, False, False),
        MANAGE: (True, True, True),
        ADMINISTER: (True, True, True),
    }


def test_the_model_for_all_is_for_administrators(tmp_path: Path) -> None:
    from library_harness import first_collection

    options, _, tokens = team_options(tmp_path)
    with setup_server(first_collection(tmp_path), options) as setup:
        for role, token in tokens.items():
            header = {"authorization": f"Bearer {token}"}
            statuses = {
                setup.browser.put(
                    "/setup", json={"model": "m", "server": "openai", "scope": "all"}, headers=header
                ).status_code,
                setup.browser.delete("/setup", params={"scope": "all"}, headers=header).status_code,
            }
            assert statuses == ({200} if role is ADMINISTER else {403}), role


def test_who_may_only_ask_asks_by_every_interface(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    options, _, tokens = team_options(tmp_path)
    answering = scripted(tmp_path / "runs", (SEARCH, ANSWER))
    with (
        serving(options=options, service=Service(answering, Nothing())) as address,
        httpx.Client(
            base_url=address, headers={"authorization": f"Bearer {tokens[ASK]}"}, timeout=30
        ) as client,
    ):
        run = client.post("/runs", json={"question": "How many?"})
        assert run.status_code == 201
        assert client.delete(f"/runs/{run.json()['id']}").status_code in {200, 202}
        asked = client.post("/v1/chat/completions", json={"model": "vrag", "messages": QUESTION})
        assert asked.status_code == 200
        call = {"name": "ask", "arguments": {"question": "How many?"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"accept": "application/json, text/event-stream"}
        assert "48,200" in client.post("/mcp", json=request, headers=accept).text
