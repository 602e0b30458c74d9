"""The server behind proxies that serve it below a path."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import httpx
import pytest
from hosting import Nothing, PacedPolicy, Scripted
from prefix_proxy import below
from server_harness import ask, serving

from vrag.errors import SettingsError
from vrag.server.app import Service, create_app
from vrag.server.options import ServerOptions, checked_root_path
from vrag.server.page_files import STATIC
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

TOKEN = "correct horse battery staple"
PREFIXES = ["/docs", "/runs", "/tools/papers.v2"]
"""The first two are paths of the server itself."""
TRUSTED = frozenset({"127.0.0.1"})


class Proxied:
    """A server below a path, and a client of the proxy."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder

    def open(
        self,
        prefix: str,
        *,
        strips: bool = True,
        header: str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Client:
        policy = PacedPolicy()
        policy.go.set()
        service = Service(Scripted(self._folder / "runs", policy), Nothing())
        settings = ServerOptions(drain_seconds=1, **options)
        server = self._stack.enter_context(serving(options=settings, service=service))
        headers = {} if header is None else {"X-Forwarded-Prefix": header}
        proxy = self._stack.enter_context(below({prefix: server}, strips=strips, headers=headers))
        client = httpx.Client(base_url=f"{proxy}{prefix}/", timeout=60, headers={"Origin": proxy})
        return self._stack.enter_context(client)


@pytest.fixture
def proxied(tmp_path: Path) -> Generator[Proxied]:
    with ExitStack() as stack:
        yield Proxied(stack, tmp_path)


def known_by(knowledge: str, prefix: str) -> dict[str, Any]:
    """The arguments of `Proxied.open` for a way in which the server knows of the path."""
    match knowledge:
        case "option":
            return {"root_path": prefix}
        case "header":
            return {"header": prefix, "proxies": TRUSTED}
        case _:
            return {}


@pytest.mark.slow
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("knowledge", ["nothing", "option", "header"])
def test_page_files_and_api_are_there_where_the_path_is_stripped(
    proxied: Proxied, prefix: str, knowledge: str
) -> None:
    client = proxied.open(prefix, **known_by(knowledge, prefix))
    check_all(client, prefix, is_known=knowledge != "nothing")


@pytest.mark.parametrize("prefix", ["/docs", "/tools/papers.v2"])
@pytest.mark.parametrize("knowledge", ["option", "header"])
def test_page_files_and_api_are_there_where_the_path_is_passed_on(
    proxied: Proxied, prefix: str, knowledge: str
) -> None:
    client = proxied.open(prefix, strips=False, **known_by(knowledge, prefix))
    check_all(client, prefix, is_known=True)


def check_all(client: httpx.Client, prefix: str, *, is_known: bool) -> None:
    page = client.get("")
    assert page.status_code == 200
    files = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    assert len(files) >= 4
    for file in files:
        address = urljoin(str(page.url), file)
        assert f"{prefix}/static/" in address
        assert client.get(address).status_code == 200
    reference = client.get("docs")
    assert "HTTP interface" in reference.text
    assert ("http://127.0.0.1:8000" + prefix in reference.text) == is_known
    for link in re.findall(r'href="([^"#:]+)"', reference.text):
        assert client.get(urljoin(str(reference.url), link)).status_code == 200
    document = client.get("openapi.json").json()
    assert document.get("servers", []) == ([{"url": prefix}] if is_known else [])
    started = client.post("runs", json={"question": "How many?"})
    run = started.json()["id"]
    assert started.headers["location"] == (f"{prefix}/runs/{run}" if is_known else f"/runs/{run}")
    with client.stream("GET", f"runs/{run}/events") as events:
        assert "48,200" in "".join(events.iter_lines())
    page_address = f"{client.base_url}#/runs/{run}" if is_known else f"/#/runs/{run}"
    assert page_address in client.get(f"runs/{run}/export?format=markdown").text
    assert client.post("search", json={"queries": ["ferry"], "top_k": 1}).status_code == 200
    assert [model["id"] for model in client.get("v1/models").json()["data"]] != []
    assert client.get("version/").status_code == 307
    assert urljoin(str(client.base_url) + "version/", client.get("version/").headers["location"]) == (
        f"{client.base_url}version"
    )


def test_a_path_without_its_slash_leads_to_the_page(proxied: Proxied) -> None:
    client = proxied.open("/papers", strips=False, root_path="/papers")
    response = client.get(str(client.base_url).rstrip("/") + "?a=b")
    assert (response.status_code, response.headers["location"]) == (307, "/papers/?a=b")


def test_the_server_itself_is_where_it_was(proxied: Proxied) -> None:
    client = proxied.open("", root_path="/papers")
    assert [client.get(path).status_code for path in ("/", "/healthz", "/papers/healthz")] == [200] * 3
    assert client.get("/papersx/healthz").status_code == 404


class TestHeader:
    @pytest.mark.parametrize("proxies", [frozenset[str](), frozenset({"192.0.2.1"})])
    def test_of_others_than_trusted_proxies_is_not_believed(self, proxies: frozenset[str]) -> None:
        app = create_app(tiny_corpus(), ServerOptions(proxies=proxies))
        headers = {"X-Forwarded-Prefix": "/evil"}
        assert ask(app, "GET", "/evil/healthz", headers=headers).status_code == 404
        assert "servers" not in ask(app, "GET", "/openapi.json", headers=headers).json()

    def test_of_several_proxies_has_the_path_of_each(self) -> None:
        app = create_app(tiny_corpus(), ServerOptions(proxies=TRUSTED))
        document = ask(app, "GET", "/openapi.json", headers={"X-Forwarded-Prefix": "/a/, /b"}).json()
        assert document["servers"] == [{"url": "/a/b"}]

    def test_counts_more_than_the_option(self) -> None:
        app = create_app(tiny_corpus(), ServerOptions(proxies=TRUSTED, root_path="/own"))
        document = ask(app, "GET", "/openapi.json", headers={"X-Forwarded-Prefix": "/other"}).json()
        assert document["servers"] == [{"url": "/other"}]

    def test_without_a_path_is_refused(self) -> None:
        app = create_app(tiny_corpus(), ServerOptions(proxies=TRUSTED))
        response = ask(app, "GET", "/healthz", headers={"X-Forwarded-Prefix": "//evil.example"})
        assert (response.status_code, response.json()["detail"]) == (
            400,
            "X-Forwarded-Prefix has no path that can be used.",
        )


@pytest.mark.parametrize(
    "path",
    ["//evil", "/a//b", "/a/../b", "/..", "/./a", "docs", "javascript:alert(1)", "/a\r\nSet-Cookie: b=c",
     "/a\n", "/a?b", "/a#b", "/a b", "/a%2fb", "/ä", "/a\\b", "https://evil.example/", "/" + "a" * 300],
)  # fmt: skip
def test_what_is_no_path_is_refused_with_what_to_write(path: str) -> None:
    with pytest.raises(SettingsError) as caught:
        checked_root_path(path)
    assert "/docs" in caught.value.hint


def test_sessions_below_two_paths_of_a_host_are_two(tmp_path: Path) -> None:
    """The browser keeps one cookie for each path, though none of the servers knows of its path."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(options=ServerOptions(token=f"{TOKEN} {name}", drain_seconds=1)))
            for name in ("a", "b")
        ]
        proxy = stack.enter_context(below({"/a": servers[0], "/b": servers[1]}))
        browser = stack.enter_context(httpx.Client(base_url=proxy, headers={"Origin": proxy}, timeout=60))
        for name in ("a", "b"):
            signed_in = browser.post(f"/{name}/session", json={"token": f"{TOKEN} {name}"})
            assert signed_in.status_code == 204
        assert [browser.get(f"/{name}/version").status_code for name in ("a", "b")] == [200, 200]
        assert sorted(cookie.path for cookie in browser.cookies.jar) == ["/a", "/b"]
        browser.delete("/a/session")
        assert [browser.get(f"/{name}/version").status_code for name in ("a", "b")] == [401, 200]


def test_no_address_in_a_script_of_the_page_begins_at_the_root_of_the_host() -> None:
    """`api.js` makes the paths of requests relative; attributes and other addresses are written so."""
    absolute = re.compile(
        r"""(?:\b(?:src|href|url|poster|action)\b["']?\s*[:=,]|EventSource\(|fetch\()\s*["'`]/"""
    )
    found = [
        f"{path.relative_to(STATIC)}: {line.strip()}"
        for path in [*STATIC.rglob("*.js"), *STATIC.rglob("*.html"), *STATIC.rglob("*.css")]
        for line in path.read_text("utf-8").splitlines()
        if absolute.search(line)
    ]
    assert found == []
