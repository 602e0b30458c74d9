"""`vrag mcp`: search, look, crop and ask as tools for MCP clients."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from vrag.cli import options as opt

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vrag.settings import Settings

CLOSE_SECONDS = 2.0


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
    this command; add it to the configuration of the client:

      {"mcpServers": {"vrag": {
        "command": "vrag",
        "args": ["mcp", "--collection", "/path/to/collection"]
      }}}

    `vrag serve` serves the same tools over HTTP at /mcp. Standard output carries
    only the protocol; the log goes to standard error. Requires the extra mcp:

      pip install 'vrag-agent\[mcp]'

    Example:

      vrag mcp --collection reports --model qwen3-vl-plus --base-url URL
    """
    settings = opt.load_flags(locals()).settings
    from vrag.server.logs import configure_logs

    configure_logs("text", "warning")
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from vrag.factory import Agents, CollectionRegistry
    from vrag.server.http.background import ItemThreadPool
    from vrag.server.mcp import serve_stdio
    from vrag.server.mcp.tools import McpTools
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions
    from vrag.server.runs.run_manager import RunManager
    from vrag.telemetry import observer_from_environment

    with redirect_stdout(sys.stderr):
        registry = CollectionRegistry.open(settings)
    agents, options = Agents(settings, registry), ServerOptions()
    telemetry = observer_from_environment()
    runs = RunManager(agents, observers=(telemetry,) if telemetry else ())
    item_threads = ItemThreadPool(options, ServerMetrics())
    tools = McpTools(registry, runs, item_threads, options)
    try:
        received = await _serve_until_signal(serve_stdio(tools))
    finally:
        await runs.close(CLOSE_SECONDS)
        await item_threads.close(CLOSE_SECONDS)
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
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stop, number)
    task = asyncio.ensure_future(serving)
    await asyncio.wait({task, received}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    return received.result() if received.done() else None
