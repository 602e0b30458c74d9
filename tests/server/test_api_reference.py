"""`/docs`: every route of the OpenAPI document is there, and the examples work."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosting import Nothing, Scripted
from selectolax.lexbor import LexborHTMLParser
from server_harness import ask, serving

from vrag.server.api_reference import render_reference
from vrag.server.app import Service, create_app
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from fastapi import FastAPI

HOSTILE = '<img src=x onerror="alert(1)"> [a](javascript:alert(2)) \x1b `<b>`'


def app(token: str | None = None, **more: Any) -> FastAPI:  # noqa: ANN401
    service = Service(Scripted(Path("never-written")), Nothing())
    return create_app(tiny_corpus(), ServerOptions(token=token), service=service, **more)


def tree(page: str) -> LexborHTMLParser:
    return LexborHTMLParser(page)


def texts(page: str, selector: str) -> list[str]:
    return [node.text(strip=True) for node in tree(page).css(selector)]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return app(token="secret").openapi()


@pytest.fixture(scope="module")
def page() -> str:
    return ask(app(token="secret"), "GET", "/docs", headers={"authorization": "Bearer secret"}).text


def test_every_route_is_there_with_its_parameters_and_fields(document: dict[str, Any], page: str) -> None:
    expected = {f"{m.upper()} {path}" for path, operations in document["paths"].items() for m in operations}
    assert {
        f"{a} {b}" for a, b in zip(texts(page, "h3 .method"), texts(page, ".route h3 code"), strict=True)
    } == expected
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            anchor = re.sub(r"\W+", "-", f"{method} {path}").strip("-")
            (section,) = tree(page).css(f"#{anchor}")
            assert operation["summary"] in section.text()
            names = {code.text() for code in section.css("dt code")}
            assert {parameter["name"] for parameter in operation.get("parameters", ())} <= names
            schema = (
                operation.get("requestBody", {})
                .get("content", {})
                .get("application/json", {})
                .get("schema", {})
            )
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert set(schema.get("properties", ())) <= names
            statuses = set(texts(page, ".intro dt")) | {
                dt.text(strip=True) for dt in section.css(".responses dt")
            }
            assert set(operation["responses"]) <= statuses


def test_every_link_leads_somewhere(page: str) -> None:
    ids = [node.attributes["id"] for node in tree(page).css("[id]")]
    assert len(ids) == len(set(ids))
    links = {node.attributes["href"] for node in tree(page).css("a")}
    assert {link for link in links if link and link.startswith("#")} <= {f"#{id}" for id in ids}
    assert {link for link in links if link and not link.startswith("#")} == {"./", "openapi.json"}


def test_nothing_is_fetched_and_no_script_runs(page: str) -> None:
    response = ask(app(), "GET", "/docs")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    parsed = tree(page)
    assert parsed.css("script, iframe, form, input, [onclick], [style]") == []
    assert all("http" not in (node.attributes.get("src") or "") for node in parsed.css("[src]"))
    assert [str(node.attributes["href"])[:5] for node in parsed.css("link")] == ["data:"]


def test_it_needs_the_token_as_the_document_does() -> None:
    assert ask(app(token="secret"), "GET", "/docs").status_code == 401
    assert ask(app(), "GET", "/docs").status_code == 200


def test_a_server_without_agents_has_its_own(page: str) -> None:
    response = ask(create_app(tiny_corpus()), "GET", "/docs")
    assert "/search" in response.text
    assert "/runs" not in texts(response.text, "h3 code")
    assert texts(response.text, ".plain") == []
    assert set(texts(page, ".plain")) == {
        "Needs no token.", "Role:ask.", "Role:upload.", "Role:manage.", "Role:administer.",
    }  # fmt: skip


def test_a_browser_keeps_it_while_it_is_the_same() -> None:
    served = app()
    first = ask(served, "GET", "/docs")
    again = ask(served, "GET", "/docs", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert ask(served, "HEAD", "/docs").content == b""
    assert first.headers["content-encoding"] == "gzip"


def test_whatever_the_document_says_stays_text(document: dict[str, Any]) -> None:
    spoiled = json.loads(
        json.dumps(document),
        object_hook=lambda fields: (
            fields
            | {
                key: f"{fields[key]} {HOSTILE}"
                for key in {"description", "summary", "default"} & fields.keys()
            }
        ),
    )
    page = render_reference(spoiled, "default-src 'none'")
    parsed = tree(page)
    assert parsed.css("img, b, script") == []
    assert all(not (link.attributes["href"] or "").startswith("javascript") for link in parsed.css("a"))
    assert "\x1b" not in page
    assert page.count("onerror") > 100


def test_names_of_collections_are_told() -> None:
    assert "Reports" in ask(app(corpora=lambda: ("Reports",)), "GET", "/docs").text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_examples_of_requests_without_ids_work(tmp_path: Path) -> None:
    answering = Scripted(tmp_path)
    answering.policy.go.set()
    service = Service(answering, Nothing())
    with serving(options=ServerOptions(token="secret", drain_seconds=2), service=service) as address:
        page = subprocess.run(
            ["curl", "-sf", "-H", "Authorization: Bearer secret", f"{address}/docs"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        commands = [node.text() for node in tree(page).css(".route pre code")]
        tried: dict[str, int] = {}
        for command in commands:
            path = shlex.split(command)[-1].removeprefix("$ADDRESS")
            if re.search("[A-Z]", path.partition("?")[0]) or "events" in path:
                continue  # of a run, an item, a document
            done = subprocess.run(
                ["bash", "-c", f"{command} -s -o /dev/null -w '%{{http_code}}'"],
                env={"PATH": "/usr/bin:/bin", "ADDRESS": address, "VRAG_API_KEY": "secret"},
                check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60,
            )  # fmt: skip
            tried[f"{'POST ' if '-d' in command else ''}{path}"] = int(done.stdout)
    assert {"/healthz", "/options", "/runs", "/session", "POST /runs", "POST /search"} <= set(tried)
    of_this_server = {"POST /session": 401, "POST /reports": 422, "POST /collections": 409}
    assert {path: status for path, status in tried.items() if status >= 300} == {
        path: status for path, status in of_this_server.items() if tried[path] >= 300
    }


def test_bodies_of_examples_have_what_is_required(document: dict[str, Any], page: str) -> None:
    bodies = [
        json.loads(words[words.index("-d") + 1])
        for command in texts(page, ".route pre code")
        if "-d" in (words := shlex.split(command))
    ]
    assert {"question": "What was the revenue in 2023?"} in bodies
    assert all(value != [] for body in bodies for value in body.values())
