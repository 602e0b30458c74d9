"""The uvicorn server: its socket and its graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypeAlias

import uvicorn
from fastapi import FastAPI
from uvicorn.server import HANDLED_SIGNALS

from vrag.errors import SettingsError
from vrag.server.http.connections import GuardedProtocol
from vrag.server.http.users import TokenFile
from vrag.server.options import ServerOptions, is_loopback

log = logging.getLogger("vrag.server")

Stopping: TypeAlias = Callable[[], Awaitable[None]]
"""Finishes the work that goes on without a connection."""

_THREAD_SECONDS = 0.0005
"""Time after which a thread that computes lets the event loop go on. With Python's 5 ms, each word of an
answer waits so long for every page that is drawn or compared meanwhile; the threads get no less done."""
_STREAM_END_SECONDS = 1.0
"""Time for streams to send their last event after their run has ended."""


def check_access(host: str, *, token: str | None, insecure: bool, tokens: TokenFile | None = None) -> None:
    """Refuse to serve other machines without a token, and with a file of tokens that cannot be used.

    Raises `SettingsError` if `host` is not loopback and there is neither a token nor `insecure`.
    """
    if tokens is not None:
        tokens.check()
    if token is not None and (not token.strip() or not token.isascii() or not token.isprintable()):
        raise SettingsError("The token cannot be used.", "Use printable ASCII characters.")
    if not is_loopback(host) and token is None and tokens is None and not insecure:
        raise SettingsError(
            f"Anyone who reaches {host} could read the collection.",
            "Set VRAG_API_KEY to a token that clients send, or pass --tokens or --insecure.",
        )


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket at an address or name; port 0 stands for any free port.

    Raises `SettingsError` if that is not possible.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # `socket.create_server` makes a socket that does not know it is TCP. asyncio turns Nagle's algorithm
        # off for no other, and the second piece of each response would wait 40 ms for an acknowledgement.
        listening = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(2048)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        hint = "Choose another address: --host, --port"
        message = (isinstance(error, OSError) and error.strerror) or str(error)
        reason = f"{message[:1].lower()}{message[1:]}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            reason, hint = "another program listens there", "Stop it, or choose another port: --port"
        elif isinstance(error, socket.gaierror):
            reason = "no machine of that name is known"
        raise SettingsError(f"The server cannot listen at {host}:{port}: {reason}.", hint) from error
    return listening


class GracefulServer(uvicorn.Server):
    """A server that lets runs finish before it stops to answer: first runs, then streams, then the rest.

    uvicorn waits for every connection before it notifies the application of its end. A stream of events
    lasts as long as its run, so that the run has to be notified first.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        options: ServerOptions,
        ready: Callable[[], None],
        stopping: Stopping | None,
    ) -> None:
        super().__init__(config)
        self._options = options
        self._ready = ready
        self._stopping = stopping
        self._exit_timer: threading.Timer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End runs within `drain_seconds`, and then the streams, the connections and the threads."""
        end = time.monotonic() + self._options.draining_seconds
        if self._stopping is not None:
            task = asyncio.ensure_future(self._stopping())
            await self._wait_until(task.done, max(_STREAM_END_SECONDS, self._options.drain_seconds))
            if task.done() and (error := task.exception()) is not None:
                log.error("Runs could not be finished.", exc_info=error)
            task.cancel()
        await self._wait_until(lambda: not self._streams(), _STREAM_END_SECONDS)
        for connection in self._streams():
            connection.transport.close()
        left = max(_STREAM_END_SECONDS, end - time.monotonic())
        self.config.timeout_graceful_shutdown = left  # type: ignore[assignment] # a float works as well
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. After a second one nothing may hold the process up."""
        super().handle_exit(sig, frame)
        if self.force_exit and self._exit_timer is None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is broken off is no error
            self._exit_timer = threading.Timer(2, os._exit, (128 + signal.SIGINT,))
            self._exit_timer.daemon = True
            self._exit_timer.start()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes or `should_exit` is set."""
        try:
            super().run(sockets)
        finally:
            if self._exit_timer is not None:
                self._exit_timer.cancel()

    async def _wait_until(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait, but no longer than so many seconds, and not after a second signal."""
        end = time.monotonic() + seconds
        while not (  # noqa: ASYNC110 - uvicorn shows signals in an attribute
            done() or self.force_exit or time.monotonic() > end
        ):
            await asyncio.sleep(0.05)

    def _streams(self) -> list[GuardedProtocol]:
        return [c for c in self.server_state.connections if isinstance(c, GuardedProtocol) and c.streams]


def make_server(
    app: FastAPI, options: ServerOptions, ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Make the server of an application; its `run` serves at a socket until `should_exit` is set.

    `ready` is called when the server answers. The state of the application may have `stopping`, which is
    awaited first when the server is to stop, while it still answers, and given up after
    `options.drain_seconds`; and `metrics`, which count refused connections.
    """
    limits = {
        "options": options,
        "metrics": getattr(app.state, "metrics", None),
        "peers": Counter[str](),
        "turned_away": set[GuardedProtocol](),
    }
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=type("Connection", (GuardedProtocol,), limits),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return GracefulServer(config, options, ready, getattr(app.state, "stopping", None))


def run_server(
    app: FastAPI,
    listening: socket.socket,
    options: ServerOptions,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; then finish what runs, accept nothing new, and close the socket.

    A second SIGINT ends the server at once, if need be the process. The arguments are those of `make_server`.
    """
    raise_file_limit(options.connections + 512)  # files of collections, runs and models
    server = make_server(app, options, ready)

    def ignore(_: int, __: object) -> None:
        """Take the signal that stopped the server, which uvicorn raises again at the end."""

    handlers: dict[int, Any] = {stop: signal.signal(stop, ignore) for stop in HANDLED_SIGNALS}
    switch_seconds = sys.getswitchinterval()
    with listening, contextlib.suppress(KeyboardInterrupt):
        try:
            sys.setswitchinterval(_THREAD_SECONDS)
            server.run(sockets=[listening])
        finally:
            sys.setswitchinterval(switch_seconds)
            for stop, handler in handlers.items():
                signal.signal(stop, handler)


def raise_file_limit(wanted: int) -> None:
    """Raise the system's limit of open files, each connection being one, as far as the system permits."""
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < allowed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (OSError, ValueError):  # macOS names no limit and has one
            allowed = soft
    if allowed < wanted:
        log.warning(
            "The system allows %d open files, the server needs %d. Raise ulimit -n to accept more clients.",
            allowed,
            wanted,
        )
