"""Models built from the settings: a served model, or a checkpoint in this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from vrag.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.policies.local import LocalPolicy
    from vrag.agent.tool_plugins import ToolPlugin
    from vrag.chat import ChatOptions, OpenAIChat
    from vrag.model_profiles import Profile
    from vrag.settings import Settings

LOCAL = "local:"
"""Prefix of model names that are checkpoints in this process."""
USUAL_PROFILE = "qwen2.5-vl"
"""Profile of unknown models and of the offline policy."""
_chats: WeakValueDictionary[tuple[object, ...], OpenAIChat] = WeakValueDictionary()
"""Served models in use, by everything that distinguishes them."""
_opening = threading.Lock()


class FamilySource(StrEnum):
    """The source that determined a family."""

    SETTING = "setting"
    CHECKPOINT = "checkpoint"
    NAME = "name"
    SERVER = "server"
    MEASUREMENT = "measurement"
    NOTHING = "nothing"
    """No source did: the profile is a guess."""


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A profile and its source."""

    profile: Profile
    source: FamilySource
    notice: str = ""
    """Sentences about a family that is in doubt; empty otherwise."""


def open_chat(settings: Settings) -> OpenAIChat:
    """Return the client of the served model: one per process, so that a 429 response slows down all agents.

    Raises:
        SettingsError: If the model or its server is not set, the address is invalid, or the key is withheld:
            see `Settings.key`.
    """
    from vrag.chat import ChatRetries, ChatTimeouts, OpenAIChat
    from vrag.chat.http_clients import base_of

    if not settings.model:
        raise SettingsError("No model is set.", "Set one: --model, VRAG_MODEL.")
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

    Raises:
        ModelError: If it cannot be opened.
        MissingExtra: If that needs the extra `models`.
    """
    from vrag.agent.policies.local import LocalOptions, open_local

    temperature, top_p = _sampling(settings)
    options = LocalOptions(
        temperature=temperature, top_p=top_p or 1.0, max_tokens=settings.max_tokens, seed=settings.seed
    )
    path = settings.model.removeprefix(LOCAL)
    return open_local(path, device=settings.device, dtype=settings.dtype, options=options)


def _sampling(settings: Settings) -> tuple[float, float | None]:
    """Return temperature and top-p: of the settings, or the defaults with and without thinking."""
    thinks = settings.thinking == "on"
    temperature = settings.temperature if settings.temperature is not None else 0.6 if thinks else 0.0
    return temperature, settings.top_p if settings.top_p is not None else 0.95 if thinks else None
