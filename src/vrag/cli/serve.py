"""`vrag serve` and `vrag mcp`: questions, documents and search over HTTP, and as tools for MCP clients."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from fastapi import FastAPI

from vrag.agent.events import Event
from vrag.cli import options as opt
from vrag.cli.audit import open_audit_log
from vrag.cli.session import ask_about_family
from vrag.cli.terminal.console import echo, warn
from vrag.cli.terminal.help import common_options
from vrag.doctor.inspector import DoctorInspector
from vrag.factory.agents import open_suggester
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.indexing import open_for_adding
from vrag.factory.server import Agents, model_servers, state_folder
from vrag.index.location import is_collection
from vrag.server.app import Service, create_app
from vrag.server.http.background import ItemThreadPool
from vrag.server.http.users import TokenFile
from vrag.server.http.uvicorn_server import check_access, listen, run_server
from vrag.server.item_files import in_folder, linked, plain_name
from vrag.server.logs import configure_logs
from vrag.server.metrics import ServerMetrics
from vrag.server.options import (
    ServerOptions,
    checked_origins,
    checked_proxies,
    checked_root_path,
    is_loopback,
)
from vrag.server.runs.run_manager import RunManager
from vrag.server.setup.routes import ModelSetup
from vrag.server.state.database import ServerState
from vrag.settings import Settings
from vrag.telemetry import observer_from_environment
from vrag.types import Query

log = logging.getLogger("vrag.server")

PORT, SEARCH_PORT = 8000, 8001
MCP_CLOSE_SECONDS = 2.0
"""Time for running questions when an MCP client is gone."""


class LogFormat(StrEnum):
    """The format of the log."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


@common_options("host", "port", "collections", "model", "base_url", "token")
def serve(
    only: opt.OnlyOption = None,
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on; 0.0.0.0 for all."),
    port: opt.PortOption = None,
    collections: opt.CollectionsOption = None,
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    search_url: opt.SearchUrlOption = None,
    ranking: opt.RankingOption = None,
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
    reranker: opt.RerankerOption = None,
    token: str | None = typer.Option(
        None,
        "--token",
        envvar="VRAG_API_KEY",
        help="Token that clients must send: Authorization: Bearer TOKEN",
    ),
    tokens: Path | None = typer.Option(
        None,
        "--tokens",
        envvar="VRAG_TOKENS",
        help="File of users, each with a token, made by `vrag tokens add`. Each user sees their own runs.",
    ),
    insecure: bool = typer.Option(False, "--insecure", help="Serve other machines without a token."),
    name: list[str] = typer.Option([], "--name", help="Additional host name of the server; repeatable."),
    origin: list[str] = typer.Option(
        [], "--origin", help="Origin of web pages that may send requests; repeatable."
    ),
    proxy: list[str] = typer.Option([], "--proxy", help="Address of a trusted reverse proxy; repeatable."),
    root_path: str = typer.Option(
        "",
        "--root-path",
        envvar="VRAG_ROOT_PATH",
        metavar="PATH",
        help="Path below which a reverse proxy serves vrag, such as /docs.",
    ),
    runs: int = typer.Option(256, min=1, max=100_000, help="Maximum number of questions at a time."),
    client_runs: int = typer.Option(
        8, min=1, max=100_000, help="Maximum number of questions of one user or client at a time."
    ),
    waiting_runs: int = typer.Option(
        100, min=0, max=10_000, help="Maximum number of questions that wait for others to end."
    ),
    client_waiting_runs: int = typer.Option(
        20, min=0, max=10_000, help="Maximum number of questions of one user or client that wait."
    ),
    upload_mb: int = typer.Option(
        512, "--upload-mb", min=1, max=100_000, help="Maximum size of an upload, in MB."
    ),
    fixed_models: bool = typer.Option(
        False,
        "--fixed-models",
        envvar="VRAG_FIXED_MODELS",
        help="Do not let anybody choose a model, server or key on the page.",
    ),
    drain: int = typer.Option(30, min=0, max=3600, help="Seconds to finish running questions on Ctrl-C."),
    logs: LogFormat = typer.Option(
        LogFormat.AUTO, help="Format of the log. json: one object per line; auto: text on a terminal."
    ),
    files: str = typer.Option(
        "links",
        "--files",
        help="Value of file_path in hits: links (paths on this machine), names "
        "(<stem>_<page>.jpg), or the folder where clients have these files.",
    ),
) -> None:
    """Serve questions, documents and search over HTTP, with a web page.

    The page is at /. The APIs are at /runs, /v1 (OpenAI), /mcp and /search.
    The server listens on this machine only; with --host it also serves other machines, and a token is
    required. On Ctrl-C running questions get some time to finish; a second Ctrl-C ends them.

    Examples:

      vrag serve

      vrag serve --collection reports --collection slides --model qwen3-vl-plus --base-url URL

      vrag serve --only search --port 8001
    """
    flags = locals()
    users = TokenFile(tokens) if tokens else None
    check_access(host, token=token, tokens=users, insecure=insecure)
    options = ServerOptions(
        token=token,
        tokens=users,
        local=is_loopback(host),
        hosts=frozenset(map(str.casefold, name)),
        origins=checked_origins(origin),
        proxies=checked_proxies(proxy),
        root_path=checked_root_path(root_path),
        runs=runs,
        client_runs=client_runs,
        waiting_runs=waiting_runs,
        client_waiting_runs=client_waiting_runs,
        upload_bytes=upload_mb * 1024 * 1024,
        drain_seconds=drain,
        fixed_models=fixed_models,
    )
    report = opt.load_flags(flags)
    settings = report.settings
    options = replace(options, audit=open_audit_log(settings), keep_days=settings.keep_runs)
    if options.audit is not None:
        options.audit.check()
    own = not settings.search_url and not settings.collections and "://" not in settings.collection
    if own and not is_collection(Path(settings.collection)):
        open_for_adding(report)  # creates the collection
    if not is_loopback(host) and token is None and users is None:
        warn("Everyone who can reach this address can read the collection: no token is set.")
    WebServer(settings=settings, options=options, only=only, files=files).run(host, port, logs=logs)


@dataclass(frozen=True, kw_only=True)
class WebServer:
    """A server in the terminal."""

    settings: Settings
    options: ServerOptions
    only: opt.ServedPart | None = None
    """The only part that is served; None for everything."""
    files: str = "names"
    """The value of `file_path` in hits."""
    examples: tuple[str, ...] = ()
    """Questions that the page offers."""

    def run(
        self,
        host: str,
        port: int | None,
        *,
        logs: LogFormat = LogFormat.AUTO,
        level: str = "info",
        on_ready: Callable[[str], object] | None = None,
    ) -> None:
        """Serve until Ctrl-C; `on_ready` is called with the URL when the server answers.

        With `logs` as JSON the URL is logged, and nothing else is printed. The least `level` of the log is
        `info` for every request.
        """
        for name in self.settings.models:
            if len(name.split()) > 1:
                warn(f"VRAG_MODELS contains the single model {name!r}. Separate several models by commas.")
        if self.only is None:
            ask_about_family(self.settings)
        configure_logs(logs.value, level)
        telemetry = observer_from_environment()
        options = replace(self.options, state=ServerState.open(state_folder(self.settings)))
        app = self._create_app(options, (telemetry,) if telemetry else ())
        default_port = PORT if self.only is None else SEARCH_PORT
        with listen(host, default_port if port is None else port) as socket:
            address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
            name = f"[{address}]" if ":" in address else address
            url = f"http://{name}:{socket.getsockname()[1]}"

            def ready() -> None:
                if logs is LogFormat.JSON:
                    log.info("listening on %s", url)
                else:
                    self._print_ready(url)
                if on_ready is not None:
                    on_ready(url)

            run_server(app, socket, options, ready)
        options.state.close()
        if telemetry:
            telemetry.close()
        if logs is LogFormat.JSON:
            log.info("stopped")
        else:
            echo("Stopped.")

    def _create_app(self, options: ServerOptions, observers: tuple[Callable[[Event], None], ...]) -> FastAPI:
        registry = CollectionRegistry.open(self.settings)
        if not registry.absent:
            registry.search([Query("warm up")], 1)  # the first query does not wait, and errors show now
        naming = plain_name if self.files in {"links", "names"} else in_folder(self.files)
        if self.files == "links" and not registry.absent:
            naming = linked(registry.collection.cache_dir / "files")
        service = None
        if self.only is None:
            agents = Agents(self.settings, registry, self.examples, self.options.upload_bytes)
            setup = ModelSetup(model_servers(self.settings), DoctorInspector(self.settings))
            service = Service(agents, registry, observers, setup, open_suggester(self.settings))
        return create_app(
            registry,
            options,
            files=registry,
            naming=naming,
            corpora=lambda: registry.names,
            service=service,
        )

    def _print_ready(self, url: str) -> None:
        token = self.options.token is not None or self.options.tokens is not None
        if self.only is opt.ServedPart.SEARCH:
            body = json.dumps({"queries": ["your question"], "top_k": 3})
            header = " -H 'Authorization: Bearer '\"$VRAG_API_KEY\"" if token else ""
            echo(("Searching at ", "bold"), f"{url}/search", "  (Ctrl-C stops)")
            echo(f"  curl{header} -H 'Content-Type: application/json' {url}/search -d '{body}'")
        else:
            mcp = f"{url}/mcp" if find_spec("mcp") else "requires the extra mcp"
            echo(("Open ", "bold"), url, "  (Ctrl-C stops)")
            echo((f"  OpenAI: {url}/v1   MCP: {mcp}   search: {url}/search", "dim"))
        if self.options.tokens is not None:
            echo((f"  for the users in {self.options.tokens.path}", "dim"))
        if self.options.token is not None and os.environ.get("VRAG_API_KEY") is None:
            echo(("  with the token in VRAG_API_KEY", "dim"))


@common_options("collections", "agent", "model", "base_url", "search_url")
def mcp(
    collections: opt.CollectionsOption = None,
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    search_url: opt.SearchUrlOption = None,
    ranking: opt.RankingOption = None,
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
) -> None:
    r"""Serve MCP tools over standard input and output.

    The tools: search, look at an item, crop, ask an agent. An MCP client starts
    this command: copy the configuration below into its settings.

    With --collection or VRAG_COLLECTION only the collections that are named are searched; without, the
    default one and those that were created on the web page.

    `vrag serve` serves the same tools over HTTP at /mcp. Standard output carries
    only the protocol; the log goes to standard error. Requires the extra mcp:

      pip install 'vrag-agent\[mcp]'

    Examples, the configuration of a client and a command:

      {"mcpServers": {"vrag": {
        "command": "vrag",
        "args": ["mcp", "--collection", "/path/to/collection"]
      }}}

      vrag mcp --collection reports --model qwen3-vl-plus --base-url URL
    """
    report = opt.load_flags(locals())
    is_default = {report.origins["collection"], report.origins["collections"]} == {"default"}
    configure_logs("text", "warning")
    asyncio.run(_serve_mcp(report.settings, managed=is_default))


async def _serve_mcp(settings: Settings, *, managed: bool) -> None:
    from vrag.server.conflicts import ConflictReports
    from vrag.server.mcp import McpTools
    from vrag.server.mcp_transport import serve_stdio

    with redirect_stdout(sys.stderr):
        registry = CollectionRegistry.open(settings, managed=managed)
    agents, options = Agents(settings, registry), ServerOptions()
    telemetry = observer_from_environment()
    runs = RunManager(agents, observers=(telemetry,) if telemetry else ())
    item_threads = ItemThreadPool(options, ServerMetrics())
    conflicts = ConflictReports(registry, options, item_threads)
    tools = McpTools(registry, runs, item_threads, conflicts, options)
    try:
        received = await _serve_until_signal(serve_stdio(tools))
    finally:
        await runs.close(MCP_CLOSE_SECONDS)
        await item_threads.close(MCP_CLOSE_SECONDS)
        await conflicts.close(MCP_CLOSE_SECONDS)
        if telemetry is not None:
            telemetry.close()
    if received is not None:
        os._exit(128 + received)  # nothing wakes the thread that reads standard input


async def _serve_until_signal(serving: Coroutine[Any, Any, None]) -> int | None:
    """Serve until the client is gone, or until a signal; return its number."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not received.done():
            received.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop, number)
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(stop, number))
    task = asyncio.ensure_future(serving)
    await asyncio.wait({task, received}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    return received.result() if received.done() else None
