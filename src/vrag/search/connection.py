"""One connection to a search server: requests that are repeated, answers that are limited and checked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from vrag.chat.errors import plain_http_hint
from vrag.errors import ServerError
from vrag.providers import reachable
from vrag.search.schema import ProblemDetails

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["Connection", "HttpAnswer", "problem_of"]

Model = TypeVar("Model", bound=BaseModel)

_PROBLEM_BYTES = 64 * 1024
_MESSAGE = 500
"""Characters of a server's message that an error repeats."""
_LONGEST_WAIT = 20.0
"""Seconds that a Retry-After may ask for."""
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_START = "Start it: vrag serve --only search --port 8001"


class _RetryableError(Exception):
    """A failure that may be gone at the next try.

    Args:
        error: What to raise when it is not.
        wait: Seconds that the server asks to wait.
    """

    def __init__(self, error: ServerError, wait: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response, read to its end."""

    status: int
    content: bytes


class Connection:
    """What asks a server. May be shared by threads.

    Args:
        url: Of the server, with or without `/search` at its end.
        token: What the server asks for, if it does.
        timeout: Seconds to wait for each part of a response, and at most for all of its body.
        retries: How often a request is repeated that failed in passing.
        backoff: Seconds before the first repetition; doubles, with jitter.
        transport: Replaces the network, in tests.

    Raises:
        ServerError: If the address cannot be one.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout: float,
        retries: int,
        backoff: float,
        transport: httpx.BaseTransport | None,
    ) -> None:
        self.url = _base(url)
        self._timeout = timeout
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            limits=httpx.Limits(max_connections=64),
            trust_env=False,
            transport=transport,
        )
        self._exponential = wait_random_exponential(multiplier=backoff, max=_LONGEST_WAIT)
        self._stop = stop_after_attempt(retries + 1)

    def close(self) -> None:
        """Closes it."""
        self._client.close()

    def ask(self, method: str, path: str, limit: int, **request: Any) -> HttpAnswer:  # noqa: ANN401 - httpx's
        """The answer to a request, repeated while it fails in passing.

        Args:
            method: `GET` or `POST`.
            path: On the server.
            limit: Bytes that the answer may have.
            request: What else httpx takes: `params`, `content`.

        Raises:
            ServerError: If there is none in the end.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_RetryableError), wait=self._wait, stop=self._stop, reraise=True
        )
        try:
            return retrying(self._once, method, path, limit, request)
        except _RetryableError as failure:
            raise failure.error from failure.__cause__

    def _wait(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.wait if isinstance(failure, _RetryableError) else 0.0
        return min(_LONGEST_WAIT, asked + self._exponential(state))

    def _once(self, method: str, path: str, limit: int, request: dict[str, Any]) -> HttpAnswer:
        try:
            with self._client.stream(method, path, **request) as response:
                answer = self._read(response, limit)
                wait = _seconds(response.headers.get("retry-after"))
        except httpx.TimeoutException as error:
            failure = ServerError(
                f"The server at {self.url} took longer than {self._timeout:g} s.", "Wait longer: timeout=…"
            )
            if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise _RetryableError(failure) from error
            raise failure from error  # it may still be at work: asking again would double that
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            hint = plain_http_hint(error, self.url)
            unreached = ServerError(f"The server at {self.url} cannot be reached: {reason}.", hint or _START)
            raise (unreached if hint else _RetryableError(unreached)) from error
        if answer.status in _BUSY:
            detail = problem_of(answer.content).detail
            busy = ServerError(f"The server at {self.url} is busy ({answer.status}): {detail}", "Try later.")
            raise _RetryableError(busy, wait)
        return answer

    def _read(self, response: httpx.Response, limit: int) -> HttpAnswer:
        """The body, as far as it is not longer than allowed and does not take too long."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self.unusable("it is compressed, which was not asked for")
        allowed = limit if response.status_code == HTTPStatus.OK else _PROBLEM_BYTES
        deadline = time.monotonic() + self._timeout
        parts: list[bytes] = []
        for part in response.iter_raw():
            allowed -= len(part)
            if allowed < 0:
                raise self.unusable(f"it is longer than {limit:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the body took too long")
            parts.append(part)
        return HttpAnswer(response.status_code, b"".join(parts))

    def parsed(self, answer: HttpAnswer, model: type[Model]) -> Model:
        """The content of an answer that is no refusal, as a model.

        Raises:
            ServerError: If it is a refusal, or not of that shape.
        """
        self.check(answer)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))[:100]
            raise self.unusable(f"{place}: {fault['msg']}"[:_MESSAGE]) from None

    def check(self, answer: HttpAnswer) -> None:
        """Refuses an answer that is a refusal.

        Raises:
            ServerError: With what the server says.
        """
        if answer.status == HTTPStatus.OK:
            return
        problem = problem_of(answer.content)
        hint = problem.hint
        if answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "Give the token that the server was started with: VRAG_SEARCH_KEY"
        raise ServerError(f"The server at {self.url} refused ({answer.status}): {problem.detail}", hint)

    def unusable(self, reason: str) -> ServerError:
        """The error for an answer that cannot be right."""
        return ServerError(
            f"The answer of the server at {self.url} cannot be used: {reason}.", "Is it a search server?"
        )


def _base(url: str) -> str:
    """The address of the server itself."""
    if "@" in url:  # not repeated, since it may hold a password; httpx would send it as well
        raise ServerError(
            "The address of the search server holds a user name.", "Give a token: VRAG_SEARCH_KEY"
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ServerError(f"{url[:200]!r} is not the address of a server.", "It begins with http://")
    return reachable(url).rstrip("/").removesuffix("/search")


def problem_of(content: bytes) -> ProblemDetails:
    """What a refusal says, made safe to show."""
    try:
        problem = ProblemDetails.model_validate_json(content)
    except ValidationError:
        problem = ProblemDetails(detail="It did not say why.")
    return ProblemDetails(detail=_line(problem.detail), hint=_line(problem.hint))


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MESSAGE]).strip()


def _seconds(header: str | None) -> float:
    """What Retry-After asks for, in seconds; a date counts as nothing."""
    return min(float(header), _LONGEST_WAIT) if header and header.isascii() and header.isdigit() else 0.0
