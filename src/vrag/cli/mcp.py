"""`vrag mcp`: search, look, crop and ask as tools for MCP clients."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from vrag.cli.terminal.console import Agent, BaseUrl, Collections, Device, Embedder, Model, RankBy, SearchUrl
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vrag.settings import Settings

__all__ = ["mcp"]

CLOSING_SECONDS = 2.0


def mcp(
    collection: list[str] | None = Collections,
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    search_url: str | None = SearchUrl,
    ranking: str | None = RankBy,
    embedder: str | None = Embedder,
    device: str | None = Device,
) -> None:
    r"""Serve tools over standard input and output, for programs that speak MCP.

    The tools: search, look at an item, crop, ask an agent. Such a program starts
    this one; its configuration names it so:

      {"mcpServers": {"vrag": {
        "command": "vrag",
        "args": ["mcp", "--collection", "/path/to/collection"]
      }}}

    Over HTTP the same tools stand at /mcp of `vrag serve`. Nothing but the
    protocol is printed; the log goes to standard error. Needs the extra mcp:

      pip install 'vrag-agent\[mcp]'

    Examples of use:

      vrag mcp --collection reports --model qwen3-vl-plus --base-url URL
    """
    from vrag.server.logs import configure_logs

    configure_logs("text", "warning")
    settings = load_settings(
        collections=collection or None,
        agent=agent,
        model=model,
        base_url=base_url,
        search_url=search_url,
        ranking=ranking,
        embedder=embedder,
        device=device,
    ).settings
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from vrag.factory import Agents, CollectionRegistry
    from vrag.server.http.timeouts import ItemThreadPool
    from vrag.server.mcp import McpTools, serve_stdio
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions
    from vrag.server.runs.run_manager import RunManager
    from vrag.telemetry import observer_from_environment

    with redirect_stdout(sys.stderr):
        registry = CollectionRegistry.open(settings)
    agents, options = Agents(settings, registry), ServerOptions()
    telemetry = observer_from_environment()
    host = RunManager(agents, observers=(telemetry,) if telemetry else ())
    item_threads = ItemThreadPool(options, ServerMetrics())
    try:
        signalled = await _until_signalled(
            serve_stdio(McpTools(registry, host, agents, item_threads, options))
        )
    finally:
        await host.close(CLOSING_SECONDS)
        await item_threads.close(CLOSING_SECONDS)
        if telemetry is not None:
            telemetry.close()
    if signalled is not None:
        os._exit(128 + signalled)  # nothing wakes the thread that reads standard input


async def _until_signalled(serving: Coroutine[Any, Any, None]) -> int | None:
    """Serves until there is no more to do, or until a signal comes, whose number it gives."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stop, number)
    task = asyncio.ensure_future(serving)
    await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    return signalled.result() if signalled.done() else None
