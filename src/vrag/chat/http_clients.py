"""Connections to a server of models, kept per event loop."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from vrag.addresses import reachable
from vrag.errors import SettingsError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

__all__ = ["Connections", "base_of", "checked_key", "is_loopback"]

_ENDPOINT = "/chat/completions"
_NO_HOST = re.compile(r"[\s\x00-\x20\x7f\\<>^`{|}]|%(?!25)")
"""What no name of a host has; a library may encode it rather than refuse it."""


_SHARE = 8
"""Calls in flight of an HTTP client, at most: with each call it looks at all its connections, so that a
hundred of them would keep the event loop busy with little else."""


@dataclass(slots=True, eq=False)
class _Client:
    http: httpx.AsyncClient
    calls: int = 0
    """Calls in flight."""


@dataclass(slots=True)
class _Pool:
    clients: list[_Client] = field(default_factory=list[_Client])
    closing: bool = False
    """Whether the last call is to close it."""

    @property
    def calls(self) -> int:
        """Calls in flight."""
        return sum(client.calls for client in self.clients)


class Connections:
    """The HTTP clients of one server: those of an event loop are its own, as connections belong to a loop.

    Args:
        base: Address of the server, as `base_of` gives it.
        key: What the server asks for, if it does.
        connect: Seconds to wait for a connection.
        kept: Idle connections that a loop keeps open, at most.
    """

    def __init__(self, base: str, key: str | None, connect: float, kept: int) -> None:
        self._base = base
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "vrag"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = httpx.Timeout(None, connect=connect)
        self._limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        """A client of the running loop, held open for a call."""
        pool = self._pool()
        client = next((one for one in pool.clients if one.calls < _SHARE), None)
        if client is None:
            pool.clients.append(client := _Client(self._client()))
        client.calls += 1
        try:
            yield client.http
        finally:
            client.calls -= 1
            if pool.closing and not pool.calls:
                await self.aclose()

    async def aclose(self) -> None:
        """Closes the clients of the running loop, once the calls in flight there have ended."""
        loop = asyncio.get_running_loop()
        with self._lock:
            pool = self._pools.get(loop)
            if pool is None:
                return
            if pool.calls:
                pool.closing = True
                return
            del self._pools[loop]
        for client in pool.clients:
            await client.http.aclose()

    def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        with self._lock:
            for old in [old for old in self._pools if old.is_closed()]:
                del self._pools[old]
            if loop not in self._pools:
                self._pools[loop] = _Pool()
            return self._pools[loop]

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            timeout=self._timeout,
            limits=self._limits,
            verify=self._ssl,
            follow_redirects=False,  # the key goes nowhere else
            trust_env=not is_loopback(self._base),  # a proxy is for what is far away
        )

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        """Made once: it takes tens of milliseconds, and every run of the sync API has a loop of its own."""
        return httpx.create_ssl_context()


def base_of(url: str) -> str:
    """The address that paths like `/chat/completions` are added to.

    >>> base_of("http://localhost:8002/v1/chat/completions/")
    'http://localhost:8002/v1'

    Raises:
        SettingsError: If it is no address of a server, or holds a user name or a password.
    """
    text = reachable(url.strip()).rstrip("/").removesuffix(_ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        usable = usable and bool(httpx.URL(text).host) and not _NO_HOST.search(parts.netloc)
    except (ValueError, httpx.InvalidURL):
        usable = False
        parts = urlsplit("")
    if "@" in url:
        raise SettingsError("The base URL of the model holds a user name.", "Give a key instead.")
    if not usable or parts.query or parts.fragment:
        raise SettingsError(
            f"{url!r} is no base URL of a model server.", "It looks like http://localhost:8002/v1."
        )
    return text


def checked_key(key: str | None, variable: str) -> str | None:
    """The key without white space around it; None where it is empty.

    Raises:
        SettingsError: If it cannot stand in a header. The message does not repeat it.
    """
    stripped = (key or "").strip()
    if not stripped.isascii() or not all(c.isprintable() and c != " " for c in stripped):
        raise SettingsError(
            "The key of the model server holds a character that no key has.", f"Correct {variable}."
        )
    return stripped or None


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
