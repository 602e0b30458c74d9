"""Two users of one server: neither sees the other's runs, by any interface, by any route."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import httpx
import pytest
from completions_client import QUESTION
from hosting import ANSWER, SEARCH, Nothing, Scripted
from server_harness import serving
from service_harness import scripted

from vrag.agent.runs.run_store import RunStore
from vrag.server.app import Service, create_app
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.mcp import TOOLS
from vrag.server.options import ServerOptions
from vrag.server.runs.schema import RUN_ID
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from fastapi import FastAPI

SECRET = "How many passengers does only Alice ask about?"
UNKNOWN = "20200101-000000-000000-ffff"
HASH = "0" * 64
JSON = {"accept": "application/json, text/event-stream"}

Call: TypeAlias = Callable[[httpx.Client, str], httpx.Response]
"""Sends a request that names a run."""


def followed(client: httpx.Client, run: str) -> httpx.Response:
    """The response to whoever follows a run; of events only that there are some, since a run may go on."""
    with client.stream("GET", f"/runs/{run}/events") as response:
        if response.status_code == 200:
            return httpx.Response(200, text="events")
        response.read()
        return response


BY_ROUTE: dict[tuple[str, str], Call] = {
    ("get", "/runs"): lambda client, run: client.get("/runs", params={"session": run}),
    ("post", "/runs"): lambda client, run: client.post("/runs", json={"question": "And?", "session": run}),
    ("get", "/runs/{id}"): lambda client, run: client.get(f"/runs/{run}"),
    ("patch", "/runs/{id}"): lambda client, run: client.patch(f"/runs/{run}", json={"pinned": True}),
    ("delete", "/runs/{id}"): lambda client, run: client.delete(f"/runs/{run}"),
    ("get", "/runs/{id}/events"): followed,
    ("get", "/runs/{id}/files/{sha256}.jpg"): lambda client, run: client.get(f"/runs/{run}/files/{HASH}.jpg"),
    ("get", "/runs/{id}/export"): lambda client, run: client.get(f"/runs/{run}/export"),
    ("post", "/reports"): lambda client, run: client.post("/reports", json={"runs": [run]}),
}
"""Every route that takes the id of a run. A new one has to be added here, and is tested then."""
PURGE = ("delete", "/runs")
"""Deletes runs of all users, and is for administrators alone: see test_retention.py."""
WITHOUT_SCHEMA = {"/", "/docs", "/favicon.ico", "/static/{path}", "/mcp", "/openapi.json"}
"""Routes that are not in the OpenAPI document. Of these only /mcp knows of runs."""


@dataclass
class Users:
    """A server with two users, an administrator and a token of its own."""

    address: str
    answering: Scripted
    file: TokenFile
    clients: dict[str, httpx.Client] = field(default_factory=dict[str, httpx.Client])

    @property
    def alice(self) -> httpx.Client:
        return self.clients["alice"]

    @property
    def bob(self) -> httpx.Client:
        return self.clients["bob"]

    @property
    def carol(self) -> httpx.Client:
        """An administrator."""
        return self.clients["carol"]

    @property
    def root(self) -> httpx.Client:
        """With the server's own token."""
        return self.clients["root"]

    def add(self, name: str, token: str) -> None:
        headers = {"authorization": f"Bearer {token}"}
        self.clients[name] = httpx.Client(base_url=self.address, headers=headers, timeout=120)

    def ended(self, client: httpx.Client, **asked: Any) -> dict[str, Any]:  # noqa: ANN401
        """A run that has ended."""
        response = client.post("/runs", json={"question": SECRET} | asked)
        assert response.status_code == 201, response.text
        run = response.json()["id"]
        client.get(f"/runs/{run}/events")
        return client.get(f"/runs/{run}").json()


@pytest.fixture
def users(tmp_path: Path) -> Generator[Users]:
    answering = scripted(tmp_path / "runs", (SEARCH, ANSWER))
    file = TokenFile(tmp_path / "tokens.toml")
    tokens = {
        name: file.add(name, UserRole.ADMINISTER if name == "carol" else UserRole.MANAGE)
        for name in ("alice", "bob", "carol")
    }
    options = ServerOptions(token="the server's own", tokens=file, drain_seconds=2)
    with serving(options=options, service=Service(answering, Nothing())) as address:
        users = Users(address, answering, file)
        for name, token in (tokens | {"root": "the server's own"}).items():
            users.add(name, token)
        yield users
        for client in users.clients.values():
            client.close()


def names_a_run(node: Any, document: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:  # noqa: ANN401
    """Whether a part of an OpenAPI document describes a value that is the id of a run."""
    match node:
        case {"$ref": str(reference)} if reference not in seen:
            part: Any = document
            for key in reference.removeprefix("#/").split("/"):
                part = part[key]
            return names_a_run(part, document, seen | {reference})
        case {"pattern": str(pattern)} if RUN_ID in pattern:
            return True
        case dict():
            values = list(cast("dict[str, Any]", node).values())
            return names_a_run(values, document, seen)
        case list():
            return any(names_a_run(value, document, seen) for value in cast("list[Any]", node))
        case _:
            return False


def paths_of(routes: Sequence[Any]) -> Iterator[str]:
    """The paths of all routes, those of included routers too."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from paths_of(included.routes)
        else:
            yield route.path_format


def routes_of_runs(app: FastAPI) -> set[tuple[str, str]]:
    """The routes that take the id of a run: in the path, the query or the body."""
    document = app.openapi()
    return {
        (method, path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if (path.startswith("/runs") and (method, path) != PURGE)
        or names_a_run([operation.get("parameters"), operation.get("requestBody")], document)
    }


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    service = Service(Scripted(tmp_path_factory.mktemp("runs")), Nothing())
    return create_app(tiny_corpus(), service=service)


class TestEveryRoute:
    def test_every_route_that_takes_the_id_of_a_run_is_tried_here(self, app: FastAPI) -> None:
        assert routes_of_runs(app) == set(BY_ROUTE)

    def test_no_other_route_is_hidden(self, app: FastAPI) -> None:
        described = set(app.openapi()["paths"])
        paths = set(paths_of(app.routes))
        assert paths > described
        assert paths - described == WITHOUT_SCHEMA

    def test_one_tool_takes_the_id_of_a_run(self) -> None:
        schemas = {tool.name: tool.arguments.model_json_schema() for tool in TOOLS}
        assert [name for name, schema in schemas.items() if names_a_run(schema, schema)] == ["ask"]

    @pytest.mark.parametrize(("method", "path"), BY_ROUTE)
    def test_a_run_of_another_is_refused_as_one_that_does_not_exist(
        self, users: Users, method: str, path: str
    ) -> None:
        run = users.ended(users.alice)["id"]
        call = BY_ROUTE[method, path]
        foreign, unknown = call(users.bob, run), call(users.bob, UNKNOWN)
        assert foreign.status_code == unknown.status_code
        assert foreign.text.replace(run, UNKNOWN) == unknown.text
        assert (method, path) == ("get", "/runs") or foreign.status_code == 404
        for client in (users.alice, users.carol, users.root):
            own = call(client, run)
            assert own.text.replace(run, UNKNOWN) != unknown.text
        assert users.alice.get(f"/runs/{run}").json()["state"] == "finished"

    @pytest.mark.parametrize(("method", "path"), BY_ROUTE)
    def test_a_running_one_as_well(self, users: Users, method: str, path: str) -> None:
        users.answering.policy.go.clear()
        run = users.alice.post("/runs", json={"question": SECRET}).json()["id"]
        call = BY_ROUTE[method, path]
        foreign, unknown = call(users.bob, run), call(users.bob, UNKNOWN)
        assert (foreign.status_code, foreign.text.replace(run, UNKNOWN)) == (
            unknown.status_code,
            unknown.text,
        )
        assert users.alice.get(f"/runs/{run}").json()["state"] == "running"
        users.answering.policy.go.set()

    def test_a_deletion_as_well(self, users: Users) -> None:
        run = users.ended(users.alice)["id"]
        for remove in ("run", "conversation"):
            foreign = users.bob.delete(f"/runs/{run}", params={"remove": remove})
            unknown = users.bob.delete(f"/runs/{UNKNOWN}", params={"remove": remove})
            assert foreign.status_code == unknown.status_code == 404
            assert foreign.text.replace(run, UNKNOWN) == unknown.text
        assert users.alice.get(f"/runs/{run}").status_code == 200

    def test_one_foreign_run_among_several_is_refused(self, users: Users) -> None:
        own, foreign = users.ended(users.bob)["id"], users.ended(users.alice)["id"]
        response = users.bob.post("/reports", json={"runs": [own, foreign]})
        assert response.status_code == 404
        assert SECRET not in users.bob.post("/reports", json={"runs": [foreign, own]}).text

    def test_nothing_that_can_be_read_without_an_id_has_anything_of_another(
        self, users: Users, app: FastAPI
    ) -> None:
        run = users.ended(users.alice)["id"]
        paths = [path for path, methods in app.openapi()["paths"].items() if "get" in methods]
        for path in (*paths, *WITHOUT_SCHEMA):
            if "{" in path:
                continue
            text = users.bob.get(path, params={"text": "alice"}).text
            assert run not in text, path
            assert "alice" not in text, path
        listed = users.bob.get("/runs").json()
        assert (listed["runs"], listed["people"], listed["programs"], listed["owners"]) == ([], 0, 0, [])
        assert users.bob.get("/runs", params={"before": run}).json()["runs"] == []

    @pytest.mark.parametrize("query", [{}, {"text": "alice"}, {"owner": "alice"}, {"pinned": True}])
    def test_a_list_has_the_own_runs_and_an_administrator_sees_all(
        self, users: Users, query: dict[str, Any]
    ) -> None:
        first = users.ended(users.alice)["id"]
        users.alice.patch(f"/runs/{first}", json={"pinned": True})
        second = users.ended(users.bob, question="Bob's and alice's?")["id"]
        users.bob.patch(f"/runs/{second}", json={"pinned": True})

        def listed(client: httpx.Client) -> set[str]:
            return {run["id"] for run in client.get("/runs", params=query).json()["runs"]}

        assert listed(users.alice) == {first}
        assert listed(users.bob) == (set() if "owner" in query else {second})
        for client in (users.carol, users.root):
            assert listed(client) == ({first} if "owner" in query else {first, second})
        assert users.carol.get("/runs").json()["owners"] == ["alice", "bob"]


class TestOtherInterfaces:
    def test_runs_of_openai_clients_belong_to_the_user_of_their_token(self, users: Users) -> None:
        asked = {"model": "vrag", "messages": QUESTION}
        answer = users.alice.post("/v1/chat/completions", json=asked).json()
        run = (
            answer["vrag"]["run_id"]
            if "vrag" in answer
            else answer["choices"][0]["message"]["vrag"]["run_id"]
        )
        own = users.alice.get(f"/runs/{run}").json()
        assert (own["owner"], own["via"]) == ("alice", "openai")
        assert users.bob.get(f"/runs/{run}").status_code == 404

    def test_a_response_of_another_cannot_be_continued(self, users: Users) -> None:
        run = users.ended(users.alice)["id"]

        def follow(client: httpx.Client, run: str) -> httpx.Response:
            body = {"model": "vrag", "input": "And?", "previous_response_id": f"resp_{run}"}
            return client.post("/v1/responses", json=body)

        foreign, unknown, own = follow(users.bob, run), follow(users.bob, UNKNOWN), follow(users.alice, run)
        assert (foreign.status_code, foreign.text) == (unknown.status_code, unknown.text)
        assert (foreign.status_code, own.status_code) == (400, 200)
        assert SECRET not in foreign.text

    def test_an_mcp_client_cannot_continue_a_conversation_of_another(self, users: Users) -> None:
        pytest.importorskip("mcp", reason="needs the extra mcp")
        run = users.ended(users.alice)["id"]

        def ask(client: httpx.Client, **arguments: str) -> dict[str, Any]:
            call = {"name": "ask", "arguments": {"question": "And?"} | arguments}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            response = client.post("/mcp", json=request, headers=JSON)
            assert response.status_code == 200, response.text
            lines = re.findall(r"^data: ?(\{.*)$", response.text, re.MULTILINE)
            return json.loads(lines[-1] if lines else response.text)["result"]

        foreign, unknown = ask(users.bob, session=run), ask(users.bob, session=UNKNOWN)
        assert foreign["isError"]
        assert json.dumps(foreign).replace(run, UNKNOWN) == json.dumps(unknown)
        own = ask(users.bob)["structuredContent"]["run"]
        detail = users.bob.get(f"/runs/{own}").json()
        assert (detail["owner"], detail["via"]) == ("bob", "mcp")
        assert users.alice.get(f"/runs/{own}").status_code == 404
        assert "isError" not in (told := ask(users.alice, session=run)) or not told["isError"]

    def test_what_asked_is_noted(self, users: Users) -> None:
        own_page = {"origin": users.address}
        page = users.alice.post("/runs", json={"question": SECRET}, headers=own_page).json()
        program = users.alice.post("/runs", json={"question": SECRET}).json()
        assert (page["via"], program["via"]) == ("page", "api")
        listed = users.alice.get("/runs", params={"asker": "people"}).json()
        assert [run["id"] for run in listed["runs"]] == [page["id"]]
        assert (listed["people"], listed["programs"]) == (1, 1)


class TestSharing:
    def test_a_shared_conversation_can_be_read_and_not_changed(self, users: Users) -> None:
        first = users.ended(users.alice)["id"]
        later = users.ended(users.alice, session=first, question="And before?")["id"]
        assert users.alice.patch(f"/runs/{later}", json={"shared": True}).json()["shared"]
        for run in (first, later):
            assert users.bob.get(f"/runs/{run}").json()["shared"]
            assert users.bob.get(f"/runs/{run}/export").status_code == 200
            assert "end" in users.bob.get(f"/runs/{run}/events").text
            for refused in (
                users.bob.delete(f"/runs/{run}"),
                users.bob.delete(f"/runs/{run}", params={"remove": "conversation"}),
                users.bob.patch(f"/runs/{run}", json={"shared": False}),
                users.bob.post("/runs", json={"question": "And?", "session": run}),
            ):
                assert refused.status_code == 403, refused.text
        assert users.bob.post("/reports", json={"runs": [first, later]}).status_code == 200
        listed = users.bob.get("/runs", params={"session": first}).json()["runs"]
        assert [run["id"] for run in listed] == [later, first]
        assert users.bob.get("/runs").json()["runs"] == []
        users.alice.patch(f"/runs/{first}", json={"shared": False})
        assert users.bob.get(f"/runs/{later}").status_code == 404

    def test_who_is_not_signed_in_sees_nothing_of_it(self, users: Users) -> None:
        run = users.ended(users.alice)["id"]
        users.alice.patch(f"/runs/{run}", json={"shared": True})
        assert httpx.get(f"{users.address}/runs/{run}").status_code == 401

    def test_what_an_administrator_adds_to_a_conversation_belongs_to_its_owner(self, users: Users) -> None:
        first = users.ended(users.alice)["id"]
        later = users.ended(users.carol, session=first, question="And?")
        assert later["owner"] == "alice"
        assert users.alice.get(f"/runs/{later['id']}").status_code == 200

    def test_a_run_without_an_owner_is_seen_by_administrators_alone(self, users: Users) -> None:
        run = users.ended(users.alice)["id"]
        with RunStore(users.answering.directory).changing() as connection:
            connection.execute("UPDATE runs SET owner = '' WHERE id = ?", (run,))
        assert users.alice.get(f"/runs/{run}").status_code == 404
        assert users.carol.get(f"/runs/{run}").json()["owner"] == ""


class TestSessions:
    def test_a_session_is_that_of_its_user_and_ends_with_the_token(self, users: Users) -> None:
        run = users.ended(users.alice)["id"]
        token = users.file.add("dave")
        with httpx.Client(base_url=users.address, headers={"origin": users.address}, timeout=120) as browser:
            assert browser.post("/session", json={"token": token}).status_code == 204
            session = browser.get("/session").json()
            assert (session["user"], session["admin"], session["has_users"]) == ("dave", False, True)
            assert browser.get(f"/runs/{run}").status_code == 404
            own = users.ended(browser)
            assert (own["owner"], own["via"]) == ("dave", "page")
            users.file.remove("dave")
            assert browser.get(f"/runs/{own['id']}").status_code == 401
            assert not browser.get("/session").json()["signed_in"]
            assert browser.post("/session", json={"token": token}).status_code == 401
        assert users.carol.get(f"/runs/{own['id']}").status_code == 200

    def test_a_wrong_token_of_somebody_is_no_better_than_any(self, users: Users) -> None:
        statuses = {
            httpx.get(f"{users.address}/runs", headers={"authorization": f"Bearer {token}"}).status_code
            for token in ("alice", "vrag_", "admin")
        }
        assert statuses <= {401}


def test_without_tokens_everybody_sees_everything(tmp_path: Path) -> None:
    answering = scripted(tmp_path / "runs", (SEARCH, ANSWER))
    with (
        serving(service=Service(answering, Nothing())) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        run = client.post("/runs", json={"question": SECRET}).json()
        assert run["owner"] == ""
        with RunStore(answering.directory).changing() as connection:
            connection.execute("UPDATE runs SET owner = 'alice' WHERE id = ?", (run["id"],))
        assert client.get(f"/runs/{run['id']}").json()["owner"] == "alice"
        assert client.get("/session").json()["has_users"] is False
