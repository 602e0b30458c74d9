"""The wildcard address that servers print is called as loopback, wherever an address comes from."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.chat.http_clients import base_of
from vrag.embed.models.remote import Address
from vrag.errors import ServerError
from vrag.providers import reachable
from vrag.search.client import SearchClient
from vrag.types import Query


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("http://0.0.0.0:8001/search", "http://127.0.0.1:8001/search"),
        ("https://0.0.0.0", "https://127.0.0.1"),
        ("HTTP://0.0.0.0/v1?a=b", "HTTP://127.0.0.1/v1?a=b"),
        ("http://[::]:8001/search", "http://[::1]:8001/search"),
        ("0.0.0.0:6379", "127.0.0.1:6379"),
        ("http://0.0.0.0.example/", "http://0.0.0.0.example/"),
        ("http://10.0.0.0.0/", "http://10.0.0.0.0/"),
        ("http://example/0.0.0.0", "http://example/0.0.0.0"),
    ],
)
def test_only_the_host_is_replaced(given: str, called: str) -> None:
    assert reachable(given) == called


HOSTS = {
    "0.0.0.0": "127.0.0.1",
    "[::]": "[::1]",
    "127.0.0.1": "127.0.0.1",
    "[::1]": "[::1]",
    "pages.lan": "pages.lan",
}
ENDS = st.sampled_from(["", ":8001", "/", "/search", "?q=0.0.0.0", "#[::]", ":8001/0.0.0.0:1?a=[::]#b"])


@given(st.sampled_from(["", "http://", "HTTPS://", "redis+tls://"]), st.sampled_from(sorted(HOSTS)), ENDS)
def test_the_host_alone_is_replaced_whatever_stands_around_it(scheme: str, host: str, end: str) -> None:
    called = scheme + HOSTS[host] + end
    assert reachable(scheme + host + end) == called
    assert reachable(called) == called


@given(st.text())
def test_any_text_is_an_address_to_it(address: str) -> None:
    assert reachable(reachable(address)) == reachable(address)


def test_every_client_calls_what_it_can_reach() -> None:
    assert base_of("http://0.0.0.0:8002/v1") == "http://127.0.0.1:8002/v1"
    assert Address("m@http://0.0.0.0:8000/v1").embeddings == "http://127.0.0.1:8000/v1/embeddings"
    hosts: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        raise httpx.ConnectError("refused")

    client = SearchClient("http://0.0.0.0:8001/search", transport=httpx.MockTransport(refuse), retries=0)
    with pytest.raises(ServerError):
        client.search([Query("?")], 1)
    client.close()
    assert hosts == ["127.0.0.1"]
