"""How a server guards itself: who may ask, how much, and for how long."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from vrag.search.wire import MAX_HITS

__all__ = ["ServerOptions", "is_loopback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Limits and access. The defaults are those of a server for programs on the same machine."""

    token: str | None = None
    """What clients present as `Authorization: Bearer …`; None when none is asked for."""
    local: bool = True
    """Whether requests must name the server by a name of the machine itself: it listens on loopback, and
    a web page whose name was made to point there (DNS rebinding) gives itself away by that name."""
    hosts: frozenset[str] = frozenset()
    """Further names by which it may be called, without port."""
    body_bytes: int = 4 * 1024 * 1024
    """Length of a request's body."""
    body_seconds: float = 10.0
    """Time for the body to arrive."""
    search_seconds: float = 30.0
    """Time for a search, waiting included."""
    item_seconds: float = 30.0
    """Time for an item or its picture, waiting included."""
    hits: int = MAX_HITS
    """Queries times top_k of one request."""
    waiting_queries: int = 4096
    """Queries that may wait for their batch; further ones are told to come back."""
    batch_queries: int = 64
    """Queries that are searched in one call; a request of more is searched in several."""
    item_threads: int = 2
    """Threads that read items and draw their pictures."""
    waiting_items: int = 64
    """Requests for items that may wait for them."""
    connections: int = 512
    """Connections at one time."""
    drain_seconds: int = 30
    """Time for what runs to end after the server was told to stop. Whole: uvicorn takes no other."""

    @property
    def closing_seconds(self) -> float:
        """The end of `drain_seconds`, for threads whose work nobody waits for any more."""
        return min(2.0, self.drain_seconds / 2)


def is_loopback(host: str) -> bool:
    """Whether an address or name is that of the machine itself and cannot be reached from others.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
