"""The server keeps to its OpenAPI document, whatever it is asked."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from server_harness import asked
from stored_collection import id_of, stored

from vrag.search.engine import Engine
from vrag.server.app import create_app
from vrag.server.item_files import CollectionFiles
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples // 3
"""Requests per operation and mode: 10, and several times as many in `make fuzz`."""
HERE = [id_of(name) for name in ("scan.pdf", "chart.png", "note.md", "film.mp4", "link.pdf", "torn.pdf")]


schemathesis: Any = importlib.import_module("schemathesis")
checks: Any = importlib.import_module("schemathesis.specs.openapi.checks")
OPERATIONS = [
    (method, path)
    for path, methods in create_app(tiny_corpus()).openapi()["paths"].items()
    for method in methods
    if path != "/session"  # the whole server's, where there is a token
]
WITH_BOX = ("/items/{id}/crop", "/items/{id}/part")
"""A box is four numbers in an order, which no schema can say."""
WITHOUT_INPUT = {"/healthz", "/metrics", "/version"}


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401
    """The document of a server over real files."""
    desk = stored(tmp_path_factory.mktemp("desk"))
    options = ServerOptions(hosts=frozenset({"testserver"}))
    files = CollectionFiles([desk.collection])
    app = create_app(Engine(desk.collection), options, files=files, corpora=lambda: ("collection",))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def some_of_ours(case: Any, ours: Iterator[str | None]) -> Any:  # noqa: ANN401
    """Half of the ids become those of items that are there."""
    known = next(ours)
    if known is not None and "{id}" in case.operation.path:
        case.path_parameters = {**case.path_parameters, "id": known}
        if case.operation.path in WITH_BOX:
            case.query = {**case.query, "box": "0.1,0.2,0.5,1"}
        if "size" in case.query:
            case.query = {**case.query, "size": "300x200"}
    return case


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_conforms(documented: Any, method: str, path: str, mode: str) -> None:  # noqa: ANN401
    """No fault of the server, and each response one that the document has, in the shape it says."""
    operation = documented[path][method]
    if mode == "negative" and path in WITHOUT_INPUT:
        return
    modes = schemathesis.GenerationMode

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(operation.as_strategy(generation_mode=modes(mode)))
    def conforms(case: Any) -> None:  # noqa: ANN401
        case = some_of_ours(case, ours) if mode == "positive" else case
        too_strict = [checks.positive_data_acceptance] if path in WITH_BOX else []
        statuses.append(case.call_and_validate(excluded_checks=too_strict).status_code)

    statuses: list[int] = []
    ours = itertools.cycle([*HERE, *[None] * len(HERE)])
    conforms()
    assert len(statuses) >= (1 if path in WITHOUT_INPUT else EXAMPLES // 2)
    none_here = path == "/items/{id}/part"  # these documents have no files
    assert mode == "negative" or {200, 206, 404 if none_here else 200}.intersection(statuses)


def malformed(number: int) -> bytes:  # noqa: PLR0911
    """A body that is wrong in one of many ways; the same for the same number."""
    random_ = random.Random(number)
    valid = json.dumps(
        {"queries": ["ferry", "ice"], "top_k": 3, "documents": ["d"], "kinds": ["page"]}
    ).encode()
    match number % 8:
        case 0:
            return random_.randbytes(random_.randrange(200))
        case 1:
            return valid[: random_.randrange(len(valid))]
        case 2:
            broken = bytearray(valid)
            for _ in range(random_.randrange(1, 6)):
                broken[random_.randrange(len(broken))] = random_.randrange(256)
            return bytes(broken)
        case 3:
            return json.dumps({"queries": nested(random_, 4), "top_k": nested(random_, 2)}).encode()
        case 4:
            depth = random_.randrange(1, 20_000)
            return b'{"queries":' + b"[" * depth + b"]" * random_.randrange(depth + 1)
        case 5:
            fields = {
                name: nested(random_, 3) for name in ("documents", "kinds", "search_corpus", "vrag_ret")
            }
            return json.dumps({"queries": "ferry", **fields}).encode()
        case 6:
            number_ = random_.choice(["1e999", "-0", "1" * 400, "NaN", "Infinity", "0x3", "3.0", "1_0", "+3"])
            return b'{"queries": "ferry", "top_k": ' + number_.encode() + b"}"
        case _:
            text = "".join(
                random_.choice(['"', "\\", "\\u0000", "\\ud83d", "\0", "é", "\\x", "a"]) for _ in range(9)
            )
            return b'{"queries": "' + text.encode() + b'"}'


def nested(random_: random.Random, depth: int) -> Any:  # noqa: ANN401
    """Some JSON value."""
    if depth and random_.random() < 0.5:
        if random_.random() < 0.5:
            return [nested(random_, depth - 1) for _ in range(random_.randrange(4))]
        return {random_.choice("ab"): nested(random_, depth - 1) for _ in range(random_.randrange(3))}
    return random_.choice(
        [None, True, 0, -1, 3, 10**30, 2.5, "", " ", "ferry", "\0", "page", "a" * 9000, "\u2028"]
    )


def test_a_thousand_malformed_bodies_are_refused_or_answered() -> None:
    """Never by a fault of the server; and every response is what the document says."""
    statuses: dict[int, int] = {}

    async def send() -> None:
        async with asked(create_app(tiny_corpus(), ServerOptions(body_bytes=100_000))) as client:
            headers = {"Content-Type": "application/json"}
            for number in range(1000):
                response = await client.post("/search", content=malformed(number), headers=headers)
                statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
                told = response.json()
                assert response.status_code == 200 or told["detail"], (number, response.text)

    asyncio.run(send())
    assert set(statuses) <= {200, 413, 422}, statuses
    assert statuses[422] > 800


def test_files_that_vanish_are_not_a_fault_of_the_server(tmp_path: Path) -> None:
    async def ask_all(app: FastAPI) -> set[int]:
        async with asked(app) as client:
            paths = [
                f"/items/{name}/{part}" for name in HERE for part in ("image", "clip", "image?max_pixels=9")
            ]
            return {(await client.get(path)).status_code for path in paths}

    desk = stored(tmp_path)
    app = create_app(Engine(desk.collection), files=CollectionFiles([desk.collection]))
    desk.collection.store.blobs.delete(list(desk.collection.store.blobs.names()))
    assert asyncio.run(ask_all(app)) == {404}
