"""Who asks, how often, and how much at one time.

A client is a browser's session, else a token together with the address it comes from, else the address.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING

from vrag.server.http.errors import Refusal
from vrag.server.options import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.types import Scope

    from vrag.server.options import ServerOptions

__all__ = ["ClientRegistry", "Kind", "Peer", "kind_of", "name_of", "network_of", "peer_of"]

_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
_MINUTE = 60.0
_MAX_HOPS = 32


class Kind(StrEnum):
    """What a request costs, by its method and path."""

    OTHER = "requests"
    """Searches, items, lists: a moment each."""
    RUN = "runs"
    """A question to an agent."""
    UPLOAD = "uploads"
    """A document that is sent."""
    STREAM = "streams"
    """Events, for as long as the client likes."""


def kind_of(method: str, path: str) -> Kind:
    """What a request is.

    >>> kind_of("POST", "/runs"), kind_of("GET", "/runs/1/events"), kind_of("GET", "/runs/1")
    (<Kind.RUN: 'runs'>, <Kind.STREAM: 'streams'>, <Kind.OTHER: 'requests'>)
    """
    parts = path.strip("/").split("/")
    match method, *parts:
        case ("POST", "runs") | ("POST", "v1", "chat", "completions"):
            return Kind.RUN
        case ("GET", "runs", _, "events") | ("GET", "mcp"):
            return Kind.STREAM
        case ("PUT", "collections", _, "documents", *_):
            return Kind.UPLOAD
        case _:
            return Kind.OTHER


class Peer:
    """Where a request comes from.

    Args:
        network: The address; of IPv6 the network that one customer has.
        scheme: By which it was asked: `http` or `https`.
        same_machine: Whether a program on this machine asks, and for nobody else.
    """

    __slots__ = ("network", "same_machine", "scheme")

    def __init__(self, network: str, scheme: str, *, same_machine: bool) -> None:
        self.network = network
        self.scheme = scheme
        self.same_machine = same_machine


def peer_of(scope: Scope, proxies: frozenset[str] = frozenset()) -> Peer:
    """Where a request comes from, past the proxies that are believed.

    Args:
        scope: Of the request.
        proxies: Addresses that are believed; what anybody else says of others is not.
    """
    address = _plain((scope.get("client") or ("", 0))[0])
    scheme: str = scope.get("scheme", "http")
    forwarded = any(name in _FORWARDED for name, _ in scope["headers"])
    if address in proxies:
        scheme = (_listed(scope, b"x-forwarded-proto") or [scheme])[-1].casefold()
        for hop in reversed(_listed(scope, b"x-forwarded-for")[-_MAX_HOPS:]):
            address = _plain(hop)
            if address not in proxies:
                break
    same_machine = is_loopback(address) and not forwarded
    return Peer(network_of(address), scheme, same_machine=same_machine)


def network_of(address: str) -> str:
    """An address without the part that its owner chooses: of IPv6, the first 64 bits.

    >>> network_of("192.0.2.7"), network_of("2001:db8::1:2:3:4"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return "elsewhere"
    if isinstance(read, ipaddress.IPv4Address) or read.is_loopback:
        return str(read)
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    return str(ipaddress.ip_network((int(read) >> 64 << 64, 64)))


def _plain(address: str) -> str:
    """An address in its usual form; as it is when it is none."""
    with contextlib.suppress(ValueError):
        read = ipaddress.ip_address(address.strip())
        mapped = read.ipv4_mapped if isinstance(read, ipaddress.IPv6Address) else None
        return str(mapped or read)
    return address


def _listed(scope: Scope, wanted: bytes) -> list[str]:
    """The values of a header that may come several times, each with several values."""
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def name_of(peer: Peer, *, session: bytes | None = None, token: bytes | None = None) -> str:
    """What a client is called: nothing that could be used in its place.

    Args:
        peer: Where it comes from.
        session: Digest of its session's id.
        token: Digest of its token.
    """
    if session is not None:
        return f"session {_short(session)}"
    return peer.network if token is None else f"token {_short(token)} {peer.network}"


def _short(digest: bytes) -> str:
    """Of a digest a digest, so that no part of what is compared gets about."""
    return hashlib.sha256(b"client" + digest).hexdigest()[:12]


class ClientRegistry:
    """The pace of each client, and what it has open.

    Args:
        options: Limits.
        now: The clock, in seconds.
    """

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._now = now
        self._paces: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """By client and what it does: what was left of its minute, and when."""
        self._open: Counter[tuple[str, Kind]] = Counter()
        """Has entries only for what is open, and so no more than there are connections."""

    def attempt(self, peer: Peer) -> None:
        """Called before a token is looked at.

        Raises:
            Refusal: If too many wrong ones came from there (429).
        """
        wait = self._wait("attempts", peer.network, self._options.attempts_per_minute, take=0.0)
        if wait:
            raise Refusal(
                429,
                "Too many wrong tokens came from this address.",
                "Wait a minute, and look for a program that sends a wrong one.",
                wait,
                "attempts",
            )

    def failed(self, peer: Peer) -> None:
        """Called when a token was wrong."""
        self._wait("attempts", peer.network, self._options.attempts_per_minute, take=1.0)

    def request(self, kind: Kind, client: str, peer: Peer) -> None:
        """Called for each request that is let in.

        Raises:
            Refusal: If the client asks too often (429).
        """
        if peer.same_machine and not self._options.limit_local:
            return
        paced = Kind.OTHER if kind is Kind.STREAM else kind
        most = {
            Kind.OTHER: self._options.requests_per_minute,
            Kind.RUN: self._options.runs_per_minute,
            Kind.UPLOAD: self._options.uploads_per_minute,
        }[paced]
        wait = self._wait(paced, client, most, take=1.0)
        if wait:
            raise Refusal(
                429,
                f"That is more than {most:,} {paced} a minute.",
                f"Come back in {math.ceil(wait)} s.",
                wait,
                paced,
            )

    @contextlib.contextmanager
    def opened(self, kind: Kind, client: str) -> Generator[None]:
        """While a client sends a document or follows a stream.

        Raises:
            Refusal: If it has too many open (429).
        """
        most = {Kind.STREAM: self._options.client_streams, Kind.UPLOAD: self._options.client_uploads}
        if kind not in most:
            yield
            return
        key = (client, kind)
        if self._open[key] >= most[kind]:
            hint = "Close some, or wait until one ends."
            raise Refusal(
                429, f"That is more than {most[kind]:,} {kind} at one time.", hint, 1.0, f"open {kind}"
            )
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def _wait(self, what: str, client: str, per_minute: int, *, take: float) -> float:
        """Seconds until there is one more; 0 when there is, and then `take` are taken.

        What is there grows evenly up to that of a minute: a token bucket.
        """
        key = (what, client)
        now = self._now()
        left, since = self._paces.pop(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * per_minute / _MINUTE)
        wait = 0.0 if left >= 1 else (1 - left) * _MINUTE / per_minute
        self._paces[key] = (left if wait else left - take, now)
        if len(self._paces) > self._options.clients:
            self._paces.popitem(last=False)
        return wait
