"""The application: routes and middlewares over a searcher, agents and collections that it is given.

The routes without content of documents are here too: health, counters, version, and the shell of the web
page. The shell is public: everything that it shows is requested separately.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from vrag import __version__
from vrag.agent.events import Event
from vrag.agent.suggestions import QuestionSuggester
from vrag.search.schema import ServerInfo
from vrag.search.searcher import Searcher
from vrag.server.api_reference import reference_routes
from vrag.server.collections.registry import CollectionSet
from vrag.server.collections.routes import collection_routes
from vrag.server.collections.service import CollectionService
from vrag.server.conflicts import ConflictReports, conflict_routes
from vrag.server.http import errors
from vrag.server.http.audit import AuditMiddleware, AuditTrail
from vrag.server.http.auth import add_access_checks, is_public, session_routes
from vrag.server.http.background import ItemThreadPool, Threads
from vrag.server.http.compression import JsonCompression
from vrag.server.http.errors import Responses, responses
from vrag.server.http.roles import ROUTES
from vrag.server.http.root_path import RootPathMiddleware
from vrag.server.item_files import DetailedSearcher, ItemFiles, Naming, SearcherFiles, plain_name
from vrag.server.items import item_routes
from vrag.server.logs import RequestMiddleware, RunLines
from vrag.server.mcp import McpTools
from vrag.server.mcp_transport import McpTransport
from vrag.server.metrics import CONTENT_TYPE, RunCounter, ServerMetrics
from vrag.server.openai.errors import ErrorShape
from vrag.server.openai.routes import openai_routes
from vrag.server.options import ServerOptions
from vrag.server.page_files import PageFiles, page_routes
from vrag.server.runs.retention import RunRetention, retention_routes
from vrag.server.runs.routes import run_routes
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.schema import AgentProvider
from vrag.server.search import Batcher, Corpora, search_body, search_routes
from vrag.server.setup.choices import ModelChoices
from vrag.server.setup.routes import ModelSetup, SetupService, setup_routes
from vrag.server.state.sessions import BrowserSessions
from vrag.server.viewer.routes import document_file_routes, item_text_routes

Lifespan: TypeAlias = "Callable[[], AbstractAsyncContextManager[None]]"
"""Something that begins and ends with the server."""
_COUNTERS: Responses = {200: {"content": {"text/plain": {}}, "description": "Counters."}}


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a server besides search: agents and collections."""

    answering: AgentProvider
    collections: CollectionSet
    observers: tuple[Callable[[Event], None], ...] = ()
    """Each receives every event of every run."""
    setup: ModelSetup | None = None
    """The set-up of models on the page; None if they cannot be chosen there."""
    suggester: QuestionSuggester | None = None
    """The suggester of questions about documents; None for the reader."""


def create_app(
    searcher: Searcher,
    options: ServerOptions | None = None,
    *,
    files: ItemFiles | None = None,
    naming: Naming = plain_name,
    corpora: Corpora = lambda: (),
    service: Service | None = None,
) -> FastAPI:
    """Build an application over a searcher, for one event loop.

    `searcher` is called by one thread for searches and by several for items. `files` finds the files of
    items; by default, only what the searcher itself returns is served. `naming` makes the `file_path` of an
    item. `corpora` returns the names that `search_corpus` may have at the moment. `service` adds agents and
    collections; without it the application only searches.
    """
    options = options or ServerOptions()
    metrics = ServerMetrics()
    files = files or SearcherFiles(searcher)
    batcher = Batcher(DetailedSearcher(searcher, files, naming), options, metrics)
    item_threads = ItemThreadPool(options, metrics)
    conflicts = ConflictReports(searcher, options, item_threads)
    sessions = BrowserSessions(options)
    trail = AuditTrail(options.audit)
    lifespans: list[Lifespan] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for part in lifespans:
                await stack.enter_async_context(part())
            yield
        parts = (batcher, item_threads, conflicts, trail)
        await asyncio.gather(*(part.close(options.closing_seconds) for part in parts))

    app = FastAPI(
        title="vrag",
        summary="Answers questions about documents by looking at them, searches them, and shows them.",
        version=__version__,
        openapi_url=None,  # `reference_routes` serves it with the path of the server
        docs_url=None,  # these load scripts from elsewhere; see `api_reference`
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.metrics, app.state.stopping = metrics, None
    errors.register(app)
    add_routes(app, search_routes(batcher, options, corpora))
    add_routes(app, conflict_routes(conflicts, corpora))
    add_routes(app, item_routes(searcher, files, item_threads))
    add_routes(app, item_text_routes(searcher, item_threads))
    add_routes(app, status_routes(searcher, corpora, item_threads, metrics))
    add_routes(app, session_routes(sessions, options))
    if service is not None:
        build_tools = partial(
            McpTools, searcher=searcher, item_threads=item_threads, conflicts=conflicts, options=options
        )
        lifespans += _add_service(app, service, build_tools, item_threads, options, metrics, sessions, trail)
    app.openapi = partial(_openapi_schema, app.openapi, corpora, with_token=sessions.needed)
    add_routes(app, reference_routes(app.openapi))
    app.add_middleware(JsonCompression)
    add_access_checks(app, options, metrics, sessions)
    app.add_middleware(AuditMiddleware, options=options, trail=trail)
    app.add_middleware(RequestMiddleware, metrics=metrics)
    app.add_middleware(ErrorShape)
    app.add_middleware(RootPathMiddleware, options=options, routes=app.router.routes)  # the last stands first
    return app


def _add_service(
    app: FastAPI,
    service: Service,
    build_tools: Callable[..., McpTools],
    item_threads: ItemThreadPool,
    options: ServerOptions,
    metrics: ServerMetrics,
    sessions: BrowserSessions,
    trail: AuditTrail,
) -> list[Lifespan]:
    """Add runs, collections, the OpenAI and MCP interfaces and the page; return their lifespans."""
    observers = (RunCounter(metrics), RunLines(), *service.observers)
    choices = ModelChoices(sessions, options) if service.setup else None
    runs = RunManager(service.answering, options, observers, choices)
    metrics.runs_waiting.set_function(lambda: runs.waiting)
    collections = CollectionService(
        service.collections,
        options,
        metrics=metrics,
        suggester=service.suggester,
        is_busy=lambda: runs.running > 0,
    )
    parts: list[CollectionService | RunManager | Threads] = [collections, runs]
    if service.setup and choices:
        setup = SetupService(service.setup, choices, sessions, options, runs, collections)
        add_routes(app, setup_routes(setup))
        parts.append(setup.threads)
    app.state.stopping = partial(runs.finish, options.draining_seconds)
    retention = RunRetention(runs, trail, options.keep_days)
    add_routes(app, run_routes(runs, metrics))
    add_routes(app, retention_routes(retention))
    add_routes(app, collection_routes(collections, item_threads, options))
    add_routes(app, document_file_routes(service.collections, item_threads))
    add_routes(app, openai_routes(runs, collections.suggested_texts))
    mcp = McpTransport(build_tools(runs=runs))
    app.router.routes.append(mcp.route)
    add_routes(app, page_routes(PageFiles(with_token=sessions.needed)))

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        await collections.start()
        purging = asyncio.create_task(retention.keep_purging())
        try:
            yield
        finally:
            purging.cancel()
            await asyncio.gather(*(part.close(options.closing_seconds) for part in parts))

    return [lifespan, mcp.open]


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add the routes of a router themselves: `include_router` would build each anew at its first request."""
    app.router.routes += router.routes


def _openapi_schema(
    generate: Callable[[], dict[str, Any]], corpora: Corpora, *, with_token: bool
) -> dict[str, Any]:
    """Generate the OpenAPI document, with the names of collections and the routes that need a token."""
    schema = generate()
    schema["paths"]["/search"]["post"] |= search_body(corpora())
    for operations in schema["paths"].values():
        for operation in operations.values():
            if errors.JSON_TYPE in operation.get("requestBody", {}).get("content", {}):
                other_type = {**operation["responses"]["413"], "description": errors.MEANINGS[415]}
                operation["responses"].setdefault("415", other_type)
    if with_token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        roles = {(method, re.sub(r":\w+}", "}", path)): rule.role for (method, path), rule in ROUTES.items()}
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                operation["security"] = [] if is_public(path) else [{"token": []}]
                operation["x-role"] = roles.get((method.upper(), path))
    return schema


class Health(BaseModel):
    """The health of the server."""

    status: Literal["ok"] = Field(default="ok", description="The server answers.")


def status_routes(
    searcher: Searcher,
    corpora: Corpora,
    item_threads: ItemThreadPool,
    metrics: ServerMetrics,
) -> APIRouter:
    """Build `/healthz`, `/metrics` and `/version`."""
    router = APIRouter(tags=["status"])

    @router.get("/healthz", summary="Health check", responses=responses())
    async def healthz() -> Health:
        """Responds immediately, even during searches. Needs no token."""
        return Health()

    @router.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=Response,
        responses=_COUNTERS | responses(),
    )
    async def counters() -> Response:
        """Counts and durations of requests, batches and queues."""
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    @router.get("/version", summary="The version of the collections", responses=responses(502, 503, 504))
    async def version(request: Request) -> ServerInfo:
        """The version of the searchable content, and the names of the collections."""
        current = await item_threads.run_for(request, lambda: searcher.version)
        return ServerInfo(version=current, corpora=list(corpora()))

    return router
