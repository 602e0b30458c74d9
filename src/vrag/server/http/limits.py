"""Limits of requests: rates of each client, requests at one time, and size and duration of bodies.

A client is a browser's session, else a token together with the address that it comes from, else the address.

The token bucket is our own: the library `limits` keeps one time stamp for each request in its window, forgets
clients by a timer thread and not by a maximum, and does not say how long to wait to the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum

from cachetools import LRUCache
from starlette.types import Message, Receive, Scope

from vrag.server.http.content_types import check_content_type
from vrag.server.http.errors import Refusal
from vrag.server.options import ServerOptions, is_loopback

_MAX_VALUES = 500_000
"""Values of a JSON body, by its commas and brackets. Pictures have none of either; of millions of values each
takes a hundred bytes and a microsecond to read, and more to say what is wrong with it."""
_MAX_SIGN_IN_BYTES = 32 * 1024
"""Length of a body with the token. Explaining what is wrong with megabytes would hold up all for seconds."""


class Kind(StrEnum):
    """The cost class of a request, by its method and path."""

    OTHER = "requests"
    """Searches, items, lists: a moment each."""
    RUN = "runs"
    """A question to an agent."""
    UPLOAD = "uploads"
    """An uploaded document."""
    STREAM = "streams"
    """A stream of events, as long as the client likes."""


def kind_of(method: str, path: str) -> Kind:
    """Classify a request.

    >>> kind_of("POST", "/runs"), kind_of("GET", "/runs/1/events"), kind_of("GET", "/runs/1")
    (<Kind.RUN: 'runs'>, <Kind.STREAM: 'streams'>, <Kind.OTHER: 'requests'>)
    """
    match method, *path.strip("/").split("/"):
        case ("POST", "runs") | ("POST", "v1", "chat", "completions") | ("POST", "v1", "responses"):
            return Kind.RUN
        case ("GET", "runs", _, "events") | ("GET", "mcp"):
            return Kind.STREAM
        case ("PUT", "collections", _, "documents", *_):
            return Kind.UPLOAD
        case _:
            return Kind.OTHER


@dataclass(frozen=True, slots=True)
class Peer:
    """The origin of a request."""

    network: str
    """The address; of IPv6 the network that one customer has."""
    scheme: str
    """`http` or `https`."""
    same_machine: bool
    """True if a program on this machine sent it, and for nobody else."""
    address: str = ""
    """The whole address."""


def peer_is_proxy(scope: Scope, proxies: frozenset[str]) -> bool:
    """Return whether a request comes from a trusted proxy directly, whose headers are believed."""
    return _normalized((scope.get("client") or ("", 0))[0]) in proxies


def _normalized(address: str) -> str:
    with contextlib.suppress(ValueError):
        parsed = ipaddress.ip_address(address.strip())
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return address


def peer_of(scope: Scope, proxies: frozenset[str] = frozenset()) -> Peer:
    """Find where a request comes from, past the trusted proxies; others' headers are not believed."""

    def forwarded_values(wanted: bytes) -> list[str]:
        """Return the values of a header that may come several times, each with several values."""
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
        return [part.strip() for value in values for part in value.split(",") if part.strip()]

    address = _normalized((scope.get("client") or ("", 0))[0])
    scheme: str = scope.get("scheme", "http")
    if address in proxies:
        scheme = (forwarded_values(b"x-forwarded-proto") or [scheme])[-1].casefold()
        for hop in reversed(forwarded_values(b"x-forwarded-for")[-32:]):  # limits the work for one header
            address = _normalized(hop)
            if address not in proxies:
                break
    forwarded = any(name in {b"forwarded", b"x-forwarded-for", b"x-real-ip"} for name, _ in scope["headers"])
    return Peer(
        network_of(address), scheme, same_machine=is_loopback(address) and not forwarded, address=address
    )


def network_of(address: str) -> str:
    """Return an address without the part that its owner chooses: of IPv6, the first 64 bits.

    >>> network_of("192.0.2.7"), network_of("2001:db8::1:2:3:4"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "elsewhere"
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.is_loopback:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def client_name(peer: Peer, *, session: bytes | None = None, token: bytes | None = None) -> str:
    """Name a client by the digest of its session or token, of which the name reveals nothing."""
    secret = token if session is None else session
    if secret is None:
        return peer.network
    mark = hashlib.sha256(b"client" + secret).hexdigest()[:12]  # a digest of the digest that is compared
    return f"token {mark} {peer.network}" if session is None else f"session {mark}"


class ClientRegistry:
    """The pace of each client, and its open uploads and streams; `now` is the clock, in seconds."""

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._now = now
        self._paces: LRUCache[tuple[str, str], tuple[float, float]] = LRUCache(max(1, options.clients))
        """Requests left in the bucket of a client and kind, and when that was counted."""
        self._open: Counter[tuple[str, str]] = Counter()
        """Has entries only for what is open, and so no more than there are connections, twice."""

    def attempt(self, peer: Peer) -> None:
        """Check an address before its token is compared: too many wrong tokens are refused (429)."""
        if wait := self._wait("attempts", peer.network, self._options.attempts_per_minute, take=0.0):
            hint = "Wait a minute, and look for a program that sends a wrong token."
            raise Refusal(429, "Too many wrong tokens came from this address.", hint, wait, "attempts")

    def failed(self, peer: Peer) -> None:
        """Count a wrong token."""
        self._wait("attempts", peer.network, self._options.attempts_per_minute, take=1.0)

    def request(self, kind: Kind, client: str, peer: Peer) -> None:
        """Count a request. Raises `Refusal` if the client sends too many (429)."""
        if peer.same_machine and not self._options.limit_local:
            return
        kind = Kind.OTHER if kind is Kind.STREAM else kind
        per_minute = {
            Kind.OTHER: self._options.requests_per_minute,
            Kind.RUN: self._options.runs_per_minute,
            Kind.UPLOAD: self._options.uploads_per_minute,
        }[kind]
        if wait := self._wait(kind, client, per_minute, take=1.0):
            message = f"That is more than {per_minute:,} {kind} a minute."
            raise Refusal(429, message, f"Try again in {math.ceil(wait)} s.", wait, kind)

    @contextlib.contextmanager
    def opened(self, kind: Kind, client: str, peer: Peer, user: str = "") -> Generator[None]:
        """Count a request while it is in progress. Raises `Refusal` if there are too many (429).

        Behind a proxy all connections have one address. So the limit of connections of one address is one of
        requests too, by the address that the proxy names; each user there has a share of their own. Streams
        and uploads of a client have lower limits.
        """
        local, away = self._options.local_connections, self._options.peer_connections
        with contextlib.ExitStack() as stack:
            limit = local if is_loopback(peer.network) else away
            stack.enter_context(self._counted(Kind.OTHER, f"{user} {peer.network}", limit))
            if kind is Kind.STREAM:
                stack.enter_context(self._counted(kind, client, self._options.client_streams))
            elif kind is Kind.UPLOAD:
                stack.enter_context(self._counted(kind, client, self._options.client_uploads))
            yield

    @contextlib.contextmanager
    def _counted(self, kind: Kind, name: str, limit: int) -> Generator[None]:
        key = (name, kind)
        if self._open[key] >= limit:
            message = f"That is more than {limit:,} {kind} at one time."
            raise Refusal(429, message, "Close some, or wait until one ends.", 1.0, f"open {kind}")
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def _wait(self, kind: str, client: str, per_minute: int, *, take: float) -> float:
        """Return the seconds until one more is allowed; if 0, take `take` from the client's token bucket."""
        key = (kind, client)
        now = self._now()
        left, since = self._paces.get(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / per_minute
        self._paces[key] = (left if wait else left - take, now)
        return wait


@dataclass(slots=True)
class RequestBodies:
    """The bodies of all requests of one application."""

    options: ServerOptions
    held_bytes: int = 0
    """Bytes of bodies in memory."""

    def body(self, scope: Scope, receive: Receive, kind: Kind) -> Body:
        """Return the body of a request, to be closed at the end. Its stated length is checked (413, 400)."""
        body = Body(self, scope, receive, kind)
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        try:
            body.check_length(int(stated))
        except ValueError:
            raise Refusal(400, "Content-Length is not a number.", reason="length") from None
        return body


class Body:
    """`receive` of one request: counted as it arrives, whatever Content-Length says, with time limits."""

    def __init__(self, bodies: RequestBodies, scope: Scope, receive: Receive, kind: Kind) -> None:
        self._bodies = bodies
        self._scope = scope
        self._options = options = bodies.options
        self._receive = receive
        self._is_long = kind in {Kind.RUN, Kind.UPLOAD}
        self._goes_to_disk = kind is Kind.UPLOAD
        long = {Kind.RUN: options.run_bytes, Kind.UPLOAD: options.upload_bytes}
        self._max_bytes = long.get(kind, options.body_bytes)
        if scope["path"] == "/session":
            self._max_bytes = min(self._max_bytes, _MAX_SIGN_IN_BYTES)
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + options.body_seconds
        self._waited_seconds = 0.0
        """Time spent waiting for the client; what the server does in between does not count."""
        self._received_bytes = self._held_bytes = self._values = 0
        self._began = self._ended = False

    async def __call__(self) -> Message:
        """Return the next message; without limits after the end of the body: then a client may only leave.

        Raises `Refusal` if it is too long (413), too slow (408), of a wrong type (415), or there is no memory
        for it (503).
        """
        if self._ended:
            return await self._receive()
        if not self._began:
            self._began = True
            check_content_type(self._scope)  # now that the route is known
        started = self._clock()
        deadline = started + self._options.stall_seconds if self._is_long else self._deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._timeout() from None
        self._waited_seconds += self._clock() - started
        due_bytes = (self._waited_seconds - self._options.stall_seconds) * self._options.body_rate
        if self._is_long and self._received_bytes < due_bytes:
            raise self._timeout()
        piece: bytes = message.get("body", b"")
        self._received_bytes += len(piece)
        self.check_length(self._received_bytes)
        self._ended = not message.get("more_body", False)
        if self._goes_to_disk:
            return message
        self._values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if self._values > _MAX_VALUES:
            text = f"The body has more than {_MAX_VALUES:,} values."
            raise Refusal(413, text, "Send less at a time.", reason="length")
        self._held_bytes += len(piece)  # in memory until the request is answered
        self._bodies.held_bytes += len(piece)
        if self._bodies.held_bytes > self._options.held_bytes:
            text = "The server is receiving too much data at the moment."
            raise Refusal(503, text, "Try again in a second.", 1.0, "held")
        return message

    def check_length(self, length: int) -> None:
        """Refuse a body of so many bytes if it is too long."""
        if length > self._max_bytes:
            message = f"The body is longer than {self._max_bytes:,} bytes."
            raise Refusal(413, message, "Send less at a time.", reason="length")

    def close(self) -> None:
        """Release the memory of the body."""
        self._bodies.held_bytes -= self._held_bytes
        self._held_bytes = 0

    def _timeout(self) -> Refusal:
        message = f"The body took longer than {self._options.body_seconds:g} s to arrive."
        if self._is_long:
            message = f"The body paused for {self._options.stall_seconds:g} s, or came too slowly."
        return Refusal(408, message, "Send it without pauses.", reason="slow")
