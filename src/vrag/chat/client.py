"""The client of any server that speaks OpenAI's chat completions.

It is written on httpx rather than on the `openai` package, which was tried (version 3.54): reading a stream
of 10,000 chunks takes it 15 times as long, importing it takes half a second and 640 modules, and it has no
limits for lines and error bodies, accepts no reply in one piece, and does not tell whether a stream came to
its end. Retries, timeouts and every check of a reply would be ours all the same.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx

from vrag.chat.completion import Call, ChatTimeouts, RequestRefused
from vrag.chat.errors import CLOSED, ErrorResponse, RetryableError, failure_of, reach_hint, unreached_message
from vrag.chat.http_clients import ConcurrencyLimit, Connections, base_of, checked_key, read_body
from vrag.chat.messages import RENAMED, ChatDelta, ChatMessage, ChatOptions, ChatReply, ChatRetry, ServedModel
from vrag.errors import ModelError

_MAX_LISTED_MODELS = 8
"""Models that an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRetries:
    """Retries after temporary failures."""

    times: int = 5
    """Retries of a call. A timeout is retried once at most: the server may only be slow."""
    first_pause: float = 0.5
    """Upper bound of the first pause in seconds; it doubles, and pauses are drawn below it (full jitter)."""
    longest_pause: float = 60.0
    """Upper bound of every pause in seconds. If the server asks for a longer one, the call fails."""


class OpenAIChat:
    """A model behind an endpoint that speaks OpenAI's chat completions.

    Runs, threads and event loops can share it: they share its concurrency limit and its pauses.

    Args:
        base_url: Address up to and including `/v1`, if the server has that.
        model: Name of the model on the server.
        api_key: Sent as a bearer token; None if the server needs none.
        key_variable: Name of the setting that holds the key, for error messages.
        timeouts: Time limits.
        retries: Retries after temporary failures.
        concurrency: Maximum number of simultaneous calls.
        max_characters: Maximum length of a reply, thoughts included.

    Raises:
        SettingsError: If the address or the key is invalid.
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
        self._limit = ConcurrencyLimit(concurrency)
        # OpenAI's newer models refuse `max_tokens`, and all its models accept the new name.
        official = urlsplit(self.base_url).hostname == "api.openai.com"
        self._without = frozenset({RENAMED}) if official else frozenset[str]()
        self._connections = Connections(
            self.base_url, self._key, self._timeouts.connect_seconds, kept=concurrency
        )

    def __repr__(self) -> str:
        return f"OpenAIChat({self.base_url!r}, {self.name!r})"

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of a request that the server is known to refuse, by their names in the request."""
        return self._without

    async def aclose(self) -> None:
        """Close the connections of the running event loop, once its calls have ended."""
        await self._connections.aclose()

    async def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions | None = None
    ) -> AsyncGenerator[ChatDelta | ChatRetry | ChatReply, None]:
        """Write the next reply: deltas, then the complete reply as the last part; see `ChatModel.stream`.

        Raises `ContextTooLong` if the conversation is longer than the model can take and `ModelError` if no
        reply can be had.
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
                hint = self._hint(refused.status)
                if refused.status == HTTPStatus.NOT_FOUND:
                    hint = await self._model_names() or hint
                    hint = hint or "Check the base URL and the name of the model."
                raise type(refused.error)(refused.error.message, hint or refused.error.hint) from None
            except RetryableError as error:
                failure = error
            else:
                return
            pause = self._pause(failure, failures, call)
            if pause is None:
                raise _final_error(failure) from failure.__cause__
            if failure.everyone:
                self._limit.pause(pause)
            yield ChatRetry(failure.error.message, pause)
            await asyncio.sleep(pause)

    async def _try_call(self, call: Call) -> AsyncGenerator[ChatDelta | ChatReply, None]:
        """Make one attempt. Its place is free again before the complete reply is yielded."""
        reply = None
        queued = time.monotonic()
        async with self._limit.place(), self._connections.client() as client:
            call.start_clock(waited=time.monotonic() - queued)
            async with aclosing(call.attempt(client)) as parts:
                async for part in parts:
                    if isinstance(part, ChatReply):
                        reply = part
                    else:
                        yield part
        if reply is not None:
            self._without |= call.without  # only a success shows that these fields were the problem
            yield reply

    async def models(self) -> tuple[ServedModel, ...]:
        """List the models of the server, by its own names.

        Raises `ModelError` if the server does not list them.
        """
        try:
            # seconds; a list takes much less, since no model has to run
            async with asyncio.timeout(10), self._connections.client() as client:
                status, body = await read_body(client, "GET", f"{self.base_url}/models")
        except (TimeoutError, httpx.HTTPError) as error:
            message = unreached_message(error, self.base_url)
            raise ModelError(message, reach_hint(error, self.base_url)) from error
        if status != HTTPStatus.OK:
            error_response = ErrorResponse.of(status, b"" if status in CLOSED else body, self._key)
            failure = failure_of(error_response, self.base_url)
            error = failure.error if isinstance(failure, RetryableError) else failure
            raise ModelError(error.message, self._hint(status) or error.hint)
        try:
            entries: Any = json.loads(body)["data"]
            models = [(entry["id"], entry.get("max_model_len")) for entry in entries]
            named = ((name, length) for name, length in models if isinstance(name, str))
            return tuple(ServedModel(name, length if type(length) is int else None) for name, length in named)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(
                f"{self.base_url}/models did not answer with a list of models.",
                "Is it the base URL of a model server?",
            ) from error

    def _pause(self, failure: RetryableError, failures: int, call: Call) -> float | None:
        """Return the seconds before the next attempt; None if there is none."""
        retries = self._retries
        if failures > min(retries.times, failure.times) or failure.asked > retries.longest_pause:
            return None
        bound = min(retries.longest_pause, retries.first_pause * 2.0 ** (failures - 1))
        pause = failure.asked + random.uniform(0, bound)
        return pause if pause < call.seconds_left else None

    async def _model_names(self) -> str:
        """Return a sentence that lists the server's models; empty if it does not list them."""
        try:
            names = [model.name for model in await self.models()]
        except ModelError:
            return ""
        listed, more = names[:_MAX_LISTED_MODELS], len(names) - _MAX_LISTED_MODELS
        rest = f" and {more} more" if more > 0 else ""
        return f"It offers: {', '.join(listed)}{rest}." if names else "The server has no model."

    def _hint(self, status: int) -> str:
        if status in CLOSED:
            problem = "The server does not accept the key" if self._key else "No key is set"
            return f"{problem}: {self._key_variable}."
        if 300 <= status < 400:
            return "Use the address that it redirects to."
        last = self.base_url.rsplit("/", 1)[-1]
        versioned = last.startswith("v") and last[1:2].isdigit()
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} and not versioned:
            return f"Most servers need /v1 at the end: {self.base_url}/v1."
        return ""


def _final_error(failure: RetryableError) -> ModelError:
    """Return the error of the last attempt, with the pause that the server asks for."""
    error = failure.error
    if failure.asked < 1:  # shorter pauses are not worth mentioning
        return error
    hint = f"The server asks to wait for {failure.asked:,.0f} s before the next call. {error.hint}"
    return ModelError(error.message, hint.strip())
