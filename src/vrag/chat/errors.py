"""Errors of calls: which ones are temporary, and what people can do about them."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from vrag.chat.messages import json_object
from vrag.errors import ContextTooLong, ModelError
from vrag.providers import redact_key

CLOSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""Statuses for a wrong key. Their messages are not repeated: they may contain parts of the key."""
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|maximum model length|max_model_len"
    r"|maximum context|context the overflows|exceed_context_size"  # LM Studio, llama.cpp, Ollama
    r"|input.?length.{0,40}(?:exceeds|should be)|range of input length"  # SGLang, Ark, DashScope
    r"|(?:input|prompt)(?: \([^()]{0,40}\))? is too long|too many input tokens"  # Anthropic, vLLM
    r"|too long after expanding multimodal tokens"  # SGLang, once pictures are counted
    r"|(?:input|prompt) token count.{0,60}exceeds|exceeds the maximum number of tokens",  # Gemini
    re.IGNORECASE,
)
"""Messages of a prompt that is too long: OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, DashScope,
Gemini, Anthropic."""
_TOO_MANY = re.compile(
    r"at most [1-9]\d* images?\b|at most [1-9]\d* image\(s\)|too many images"
    r"|(?:number of|image) (?:images|count).{0,40}(?:exceeds|exceeded|more than|too many|limit)"
    r"|limit-mm-per-prompt.{0,20}but passed|exceeds? the (?:image|maximum number of images) limit",
    re.IGNORECASE,
)
"""Messages of a prompt with too many images. Servers that accept none at all are another matter."""
_ADVICE = (
    (
        re.compile(r"at most \d+ image", re.IGNORECASE),
        "Raise the limit of the server: vLLM's option is --limit-mm-per-prompt '{\"image\": 12}'.",
    ),
    (
        re.compile(r"not a multimodal|(?:not|n't) support (?:image|multimodal|vision)", re.IGNORECASE),
        "Choose a vision-language model.",
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
_REFUSED = re.compile("connection refused|actively refused", re.IGNORECASE)
"""Messages of libraries that drop the error of the system."""
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")
"""OpenSSL's names for a response without TLS."""
_QUOTA_SPENT = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
"""A 429 for which waiting does not help."""


class RetryableError(Exception):
    """A temporary failure: `error` is raised after the last retry, of which there are `times` at most.

    `asked` is the pause that the server asks for, in seconds; `everyone` is true if the failure concerns all
    calls to the server.
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
class ErrorResponse:
    """The error message of a server."""

    status: int
    """The HTTP status, or the code inside a stream."""
    message: str
    """One line, without keys."""
    asked: float = 0.0
    """Pause that the server asks for, in seconds."""

    @classmethod
    def of(cls, status: int, body: bytes, key: str | None, asked: float = 0.0) -> ErrorResponse:
        """Read an error of OpenAI's, FastAPI's or Ollama's form, or the page of a proxy.

        The key is redacted.
        """
        problem = _problem(body)
        fields = [problem.get("message"), problem.get("error"), problem.get("detail")]
        message = next((str(value) for value in fields if value), "")
        code = problem.get("code") or problem.get("type")
        if message and isinstance(code, str) and code not in message:
            message = f"{message} [{code}]"
        message = message or body.decode("utf-8", "replace")
        message = redact_key(message, key)
        line = " ".join("".join(c if c.isprintable() else " " for c in message).split())
        return cls(status, line[:500], asked)  # enough to understand it; some servers send whole traces

    @classmethod
    def in_stream(cls, body: bytes, key: str | None) -> ErrorResponse:
        """Read an error in place of a chunk; its code stands for the HTTP status."""
        problem = _problem(body)
        code = problem.get("code", problem.get("status"))
        known = type(code) is int and 400 <= code < 600
        return cls.of(cast("int", code) if known else 500, body, key)


def failure_of(response: ErrorResponse, server: str) -> ModelError | RetryableError:
    """Classify the error message of a server. Hints that depend on the client are added there."""
    status, message = response.status, response.message
    sentence = message if message[-1:] in ".!?…。！？" else f"{message}."
    if status in {400, 413, 422, 500} and _TOO_MANY.search(message):
        return ContextTooLong(
            f"{server} does not accept so many pictures at once: {sentence}", _hint(status, message)
        )
    if status in {400, 413, 422, 500} and _TOO_LONG.search(message):
        return ContextTooLong(
            f"The conversation is longer than the model at {server} can take: {sentence}",
            "Give the model a longer context, or the run a smaller budget of pictures and steps.",
        )
    try:
        name = f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        name = str(status)
    details = f": {sentence}" if message else "."
    error = ModelError(f"{server} answered {name}{details}", _hint(status, message))
    if status in {408, 409, 425, 429} or status >= 500:
        if _QUOTA_SPENT.search(message):
            return error
        return RetryableError(error, asked=response.asked, everyone=status == HTTPStatus.TOO_MANY_REQUESTS)
    return error


def is_refused(error: BaseException) -> bool:
    """Return whether a connection was refused: to try again at once would be of no use."""
    for cause in _causes(error):
        if isinstance(cause, BaseExceptionGroup):  # of several addresses of a host
            return all(map(is_refused, cast("BaseExceptionGroup[BaseException]", cause).exceptions))
        if isinstance(cause, ConnectionRefusedError):
            return True
    return bool(_REFUSED.search(str(error)))


def unreached_message(error: BaseException, url: str) -> str:
    """Return the message that a server cannot be reached, which begins with the reason."""
    if is_refused(error):
        return f"Connection refused: no server listens at {url}."
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return f"{reason[:1].upper()}{reason[1:]}: {url} cannot be reached."


def reach_hint(error: BaseException, url: str) -> str:
    """Return advice for a server that cannot be reached, from the causes of a library's error."""
    if hint := plain_http_hint(error, url):
        return hint
    if any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
        return "Check the host name in the base URL, or the DNS of this machine."
    return "Is it running?"


def plain_http_hint(error: BaseException, url: str) -> str:
    """Return advice for an https address of a server without TLS; empty for any other error."""
    tls_errors = (cause for cause in _causes(error) if isinstance(cause, ssl.SSLError))
    if url.startswith("https://") and any(_NO_TLS.search(str(cause)) for cause in tls_errors):
        return f"The server does not use TLS there: write http://{url.removeprefix('https://')}"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def seconds_asked(headers: Mapping[str, str], now: float) -> float:
    """Return the pause that a server asks for, in seconds; 0 if it asks for none or the value is nonsense.

    It stands in `retry-after-ms` (OpenAI), or in `retry-after`, as seconds or as a date; `now` is in seconds
    since 1970.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{0,9})?", value):
            return float(value) / unit
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0


def _hint(status: int, message: str) -> str:
    for pattern, advice in _ADVICE:
        if pattern.search(message):
            return advice
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "Show fewer or smaller pictures, or raise the request limit of the server."
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "Make fewer calls at once: VRAG_MODEL_REQUESTS."
    return "Try later." if status >= 500 else ""


def _problem(body: bytes) -> dict[str, Any]:
    """Return the JSON object that describes the error; empty if there is none."""
    try:
        fields = json_object(json.loads(body))
    except (ValueError, RecursionError):
        return {}
    return json_object(fields.get("error")) or fields
