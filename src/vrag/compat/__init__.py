"""The reference implementation's Python names and shapes, thin over the real API."""

from vrag.compat.agents import VRAG
from vrag.compat.search_engine import SearchEngine
from vrag.compat.vimrag import VimRAG

__all__ = ["VRAG", "SearchEngine", "VimRAG"]
