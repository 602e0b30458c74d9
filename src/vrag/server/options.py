"""`ServerOptions`: access, limits and timeouts of a server."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from vrag.errors import SettingsError
from vrag.search.schema import MAX_HITS
from vrag.server.http.audit_log import AuditLog
from vrag.server.http.users import TokenFile
from vrag.server.state.database import ServerState

MIB = 1024 * 1024
_ROOT_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*", re.ASCII)
"""Parts of a path whose letters mean themselves in an address, none of which leads elsewhere."""
_MAX_ROOT_PATH = 200
"""Characters of a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Limits and access. The defaults are those of a server for programs on the same machine."""

    token: str | None = field(default=None, repr=False)
    """Token that clients send as `Authorization: Bearer …`, with the rights of an administrator."""
    tokens: TokenFile | None = None
    """Further users and their tokens. Without it and `token`, no token is needed."""
    audit: AuditLog | None = None
    """Log of who did what; None for none."""
    state: ServerState = field(default_factory=ServerState, repr=False, compare=False)
    """What a restart must not forget; by default nothing is kept."""
    keep_days: float = 0.0
    """Days after which conversations are deleted; 0 to keep them."""
    local: bool = True
    """True if requests must name the server by a name of the machine itself: it listens on loopback, and
    a web page whose name was made to point there (DNS rebinding) gives itself away by that name."""
    hosts: frozenset[str] = frozenset()
    """Further names of the server, without port."""
    origins: frozenset[str] = frozenset()
    """Origins of other sites whose pages may use the server, with the token and never with a cookie. See
    `checked_origins`."""
    proxies: frozenset[str] = frozenset()
    """Addresses of trusted proxies, whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Prefix are
    believed. See `checked_proxies`."""
    root_path: str = ""
    """The path below which a proxy serves the server, if it does not say so itself: `/docs`. See
    `checked_root_path`."""

    secure_cookie: bool = False
    """True if the session cookie is always marked Secure. Where the server sees that a request came by https,
    it is."""
    session_seconds: float = 12 * 3600.0
    """Time after the last request at which a browser's session ends."""
    session_days: float = 30.0
    """Days after the sign-in at which a browser's session ends, used or not."""
    sessions: int = 1024
    """Sessions at one time; one more ends the least recently used one."""

    head_bytes: int = 256 * 1024
    """Length of a request's head. The older form of search has its queries there."""
    field_bytes: int = 16 * 1024
    """Length of one of its header fields."""
    body_bytes: int = 4 * MIB
    """Length of a request's body."""
    body_seconds: float = 10.0
    """Time for the body to arrive."""
    run_bytes: int = 48 * MIB
    """Length of a body with a question and its pictures."""
    upload_bytes: int = 512 * MIB
    """Length of an uploaded document."""
    stall_seconds: float = 20.0
    """Time for the next piece of such a longer body to arrive; the whole has no time limit."""
    body_rate: float = 8 * 1024.0
    """Minimum bytes a second of longer bodies, on average after `stall_seconds`."""
    held_bytes: int = 1024 * MIB
    """Bytes of bodies in memory, of all requests together; uploaded documents go to disk."""

    requests_per_minute: int = 1200
    """Requests of one client: as many at once, and then evenly. The same holds for the next three."""
    runs_per_minute: int = 30
    """Questions."""
    uploads_per_minute: int = 600
    """Uploaded documents."""
    attempts_per_minute: int = 10
    """Wrong tokens from one address. Further tokens are not compared."""
    limit_local: bool = False
    """True if the first three hold for programs on the same machine. Whoever can run one has better means
    to keep the server busy, and a trainer searches faster than any such limit."""
    runs: int = 256
    """Runs at one time; the others wait."""
    client_runs: int = 8
    """Runs of one requester at one time; the others wait. See `Requester.name`."""
    waiting_runs: int = 100
    """Runs that wait for others to end; further ones are refused."""
    client_waiting_runs: int = 20
    """Runs of one requester that wait."""
    client_streams: int = 256
    """Streams of events that one client follows at one time."""
    client_uploads: int = 8
    """Documents that one client uploads at one time."""
    clients: int = 4096
    """Clients whose pace is remembered; one more replaces the least recent one."""

    search_seconds: float = 30.0
    """Time for a search, including the time in the queue; and for a run to begin."""
    item_seconds: float = 30.0
    """Time for an item or its picture, including the time in the queue."""
    hits: int = MAX_HITS
    """Queries times top_k of one request."""
    waiting_queries: int = 4096
    """Queries that may wait for their batch; further ones are refused."""
    batch_queries: int = 64
    """Queries searched in one call; a request with more is searched in several."""
    item_threads: int = 2
    """Threads that read items and encode their pictures."""
    waiting_items: int = 64
    """Requests for items that may wait for these threads."""

    fixed_models: bool = False
    """True if nobody can choose a model on the page."""
    test_seconds: float = 300.0
    """Time for the test of a model."""

    connections: int = 2048
    """Connections at one time. Each stream of events holds one."""
    peer_connections: int = 128
    """Connections from one other machine."""
    local_connections: int = 512
    """Connections from the same machine."""
    head_seconds: float = 10.0
    """Time for the head of a request to arrive, and for the first request to begin."""
    write_seconds: float = 60.0
    """Time for a client to read from its full buffers."""
    drain_seconds: int = 30
    """Time for runs to end after the signal to stop. Whole seconds: uvicorn takes no other."""

    @property
    def closing_seconds(self) -> float:
        """The last part of `drain_seconds`, for threads whose work nobody waits for any more."""
        return min(2.0, self.drain_seconds / 2)

    @property
    def draining_seconds(self) -> float:
        """The rest of `drain_seconds`: for runs, and then for responses."""
        return self.drain_seconds - self.closing_seconds


def is_loopback(host: str) -> bool:
    """Return whether an address or name belongs to the machine itself and cannot be reached from others.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_origins(origins: Iterable[str]) -> frozenset[str]:
    """Normalize origins to the form that browsers send.

    Raises `SettingsError` if one is not a scheme, a host and optionally a port.

    >>> sorted(checked_origins(["https://App.example/", "http://localhost:3000"]))
    ['http://localhost:3000', 'https://app.example']
    """
    checked: set[str] = set()
    for origin in origins:
        plain = origin.strip().rstrip("/").casefold()
        try:
            parts = urlsplit(plain)
            has_host = bool(parts.hostname) and parts.port != 0 and parts.scheme in {"http", "https"}
        except ValueError:
            parts, has_host = urlsplit(""), False
        is_whole = plain == f"{parts.scheme}://{parts.netloc}" and plain.isascii()
        if not (has_host and is_whole) or "@" in plain or "*" in plain:
            hint = "Write it as https://app.example:8443, without wildcards."
            raise SettingsError(f"{origin!r} is not an origin.", hint)
        checked.add(plain.removesuffix({"http": ":80", "https": ":443"}[parts.scheme]))
    return frozenset(checked)


def checked_proxies(addresses: Iterable[str]) -> frozenset[str]:
    """Normalize the addresses of proxies. Raises `SettingsError` if one is not an IP address.

    >>> sorted(checked_proxies(["10.0.0.2", "0:0::1"]))
    ['10.0.0.2', '::1']
    """
    try:
        return frozenset(str(ipaddress.ip_address(address.strip())) for address in addresses)
    except ValueError as error:
        raise SettingsError("--proxy takes an address.", "For example 10.0.0.2, without port.") from error


def checked_root_path(path: str) -> str:
    """Normalize the path below which a proxy serves the server; empty for the root.

    Raises `SettingsError` if it is not a path of letters, digits and `-._~`.

    >>> checked_root_path("/docs/"), checked_root_path("/")
    ('/docs', '')
    """
    plain = path.removesuffix("/")
    if len(plain) > _MAX_ROOT_PATH or _ROOT_PATH.fullmatch(plain) is None:
        raise SettingsError(
            f"{path[:_MAX_ROOT_PATH]!r} is not a path below which the server can be served.",
            "Write it as /docs or /tools/docs: letters, digits and - . _ ~ between single slashes.",
        )
    return plain
