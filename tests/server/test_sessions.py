from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from server_harness import asked

from vrag.server.app import create_app
from vrag.server.options import ServerOptions
from vrag.server.state.database import ServerState
from vrag.server.state.sessions import BrowserSessions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from pathlib import Path

    from starlette.types import Scope

TOKEN = "correct horse battery staple"
OPENED = hashlib.sha256(TOKEN.encode()).digest()
OWN = {"origin": "http://127.0.0.1:8001"}
HOME = "http://127.0.0.1:8001"


def browse(
    visit: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]],
    *,
    base: str = HOME,
    **options: Any,  # noqa: ANN401
) -> None:
    """Lets a browser with a cookie jar visit a server that wants a token."""

    defaults: dict[str, Any] = {"token": TOKEN}

    async def once() -> None:
        app = create_app(tiny_corpus(), ServerOptions(**(defaults | options)))
        async with asked(app) as client:
            client.base_url = httpx.URL(base)
            await visit(client)

    asyncio.run(once())


async def sign_in(client: httpx.AsyncClient, token: str = TOKEN, **headers: str) -> httpx.Response:
    return await client.post("/session", json={"token": token}, headers=OWN | headers)


class TestSignIn:
    def test_exchanges_the_token_for_a_cookie_that_lets_in(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert (await client.get("/version")).status_code == 401
            assert (await sign_in(client)).status_code == 204
            assert (await client.get("/version")).status_code == 200

        browse(visit)

    def test_cookie_is_kept_from_scripts_other_sites_and_other_ports(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            cookie = (await sign_in(client)).headers["set-cookie"]
            name, _, rest = cookie.partition("=")
            value, *attributes = [part.strip().casefold() for part in rest.split(";")]
            assert name == "vrag_session_8001"
            assert len(value) == 43  # 256 bits
            assert {"httponly", "samesite=strict"} == set(attributes)  # its path is that of the server

        browse(visit)

    def test_wrong_token_gives_no_cookie(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            response = await sign_in(client, TOKEN[:-1])
            assert response.status_code == 401
            assert "set-cookie" not in response.headers
            assert (await client.get("/version")).status_code == 401

        browse(visit)

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[]", b'{"token": ""}', b'{"token": 3}', b'{"token": "a", "b": 1}', b"\xff"]
    )
    def test_bad_bodies_are_refused(self, body: bytes) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            headers = OWN | {"content-type": "application/json"}
            response = await client.post("/session", content=body, headers=headers)
            assert response.status_code == 422
            assert TOKEN not in response.text

        browse(visit)

    def test_more_than_a_token_is_not_looked_at(self) -> None:
        """Nobody has to show anything to send this: what it costs to refuse must be little."""

        async def visit(client: httpx.AsyncClient) -> None:
            fields = {f"field{number}": 0 for number in range(10_000)}
            response = await client.post("/session", json=fields, headers=OWN)
            assert response.status_code == 413

        browse(visit)

    def test_too_many_wrong_tokens_from_one_address_are_not_looked_at(self) -> None:
        """Nor is the right one: else a guesser would learn of it all the same."""

        async def visit(client: httpx.AsyncClient) -> None:
            statuses = [(await sign_in(client, f"guess {n}")).status_code for n in range(8)]
            assert statuses == [401] * 5 + [429] * 3
            response = await sign_in(client)
            assert response.status_code == 429
            assert 1 <= int(response.headers["retry-after"]) <= 12
            bearer = {"authorization": f"Bearer {TOKEN}"}
            assert (await client.get("/version", headers=bearer)).status_code == 429

        browse(visit, attempts_per_minute=5)

    def test_wrong_bearers_count_as_well_and_missing_ones_do_not(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            for _ in range(9):
                assert (await client.get("/version")).status_code == 401
            for expected in (401, 401, 429):
                response = await client.get("/version", headers={"authorization": "Bearer guess"})
                assert response.status_code == expected
            health = await client.get("/healthz", headers={"authorization": "Bearer guess"})
            assert health.status_code == 200

        browse(visit, attempts_per_minute=2)

    def test_whoever_is_signed_in_guesses_no_better(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            guess = {"authorization": "Bearer guess"}
            statuses = [(await client.get("/version", headers=guess)).status_code for _ in range(3)]
            assert statuses == [200, 200, 429]

        browse(visit, attempts_per_minute=2)

    def test_guesses_of_others_do_not_shut_out_who_is_signed_in(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            for _ in range(4):
                await sign_in(client, "guess")
            assert (await client.get("/version")).status_code == 200

        browse(visit, attempts_per_minute=2)

    def test_again_ends_the_session_before(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            before = client.cookies["vrag_session_8001"]
            await sign_in(client)
            client.cookies.clear()
            kept = {"cookie": f"vrag_session_8001={before}"}
            assert (await client.get("/version", headers=kept)).status_code == 401

        browse(visit)

    def test_needs_no_cookie_where_there_is_no_token(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            response = await sign_in(client, "whatever")
            assert response.status_code == 204
            assert "set-cookie" not in response.headers

        browse(visit, token=None)


class TestSecure:
    """A cookie that plain http must not carry, wherever https can be known of."""

    async def _cookie(self, client: httpx.AsyncClient, **headers: str) -> str:
        return (await sign_in(client, **headers)).headers["set-cookie"].casefold()

    def test_by_https(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert "; secure" in await self._cookie(client)

        browse(visit, base="https://127.0.0.1:8001")

    def test_by_option(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert "; secure" in await self._cookie(client)

        browse(visit, secure_cookie=True)

    def test_by_a_proxy_that_is_believed(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert "; secure" in await self._cookie(client, **{"x-forwarded-proto": "https"})
            assert "; secure" not in await self._cookie(client, **{"x-forwarded-proto": "http"})

        browse(visit, proxies=frozenset({"127.0.0.1"}))

    def test_by_the_last_word_of_a_proxy_that_is_believed(self) -> None:
        """A client's own header comes first; some proxies append theirs, with a comma."""

        async def visit(client: httpx.AsyncClient) -> None:
            for said, secure in (("http, https", True), ("https, http", False), ("HTTPS", True), ("", False)):
                cookie = await self._cookie(client, **{"x-forwarded-proto": said})
                assert ("; secure" in cookie) == secure, said

        browse(visit, proxies=frozenset({"127.0.0.1"}))

    def test_not_by_what_anybody_says(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert "; secure" not in await self._cookie(client, **{"x-forwarded-proto": "https"})
            forged = {"x-forwarded-proto": "https", "x-forwarded-for": "10.0.0.2"}
            assert "; secure" not in await self._cookie(client, **forged)

        browse(visit)
        browse(visit, proxies=frozenset({"10.0.0.2"}))  # another machine is the proxy

    def test_also_when_it_is_taken_back(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            https = {"x-forwarded-proto": "https"}
            await self._cookie(client, **https)
            gone = await client.request("DELETE", "/session", headers=OWN | https)
            assert "; secure" in gone.headers["set-cookie"].casefold()

        browse(visit, proxies=frozenset({"127.0.0.1"}))


class TestTold:
    def test_whether_a_token_is_needed_and_whether_it_is_there(self) -> None:
        async def told(client: httpx.AsyncClient, **headers: str) -> tuple[bool, bool]:
            response = await client.get("/session", headers=headers)
            assert response.headers["cache-control"] == "no-store"
            return response.json()["needed"], response.json()["signed_in"]

        async def visit(client: httpx.AsyncClient) -> None:
            assert await told(client) == (True, False)
            assert await told(client, authorization=f"Bearer {TOKEN}") == (True, True)
            await sign_in(client)
            assert await told(client) == (True, True)

        async def visit_open(client: httpx.AsyncClient) -> None:
            assert await told(client) == (False, True)

        browse(visit)
        browse(visit_open, token=None)

    def test_who_is_signed_in(self) -> None:
        async def user(client: httpx.AsyncClient, **headers: str) -> tuple[str, bool]:
            content = (await client.get("/session", headers=headers)).json()
            return content["user"], content["admin"]

        async def visit(client: httpx.AsyncClient) -> None:
            assert await user(client) == ("", False)
            assert await user(client, authorization="Bearer guess") == ("", False)
            assert await user(client, authorization=f"Bearer {TOKEN}") == ("admin", True)
            await sign_in(client)
            assert await user(client) == ("admin", True)

        async def visit_open(client: httpx.AsyncClient) -> None:
            assert await user(client) == ("", True)

        browse(visit)
        browse(visit_open, token=None)


class TestSignOut:
    def test_ends_the_session_for_whoever_kept_the_cookie(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            kept = {"cookie": f"vrag_session_8001={client.cookies['vrag_session_8001']}"}
            assert (await client.get("/version", headers=kept)).status_code == 200
            assert (await client.delete("/session", headers=OWN)).status_code == 204
            assert not client.cookies
            assert (await client.get("/version", headers=kept)).status_code == 401

        browse(visit)

    def test_without_a_session_does_nothing(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            assert (await client.delete("/session", headers=OWN)).status_code == 204

        browse(visit)


class TestForgery:
    """A page of another site, in a browser that is signed in and sends its cookie all the same."""

    def search(self, expected: int, **headers: str) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            response = await client.post("/search", json={"queries": "ferry"}, headers=headers)
            assert response.status_code == expected, headers

        browse(visit)

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:3000"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "http://127.0.0.1:8001", "sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "none"},
            {},
        ],
    )
    def test_changes_nothing(self, headers: dict[str, str]) -> None:
        self.search(403, **headers)

    def test_is_nothing_that_a_token_could_come_with(self) -> None:
        """A program with a cookie jar sends both; no page of another site has the token."""
        bearer = {"authorization": f"Bearer {TOKEN}"}
        self.search(200, **bearer)
        self.search(403, **bearer, origin="https://evil.example")
        self.search(403, **{"sec-fetch-site": "cross-site"}, **bearer)

    def test_is_not_excused_by_a_wrong_token(self) -> None:
        self.search(403, authorization="Bearer guess")
        self.search(200, **OWN, authorization="Bearer guess")

    def test_is_told_from_the_own_page(self) -> None:
        self.search(200, **OWN)
        self.search(200, **{"sec-fetch-site": "same-origin"})

    @pytest.mark.parametrize("method", ["POST", "DELETE"])
    def test_neither_signs_in_nor_out(self, method: str) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            evil = {"origin": "https://evil.example"}
            response = await client.request(method, "/session", headers=evil, json={"token": TOKEN})
            assert response.status_code == 403
            assert (await client.get("/version")).status_code == 200

        browse(visit)

    def test_reads_nothing_by_a_picture_or_a_frame(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            for mode, dest in (("no-cors", "image"), ("navigate", "iframe"), ("navigate", "document")):
                fetch = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
                assert (await client.get("/version", headers=fetch)).status_code == 403, fetch

        browse(visit)

    def test_named_origins_ask_with_a_token_and_not_with_a_cookie(self) -> None:
        async def visit(client: httpx.AsyncClient) -> None:
            await sign_in(client)
            named = {"origin": "https://app.example"}
            assert (await client.get("/version", headers=named)).status_code == 401
            bearer = named | {"authorization": f"Bearer {TOKEN}"}
            assert (await client.get("/version", headers=bearer)).status_code == 200

        browse(visit, origins=frozenset({"https://app.example"}))


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "disk"])
class TestStore:
    @pytest.fixture(autouse=True)
    def open_state(self, kept: bool, tmp_path: Path) -> Generator[None]:
        self.state = ServerState.open(tmp_path) if kept else ServerState()
        yield
        self.state.close()

    def sessions(self, **options: Any) -> tuple[BrowserSessions, list[float]]:  # noqa: ANN401
        clock = [0.0]
        given = ServerOptions(token=TOKEN, state=self.state, **options)
        return BrowserSessions(given, lambda: clock[0]), clock

    def scope(self, *ids: str, name: str = "vrag_session") -> Scope:
        cookie = "; ".join(["theme=dark", *(f"{name}={id}" for id in ids)])
        return {"type": "http", "headers": [(b"host", b"server"), (b"cookie", cookie.encode())]}

    def test_forgets_what_is_not_used_and_keeps_what_is(self) -> None:
        sessions, clock = self.sessions(session_seconds=100.0)
        used, unused = sessions.open(OPENED), sessions.open(OPENED)
        clock[0] = 90
        assert sessions.find(self.scope(used)) is not None
        clock[0] = 110
        assert sessions.find(self.scope(used)) is not None
        assert sessions.find(self.scope(unused)) is None
        clock[0] = 210
        assert sessions.find(self.scope(used)) is None

    def test_ends_some_days_after_its_beginning_though_it_is_used(self) -> None:
        sessions, clock = self.sessions(session_seconds=86_400.0, session_days=3.0)
        id = sessions.open(OPENED)
        for hours in range(0, 72, 10):
            clock[0] = hours * 3600.0
            assert sessions.find(self.scope(id)) is not None
        clock[0] = 73 * 3600.0
        assert sessions.find(self.scope(id)) is None

    def test_what_a_session_chose_is_forgotten_with_it(self) -> None:
        sessions, clock = self.sessions(session_seconds=100.0)
        ended: list[bytes] = []
        sessions.on_close.append(ended.append)
        used, unused = sessions.open(OPENED), sessions.open(OPENED)
        clock[0] = 90
        sessions.find(self.scope(used))
        clock[0] = 110
        sessions.find(self.scope(used, unused))
        assert ended == []  # the first one counts
        sessions.find(self.scope(unused))
        assert ended == [hashlib.sha256(unused.encode()).digest()]

    def test_is_bounded_and_drops_what_was_not_used_for_longest(self) -> None:
        sessions, clock = self.sessions(sessions=3)
        first, second, third = (sessions.open(OPENED) for _ in range(3))
        clock[0] = 1
        assert sessions.find(self.scope(first)) is not None
        assert sessions.find(self.scope(third)) is not None
        sessions.open(OPENED)
        known = [sessions.find(self.scope(id)) is not None for id in (first, second, third)]
        assert known == [True, False, True]

    def test_holds_digests_and_no_ids(self) -> None:
        sessions, _ = self.sessions()
        id = sessions.open(OPENED)
        assert id not in repr(vars(sessions))
        assert sessions.find(self.scope(id)) == hashlib.sha256(id.encode()).digest()

    def test_finds_its_cookie_among_others_of_its_name_and_looks_at_few(self) -> None:
        sessions, _ = self.sessions()
        id = sessions.open(OPENED)
        assert sessions.find(self.scope("planted", id)) is not None
        assert sessions.find(self.scope(*["planted"] * 10, id)) is None
        assert sessions.find(self.scope(id, name="vrag_session_8001")) is None

    @pytest.mark.parametrize(
        "cookie", [b"", b";;;", b"=", b"vrag_session", b"vrag_session=", b"vrag_session=\xff\xfe", b"\0"]
    )
    def test_bears_odd_cookies(self, cookie: bytes) -> None:
        sessions, _ = self.sessions()
        assert sessions.find({"type": "http", "headers": [(b"cookie", cookie), (b"host", b"[::1")]}) is None
