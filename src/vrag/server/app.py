"""The application: routes and middlewares over a searcher, agents and collections that it is given."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI

from vrag import __version__
from vrag.server.collections.routes import collection_routes
from vrag.server.collections.service import CollectionService
from vrag.server.http import errors
from vrag.server.http.auth import add_access_checks, is_public
from vrag.server.http.background import ItemThreadPool
from vrag.server.http.sessions import BrowserSessions, session_routes
from vrag.server.item_files import DetailedSearcher, ItemFiles, Naming, SearcherFiles, plain_name
from vrag.server.items import item_routes
from vrag.server.logs import RequestLines, RunLines
from vrag.server.mcp import McpTransport
from vrag.server.mcp.tools import McpTools
from vrag.server.metrics import MetricsMiddleware, RunCounter, ServerMetrics
from vrag.server.openai.errors import ErrorShape
from vrag.server.openai.routes import openai_routes
from vrag.server.options import ServerOptions
from vrag.server.runs.routes import run_routes
from vrag.server.runs.run_manager import RunManager, RunManagerOptions
from vrag.server.search import Batcher, search_body, search_routes
from vrag.server.status import page_routes, static_files, status_routes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.agent.events import Event
    from vrag.search.searcher import Searcher
    from vrag.server.collections.registry import CollectionSet
    from vrag.server.runs.schema import AgentProvider

Lifespan: TypeAlias = "Callable[[], AbstractAsyncContextManager[None]]"
"""Something that begins and ends with the server."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a server besides search: agents and collections."""

    answering: AgentProvider
    holdings: CollectionSet
    observers: tuple[Callable[[Event], None], ...] = ()
    """Each receives every event of every run."""


def create_app(
    searcher: Searcher,
    options: ServerOptions | None = None,
    *,
    files: ItemFiles | None = None,
    naming: Naming = plain_name,
    corpora: Sequence[str] = (),
    service: Service | None = None,
) -> FastAPI:
    """Build an application over a searcher. One event loop for each application.

    Args:
        searcher: Searches in one thread and returns items in some others.
        options: Limits and access.
        files: The files of its items; by default only what the searcher returns.
        naming: Makes the `file_path` of an item.
        corpora: The names that `search_corpus` may have.
        service: Agents and collections; None for search alone.
    """
    options = options or ServerOptions()
    metrics = ServerMetrics()
    files = files or SearcherFiles(searcher)
    batcher = Batcher(DetailedSearcher(searcher, files, naming), options, metrics)
    item_threads = ItemThreadPool(options, metrics)
    sessions = BrowserSessions(options)
    lifespans: list[Lifespan] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for part in lifespans:
                await stack.enter_async_context(part())
            yield
        await asyncio.gather(*(part.close(options.closing_seconds) for part in (batcher, item_threads)))

    app = FastAPI(
        title="vrag",
        summary="Answers questions about documents by looking at them, searches them, and shows them.",
        version=__version__,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.metrics, app.state.stopping = metrics, None
    errors.register(app)
    app.include_router(search_routes(batcher, options, corpora))
    app.include_router(item_routes(searcher, files, item_threads, options))
    app.include_router(status_routes(searcher, corpora, item_threads, metrics, options))
    app.include_router(session_routes(sessions, options))
    if service is not None:
        lifespans += _add_service(app, service, searcher, item_threads, options, metrics)
    app.openapi = partial(_openapi_schema, app.openapi, corpora, with_token=options.token is not None)
    add_access_checks(app, options, metrics, sessions)
    app.add_middleware(MetricsMiddleware, metrics=metrics)
    app.add_middleware(RequestLines)
    app.add_middleware(ErrorShape)  # the last added stands first
    return app


def _add_service(
    app: FastAPI,
    service: Service,
    searcher: Searcher,
    item_threads: ItemThreadPool,
    options: ServerOptions,
    metrics: ServerMetrics,
) -> list[Lifespan]:
    """Add runs, collections, the OpenAI and MCP interfaces and the page; return their lifespans."""
    runs = RunManager(
        service.answering,
        RunManagerOptions(runs=options.runs, client_runs=options.client_runs),
        (RunCounter(metrics), RunLines(), *service.observers),
    )
    collections = CollectionService(service.holdings, options, metrics=metrics)
    app.state.stopping = partial(runs.finish, options.draining_seconds)
    app.include_router(run_routes(runs, metrics))
    app.include_router(collection_routes(collections, item_threads, options))
    app.include_router(openai_routes(runs))
    mcp = McpTransport(McpTools(searcher, runs, item_threads, options))
    app.router.routes.append(mcp.route)
    app.include_router(page_routes())
    app.mount("/static", static_files())

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        await collections.start()
        try:
            yield
        finally:
            closing = (part.close(options.closing_seconds) for part in (collections, runs))
            await asyncio.gather(*closing)

    return [lifespan, mcp.open]


def _openapi_schema(
    generate: Callable[[], dict[str, Any]], corpora: Sequence[str], *, with_token: bool
) -> dict[str, Any]:
    """Generate the OpenAPI document, with the names of collections and the routes that need a token."""
    schema = generate()
    schema["paths"]["/search"]["post"] |= search_body(corpora)
    if with_token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if is_public(path) else [{"token": []}]
    return schema
