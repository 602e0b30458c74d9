"""The tools of an MCP server: search, look, crop, ask. Served over stdio and at `/mcp`."""

from vrag.server.toolbox.door import McpDoor, serve_stdio
from vrag.server.toolbox.tools import Toolbox

__all__ = ["McpDoor", "Toolbox", "serve_stdio"]
