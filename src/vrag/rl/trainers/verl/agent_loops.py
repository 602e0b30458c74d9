"""verl's agent loops for both agents: the same agent, environment and method as in serving.

verl makes a loop for every rollout, by the functions `vrag` and `vimrag`. A failed rollout is recorded and
leaves its group; it neither fails the group nor ends the job.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vrag.rl.trainers.verl import LOOPS
from vrag.rl.trainers.verl.options import library, options_of
from vrag.rl.trainers.verl.policy import RolloutPolicy, TokenBudget, open_template
from vrag.rl.trainers.verl.rollout import case_of, open_profile, outputs_of, play, record
from vrag.rollouts.rollout import RolloutAttempt

if TYPE_CHECKING:
    from vrag.model_profiles import Profile
    from vrag.rl.trainers.verl.options import VerlOptions
    from vrag.rl.trainers.verl.policy import ChatTemplate

log = logging.getLogger("vrag.rl")
_PLACE = "verl.experimental.agent_loop.agent_loop"


def register() -> None:
    """Register both loops with verl, which imports them by the place of the functions below."""
    places = {"vrag": vrag, "vimrag": vimrag}
    for name in LOOPS:
        library(_PLACE).register(name)(places[name])


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
