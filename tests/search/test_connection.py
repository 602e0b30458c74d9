"""The connection of `SearchClient`: servers that are busy, slow, silent or gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vrag.errors import ServerError
from vrag.search.client import SearchClient
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Rogue:
    """A server that answers as the test says, byte by byte. Counts what it was asked."""

    def __init__(self, answer: Callable[[int], bytes | None], drip: float = 0.0) -> None:
        self.answer = answer
        self.drip = drip
        self.asked = 0
        self.heads: list[bytes] = []
        self.times: list[float] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            await reader.readexactly(int(length.group(1)) if length else 0)
            self.asked += 1
            self.heads.append(head)
            self.times.append(time.monotonic())
            answer = self.answer(self.asked)
            if answer is None:
                await asyncio.sleep(20)
            elif self.drip:
                for byte in answer:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(self.drip)
            else:
                writer.write(answer)
                await writer.drain()

    @contextlib.contextmanager
    def serving(self) -> Generator[str]:
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self.handle, "127.0.0.1", 0))
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]  # noqa: UP031
        finally:
            asyncio.run_coroutine_threadsafe(self._end(server), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.01)  # until the connections are closed


def response(body: bytes | object, status: str = "200 OK", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Content-Length": str(len(content)), "Content-Type": "application/json", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{lines}Connection: close\r\n\r\n".encode() + content


NOTHING = response(b'{"results": [{"score": [], "indice": [], "data": []}]}')


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_busy_server_is_asked_again(status: str) -> None:
    rogue = Rogue(lambda n: response({"detail": "busy"}, status) if n < 3 else NOTHING)
    with rogue.serving() as address, SearchClient(address, backoff=0.01) as client:
        assert client.search([Query("a")], 3) == [[]]
    assert rogue.asked == 3


def test_a_connection_that_breaks_is_made_again() -> None:
    rogue = Rogue(lambda n: b"" if n == 1 else NOTHING)
    with rogue.serving() as address, SearchClient(address, backoff=0.01) as client:
        assert client.search([Query("a")], 3) == [[]]
    assert rogue.asked == 2


def test_it_gives_up_in_the_end_and_says_why() -> None:
    rogue = Rogue(lambda _: response({"detail": "Too many searches are waiting."}, "503 Busy"))
    with (
        rogue.serving() as address,
        SearchClient(address, retries=2, backoff=0.01) as client,
        pytest.raises(ServerError, match=r"busy \(503\): Too many searches"),
    ):
        client.search([Query("a")], 3)
    assert rogue.asked == 3


@pytest.mark.parametrize(
    "status", ["400 No", "401 No", "403 No", "413 No", "422 No", "500 No", "502 No", "302 Go"]
)
def test_other_refusals_are_final(status: str) -> None:
    rogue = Rogue(lambda _: response({"detail": "no"}, status, Location="http://127.0.0.1:1/"))
    with (
        rogue.serving() as address,
        SearchClient(address, backoff=0.01) as client,
        pytest.raises(ServerError, match=rf"refused \({status[:3]}\): no"),
    ):
        client.search([Query("a")], 3)
    assert rogue.asked == 1


def test_it_waits_as_long_as_the_server_says() -> None:
    rogue = Rogue(lambda n: response({}, "503 Busy", Retry_After="1") if n == 1 else NOTHING)
    with rogue.serving() as address, SearchClient(address, backoff=0.001) as client:
        client.search([Query("a")], 3)
    assert rogue.times[1] - rogue.times[0] >= 1


def test_repetitions_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that were refused together must not come back together."""
    slept: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", slept.append)
    rogue = Rogue(lambda _: response({}, "503 Busy"))
    with rogue.serving() as address:
        for _ in range(4):
            with SearchClient(address, retries=1, backoff=1.0) as client, pytest.raises(ServerError):
                client.search([Query("a")], 3)
    assert len(set(slept)) == 4


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_a_server_that_does_not_run_is_said_so_at_once_with_the_command(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", slept.append)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        SearchClient(f"{host}:{port}", retries=3) as client,
        pytest.raises(ServerError, match="vrag serve --only search") as caught,
    ):
        client.search([Query("a")], 3)
    address = f"http://{host or '127.0.0.1'}:{port}"
    assert caught.value.message == f"Connection refused: no server listens at {address}."
    assert slept == []


def test_a_server_that_says_nothing_is_given_up_and_not_asked_again() -> None:
    rogue = Rogue(lambda _: None)
    started = time.monotonic()
    with (
        rogue.serving() as address,
        SearchClient(address, timeout=0.3) as client,
        pytest.raises(ServerError, match=r"longer than 0\.3 s"),
    ):
        client.search([Query("a")], 3)
    assert time.monotonic() - started < 5
    assert rogue.asked == 1


@pytest.mark.slow
def test_a_body_that_drips_is_given_up() -> None:
    rogue = Rogue(lambda _: response(b" " * 10_000), drip=0.02)
    started = time.monotonic()
    with (
        rogue.serving() as address,
        SearchClient(address, timeout=0.5) as client,
        pytest.raises(ServerError, match="longer than"),
    ):
        client.search([Query("a")], 3)
    assert time.monotonic() - started < 15
