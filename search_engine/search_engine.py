"""`from search_engine.search_engine import SearchEngine`, as with the reference."""

from vrag.compat import SearchEngine

__all__ = ["SearchEngine"]
