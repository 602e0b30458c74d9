"""A server that speaks the embeddings API of OpenAI and vLLM's pooling API, run on loopback.

Its vectors are drawn from a hash of what was asked, so that equal requests have equal vectors. Each
test can break one thing of its answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

DIMENSION = 8


@dataclass
class Served:
    """A running server: what it was asked, and what is broken about it."""

    url: str = ""
    sees: bool = True
    model: str = "tiny"
    seed: int = 0
    base64_too: bool = True
    """Whether it answers in base64 when asked to; some servers do not."""
    failures: list[Response] = field(default_factory=list[Response])
    """Answered first, one per request."""
    spoil: Callable[[dict[str, Any]], Any] | None = None
    """What becomes of the answer."""
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def vector(self, thing: object, rows: int = 1) -> NDArray[np.float32]:
        digest = hashlib.sha256(json.dumps([thing, self.seed], sort_keys=True).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8])).standard_normal(
            (rows, DIMENSION), np.float32
        )

    def things(self, body: dict[str, Any]) -> list[object]:
        if "messages" in body:
            return [body["messages"]]
        return [body["input"]] if isinstance(body["input"], str) else list(body["input"])


def application(served: Served) -> FastAPI:
    app = FastAPI()

    async def answer(request: Request, single: bool) -> Response:
        body = await request.json()
        served.bodies.append(body)
        served.headers.append(dict(request.headers))
        if served.failures:
            return served.failures.pop(0)
        if not served.sees and "image_url" in json.dumps(body):
            return Response('{"error": {"message": "not a multimodal model"}}', 400)
        entries: list[dict[str, Any]] = []
        for index, thing in enumerate(served.things(body)):
            rows = 1 if single else 2 + len(json.dumps(thing)) % 5
            vectors = served.vector(thing, rows)
            numbers: Any = vectors[0].tolist() if single else vectors.tolist()
            if single and body.get("encoding_format") == "base64" and served.base64_too:
                numbers = base64.b64encode(vectors[0].astype("<f4").tobytes()).decode()
            entries.append({"index": index, "object": "x", "embedding" if single else "data": numbers})
        made: Any = {"object": "list", "model": served.model, "data": entries[::-1]}
        made = served.spoil(made) if served.spoil else made
        return (
            made if isinstance(made, Response) else Response(json.dumps(made), media_type="application/json")
        )

    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> Response:
        return await answer(request, single=True)

    @app.post("/pooling")
    async def pooling(request: Request) -> Response:
        return await answer(request, single=False)

    return app


@contextmanager
def serving(served: Served) -> Generator[Served]:
    """Runs the server in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(served), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
