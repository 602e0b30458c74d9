"""A real HTTP server of OpenAI's chat completions, whose replies and faults are scripted.

It is written on bare sockets, as a web framework would keep it from most of the faults: it breaks
off inside a chunk, stays silent before and after its headers, and knows when a client hangs up.
It runs in a thread of its own and serves any number of clients at once.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, cast

__all__ = ["Asked", "ChatServer", "Cut", "Hang", "Raw", "Refuse", "Reply", "Say"]


@dataclass(frozen=True)
class Asked:
    """A call as it arrived."""

    index: int
    """In order of arrival, from 0."""
    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when the client hung up before the end of the reply."""
    done: threading.Event = field(default_factory=threading.Event)
    """Set when the reply was sent, or given up."""

    @property
    def turn(self) -> int:
        """Replies of the model so far in the conversation."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])

    @property
    def question(self) -> str:
        """The last text of the first turn that is no system turn."""
        first = next(message for message in self.body["messages"] if message["role"] != "system")
        return _texts(first["content"])[-1]

    @property
    def text(self) -> str:
        """All text of the conversation."""
        return "\n".join(text for message in self.body["messages"] for text in _texts(message["content"]))

    @property
    def images(self) -> list[str]:
        """The URLs of all pictures of the conversation."""
        contents = [m["content"] for m in self.body["messages"] if isinstance(m["content"], list)]
        parts = [part for content in contents for part in content]
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@dataclass(frozen=True)
class Say:
    """A reply: thoughts, then text, then tool calls, in pieces."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each tool call."""
    finish: str | None = "stop"
    """None leaves it out, and with it what tells a whole reply from half of one."""
    piece: int = 8
    """Characters of a piece."""
    first: float = 0.0
    """Seconds before the first piece."""
    pause: float = 0.0
    """Seconds before each other."""
    usage: tuple[int, int] | None = (100, 20)
    """Tokens of prompt and reply; sent where the call asks for them."""
    cached: int | None = None
    prompt_ids: tuple[int, ...] = ()
    """Sent where the call asks for ids."""
    ids: tuple[int, ...] = ()
    """The same; the first piece takes them all."""
    logprobs: tuple[float, ...] = ()
    """Sent where the call asks for them, with the first piece."""
    thought_field: str = "reasoning_content"
    cut: int | None = None
    """Chunks after which the connection is cut, inside the next one. The first chunk is the role."""
    hang: int | None = None
    """Chunks after which nothing more comes."""
    garbage: int | None = None
    """The chunk in whose place comes one that is no JSON, from 0."""
    error: int | None = None
    """The chunk in whose place an error comes."""


@dataclass(frozen=True)
class Refuse:
    """An answer that is no reply."""

    status: int
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str | int | None = None
    body: bytes | None = None
    """Instead of a JSON error."""


@dataclass(frozen=True)
class Hang:
    """Nothing comes, not even headers, until the client hangs up."""


@dataclass(frozen=True)
class Cut:
    """The connection is cut before the headers."""


@dataclass(frozen=True)
class Raw:
    """A response of 200 with just these bytes, each sent for itself."""

    pieces: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pause: float = 0.0
    """Seconds between them."""
    framed: bool = True
    """Whether the response says where it ends; otherwise it ends as a connection that broke off."""


Reply: TypeAlias = Say | Refuse | Hang | Cut | Raw
Script: TypeAlias = Sequence[Reply] | Callable[[Asked], Reply]


class ChatServer:
    """The server. Use it in a `with` block: it listens inside.

    Args:
        script: Replies in order of the calls, of which the last repeats, or what makes one of a call.
        models: What `/v1/models` lists; a call of another model is answered 404. None takes any.
        key: What clients must send, if anything.
        refuses: Fields of a call that are answered 400.
        streams: Whether it does as it is asked with `stream`; otherwise it never streams.
        slow: Seconds to wait before the headers of every answer.
    """

    def __init__(
        self,
        script: Script,
        *,
        models: Sequence[str] | None = ("scripted",),
        key: str | None = None,
        refuses: frozenset[str] = frozenset(),
        streams: bool = True,
        slow: float = 0.0,
    ) -> None:
        self.requests: list[Asked] = []
        self.connections = 0
        """Connections that were ever made."""
        self.open = 0
        """Calls that are being answered now."""
        self.peak = 0
        """The most at once so far."""
        self._script, self._models, self._key = script, models, key
        self._refuses, self._streams, self._slow = refuses, streams, slow
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="chat-server", daemon=True)
        self._listening = threading.Event()
        self._clients: set[asyncio.Task[None]] = set()
        self._port = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL, up to and with `/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listening.wait(60):
            raise TimeoutError("the server does not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it at once, as if killed: whatever is being answered is cut off."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def wait_for(self, calls: int, seconds: float = 10.0) -> None:
        """Waits, from outside of any event loop, until so many calls have arrived.

        Raises:
            TimeoutError: If they do not.
        """
        ends = time.monotonic() + seconds
        while len(self.requests) < calls:
            if time.monotonic() > ends:
                raise TimeoutError(f"{len(self.requests)} of {calls} calls arrived")
            time.sleep(0.005)

    def cut(self) -> None:
        """Cuts every connection; the server goes on."""
        self._loop.call_soon_threadsafe(lambda: [client.cancel() for client in self._clients])

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)
        self._server = self._loop.run_until_complete(start)
        self._port = self._server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        self._loop.run_until_complete(asyncio.gather(*clients, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        self.connections += 1
        client = _Client(reader, writer)
        try:
            while (call := await client.request()) is not None:
                if not await self._answered(client, *call):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            await client.close()

    async def _answered(self, client: _Client, path: str, headers: dict[str, str], body: bytes) -> bool:
        """Whether the connection can be used on."""
        if self._key is not None and headers.get("authorization") != f"Bearer {self._key}":
            return await client.refuse(Refuse(401, f"wrong key: {headers.get('authorization')}"))
        if path == "/v1/models":
            listed = [{"id": name, "object": "model", "max_model_len": 4096} for name in self._models or ()]
            return await client.json({"object": "list", "data": listed})
        if path != "/v1/chat/completions":
            return await client.refuse(Refuse(404, "Not Found"))
        asked = Asked(len(self.requests), json.loads(body), headers)
        self.requests.append(asked)
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            return await self._replied(client, asked)
        finally:
            self.open -= 1
            if client.gone.is_set():
                asked.gone.set()
            asked.done.set()

    async def _replied(self, client: _Client, asked: Asked) -> bool:
        if self._slow:
            await client.sleep(self._slow)
        match self._refused(asked) or self._scripted(asked):
            case Say() as say:
                return await self._said(client, asked, say)
            case Refuse() as refuse:
                return await client.refuse(refuse)
            case Raw() as raw:
                return await client.raw(raw)
            case Hang():
                await client.gone.wait()
            case Cut():
                pass
        return False

    def _refused(self, asked: Asked) -> Refuse | None:
        for name in sorted(self._refuses & asked.body.keys()):
            return Refuse(400, f"Unrecognized request argument supplied: {name}")
        model = asked.body.get("model")
        if self._models is not None and model not in self._models:
            return Refuse(404, f"The model `{model}` does not exist.")
        return None

    def _scripted(self, asked: Asked) -> Reply:
        if callable(self._script):
            return self._script(asked)
        return self._script[min(asked.index, len(self._script) - 1)]

    async def _said(self, client: _Client, asked: Asked, say: Say) -> bool:
        if not (asked.body.get("stream") and self._streams):
            return await client.json(_whole(asked, say))
        await client.head(200, {"Content-Type": "text/event-stream; charset=utf-8"})
        await client.sleep(say.first)
        for number, chunk in enumerate(_chunks(asked, say)):
            if number == say.cut:
                return await client.half(chunk)
            if number == say.hang:
                await client.gone.wait()
                return False
            if number == say.garbage:
                await client.event(b'{"choices": [{"delta": {"content": "ha')
            elif number == say.error:
                await client.event(b'{"error": {"message": "the engine died", "code": 500}}')
            else:
                await client.event(json.dumps(chunk).encode())
            await client.sleep(say.pause)
        await client.event(b"[DONE]")
        return await client.end()


class _Client:
    """A connection. What arrives is read all the time, so that hanging up is noticed at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._socket, self._writer = reader, writer
        self._inbox = asyncio.StreamReader(limit=1 << 26)
        self.gone = asyncio.Event()
        self._pump = asyncio.create_task(self._pumped())

    async def _pumped(self) -> None:
        with suppress(ConnectionError):
            while data := await self._socket.read(1 << 18):
                self._inbox.feed_data(data)
        self._inbox.feed_eof()
        self.gone.set()

    async def close(self) -> None:
        self._pump.cancel()
        self._writer.transport.abort()
        with suppress(ConnectionError, asyncio.CancelledError):
            await self._writer.wait_closed()

    async def request(self) -> tuple[str, dict[str, str], bytes] | None:
        """Path, headers and body of the next request; None when the client has hung up."""
        try:
            head = await self._inbox.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").rstrip().split("\r\n")
            fields = [line.partition(":") for line in lines]
            headers = {name.lower(): value.strip() for name, _, value in fields}
            body = await self._inbox.readexactly(int(headers.get("content-length", "0")))
        except asyncio.IncompleteReadError:
            return None
        return first.split(" ")[1], headers, body

    async def sleep(self, seconds: float) -> None:
        """Waits; ends at once when the client hangs up.

        Raises:
            ConnectionResetError: If it has.
        """
        if seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.gone.wait(), seconds)
        if self.gone.is_set():
            raise ConnectionResetError

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        fields = {"Transfer-Encoding": "chunked"} | dict(headers)
        lines = [f"HTTP/1.1 {status} scripted", *(f"{name}: {value}" for name, value in fields.items())]
        await self._send("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self._send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, data: bytes) -> None:
        await self.chunk(b"data: %b\n\n" % data)

    async def end(self) -> bool:
        await self._send(b"0\r\n\r\n")
        return True

    async def half(self, chunk: Mapping[str, Any]) -> bool:
        """Half an event, and no more."""
        data = b"data: " + json.dumps(chunk).encode()
        await self._send(b"%x\r\n%b" % (len(data), data[: len(data) // 2]))
        return False

    async def json(
        self, body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> bool:
        await self.head(status, {"Content-Type": "application/json", **(headers or {})})
        await self.chunk(json.dumps(body).encode())
        return await self.end()

    async def refuse(self, refuse: Refuse) -> bool:
        if refuse.body is None:
            error = {"message": refuse.message, "code": refuse.code}
            return await self.json({"error": error}, refuse.status, refuse.headers)
        await self.head(refuse.status, {"Content-Type": "text/plain", **refuse.headers})
        await self.chunk(refuse.body)
        return await self.end()

    async def raw(self, raw: Raw) -> bool:
        if not raw.framed:
            head = f"HTTP/1.1 200 scripted\r\nContent-Type: {raw.content_type}\r\nConnection: close\r\n\r\n"
            await self._send(head.encode() + b"".join(raw.pieces))
            return False
        await self.head(200, {"Content-Type": raw.content_type, **raw.headers})
        for piece in raw.pieces:
            await self.chunk(piece)
            await self.sleep(raw.pause)
        return await self.end()

    async def _send(self, data: bytes) -> None:
        if self.gone.is_set():
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()


def _chunks(asked: Asked, say: Say) -> list[dict[str, Any]]:
    """All chunks of the stream, as vLLM sends them: the role, the pieces, the end, the usage."""
    with_ids = bool(asked.body.get("return_token_ids"))
    first = _chunk(asked, {"role": "assistant", "content": ""})
    if with_ids and say.prompt_ids:
        first["prompt_token_ids"] = list(say.prompt_ids)
    pieces = [_chunk(asked, delta) for delta in _deltas(say)]
    if pieces and with_ids and say.ids:
        for number, piece in enumerate(pieces):
            piece["choices"][0]["token_ids"] = [] if number else list(say.ids)
    if pieces and asked.body.get("logprobs") and say.logprobs:
        content = [{"token": "?", "logprob": one} for one in say.logprobs]
        pieces[0]["choices"][0]["logprobs"] = {"content": content}
    chunks = [first, *pieces]
    if say.finish is not None:
        chunks.append(_chunk(asked, {}, say.finish))
    if say.usage and "stream_options" in asked.body:
        chunks.append(_chunk(asked) | {"choices": [], "usage": _usage(say)})
    return chunks


def _deltas(say: Say) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{say.thought_field: piece} for piece in _pieces(say.thought, say.piece)]
    deltas += [{"content": piece} for piece in _pieces(say.text, say.piece)]
    for index, (name, arguments) in enumerate(say.calls):
        head = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name}}
        deltas.append({"tool_calls": [head]})
        for piece in _pieces(arguments, say.piece):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _chunk(asked: Asked, delta: Mapping[str, Any] | None = None, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta or {}), "finish_reason": finish}
    return {
        "id": f"chatcmpl-{asked.index}",
        "object": "chat.completion.chunk",
        "model": asked.body.get("model"),
        "choices": [choice],
    }


def _whole(asked: Asked, say: Say) -> dict[str, Any]:
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(say.calls)
    ]
    message = {"role": "assistant", "content": say.text or None, "tool_calls": calls}
    if say.thought:
        message[say.thought_field] = say.thought
    return {
        "id": f"chatcmpl-{asked.index}",
        "object": "chat.completion",
        "created": 1,
        "model": asked.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish}],
        "usage": _usage(say) if say.usage else None,
    }


def _usage(say: Say) -> dict[str, Any]:
    prompt, completion = say.usage or (0, 0)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return usage if say.cached is None else usage | {"prompt_tokens_details": {"cached_tokens": say.cached}}


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return [part["text"] for part in parts if part["type"] == "text"]
