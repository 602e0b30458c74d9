"""verl's agent loops for both agents: the same agent, environment and method as in serving.

verl makes a loop for every rollout, by the functions `vrag` and `vimrag`. A failed rollout is recorded and
leaves its group; it neither fails the group nor ends the job.

A rollout is scored and has one output for each row, with its credit and all parts of its reward. A rollout
without a reward has none. That is how it leaves its group, also under verl's own estimators: a session
without outputs does not appear in the batch.
"""

from __future__ import annotations

import io
import json
import logging
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.agent.policy import Policy
from vrag.atomic_io import Journal
from vrag.errors import SettingsError
from vrag.geometry import Box
from vrag.model_profiles import PROFILES, Profile, profile_named, read_profile
from vrag.rl.advantages import GgpoOptions, masks
from vrag.rl.episodes.options import open_agent, open_scorer
from vrag.rl.rows import Vocabulary, credit_of, rows_of
from vrag.rl.trainers.verl import CREDIT
from vrag.rl.trainers.verl.options import VerlOptions, library, options_of
from vrag.rl.trainers.verl.policy import ChatTemplate, RolloutPolicy, TokenBudget, TokenCounter, open_template
from vrag.rollouts.rollout import RolloutAttempt, ScoredRollout, play_attempt
from vrag.types import Case, Region

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger("vrag.rl")
_PLACE = "verl.experimental.agent_loop.agent_loop"


def register() -> None:
    """Register both loops with verl, which imports them by the place of the functions below."""
    for loop in (vrag, vimrag):
        library(_PLACE).register(loop.__name__)(loop)


def vrag(**options: Any) -> Any:  # noqa: ANN401 - from verl
    """Make the loop of VRAG."""
    return loop_class("vrag")(**options)


def vimrag(**options: Any) -> Any:  # noqa: ANN401
    """Make the loop of VimRAG."""
    return loop_class("vimrag")(**options)


@cache
def loop_class(agent: str) -> type[Any]:
    """Make a subclass of verl's `AgentLoopBase`, whose `run` returns the outputs of one rollout."""
    place = library(_PLACE)

    class Loop(place.AgentLoopBase):
        """One rollout of one question."""

        def __init__(self, *args: Any, hf_model_type: str | None = None, **kwargs: Any) -> None:  # noqa: ANN401
            parent: Any = super()
            parent.__init__(*args, hf_model_type=hf_model_type, **kwargs)
            self.hf_model_type = hf_model_type

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[Any]:  # noqa: ANN401
            """Return the outputs of a rollout, one for each row, in order; none when it has no reward."""
            try:
                rollout = prepare_rollout(self, sampling_params, row)
                options, counter, attempt = rollout.options, rollout.policy.counter, rollout.attempt
                played = await play(attempt, agent, rollout.policy, options, rollout.profile)
                step = int(row.get("global_steps", 0))
                outputs, faults = outputs_of(played, rollout.template.vocabulary, options.ggpo, counter, step)
                record(played, options.records, agent=agent, step=step, rows=len(outputs), faults=faults)
            except Exception:  # a fault of one rollout must not end its group
                log.exception("A rollout of %s failed.", row.get("id", row.get("uid", "a question")))
                return []
            if not outputs:
                log.warning("A rollout of %s leaves its group: %s", attempt.case.uid, " ".join(faults))
            metrics = place.AgentLoopMetrics(
                generate_sequences=counter.seconds,
                tool_calls=max(0.0, played.rollout.seconds - counter.seconds),
                num_preempted=counter.preempted,
            )
            return [place.AgentLoopOutput(**vars(output), metrics=metrics) for output in outputs]

    return Loop


@dataclass(frozen=True, slots=True)
class PreparedRollout:
    """All that a rollout needs, before the first request to a server."""

    attempt: RolloutAttempt
    policy: RolloutPolicy
    options: VerlOptions
    profile: Profile
    template: ChatTemplate


def prepare_rollout(loop: Any, sampling: dict[str, Any], row: dict[str, Any]) -> PreparedRollout:  # noqa: ANN401
    """Build the case, the policy and the template of one rollout of verl's loop from a row of the data.

    Raises `SettingsError` if the row lacks its question or the model is of no known family, `ModelError` if
    the model has no vision tokens.
    """
    options = options_of(loop.config)
    profile = open_profile(options, loop.hf_model_type, str(loop.config.actor_rollout_ref.model.path))
    template_options = dict(loop.apply_chat_template_kwargs or {})
    template = open_template(loop.processor, loop.tokenizer, profile.visual_tokens, template_options)
    section = loop.rollout_config
    total = section.get("max_model_len") or section.prompt_length + section.response_length
    budget = TokenBudget(
        prompt=int(section.prompt_length),
        reply=min(options.reply_tokens, int(section.response_length)),
        total=int(total),
    )
    attempt = RolloutAttempt(case=case_of(row), sample=int(row.get("session_id", 0)))
    policy = RolloutPolicy(
        loop.server_manager,
        template,
        sampling,
        budget,
        engine=str(section.name),
        session=f"{attempt.sample}-{uuid.uuid4().hex}",
        priority=int(row.get("priority", 0)),
    )
    return PreparedRollout(attempt, policy, options, profile, template)


def case_of(row: Mapping[str, Any]) -> Case:
    """Read the case in a row of the parquet that `vrag data convert` writes.

    Raises `SettingsError` if it lacks the question or the reference.
    """
    extra: Mapping[str, Any] = row.get("extra_info") or {}
    rewarded: Mapping[str, Any] = row.get("reward_model") or {}
    question = extra.get("question")
    answer = rewarded.get("ground_truth", extra.get("answer"))
    if not question or answer is None:
        raise SettingsError("A row of the data has no question or no answer.", "Run: vrag data convert")
    pages, regions = row.get("reference_page"), extra.get("regions")
    pages = extra.get("reference_page") if pages is None else pages
    return Case(
        uid=str(row.get("id", extra.get("index", ""))),
        query=str(question),
        reference_answer=str(answer),
        file_name=str(row.get("file_name") or extra.get("file_name") or ""),
        reference_page=tuple(int(page) for page in (() if pages is None else pages)),
        regions=tuple(map(_region_of, () if regions is None else regions)),
    )


def _region_of(row: Mapping[str, Any]) -> Region:
    box = Box.unit(*map(float, row["box"]))
    return Region(int(row["page"]), box, str(row.get("document") or ""), str(row.get("annotator") or ""))


def open_profile(options: VerlOptions, model_type: str | None, path: str = "") -> Profile:
    """Find the profile of the model: the named one, that of its checkpoint, or that of its family.

    `path` is the folder of the checkpoint; a name of the hub has no profile. Raises `SettingsError` if the
    model is of no known family, or its own profile cannot be read.
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


async def play(
    attempt: RolloutAttempt, agent: str, policy: Policy, options: VerlOptions, profile: Profile
) -> ScoredRollout:
    """Run `vrag` or `vimrag` on a case and score it. Never raises for faults of the run: they are recorded.

    The policy is of this run alone.
    """
    runner = open_agent(agent, policy, options, profile)
    return await play_attempt(attempt, runner, lambda: open_scorer(agent, options), seconds=options.seconds)


def record(played: ScoredRollout, folder: str, **more: Any) -> None:  # noqa: ANN401 - what JSON takes
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


@dataclass(frozen=True, eq=False)
class Output:
    """The fields of one `AgentLoopOutput` by verl's names, but for `metrics`.

    They are the same for every output: rows of a batch are stacked by them.
    """

    prompt_ids: list[int]
    """All before the first token that the model sampled."""
    response_ids: list[int]
    response_mask: list[int]
    """1 where the model sampled the token, 0 in observations."""
    response_logprobs: list[float]
    multi_modal_data: dict[str, list[Image]]
    """`images` in the order of their placeholders, in prompt and response; empty without any."""
    reward_score: float
    num_turns: int
    extra_fields: dict[str, Any]


def outputs_of(
    played: ScoredRollout,
    vocabulary: Vocabulary,
    options: GgpoOptions,
    counter: TokenCounter,
    step: int = 0,
) -> tuple[list[Output], list[str]]:
    """Make the outputs of one rollout, in order, and list why calls are not among them.

    `step` is the training step, for replies whose server does not report the version of its weights.
    """
    rollout, reward, run = played.rollout, played.reward, played.rollout.trajectory
    if reward.total is None:
        return [], [reward.why or "There is no reward."]
    made = rows_of(rollout.events, rollout.files, vocabulary)
    credit = credit_of(rollout.events, rollout.attempt.case)
    masked = masks(credit, correct=reward.correct, options=options)
    # Numbers that verl averages: a missing part is 0 there, and None in the facts.
    parts = {name: float(value or 0.0) for name, value in reward.parts.items()}
    shared: dict[str, Any] = {
        "reward_extra_info": {"acc": float(reward.correct is True), **parts},
        "turn_scores": [],
        "tool_rewards": [],
        "min_global_steps": min(counter.steps, default=step),
        "max_global_steps": max(counter.steps, default=step),
    }
    facts = {"case": rollout.attempt.case.uid, "answer": run.answer, **reward.as_dict()}
    outputs: list[Output] = []
    for row in made.rows:
        segment, first = credit.segments[row.segment], int(row.own.argmax())
        row_credit = {"segment": row.segment, "masked": bool(masked[row.segment])}
        row_credit |= {"invalid": segment.invalid, "answers": segment.answers}
        images = [_open_image(rollout.files[f"{sha256}.jpg"]) for sha256 in row.images]
        outputs.append(
            Output(
                prompt_ids=row.tokens[:first].tolist(),
                response_ids=row.tokens[first:].tolist(),
                response_mask=row.own[first:].astype(int).tolist(),
                response_logprobs=row.logprobs[first:].tolist(),
                multi_modal_data={"images": images} if images else {},
                reward_score=reward.total,
                num_turns=2 * counter.calls,
                extra_fields=shared | {CREDIT: row_credit | facts},
            )
        )
    return outputs, [f"Calls {', '.join(map(str, row.steps))}: {row.reason}" for row in made.dropped]


def _open_image(jpeg: bytes) -> Image:
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return image.convert("RGB")
