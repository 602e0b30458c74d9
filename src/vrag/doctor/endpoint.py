"""Checks of a model server: its address, its key, its list of models, and its replies."""

from __future__ import annotations

import asyncio
import difflib
import socket
import ssl
import time
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from vrag.chat import ChatDelta, ChatMessage, ChatOptions, ChatReply, ChatText
from vrag.chat.errors import plain_http_hint
from vrag.doctor.check import Check, failed, ok, skipped, warning
from vrag.errors import ModelError

if TYPE_CHECKING:
    from vrag.chat import OpenAIChat

T = TypeVar("T")

MIN_CONTEXT_TOKENS = 12_000
"""Tokens that a run of either agent needs: pictures, memory, and what it writes."""
MIN_CHUNKS = 2
"""Least number of pieces of a streamed reply of this length."""
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def check_address(base_url: str, seconds: float) -> Check:
    """Resolve the server's name and connect to its port."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    if proxy := _proxy(host, parts.scheme):
        return skipped(f"Requests go through the proxy {proxy}.")
    start = time.monotonic()
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        hint = "Check --base-url, or the DNS of this machine."
        return failed(f"The name {host!r} is not known: {error}.", hint)
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        hint = "Start the server, check --base-url, or open the firewall between both machines."
        return failed(f"Nothing answers at {host}:{port}: {error}.", hint)
    if hint := _tls_hint(base_url, host, port, seconds):
        return failed(f"{host}:{port} answers, but not with TLS.", hint)
    elapsed = time.monotonic() - start
    details = {"addresses": sorted({str(entry[4][0]) for entry in addresses}), "seconds": round(elapsed, 4)}
    return ok(f"Connected to {host}:{port} in {elapsed * 1000:.0f} ms.", details=details)


def _tls_hint(base_url: str, host: str, port: int, seconds: float) -> str:
    """Return a hint if `https` is used for a server that speaks plain HTTP, whatever its certificate."""
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
    """Return host and port of the proxy that the environment names for a host, if any."""
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    if local or proxy_bypass(host):
        return ""
    proxies = getproxies()
    address = urlsplit(proxies.get(scheme) or proxies.get("all") or "")
    return address.netloc.rpartition("@")[2]  # without its password


def check_models(chat: OpenAIChat, *, named: bool = True) -> Check:
    """Check that the server accepts the key, lists the model, and gives it a long enough context.

    Args:
        chat: The server and the model.
        named: Whether a model is set; else the check lists the models of the server.

    Raises:
        ModelError: If the server refuses, or does not list its models.
    """
    name = chat.name.removeprefix("models/")  # the prefix of Gemini's list only
    listed = {model.name.removeprefix("models/"): model for model in _run(chat, chat.models())}
    details = {"models": sorted(listed)}
    if name not in listed:
        problem = f"The server does not list {chat.name!r}." if named else "No model is set."
        near = difflib.get_close_matches(chat.name, listed, 3, 0.3) or sorted(listed)[:3]
        offers = f"It lists {', '.join(near)}: --model {near[0]}" if near else "It lists none."
        return failed(problem, offers, details)
    context = listed[name].context
    details = {**details, "context": context}
    if context is None:
        return ok(f"{chat.name} is listed; the server does not report its context length.", details=details)
    message = f"{chat.name} is listed, with a context of {context:,} tokens."
    if context < MIN_CONTEXT_TOKENS:
        needed = f"A run needs about {MIN_CONTEXT_TOKENS:,}."
        hint = f"{needed} Allow more (vLLM: --max-model-len) or set fewer steps."
        return warning(message, hint, details)
    return ok(message, details=details)


def check_completion(chat: OpenAIChat) -> Check:
    """Check that replies are streamed, measure their speed, and check that token counts are reported.

    Raises:
        ModelError: If there is no reply.
    """
    options = ChatOptions(temperature=0, max_tokens=64)
    timed = _ask(chat, "Count from 1 to 20, in digits.", options)
    reply = timed.reply
    details = {
        "first_token_seconds": round(timed.first_seconds, 4),
        "seconds": round(timed.seconds, 4),
        "chunks": timed.chunks,
        "tokens_per_second": timed.rate and round(timed.rate, 2),
        "prompt_tokens": reply.tokens.prompt,
        "completion_tokens": reply.tokens.completion,
        "finish": reply.finish,
        "text": reply.text,
        "thought": reply.thought,
    }
    rate = f", then {timed.rate:.0f} tokens/s" if timed.rate else ""
    message = f"First token after {timed.first_seconds:.2f} s{rate}."
    if not (reply.text or reply.thought):
        return failed("The reply is empty.", "See the server's log.", details)
    if reply.tokens.prompt is None or reply.tokens.completion is None:
        hint = "Token and cost limits have no effect. Limit the steps and seconds of a run instead."
        return warning(f"{message} Token counts are not reported.", hint, details)
    if timed.chunks < MIN_CHUNKS:
        hint = (
            "Replies are shown only when they are complete. Disable buffering in a proxy before the server."
        )
        return warning(f"{message} The reply is not streamed: it comes in one piece.", hint, details)
    return ok(message, details=details)


def check_tokens(chat: OpenAIChat) -> Check:
    """Check whether the server reports token ids and log-probabilities, which only training needs.

    Raises:
        ModelError: If there is no reply.
    """
    options = ChatOptions(temperature=0, max_tokens=8, logprobs=True, token_ids=True)
    reply = _ask(chat, "Say: yes", options).reply
    reported = asdict(reply.sampled)
    details = {name: bool(numbers) for name, numbers in reported.items()}
    if all(details.values()):
        return ok("Token ids and log-probabilities are reported.", details=details)
    missing = "log-probabilities" if details["ids"] else "token ids"
    missing = missing if any(details.values()) else "token ids and log-probabilities"
    return skipped(f"Not reported: {missing}.", "Only training needs them: vLLM reports them.", details)


def check_tools(chat: OpenAIChat) -> Check:
    """Check whether the model calls tools natively. Agents do not need it: they write actions as text."""
    options = ChatOptions(temperature=0, max_tokens=256, tools=(WEATHER_TOOL,))
    hint = "Nothing to do: the actions of vimrag are also read from text."
    try:
        reply = _ask(chat, "What is the weather in Paris? Use the tool.", options).reply
    except ModelError as error:
        return skipped(f"Tools are refused: {error.message}", hint, {"native": False})
    details = {"native": bool(reply.tool_calls), "calls": [call.name for call in reply.tool_calls]}
    if reply.tool_calls:
        return ok("The model calls tools natively.", details=details)
    how = "called in its text" if "<tool_call>" in reply.text else "not called"
    return skipped(f"Tools are accepted, but {how}.", hint, details)


@dataclass(frozen=True, slots=True)
class _TimedReply:
    """A reply and its timing."""

    reply: ChatReply
    first_seconds: float
    """From the call to the first piece."""
    seconds: float
    """From the call to the last piece."""
    chunks: int

    @property
    def rate(self) -> float | None:
        """Tokens per second after the first piece; None if it is not known."""
        count, span = self.reply.tokens.completion, self.seconds - self.first_seconds
        return (count - 1) / span if count and count > 1 and span > 0 and self.chunks > 1 else None


def _ask(chat: OpenAIChat, text: str, options: ChatOptions) -> _TimedReply:
    async def listen() -> _TimedReply:
        start = time.monotonic()
        moments: list[float] = []
        async with aclosing(chat.stream([ChatMessage("user", (ChatText(text),))], options)) as parts:
            async for part in parts:
                if isinstance(part, ChatDelta):
                    moments.append(time.monotonic() - start)
                if isinstance(part, ChatReply):
                    first, last = (moments[0], moments[-1]) if moments else [time.monotonic() - start] * 2
                    return _TimedReply(part, first, last, len(moments))
        raise ModelError(f"{chat.name} ended without a reply.", "See the server's log.")

    return _run(chat, listen())


def _run(chat: OpenAIChat, work: Coroutine[None, None, T]) -> T:
    """Run in a new event loop, and close the connections of the chat."""

    async def run() -> T:
        try:
            return await work
        finally:
            await chat.aclose()

    return asyncio.run(run())
