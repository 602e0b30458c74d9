"""One call of a model: a request, the stream that answers it, and how long each part may take."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar, cast

import httpx

from vrag.chat.errors import (
    CLOSED,
    RetryableError,
    ServerComplaint,
    failure_of,
    plain_http_hint,
    reach_hint,
    seconds_asked,
)
from vrag.chat.reply_builder import MalformedChunk, ReplyBuilder, ReplyTooLong, StreamedError
from vrag.chat.request import can_do_without, request_body
from vrag.chat.sse import EventReader, LineTooLong
from vrag.errors import ContextTooLong, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence

    from vrag.chat.messages import ChatDelta, ChatMessage, ChatOptions, ChatReply

__all__ = ["Call", "ChatTimeouts", "RequestRefused"]

T = TypeVar("T")

_LINE_BYTES = 8 * 1024 * 1024
"""Of a line of the stream: the ids of a long prompt come in one."""
_PROBLEM_BYTES = 64 * 1024
_TRAIL_SECONDS = 5.0
"""To wait for the usage after the last token."""
_DRAIN_SECONDS = 0.2
"""To wait for the end of the response after the end of the stream, so that the connection can be kept."""
_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_UNFINISHED = frozenset({"abort", "aborted", "error", "cancelled"})
"""Finish reasons of a server that gave the reply up: vLLM, SGLang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTimeouts:
    """How long to wait, in seconds. Waiting for a place among the calls is not counted."""

    connect_seconds: float = 10.0
    """For a connection."""
    first_token_seconds: float = 120.0
    """From the request to the first piece of the reply: queue and prompt of the server."""
    token_seconds: float = 60.0
    """From one piece of the reply to the next."""
    call_seconds: float = 600.0
    """For the whole, with all its retries and pauses."""


class RequestRefused(Exception):
    """The server does not want this call; asking again does not help.

    Args:
        status: Of its answer.
        error: What to raise.
    """

    def __init__(self, status: int, error: ModelError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


@dataclass(slots=True, kw_only=True)
class Call:
    """A call and what is known about it so far; made anew for every reply."""

    server: str
    """Its base URL."""
    key: str | None = field(repr=False)
    model: str
    messages: Sequence[ChatMessage]
    options: ChatOptions
    timeouts: ChatTimeouts
    max_characters: int
    without: frozenset[str]
    """Fields that the server has refused."""
    _draft: ReplyBuilder = field(default_factory=lambda: ReplyBuilder(0))
    """Of the try that is under way."""
    _in_one: bool = False
    """Whether its answer is no stream."""
    _ended: bool = False
    """Whether the answer came to an end that cannot be that of a connection which broke off."""
    _deadline: float | None = None
    """When all of it must have ended, in the time of `time.monotonic`."""
    _waited: float = 0.0
    """Seconds since the last piece that were spent waiting for the server, not for whoever reads."""

    def begin(self, waited: float) -> None:
        """Starts the clock of the whole, or lets it run on after a wait for a place.

        Args:
            waited: Seconds that this took, which do not count.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + self.timeouts.call_seconds
        else:
            self._deadline += waited

    @property
    def seconds_left(self) -> float:
        """For the whole."""
        return (self._deadline or 0.0) - time.monotonic()

    async def once(self, client: httpx.AsyncClient) -> AsyncGenerator[ChatDelta | ChatReply, None]:
        """Makes the call; fields that the server refuses are left out, those that can be.

        Raises:
            Passing: If it failed and may not the next time.
            Refused: If the server does not want it.
            ModelError: If it failed otherwise.
        """
        self._draft, self._in_one, self._ended = ReplyBuilder(self.max_characters), False, False
        response = await self._sent(client)
        try:
            async with aclosing(self._deltas(response)) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            await response.aclose()
        yield self._finished()

    async def _sent(self, client: httpx.AsyncClient) -> httpx.Response:
        """The response that carries a reply, as far as its headers."""
        while True:
            self._waited = 0.0
            body = self._body()
            headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
            url = f"{self.server}/chat/completions"
            request = client.build_request("POST", url, content=body, headers=headers)
            response = await self._awaited(client.send(request, stream=True))
            if response.status_code == HTTPStatus.OK:
                return response
            complaint = await self._complaint(response)
            failure = failure_of(complaint, self.server)
            spared = self._spared(complaint, failure, body)
            if spared:
                self.without |= spared
            elif isinstance(failure, RetryableError):
                raise failure
            else:
                raise RequestRefused(complaint.status, failure)

    def _body(self) -> bytes:
        try:
            return request_body(self.model, self.messages, self.options, self.without)
        except ValueError as error:
            raise ModelError(f"The options of the call cannot be sent: {error}.") from error

    def _spared(self, complaint: ServerComplaint, failure: Exception, body: bytes) -> frozenset[str]:
        """Fields that the server refuses and the call can do without."""
        if complaint.status not in _REFUSALS or isinstance(failure, ContextTooLong):
            return frozenset()
        return can_do_without(body, complaint.message) - self.without

    async def _complaint(self, response: httpx.Response) -> ServerComplaint:
        body = bytearray()
        try:
            async with aclosing(_raw(response)) as raw:
                while len(body) < _PROBLEM_BYTES and (data := await self._awaited(anext(raw, b""))):
                    body += data
        except (RetryableError, ModelError):
            pass  # the status says enough
        finally:
            await response.aclose()
        if response.status_code in CLOSED:
            body.clear()
        asked = seconds_asked(response.headers, time.time())
        return ServerComplaint.of(response.status_code, bytes(body[:_PROBLEM_BYTES]), self.key, asked)

    async def _deltas(self, response: httpx.Response) -> AsyncGenerator[ChatDelta, None]:
        """The pieces of the reply until the stream ends.

        Once the model has said why it stopped, whatever goes wrong costs no more than the usage.
        """
        draft = self._draft
        async with aclosing(self._chunks(response)) as chunks:
            while True:
                try:
                    chunk = await anext(chunks, None)
                    deltas = draft.take(chunk) if chunk is not None else []
                except (RetryableError, MalformedChunk, StreamedError, LineTooLong, ReplyTooLong) as failure:
                    if draft.finish is None or isinstance(failure, ReplyTooLong):
                        raise self._broken(failure) from failure
                    return
                if chunk is None:
                    return
                if deltas or draft.finish is not None:
                    self._waited = 0.0
                for delta in deltas:
                    yield delta

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The data of the stream's events, up to its end."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ModelError(f"{self.server} answered compressed, which was not asked for.")
        if kind == "text/html":
            raise ModelError(f"{self.server} answered with a web page.", "Check the base URL.")
        async with aclosing(_raw(response)) as raw:
            if kind == "application/json":  # it does not stream, whatever it is asked
                self._in_one = True
                yield await self._whole(raw)
                self._ended = True
                return
            reader = EventReader(_LINE_BYTES)
            while data := await self._awaited(anext(raw, b"")):
                for event in reader.feed(data):
                    if event.strip() == b"[DONE]":
                        self._ended = True
                        await _drained(raw)
                        return
                    yield event
            for event in reader.finish():
                yield event
            self._ended = _has_framing(response)

    async def _whole(self, raw: AsyncGenerator[bytes, None]) -> bytes:
        body = bytearray()
        while data := await self._awaited(anext(raw, b"")):
            body += data
            if len(body) > _LINE_BYTES:
                raise LineTooLong
        return bytes(body)

    async def _awaited(self, what: Awaitable[T]) -> T:
        """What the server does next, if it does it in time.

        Raises:
            Passing: If it does not, or the connection fails.
            ModelError: If the time of the whole has run out.
        """
        seconds, late = self._patience()
        begun = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                return await what
        except TimeoutError:
            raise late from None
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            self._waited += time.monotonic() - begun

    def _patience(self) -> tuple[float, RetryableError | ModelError]:
        """How long to wait for what comes next, and what is wrong when it does not."""
        if self._draft.finish is not None:
            return _TRAIL_SECONDS - self._waited, RetryableError(ModelError("The usage did not come."))
        if self._draft.spoken:
            name, limit, what = "VRAG_TOKEN_SECONDS", self.timeouts.token_seconds, "stopped writing"
        else:
            limit, what = self.timeouts.first_token_seconds, "wrote nothing"
            name = "VRAG_FIRST_TOKEN_SECONDS"
        if self.seconds_left < limit - self._waited:
            whole = self.timeouts.call_seconds
            return self.seconds_left, ModelError(
                f"The call of {self.server} took longer than {whole:g} s.", "Raise VRAG_CALL_SECONDS."
            )
        error = ModelError(f"{self.server} {what} for {limit:g} s.", f"Raise {name} if it is only slow.")
        return limit - self._waited, RetryableError(error, times=1)

    def _unreachable(self, error: Exception) -> RetryableError | ModelError:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout):
            limit = self.timeouts.connect_seconds
            late = ModelError(
                f"{self.server} did not take the connection in {limit:g} s.", "Raise VRAG_CONNECT_SECONDS."
            )
            return RetryableError(late, times=1)
        if "CERTIFICATE" in reason:
            return ModelError(
                f"The certificate of {self.server} is not accepted: {reason}",
                "Name its authority in SSL_CERT_FILE.",
            )
        if isinstance(error, httpx.ConnectError):
            unreached = ModelError(
                f"{self.server} cannot be reached: {reason}.", reach_hint(error, self.server)
            )
            return RetryableError(unreached, times=0 if plain_http_hint(error, self.server) else 1000)
        return RetryableError(
            ModelError(f"The connection to {self.server} broke off: {reason.rstrip(chr(46))}.")
        )

    def _broken(self, failure: Exception) -> Exception:
        """What a stream that cannot be read on means."""
        match failure:
            case StreamedError():
                complaint = ServerComplaint.in_stream(failure.body, self.key)
                error = failure_of(complaint, self.server)
                return error if isinstance(error, RetryableError) else RequestRefused(complaint.status, error)
            case MalformedChunk() if self._in_one:
                return self._formless()
            case MalformedChunk():
                return RetryableError(ModelError(f"{self.server} sent a chunk that is no JSON object."))
            case LineTooLong():
                return ModelError(f"{self.server} sent a line of more than {_LINE_BYTES:,} bytes.")
            case ReplyTooLong():
                return ModelError(
                    f"The reply of {self.model} is longer than {self.max_characters:,} characters.",
                    "Bound it: VRAG_MAX_TOKENS.",
                )
            case _:
                return failure

    def _formless(self) -> RetryableError:
        error = ModelError(
            f"{self.server} did not answer in the form of chat completions.", "Check the base URL."
        )
        return RetryableError(error, times=1)

    def _finished(self) -> ChatReply:
        finish = self._draft.finish
        if finish is None and not self._draft.begun:
            raise self._formless()
        whole = self._ended and self._draft.spoken and (self._in_one or self._draft.closed)
        if finish is None and not whole:
            raise RetryableError(ModelError(f"{self.server} broke off in the middle of a reply."))
        if finish in _UNFINISHED:
            raise RetryableError(ModelError(f"{self.server} gave up in the middle of a reply: {finish}."))
        return self._draft.reply()


def _raw(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes; to be closed by whoever reads it."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_raw())


def _has_framing(response: httpx.Response) -> bool:
    """Whether a body that broke off would have been noticed: it is chunked or counted, or of HTTP/2."""
    framed = {"transfer-encoding", "content-length"} & set(response.headers)
    return bool(framed) or response.http_version == "HTTP/2"


async def _drained(raw: AsyncGenerator[bytes, None]) -> None:
    """Reads what little follows the end of the stream."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in raw:
                pass
    except (TimeoutError, httpx.HTTPError, OSError):
        pass  # then the connection is not kept
