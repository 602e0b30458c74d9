"""Without the token nothing but health, the static shell and the way in answers: over real sockets, as raw
requests that no client tidies up, from an address of this machine that is not loopback where it has one."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hosting import Nothing, PacedPolicy, Scripted
from server_harness import threaded
from starlette.routing import BaseRoute, Mount, Route

from vrag.server.app import Service, create_app
from vrag.server.http.auth import is_public
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from fastapi import FastAPI

ITEM = tiny_corpus().search([Query("ferry")], 1)[0][0].item
TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X")
BESIDE = (
    "/mcp",
    "/mcp/",
    "/openapi.json",
    "/docs",
    "/redoc",
    "/docs/oauth2-redirect",
    "/static",
    "/sessions",
)
"""Beside what the OpenAPI document names. Some are not there; without a token nobody learns which."""
SHELL = {"/", "/favicon.ico", "/healthz", "/session"}
HIDDEN = ("ferry", "vrag_requests", "passengers", '"openapi"', '"detail":"Not Found"')
"""Of what guarded routes answer."""


def own_address() -> str:
    """An address of this machine that other machines could use; loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


@dataclass
class Answer:
    """What a server said."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A server that listens at all addresses, with a run in it."""

    app: FastAPI
    host: str
    port: int
    run: str

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        """Sends a request as it is given, path and all."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = {"Host": f"{self.host}:{self.port}", "Content-Length": str(len(body))} | (headers or {})
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            said = dict(response.getheaders())
            stream = "event-stream" in said.get("content-type", "")
            return Answer(response.status, said, b"" if stream else response.read())
        finally:
            connection.close()

    def raw(self, request: bytes) -> bytes:
        """Sends bytes, and says what comes back in one piece."""
        with socket.create_connection((self.host, self.port), timeout=20) as connection:
            connection.sendall(request)
            return connection.recv(65536)

    def filled(self, path: str) -> str:
        """A path that leads to something, made of a template."""
        id = self.run if path.startswith("/runs/") else ITEM
        return path.format(id=id, name="first", filename="a.txt", sha256="0" * 64)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    policy = PacedPolicy()
    policy.go.set()
    service = Service(Scripted(tmp_path_factory.mktemp("closed"), policy), Nothing())
    options = ServerOptions(token=TOKEN, local=False, attempts_per_minute=10**6, requests_per_minute=10**6)
    app = create_app(tiny_corpus(), options, service=service)
    with threaded(app, options, host="0.0.0.0") as port:
        running = Server(app, own_address(), port, "")
        asked = running.ask("POST", "/runs", BEARER | JSON, b'{"question": "How many passengers?"}')
        running.run = asked.headers["location"].removeprefix("/runs/")
        yield running


def templates(app: FastAPI) -> list[str]:
    """All that the application says it has, and what it does not say."""
    return [*app.openapi()["paths"], *BESIDE]


def refused(answer: Answer) -> bool:
    """Whether nothing was said but that a token is needed, or that nobody speaks so."""
    said = answer.body.decode()
    return answer.status in {401, 400, 403, 405} and not any(word in said for word in HIDDEN)


def test_all_that_is_there_is_looked_at(server: Server) -> None:
    """Whoever adds a route that the OpenAPI document does not name has to name it here."""

    def paths(routes: Iterable[BaseRoute]) -> set[str]:
        inner = [getattr(route, "original_router", None) for route in routes]
        found = {route.path for route in routes if isinstance(route, Route | Mount)}
        return found.union(*(paths(router.routes) for router in inner if router is not None))

    found = paths(server.app.routes)
    assert {"/runs", "/favicon.ico", "/mcp"} <= found
    named = {*templates(server.app), *SHELL, "/static/{path}"}
    assert {re.sub(r":\w+}", "}", path) for path in found} <= named


def test_the_token_opens_every_door(server: Server) -> None:
    """Else the refusals below would show nothing."""
    for path, methods in server.app.openapi()["paths"].items():
        if "get" in methods and not path.startswith(("/collections", "/documents", "/jobs")):
            answer = server.ask("GET", server.filled(path), BEARER)
            assert answer.status not in {401, 403}, path
    for path in ("/runs", f"/runs/{server.run}", f"/runs/{server.run}/events", "/metrics", "/options"):
        assert server.ask("GET", path, BEARER).status == 200, path


@pytest.mark.parametrize("method", METHODS)
def test_no_method_opens_a_route(server: Server, method: str) -> None:
    for path in templates(server.app):
        if not is_public(path):
            answer = server.ask(method, server.filled(path))
            expected = {"get": 400, "TRACE": 405}.get(method, 401)
            assert answer.status == expected, (method, path, answer.status)
            assert method == "HEAD" or refused(answer), (method, path, answer.body)


@pytest.mark.parametrize("method", METHODS)
def test_the_shell_shows_nothing_but_itself(server: Server, method: str) -> None:
    for path in sorted(SHELL):
        answer = server.ask(method, path)
        assert answer.status < 500
        assert not any(word in answer.body.decode() for word in HIDDEN[:3]), path


def test_only_the_shell_is_open(server: Server) -> None:
    answers = {
        path: server.ask("GET", server.filled(path)).status for path in [*templates(server.app), *SHELL]
    }
    assert {path for path, status in answers.items() if status == 200} == SHELL
    assert set(answers.values()) == {200, 401}


WRONG = {
    "a wrong token": {"Authorization": "Bearer wrong"},
    "a part of it": {"Authorization": f"Bearer {TOKEN[:-1]}"},
    "more than it": {"Authorization": f"Bearer {TOKEN}x"},
    "another case": {"Authorization": f"Bearer {TOKEN.upper()}"},
    "nothing": {"Authorization": "Bearer "},
    "another scheme": {"Authorization": f"Basic {TOKEN}"},
    "no scheme": {"Authorization": TOKEN},
    "another header": {"X-API-Key": TOKEN, "Api-Key": TOKEN, "Proxy-Authorization": f"Bearer {TOKEN}"},
    "the token as a cookie": {"Cookie": f"vrag_session={TOKEN}; token={TOKEN}"},
    "a cookie that was made up": {"Cookie": "vrag_session=" + "A" * 43},
    "a word for others": {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "::1", "Forwarded": "for=127.0.0.1"},
    "another path": {"X-Original-URL": "/healthz", "X-Rewrite-URL": "/", "X-Forwarded-Prefix": "/static"},
    "another method": {"X-HTTP-Method-Override": "OPTIONS"},
    "an upgrade": {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="},
    "a preflight": {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"},
}  # fmt: skip


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_nothing_stands_for_the_token(server: Server, given: dict[str, str]) -> None:
    port = f"_{server.port}"
    given = given | (
        {"Cookie": given["Cookie"].replace("session=", f"session{port}=")} if "Cookie" in given else {}
    )
    for path, methods in server.app.openapi()["paths"].items():
        for method in [*methods, "options"] if not is_public(path) else ():
            answer = server.ask(method.upper(), server.filled(path), given)
            assert refused(answer), (method, path, answer)
    for path in BESIDE:
        assert refused(server.ask("GET", path, given)), path


@pytest.mark.parametrize("query", ["token", "access_token", "api_key", "key"])
def test_a_token_in_the_address_is_none(server: Server, query: str) -> None:
    """It would stand in logs, in the history of browsers, and in links."""
    assert server.ask("GET", f"/runs?{query}={TOKEN}").status == 401


def test_a_session_that_ended_opens_nothing(server: Server) -> None:
    origin = {"Origin": f"http://{server.host}:{server.port}"}
    body = b'{"token": "%s"}' % TOKEN.encode()
    entered = server.ask("POST", "/session", JSON | origin, body)
    assert entered.status == 204
    cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    assert server.ask("GET", "/runs", cookie).status == 200
    assert server.ask("DELETE", "/session", cookie | origin).status == 204
    for path, methods in server.app.openapi()["paths"].items():
        for method in () if is_public(path) else methods:
            answer = server.ask(method.upper(), server.filled(path), cookie | origin)
            assert answer.status == 401, (method, path)
            assert refused(answer)


TRICKS = r"""
    //runs /./runs /runs/ /runs. /runs.. /runs%20 /runs%00 /runs;x /%72uns /RUNS /runs? /static/../runs
    /static/..%2fruns /static/%2e%2e/runs /static/%2e%2e%2fruns /static/.%2e/runs /static//../runs
    /static/..;/runs /static/%252e%252e/runs /static/..\runs /static/%5c..%5cruns /static/x/../../runs
    /healthz/../runs /healthz/..%2fruns /healthz%2f..%2fruns /healthz;/runs /healthz?/runs
    /healthz%3f/runs /healthz#/runs /healthz%23/runs /session/../runs /session/runs /favicon.ico/../runs
    /favicon.ico/runs /static/../../../../../../etc/passwd /static/%2e%2e/%2e%2e/%2e%2e/app.py
    /static/..%c0%af..%c0%afapp.py /static//etc/passwd /static/%00 /static/index.html%00.js /\runs
    /%2fruns /%2e/runs http://localhost/runs http://localhost//runs //localhost/runs * /mcp%2f
    /static/../mcp /static/%2e%2e/openapi.json /static/../metrics
""".split()


@pytest.mark.parametrize("path", TRICKS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
def test_no_way_of_writing_a_path_leads_past_the_gate(server: Server, method: str, path: str) -> None:
    answer = server.ask(method, path)
    said = answer.body.decode(errors="replace")
    assert answer.status < 500
    assert server.run not in said
    assert not any(word in said for word in ("vrag_requests", '"openapi"', "root:", "create_app", "jsonrpc"))
    shell = path.startswith(("/healthz?", "/healthz#")) and method == "GET"
    assert shell or answer.status in {400, 401, 403, 404, 405}, (path, answer.status)


REBOUND = [
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "localhost.",
    "0.0.0.0.evil.example", "evil.example.0.0.0.0", "0.0.0.0@evil.example", "0", "0.0.0", "[::]",
    "127.1", "2130706433", "evil.example@localhost", "localhost:80@evil.example",
    "evil.example/localhost", "localhost/evil.example", "localhost#evil.example", "localhost?evil.example",
    "localhost\\.evil.example", "localhost evil.example", "localhost,evil.example", "localhost:80:80",
    "[::1]evil.example", "[::1", "::1", "[localhost]", "",
]  # fmt: skip


class TestRebinding:
    """A name that was made to point here, where the server listens on loopback and wants no token."""

    def status(self, *headers: tuple[str, str]) -> int:
        return asyncio.run(status_of(create_app(tiny_corpus(), ServerOptions()), "/nowhere", list(headers)))

    @pytest.mark.parametrize("host", REBOUND)
    def test_opens_nothing(self, host: str) -> None:
        assert self.status(("host", host)) == 403

    @pytest.mark.parametrize("host", ["localhost", "LocalHost:1", "127.0.0.1:8001", "[::1]:8001", "[::1]"])
    def test_is_told_from_the_names_of_this_machine(self, host: str) -> None:
        assert self.status(("host", host)) == 404

    @pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"])
    @pytest.mark.parametrize(
        "sent",
        [
            ("origin", "http://evil.example"),
            ("origin", "http://0.0.0.0:9999"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ],
    )
    def test_other_sites_are_refused_by_whatever_name_they_call_it(
        self, name: str, sent: tuple[str, str]
    ) -> None:
        assert self.status(("host", f"{name}:8001"), sent) == 403

    @pytest.mark.parametrize("agent", ["curl/8.5.0", "python-requests/2.32.3", "python-httpx/0.28.1"])
    def test_programs_may_read_from_the_address_0_0_0_0(self, agent: str) -> None:
        assert self.status(("host", "0.0.0.0:8001"), ("user-agent", agent), ("accept", "*/*")) == 404

    @pytest.mark.parametrize(
        "sent",
        [
            [("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")],
            [("user-agent", "curl/8.5.0"), ("accept-language", "en")],
            [("user-agent", "curl/8.5.0"), ("referer", "http://evil.example/")],
            [("user-agent", "curl/8.5.0"), ("sec-fetch-site", "none")],
            [],
        ],
    )
    def test_browsers_do_not_read_from_the_address_0_0_0_0(self, sent: list[tuple[str, str]]) -> None:
        """They mark no GET of a page of another site to this address."""
        assert self.status(("host", "0.0.0.0:8001"), *sent) == 403

    def test_is_seen_in_the_one_header_that_browsers_set(self) -> None:
        assert self.status(("host", "localhost"), ("host", "evil.example")) == 403
        assert self.status(("host", "evil.example"), ("x-forwarded-host", "localhost")) == 403
        assert self.status() == 403


@pytest.mark.parametrize(
    "client", ["203.0.113.9", "2001:db8::9", "::ffff:127.0.0.1", "127.0.0.1", "::1", "", "unix:"]
)
def test_it_is_the_same_from_everywhere(server: Server, client: str) -> None:
    """Of this machine too: whoever has an account on it is not whoever has the token."""
    for path in templates(server.app):
        if not is_public(path):
            host = [("host", "server")]
            assert asyncio.run(status_of(server.app, server.filled(path), host, client)) == 401, path


async def status_of(
    app: FastAPI, path: str, headers: list[tuple[str, str]], client: str = "127.0.0.1"
) -> int:
    """The status of a request that is put before an application by hand."""
    sent: list[Any] = []

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    async def receive() -> Any:  # noqa: ANN401
        return {"type": "http.request", "body": b"", "more_body": False}

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "client": (client, 5),
        "scheme": "http",
    }
    await app(scope, receive, send)
    return sent[0]["status"]


def test_websockets_are_not_spoken_even_with_the_token(server: Server) -> None:
    """No route has one, and none is let past: the gate looks at http alone."""
    for given in ("", f"Authorization: Bearer {TOKEN}\r\n"):
        for path in ("/runs", "/mcp", "/healthz", "/"):
            said = server.raw(
                f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                f"{given}\r\n".encode()
            )
            assert not said.startswith(b"HTTP/1.1 101"), path


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: +4\r\n\r\nabcd",
        b"Content-Length: 4\r\n X: y\r\n\r\nabcd",
    ],
)
def test_a_request_hidden_in_another_is_not_answered_with_more_rights(
    server: Server, smuggled: bytes
) -> None:
    hidden = b"GET /runs HTTP/1.1\r\nHost: a\r\n\r\n"
    said = server.raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + smuggled + hidden)
    assert server.run.encode() not in said


def test_other_sites_are_told_nothing_by_a_preflight(server: Server) -> None:
    for path in templates(server.app):
        asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
        answer = server.ask("OPTIONS", server.filled(path), asked)
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
