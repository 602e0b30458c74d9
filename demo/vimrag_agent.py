"""`from demo.vimrag_agent import VimRAG`, as with the reference."""

from vrag.compat import VimRAG

__all__ = ["VimRAG"]
