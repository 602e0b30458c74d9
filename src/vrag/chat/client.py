"""The client of any server that speaks OpenAI's chat completions.

It is written on httpx rather than on the `openai` package. That one reads events and error bodies
of any length, follows redirects, adds headers from the environment that are meant for OpenAI to
requests to any server, and brings an HTTP stack of its own beside ours; retries, time-outs and
every check of what comes back would have been ours all the same.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx

from vrag.chat.completion import Call, ChatTimeouts, RequestRefused
from vrag.chat.concurrency_limit import ConcurrencyLimit
from vrag.chat.errors import CLOSED, RetryableError, ServerComplaint, failure_of, reach_hint
from vrag.chat.http_clients import Connections, base_of, checked_key
from vrag.chat.messages import ChatOptions, ChatReply, ChatRetry, ServedModel
from vrag.chat.request import RENAMED
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.chat.messages import ChatDelta, ChatMessage

__all__ = ["ChatRetries", "OpenAIChat"]

_LIST_SECONDS = 10.0
_LIST_BYTES = 4 * 1024 * 1024
_WORTH_TELLING = 1.0
"""Seconds of a pause that a server asks for, from which on people are told of it."""
_LISTED = 8
"""Models that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRetries:
    """What is done about failures that may pass."""

    times: int = 5
    """Tries after the first. Of a time-out there is one at most: the server may only be slow."""
    first_pause: float = 0.5
    """Seconds before the first, at most; the bound doubles, the pause is drawn below it (full jitter)."""
    longest_pause: float = 60.0
    """Seconds of a pause, at most. A server that asks for more is given up."""


class OpenAIChat:
    """A model behind an endpoint that speaks OpenAI's chat completions.

    May be shared by runs, threads and event loops: they share its places and its pauses.

    Args:
        base_url: Up to and with `/v1`, where the server has that.
        model: What the server calls the model.
        api_key: Sent as a bearer token; None where the server asks for none.
        key_variable: What messages call the place where people put the key.
        timeouts: How long to wait.
        retries: What is done about failures that may pass.
        concurrency: Calls at once.
        max_characters: That a reply may have, thoughts included.

    Raises:
        SettingsError: If address or key cannot be one.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        key_variable: str = "VRAG_MODEL_KEY",
        timeouts: ChatTimeouts | None = None,
        retries: ChatRetries | None = None,
        concurrency: int = 64,
        max_characters: int = 1_000_000,
    ) -> None:
        self.base_url = base_of(base_url)
        self.name = model
        self._key = checked_key(api_key, key_variable)
        self._key_variable = key_variable
        self._timeouts = timeouts or ChatTimeouts()
        self._retries = retries or ChatRetries()
        self._max_characters = max_characters
        self._gate = ConcurrencyLimit(concurrency)
        # OpenAI's newer models refuse `max_tokens`, and all take its new name.
        official = urlsplit(self.base_url).hostname == "api.openai.com"
        self._without = frozenset({RENAMED}) if official else frozenset[str]()
        self._connections = Connections(
            self.base_url, self._key, self._timeouts.connect_seconds, kept=concurrency
        )

    def __repr__(self) -> str:
        return f"OpenAIChat({self.base_url!r}, {self.name!r})"

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of a call that the server is known to refuse, under the names that they are sent by."""
        return self._without

    async def aclose(self) -> None:
        """Closes the connections of the running event loop, once the calls in flight there have ended."""
        await self._connections.aclose()

    async def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions | None = None
    ) -> AsyncGenerator[ChatDelta | ChatRetry | ChatReply, None]:
        """Writes the next reply: deltas, then the whole as the last part; see `ChatModel.stream`.

        Raises:
            ContextTooLong: If the conversation is longer than the model can take.
            ModelError: If no reply can be had.
        """
        call = Call(
            server=self.base_url,
            key=self._key,
            model=self.name,
            messages=messages,
            options=options or ChatOptions(),
            timeouts=self._timeouts,
            max_characters=self._max_characters,
            without=self._without,
        )
        for failures in itertools.count(1):
            try:
                async with aclosing(self._try_call(call)) as parts:
                    async for part in parts:
                        yield part
            except RequestRefused as refused:
                raise await self._refusal(refused) from None
            except RetryableError as passing:
                failure = passing
            else:
                return
            pause = self._pause(failure, failures, call)
            if pause is None:
                raise _given_up(failure) from failure.__cause__
            if failure.everyone:
                self._gate.pause(pause)
            yield ChatRetry(failure.error.message, pause)
            await asyncio.sleep(pause)

    async def _try_call(self, call: Call) -> AsyncGenerator[ChatDelta | ChatReply, None]:
        """One try; the place is free again before the whole reply is given."""
        reply = None
        asked = time.monotonic()
        async with self._gate.place(), self._connections.client() as client:
            call.begin(waited=time.monotonic() - asked)
            async with aclosing(call.once(client)) as parts:
                async for part in parts:
                    if isinstance(part, ChatReply):
                        reply = part
                    else:
                        yield part
        if reply is not None:
            self._without |= call.without  # only now is it known that this was what kept it
            yield reply

    async def models(self) -> tuple[ServedModel, ...]:
        """What the server offers, by its own names.

        Raises:
            ModelError: If it does not say.
        """
        url = f"{self.base_url}/models"
        try:
            async with asyncio.timeout(_LIST_SECONDS), self._connections.client() as client:
                status, body = await _get(client, url)
        except (TimeoutError, httpx.HTTPError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(
                f"{self.base_url} does not answer: {reason}.", reach_hint(error, self.base_url)
            ) from error
        if status != HTTPStatus.OK:
            complaint = ServerComplaint.of(status, b"" if status in CLOSED else body, self._key)
            failure = failure_of(complaint, self.base_url)
            error = failure.error if isinstance(failure, RetryableError) else failure
            raise ModelError(error.message, self._hint(status) or error.hint)
        return _served(body, self.base_url)

    def _pause(self, failure: RetryableError, failures: int, call: Call) -> float | None:
        """Seconds before the next try; None where there is to be none."""
        retries = self._retries
        if failures > min(retries.times, failure.times) or failure.asked > retries.longest_pause:
            return None
        bound = min(retries.longest_pause, retries.first_pause * 2.0 ** (failures - 1))
        pause = failure.asked + random.uniform(0, bound)
        return pause if pause < call.seconds_left else None

    async def _refusal(self, refused: RequestRefused) -> ModelError:
        """The error of a server that does not want this call, with what this client knows about why."""
        hint = self._hint(refused.status)
        if refused.status == HTTPStatus.NOT_FOUND:
            hint = await self._offers()
        return type(refused.error)(refused.error.message, hint or refused.error.hint)

    def _hint(self, status: int) -> str:
        if status in CLOSED:
            what = "The key there is not accepted" if self._key else "No key is set"
            return f"{what}: {self._key_variable}."
        if 300 <= status < 400:
            return "Give the address that it redirects to."
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} and not self._versioned:
            return f"Most servers want /v1 at the end: {self.base_url}/v1."
        return ""

    @property
    def _versioned(self) -> bool:
        """Whether the address ends in a version, as those of most servers do."""
        last = self.base_url.rsplit("/", 1)[-1]
        return last.startswith("v") and last[1:2].isdigit()

    async def _offers(self) -> str:
        """What to do when the server knows neither the path nor the model."""
        try:
            served = await self.models()
        except ModelError:
            return self._hint(HTTPStatus.NOT_FOUND) or "Check the base URL and the name of the model."
        names = [model.name for model in served]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f"It offers: {', '.join(names[:_LISTED])}{more}." if names else "It offers no model."


def _given_up(failure: RetryableError) -> ModelError:
    """The error of the last try; how long the server asks to be left alone is part of it."""
    error, asked = failure.error, failure.asked
    if asked < _WORTH_TELLING:
        return error
    hint = f"It asks to be left alone for {asked:,.0f} s: try again then. {error.hint}"
    return ModelError(error.message, hint.strip())


async def _get(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    async with client.stream("GET", url) as response:
        body = bytearray()
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as raw:
            async for data in raw:
                body += data
                if len(body) > _LIST_BYTES:
                    raise httpx.ReadError("the list of models is too long")
        return response.status_code, bytes(body)


def _served(body: bytes, server: str) -> tuple[ServedModel, ...]:
    try:
        listed: Any = json.loads(body)["data"]
        return tuple(
            ServedModel(entry["id"], length if type(length := entry.get("max_model_len")) is int else None)
            for entry in listed
            if isinstance(entry["id"], str)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{server}/models answered with no list of models.", "Is it the base URL of a model server?"
        ) from error
