"""Rate limits: who sends a request, how often, and how much at one time.

A client is a browser's session, else a token together with the address that it comes from, else the address.

The token bucket is our own: the library `limits` keeps one time stamp for each request in its window, forgets
clients by a timer thread and not by a maximum, and does not say how long to wait to the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vrag.server.http.errors import Refusal
from vrag.server.options import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.types import Scope

    from vrag.server.options import ServerOptions

_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
_MAX_HOPS = 32


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
        case ("POST", "runs") | ("POST", "v1", "chat", "completions"):
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


def peer_of(scope: Scope, proxies: frozenset[str] = frozenset()) -> Peer:
    """Find where a request comes from, past the trusted proxies; others' headers are not believed."""
    address = _normalized((scope.get("client") or ("", 0))[0])
    scheme: str = scope.get("scheme", "http")
    forwarded = any(name in _FORWARDED for name, _ in scope["headers"])
    if address in proxies:
        scheme = (_list_header(scope, b"x-forwarded-proto") or [scheme])[-1].casefold()
        for hop in reversed(_list_header(scope, b"x-forwarded-for")[-_MAX_HOPS:]):
            address = _normalized(hop)
            if address not in proxies:
                break
    return Peer(network_of(address), scheme, same_machine=is_loopback(address) and not forwarded)


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


def _normalized(address: str) -> str:
    """Return an address in its usual form, and anything else as it is."""
    with contextlib.suppress(ValueError):
        parsed = ipaddress.ip_address(address.strip())
        mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
        return str(mapped or parsed)
    return address


def _list_header(scope: Scope, wanted: bytes) -> list[str]:
    """Return the values of a header that may come several times, each with several values."""
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def client_name(peer: Peer, *, session: bytes | None = None, token: bytes | None = None) -> str:
    """Name a client by the digest of its session or token, of which the name reveals nothing."""
    secret = token if session is None else session
    if secret is None:
        return peer.network
    mark = hashlib.sha256(b"client" + secret).hexdigest()[:12]  # a digest of the digest that is compared
    return f"token {mark} {peer.network}" if session is None else f"session {mark}"


class ClientRegistry:
    """The pace of each client, and its open uploads and streams.

    Args:
        options: Limits.
        now: The clock, in seconds.
    """

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._now = now
        self._paces: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """Requests left in the bucket of a client and kind, and when that was counted."""
        self._open: Counter[tuple[str, Kind]] = Counter()
        """Has entries only for what is open, and so no more than there are connections."""

    def attempt(self, peer: Peer) -> None:
        """Check the address before its token is compared.

        Raises:
            Refusal: If too many wrong tokens came from there (429).
        """
        if wait := self._wait("attempts", peer.network, self._options.attempts_per_minute, take=0.0):
            raise Refusal(
                429,
                "Too many wrong tokens came from this address.",
                "Wait a minute, and look for a program that sends a wrong token.",
                wait,
                "attempts",
            )

    def failed(self, peer: Peer) -> None:
        """Count a wrong token."""
        self._wait("attempts", peer.network, self._options.attempts_per_minute, take=1.0)

    def request(self, kind: Kind, client: str, peer: Peer) -> None:
        """Count a request.

        Raises:
            Refusal: If the client sends too many (429).
        """
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
    def opened(self, kind: Kind, client: str) -> Generator[None]:
        """Count an upload or stream while it is open.

        Raises:
            Refusal: If the client has too many open (429).
        """
        limits = {Kind.STREAM: self._options.client_streams, Kind.UPLOAD: self._options.client_uploads}
        if kind not in limits:
            yield
            return
        key = (client, kind)
        if self._open[key] >= limits[kind]:
            message = f"That is more than {limits[kind]:,} {kind} at one time."
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
        left, since = self._paces.pop(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / per_minute
        self._paces[key] = (left if wait else left - take, now)
        if len(self._paces) > self._options.clients:
            self._paces.popitem(last=False)
        return wait
