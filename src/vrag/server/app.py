"""The application: routes, and what stands before them. It receives built objects and opens none."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI

from vrag import __version__
from vrag.agent.events import AnswerGiven, RunFailed, RunStarted, UsageReported
from vrag.server.collections.routes import library_routes
from vrag.server.collections.service import CollectionService
from vrag.server.hit_json import EntryFinder
from vrag.server.http import errors
from vrag.server.http.auth import AuthMiddleware, MetricsMiddleware, is_public
from vrag.server.http.sessions import BrowserSessions, session_routes
from vrag.server.http.timeouts import ItemThreadPool
from vrag.server.item_files import SearcherFiles, plain_name
from vrag.server.items import item_routes
from vrag.server.logs import RequestLines, RunLines
from vrag.server.mcp import McpTools, McpTransport
from vrag.server.metrics import ServerMetrics
from vrag.server.openai import ErrorShape, completions_routes
from vrag.server.options import ServerOptions
from vrag.server.query_batcher import Batcher
from vrag.server.runs.routes import run_routes
from vrag.server.runs.run_manager import RunManager, RunManagerOptions
from vrag.server.search import search_body, search_routes
from vrag.server.status import status_routes
from vrag.server.web import page_routes, static_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.agent.events import Event
    from vrag.search.searcher import Searcher
    from vrag.server.collections.registry import CollectionSet
    from vrag.server.item_files import ItemFiles, Naming
    from vrag.server.runs.agent_provider import AgentProvider

__all__ = ["Service", "create_app"]

Life: TypeAlias = "Callable[[], AbstractAsyncContextManager[None]]"
"""Something that begins and ends with the server."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a server does beside searching: it answers, and takes documents."""

    answering: AgentProvider
    holdings: CollectionSet
    observers: tuple[Callable[[Event], None], ...] = ()
    """Each is told every event of every run."""


def create_app(
    searcher: Searcher,
    options: ServerOptions | None = None,
    *,
    files: ItemFiles | None = None,
    naming: Naming = plain_name,
    corpora: Sequence[str] = (),
    service: Service | None = None,
) -> FastAPI:
    """An application that serves what a searcher finds. One event loop per application.

    Args:
        searcher: What finds and shows. Is searched in one thread and asked for items in some others.
        options: Limits and access.
        files: The files of its items; None where there are none beside what the searcher shows.
        naming: What `file_path` of an item is.
        corpora: The names that `search_corpus` may have.
        service: What it does beside searching; None for search alone.
    """
    options = options or ServerOptions()
    metrics = ServerMetrics()
    files = files or SearcherFiles(searcher)
    batcher = Batcher(EntryFinder(searcher, files, naming), options, metrics)
    item_threads = ItemThreadPool(options, metrics)
    sessions = BrowserSessions(options)
    lives: list[Life] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for life in lives:
                await stack.enter_async_context(life())
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
        lives += _serve_all(app, service, searcher, item_threads, options, metrics)
    app.openapi = partial(_described, app.openapi, corpora, with_token=options.token is not None)
    app.add_middleware(AuthMiddleware, options=options, metrics=metrics, sessions=sessions)
    app.add_middleware(MetricsMiddleware, metrics=metrics)
    app.add_middleware(RequestLines)
    app.add_middleware(ErrorShape)  # the last added stands first
    return app


def _serve_all(
    app: FastAPI,
    service: Service,
    searcher: Searcher,
    item_threads: ItemThreadPool,
    options: ServerOptions,
    metrics: ServerMetrics,
) -> list[Life]:
    """Adds runs, collections, the doors of other protocols and the page; what has to live beside them."""
    host = RunManager(
        service.answering,
        RunManagerOptions(runs=options.runs, client_runs=options.client_runs),
        (_counting(metrics), RunLines(), *service.observers),
    )
    library = CollectionService(service.holdings, options, metrics=metrics)
    app.state.stopping = partial(host.finish, options.draining_seconds)
    app.include_router(run_routes(host, service.answering, metrics))
    app.include_router(library_routes(library, item_threads, options))
    app.include_router(completions_routes(host, service.answering))
    door = McpTransport(McpTools(searcher, host, service.answering, item_threads, options))
    app.router.routes.append(door.route)
    app.include_router(page_routes())
    app.mount("/static", static_files())

    @asynccontextmanager
    async def lives() -> AsyncGenerator[None]:
        await library.start()
        try:
            yield
        finally:
            await asyncio.gather(library.close(options.closing_seconds), host.close(options.closing_seconds))

    return [lives, door.open]


def _counting(metrics: ServerMetrics) -> Callable[[Event], None]:
    """Counts the runs of a server by their events."""
    agents: dict[str, RunStarted] = {}

    def count(event: Event) -> None:
        match event:
            case RunStarted():
                agents[event.run_id] = event
                metrics.run_started(event.settings.agent)
            case UsageReported():
                metrics.used(
                    prompt=event.prompt_tokens or 0,
                    completion=event.completion_tokens or 0,
                    visual=event.visual_tokens,
                )
            case AnswerGiven() | RunFailed():
                started = agents.pop(event.run_id)
                metrics.run_ended(started.settings.agent, event.stop_reason, event.ts - started.ts)
            case _:
                pass

    return count


def _described(
    generate: Callable[[], dict[str, Any]], corpora: Sequence[str], *, with_token: bool
) -> dict[str, Any]:
    """The OpenAPI document, with what is not known of routes when they are made.

    These are the names that collections have now, and which routes need the token that `AuthMiddleware` asks
    for.
    """
    schema = generate()
    schema["paths"]["/search"]["post"] |= search_body(corpora)
    if with_token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if is_public(path) else [{"token": []}]
    return schema
