from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
import pytest
from fastapi import Request
from server_harness import ask, asked, dial, serving

from vrag.errors import SettingsError
from vrag.server.app import create_app
from vrag.server.http.connections import GuardedProtocol
from vrag.server.http.uvicorn_server import check_access
from vrag.server.metrics import with_security_headers
from vrag.server.options import ServerOptions, checked_origins, checked_proxies, is_loopback
from vrag.server.page_files import SHELL_POLICY
from vrag.server.runs.routes import EXPORT_POLICY
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from fastapi import FastAPI

SEARCH = {"json": {"queries": "ferry"}}
JSON = {"Content-Type": "application/json"}
SEARCH_HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def app(**options: object) -> FastAPI:
    return create_app(tiny_corpus(), ServerOptions(**options))  # type: ignore[arg-type]


def status(guarded: FastAPI, path: str = "/search?queries=ferry", **headers: str) -> int:
    return ask(guarded, "GET", path, headers=headers).status_code


class TestToken:
    def test_is_asked_for_everywhere_but_at_the_shell(self) -> None:
        guarded = app(token="secret")
        for path in (
            "/search?queries=a",
            "/items/0011223344556677-1",
            "/metrics",
            "/version",
            "/openapi.json",
            "/no",
            "/static",
            "/staticky",
            "/sessions",
            "/healthz/",
        ):
            assert status(guarded, path) == 401, path
        for path in ("/healthz", "/session"):
            assert status(guarded, path) == 200, path
        for path in (
            "/",
            "/favicon.ico",
            "/static/page.css",
        ):  # here without a service, and so without a page
            assert status(guarded, path) == 404, path

    @pytest.mark.parametrize("path", ["/static/../version", "/static/%2e%2e/version", "/static/x/../../runs"])
    def test_is_asked_for_where_a_path_leads_out_of_the_shell(self, path: str) -> None:
        async def raw() -> int:
            """As a program may send it: clients and browsers tidy paths up."""
            sent: list[Any] = []

            async def send(message: Any) -> None:  # noqa: ANN401
                sent.append(message)

            async def receive() -> Any:  # noqa: ANN401
                return {"type": "http.request", "body": b"", "more_body": False}

            scope = {
                "type": "http",
                "method": "GET",
                "path": unquote(path),
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": [(b"host", b"localhost")],
                "client": ("127.0.0.1", 5),
                "scheme": "http",
            }
            await app(token="secret")(scope, receive, send)
            return sent[0]["status"]

        assert asyncio.run(raw()) == 401

    def test_lets_in_who_has_it(self) -> None:
        assert status(app(token="secret"), authorization="Bearer secret") == 200
        assert status(app(token="secret"), authorization="bearer  secret") == 200

    @pytest.mark.parametrize(
        "given", ["Bearer", "Bearer ", "Bearer secre", "Bearer secretx", "Basic secret", "secret"]
    )
    def test_refuses_others_and_says_how(self, given: str) -> None:
        response = ask(app(token="secret"), "GET", "/version", headers={"authorization": given})
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in response.json()["hint"]

    def test_of_odd_bytes_is_refused_like_any_other(self) -> None:
        headers = [(b"Host", b"localhost"), (b"Authorization", b"Bearer \xff\xfe")]
        assert ask(app(token="secret"), "GET", "/version", headers=headers).status_code == 401

    def test_twice_is_refused(self) -> None:
        headers = [("Authorization", "Bearer secret"), ("Authorization", "Bearer other")]
        assert ask(app(token="secret"), "GET", "/version", headers=headers).status_code == 403

    def test_comparison_is_of_digests_in_constant_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compared: list[tuple[bytes, bytes]] = []

        def compare(a: bytes, b: bytes) -> bool:
            compared.append((a, b))
            return a == b

        monkeypatch.setattr("vrag.server.state.sessions.hmac.compare_digest", compare)
        assert status(app(token="secret"), authorization="Bearer s") == 401
        assert [len(side) for side in compared[0]] == [32, 32]


class TestHost:
    @pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8001", "127.0.0.1:1", "[::1]:8001"])
    def test_names_of_this_machine_are_right(self, name: str) -> None:
        assert status(app(), host=name) == 200

    @pytest.mark.parametrize(
        "name", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "[::1", "a@localhost@b"]
    )
    def test_others_are_refused(self, name: str) -> None:
        assert status(app(), host=name) == 403

    def test_further_names_can_be_given(self) -> None:
        assert status(app(hosts=frozenset({"search.lan"})), host="search.lan:8001") == 200

    def test_is_not_asked_for_elsewhere(self) -> None:
        assert status(app(local=False), host="whatever.example") == 200


class TestOrigin:
    def test_pages_of_other_sites_are_refused(self) -> None:
        for origin in ("https://evil.example", "null", "http://localhost:3000", "http://[", "file://"):
            assert status(app(), origin=origin, host="localhost:8001") == 403, origin

    def test_pages_of_the_server_itself_are_not(self) -> None:
        assert status(app(), origin="http://localhost:8001", host="localhost:8001") == 200

    def test_pictures_cannot_be_put_into_other_pages(self) -> None:
        """Such requests bear no Origin; browsers mark them."""
        assert status(app(), **{"sec-fetch-site": "cross-site"}) == 403
        assert status(app(), **{"sec-fetch-site": "same-site"}) == 403
        assert status(app(), **{"sec-fetch-site": "none"}) == 200

    def test_a_link_on_another_site_leads_to_the_page_and_nowhere_else(self) -> None:
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        for path, expected in (("/", 404), ("/version", 403), ("/search?queries=a", 403), ("/session", 403)):
            assert status(app(), path, **link) == expected, path  # 404: let in, where no page is
        for bad in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-dest": "iframe"}, {"origin": "http://evil"}):
            assert status(app(), "/", **(link | bad)) == 403, bad
        assert ask(app(), "POST", "/", headers=link).status_code == 403

    def test_nobody_is_told_that_other_sites_may_ask(self) -> None:
        response = ask(app(), "OPTIONS", "/search", headers={"access-control-request-method": "POST"})
        assert not [name for name in response.headers if name.startswith("access-control")]


class TestNamedOrigins:
    """Pages of sites that were named may ask; nobody else's, and never with a cookie."""

    NAMED = "https://app.example"

    def ask(self, method: str, path: str, origin: str = NAMED, **headers: str) -> httpx.Response:
        guarded = app(token="secret", origins=checked_origins([self.NAMED]))
        cross = {"origin": origin, "sec-fetch-site": "cross-site"}
        return ask(guarded, method, path, headers=cross | headers)

    def test_are_told_so_before_they_send_a_token(self) -> None:
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        response = self.ask("OPTIONS", "/search", **asked)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == self.NAMED
        assert "authorization" in response.headers["access-control-allow-headers"]
        assert "POST" in response.headers["access-control-allow-methods"]
        assert response.headers["vary"].split(", ")[0] == "Origin"

    def test_get_what_they_ask_for(self) -> None:
        response = self.ask("GET", "/search?queries=ferry", authorization="Bearer secret")
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == self.NAMED

    def test_are_refused_without_a_token_and_can_read_why(self) -> None:
        response = self.ask("GET", "/version")
        assert response.status_code == 401
        assert response.headers["access-control-allow-origin"] == self.NAMED

    def test_never_get_credentials(self) -> None:
        for method, path in (("OPTIONS", "/version"), ("GET", "/version")):
            told = self.ask(method, path, **{"access-control-request-method": "GET"}).headers
            assert "access-control-allow-credentials" not in told

    @pytest.mark.parametrize(
        "origin",
        [
            "https://app.example.evil",
            "http://app.example",
            "https://app.example:8443",
            "https://App.example",
            "null",
            "*",
            "",
        ],
    )
    def test_others_are_refused_all_the_same(self, origin: str) -> None:
        asked = {"access-control-request-method": "GET", "authorization": "Bearer secret"}
        for method in ("OPTIONS", "GET"):
            response = self.ask(method, "/version", origin, **asked)
            assert response.status_code == 403
            assert "access-control-allow-origin" not in response.headers

    def test_do_not_change_by_which_name_the_server_is_called(self) -> None:
        assert (
            self.ask("GET", "/version", host="evil.example", authorization="Bearer secret").status_code == 403
        )

    @pytest.mark.parametrize(
        "origin",
        ["app.example", "https://", "*", "https://*.example", "https://a/b", "https://a?b", "ftp://a", "null",
         "https://user@a", "https://a:0", "https://a:99999", "https://[", "https://ä.example"],
    )  # fmt: skip
    def test_that_no_browser_sends_are_settings_that_cannot_be_used(self, origin: str) -> None:
        with pytest.raises(SettingsError, match="not an origin"):
            checked_origins([origin])

    def test_are_compared_as_browsers_write_them(self) -> None:
        assert checked_origins([" https://APP.example:443/ "]) == {self.NAMED}

    @pytest.mark.parametrize("address", ["proxy", "10.0.0.0/8", "10.0.0.1:80", ""])
    def test_and_proxies_that_are_no_addresses_neither(self, address: str) -> None:
        with pytest.raises(SettingsError, match="address"):
            checked_proxies([address])


class TestBody:
    def test_is_limited_by_what_arrives(self) -> None:
        """The length that a request states is not believed, and chunks state none."""

        async def drip() -> object:
            for _ in range(40):
                yield b" " * 100

        response = ask(app(body_bytes=1000), "POST", "/search", content=drip(), headers=JSON)
        assert response.status_code == 413
        assert "1,000 bytes" in response.json()["detail"]

    def test_is_refused_for_what_it_is_where_a_framework_reads_it(self) -> None:
        """FastAPI says of whatever happens meanwhile that the body could not be parsed."""
        guarded = app(body_bytes=100_000)

        @guarded.post("/numbers")
        async def numbers(given: list[int]) -> int:
            return len(given)

        async def drip() -> object:
            for _ in range(200):
                yield b" " * 1000

        def told(content: object) -> tuple[int, str]:
            headers = {"content-type": "application/json"}
            response = ask(guarded, "POST", "/numbers", content=content, headers=headers)
            return response.status_code, response.json().get(
                "detail", ""
            ) if response.status_code > 200 else ""

        assert told(b"[1, 2]") == (200, "")
        assert told(drip()) == (413, "The body is longer than 100,000 bytes.")
        for bad in (b"[\xff]", b"[" * 90_000):
            assert told(bad) == (422, "The body is not JSON.")

    @pytest.mark.parametrize("piece", [b"0,", b"[", b"{", b'{"":[],'])
    def test_of_a_million_values_is_not_read(self, piece: bytes) -> None:
        """They fit into few megabytes, and take gigabytes and minutes once somebody looks at each."""
        content = b'{"queries": [' + piece * 520_000
        response = ask(app(), "POST", "/search", content=content, headers=JSON)
        assert response.status_code == 413
        assert "values" in response.json()["detail"]

    def test_as_long_as_allowed_is_read(self) -> None:
        body = b'{"queries": "ferry"}'.ljust(1000)
        for content, expected in ((body, 200), (body + b" ", 413)):
            response = ask(app(body_bytes=1000), "POST", "/search", content=content, headers=JSON)
            assert response.status_code == expected

    def test_that_does_not_arrive_is_given_up(self) -> None:
        with serving(options=ServerOptions(body_seconds=0.3)) as address, dial(address) as connection:
            connection.sendall(SEARCH_HEAD + b"Content-Length: 20\r\n\r\n{")
            started = time.monotonic()
            assert b"408" in connection.recv(100)
            assert time.monotonic() - started < 5

    def test_that_drips_is_given_up_too(self) -> None:
        with serving(options=ServerOptions(body_seconds=0.5)) as address, dial(address) as connection:
            connection.sendall(SEARCH_HEAD + b"Content-Length: 1000\r\n\r\n")
            connection.settimeout(0.05)
            answer = b""
            for _ in range(100):
                connection.sendall(b" ")
                try:
                    answer = connection.recv(100)
                    break
                except TimeoutError:
                    continue
            assert b"408" in answer

    def test_that_dribbles_does_not_hold_up_others(self) -> None:
        with serving(options=ServerOptions(body_seconds=20)) as address:
            slow = [dial(address) for _ in range(20)]
            for connection in slow:
                connection.sendall(SEARCH_HEAD + b"Content-Length: 20\r\n\r\n{")
            assert httpx.post(f"{address}/search", json={"queries": "ferry"}).status_code == 200
            for connection in slow:
                connection.close()


def test_a_client_that_leaves_before_its_body_is_there_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as address:
        connection = dial(address)
        connection.sendall(SEARCH_HEAD + b"Content-Length: 5000\r\n\r\n{")
        connection.close()
        deadline = time.monotonic() + 60
        while 'status="499"} 1.0' not in (counted := httpx.get(f"{address}/metrics").text):
            assert time.monotonic() < deadline, counted
            time.sleep(0.01)
    assert 'status="500"' not in counted
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_head_that_is_too_long_is_refused() -> None:
    with serving() as address, dial(address) as connection:
        connection.sendall(b"GET /search?queries=" + b"a" * 400_000)
        assert b"414" in connection.recv(100)


class TestHeaders:
    def test_every_response_says_how_to_be_with_security_headers(self) -> None:
        for path in ("/healthz", "/search", "/no"):
            headers = ask(app(token="secret"), "GET", path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["content-security-policy"].startswith("default-src 'none';")
            assert headers["cache-control"] == "no-store"
            assert "camera=()" in headers["permissions-policy"]

    def test_a_route_has_its_own_way(self) -> None:
        given = [(b"Content-Security-Policy", b"default-src 'self'"), (b"cache-control", b"max-age=9")]
        headers = dict(with_security_headers([*given, (b"content-type", b"application/json")]))
        assert b"content-security-policy" not in headers
        assert headers[b"cache-control"] == b"max-age=9"
        assert headers[b"x-content-type-options"] == b"nosniff"

    def test_what_may_be_kept_is_not_told_to_be_forgotten(self) -> None:
        assert b"cache-control" not in dict(with_security_headers([(b"content-type", b"image/jpeg")]))

    @pytest.mark.parametrize("policy", [SHELL_POLICY, EXPORT_POLICY])
    def test_a_sandbox_goes_without_a_policy_for_openers(self, policy: str) -> None:
        """By the HTML standard browsers open nothing that has both; not all of them keep to that."""
        headers = dict(with_security_headers([(b"content-security-policy", policy.encode())]))
        assert (b"cross-origin-opener-policy" in headers) is ("sandbox" not in policy)

    def test_none_comes_twice(self) -> None:
        names = [name for name, _ in ask(app(), "GET", "/version").headers.multi_items()]
        assert len(names) == len(set(names))


class TestClient:
    """What routes know of who asks."""

    def names(self, *requests: dict[str, str]) -> list[str]:
        guarded = app(token="secret", proxies=frozenset({"127.0.0.1"}))

        @guarded.get("/whoami")
        async def whoami(request: Request) -> str:
            return request.state.client

        return [ask(guarded, "GET", "/whoami", headers=headers).json() for headers in requests]

    def test_is_told_apart_by_address_and_holds_no_secret(self) -> None:
        bearer = {"authorization": "Bearer secret"}
        here, away, again = self.names(bearer, bearer | {"x-forwarded-for": "192.0.2.7"}, bearer)
        assert here == again != away
        assert "secret" not in here


def test_what_is_refused_is_counted_by_reason() -> None:
    async def all_of_them() -> str:
        async with asked(app(token="secret", body_bytes=10)) as client:
            bearer = {"authorization": "Bearer secret"}
            await client.get("/version")
            await client.get("/version", headers={"host": "evil.example"})
            await client.get("/version", headers={"origin": "http://evil.example"})
            await client.post("/search", content=b"x" * 11, headers=bearer)
            return (await client.get("/metrics", headers=bearer)).text

    counted = asyncio.run(all_of_them())
    for reason in ("token", "host", "site", "length"):
        assert f'vrag_refused_total{{reason="{reason}"}} 1.0' in counted


class TestAccess:
    def test_other_addresses_need_a_token_or_a_word(self) -> None:
        with pytest.raises(SettingsError, match="VRAG_API_KEY"):
            check_access("0.0.0.0", token=None, insecure=False)
        check_access("0.0.0.0", token=None, insecure=True)
        check_access("0.0.0.0", token="secret", insecure=False)
        check_access("127.0.0.1", token=None, insecure=False)

    @pytest.mark.parametrize("token", ["", " ", "a\nb", "schlüssel"])
    def test_a_token_that_no_header_can_carry_is_refused(self, token: str) -> None:
        with pytest.raises(SettingsError, match="token"):
            check_access("127.0.0.1", token=token, insecure=False)

    def test_names_that_lead_elsewhere_are_not_this_machine(self) -> None:
        assert not is_loopback("example.org")
        assert not is_loopback("::")


def test_responses_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm would keep the second piece of each for 40 ms."""
    delays: list[int] = []
    connect = GuardedProtocol.connection_made

    def note_and_connect(protocol: GuardedProtocol, transport: asyncio.Transport) -> None:
        connection = transport.get_extra_info("socket")
        delays.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        connect(protocol, transport)

    monkeypatch.setattr(GuardedProtocol, "connection_made", note_and_connect)
    with serving() as address:
        httpx.post(f"{address}/search", json={"queries": "ferry"})
    assert delays == [1]


def test_websockets_are_not_spoken() -> None:
    head = (
        b"GET /search HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with serving() as address, dial(address) as connection:
        connection.sendall(head)
        assert not connection.recv(100).startswith(b"HTTP/1.1 101")


def test_hundreds_of_connections_that_close_at_once_leave_it_alive() -> None:
    with serving() as address:

        def slam() -> None:
            for _ in range(25):
                connection = dial(address)
                connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()

        threads = [threading.Thread(target=slam) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert httpx.get(f"{address}/healthz").status_code == 200
