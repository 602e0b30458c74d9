"""The tools of an MCP server: search, look, crop, ask. Served over stdio and at `/mcp`."""

from vrag.server.mcp.tools import McpTools
from vrag.server.mcp.transport import McpTransport, serve_stdio

__all__ = ["McpTools", "McpTransport", "serve_stdio"]
