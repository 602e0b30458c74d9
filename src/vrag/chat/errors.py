"""What can go wrong with a call: which failure may be gone at the next try, and what people can do."""

from __future__ import annotations

import json
import re
import socket
import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from vrag.errors import ContextTooLong, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "CLOSED",
    "RetryableError",
    "ServerComplaint",
    "failure_of",
    "plain_http_hint",
    "reach_hint",
    "seconds_asked",
]

CLOSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""How a server answers a wrong key. What it says there is not repeated: it may hold parts of the key."""
_MESSAGE = 500
"""Characters of a server's message that an error repeats."""
_PASSING = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|maximum model length|max_model_len"
    r"|maximum context|context the overflows|exceed_context_size"  # LM Studio, llama.cpp, Ollama
    r"|input.?length.{0,40}(?:exceeds|should be)|range of input length"  # SGLang, Ark, DashScope
    r"|(?:input|prompt)(?: \([^()]{0,40}\))? is too long|too many input tokens"  # Anthropic, vLLM
    r"|too long after expanding multimodal tokens"  # SGLang, once pictures are counted
    r"|(?:input|prompt) token count.{0,60}exceeds|exceeds the maximum number of tokens",  # Gemini
    re.IGNORECASE,
)
"""How servers say that a prompt does not fit: OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, DashScope,
Gemini, Anthropic."""
_TOO_MANY = re.compile(
    r"at most [1-9]\d* images?\b|at most [1-9]\d* image\(s\)|too many images"
    r"|(?:number of|image) (?:images|count).{0,40}(?:exceeds|exceeded|more than|too many|limit)"
    r"|limit-mm-per-prompt.{0,20}but passed|exceeds? the (?:image|maximum number of images) limit",
    re.IGNORECASE,
)
"""How they say that it holds too many pictures. A server that takes none at all is another matter."""
_ADVICE = (
    (
        re.compile(r"at most \d+ image", re.IGNORECASE),
        "Let the server take more: vLLM's flag is --limit-mm-per-prompt '{\"image\": 12}'.",
    ),
    (
        re.compile(r"not a multimodal|(?:not|n't) support (?:image|multimodal|vision)", re.IGNORECASE),
        "Choose a model that sees.",
    ),
    (
        re.compile(r"enable_thinking|chat_template_kwargs"),
        "Leave thinking to the server (VRAG_THINKING=auto), or switch it elsewhere: VRAG_THINKING_SWITCH.",
    ),
    (
        re.compile(r"insufficient_quota|arrearage|exceeded your current quota", re.IGNORECASE),
        "Top up the account.",
    ),
)
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")
"""How OpenSSL calls an answer that is no TLS."""
_BROKE = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
"""A 429 that no waiting helps."""


class RetryableError(Exception):
    """A failure that may be gone at the next try.

    Args:
        error: What to raise when it is not.
        asked: Seconds that the server asks to be left alone.
        everyone: Whether it concerns all calls, not this one.
        times: How often it is worth another try, however many are allowed.
    """

    def __init__(
        self, error: ModelError, *, asked: float = 0.0, everyone: bool = False, times: int = 1000
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.asked = asked
        self.everyone = everyone
        self.times = times


@dataclass(frozen=True, slots=True)
class ServerComplaint:
    """What a server says in place of a reply."""

    status: int
    """Of HTTP, or the like inside a stream."""
    message: str
    """In one line, without keys."""
    asked: float = 0.0
    """Seconds that it asks to be left alone."""

    @classmethod
    def of(cls, status: int, body: bytes, key: str | None, asked: float = 0.0) -> ServerComplaint:
        """Reads whatever a server sends: OpenAI's shape, FastAPI's, Ollama's, or a page of a proxy.

        Args:
            status: Of the response.
            body: Of the response, or of the chunk.
            key: What must not be repeated.
            asked: Seconds that it asks to be left alone.
        """
        said = _said(body)
        if key and len(key) > 3:  # a shorter one is no secret, and would tear the message apart
            said = said.replace(key, "…")
        line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
        return cls(status, line[:_MESSAGE], asked)

    @classmethod
    def in_stream(cls, body: bytes, key: str | None) -> ServerComplaint:
        """An error in place of a chunk: its code says what a status would."""
        problem = _problem(body)
        code = problem.get("code", problem.get("status"))
        known = type(code) is int and 400 <= code < 600
        return cls.of(cast("int", code) if known else 500, body, key)


def failure_of(complaint: ServerComplaint, server: str) -> ModelError | RetryableError:
    """What a complaint means; hints that need the client's own knowledge are left to it.

    Args:
        complaint: Of the server.
        server: How messages call it.
    """
    status, said = complaint.status, complaint.message
    if status in {400, 413, 422, 500} and _TOO_MANY.search(said):
        message = f"{server} does not take so many pictures at once: {_closed(said)}"
        return ContextTooLong(message, _hint(status, said))
    if status in {400, 413, 422, 500} and _TOO_LONG.search(said):
        return ContextTooLong(
            f"The conversation is longer than the model at {server} can take: {_closed(said)}",
            "Give the model a longer context, or the run a smaller budget of pictures and steps.",
        )
    words = f": {_closed(said)}" if said else "."
    error = ModelError(f"{server} answered {_named(status)}{words}", _hint(status, said))
    if status in _PASSING or status >= 500:
        if _BROKE.search(said):
            return error
        return RetryableError(error, asked=complaint.asked, everyone=status == HTTPStatus.TOO_MANY_REQUESTS)
    return error


def _closed(said: str) -> str:
    """What a server said, so that something may be said after it."""
    return said if said[-1] in ".!?…。！？" else f"{said}."


def reach_hint(error: BaseException, url: str) -> str:
    """What to do about a server that cannot be reached.

    Args:
        error: Of the library, with its causes.
        url: Of the server.
    """
    if hint := plain_http_hint(error, url):
        return hint
    if any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
        return "Check the name of the host in the base URL, or this machine's DNS."
    return "Is it running?"


def plain_http_hint(error: BaseException, url: str) -> str:
    """What to do where a server was asked with TLS and answers without; empty for any other failure.

    Args:
        error: Of the library, with its causes.
        url: Of the server.
    """
    faults = (cause for cause in _causes(error) if isinstance(cause, ssl.SSLError))
    if url.startswith("https://") and any(_NO_TLS.search(str(fault)) for fault in faults):
        return f"The server does not speak TLS there: write http://{url.removeprefix('https://')}"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def seconds_asked(headers: Mapping[str, str], now: float) -> float:
    """How long a server asks to be left alone; 0 where it does not say, or says nonsense.

    Args:
        headers: Of its answer: `retry-after-ms` (OpenAI), `retry-after` in seconds or as a date.
        now: Seconds since 1970.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d{1,12}(\.\d{0,9})?\s*", text) else None


def _named(status: int) -> str:
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def _hint(status: int, said: str) -> str:
    for pattern, advice in _ADVICE:
        if pattern.search(said):
            return advice
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "Show fewer or smaller pictures, or let the server take longer requests."
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "Make fewer calls at once: VRAG_MODEL_REQUESTS."
    return "Try later." if status >= 500 else ""


def _problem(body: bytes) -> dict[str, Any]:
    """The object that describes the error, wherever it stands; empty where there is none."""
    try:
        whole: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(whole, dict):
        return {}
    fields = cast("dict[str, Any]", whole)
    inner: object = fields.get("error")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else fields


def _said(body: bytes) -> str:
    problem = _problem(body)
    words = [problem.get("message"), problem.get("error"), problem.get("detail")]
    said = next((str(word) for word in words if word), "")
    code = problem.get("code") or problem.get("type")
    if said and isinstance(code, str) and code not in said:
        return f"{said} [{code}]"
    return said or body.decode("utf-8", "replace")
