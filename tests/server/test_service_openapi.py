"""Every route of the whole server keeps to its OpenAPI document, whatever it is asked, and by whom."""

from __future__ import annotations

import importlib
import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hosting import OFFER, Nothing, PacedPolicy, Scripted
from hypothesis import HealthCheck, Phase, given, settings
from library_harness import Lines, Served, first_collection
from server_harness import threaded

from vrag.factory.collection_registry import CollectionRegistry
from vrag.server.app import Service, create_app
from vrag.server.http.auth import is_public
from vrag.server.options import ServerOptions
from vrag.settings import Settings
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples // 3
"""Requests per operation and mode: 10, and several times as many in `make fuzz`."""
TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

LEADING_NOWHERE = {
    "/session",  # without the token, which nobody guesses
    "/items/{id}/image",  # of text
    "/items/{id}/crop",
    "/items/{id}/part",
    "/items/{id}/clip",
    "/runs/{id}/files/{sha256}.jpg",
    "/collections/{name}/documents/{id}",
    "/collections/{name}/documents/{id}/retry",  # all of them were read
    "delete /jobs/{id}",  # all of them have ended
}
"""Where no request succeeds here, whatever it holds."""
ALIKE: Any = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
}

schemathesis: Any = importlib.import_module("schemathesis")


TOO_STRICT = [
    importlib.import_module("schemathesis.specs.openapi.checks").positive_data_acceptance,
    importlib.import_module("schemathesis.specs.openapi.checks").negative_data_rejection,
]
"""A schema cannot say everything that is wrong, and a server need not refuse what it has no use for."""
NO_HTTP = b"Invalid HTTP request received."
"""What the server answers before the application is asked: a header such as `Content-Length: {`."""
DOCUMENT = create_app(tiny_corpus(), service=Service(Scripted(Path("never-written")), Nothing())).openapi()
OPERATIONS = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
OPERATIONS.sort(key=lambda operation: operation == ("delete", "/runs"))  # after what needs a run
WITH_INPUT = [
    (method, path)
    for method, path in OPERATIONS
    if {"parameters", "requestBody"}.intersection(DOCUMENT["paths"][path][method])
]


@dataclass
class Running:
    """A server with something of everything."""

    address: str
    document: Any
    """What schemathesis read from it."""
    known: dict[str, list[str]]
    """Values of parameters of paths that lead to something."""

    def ours(self) -> Iterator[dict[str, str]]:
        """Every second time such values, else none."""
        for number in itertools.count():
            yield {} if number % 2 else {name: have[number % len(have)] for name, have in self.known.items()}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    folder = tmp_path_factory.mktemp("service")
    shelf = CollectionRegistry.open(Settings(collection=str(first_collection(folder)), workers=1))
    policy = PacedPolicy()
    policy.go.set()
    service = Service(Scripted(folder / "runs", policy, offer=OFFER), Served(shelf, Lines()))
    options = ServerOptions(token=TOKEN, attempts_per_minute=10**9)  # schemathesis tries wrong tokens, too
    app = create_app(shelf, options, files=shelf, corpora=lambda: shelf.names, service=service)
    with threaded(app, options) as port:
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, headers=BEARER) as client:
            known = something(client)
        document = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=BEARER)
        yield Running(address, document, known)


def something(client: httpx.Client) -> dict[str, list[str]]:
    """Ids of a run, of a collection, of a document, its items and its upload."""
    run = client.post("/runs", json={"question": "How many passengers?"}).raise_for_status().json()["id"]
    upload = client.put(
        "/collections/first/documents/note.txt", content=b"The ferry\nsails"
    ).raise_for_status()
    job = ended(client, upload.json()["id"])
    client.post("/collections", json={"name": "second"}).raise_for_status()
    pages = client.get(f"/documents/{job['document']}").raise_for_status().json()["items"]
    return {
        "run": [run],
        "item": [page["id"] for page in pages],
        "job": [job["id"]],
        "document": [job["document"]],
        "name": ["first", "second"],
        "model": ["vrag"],  # the script is one for that agent
    }


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    end = time.monotonic() + 40
    while (told := client.get(f"/jobs/{job}").raise_for_status().json())["state"] != "finished":
        assert time.monotonic() < end, told
        time.sleep(0.02)
    return told


def leading_somewhere(case: Any, path: str, ours: dict[str, str]) -> Any:  # noqa: ANN401
    """The same request, with parameters that name what is there."""
    kinds = {"/runs/": "run", "/items/": "item", "/jobs/": "job", "/documents/": "document"}
    of = next((kind for start, kind in kinds.items() if path.startswith(start)), "document")
    named = {"id": ours.get(of), "name": ours.get("name")}
    given = {name: value for name, value in named.items() if value and f"{{{name}}}" in path}
    if path.endswith("{filename}") and ours:
        given["filename"] = "further.txt"
    if path == "/v1/models/{id}" and ours:
        given["id"] = ours["model"]
    case.path_parameters = {**(case.path_parameters or {}), **given}
    if path == "/runs/{id}":  # stops the run, and deletes nothing that others are about
        query: dict[str, Any] = case.query or {}
        case.query = {name: value for name, value in query.items() if name != "remove"}
    if path == "/reports" and ours:
        case.body = {**case.body, "runs": [ours["run"]]}
    if path == "/v1/chat/completions" and ours:
        message = {"role": "user", "content": "How many passengers?"}
        case.body = {"model": ours["model"], "messages": [message], "stream": bool(case.body.get("stream"))}
    if path == "/v1/responses" and ours:
        case.body = {**case.body, "model": ours["model"], "input": "How many passengers?"}
        kept = ("model", "input", "stream")
        case.body = {name: case.body[name] for name in kept if name in case.body}
    return case


def spared(method: str, path: str) -> bool:
    """Whether a request would take away what the others are about."""
    return method == "delete" and path.startswith("/collections/")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [(*one, "positive") for one in OPERATIONS] + [(*one, "negative") for one in WITH_INPUT],
)
def test_every_operation_conforms(running: Running, method: str, path: str, mode: str) -> None:
    """No fault of the server, and each response one that the document has, in the shape it says."""
    operation = running.document[path][method]
    modes = schemathesis.GenerationMode

    @settings(max_examples=EXAMPLES, **ALIKE)
    @given(operation.as_strategy(generation_mode=modes(mode)))
    def conforms(case: Any) -> None:  # noqa: ANN401
        if mode == "positive" and not spared(method, path):
            case = leading_somewhere(case, path, next(ours))
        response = case.call(headers=BEARER)
        if response.content == NO_HTTP:
            return
        case.validate_response(response, headers=BEARER, excluded_checks=TOO_STRICT)
        statuses.append(response.status_code)

    statuses: list[int] = []
    ours = running.ours()
    conforms()
    assert statuses
    assert max(statuses) < 500
    leads = LEADING_NOWHERE.isdisjoint({path, f"{method} {path}"})
    assert mode == "negative" or not leads or min(statuses) < 300


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_without_a_token_nothing_answers_but_health_and_the_way_in(
    running: Running, method: str, path: str
) -> None:
    operation = running.document[path][method]

    @settings(max_examples=5, **ALIKE)
    @given(operation.as_strategy())
    def refuses(case: Any) -> None:  # noqa: ANN401
        status = case.call(headers={"Authorization": ""}).status_code
        assert status < 500
        assert is_public(path) or status == 401

    refuses()
