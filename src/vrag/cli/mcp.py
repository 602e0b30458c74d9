"""`vrag mcp`: search, look, crop and ask as tools for MCP clients."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from vrag.cli.display import Agent, BaseUrl, Collections, Device, Embedder, Model, RankBy, SearchUrl
from vrag.settings import load_settings

if TYPE_CHECKING:
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
        collections=tuple(collection) if collection else None,
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
    from vrag.assemble import Agents, Shelf
    from vrag.server.metrics import Metrics
    from vrag.server.options import ServerOptions
    from vrag.server.runs.host import RunHost
    from vrag.server.toolbox import Toolbox, serve_stdio
    from vrag.server.waiting import Desks

    with redirect_stdout(sys.stderr):
        shelf = Shelf.open(settings)
    agents, options = Agents(settings, shelf), ServerOptions()
    host, desks = RunHost(agents), Desks(options, Metrics())
    try:
        await serve_stdio(Toolbox(shelf, host, agents, desks, options))
    finally:
        await host.close(3)
        await desks.close(CLOSING_SECONDS)
