"""Checks of model servers: the one that is set, and those on this machine.

Of the one that is set: its address, its key, its list of models, and its replies. On this machine, the usual
ports of known programs are asked, on the loopback address only, all at once and for two seconds.
"""

from __future__ import annotations

import asyncio
import difflib
import shlex
import socket
import ssl
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from vrag.chat import ChatDelta, ChatMessage, ChatOptions, ChatReply, ChatText, OpenAIChat
from vrag.chat.errors import plain_http_hint
from vrag.chat.http_clients import is_loopback
from vrag.chat.identity import ModelIdentity, ask_identity, list_models
from vrag.doctor.check import Check, failed, ok, skipped, warning
from vrag.errors import ModelError
from vrag.factory.families import family_by_report
from vrag.model_profiles import ModelKind, read_model_name
from vrag.providers import PROVIDERS

T = TypeVar("T")

MIN_CONTEXT_TOKENS = 12_000
"""Tokens that a run of either agent needs: pictures, memory, and what it writes."""
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
LIST_SECONDS = 2.0
"""Time limit of the list of models, and of the identity of one."""
MAX_MODELS, MAX_COMMANDS = 30, 3
"""Models of a server that are described, and commands that are printed."""


def check_address(base_url: str, seconds: float) -> Check:
    """Resolve the server's name and connect to its port."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    if not local and not proxy_bypass(host):
        proxies = getproxies()
        proxy = urlsplit(proxies.get(parts.scheme) or proxies.get("all") or "")
        if address := proxy.netloc.rpartition("@")[2]:  # without its password
            return skipped(f"Requests go through the proxy {address}.")
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


def check_models(chat: OpenAIChat, *, named: bool = True) -> Check:
    """Check that the server accepts the key, lists the model, and gives it a long enough context.

    If no model is `named`, the check lists the models of the server.
    """
    name = chat.name.removeprefix("models/")  # the prefix of Gemini's list only
    listed = {model.name.removeprefix("models/"): model for model in run_chat(chat, chat.models())}
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
    """Check that replies are streamed, measure their speed, and check that token counts are reported."""
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
    if timed.chunks < 2:
        hint = "Replies appear only once complete. Disable buffering in a proxy before the server."
        return warning(f"{message} The reply is not streamed: it comes in one piece.", hint, details)
    return ok(message, details=details)


def check_tokens(chat: OpenAIChat) -> Check:
    """Check whether the server reports token ids and log-probabilities, which only training needs."""
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

    return run_chat(chat, listen())


def run_chat(chat: OpenAIChat, work: Coroutine[None, None, T]) -> T:
    """Run in a new event loop, and close the connections of the chat."""

    async def run() -> T:
        try:
            return await work
        finally:
            await chat.aclose()

    return asyncio.run(run())


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The default address of a program that serves models."""

    title: str
    base_url: str
    provider: str = ""
    """The prefix of `--model` that stands for the address; empty if there is none."""


LOCAL_SERVERS = (
    *(
        LocalServer(provider.title, provider.base_url, provider.name)
        for provider in PROVIDERS.values()
        if is_loopback(provider.base_url)
    ),
    LocalServer("vLLM", "http://localhost:8002/v1"),
    LocalServer("llama.cpp", "http://localhost:8080/v1"),
    LocalServer("SGLang", "http://localhost:30000/v1"),
)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of a server on this machine."""

    server: str
    base_url: str
    name: str
    sees: bool | None
    """True if it accepts pictures; None if neither its server nor its name says."""
    family: str | None
    """The name of its profile; None if it would have to be measured."""
    command: str
    """The command that uses it."""


def find_local_models(servers: Sequence[LocalServer] = LOCAL_SERVERS) -> list[LocalModel]:
    """Find the models of the servers on this machine."""

    async def find_all() -> list[LocalModel]:
        return [model for models in await asyncio.gather(*map(_find_models, servers)) for model in models]

    return asyncio.run(find_all())


def check_local_servers(servers: Sequence[LocalServer] = LOCAL_SERVERS) -> Check:
    """Find the model servers on this machine, and the commands that use their vision models."""
    models = find_local_models(servers)
    details = {"models": [asdict(model) for model in models]}
    if not models:
        return skipped("None answers at the usual ports of this machine.", details=details)
    counts = Counter((model.server, model.base_url) for model in models)
    counted = "; ".join(
        f"{title} at {url} has {count} model{'' if count == 1 else 's'}"
        for (title, url), count in counts.items()
    )
    useful = [model for model in models if model.sees] or [model for model in models if model.sees is None]
    if not useful:
        return warning(f"{counted}; none of them sees.", "Load a vision model.", details)
    useful.sort(key=lambda model: model.family is None)
    commands = "; or ".join(model.command for model in useful[:MAX_COMMANDS])
    names = ", ".join(model.name for model in useful)
    vision = f"{names} {'sees' if len(useful) == 1 else 'see'}"
    if not useful[0].sees:
        vision = f"it is not known whether {vision}"
    return ok(f"{counted}; {vision}.", commands, details)


async def _find_models(server: LocalServer) -> list[LocalModel]:
    """Return the models of a server; none if it does not answer."""
    listed = await list_models(server.base_url, LIST_SECONDS)
    others = (model for model in listed if model.get("owned_by") != "vrag")  # its models are agents
    names = [str(model["id"]) for model in others if "id" in model][:MAX_MODELS]
    requests = (ask_identity(server.base_url, name, None, LIST_SECONDS) for name in names)
    identities = await asyncio.gather(*requests)
    return [_model(server, name, identity) for name, identity in zip(names, identities, strict=True)]


def sees_by_name(model: str) -> bool | None:
    """Return whether a model reads pictures, as far as its name says; None if it does not."""
    kind = read_model_name(model).kind
    return {ModelKind.VISION: True, ModelKind.TEXT: False, ModelKind.OTHER: False}.get(kind)


def _sees(name: str, identity: ModelIdentity) -> bool | None:
    """Return whether a model reads pictures, by its server, the name of its weights, or its own."""
    by_weights = sees_by_name(identity.weights)
    known = (identity.sees, by_weights, sees_by_name(name))
    return next((sees for sees in known if sees is not None), None)


def _model(server: LocalServer, name: str, identity: ModelIdentity | None) -> LocalModel:
    identity = identity or ModelIdentity()
    known = family_by_report(name, identity)
    if server.provider:
        flags = f"--model {shlex.quote(f'{server.provider}:{name}')}"
    else:
        flags = f"--model {shlex.quote(name)} --base-url {server.base_url}"
    return LocalModel(
        server=identity.program or server.title,
        base_url=server.base_url,
        name=name,
        sees=_sees(name, identity),
        family=known.profile.name if known else None,
        command=f'vrag ask PATH "QUESTION" {flags}',
    )
