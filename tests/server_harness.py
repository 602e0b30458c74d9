"""An application on a real socket, and a searcher whose pace the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from vrag.server.app import create_app
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from fastapi import FastAPI
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Item, Query


@dataclass
class PacedSearcher:
    """Searches when the test lets it, and remembers each call."""

    inner: Searcher = field(default_factory=tiny_corpus)
    go: threading.Event = field(default_factory=threading.Event)
    """Set while searches may pass."""
    calls: list[tuple[list[str], int]] = field(default_factory=list[tuple[list[str], int]])
    threads: set[str] = field(default_factory=set[str])
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each call that has begun."""
    fail: Exception | None = None
    """What the next search raises."""

    @property
    def version(self) -> str:
        return self.inner.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        self.calls.append(([query.text for query in queries], top_k))
        self.threads.add(threading.current_thread().name)
        self.began.release()
        assert self.go.wait(30), "nobody let the search go on"
        if self.fail is not None:
            raise self.fail
        return self.inner.search(queries, top_k)

    def item(self, id: str) -> Item:
        return self.inner.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        return self.inner.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        return self.inner.frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image | None:
        return self.inner.part(id, view)


@contextlib.asynccontextmanager
async def asked(app: FastAPI, **headers: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an application, without a network."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", headers=headers) as client,
    ):
        yield client


def ask(app: FastAPI, method: str, path: str, **request: Any) -> httpx.Response:  # noqa: ANN401
    """One response of an application."""

    async def once() -> httpx.Response:
        async with asked(app) as client:
            return await client.request(method, path, **request)

    return asyncio.run(once())


@contextlib.contextmanager
def serving(
    searcher: Searcher | None = None,
    options: ServerOptions | None = None,
    *,
    port: int = 0,
    **rest: Any,  # noqa: ANN401
) -> Generator[str]:
    """A server on a socket of this machine, in a thread; yields its address. Port 0 is any that is free."""
    options = options or ServerOptions()
    app = create_app(searcher or tiny_corpus(), options, **rest)
    with threaded(app, options, port=port) as bound:
        yield f"http://127.0.0.1:{bound}"


@contextlib.contextmanager
def threaded(
    app: FastAPI,
    options: ServerOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Generator[int]:
    """An application on a socket, in a thread; yields its port."""
    ready = threading.Event()
    server = make_server(app, options, ready.set)
    with listen(host, port) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(30)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def dial(address: str) -> socket.socket:
    """A bare connection to a server."""
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)
