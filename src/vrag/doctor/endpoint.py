"""Checks of a model server: is it there, are we let in, is the model there, what comes with a reply."""

from __future__ import annotations

import asyncio
import difflib
import socket
import ssl
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from vrag.chat import ChatDelta, ChatMessage, ChatOptions, ChatReply, ChatText
from vrag.chat.errors import plain_http_hint
from vrag.doctor.check import Check, CheckStatus
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vrag.chat import OpenAIChat

__all__ = ["check_address", "check_completion", "check_models", "check_tokens", "check_tools"]

T = TypeVar("T")

CONTEXT = 12_000
"""Tokens that a run of either agent comes to need: pictures, memory, and what it writes."""
FEW_CHUNKS = 2
"""Pieces in which a streamed reply of this length comes at least."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def check_address(base_url: str, seconds: float) -> Check:
    """Whether the server's name is known and somebody listens at its port."""
    parts = urlsplit(base_url)
    if proxy := _proxy(parts.hostname or "", parts.scheme):
        return Check("", CheckStatus.SKIPPED, f"It is asked through the proxy {proxy}.")
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    start = time.monotonic()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        hint = "Check --base-url, or this machine's DNS."
        return Check("", CheckStatus.FAILED, f"The name {host!r} is not known: {error}.", hint)
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        hint = "Start the server, check --base-url, or open the firewall between here and there."
        return Check("", CheckStatus.FAILED, f"Nobody answers at {host}:{port}: {error}.", hint)
    if hint := _tls_hint(base_url, host, port, seconds):
        return Check("", CheckStatus.FAILED, f"{host}:{port} answers, and not by TLS.", hint)
    took = time.monotonic() - start
    details = {"addresses": sorted({str(entry[4][0]) for entry in found}), "seconds": round(took, 4)}
    return Check("", CheckStatus.OK, f"{host}:{port} is reached in {took * 1000:.0f} ms.", details=details)


def _tls_hint(base_url: str, host: str, port: int, seconds: float) -> str:
    """What to do where `https` is asked of a server that speaks plain HTTP; empty for anything else.

    Certificates are for the checks that follow.
    """
    if not base_url.startswith("https://"):
        return ""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            unverified.wrap_socket(connection, server_hostname=host).close()
    except OSError as error:
        return plain_http_hint(error, base_url)
    return ""


def _proxy(host: str, scheme: str) -> str:
    """Host and port of the proxy that the environment names for a host; empty for none."""
    here = host == "localhost" or host.startswith("127.") or host == "::1"
    if here or proxy_bypass(host):
        return ""
    proxies = getproxies()
    address = urlsplit(proxies.get(scheme) or proxies.get("all") or "")
    return address.netloc.rpartition("@")[2]  # a password is nobody's business


def check_models(chat: OpenAIChat, *, named: bool = True) -> Check:
    """Whether the server lets us in, has the model, and how long a context it gives it.

    Args:
        chat: The model.
        named: Whether anybody has said which model; otherwise those are named that there are.

    Raises:
        ModelError: If it refuses, or does not say what it offers.
    """
    listed = _at_once(chat, chat.models())
    served = {
        model.name.removeprefix("models/"): model for model in listed
    }  # a prefix of Gemini's list alone
    details = {"models": sorted(served)}
    if chat.name.removeprefix("models/") not in served:
        problem = f"The server does not list {chat.name!r}." if named else "No model is named."
        near = difflib.get_close_matches(chat.name, served, 3, 0.3) or sorted(served)[:3]
        offers = f"It offers {', '.join(near)}: --model {near[0]}" if near else "It offers none."
        return Check("", CheckStatus.FAILED, problem, offers, details)
    context = served[chat.name.removeprefix("models/")].context
    details = {**details, "context": context}
    if context is None:
        message = f"{chat.name} is offered; how long a context it has, the server does not say."
        return Check("", CheckStatus.OK, message, details=details)
    message = f"{chat.name} is offered, with a context of {context:,} tokens."
    if context < CONTEXT:
        hint = (
            f"A run comes to need about {CONTEXT:,}. Give it more (vLLM: --max-model-len) or set fewer steps."
        )
        return Check("", CheckStatus.WARNING, message, hint, details)
    return Check("", CheckStatus.OK, message, details=details)


def check_completion(chat: OpenAIChat) -> Check:
    """Whether a reply is streamed, how fast, and whether the server says what it cost.

    Raises:
        ModelError: If there is no reply.
    """
    heard = _hear(chat, "Count from 1 to 20, in digits.", ChatOptions(temperature=0, max_tokens=64))
    reply = heard.reply
    details = {
        "first_token_seconds": round(heard.first_seconds, 4),
        "seconds": round(heard.seconds, 4),
        "chunks": heard.chunks,
        "tokens_per_second": heard.rate and round(heard.rate, 2),
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "finish": reply.finish,
        "text": reply.text,
        "thought": reply.thought,
    }
    rate = f", then {heard.rate:.0f} tokens/s" if heard.rate else ""
    message = f"The first piece of a reply comes after {heard.first_seconds:.2f} s{rate}."
    if not (reply.text or reply.thought):
        return Check("", CheckStatus.FAILED, "The reply is empty.", "See the server's log.", details)
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        hint = "Limits of tokens and cost cannot hold. Limit a run's steps and seconds."
        return Check("", CheckStatus.WARNING, f"{message} What it cost is not said.", hint, details)
    if heard.chunks < FEW_CHUNKS:
        hint = "Nothing is shown before the whole is there. A proxy between may collect it: switch that off."
        return Check("", CheckStatus.WARNING, f"{message} It comes in one piece.", hint, details)
    return Check("", CheckStatus.OK, message, details=details)


def check_tokens(chat: OpenAIChat) -> Check:
    """Whether the server tells token ids and log-probabilities, which only training needs.

    Raises:
        ModelError: If there is no reply.
    """
    options = ChatOptions(temperature=0, max_tokens=8, logprobs=True, token_ids=True)
    reply = _hear(chat, "Say: yes", options).reply
    told = {"prompt_ids": reply.prompt_ids, "ids": reply.ids, "logprobs": reply.logprobs}
    details = {name: bool(numbers) for name, numbers in told.items()}
    if all(details.values()):
        return Check("", CheckStatus.OK, "Token ids and log-probabilities are told.", details=details)
    missing = "log-probabilities" if details["ids"] else "token ids"
    missing = missing if any(details.values()) else "token ids and log-probabilities"
    hint = "Only training needs them: vLLM tells them."
    return Check("", CheckStatus.SKIPPED, f"Not told: {missing}.", hint, details)


def check_tools(chat: OpenAIChat) -> Check:
    """Whether the model calls tools natively. Both agents do without: they write actions as text."""
    options = ChatOptions(temperature=0, max_tokens=256, tools=(WEATHER,))
    hint = "Nothing has to be done: vimrag's actions are also read as text."
    try:
        reply = _hear(chat, "What is the weather in Paris? Use the tool.", options).reply
    except ModelError as error:
        return Check("", CheckStatus.SKIPPED, f"Tools are refused: {error.message}", hint, {"native": False})
    details = {"native": bool(reply.tool_calls), "calls": [call.name for call in reply.tool_calls]}
    if reply.tool_calls:
        return Check("", CheckStatus.OK, "Native tool calls are made.", details=details)
    how = "in its text" if "<tool_call>" in reply.text else "not at all"
    return Check("", CheckStatus.SKIPPED, f"Tools are accepted, and called {how}.", hint, details)


@dataclass(frozen=True, slots=True)
class _Heard:
    """A reply and how it came."""

    reply: ChatReply
    first_seconds: float
    """From the call to the first piece."""
    seconds: float
    """From the call to the last piece."""
    chunks: int

    @property
    def rate(self) -> float | None:
        """Tokens per second after the first piece; None where it cannot be told."""
        count, span = self.reply.completion_tokens, self.seconds - self.first_seconds
        return (count - 1) / span if count and count > 1 and span > 0 and self.chunks > 1 else None


def _hear(chat: OpenAIChat, text: str, options: ChatOptions) -> _Heard:
    return _at_once(chat, _listen(chat, text, options))


async def _listen(chat: OpenAIChat, text: str, options: ChatOptions) -> _Heard:
    start = time.monotonic()
    moments: list[float] = []
    async with aclosing(chat.stream([ChatMessage("user", (ChatText(text),))], options)) as parts:
        async for part in parts:
            if isinstance(part, ChatDelta):
                moments.append(time.monotonic() - start)
            if isinstance(part, ChatReply):
                first, last = (moments[0], moments[-1]) if moments else [time.monotonic() - start] * 2
                return _Heard(part, first, last, len(moments))
    raise ModelError(f"{chat.name} ended without a reply.", "See the server's log.")


def _at_once(chat: OpenAIChat, work: Coroutine[None, None, T]) -> T:
    """Does it in an event loop of its own."""

    async def done() -> T:
        try:
            return await work
        finally:
            await chat.aclose()

    return asyncio.run(done())
