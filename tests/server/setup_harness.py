"""A server whose model is chosen over HTTP, and model servers that note what they are sent."""

from __future__ import annotations

import contextlib
import json
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx
from chat_server import Asked, ChatServer, Say
from server_harness import serving

from vrag.doctor.endpoint import LocalServer
from vrag.doctor.inspector import DoctorInspector
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.server import Agents, model_servers, state_folder
from vrag.server.app import Service
from vrag.server.options import ServerOptions
from vrag.server.setup.routes import ModelSetup
from vrag.server.state.database import ServerState
from vrag.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MODEL = "qwen3-vl:8b"
"""A name that decides the family, so that no model is measured."""
KEY = "sk-a-secret-that-nobody-may-see-7f3a"


def answering(text: str, key: str | None = None, model: str = MODEL) -> ChatServer:
    """A model that gives this answer to everything."""

    def say(_: Asked) -> Say:
        return Say(f"<think>I know.</think><answer>{text}</answer>")

    return ChatServer(say, models=(model,), key=key)


@dataclass
class Setup:
    """A server, and a browser before it."""

    address: str
    browser: httpx.Client
    settings: Settings

    def choose(self, server: str, model: str = MODEL, **more: Any) -> httpx.Response:  # noqa: ANN401
        return self.browser.put("/setup", json={"model": model, "server": server, **more})

    def state(self) -> dict[str, Any]:
        return self.browser.get("/setup").raise_for_status().json()

    def ask(self, client: httpx.Client | None = None, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """The run of a question, once it has ended."""
        client = client or self.browser
        started = client.post("/runs", json={"question": "What sings?", **options})
        assert started.status_code == 201, started.text
        run = started.json()["id"]
        assert "event: end" in client.get(f"/runs/{run}/events").text
        return client.get(f"/runs/{run}").raise_for_status().json()

    def test(self, server: str, model: str = MODEL, **more: Any) -> tuple[list[str], dict[str, Any], str]:  # noqa: ANN401
        """The planned checks, the results by name, and the end of a test."""
        answer = self.browser.post("/setup/test", json={"model": model, "server": server, **more})
        assert answer.status_code == 200, answer.text
        first, *rest = (json.loads(line) for line in answer.text.splitlines())
        results = {line["result"]["name"]: line["result"] for line in rest if "result" in line}
        return [check["name"] for check in first["checks"]], results, rest[-1].get("end", "")

    def other_browser(self) -> httpx.Client:
        """A browser without the cookie of the first."""
        return browser_of(self.address)


def browser_of(address: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers={"Origin": address}, timeout=60)


@contextlib.contextmanager
def setup_server(
    place: Path,
    options: ServerOptions | None = None,
    *,
    found: tuple[LocalServer, ...] = (),
    seconds: float = 20.0,
    **settings: Any,  # noqa: ANN401
) -> Generator[Setup]:
    """A server of one collection whose model is chosen over HTTP; `found` is what is looked for."""
    read = Settings(collection=str(place), workers=1, model_retries=0, **settings)
    registry = CollectionRegistry.open(read)
    setup = ModelSetup(model_servers(read), DoctorInspector(read, found, seconds))
    service = Service(Agents(read, registry), registry, setup=setup)
    state = ServerState.open(state_folder(read))
    options = replace(options or ServerOptions(drain_seconds=2), state=state)
    with (
        closing(state),
        serving(
            registry, options, files=registry, corpora=lambda: registry.names, service=service
        ) as address,
        browser_of(address) as browser,
    ):
        yield Setup(address, browser, read)
