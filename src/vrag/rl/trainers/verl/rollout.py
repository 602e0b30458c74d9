"""One rollout: a question is put to the agent that serving knows, and what it did is scored."""

from __future__ import annotations

import importlib
import json
import logging
import os
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.registry import METHODS, build_method
from vrag.atomic_io import Journal
from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES, profile_named, read_profile
from vrag.reward.reward import Reward
from vrag.rl.trainers.verl.options import VerlOptions
from vrag.rollouts.rollout import roll_out
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.model_profiles import Profile
    from vrag.reward.reward import Judge, Scorer
    from vrag.rl.trainers.verl.options import JudgeOptions
    from vrag.rollouts.rollout import Rollout, RolloutAttempt
    from vrag.search.searcher import Searcher

__all__ = ["PlayedRollout", "case_of", "open_profile", "open_scorer", "open_searcher", "play", "record"]

log = logging.getLogger("vrag.rl")


@dataclass(frozen=True, slots=True, eq=False)
class PlayedRollout:
    """A rollout and what it earns."""

    rollout: Rollout
    reward: Reward
    """Missing for a rollout that failed."""


def case_of(row: Mapping[str, Any]) -> Case:
    """The case of a row of the parquet that `vrag data convert` writes.

    Raises:
        SettingsError: If it lacks the question or the reference.
    """
    extra: Mapping[str, Any] = row.get("extra_info") or {}
    rewarded: Mapping[str, Any] = row.get("reward_model") or {}
    question = extra.get("question")
    answer = rewarded.get("ground_truth", extra.get("answer"))
    if not question or answer is None:
        raise SettingsError("A row of the data has no question or no answer.", "Run: vrag data convert")
    pages = row.get("reference_page")
    pages = extra.get("reference_page") if pages is None else pages
    return Case(
        uid=str(row.get("id", extra.get("index", ""))),
        query=str(question),
        reference_answer=str(answer),
        file_name=str(row.get("file_name") or extra.get("file_name") or ""),
        reference_page=tuple(int(page) for page in (() if pages is None else pages)),
    )


def open_profile(options: VerlOptions, model_type: str | None, path: str = "") -> Profile:
    """What the model expects: as named, as its checkpoint brings it along, or by its family.

    Args:
        options: Name it, or leave it to the checkpoint.
        model_type: Of the checkpoint.
        path: Its folder; a name of the hub brings nothing along.

    Raises:
        SettingsError: If it is of no known family, or what it brings along cannot be read.
    """
    if options.profile != "auto":
        return profile_named(options.profile)
    own = read_profile(Path(path)) if path else None
    if own is not None:
        return own
    for profile in PROFILES.values():
        if model_type in profile.model_types:
            return profile
    raise SettingsError(
        f"The model is of no known family: {model_type}.", f"Set vrag.profile: {', '.join(PROFILES)}."
    )


def open_searcher(options: VerlOptions) -> Searcher:
    """What all rollouts of this process search: a server, asked for many at once.

    Raises:
        SettingsError, ServerError: If it cannot be had.
    """
    return _searcher(options.searcher, options.search_url, options.search_key, options.image_root)


@lru_cache(maxsize=4)
def _searcher(own: str, url: str, token: str | None, root: str) -> Searcher:
    from vrag.rollouts.batched_search import BatchedSearcher
    from vrag.search.client import SearchClient

    if own:
        return _named(own)()
    return BatchedSearcher(SearchClient(url, token=token, image_root=Path(root) if root else None))


def open_scorer(agent: str, options: VerlOptions) -> Scorer:
    """What says how much a rollout earns: the composite reward for VRAG, the outcome for VimRAG.

    Raises:
        SettingsError: If the judge is not told where its model is, or the weights do not sum to 1.
    """
    return _scorer(agent, options.model_dump_json(include={"scorer", "judge", "weights", "gate"}))


@lru_cache(maxsize=4)
def _scorer(agent: str, written: str) -> Scorer:
    from vrag.reward.combine import CompositeReward, OutcomeReward, Weights

    options = VerlOptions.model_validate_json(written)
    if options.scorer:
        return _named(options.scorer)(agent)
    judge = _judge(options.judge)
    if agent == "vimrag":
        return OutcomeReward(judge)
    return CompositeReward(judge, weights=Weights(**options.weights.model_dump()), gate=options.gate)


async def play(
    attempt: RolloutAttempt, agent: str, policy: Policy, options: VerlOptions, profile: Profile
) -> PlayedRollout:
    """Puts a case to an agent. Never raises for what goes wrong in it: that is recorded.

    Args:
        attempt: The case, and which of its rollouts it is.
        agent: `vrag` or `vimrag`.
        policy: Of this run alone.
        options: How it acts.
        profile: Family of the model.
    """
    environment = Environment(open_searcher(options), profile, _environment(agent, options))
    limits = Limits(steps=options.steps)
    acting = Agent(policy, environment, _method(agent, options), limits)
    async with aclosing(
        roll_out([attempt], lambda _: acting, concurrency=1, seconds=options.seconds)
    ) as rollouts:
        rollout = await anext(rollouts)
    if rollout.failure is not None:
        return PlayedRollout(rollout, Reward(total=None, why=rollout.failure))
    scorer = open_scorer(agent, options)
    return PlayedRollout(rollout, await scorer.score(attempt.case, rollout.trajectory))


def record(rollout_result: PlayedRollout, folder: str, **more: Any) -> None:  # noqa: ANN401 - what JSON takes
    """Adds a line to the records of this process, where there are any. A disk that is full ends nothing."""
    if not folder:
        return
    rollout, run = rollout_result.rollout, rollout_result.rollout.trajectory
    line = {
        "case": rollout.attempt.case.uid,
        "sample": rollout.attempt.sample,
        "reward": rollout_result.reward.as_dict(),
        "failure": rollout.failure,
        "stop": run.stop_reason,
        "answer": run.answer,
        "calls": len(run.steps),
        "invalid": sum(step.invalid is not None for step in run.steps),
        "seconds": round(rollout.seconds, 3),
        **more,
    }
    try:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with Journal(place / f"rollouts-{os.getpid()}.jsonl", durable=False) as journal:
            journal.append(json.dumps(line, ensure_ascii=False).encode())
    except OSError as error:
        log.warning("A rollout cannot be recorded in %s: %s.", folder, error)


def _environment(agent: str, options: VerlOptions) -> EnvironmentOptions:
    hits = options.hits or METHODS[agent].hits
    return EnvironmentOptions(hits=hits, show=options.show, padding=options.padding)


def _method(agent: str, options: VerlOptions) -> Method:
    """The agent as it is trained: replies are not repaired, so that the grammar is learned."""
    memory = MemoryOptions(**options.memory.model_dump())
    return build_method(agent, instruction=options.instruction, repair=False, memory=memory)


def _judge(asked: JudgeOptions) -> Judge:
    if asked.kind == "rules":
        from vrag.reward.judges.rules import RulesJudge

        return RulesJudge()
    from vrag.chat import OpenAIChat
    from vrag.reward.judges.endpoint import EndpointJudge

    if not asked.base_url or not asked.model:
        raise SettingsError(
            "The judge is a model, and it is not said which.", "Set vrag.judge.base_url and vrag.judge.model."
        )
    chat = OpenAIChat(
        asked.base_url,
        asked.model,
        api_key=asked.key,
        key_variable=asked.key_variable,
        concurrency=asked.requests,
    )
    return EndpointJudge(chat)


def _named(place: str) -> Any:  # noqa: ANN401 - whatever it is
    """What `module:name` names.

    Raises:
        SettingsError: If there is none.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"{place} cannot be loaded: {error}.", "Write it as module:function.") from error
