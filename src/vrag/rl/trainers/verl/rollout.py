"""One scored rollout, by the same agent as in serving."""

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


log = logging.getLogger("vrag.rl")


@dataclass(frozen=True, slots=True, eq=False)
class PlayedRollout:
    """A rollout and its reward."""

    rollout: Rollout
    reward: Reward
    """Missing for a rollout that failed."""


def case_of(row: Mapping[str, Any]) -> Case:
    """Read the case in a row of the parquet that `vrag data convert` writes.

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
    """Find the profile of the model: the named one, that of its checkpoint, or that of its family.

    Args:
        options: Name it, or leave it to the checkpoint.
        model_type: Of the checkpoint.
        path: Its folder; a name of the hub has no profile.

    Raises:
        SettingsError: If it is of no known family, or its own profile cannot be read.
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
    """Open the search server for all rollouts of this process; searches are batched.

    Raises:
        SettingsError, ServerError: If it cannot be opened.
    """
    return _searcher(options.searcher, options.search_url, options.search_key, options.image_root)


@lru_cache(maxsize=4)
def _searcher(own: str, url: str, token: str | None, root: str) -> Searcher:
    from vrag.rollouts.batched_search import BatchedSearcher
    from vrag.search.client import SearchClient

    if own:
        return _load(own)()
    return BatchedSearcher(SearchClient(url, token=token, image_root=Path(root) if root else None))


def open_scorer(agent: str, options: VerlOptions) -> Scorer:
    """Open the scorer of rollouts: the composite reward for VRAG, the outcome for VimRAG.

    Raises:
        SettingsError: If the judge lacks its server or model, or the weights do not sum to 1.
    """
    return _scorer(agent, options.model_dump_json(include={"scorer", "judge", "weights", "gate"}))


@lru_cache(maxsize=4)
def _scorer(agent: str, written: str) -> Scorer:
    from vrag.reward.combine import CompositeReward, OutcomeReward, Weights

    options = VerlOptions.model_validate_json(written)
    if options.scorer:
        return _load(options.scorer)(agent)
    judge = _open_judge(options.judge)
    if agent == "vimrag":
        return OutcomeReward(judge)
    return CompositeReward(judge, weights=Weights(**options.weights.model_dump()), gate=options.gate)


async def play(
    attempt: RolloutAttempt, agent: str, policy: Policy, options: VerlOptions, profile: Profile
) -> PlayedRollout:
    """Run an agent on a case and score it. Never raises for faults of the run: they are recorded.

    Args:
        attempt: The case, and which of its rollouts it is.
        agent: `vrag` or `vimrag`.
        policy: Of this run alone.
        options: How it acts.
        profile: Family of the model.
    """
    hits = options.hits or METHODS[agent].hits
    environment_options = EnvironmentOptions(hits=hits, show=options.show, padding=options.padding)
    environment = Environment(open_searcher(options), profile, environment_options)
    runner = Agent(policy, environment, _method(agent, options), Limits(steps=options.steps))
    rolling = roll_out([attempt], lambda _: runner, concurrency=1, seconds=options.seconds)
    async with aclosing(rolling) as rollouts:
        rollout = await anext(rollouts)
    if rollout.failure is not None:
        return PlayedRollout(rollout, Reward(total=None, why=rollout.failure))
    scorer = open_scorer(agent, options)
    return PlayedRollout(rollout, await scorer.score(attempt.case, rollout.trajectory))


def record(played: PlayedRollout, folder: str, **more: Any) -> None:  # noqa: ANN401 - what JSON takes
    """Append a line to the records of this process, if there is a folder; a full disk ends nothing."""
    if not folder:
        return
    rollout, run = played.rollout, played.rollout.trajectory
    line = {
        "case": rollout.attempt.case.uid,
        "sample": rollout.attempt.sample,
        "reward": played.reward.as_dict(),
        "failure": rollout.failure,
        "stop": run.stop_reason,
        "answer": run.answer,
        "calls": len(run.steps),
        "invalid": sum(step.invalid is not None for step in run.steps),
        "seconds": round(rollout.seconds, 3),
        **more,
    }
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with Journal(Path(folder) / f"rollouts-{os.getpid()}.jsonl", durable=False) as journal:
            journal.append(json.dumps(line, ensure_ascii=False).encode())
    except OSError as error:
        log.warning("A rollout cannot be recorded in %s: %s.", folder, error)


def _method(agent: str, options: VerlOptions) -> Method:
    """The method for training: replies are not repaired, so that the grammar is learned."""
    memory = MemoryOptions(**options.memory.model_dump())
    return build_method(agent, instruction=options.instruction, repair=False, memory=memory)


def _open_judge(options: JudgeOptions) -> Judge:
    if options.kind == "rules":
        from vrag.reward.judges.rules import RulesJudge

        return RulesJudge()
    from vrag.chat import OpenAIChat
    from vrag.reward.judges.endpoint import EndpointJudge

    if not options.base_url or not options.model:
        raise SettingsError(
            "The judge needs a server and a model.", "Set vrag.judge.base_url and vrag.judge.model."
        )
    chat = OpenAIChat(
        options.base_url,
        options.model,
        api_key=options.key,
        key_variable=options.key_variable,
        concurrency=options.requests,
    )
    return EndpointJudge(chat)


def _load(place: str) -> Any:  # noqa: ANN401 - of any type
    """Import the object that `module:name` names; raise `SettingsError` if there is none."""
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"{place} cannot be loaded: {error}.", "Write it as module:function.") from error
