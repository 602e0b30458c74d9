"""The application: routes, and what stands before them. It receives built objects and opens none."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from vrag import __version__
from vrag.server import problems
from vrag.server.batching import Batcher
from vrag.server.entries import Finder
from vrag.server.files import SearcherFiles, plain_name
from vrag.server.gate import Gate, Watch
from vrag.server.items import item_routes
from vrag.server.metrics import Metrics
from vrag.server.options import ServerOptions
from vrag.server.search import search_routes
from vrag.server.status import status_routes
from vrag.server.waiting import Desks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.search.engine import Searcher
    from vrag.server.files import ItemFiles, Naming

__all__ = ["create_app"]


def create_app(
    searcher: Searcher,
    options: ServerOptions | None = None,
    *,
    files: ItemFiles | None = None,
    naming: Naming = plain_name,
    corpora: Sequence[str] = (),
) -> FastAPI:
    """An application that serves what a searcher finds. One event loop per application.

    Args:
        searcher: What finds and shows. Is searched in one thread and asked for items in some others.
        options: Limits and access.
        files: The files of its items; None where there are none beside what the searcher shows.
        naming: What `file_path` of an item is.
        corpora: The names that `search_corpus` may have.
    """
    options = options or ServerOptions()
    metrics = Metrics()
    files = files or SearcherFiles(searcher)
    batcher = Batcher(Finder(searcher, files, naming), options, metrics)
    desks = Desks(options, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await asyncio.gather(*(part.close(options.closing_seconds) for part in (batcher, desks)))

    app = FastAPI(
        title="vrag",
        summary="Searches pages, pictures, clips and passages, and shows them.",
        version=__version__,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.register(app)
    app.include_router(search_routes(batcher, options, corpora))
    app.include_router(item_routes(searcher, files, desks, options))
    app.include_router(status_routes(searcher, corpora, desks, metrics, options))
    if options.token is not None:
        _declare_token(app)
    app.add_middleware(Gate, options=options)
    app.add_middleware(Watch, metrics=metrics)  # the last added stands first
    return app


def _declare_token(app: FastAPI) -> None:
    """Says in OpenAPI which routes need the token; `Gate` is what asks for it."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        schema = generate()
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path == "/healthz" else [{"token": []}]
        return schema

    app.openapi = openapi
