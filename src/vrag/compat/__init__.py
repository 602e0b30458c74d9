"""The seeds' Python names and shapes, thin over the real API."""

from vrag.compat.agents import VRAG, VimRAG
from vrag.compat.search_engine import SearchEngine

__all__ = ["VRAG", "SearchEngine", "VimRAG"]
