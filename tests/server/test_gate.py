from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from server_harness import ask, dial, serving

from vrag.errors import SettingsError
from vrag.server.app import create_app
from vrag.server.options import ServerOptions, is_loopback
from vrag.server.running import check_access
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from fastapi import FastAPI

SEARCH = {"json": {"queries": "ferry"}}


def app(**options: object) -> FastAPI:
    return create_app(tiny_corpus(), ServerOptions(**options))  # type: ignore[arg-type]


def status(guarded: FastAPI, path: str = "/search?queries=ferry", **headers: str) -> int:
    return ask(guarded, "GET", path, headers=headers).status_code


class TestToken:
    def test_is_asked_for_on_every_route_but_one(self) -> None:
        guarded = app(token="secret")
        for path in (
            "/search?queries=a",
            "/items/0011223344556677-1",
            "/metrics",
            "/version",
            "/openapi.json",
            "/no",
        ):
            assert status(guarded, path) == 401, path
        assert status(guarded, "/healthz") == 200

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

        monkeypatch.setattr("vrag.server.gate.hmac.compare_digest", compare)
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

    def test_nobody_is_told_that_other_sites_may_ask(self) -> None:
        response = ask(app(), "OPTIONS", "/search", headers={"access-control-request-method": "POST"})
        assert not [name for name in response.headers if name.startswith("access-control")]


class TestBody:
    def test_is_limited_by_what_arrives(self) -> None:
        """The length that a request states is not believed, and chunks state none."""

        async def drip() -> object:
            for _ in range(40):
                yield b" " * 100

        response = ask(app(body_bytes=1000), "POST", "/search", content=drip())
        assert response.status_code == 413
        assert "1,000 bytes" in response.json()["detail"]

    def test_as_long_as_allowed_is_read(self) -> None:
        body = b'{"queries": "ferry"}'.ljust(1000)
        assert ask(app(body_bytes=1000), "POST", "/search", content=body).status_code == 200
        assert ask(app(body_bytes=1000), "POST", "/search", content=body + b" ").status_code == 413

    def test_that_does_not_arrive_is_given_up(self) -> None:
        with serving(options=ServerOptions(body_seconds=0.3)) as address, dial(address) as connection:
            connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
            started = time.monotonic()
            assert b"408" in connection.recv(100)
            assert time.monotonic() - started < 5

    def test_that_drips_is_given_up_too(self) -> None:
        with serving(options=ServerOptions(body_seconds=0.5)) as address, dial(address) as connection:
            connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
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
                connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
            assert httpx.post(f"{address}/search", json={"queries": "ferry"}).status_code == 200
            for connection in slow:
                connection.close()


def test_a_client_that_leaves_before_its_body_is_there_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as address:
        connection = dial(address)
        connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{")
        connection.close()
        deadline = time.monotonic() + 10
        while 'status="499"} 1.0' not in (counted := httpx.get(f"{address}/metrics").text):
            assert time.monotonic() < deadline, counted
            time.sleep(0.01)
    assert 'status="500"' not in counted
    assert not caplog.records


def test_more_connections_than_allowed_are_told_so() -> None:
    with serving(options=ServerOptions(connections=4)) as address:
        idle = [dial(address) for _ in range(8)]
        time.sleep(0.2)
        assert httpx.get(f"{address}/healthz").status_code == 503
        for connection in idle:
            connection.close()


def test_a_head_that_is_too_long_is_refused() -> None:
    with serving() as address, dial(address) as connection:
        connection.sendall(b"GET /search?queries=" + b"a" * 400_000)
        assert b"400" in connection.recv(100)


def test_every_response_says_how_to_be_treated() -> None:
    for path in ("/healthz", "/search", "/no"):
        headers = ask(app(), "GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


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


def test_responses_are_not_held_back() -> None:
    """Nagle's algorithm would keep the second piece of each for 40 ms."""
    with serving() as address, httpx.Client(base_url=address) as client:
        times: list[float] = []
        for _ in range(25):
            started = time.monotonic()
            client.post("/search", json={"queries": "ferry"})
            times.append(time.monotonic() - started)
        assert min(times[1:]) < 0.035


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
