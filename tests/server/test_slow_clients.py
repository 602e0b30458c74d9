"""Clients that send slowly, or nothing, or read nothing: on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI, Request
from server_harness import dial
from starlette.responses import Response, StreamingResponse

from vrag.server.http import errors
from vrag.server.http.audit import AuditMiddleware, AuditTrail
from vrag.server.http.auth import AuthMiddleware
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.logs import RequestMiddleware
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions
from vrag.server.state.sessions import BrowserSessions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

MIB = 1024 * 1024


class Small:
    """A server with a route of each kind, whose doings the test sees."""

    def __init__(self, options: ServerOptions, stopping: Callable[[], Awaitable[None]] | None = None) -> None:
        self.options = options
        self.metrics = ServerMetrics()
        self.gone = threading.Event()
        """Set when a stream's client has left."""
        self.stopping = stopping
        self.address = ""
        self.app = self._app()
        ready = threading.Event()
        self.app.state.stopping, self.app.state.metrics = stopping, self.metrics
        self.server = make_server(self.app, options, ready.set)
        self.ready = ready

    def _app(self) -> FastAPI:
        app = FastAPI()
        errors.register(app)

        @app.get("/version")
        async def quick() -> dict[str, int]:
            return {"a": 1}

        @app.get("/large")
        async def large() -> Response:
            return Response(b"x" * (64 * MIB))

        @app.get("/small")
        async def small() -> Response:
            return Response(b"x" * (60 * 1024))

        @app.put("/collections/{name}/documents/{file}")
        async def upload(request: Request) -> int:
            return sum([len(piece) async for piece in request.stream()])

        @app.post("/runs")
        async def ask(request: Request) -> int:
            return len(await request.body())

        @app.get("/runs/{id}/events")
        async def events() -> Response:
            return StreamingResponse(self._beats(), media_type="text/event-stream")

        sessions = BrowserSessions(self.options)
        app.add_middleware(AuthMiddleware, options=self.options, metrics=self.metrics, sessions=sessions)
        app.add_middleware(AuditMiddleware, options=self.options, trail=AuditTrail(None))
        app.add_middleware(RequestMiddleware, metrics=self.metrics)
        return app

    async def _beats(self) -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b": beat\n\n"
                await asyncio.sleep(0.05)
        finally:
            self.gone.set()

    def refused(self, reason: str) -> bool:
        return f'vrag_refused_total{{reason="{reason}"}}' in self.metrics.render().decode()


@contextlib.contextmanager
def small(
    stopping: Callable[[], Awaitable[None]] | None = None,
    **options: Any,  # noqa: ANN401
) -> Generator[Small]:
    running = Small(ServerOptions(**options), stopping)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=running.server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert running.ready.wait(60)
            running.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            yield running
        finally:
            running.server.should_exit = True
            thread.join(40)
            assert not thread.is_alive()


def everything(connection: socket.socket) -> bytes:
    """All that a server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


def until(connection: socket.socket, mark: bytes) -> bytes:
    """What a server sends, up to a mark."""
    received = b""
    while mark not in received:
        piece = connection.recv(65536)
        assert piece, received
        received += piece
    return received


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ask_for_events(running: Small, client: str = "127.0.0.1") -> socket.socket:
    """Return a connection with a request in progress, as a proxy sends it for a client."""
    connection = dial(running.address)
    forwarded = f"X-Forwarded-For: {client}\r\n" if running.options.proxies else ""
    connection.sendall(f"GET /runs/1/events HTTP/1.1\r\nHost: localhost\r\n{forwarded}\r\n".encode())
    until(connection, b"beat")
    return connection


class TestHead:
    def test_that_never_begins_is_closed_without_a_word(self) -> None:
        """Browsers open connections that they may not use."""
        with small(head_seconds=0.2) as running, dial(running.address) as connection:
            assert everything(connection) == b""
            assert running.refused("head")

    def test_that_never_ends_is_refused(self) -> None:
        with small(head_seconds=0.2) as running, dial(running.address) as connection:
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: loc")
            assert everything(connection).startswith(b"HTTP/1.1 408")

    def test_that_drips_is_refused(self) -> None:
        with small(head_seconds=0.3) as running, dial(running.address) as connection:
            connection.sendall(b"GET /version HTTP/1.1\r\n")
            connection.settimeout(0.05)
            answer = None
            for number in range(200):
                try:
                    connection.sendall(f"X-{number}: a\r\n".encode())
                    answer = connection.recv(1000)
                    break
                except TimeoutError:
                    continue
            assert answer is not None
            assert answer.startswith(b"HTTP/1.1 408")

    def test_of_a_later_request_that_drips_is_refused(self) -> None:
        with small(head_seconds=0.3) as running, dial(running.address) as connection:
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(connection, b'{"a":1}')
            connection.sendall(b"GET /ver")
            assert everything(connection).startswith(b"HTTP/1.1 408")

    def test_time_for_it_is_no_time_for_what_follows(self) -> None:
        """A request that takes longer than the head may, and one after a pause, are answered."""
        with small(head_seconds=0.2) as running, dial(running.address) as connection:
            connection.sendall(b"GET /runs/1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                assert connection.recv(65536)
        with small(head_seconds=0.2) as running, dial(running.address) as connection:
            for _ in range(2):
                connection.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
                until(connection, b'{"a":1}')
                time.sleep(0.4)

    def test_hundreds_of_idle_connections_lock_nobody_out(self) -> None:
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(small(head_seconds=0.5, connections=60, local_connections=50))
            idle = [stack.enter_context(dial(running.address)) for _ in range(50)]
            eventually(lambda: httpx.get(f"{running.address}/version").status_code == 200)
            assert [everything(connection) for connection in idle] == [b""] * 50


class TestConnections:
    def test_of_one_peer_are_limited_and_free_again(self) -> None:
        with small(local_connections=3) as running:
            held = [ask_for_events(running) for _ in range(3)]
            response = httpx.get(f"{running.address}/version")
            assert response.status_code == 503
            assert "from this address" in response.json()["detail"]
            assert running.refused("connections")
            for connection in held:
                connection.close()
            eventually(lambda: httpx.get(f"{running.address}/version").status_code == 200)

    def test_that_are_refused_are_few_at_one_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each takes a file of the process until it ends: others are cut at once."""
        monkeypatch.setattr("vrag.server.http.connections._MAX_TURNED_AWAY", 2)
        monkeypatch.setattr("vrag.server.http.connections._LINGER_SECONDS", 60.0)
        with small(local_connections=3) as running, contextlib.ExitStack() as stack:
            held = [stack.enter_context(ask_for_events(running)) for _ in range(3)]
            refused = [stack.enter_context(dial(running.address)) for _ in range(2)]
            for connection in refused:
                assert b"from this address" in until(connection, b"}")
            for _ in range(20):
                with dial(running.address) as connection:
                    assert everything(connection) == b""
            for connection in refused:
                connection.close()
            monkeypatch.setattr("vrag.server.http.connections._LINGER_SECONDS", 0.1)

            def is_told_again() -> bool:
                with dial(running.address) as connection:
                    return b"from this address" in everything(connection)

            eventually(is_told_again)
            for connection in held:
                until(connection, b"beat")

    def test_of_a_proxy_are_those_of_many(self) -> None:
        proxies = frozenset({"127.0.0.1"})
        with small(local_connections=4, proxies=proxies) as running:
            held = [ask_for_events(running, f"192.0.2.{number}") for number in range(6)]
            assert httpx.get(f"{running.address}/version").status_code == 200
            for connection in held:
                connection.close()

    def test_of_all_are_limited(self) -> None:
        with small(connections=3) as running:
            held = [ask_for_events(running) for _ in range(3)]
            assert "too many connections" in httpx.get(f"{running.address}/version").json()["detail"]
            assert running.refused("full")
            for connection in held:
                connection.close()

    @pytest.mark.parametrize("limits", [{"connections": 3}, {"local_connections": 3}])
    def test_that_are_idle_make_room_for_others_the_oldest_first(self, limits: dict[str, Any]) -> None:
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(small(**limits))
            events = stack.enter_context(ask_for_events(running))
            used = stack.enter_context(dial(running.address))
            used.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(used, b'{"a":1}')
            fresh = stack.enter_context(dial(running.address))
            fresh.sendall(b"GET /ver")
            eventually(lambda: len(running.server.server_state.connections) == 3)
            later = stack.enter_context(dial(running.address))
            later.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(later, b'{"a":1}')
            assert everything(used) == b""
            assert running.refused("idle")
            fresh.sendall(b"sion HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(fresh, b'{"a":1}')
            until(events, b"beat")

    def test_of_one_client_of_a_proxy_leave_room_for_another_client(self) -> None:
        """All connections come from the address of the proxy."""
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(
                small(peer_connections=2, connections=20, proxies=frozenset({"127.0.0.1"}))
            )
            for _ in range(2):
                stack.enter_context(ask_for_events(running, "192.0.2.1"))
            for _ in range(16):
                stack.enter_context(dial(running.address))  # of a program that is no proxy
            for address, expected in (("192.0.2.1", 429), ("192.0.2.2", 200)):
                headers = {"X-Forwarded-For": address}
                response = httpx.get(f"{running.address}/version", headers=headers)
                assert response.status_code == expected, response.text
            assert running.refused("open requests")


class TestBody:
    HEAD = "PUT /collections/a/documents/b.pdf HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"

    def test_that_is_too_long_is_refused_before_it_is_sent(self) -> None:
        with small(upload_bytes=1000) as running, dial(running.address) as connection:
            connection.sendall(self.HEAD.format(1001).encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 413")
            assert running.refused("length")

    def test_of_whoever_sends_on_all_the_same_is_not_read_for_ever(self) -> None:
        with small(upload_bytes=1000) as running, dial(running.address) as connection:
            connection.sendall(self.HEAD.format(10**12).encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 413")
            with pytest.raises(OSError, match=r"reset|[Bb]roken"):  # noqa: PT012
                for _ in range(10_000):
                    connection.sendall(b"x" * 100)
                    time.sleep(0.01)

    def test_that_was_refused_is_the_last_of_its_connection(self) -> None:
        """What comes after the response is dropped: it may be the body, or look like a request."""
        with small(body_bytes=1000) as running, dial(running.address) as connection:
            connection.sendall(b"POST /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n")
            assert until(connection, b"}").startswith(b"HTTP/1.1 413")
            connection.sendall(b"x" * 2000 + b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert everything(connection) == b""

    def test_of_a_document_may_take_its_time_but_not_pause(self) -> None:
        with small(stall_seconds=0.5, body_seconds=0.3) as running, dial(running.address) as connection:
            connection.sendall(self.HEAD.format(80_000).encode())
            for _ in range(8):
                connection.sendall(b"x" * 10_000)
                time.sleep(0.15)
            until(connection, b"80000")
            connection.sendall(self.HEAD.format(20).encode() + b"x")
            assert connection.recv(65536).startswith(b"HTTP/1.1 408")
            assert not running.refused("length")

    def test_of_a_document_that_drips_is_refused(self) -> None:
        with small(stall_seconds=0.4, body_rate=1000.0) as running, dial(running.address) as connection:
            connection.sendall(self.HEAD.format(100_000).encode())
            connection.settimeout(0.05)
            answer = None
            for _ in range(200):
                try:
                    connection.sendall(b"x")
                    answer = connection.recv(1000)
                    break
                except TimeoutError:
                    continue
            assert answer is not None
            assert answer.startswith(b"HTTP/1.1 408")

    def test_of_a_question_may_be_longer_than_of_others(self) -> None:
        with small(run_bytes=5000, body_bytes=100) as running:
            for path, expected in (("/runs", 200), ("/version", 413)):
                response = httpx.post(f"{running.address}{path}", content=b"x" * 4000)
                assert response.status_code == expected, path
            assert httpx.post(f"{running.address}/runs", content=b"x" * 5001).status_code == 413

    def test_of_all_requests_together_fit_into_memory(self) -> None:
        head = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"
        with small(held_bytes=10_000) as running, dial(running.address) as other:
            other.sendall(head + b"x" * 8000)
            eventually(lambda: httpx.post(f"{running.address}/runs", content=b"x" * 3000).status_code == 503)
            other.close()
            eventually(lambda: httpx.post(f"{running.address}/runs", content=b"x" * 3000).status_code == 200)


class TestReading:
    def test_whoever_asks_for_much_and_reads_nothing_is_cut_off(self) -> None:
        with small(write_seconds=0.5) as running, dial(running.address) as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            eventually(lambda: running.refused("unread"))
            eventually(lambda: not running.server.server_state.connections)
            assert len(everything(connection)) < 60 * MIB

    def test_whoever_leaves_the_end_of_the_last_response_unread_is_cut_off(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is less than what makes the server wait before it writes more."""
        open_socket = listen

        def listen_with_small_buffers(host: str, port: int) -> socket.socket:
            listening = open_socket(host, port)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            return listening

        monkeypatch.setattr(f"{__name__}.listen", listen_with_small_buffers)
        with small(write_seconds=0.5) as running, socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            host, _, port = running.address.removeprefix("http://").partition(":")
            connection.connect((host, int(port)))
            connection.sendall(b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            eventually(lambda: running.refused("unread"))
            eventually(lambda: not running.server.server_state.connections)

    @pytest.mark.slow
    def test_whoever_reads_slowly_gets_everything(self) -> None:
        """Longer than a pause may be, and longer than connections are kept that ask for nothing more."""
        with small(write_seconds=1.0) as running, contextlib.ExitStack() as stack:
            running.server.config.timeout_keep_alive = 1
            connection = stack.enter_context(dial(running.address))
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = 0
            while received < 64 * MIB:
                piece = connection.recv(2 * MIB)
                assert piece, received
                received += len(piece)
                time.sleep(0.06 * len(piece) / MIB)
            assert received < 65 * MIB

    def test_streams_of_one_client_are_limited(self) -> None:
        with small(client_streams=1) as running, dial(running.address) as connection:
            connection.sendall(b"GET /runs/1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in connection.recv(1000)
            response = httpx.get(f"{running.address}/runs/1/events")
            assert (response.status_code, response.headers["retry-after"]) == (429, "1")
            assert running.refused("open streams")
            connection.close()
            assert running.gone.wait(60)

            def again() -> bool:
                with httpx.stream("GET", f"{running.address}/runs/1/events") as stream:
                    return stream.status_code == 200

            eventually(again)


class TestStopping:
    def test_lets_runs_finish_while_it_still_answers_and_streams_hold_nothing_up(self) -> None:
        told: list[int] = []

        async def finish() -> None:
            for _ in range(5):
                async with httpx.AsyncClient() as client:
                    told.append((await client.get(f"{holder[0].address}/version")).status_code)
                await asyncio.sleep(0.02)

        holder: list[Small] = []
        with small(finish, drain_seconds=3600) as running:
            holder.append(running)
            with dial(running.address) as connection:
                connection.sendall(b"GET /runs/1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"200 OK" in connection.recv(1000)
                running.server.should_exit = True
                everything(connection)
            assert running.gone.wait(60)
        assert told == [200] * 5

    def test_is_not_held_up_by_runs_that_do_not_end(self) -> None:
        async def hang() -> None:
            await asyncio.sleep(3600)

        with small(hang, drain_seconds=1) as running:
            pass
        assert not running.server.server_state.connections

    def test_goes_on_when_runs_cannot_be_finished(self, caplog: pytest.LogCaptureFixture) -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise ZeroDivisionError

        with small(fail):
            pass
        assert "could not be finished" in caplog.text


PROGRAM = """
import asyncio, sys, time
from vrag.server.app import create_app
from vrag.server.options import ServerOptions
from vrag.server.http.uvicorn_server import listen, run_server
from vrag.testing import tiny_corpus

async def hang():
    print("stopping", flush=True)
    if "block" in sys.argv:
        await asyncio.to_thread(time.sleep, 3600)
    await asyncio.sleep(3600)

options = ServerOptions(drain_seconds=3000)
listening = listen("127.0.0.1", 0)
app = create_app(tiny_corpus(), options)
app.state.stopping = hang
run_server(app, listening, options, lambda: print("ready", flush=True))
print("ended", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
class TestSignals:
    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        return process

    def test_a_second_one_ends_the_server_at_once(self) -> None:
        with self.begin() as process:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == "ended\n"
            assert process.returncode == 0

    def test_a_second_one_ends_the_process_where_a_thread_holds_it_up(self) -> None:
        with self.begin("block") as process:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == ""
            assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_the_limit_of_open_files_is_raised_and_what_lacks_is_said() -> None:
    program = """
import json, logging, resource, sys
from vrag.server.http import uvicorn_server
logging.basicConfig(stream=sys.stdout, format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 900))
uvicorn_server.raise_file_limit(800)
print(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)))
uvicorn_server.raise_file_limit(1000)
print(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    first, warning, second = told.splitlines()
    assert (json.loads(first), json.loads(second)) == ([800, 900], [900, 900])
    assert "900 open files" in warning
    assert "1000" in warning
