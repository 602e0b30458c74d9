"""A server that listens, until it is told to stop."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from vrag.errors import SettingsError
from vrag.server.options import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn
    from fastapi import FastAPI

    from vrag.server.http.graceful_shutdown import Stopping
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions

__all__ = ["check_access", "listen", "make_server", "run_server"]

log = logging.getLogger("vrag.server")

_BACKLOG = 2048
_FILES_BESIDE = 512
"""Open files beside connections: of collections, runs and models."""
_HEAD_BYTES = 256 * 1024
"""Length of a request's head: the older shape of search has its queries there."""


def check_access(host: str, *, token: str | None, insecure: bool) -> None:
    """Refuses to serve others than this machine without a token.

    Raises:
        SettingsError: If `host` is not loopback and there is neither a token nor a word that none is meant.
    """
    if token is not None and (not token.strip() or not token.isascii() or not token.isprintable()):
        raise SettingsError("The token cannot be used.", "Use printable ASCII characters, and not none.")
    if not is_loopback(host) and token is None and not insecure:
        raise SettingsError(
            f"Whoever reaches {host} could read the collection.",
            "Set VRAG_API_KEY to a token that clients send, or say --insecure.",
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: An address or a name.
        port: 0 for any that is free.

    Raises:
        SettingsError: If the address cannot be listened at.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return _bound(socket.socket(family, kind, protocol), address)
    except (OSError, OverflowError, UnicodeError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        hint = "Stop it, or choose another: --port" if taken else "Choose another: --host, --port"
        reason = "another program listens there" if taken else _reason(error)
        raise SettingsError(f"The server cannot listen at {host}:{port}: {reason}.", hint) from error


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "no machine of that name is known"
    words = (isinstance(error, OSError) and error.strerror) or str(error)
    return f"{words[:1].lower()}{words[1:]}"


def _bound(listening: socket.socket, address: Any) -> socket.socket:  # noqa: ANN401 - of its family
    """The socket, listening. `socket.create_server` makes one that does not know it is TCP.

    asyncio turns Nagle's algorithm off for no other, and the second piece of each response would wait
    40 ms for the client's acknowledgement of the first.
    """
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def run_server(
    app: FastAPI,
    listening: socket.socket,
    options: ServerOptions,
    ready: Callable[[], None] = lambda: None,
    *,
    stopping: Stopping | None = None,
    metrics: ServerMetrics | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM; then finishes what runs, takes nothing new, and returns.

    A second SIGINT ends at once, if need be the process.

    Args:
        app: What to serve.
        listening: Where; closed in the end.
        options: How many connections, and how long to wait for what runs.
        ready: Called when the server answers.
        stopping: Awaited first when the server is to stop, while it still answers: the place to finish what
            goes on without a connection. Given up after `options.drain_seconds`.
        metrics: What counts connections that are refused.
    """
    _make_room(options.connections + _FILES_BESIDE)
    server = make_server(app, options, ready, stopping=stopping, metrics=metrics)
    with listening:
        _quietly(lambda: server.run(sockets=[listening]))


def make_server(
    app: FastAPI,
    options: ServerOptions,
    ready: Callable[[], None] = lambda: None,
    *,
    stopping: Stopping | None = None,
    metrics: ServerMetrics | None = None,
) -> uvicorn.Server:
    """The server for an application; `run` of it with a socket serves, `should_exit` ends that.

    The arguments are those of `run_server`.
    """
    import uvicorn

    from vrag.server.http.connection_limits import guarded
    from vrag.server.http.graceful_shutdown import StoppingServer

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=guarded(options, metrics),
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return StoppingServer(config, options, ready, stopping)


def _make_room(wanted: int) -> None:
    """Has the system allow that many open files, of which each connection is one, as far as it does."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "The system allows %d open files; this server wants %d (ulimit -n), and may refuse connections.",
            allowed,
            wanted,
        )


def _quietly(serve: Callable[[], None]) -> None:
    """Serves; the signal that stopped the server, which it raises again in the end, has done its work."""
    stops = (signal.SIGINT, signal.SIGTERM)
    before: dict[signal.Signals, Any] = {stop: signal.signal(stop, _nothing) for stop in stops}
    try:
        serve()
    except KeyboardInterrupt:
        pass
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)


def _nothing(_: int, __: object) -> None:
    pass
