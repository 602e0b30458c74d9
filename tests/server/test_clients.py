from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.server.app import create_app
from vrag.server.http.errors import Refusal
from vrag.server.http.limits import ClientRegistry, Kind, Peer, client_name, kind_of, network_of, peer_of
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

AWAY = Peer("192.0.2.7", "http", same_machine=False)
HERE = Peer("127.0.0.1", "http", same_machine=True)


def clients(**options: Any) -> tuple[ClientRegistry, list[float]]:  # noqa: ANN401
    clock = [1000.0]
    return ClientRegistry(ServerOptions(**options), lambda: clock[0]), clock


def scope(address: str, *headers: tuple[str, str]) -> Scope:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": "http", "client": (address, 5), "headers": raw, "scheme": "http"}


class TestPace:
    def test_is_a_minutes_worth_at_once_and_then_one_by_one(self) -> None:
        some, clock = clients(requests_per_minute=60)
        for _ in range(60):
            some.request(Kind.OTHER, "a", AWAY)
        with pytest.raises(Refusal, match="60 requests a minute") as caught:
            some.request(Kind.OTHER, "a", AWAY)
        assert (caught.value.status, caught.value.wait) == (429, pytest.approx(1.0))
        clock[0] += 1.0
        some.request(Kind.OTHER, "a", AWAY)
        with pytest.raises(Refusal):
            some.request(Kind.OTHER, "a", AWAY)

    @given(st.lists(st.floats(0, 20), max_size=120), st.integers(1, 50))
    def test_never_exceeds_a_minutes_worth_and_what_grew_since(
        self, pauses: list[float], per_minute: int
    ) -> None:
        some, clock = clients(requests_per_minute=per_minute)
        passed = 0
        for pause in pauses:
            clock[0] += pause
            with contextlib.suppress(Refusal):
                some.request(Kind.OTHER, "a", AWAY)
                passed += 1
        assert passed <= per_minute * (1 + (clock[0] - 1000.0) / 60) + 1e-6

    @given(st.integers(1, 2000), st.floats(0, 59))
    def test_who_waits_as_long_as_told_is_let_in(self, per_minute: int, idle: float) -> None:
        some, clock = clients(requests_per_minute=per_minute)
        for _ in range(per_minute):
            some.request(Kind.OTHER, "a", AWAY)
        clock[0] += idle / per_minute
        with pytest.raises(Refusal) as caught:
            some.request(Kind.OTHER, "a", AWAY)
        assert caught.value.wait is not None
        clock[0] += caught.value.wait + 1e-6
        some.request(Kind.OTHER, "a", AWAY)

    def test_of_one_does_not_slow_another_nor_questions_searches(self) -> None:
        some, _ = clients(requests_per_minute=1, runs_per_minute=1)
        some.request(Kind.RUN, "a", AWAY)
        with pytest.raises(Refusal, match="1 runs a minute"):
            some.request(Kind.RUN, "a", AWAY)
        some.request(Kind.OTHER, "a", AWAY)
        some.request(Kind.RUN, "b", AWAY)

    def test_streams_are_requests(self) -> None:
        some, _ = clients(requests_per_minute=1)
        some.request(Kind.STREAM, "a", AWAY)
        with pytest.raises(Refusal, match="requests a minute"):
            some.request(Kind.OTHER, "a", AWAY)

    def test_does_not_hold_for_programs_of_the_same_machine_unless_told_so(self) -> None:
        free, _ = clients(requests_per_minute=1)
        for _ in range(5):
            free.request(Kind.OTHER, "a", HERE)
        limited, _ = clients(requests_per_minute=1, limit_local=True)
        limited.request(Kind.OTHER, "a", HERE)
        with pytest.raises(Refusal):
            limited.request(Kind.OTHER, "a", HERE)

    def test_table_does_not_grow_with_addresses(self) -> None:
        some, _ = clients(clients=10, requests_per_minute=1)
        for number in range(1000):
            some.request(Kind.OTHER, f"client {number}", AWAY)
        assert len(vars(some)["_paces"]) == 10
        with pytest.raises(Refusal):
            some.request(Kind.OTHER, "client 999", AWAY)


class TestOpen:
    def test_streams_of_one_client_are_limited_until_one_ends(self) -> None:
        some, _ = clients(client_streams=2)
        with some.opened(Kind.STREAM, "a", AWAY):
            with some.opened(Kind.STREAM, "a", AWAY):
                with pytest.raises(Refusal, match="2 streams at one time") as caught:
                    some.opened(Kind.STREAM, "a", AWAY).__enter__()
                assert caught.value.status == 429
                with some.opened(Kind.STREAM, "b", AWAY), some.opened(Kind.UPLOAD, "a", AWAY):
                    pass
            with some.opened(Kind.STREAM, "a", AWAY):
                pass
        assert not vars(some)["_open"]

    def test_what_fails_is_closed(self) -> None:
        some, _ = clients(client_uploads=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), some.opened(Kind.UPLOAD, "a", AWAY):
                raise ZeroDivisionError

    def test_searches_are_no_streams(self) -> None:
        some, _ = clients(client_streams=0, client_uploads=0)
        with some.opened(Kind.OTHER, "a", AWAY), some.opened(Kind.RUN, "a", AWAY):
            pass

    def test_requests_of_one_address_are_limited_for_each_of_its_users(self) -> None:
        some, _ = clients(peer_connections=2, local_connections=3)
        with contextlib.ExitStack() as stack:
            for name in ("session 1", "session 2"):  # one user may have any number of sessions
                stack.enter_context(some.opened(Kind.OTHER, name, AWAY, "ann"))
            with pytest.raises(Refusal, match="2 requests at one time") as caught:
                some.opened(Kind.RUN, "session 3", AWAY, "ann").__enter__()
            assert caught.value.status == 429
            with some.opened(Kind.OTHER, "session 4", AWAY, "bob"), some.opened(Kind.OTHER, "", AWAY):
                pass
            for _ in range(3):
                stack.enter_context(some.opened(Kind.OTHER, "", HERE))
            with pytest.raises(Refusal, match="3 requests"):
                some.opened(Kind.OTHER, "", HERE).__enter__()
        assert not vars(some)["_open"]


class TestKind:
    @pytest.mark.parametrize(
        ("method", "path", "kind"),
        [
            ("POST", "/runs", Kind.RUN),
            ("POST", "/runs/", Kind.RUN),
            ("GET", "/runs", Kind.OTHER),
            ("POST", "/v1/chat/completions", Kind.RUN),
            ("POST", "/v1/responses", Kind.RUN),
            ("GET", "/runs/x/events", Kind.STREAM),
            ("GET", "/mcp", Kind.STREAM),
            ("POST", "/mcp", Kind.OTHER),
            ("PUT", "/collections/a/documents/b.pdf", Kind.UPLOAD),
            ("PUT", "/collections/a/documents/b/c.pdf", Kind.UPLOAD),
            ("DELETE", "/collections/a/documents/b", Kind.OTHER),
            ("POST", "/search", Kind.OTHER),
            ("GET", "", Kind.OTHER),
        ],
    )
    def test_is_seen_from_method_and_path(self, method: str, path: str, kind: Kind) -> None:
        assert kind_of(method, path) is kind


class TestPeer:
    def test_is_the_address_and_of_ipv6_the_network(self) -> None:
        assert peer_of(scope("192.0.2.7")).network == "192.0.2.7"
        assert peer_of(scope("2001:db8::1")).network == peer_of(scope("2001:db8::2:3:4")).network

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.8.8"])
    def test_of_this_machine_is_known(self, address: str) -> None:
        assert peer_of(scope(address)).same_machine

    def test_that_forwards_for_somebody_is_not_of_this_machine(self) -> None:
        """A proxy on this machine that nobody named would have its clients go without limits."""
        for name in ("x-forwarded-for", "forwarded", "x-real-ip"):
            assert not peer_of(scope("127.0.0.1", (name, "192.0.2.7"))).same_machine

    def test_behind_a_proxy_is_the_last_that_is_no_proxy(self) -> None:
        proxies = frozenset({"10.0.0.1", "10.0.0.2"})
        forwarded = ("x-forwarded-for", "127.0.0.1, 198.51.100.9, 192.0.2.7, 10.0.0.2")
        assert peer_of(scope("10.0.0.1", forwarded), proxies).network == "192.0.2.7"
        assert peer_of(scope("192.0.2.1", forwarded), proxies).network == "192.0.2.1"

    def test_headers_that_come_twice_are_one_list(self) -> None:
        twice = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "192.0.2.7")]
        assert peer_of(scope("10.0.0.1", *twice), frozenset({"10.0.0.1"})).network == "192.0.2.7"

    def test_cannot_claim_to_be_of_this_machine(self) -> None:
        claimed = peer_of(scope("10.0.0.1", ("x-forwarded-for", "127.0.0.1")), frozenset({"10.0.0.1"}))
        assert not claimed.same_machine

    @given(st.text(st.characters(max_codepoint=255), max_size=60), st.sampled_from(["for", "proto"]))
    def test_bears_whatever_is_forwarded(self, value: str, name: str) -> None:
        raw = [(f"x-forwarded-{name}".encode(), value.encode("latin-1"))]
        found = peer_of({"type": "http", "client": ("10.0.0.1", 1), "headers": raw}, frozenset({"10.0.0.1"}))
        assert len(found.network) < 60

    @given(st.ip_addresses())
    def test_network_of_its_network_is_itself(self, address: object) -> None:
        network = network_of(str(address))
        assert network_of(network.removesuffix("/64")) == network


class TestName:
    def test_says_nothing_that_could_be_used_in_its_place(self) -> None:
        digest = bytes(range(32))
        for name in (client_name(AWAY, session=digest), client_name(AWAY, token=digest)):
            assert digest.hex()[:8] not in name

    def test_differs_by_session_token_and_address(self) -> None:
        names = {
            client_name(AWAY),
            client_name(HERE),
            client_name(AWAY, token=b"a"),
            client_name(HERE, token=b"a"),
            client_name(AWAY, token=b"b"),
            client_name(AWAY, session=b"a"),
            client_name(AWAY, session=b"b"),
        }
        assert len(names) == 7
        assert client_name(AWAY, session=b"a") == client_name(HERE, session=b"a")


def answers(requests: Sequence[tuple[str, str]], address: str = "192.0.2.7", **options: Any) -> list[int]:  # noqa: ANN401
    """The statuses of requests of one client of another machine."""

    async def all_of_them() -> list[int]:
        app = create_app(tiny_corpus(), ServerOptions(local=False, **options))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 5))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://server") as client,
        ):
            return [(await client.request(*request)).status_code for request in requests]

    return asyncio.run(all_of_them())


class TestOverHttp:
    def test_a_client_that_asks_too_often_is_told_when_to_come_back(self) -> None:
        search = ("GET", "/search?queries=ferry")
        assert answers([search] * 4, requests_per_minute=3) == [200] * 3 + [429]

    def test_health_is_told_however_often(self) -> None:
        assert answers([("GET", "/healthz")] * 9, requests_per_minute=1) == [200] * 9

    def test_who_may_not_ask_uses_up_nobodys_pace(self) -> None:
        assert answers([("GET", "/version")] * 9, token="secret", requests_per_minute=1) == [401] * 9

    def test_programs_of_this_machine_are_not_slowed(self) -> None:
        search = ("GET", "/search?queries=ferry")
        assert answers([search] * 9, address="127.0.0.1", requests_per_minute=1) == [200] * 9
