"""Addresses of servers as clients call them."""

from __future__ import annotations

import re

__all__ = ["reachable"]

_WILDCARD = re.compile(r"((?:[a-z][a-z0-9+.-]*://)?)(0\.0\.0\.0|\[::\])(?=[:/?#]|$)", re.IGNORECASE)
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - replaced, not bound


def reachable(address: str) -> str:
    """Return an address with the host 0.0.0.0 or [::] replaced by the loopback address of its family.

    Servers that listen on all interfaces print these hosts, and commands of the reference call them. Linux
    takes them for this machine, Windows refuses them, and `NO_PROXY` rarely names them.

    >>> reachable("http://0.0.0.0:8001/search"), reachable("http://0.0.0.0.example/"), reachable("[::]:6379")
    ('http://127.0.0.1:8001/search', 'http://0.0.0.0.example/', '[::1]:6379')
    """
    found = _WILDCARD.match(address)
    return address if found is None else f"{found[1]}{_LOOPBACK[found[2]]}{address[found.end() :]}"
