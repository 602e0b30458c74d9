"""Models built from the settings: a served model, a checkpoint in this process, a reader of running text."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pydantic import SecretStr

from vrag.errors import SettingsError
from vrag.providers import LOCAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.policies.local import LocalPolicy
    from vrag.agent.tool_plugins import ToolPlugin
    from vrag.chat import ChatOptions, OpenAIChat
    from vrag.model_profiles import Profile
    from vrag.reading.text_reader import TextReader
    from vrag.server.setup.choices import ChosenModel
    from vrag.settings import Settings

_chats: WeakValueDictionary[tuple[object, ...], OpenAIChat] = WeakValueDictionary()
"""Served models in use, by everything that distinguishes them."""
_opening = threading.Lock()


def open_chat(settings: Settings) -> OpenAIChat:
    """Return the client of the served model: one per process, so that a 429 response slows down all agents.

    Raises `SettingsError` if the model or its server is not set, the address is invalid, or the key is
    withheld: see `Settings.key`.
    """
    from vrag.chat import ChatRetries, ChatTimeouts, OpenAIChat
    from vrag.chat.http_clients import base_of

    if not settings.model:
        raise SettingsError(
            "No model is set.", "Choose one in the settings of the page, or with --model or VRAG_MODEL."
        )
    if not settings.base_url:
        raise SettingsError(
            f"The model {settings.model} has no server.",
            "Name it with --base-url (VRAG_BASE_URL) or a provider prefix (ollama:, openai:, …), or name a "
            "checkpoint as local:PATH.",
        )
    timeouts = ChatTimeouts(
        connect_seconds=settings.connect_seconds,
        first_token_seconds=settings.first_token_seconds,
        token_seconds=settings.token_seconds,
        call_seconds=settings.call_seconds,
    )
    retries, places = ChatRetries(times=settings.model_retries), settings.model_requests
    server, key = base_of(settings.base_url), settings.key("model_key")
    variable = settings.key_place("model_key")
    identity = (server, settings.model, key, variable, timeouts, retries, places)
    with _opening:
        if (chat := _chats.get(identity)) is None:
            chat = OpenAIChat(
                server,
                settings.model,
                api_key=key,
                key_variable=variable,
                timeouts=timeouts,
                retries=retries,
                concurrency=places,
            )
            _chats[identity] = chat
        return chat


async def close_chats() -> None:
    """Close the connections of all served models that belong to the running event loop."""
    for chat in list(_chats.values()):
        await chat.aclose()


def settings_of_choice(settings: Settings, chosen: ChosenModel) -> Settings:
    """Return the settings with the model that was chosen on the page; the prices of another are left out."""
    changes = {
        "model": chosen.model,
        "base_url": chosen.base_url,
        "model_key": chosen.key,
        "profile": chosen.profile,
        "thinking_switch": chosen.thinking_switch,
        **dict.fromkeys(("price_prompt", "price_completion", "price_cached")),
    }
    changed = settings.model_copy(update=changes).withholding({})
    return changed.with_key_place("model_key", "enter the key of this server under Settings")


def open_judge_model(settings: Settings) -> OpenAIChat:
    """Return the client of the judge model, which the settings name.

    Raises `SettingsError` if it is not set, it has no server, or its key is withheld.
    """
    if not settings.judge_model:
        raise SettingsError("No judge model is set.", "Set one: VRAG_JUDGE_MODEL and VRAG_JUDGE_URL.")
    if not settings.judge_url:
        raise SettingsError(f"The judge {settings.judge_model} has no server.", "Set VRAG_JUDGE_URL.")
    asked = {
        "model": settings.judge_model,
        "base_url": settings.judge_url,
        "model_key": SecretStr(settings.key("judge_key") or ""),
    }
    return open_chat(settings.model_copy(update=asked).withholding({}))


def open_text_reader(settings: Settings) -> TextReader:
    """Return the reader of running text: ours, or ours with the pretrained model that the settings name.

    A pretrained model is loaded once per process. Raises `ModelError` if it cannot be used and `MissingExtra`
    if its libraries are not installed.
    """
    from vrag.reading.spans.reader import load_span_model
    from vrag.reading.text_reader import CombinedReader, SpanReader

    ours = SpanReader(load_span_model())
    if not settings.reader:
        return ours
    with _opening:
        pretrained = _pretrained_reader(settings.reader, settings.device, settings.dtype, settings.batch)
    return CombinedReader(ours, pretrained)


@lru_cache(maxsize=1)
def _pretrained_reader(model: str, device: str, dtype: str, batch: int) -> TextReader:
    from vrag.agent.policies.pretrained_reader import PretrainedReader
    from vrag.embed.options import EmbedOptions

    return PretrainedReader(model, EmbedOptions(device=device, dtype=dtype, batch=batch))


def chat_options(
    settings: Settings, profile: Profile, tools: Mapping[str, ToolPlugin] | None = None
) -> ChatOptions:
    """Return the options of requests to a served model."""
    from vrag.agent.methods import METHODS
    from vrag.agent.replies.tool_calls import schemas
    from vrag.chat import ChatOptions, ThinkingSwitch

    temperature, top_p = _sampling(settings)
    tool_schemas: tuple[Mapping[str, Any], ...] = ()
    if settings.native_tools and METHODS[settings.agent].uses_graph:
        usages = {name: tool.usage for name, tool in (tools or {}).items()}
        tool_schemas = tuple(schemas(crop=settings.crop_nodes, tools=usages, profile=profile))
    return ChatOptions(
        temperature=temperature,
        top_p=top_p,
        max_tokens=settings.max_tokens,
        stop=profile.stop,
        seed=settings.seed,
        thinking=None if settings.thinking == "auto" else settings.thinking == "on",
        thinking_switch=ThinkingSwitch(settings.thinking_switch),
        logprobs=settings.token_details,
        token_ids=settings.token_details,
        tools=tool_schemas,
    )


def open_local_model(settings: Settings) -> LocalPolicy:
    """Return the checkpoint in this process that the settings name.

    Raises `ModelError` if it cannot be opened and `MissingExtra` if that needs the extra `models`.
    """
    from vrag.agent.policies.local import LocalOptions, open_local

    temperature, top_p = _sampling(settings)
    options = LocalOptions(
        temperature=temperature, top_p=top_p or 1.0, max_tokens=settings.max_tokens, seed=settings.seed
    )
    path = settings.model.removeprefix(LOCAL_PREFIX)
    return open_local(path, device=settings.device, dtype=settings.dtype, options=options)


def _sampling(settings: Settings) -> tuple[float, float | None]:
    """Return temperature and top-p: of the settings, or the defaults with and without thinking."""
    thinks = settings.thinking == "on"
    temperature = settings.temperature if settings.temperature is not None else 0.6 if thinks else 0.0
    return temperature, settings.top_p if settings.top_p is not None else 0.95 if thinks else None
