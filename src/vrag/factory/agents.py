"""Agents built from the settings: method, policy and model."""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.answers.claim_judge import ClaimJudge, ModelClaimJudge
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits, Prices
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.memory.energies import MemoryOptions, Propagation
from vrag.agent.methods import METHODS, build_method
from vrag.agent.policy import MAX_PLACES
from vrag.agent.suggestions import ModelSuggester, QuestionSuggester, ReaderSuggester
from vrag.agent.tool_plugins import load_tools
from vrag.errors import SettingsError
from vrag.factory.families import FamilySource, ModelFamily, open_family
from vrag.factory.instructions import PUBLISHED, read_wording
from vrag.factory.models import (
    chat_options,
    open_chat,
    open_judge_model,
    open_local_model,
    open_text_reader,
)
from vrag.providers import LOCAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.factory.instructions import Instruction
    from vrag.index.maintenance import UnreadFiles
    from vrag.model_profiles import Profile
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings

log = logging.getLogger("vrag")


def open_agent(
    settings: Settings,
    searcher: Searcher,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
    family: ModelFamily | None = None,
) -> Agent:
    """Return the agent that the settings describe. Its model is loaded at the first question.

    It is limited to the documents with these ids and to this one of several collections; None for all.
    `family` is that of the model, if it has been opened already.

    Raises `SettingsError` if the settings contradict each other, `ActionError` if a custom tool cannot be
    loaded, and `ModelError` or `MissingExtra` if the checkpoint of a local model cannot be opened.
    """
    family = family or open_family(settings, quiet=True)
    profile = _with_last_turn(settings, family.profile)
    has_model = bool(settings.model)
    environment = open_environment(settings, searcher, profile, documents, collection, has_model=has_model)
    agent = agent_of(settings, environment, open_policy(settings, environment))
    unworded = _missing_instruction(settings, family.profile)
    in_doubt = family.notice if family.source is FamilySource.NOTHING else ""
    for notice in filter(None, (in_doubt, unworded)):
        log.warning("%s", notice)
    return replace(agent, notices=tuple(filter(None, (family.notice, unworded))))


def add_unread_notice(agent: Agent, unread: UnreadFiles | None) -> Agent:
    """Return the agent with a notice on the files that are not ready to be searched; the same without any."""
    return replace(agent, notices=(*agent.notices, str(unread))) if unread else agent


def open_environment(
    settings: Settings,
    searcher: Searcher,
    profile: Profile,
    documents: frozenset[str] | None = None,
    collection: str | None = None,
    *,
    has_model: bool = True,
) -> Environment:
    """Return the environment of an agent: the same for serving, training and evaluation; see `open_agent`.

    Without a model more pages are read; a policy that is trained, or a script, counts as a model.

    Raises `ActionError` if a custom tool cannot be loaded, and `ModelError` or `MissingExtra` if the reader
    of running text cannot be opened.
    """
    options = EnvironmentOptions(
        hits=settings.hits or (METHODS[settings.agent].hits if has_model else MAX_PLACES),
        show=settings.show or (1 if has_model else MAX_PLACES),
        select=settings.select if has_model and METHODS[settings.agent].follows_checkpoints else 0,
        tables=settings.tables,
        padding=settings.padding,
        documents=documents,
        collection=collection,
    )
    text_reader = open_text_reader(settings) if settings.reader else None
    return Environment(searcher, profile, options, load_tools(settings.actions), text_reader)


def agent_of(
    settings: Settings, environment: Environment, policy: Policy, *, training: bool = False
) -> Agent:
    """Return the agent that the settings describe, with the given policy.

    What an answer rests on is located on its pages and compared with other documents, and a model is shown
    where items that it was shown disagree; not in `training`, see `vrag.factory.training.settings_to_train`.

    Raises `SettingsError` if the settings contradict each other.
    """
    method = open_method(settings)
    limits = Limits(
        steps=settings.max_steps or method.steps,
        tokens=settings.budget_tokens,
        visual_tokens=settings.budget_visual_tokens,
        seconds=settings.budget_seconds,
        cost=settings.budget_cost,
    )
    prices = Prices(
        prompt=settings.price_prompt, completion=settings.price_completion, cached=settings.price_cached
    )
    judge = open_claim_judge(settings)
    return Agent(
        policy,
        environment,
        method,
        limits,
        prices,
        judge=judge,
        conflicts=not training,
        locate=not training,
    )


def open_claim_judge(settings: Settings) -> ClaimJudge | None:
    """Return the judge model as a judge of claims; None where rules alone check them.

    Raises `SettingsError` if it is not set, it has no server, or its key is withheld.
    """
    if settings.verify_by == "rules" or settings.verify == "off":
        return None
    return ModelClaimJudge(open_judge_model(settings))


def open_suggester(settings: Settings) -> QuestionSuggester:
    """Return what suggests questions about documents: the served model, or else the reader."""
    reader = ReaderSuggester()
    if not (settings.model and settings.base_url) or settings.model.startswith(LOCAL_PREFIX):
        return reader
    return ModelSuggester(open_chat(settings), reader)


def agent_by_seed(settings: Settings, agent: Agent) -> Callable[[RolloutAttempt], Agent]:
    """Return a function from an attempt to its agent, with a seed of its own if the settings have one.

    With one seed for all, every sample of a question would be the same. The seed, 0 to 2³¹ - 1, is the same
    for the same seed of the settings, case and sample, so that every run can be reproduced.
    """
    from vrag.agent.policies.local import LocalPolicy

    if settings.seed is None or not settings.model:
        return lambda _: agent

    def seeded_agent(attempt: RolloutAttempt) -> Agent:
        text = f"{settings.seed}\n{attempt.case.uid}\n{attempt.sample}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:4]) >> 1
        if isinstance(agent.policy, LocalPolicy):
            policy: Policy = agent.policy.seeded(seed)
        else:
            policy = open_policy(settings.model_copy(update={"seed": seed}), agent.environment)
        return replace(agent, policy=policy)

    return seeded_agent


def open_profile(settings: Settings) -> Profile:
    """Return the profile of the model (see `open_family`), with the user's text for the last turn, if any.

    Raises `SettingsError` if there is no profile of the name that is set, or the instruction cannot be read,
    and `ModelError` if the checkpoint belongs to an unknown model family.
    """
    return _with_last_turn(settings, open_family(settings).profile)


def _with_last_turn(settings: Settings, profile: Profile) -> Profile:
    """Return the profile with the user's text for the last turn, if there is one."""
    wording = _wording(settings) if METHODS[settings.agent].follows_checkpoints else None
    return replace(profile, answer_now=wording.answer_now) if wording and wording.answer_now else profile


def _missing_instruction(settings: Settings, profile: Profile) -> str:
    """Return a notice if a released checkpoint lacks the instruction it was trained on; else empty."""
    own = settings.instruction or profile.instruction is not None
    if own or profile.name not in PUBLISHED or not METHODS[settings.agent].follows_checkpoints:
        return ""
    return (
        f"Checkpoints of the profile {profile.name} were trained on an instruction of their own; vrag's is "
        f"sent instead. Fetch theirs with `vrag config fetch-instruction {profile.name}` and name the file "
        "with VRAG_INSTRUCTION."
    )


def check_agent(settings: Settings) -> None:
    """Open what can be opened of the agent, so that a wrong setting shows before anything is indexed.

    Raises `VragError` if the profile, model, instruction, reader or a custom tool cannot be opened.
    """
    is_local = settings.model.startswith(LOCAL_PREFIX)
    if settings.profile != "auto":  # a family that has to be found out is reported once, later
        open_profile(settings)
    if is_local:
        open_profile(settings.model_copy(update={"profile": "auto"}))  # opens the checkpoint
    open_method(settings)
    load_tools(settings.actions)
    if settings.reader:
        open_text_reader(settings)
    open_claim_judge(settings)
    _check_model_named(settings)
    if settings.model and not is_local:
        open_chat(settings)


def open_method(settings: Settings) -> Method:
    """Return the method that the settings select.

    Raises `SettingsError` if the file with the instruction cannot be read.
    """
    wording = _wording(settings)
    memory = MemoryOptions(
        tokens=settings.memory_tokens,
        fresh_tokens=settings.fresh_tokens,
        items=settings.memory_items,
        frame_tokens=settings.frame_tokens,
        propagation=Propagation(settings.memory_rule),
        crop_nodes=settings.crop_nodes,
    )
    return build_method(
        settings.agent,
        instruction=wording and wording.instruction,
        reselect=settings.reselect,
        repair=settings.repair,
        verify=VerifyMode(settings.verify),
        second_reading=settings.second_reading,
        memory=memory,
    )


def _check_model_named(settings: Settings) -> None:
    """Raise `SettingsError` if a server is set, and no model."""
    if settings.model or not settings.base_url or settings.base_url == os.environ.get("OPENAI_BASE_URL"):
        return
    from vrag.chat.http_clients import base_of

    message = f"The server {base_of(settings.base_url)} is set, but no model."
    raise SettingsError(message, "Choose a model in the settings of the page, or with --model or VRAG_MODEL.")


def open_policy(settings: Settings, environment: Environment) -> Policy:
    """Build the policy: a served model, a local checkpoint, or that without a model.

    Raises `SettingsError` if there is a model without a server, or a server without a model, and `ModelError`
    or `MissingExtra` if the checkpoint cannot be opened.
    """
    profile = environment.profile
    if settings.model.startswith(LOCAL_PREFIX):
        return open_local_model(settings)
    if settings.model:
        from vrag.agent.policies.chat import ChatPolicy

        return ChatPolicy(open_chat(settings), chat_options(settings, profile, environment.tools))
    _check_model_named(settings)
    return open_method(settings).policy_without_model(environment)


def _wording(settings: Settings) -> Instruction | None:
    return read_wording(settings.instruction) if settings.instruction else None
