"""The HTTP connection to a search server, with retries, size limits and checks of responses."""

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

Model = TypeVar("Model", bound=BaseModel)

_PROBLEM_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 500
"""Characters of a server's message that an error repeats."""
_MAX_WAIT_SECONDS = 20.0
"""Longest Retry-After that is respected."""
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_START = "Start it: vrag serve --only search --port 8001"


class _RetryableError(Exception):
    """A failure that may be gone at the next try: the final error, and the seconds to wait before."""

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
    """A connection, with the arguments of `SearchClient`. May be shared by threads."""

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
        self._exponential = wait_random_exponential(multiplier=backoff, max=_MAX_WAIT_SECONDS)
        self._stop = stop_after_attempt(retries + 1)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def request(self, method: str, path: str, limit: int, **arguments: Any) -> HttpAnswer:  # noqa: ANN401 - httpx's
        """Send a request, with retries, and return the response of at most `limit` bytes.

        Raises:
            ServerError: If the last try failed.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_RetryableError), wait=self._wait, stop=self._stop, reraise=True
        )
        try:
            return retrying(self._request_once, method, path, limit, arguments)
        except _RetryableError as failure:
            raise failure.error from failure.__cause__

    def _wait(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        wait = failure.wait if isinstance(failure, _RetryableError) else 0.0
        return min(_MAX_WAIT_SECONDS, wait + self._exponential(state))

    def _request_once(self, method: str, path: str, limit: int, arguments: dict[str, Any]) -> HttpAnswer:
        try:
            with self._client.stream(method, path, **arguments) as response:
                answer = self._read(response, limit)
                wait = _seconds(response.headers.get("retry-after"))
        except httpx.TimeoutException as error:
            failure = ServerError(
                f"The server at {self.url} took longer than {self._timeout:g} s.",
                "Increase timeout.",
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
            detail = parse_problem(answer.content).detail
            busy = ServerError(f"The server at {self.url} is busy ({answer.status}): {detail}", "Try later.")
            raise _RetryableError(busy, wait)
        return answer

    def _read(self, response: httpx.Response, limit: int) -> HttpAnswer:
        """Read the body, unless it is too long or takes too long."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self.invalid("it is compressed, which was not requested")
        allowed = limit if response.status_code == HTTPStatus.OK else _PROBLEM_BYTES
        deadline = time.monotonic() + self._timeout
        parts: list[bytes] = []
        for part in response.iter_raw():
            allowed -= len(part)
            if allowed < 0:
                raise self.invalid(f"it is longer than {limit:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the body took too long")
            parts.append(part)
        return HttpAnswer(response.status_code, b"".join(parts))

    def parse(self, answer: HttpAnswer, model: type[Model]) -> Model:
        """Parse the content of a successful response as a model.

        Raises:
            ServerError: If it is an error response, or not of that model.
        """
        self.check(answer)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))[:100]
            raise self.invalid(f"{place}: {fault['msg']}"[:_MAX_MESSAGE_CHARS]) from None

    def check(self, answer: HttpAnswer) -> None:
        """Check that a response is successful.

        Raises:
            ServerError: With the message of the server.
        """
        if answer.status == HTTPStatus.OK:
            return
        problem = parse_problem(answer.content)
        hint = problem.hint
        if answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "Give the token that the server was started with: VRAG_SEARCH_KEY"
        raise ServerError(f"The server at {self.url} refused ({answer.status}): {problem.detail}", hint)

    def invalid(self, reason: str) -> ServerError:
        """Build the error for an invalid response."""
        return ServerError(
            f"The response of the server at {self.url} is invalid: {reason}.", "Is it a search server?"
        )


def _base(url: str) -> str:
    """The base URL of the server."""
    if "@" in url:  # not repeated, since it may hold a password; httpx would send it as well
        raise ServerError(
            "The URL of the search server contains a user name.", "Give a token: VRAG_SEARCH_KEY"
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ServerError(
            f"{url[:200]!r} is not the URL of a server.", "Give a URL like http://localhost:8001"
        )
    return reachable(url).rstrip("/").removesuffix("/search")


def parse_problem(content: bytes) -> ProblemDetails:
    """Parse an error response, made safe to show."""
    try:
        problem = ProblemDetails.model_validate_json(content)
    except ValidationError:
        problem = ProblemDetails(detail="It gave no reason.")
    return ProblemDetails(detail=_line(problem.detail), hint=_line(problem.hint))


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_MESSAGE_CHARS]).strip()


def _seconds(header: str | None) -> float:
    """The seconds of a Retry-After header; a date counts as 0."""
    return min(float(header), _MAX_WAIT_SECONDS) if header and header.isascii() and header.isdigit() else 0.0
