"""HTTP clients of a model server, kept per event loop, and the limit of simultaneous calls."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from vrag.errors import SettingsError, first_line
from vrag.providers import complete_address, hide_credentials, reachable

_NO_HOST = re.compile(r"[\s\x00-\x20\x7f\\<>^`{|}]|%(?!25)")
"""Characters that no host name has; a library may encode them rather than refuse them."""
_MAX_CALLS_PER_CLIENT = 8
"""An HTTP client looks at all its connections with each call, so a hundred of them would keep the event loop
busy with little else."""
_MAX_BODY_BYTES = 4 * 1024 * 1024


def certificates_for(base_url: str) -> ssl.SSLContext | bool:
    """Return the certificates that verify a server; False for one without TLS, which needs none."""
    return False if urlsplit(base_url).scheme == "http" else _load_certificates()


@cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates once per process: it takes tens of milliseconds."""
    return httpx.create_ssl_context()


@dataclass(slots=True, eq=False)
class _Client:
    http: httpx.AsyncClient
    calls: int = 0
    """Calls in flight."""


@dataclass(slots=True)
class _Pool:
    clients: list[_Client] = field(default_factory=list[_Client])
    closing: bool = False
    """True if the last call closes it."""

    @property
    def calls(self) -> int:
        """Calls in flight."""
        return sum(client.calls for client in self.clients)


class Connections:
    """The HTTP clients of one server. Each event loop has its own, since connections belong to a loop.

    `connect` is the timeout for a connection in seconds, `kept` the maximum number of idle ones per loop.
    Raises as `uses_proxy` does.
    """

    def __init__(self, base: str, key: str | None, connect: float, kept: int) -> None:
        self._base = base
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "vrag"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._uses_proxy = uses_proxy(base)
        self._timeout = httpx.Timeout(None, connect=connect)
        self._limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        """Open a client of the running loop for one call."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [known for known in self._pools if known.is_closed()]:
                del self._pools[closed]
            pool = self._pools.setdefault(loop, _Pool())
        client = next((c for c in pool.clients if c.calls < _MAX_CALLS_PER_CLIENT), None)
        if client is None:
            client = _Client(
                httpx.AsyncClient(
                    headers=self._headers,
                    timeout=self._timeout,
                    limits=self._limits,
                    verify=certificates_for(self._base),
                    follow_redirects=False,  # the key goes nowhere else
                    trust_env=self._uses_proxy,
                )
            )
            pool.clients.append(client)
        client.calls += 1
        try:
            yield client.http
        finally:
            client.calls -= 1
            if pool.closing and not pool.calls:
                await self.aclose()

    async def aclose(self) -> None:
        """Close the clients of the running loop, once its calls have ended."""
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


class ConcurrencyLimit:
    """A limit of simultaneous calls, `places`, that can also be paused.

    Shared by event loops in any number of threads, which `asyncio.Semaphore` cannot be.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()
        self._pause_ends = 0.0

    def pause(self, seconds: float) -> None:
        """Let no further call start for so long; running calls go on."""
        with self._lock:
            self._pause_ends = max(self._pause_ends, time.monotonic() + seconds)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """Wait for a place, first come, first served, and hold it."""
        while True:
            await self._acquire()
            with self._lock:
                wait = self._pause_ends - time.monotonic()
            if wait <= 0:
                break
            self._release()
            await asyncio.sleep(wait + random.uniform(0, min(wait, 1.0)))  # not all at the same moment
        try:
            yield
        finally:
            self._release()

    async def _acquire(self) -> None:
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                queued = future in self._waiting
                if queued:
                    self._waiting.remove(future)
            if not queued:
                self._release()  # the place was already on its way
            raise

    def _release(self) -> None:
        """Give the place to the call that has waited longest, in whatever thread."""
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                with suppress(RuntimeError):  # its loop is closed: nobody waits there
                    future.get_loop().call_soon_threadsafe(_grant, future)
                    return
            self._free += 1


def _grant(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def read_body(
    client: httpx.AsyncClient, method: str, url: str, body: object = None
) -> tuple[int, bytes]:
    """Send a request and return status and body of the response.

    Raises `httpx.HTTPError` if there is no response, or it is longer than 4 MiB.
    """
    async with client.stream(method, url, json=body) as response:
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > _MAX_BODY_BYTES:
                raise httpx.ReadError(f"the response is longer than {_MAX_BODY_BYTES:,} bytes")
        return response.status_code, bytes(data)


def base_of(url: str) -> str:
    """Return the address that paths like `/chat/completions` are added to.

    >>> base_of("http://localhost:8002/v1/chat/completions/")
    'http://localhost:8002/v1'

    Raises `SettingsError` if it is not the address of a server, or contains a user name or a password.
    """
    text = reachable(complete_address(url.strip())).rstrip("/").removesuffix("/chat/completions").rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        usable = usable and bool(httpx.URL(text).host) and not _NO_HOST.search(parts.netloc)
    except (ValueError, httpx.InvalidURL):
        usable = False
        parts = urlsplit("")
    if "@" in url:
        raise SettingsError("The base URL of the model contains a user name.", "Use a key instead.")
    if not usable or parts.query or parts.fragment:
        message = f"{hide_credentials(url)!r} is not the base URL of a model server."
        raise SettingsError(message, "It looks like http://localhost:8002/v1.")
    return text


def checked_key(key: str | None, variable: str, server: str = "model server") -> str | None:
    """Return the key without surrounding white space; None if it is empty.

    Raises `SettingsError`, whose message does not repeat it, if it cannot be sent in a header.
    """
    stripped = (key or "").strip()
    if not stripped.isascii() or not all(c.isprintable() and c != " " for c in stripped):
        message = f"The key of the {server} contains a character that no key has."
        raise SettingsError(message, f"Correct {variable}.")
    return stripped or None


def uses_proxy(url: str) -> bool:
    """Return whether requests to an address use the proxies of the environment: all to other machines do.

    Raises `SettingsError` if one of these proxies cannot be used.
    """
    if is_loopback(url):
        return False
    try:
        httpx.Client(verify=False).close()  # noqa: S501 - it sends nothing
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        raise SettingsError(
            f"A proxy of the environment cannot be used: {first_line(error)}.",
            "Correct or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; http://HOST:PORT is a proxy.",
        ) from error
    return True


def is_loopback(url: str) -> bool:
    """Return whether an address is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
