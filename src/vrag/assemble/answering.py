"""Settings become what answers: the agent, its method, its policy, the model behind it."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.extension import load_extensions
from vrag.agent.limits import Limits, Prices
from vrag.agent.loop import Agent
from vrag.agent.memory import MemoryOptions, Propagation
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policies.extractive import ExtractivePolicy, ExtractiveReader
from vrag.agent.policies.extractive_graph import ExtractiveGraphPolicy
from vrag.agent.rag import Rag
from vrag.agent.react import React
from vrag.agent.toolschemas import schemas
from vrag.agent.vimrag import Vimrag
from vrag.agent.vrag import Vrag
from vrag.assemble.instructions import PUBLISHED, read_wording
from vrag.chat import ChatOptions, ChatRetries, ChatTimeouts, OpenAIChat, ThinkingSwitch
from vrag.chat.connections import base_of
from vrag.errors import SettingsError
from vrag.profiles import profile_named, profile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.extension import Extension
    from vrag.agent.method import Method
    from vrag.agent.policies.local import LocalPolicy
    from vrag.agent.policy import Policy
    from vrag.assemble.instructions import Wording
    from vrag.profiles import Profile
    from vrag.search.engine import Searcher
    from vrag.settings import AgentName, Settings


__all__ = [
    "HITS",
    "LOCAL",
    "USUAL_PROFILE",
    "agent_of",
    "chat_options",
    "open_agent",
    "open_chat",
    "open_environment",
    "open_method",
    "open_policy",
    "open_profile",
]

log = logging.getLogger("vrag")
LOCAL = "local:"
"""What the name of a model begins with that is a checkpoint in this process."""
HITS: Mapping[AgentName, int] = {"vrag": 10, "vimrag": 3, "rag": 3, "react": 10}
"""Hits of a search, by agent, where nothing else is said."""
_chats: WeakValueDictionary[tuple[object, ...], OpenAIChat] = WeakValueDictionary()
"""Served models that somebody asks, by all that tells them apart; gone with the last who does."""
_opening = threading.Lock()
USUAL_PROFILE = "qwen2.5-vl"
"""For models of which nothing is known, and for the offline policy."""


def open_agent(
    settings: Settings,
    searcher: Searcher,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
) -> Agent:
    """The agent that the settings describe. What it asks is loaded at the first question.

    Args:
        settings: How it answers.
        searcher: What it searches.
        documents: Ids of the documents it may look at; None for all.
        collection: Name of the one to look in, where the searcher has several; None for all.

    Raises:
        SettingsError: If the settings do not fit each other.
        ActionError: If an action of others cannot be loaded.
        ModelError: If the checkpoint of a local model cannot be opened.
        MissingExtra: If that needs the extra `models`.
    """
    environment = open_environment(settings, searcher, open_profile(settings), documents, collection)
    return agent_of(settings, environment, open_policy(settings, environment))


def open_environment(
    settings: Settings,
    searcher: Searcher,
    profile: Profile,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
) -> Environment:
    """What carries out the actions of an agent, for serving, training and evaluation alike.

    Args:
        settings: How.
        searcher: What is searched.
        profile: Family of the model.
        documents: Ids of the documents that may be looked at; None for all.
        collection: Name of the one to look in, where the searcher has several; None for all.

    Raises:
        ActionError: If an action of others cannot be loaded.
    """
    options = EnvironmentOptions(
        hits=settings.hits or HITS[settings.agent],
        show=settings.show,
        padding=settings.padding,
        documents=documents,
        collection=collection,
    )
    return Environment(searcher, profile, options, load_extensions(settings.actions))


def agent_of(settings: Settings, environment: Environment, policy: Policy) -> Agent:
    """The agent that the settings describe, with a policy of its own.

    Raises:
        SettingsError: If the settings do not fit each other.
    """
    method = open_method(settings)
    return Agent(policy, environment, method, _limits(settings, method), _prices(settings))


def open_profile(settings: Settings) -> Profile:
    """The family of the model: as named, or by its checkpoint or its name; with the user's words, if any.

    Raises:
        SettingsError: If there is none of that name, or the file with the instruction cannot be read.
        ModelError: If the checkpoint is of no family that is known.
    """
    profile = _profile(settings)
    if settings.agent != "vrag":
        return profile
    wording = _wording(settings)
    if wording is None and profile.instruction is None and profile.name in PUBLISHED:
        log.warning(
            "Checkpoints of the profile %s were trained on an instruction of their own: fetch it with "
            "`vrag config fetch-instruction %s` and name the file with VRAG_INSTRUCTION.",
            profile.name,
            profile.name,
        )
    return replace(profile, answer_now=wording.answer_now) if wording and wording.answer_now else profile


def _profile(settings: Settings) -> Profile:
    if settings.profile != "auto":
        return profile_named(settings.profile)
    if settings.model.startswith(LOCAL):
        return _open_local(settings).profile
    known = profile_of(settings.model)
    if settings.model and known is None:
        log.warning(
            "The family of the model %s is not known; taking %s. `vrag doctor --coords` finds out.",
            settings.model,
            USUAL_PROFILE,
        )
    return known or profile_named(USUAL_PROFILE)


def open_method(settings: Settings) -> Method:
    """The way of answering that the settings describe.

    Raises:
        SettingsError: If the file with the instruction cannot be read.
    """
    wording = _wording(settings)
    own = wording and wording.instruction
    match settings.agent:
        case "vrag":
            return Vrag(instruction=own, reselect=settings.reselect)
        case "react":
            return React(instruction=own, reselect=settings.reselect)
        case "rag":
            return Rag(instruction=own)
        case "vimrag":
            return Vimrag(instruction=own, reselect=settings.reselect, memory=_memory(settings))


def _memory(settings: Settings) -> MemoryOptions:
    """How VimRAG shares out its memory."""
    return MemoryOptions(
        tokens=settings.memory_tokens,
        fresh_tokens=settings.fresh_tokens,
        items=settings.memory_items,
        frame_tokens=settings.frame_tokens,
        propagation=Propagation(settings.memory_rule),
        crop_nodes=settings.crop_nodes,
    )


def open_policy(settings: Settings, environment: Environment) -> Policy:
    """What writes the replies: a served model, a checkpoint in this process, or the offline policy.

    Raises:
        SettingsError: If a model is named and no server, or the other way round.
        ModelError: If the checkpoint cannot be opened.
        MissingExtra: If that needs the extra `models`.
    """
    profile = environment.profile
    if settings.model.startswith(LOCAL):
        return _open_local(settings)
    if settings.model:
        return ChatPolicy(open_chat(settings), chat_options(settings, profile, environment.extensions))
    if settings.base_url and settings.base_url != os.environ.get("OPENAI_BASE_URL"):
        raise SettingsError(f"Which model of {base_of(settings.base_url)}?", "Name one: --model, VRAG_MODEL.")
    return _offline(settings, environment)


def _offline(settings: Settings, environment: Environment) -> Policy:
    """The policy without a model that speaks as the agent does."""
    searcher, profile = environment.searcher, environment.profile
    match settings.agent:
        case "vrag":
            return ExtractivePolicy(searcher, profile)
        case "react":
            return ExtractivePolicy(searcher, profile, crops=False)
        case "rag":
            return ExtractiveReader(searcher, profile)
        case "vimrag":
            return ExtractiveGraphPolicy(searcher, profile, crops=settings.crop_nodes)


def open_chat(settings: Settings) -> OpenAIChat:
    """The served model: one for all agents of the process that ask it alike, so that a 429 holds back all.

    Raises:
        SettingsError: If no model or no server is named, the address cannot be one, or the key does not go
            there: see `Settings.key`.
    """
    if not settings.model:
        raise SettingsError("No model is named.", "Name one: --model, VRAG_MODEL.")
    if not settings.base_url:
        raise SettingsError(
            f"Where is the model {settings.model}?",
            "Name its server with --base-url (VRAG_BASE_URL), or a checkpoint as local:PATH.",
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
    alike = (server, settings.model, key, variable, timeouts, retries, places)
    with _opening:
        if (chat := _chats.get(alike)) is None:
            chat = OpenAIChat(
                server,
                settings.model,
                api_key=key,
                key_variable=variable,
                timeouts=timeouts,
                retries=retries,
                concurrency=places,
            )
            _chats[alike] = chat
        return chat


def chat_options(
    settings: Settings, profile: Profile, extensions: Mapping[str, Extension] | None = None
) -> ChatOptions:
    """How a served model is asked."""
    temperature, top_p = _sampling(settings)
    tools: tuple[Mapping[str, Any], ...] = ()
    if settings.native_tools and settings.agent == "vimrag":
        usages = {name: extension.usage for name, extension in (extensions or {}).items()}
        tools = tuple(schemas(crop=settings.crop_nodes, tools=usages, profile=profile))
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
        tools=tools,
    )


def _open_local(settings: Settings) -> LocalPolicy:
    from vrag.agent.policies.local import LocalOptions, open_local

    temperature, top_p = _sampling(settings)
    options = LocalOptions(
        temperature=temperature, top_p=top_p or 1.0, max_tokens=settings.max_tokens, seed=settings.seed
    )
    path = settings.model.removeprefix(LOCAL)
    return open_local(path, device=settings.device, dtype=settings.dtype, options=options)


def _wording(settings: Settings) -> Wording | None:
    return read_wording(settings.instruction) if settings.instruction else None


def _sampling(settings: Settings) -> tuple[float, float | None]:
    """Temperature and top-p: those of the settings, or what suits a model that thinks or does not."""
    thinks = settings.thinking == "on"
    temperature = settings.temperature if settings.temperature is not None else 0.6 if thinks else 0.0
    return temperature, settings.top_p if settings.top_p is not None else 0.95 if thinks else None


def _limits(settings: Settings, method: Method) -> Limits:
    return Limits(
        steps=settings.max_steps or method.steps,
        tokens=settings.budget_tokens,
        visual_tokens=settings.budget_visual_tokens,
        seconds=settings.budget_seconds,
        cost=settings.budget_cost,
    )


def _prices(settings: Settings) -> Prices:
    return Prices(
        prompt=settings.price_prompt, completion=settings.price_completion, cached=settings.price_cached
    )
