"""Servers: their addresses, and providers of models, named before the model as in `ollama:qwen3-vl:8b`.

Each provider is called through its OpenAI-compatible endpoint, at the address in its own documentation.
"""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote, quote_plus, urlsplit

from vrag.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_PREFIX = "local:"
"""Prefix of model names that are checkpoints in this process: `local:PATH`."""
DASHSCOPE = "https://dashscope.aliyuncs.com/compatible-mode/v1"
"""Address of the models for `DASHSCOPE_API_KEY`."""
_DASHSCOPE_HOSTS = ".aliyuncs.com"
_WILDCARD = re.compile(r"((?:[a-z][a-z0-9+.-]*://)?)(0\.0\.0\.0|\[::\])(?=[:/?#]|$)", re.IGNORECASE)
_BARE_ADDRESS = re.compile(
    r"(?:(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)?(?=:)|(?P<local>localhost)(?=/|$))"
    r"(?P<rest>(?::[0-9]{1,5})?(?:/[^\s@]*)?)",
    re.IGNORECASE,
)
"""An address of a server without its scheme."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - replaced, not bound
_USER_INFO = re.compile(r"(?<=://)\S*@")
_QUERY = re.compile(r"(?<=://)([^?#]*[?#])\S+")
_MIN_KEY_CHARS = 4
"""A shorter key is no secret, and to replace it would tear texts apart."""

Key: TypeAlias = Literal["model_key", "search_key", "embed_key", "judge_key"]
"""The settings that are keys."""
KEY_ADDRESSES: dict[Key, tuple[str, str]] = {
    "model_key": ("base_url", "VRAG_BASE_URL=… or --base-url"),
    "search_key": ("search_url", "VRAG_SEARCH_URL=… or --search-url"),
    "embed_key": ("embedder", "VRAG_EMBEDDER=… or --embedder"),
    "judge_key": ("judge_url", "VRAG_JUDGE_URL=… or --judge-url"),
}
"""Key → the setting of the address that it is sent to, and how users set that address."""
_EMBEDDING_SERVERS = frozenset({"remote", "remote-chat", "pooling"})
"""Schemes of embedders whose model runs on a server."""
_MODELS: tuple[tuple[str, str, Key], ...] = (
    ("model", "base_url", "model_key"),
    ("judge_model", "judge_url", "judge_key"),
)
"""Settings that name a model, with its address and its key."""
_FOLDER_ORIGINS = frozenset({".env", "vrag.toml"})
"""Origins in the current folder, whose files may come from others."""


def reachable(address: str) -> str:
    """Replace the host 0.0.0.0 or [::] of an address by the loopback address of its family.

    Servers that listen on all interfaces print these hosts, and commands of the reference call them. Linux
    takes them for this machine, Windows refuses them, and `NO_PROXY` rarely names them.

    >>> reachable("http://0.0.0.0:8001/search"), reachable("http://0.0.0.0.example/"), reachable("[::]:6379")
    ('http://127.0.0.1:8001/search', 'http://0.0.0.0.example/', '[::1]:6379')
    """
    found = _WILDCARD.match(address)
    return address if found is None else f"{found[1]}{_LOOPBACK[found[2]]}{address[found.end() :]}"


def complete_address(address: str) -> str:
    """Return the address of a server with its scheme and host: `:8001` is a port of this machine.

    Other texts are returned as they are, among them host names without a port.

    >>> complete_address(":8001"), complete_address("localhost:8001/v1"), complete_address("[::1]:8001")
    ('http://127.0.0.1:8001', 'http://localhost:8001/v1', 'http://[::1]:8001')
    >>> complete_address("https://example.org"), complete_address("localhost"), complete_address("./folder")
    ('https://example.org', 'http://localhost', './folder')
    """
    found = _BARE_ADDRESS.fullmatch(address.strip())
    if found is None:
        return address
    return f"http://{found['host'] or found['local'] or '127.0.0.1'}{found['rest']}"


def is_embedding_server(name: str) -> bool:
    """Return whether an embedder of that name sends queries and pages to a server.

    Its scheme decides: the address after it may lack `http://`.

    >>> is_embedding_server("remote:m@localhost:8000"), is_embedding_server("sentence:some/model")
    (True, False)
    """
    scheme, colon, _ = name.partition(":")
    return "://" in name or (bool(colon) and scheme.strip().lower() in _EMBEDDING_SERVERS)


def complete_embedder(name: str) -> str:
    """Return the name of an embedder with the whole address of its server; see `complete_address`.

    >>> complete_embedder("remote:m@:8000"), complete_embedder("sentence:some/model")
    ('remote:m@http://127.0.0.1:8000', 'sentence:some/model')
    """
    model, at, address = name.strip().rpartition("@")
    is_bare = at and "://" not in name and is_embedding_server(name)
    return f"{model}@{complete_address(address)}" if is_bare else name


def hide_credentials(address: str) -> str:
    """Replace user name, password and query, which may hold a key, in an address by asterisks.

    >>> hide_credentials("https://ada:secret@example.org/v1?key=secret"), hide_credentials("./a?b")
    ('https://***@example.org/v1?***', './a?b')
    """
    return _QUERY.sub(r"\1***", _USER_INFO.sub("***@", address))


def redact_key(text: str, key: str | None) -> str:
    """Replace a key that a server repeats in its text, as it is or as URLs, JSON and base64 write it.

    >>> redact_key("Unknown key sk-1234.", "sk-1234")
    'Unknown key ….'
    """
    if not key or len(key) < _MIN_KEY_CHARS:
        return text
    packed = base64.b64encode(key.encode()).decode()
    forms = {key, quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1], packed, packed.rstrip("=")}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "…")
    return text


def is_dashscope(address: str) -> bool:
    """Return whether the models at an address are DashScope's."""
    return (urlsplit(address).hostname or "").endswith(_DASHSCOPE_HOSTS)


def is_hosted(address: str) -> bool:
    """Return whether a known service is at an address, whose models are what their names say.

    >>> is_hosted("https://api.openai.com/v1"), is_hosted("http://localhost:8002/v1")
    (True, False)
    """
    host = urlsplit(address).hostname
    services = (provider for provider in PROVIDERS.values() if provider.key_variable)
    return is_dashscope(address) or any(host == urlsplit(service.base_url).hostname for service in services)


@dataclass(frozen=True, slots=True)
class Provider:
    """A program on this machine or a service that serves models."""

    name: str
    """The word before the colon."""
    title: str
    base_url: str
    key_variable: str = ""
    """Environment variable of the key; empty for a program that asks for none."""
    thinking_switch: str = "top"
    """Switch of thinking: a value of `vrag.chat.ThinkingSwitch`."""


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("ollama", "Ollama", "http://localhost:11434/v1", thinking_switch="effort"),
        Provider("lmstudio", "LM Studio", "http://localhost:1234/v1", thinking_switch="template"),
        Provider("vllm", "vLLM", "http://localhost:8000/v1", thinking_switch="template"),
        Provider(
            "openai",
            "OpenAI",
            "https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            thinking_switch="effort",
        ),
        Provider(
            "openrouter",
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
            thinking_switch="reasoning",
        ),
        Provider(
            "gemini",
            "Gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            key_variable="GEMINI_API_KEY",
            thinking_switch="effort",
        ),
        Provider("anthropic", "Anthropic", "https://api.anthropic.com/v1", key_variable="ANTHROPIC_API_KEY"),
        Provider("dashscope", "DashScope", DASHSCOPE, key_variable="DASHSCOPE_API_KEY"),
    )
}
"""By name."""


def split_model(model: str) -> tuple[Provider | None, str]:
    """Split a name into the provider before the colon, and the provider's own name of the model.

    >>> provider, name = split_model("ollama:qwen3-vl:8b")
    >>> (provider.base_url, name)
    ('http://localhost:11434/v1', 'qwen3-vl:8b')
    >>> split_model("qwen3-vl:8b")
    (None, 'qwen3-vl:8b')
    """
    word, colon, name = model.partition(":")
    provider = PROVIDERS.get(word.strip().lower()) if colon else None
    return (provider, name.strip()) if provider else (None, model)


def apply_providers(values: dict[str, Any], origins: dict[str, str]) -> dict[Key, tuple[str, str]]:
    """Replace `ollama:NAME` and the like by the name, and add the provider's address and key.

    An address or key that the user set with at least the weight of the model's name stays. A model that a
    file in the current folder names gets the provider's own key and no other of the user's.

    The address of an embedder's server is completed.

    Values and their origins (`vrag.settings.SettingsReport`) are changed in place. Returns message and hint
    for the keys that providers ask for and that are not set.
    """
    missing: dict[Key, tuple[str, str]] = {}
    if values.get("embedder"):
        values["embedder"] = complete_embedder(str(values["embedder"]))
    _strip_provider_of_models(values, split_model(str(values.get("model") or ""))[0])
    for model, url, key in _MODELS:
        provider, name = split_model(str(values.get(model) or ""))
        if provider is None:
            continue
        values[model], origin = name, f"{provider.name}: in {model}"
        if not _outweighs(url, model, values, origins):
            values[url], origins[url] = provider.base_url, origin
        if model == "model" and not _outweighs("thinking_switch", model, values, origins):
            values["thinking_switch"], origins["thinking_switch"] = provider.thinking_switch, origin
        # The provider's key is not for another server, such as a proxy, that the user set instead.
        # To an address from a file in the current folder no key is sent; an error then names the key.
        own = origins[url] in _FOLDER_ORIGINS or _host(str(values[url]), "") == _host(provider.base_url, "")
        foreign_key = origins[model] in _FOLDER_ORIGINS and origins[key] not in _FOLDER_ORIGINS
        if foreign_key or (own and not _outweighs(key, model, values, origins)):
            variable = provider.key_variable if own else ""
            values[key], origins[key] = os.environ.get(variable, ""), variable or "default"
            if variable and not values[key]:
                missing[key] = f"{provider.title} requires a key.", f"Set {variable}."
    return missing


def _outweighs(name: str, model: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> bool:
    """Return whether a setting is set, with at least the weight of a model's name."""
    weights = {"default": 0, ".env": 2, "environment": 3, "flag": 4}  # a settings file has its path here
    return bool(values.get(name)) and weights.get(origins[name], 1) >= max(weights.get(origins[model], 1), 1)


def _strip_provider_of_models(values: dict[str, Any], provider: Provider | None) -> None:
    """Strip the provider off the names of further models, which are of the server of `model`.

    Raises `SettingsError` if one names another provider.
    """
    names = values.get("models") or ()
    listed = [str(name).strip() for name in (names.split(",") if isinstance(names, str) else names)]
    for name in listed:
        other = split_model(name)[0]
        if other is not None and other is not provider:
            raise SettingsError(
                f"The setting 'models' names {name}, but further models must be on the server of 'model'.",
                f"Leave out {other.name}: or name a model of {other.title} as 'model'.",
            )
    values["models"] = [split_model(name)[1] for name in listed]


def add_known_variables(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Add address and key of the model's server from other programs' variables, where ours are not set.

    A key is sent to an address that the user named, not to one from a file in the current folder.
    """
    dashscope = "DASHSCOPE_API_KEY"
    if not values.get("base_url"):
        if address := os.environ.get("OPENAI_BASE_URL"):
            values["base_url"], origins["base_url"] = address, "OPENAI_BASE_URL"
        elif values.get("model") and os.environ.get(dashscope) and not os.environ.get("OPENAI_API_KEY"):
            values["base_url"], origins["base_url"] = DASHSCOPE, dashscope
    if values.get("model_key") or origins["base_url"] in _FOLDER_ORIGINS:
        return
    host = _host(str(values.get("base_url", "")), origins["base_url"])
    variable = dashscope if host.endswith(_DASHSCOPE_HOSTS) else "OPENAI_API_KEY"
    if values.get("base_url") and (key := os.environ.get(variable)):
        values["model_key"], origins["model_key"] = key, variable


def _host(address: str, origin: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        shown = hide_credentials(address)
        raise SettingsError(
            f"The setting 'base_url' ({origin}) cannot be used: {shown!r} is not an address.",
            "Examples: http://localhost:8002/v1, http://[::1]:8002/v1.",
        ) from None


def find_withheld_keys(settings: object, origins: dict[str, str]) -> dict[Key, tuple[str, str]]:
    """Return message and hint for the user's keys whose address only a file in the current folder names.

    A key from such a file is the folder's own and not withheld. The origins are changed in place.
    """
    reasons: dict[Key, tuple[str, str]] = {}
    for key, (place, how_to_set) in KEY_ADDRESSES.items():
        source, file, address = origins[key], origins[place], str(getattr(settings, place))
        if (
            not getattr(settings, key)
            or source in _FOLDER_ORIGINS
            or file not in _FOLDER_ORIGINS
            or not address
        ):
            continue
        if key == "embed_key" and not is_embedding_server(address):
            continue  # a model in this process, which is sent no key
        origins[key] = f"{source}, withheld: {file} names the address"
        shown = hide_credentials(address)
        reasons[key] = (
            f"{key} ({source}) is not sent to {shown}: only {file} of this folder names it.",
            f"Set the address yourself: {how_to_set}.",
        )
    return reasons
