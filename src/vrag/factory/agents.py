"""Agents built from the settings: method, policy and model."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits, Prices
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.memory.energies import MemoryOptions, Propagation
from vrag.agent.methods.registry import METHODS, build_method
from vrag.agent.tool_plugins import load_extensions
from vrag.errors import SettingsError
from vrag.factory.instructions import PUBLISHED, read_wording
from vrag.factory.model_families import open_family
from vrag.factory.models import LOCAL, USUAL_PROFILE, chat_options, open_chat, open_local_model

if TYPE_CHECKING:
    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.factory.instructions import Instruction
    from vrag.model_profiles import Profile
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings


__all__ = [
    "LOCAL",
    "USUAL_PROFILE",
    "agent_of",
    "chat_options",
    "check_agent",
    "open_agent",
    "open_chat",
    "open_environment",
    "open_method",
    "open_policy",
    "open_profile",
]

log = logging.getLogger("vrag")


def open_agent(
    settings: Settings,
    searcher: Searcher,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
) -> Agent:
    """Return the agent that the settings describe. Its model is loaded at the first question.

    Args:
        settings: The settings of the agent.
        searcher: Where it searches.
        documents: Ids of the documents it may look at; None for all.
        collection: The collection to look in, where the searcher has several; None for all.

    Raises:
        SettingsError: If the settings contradict each other.
        ActionError: If a custom tool cannot be loaded.
        ModelError: If the checkpoint of a local model cannot be opened.
        MissingExtra: If that needs the extra `models`.
    """
    family = open_family(settings)
    profile = _apply_wording(settings, family.profile)
    environment = open_environment(settings, searcher, profile, documents, collection)
    agent = agent_of(settings, environment, open_policy(settings, environment))
    return replace(agent, notices=(family.notice,)) if family.notice else agent


def open_environment(
    settings: Settings,
    searcher: Searcher,
    profile: Profile,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
) -> Environment:
    """Return the environment of an agent: the same for serving, training and evaluation.

    Args:
        settings: The settings of the agent.
        searcher: Where it searches.
        profile: The profile of the model family.
        documents: Ids of the documents that may be looked at; None for all.
        collection: The collection to look in, where the searcher has several; None for all.

    Raises:
        ActionError: If a custom tool cannot be loaded.
    """
    options = EnvironmentOptions(
        hits=settings.hits or METHODS[settings.agent].hits,
        show=settings.show,
        padding=settings.padding,
        documents=documents,
        collection=collection,
    )
    return Environment(searcher, profile, options, load_extensions(settings.actions))


def agent_of(settings: Settings, environment: Environment, policy: Policy) -> Agent:
    """Return the agent that the settings describe, with the given policy.

    Raises:
        SettingsError: If the settings contradict each other.
    """
    method = open_method(settings)
    return Agent(policy, environment, method, _limits(settings, method), _prices(settings))


def open_profile(settings: Settings) -> Profile:
    """Return the profile of the model (see `open_family`), with the user's text for the last turn, if any.

    Raises:
        SettingsError: If there is no profile of the name that is set, or the instruction cannot be read.
        ModelError: If the checkpoint belongs to an unknown model family.
    """
    return _apply_wording(settings, open_family(settings).profile)


def _apply_wording(settings: Settings, profile: Profile) -> Profile:
    """Return the profile with the user's texts; warn if a released checkpoint lacks its own instruction."""
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


def check_agent(settings: Settings) -> None:
    """Open what can be opened of the agent, so that a wrong setting shows before anything is indexed.

    Raises:
        VragError: If the profile, the model, the instruction or a custom tool cannot be opened.
    """
    is_local = settings.model.startswith(LOCAL)
    if settings.profile != "auto":  # a family that has to be found out is reported once, later
        open_profile(settings)
    if is_local:
        open_profile(settings.model_copy(update={"profile": "auto"}))  # opens the checkpoint
    open_method(settings)
    load_extensions(settings.actions)
    _check_model_named(settings)
    if settings.model and not is_local:
        open_chat(settings)


def open_method(settings: Settings) -> Method:
    """Return the method that the settings select.

    Raises:
        SettingsError: If the file with the instruction cannot be read.
    """
    wording = _wording(settings)
    return build_method(
        settings.agent,
        instruction=wording and wording.instruction,
        reselect=settings.reselect,
        repair=settings.repair,
        memory=_memory(settings),
    )


def _memory(settings: Settings) -> MemoryOptions:
    """Return the memory options of VimRAG."""
    return MemoryOptions(
        tokens=settings.memory_tokens,
        fresh_tokens=settings.fresh_tokens,
        items=settings.memory_items,
        frame_tokens=settings.frame_tokens,
        propagation=Propagation(settings.memory_rule),
        crop_nodes=settings.crop_nodes,
    )


def _check_model_named(settings: Settings) -> None:
    """Raise `SettingsError` if a server is set, and no model."""
    if settings.model or not settings.base_url or settings.base_url == os.environ.get("OPENAI_BASE_URL"):
        return
    from vrag.chat.http_clients import base_of

    raise SettingsError(f"Which model of {base_of(settings.base_url)}?", "Set one: --model, VRAG_MODEL.")


def open_policy(settings: Settings, environment: Environment) -> Policy:
    """Build the policy: a served model, a local checkpoint, or the offline policy.

    Raises:
        SettingsError: If there is a model without a server, or a server without a model.
        ModelError: If the checkpoint cannot be opened.
        MissingExtra: If that needs the extra `models`.
    """
    profile = environment.profile
    if settings.model.startswith(LOCAL):
        return open_local_model(settings)
    if settings.model:
        from vrag.agent.policies.chat import ChatPolicy

        return ChatPolicy(open_chat(settings), chat_options(settings, profile, environment.extensions))
    _check_model_named(settings)
    return open_method(settings).offline_policy(environment)


def _wording(settings: Settings) -> Instruction | None:
    return read_wording(settings.instruction) if settings.instruction else None


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
