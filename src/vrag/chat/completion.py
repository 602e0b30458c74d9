"""One call of a model: the request, the stream of the reply, and the time limits of each part."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar, cast

import httpx

from vrag.chat import errors
from vrag.chat.errors import RetryableError
from vrag.chat.messages import can_do_without, request_body
from vrag.chat.reply_builder import (
    EventReader,
    LineTooLong,
    MalformedChunk,
    ReplyBuilder,
    ReplyTooLong,
    StreamedError,
)
from vrag.errors import ContextTooLong, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence

    from vrag.chat.messages import ChatDelta, ChatMessage, ChatOptions, ChatReply

T = TypeVar("T")

_MAX_LINE_BYTES = 8 * 1024 * 1024
"""Maximum length of a line of the stream: the ids of a long prompt come in one line."""
_MAX_ERROR_BYTES = 64 * 1024
_UNFINISHED = frozenset({"abort", "aborted", "error", "cancelled"})
"""Finish reasons of incomplete replies: vLLM, SGLang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTimeouts:
    """Time limits in seconds. Waiting for a place in the concurrency limit does not count."""

    connect_seconds: float = 10.0
    """Time limit for a connection."""
    first_token_seconds: float = 120.0
    """Time from the request to the first piece of the reply: queue and prompt processing of the server."""
    token_seconds: float = 60.0
    """Time from one piece of the reply to the next."""
    call_seconds: float = 600.0
    """Time for the whole call, with all retries and pauses."""


class RequestRefused(Exception):
    """The server refuses the request; retries do not help. `error` is the error to raise."""

    def __init__(self, status: int, error: ModelError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


@dataclass(slots=True, kw_only=True)
class Call:
    """A call and its state. Each reply needs a new one."""

    server: str
    """Base URL."""
    key: str | None = field(repr=False)
    model: str
    messages: Sequence[ChatMessage]
    options: ChatOptions
    timeouts: ChatTimeouts
    max_characters: int
    without: frozenset[str]
    """Fields that the server has refused."""
    _builder: ReplyBuilder = field(default_factory=lambda: ReplyBuilder(0))
    """The reply of the current attempt."""
    _in_one: bool = False
    """True if the response is not a stream."""
    _complete: bool = False
    """True if the response ended in a way that a broken connection cannot."""
    _deadline: float | None = None
    """End of the whole call, in the time of `time.monotonic`."""
    _waited: float = 0.0
    """Seconds since the last piece that were spent waiting for the server, not for the reader."""

    def start_clock(self, waited: float) -> None:
        """Start the time limit of the call; on a retry, add the seconds spent waiting for a place."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.timeouts.call_seconds
        else:
            self._deadline += waited

    @property
    def seconds_left(self) -> float:
        """Remaining time of the whole call."""
        return (self._deadline or 0.0) - time.monotonic()

    async def attempt(self, client: httpx.AsyncClient) -> AsyncGenerator[ChatDelta | ChatReply, None]:
        """Make the call. Fields that the server refuses are left out if possible.

        Once the model has given a finish reason, any failure costs no more than the usage.

        Raises `RetryableError` if the failure is temporary, `RequestRefused` if the server refuses it, and
        `ModelError` if it failed otherwise.
        """
        self._builder, self._in_one, self._complete = ReplyBuilder(self.max_characters), False, False
        response = await self._send(client)
        async with aclosing(response), aclosing(self._chunks(response)) as chunks:
            while True:
                try:
                    chunk = await anext(chunks, None)
                    deltas = self._builder.add(chunk) if chunk is not None else []
                except (RetryableError, MalformedChunk, StreamedError, LineTooLong, ReplyTooLong) as failure:
                    if self._builder.finish is None or isinstance(failure, ReplyTooLong):
                        raise self._stream_error(failure) from failure
                    break
                if chunk is None:
                    break
                if deltas or self._builder.finish is not None:
                    self._waited = 0.0
                for delta in deltas:
                    yield delta
        yield self._reply()

    async def _send(self, client: httpx.AsyncClient) -> httpx.Response:
        """Return the response that contains a reply, with its body unread."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        while True:
            self._waited = 0.0
            try:
                body = request_body(self.model, self.messages, self.options, self.without)
            except ValueError as error:
                raise ModelError(f"The options of the call cannot be sent: {error}.") from error
            url = f"{self.server}/chat/completions"
            request = client.build_request("POST", url, content=body, headers=headers)
            response = await self._wait_for(client.send(request, stream=True))
            if response.status_code == HTTPStatus.OK:
                return response
            error_response = await self._read_error(response)
            failure = errors.failure_of(error_response, self.server)
            dispensable = frozenset[str]()
            if error_response.status in {400, 422} and not isinstance(failure, ContextTooLong):
                dispensable = can_do_without(body, error_response.message) - self.without
            if dispensable:
                self.without |= dispensable
            elif isinstance(failure, RetryableError):
                raise failure
            else:
                raise RequestRefused(error_response.status, failure)

    async def _read_error(self, response: httpx.Response) -> errors.ErrorResponse:
        body = bytearray()
        with suppress(RetryableError, ModelError):  # the status is enough
            async with aclosing(response), aclosing(_raw(response)) as raw:
                while len(body) < _MAX_ERROR_BYTES and (data := await self._wait_for(anext(raw, b""))):
                    body += data
        if response.status_code in errors.CLOSED:
            body.clear()
        asked = errors.seconds_asked(response.headers, time.time())
        return errors.ErrorResponse.of(response.status_code, bytes(body[:_MAX_ERROR_BYTES]), self.key, asked)

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """Yield the data of the stream's events, up to its end."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ModelError(f"{self.server} compressed its answer although the request forbids it.")
        if media_type == "text/html":
            raise ModelError(f"{self.server} answered with a web page.", "Check the base URL.")
        async with aclosing(_raw(response)) as raw:
            if media_type == "application/json":  # the server does not stream
                self._in_one = True
                body = bytearray()
                while data := await self._wait_for(anext(raw, b"")):
                    body += data
                    if len(body) > _MAX_LINE_BYTES:
                        raise LineTooLong
                yield bytes(body)
                self._complete = True
                return
            reader = EventReader(_MAX_LINE_BYTES)
            while data := await self._wait_for(anext(raw, b"")):
                for event in reader.feed(data):
                    if event.strip() == b"[DONE]":
                        self._complete = True
                        await _drain(raw)
                        return
                    yield event
            for event in reader.finish():
                yield event
            # With these, httpx notices a body that broke off.
            framed = {"transfer-encoding", "content-length"} & set(response.headers)
            self._complete = bool(framed) or response.http_version == "HTTP/2"

    async def _wait_for(self, step: Awaitable[T]) -> T:
        """Wait for the next step of the server, within its time limit.

        Raises `RetryableError` if it takes too long or the connection fails, `ModelError` if the time of the
        whole call is over.
        """
        seconds, late = self._time_limit()
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                return await step
        except TimeoutError:
            raise late from None
        except (httpx.HTTPError, OSError) as error:
            raise self._connection_error(error) from error
        finally:
            self._waited += time.monotonic() - started

    def _time_limit(self) -> tuple[float, RetryableError | ModelError]:
        """Return the time limit of the next step in seconds, and the error if it passes."""
        if self._builder.finish is not None:
            late = RetryableError(ModelError("The server did not send the usage."))
            return 5.0 - self._waited, late  # usage comes soon after the last token, or never
        if self._builder.started:
            setting, limit, problem = "VRAG_TOKEN_SECONDS", self.timeouts.token_seconds, "stopped writing"
        else:
            limit, problem = self.timeouts.first_token_seconds, "wrote nothing"
            setting = "VRAG_FIRST_TOKEN_SECONDS"
        if self.seconds_left < limit - self._waited:
            message = f"The call of {self.server} took longer than {self.timeouts.call_seconds:g} s."
            return self.seconds_left, ModelError(message, "Raise VRAG_CALL_SECONDS.")
        hint = f"Raise {setting} if it is only slow."
        error = ModelError(f"{self.server} {problem} for {limit:g} s.", hint)
        return limit - self._waited, RetryableError(error, times=1)

    def _connection_error(self, error: Exception) -> RetryableError | ModelError:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout):
            message = f"{self.server} did not accept a connection within {self.timeouts.connect_seconds:g} s."
            return RetryableError(ModelError(message, "Raise VRAG_CONNECT_SECONDS."), times=1)
        if "CERTIFICATE" in reason:
            return ModelError(
                f"The certificate of {self.server} is not valid: {reason}",
                "Set SSL_CERT_FILE to the certificate of its authority.",
            )
        if isinstance(error, httpx.ConnectError):
            message = errors.unreached_message(error, self.server)
            is_final = errors.plain_http_hint(error, self.server) or errors.is_refused(error)
            times = 0 if is_final else 1000  # 1000: as the settings allow
            return RetryableError(ModelError(message, errors.reach_hint(error, self.server)), times=times)
        message = f"The connection to {self.server} broke off: {reason.rstrip('.')}."
        return RetryableError(ModelError(message))

    def _stream_error(self, failure: Exception) -> Exception:
        match failure:
            case StreamedError():
                error_response = errors.ErrorResponse.in_stream(failure.body, self.key)
                error = errors.failure_of(error_response, self.server)
                temporary = isinstance(error, RetryableError)
                return error if temporary else RequestRefused(error_response.status, error)
            case MalformedChunk() if self._in_one:
                return self._format_error()
            case MalformedChunk():
                return RetryableError(ModelError(f"{self.server} sent a chunk that is no JSON object."))
            case LineTooLong():
                return ModelError(f"{self.server} sent a line of more than {_MAX_LINE_BYTES:,} bytes.")
            case ReplyTooLong():
                message = f"The reply of {self.model} is longer than {self.max_characters:,} characters."
                return ModelError(message, "Limit it with VRAG_MAX_TOKENS.")
            case _:
                return failure

    def _format_error(self) -> RetryableError:
        message = f"{self.server} did not answer in the form of chat completions."
        return RetryableError(ModelError(message, "Check the base URL."), times=1)

    def _reply(self) -> ChatReply:
        """Return the complete reply. Raises `RetryableError` if it is incomplete."""
        finish = self._builder.finish
        if finish is None and not self._builder.recognized:
            raise self._format_error()
        ended = self._complete and self._builder.started and (self._in_one or self._builder.closed)
        if finish is None and not ended:
            raise RetryableError(ModelError(f"{self.server} broke off in the middle of a reply."))
        if finish in _UNFINISHED:
            raise RetryableError(ModelError(f"{self.server} gave up in the middle of a reply: {finish}."))
        return self._builder.reply()


def _raw(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; the reader must close it."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_raw())


async def _drain(raw: AsyncGenerator[bytes, None]) -> None:
    """Read the rest after the end of the stream; a connection where that fails is not kept."""
    with suppress(TimeoutError, httpx.HTTPError, OSError):
        # seconds; beyond that a new connection is cheaper than waiting to keep this one
        async with asyncio.timeout(0.2):
            async for _ in raw:
                pass
