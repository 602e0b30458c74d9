"""`from vrag_agent import VRAG`, or `from demo.vrag_agent import VRAG`, as with the reference."""

from vrag.compat import VRAG

__all__ = ["VRAG"]
