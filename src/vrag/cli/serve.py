"""`vrag serve`: questions, documents and search for people and programs, over HTTP."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.ask.prepare import MaxSteps, TopK
from vrag.cli.terminal.console import (
    Agent,
    BaseUrl,
    Collections,
    Device,
    Embedder,
    Model,
    RankBy,
    SearchUrl,
    say,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from vrag.agent.events import Event
    from vrag.factory.collection_registry import CollectionRegistry
    from vrag.server.item_files import Naming
    from vrag.server.options import ServerOptions
    from vrag.settings import Settings

__all__ = ["ServedPart", "serve", "serve_settings"]

PORT, SEARCH_PORT = 8000, 8001


class ServedPart(StrEnum):
    """What can be served by itself."""

    SEARCH = "search"


class Logs(StrEnum):
    """How the log is written."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


Only = typer.Option(None, "--only", help="Serve nothing but this.", show_default="everything")
Host = typer.Option("127.0.0.1", "--host", help="Address to listen at; 0.0.0.0 for all.")
Port = typer.Option(
    None,
    "--port",
    "-p",
    min=0,
    max=65535,
    help="Port to listen at; 0 for any free.",
    show_default="8000, or 8001 for search alone",
)


def serve(
    only: ServedPart | None = Only,
    host: str = Host,
    port: int | None = Port,
    collection: list[str] | None = Collections,
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    search_url: str | None = SearchUrl,
    ranking: str | None = RankBy,
    embedder: str | None = Embedder,
    device: str | None = Device,
    reranker: str | None = typer.Option(None, help="Model that ranks the best hits anew."),
    token: str | None = typer.Option(
        None, "--token", envvar="VRAG_API_KEY", help="What clients must send as: Authorization: Bearer TOKEN"
    ),
    insecure: bool = typer.Option(False, "--insecure", help="Serve other machines without a token."),
    name: list[str] = typer.Option([], "--name", help="Further host name that clients use; may be repeated."),
    origin: list[str] = typer.Option(
        [], "--origin", help="Origin of web pages that may ask with the token; may be repeated."
    ),
    proxy: list[str] = typer.Option(
        [], "--proxy", help="Address of a proxy whose word on clients counts; may be repeated."
    ),
    runs: int = typer.Option(256, min=1, max=100_000, help="Questions under way at one time."),
    client_runs: int = typer.Option(8, min=1, max=100_000, help="Of one client, at one time."),
    upload_mb: int = typer.Option(512, "--upload-mb", min=1, max=100_000, help="Size of an upload, in MB."),
    drain: int = typer.Option(30, min=0, max=3600, help="Seconds that questions get to end on Ctrl-C."),
    logs: Logs = typer.Option(Logs.AUTO, help="json: an object per line; auto: text on a terminal."),
    files: str = typer.Option(
        "links",
        "--files",
        help="What file_path of a hit is: links (paths that can be opened on this machine), names "
        "(<stem>_<page>.jpg), or a folder where clients have these files.",
    ),
) -> None:
    """Serve questions, documents and search over HTTP, with a web page.

    The page is at /; programs ask at /runs, /v1/chat/completions (OpenAI), /mcp and /search.
    Listens on this machine only, unless --host says otherwise; then a token is needed. On Ctrl-C no new
    questions are taken, and those under way get some time to end; a second Ctrl-C ends them.

    Examples of use:

      vrag serve

      vrag serve --collection reports --collection slides --model qwen3-vl-plus --base-url URL

      vrag serve --only search --port 8001
    """
    from vrag.server.http.uvicorn_server import check_access
    from vrag.server.options import ServerOptions, checked_origins, checked_proxies, is_loopback

    check_access(host, token=token, insecure=insecure)
    options = ServerOptions(
        token=token,
        local=is_loopback(host),
        hosts=frozenset(map(str.casefold, name)),
        origins=checked_origins(origin),
        proxies=checked_proxies(proxy),
        runs=runs,
        client_runs=client_runs,
        upload_bytes=upload_mb * 1024 * 1024,
        drain_seconds=drain,
    )
    settings = serve_settings(
        collections=collection or None,
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
        search_url=search_url,
        ranking=ranking,
        embedder=embedder,
        device=device,
        reranker=reranker,
    )
    if not is_loopback(host) and token is None:
        warn("Whoever reaches this address can read the collection: there is no token.")
    run(settings, options, only=only, host=host, port=port, files=files, logs=logs)


def serve_settings(**flags: object) -> Settings:
    """The settings of a server; what it serves is made where there is nothing yet."""
    from vrag.factory import open_for_adding
    from vrag.index.collection_json import CollectionHeader
    from vrag.settings import load_settings

    report = load_settings(**flags)
    settings = report.settings
    ours = not settings.search_url and not settings.collections and "://" not in settings.collection
    if ours and CollectionHeader.read(Path(settings.collection)) is None:
        open_for_adding(report)
    return settings


def run(
    settings: Settings,
    options: ServerOptions,
    *,
    only: ServedPart | None,
    host: str,
    port: int | None,
    files: str = "names",
    logs: Logs = Logs.AUTO,
    examples: tuple[str, ...] = (),
    ready: Callable[[str], None] | None = None,
    level: str = "info",
) -> None:
    """Serves until it is told to stop.

    Args:
        settings: What is served, and how.
        options: Limits and access.
        only: A part that is served alone; None for everything.
        host: Where to listen.
        port: None for the usual one.
        files: What `file_path` of a hit is.
        logs: How the log is written.
        examples: Questions that the page offers.
        ready: Is told the address when the server answers.
        level: The least that the log tells: `info` for every request.
    """
    from vrag.server.http.uvicorn_server import listen, run_server
    from vrag.server.logs import configure_logs
    from vrag.telemetry import observer_from_environment

    _check_models(settings)
    configure_logs(logs.value, level)
    telemetry = observer_from_environment()
    if port is None:
        port = SEARCH_PORT if only is ServedPart.SEARCH else PORT
    app = _app(settings, options, only, files, examples, (telemetry,) if telemetry else ())
    tell = _tell_search if only is ServedPart.SEARCH else _tell
    with listen(host, port) as listening:
        address = _address(host, listening.getsockname()[1])

        def is_ready() -> None:
            tell(address, options.token is not None)
            if ready is not None:
                ready(address)

        run_server(
            app,
            listening,
            options,
            is_ready,
            stopping=app.state.stopping,
            metrics=app.state.metrics,
        )
    if telemetry:
        telemetry.close()
    say("Stopped.")


def _check_models(settings: Settings) -> None:
    """Warns of what looks like several models and is taken for one."""
    for name in settings.models:
        if len(name.split()) > 1:
            warn(f"VRAG_MODELS names one model {name!r}: several need commas between them.")


def _app(
    settings: Settings,
    options: ServerOptions,
    only: ServedPart | None,
    files: str,
    examples: tuple[str, ...],
    observers: tuple[Callable[[Event], None], ...],
) -> FastAPI:
    from vrag.factory import Agents, CollectionRegistry
    from vrag.server.app import Service, create_app
    from vrag.types import Query

    registry = CollectionRegistry.open(settings)
    if not registry.absent:
        registry.search([Query("warm up")], 1)  # so that the first one does not wait, and faults show at once
    service = None
    if only is None:
        agents = Agents(settings, registry, examples, options.upload_bytes)
        service = Service(agents, registry, observers)
    return create_app(
        registry,
        options,
        files=registry.files,
        naming=_naming(files, registry),
        corpora=registry.corpora,
        service=service,
    )


def _naming(files: str, registry: CollectionRegistry) -> Naming:
    from vrag.server.item_files import in_folder, linked, plain_name

    if files == "links" and not registry.absent:
        return linked(registry.collection.cache_dir / "files")
    return plain_name if files in {"links", "names"} else in_folder(files)


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _tell(address: str, with_token: bool) -> None:
    """Where it listens, and what stands at which door."""
    mcp = f"{address}/mcp" if find_spec("mcp") else "with the extra mcp"
    say(("Open ", "bold"), address, "  (Ctrl-C stops)")
    say((f"  OpenAI: {address}/v1   MCP: {mcp}   search: {address}/search", "dim"))
    _tell_token(with_token)


def _tell_search(address: str, with_token: bool) -> None:
    """Where it listens, and how to ask it."""
    body = json.dumps({"queries": ["your question"], "top_k": 3})
    header = " -H 'Authorization: Bearer '\"$VRAG_API_KEY\"" if with_token else ""
    say(("Searching at ", "bold"), f"{address}/search", "  (Ctrl-C stops)")
    say(f"  curl{header} -H 'Content-Type: application/json' {address}/search -d '{body}'")
    _tell_token(with_token)


def _tell_token(with_token: bool) -> None:
    if with_token and os.environ.get("VRAG_API_KEY") is None:
        say(("  with the token in VRAG_API_KEY", "dim"))
