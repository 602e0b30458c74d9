"""verl's agent loops for both agents: the same agent, environment and method as in serving.

verl makes a loop for every rollout, by the functions `vrag` and `vimrag`. What goes wrong in one is recorded
and leaves its group; it neither fails the group nor ends the job.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vrag.rl.trainers.verl import LOOPS
from vrag.rl.trainers.verl.engine import library, options_of
from vrag.rl.trainers.verl.outputs import outputs_of
from vrag.rl.trainers.verl.rollout import case_of, open_profile, play, record
from vrag.rl.trainers.verl.rollout_policy import RolloutPolicy, TokenBudget
from vrag.rl.trainers.verl.tokens.prompts import open_template
from vrag.rollouts.rollout import RolloutAttempt

if TYPE_CHECKING:
    from vrag.model_profiles import Profile
    from vrag.rl.trainers.verl.options import VerlOptions
    from vrag.rl.trainers.verl.outputs import Output
    from vrag.rl.trainers.verl.rollout import PlayedRollout
    from vrag.rl.trainers.verl.tokens.prompts import ChatTemplate

__all__ = ["PreparedRollout", "loop_class", "prepare_rollout", "register", "vimrag", "vrag"]

log = logging.getLogger("vrag.rl")
_PLACE = "verl.experimental.agent_loop.agent_loop"


def register() -> None:
    """Gives verl both loops by name. It imports them by the place of the functions below."""
    places = {"vrag": vrag, "vimrag": vimrag}
    for name in LOOPS:
        library(_PLACE).register(name)(places[name])


def vrag(**given: Any) -> Any:  # noqa: ANN401 - all that verl hands over
    """The loop of VRAG."""
    return loop_class("vrag")(**given)


def vimrag(**given: Any) -> Any:  # noqa: ANN401
    """The loop of VimRAG."""
    return loop_class("vimrag")(**given)


@cache
def loop_class(agent: str) -> type[Any]:
    """A subclass of verl's `AgentLoopBase`, whose `run` gives the outputs of one rollout.

    Raises:
        MissingExtra: Without verl.
    """
    place = library(_PLACE)

    class Loop(place.AgentLoopBase):
        """One rollout of one question."""

        def __init__(self, *given: Any, hf_model_type: str | None = None, **named: Any) -> None:  # noqa: ANN401
            parent: Any = super()
            parent.__init__(*given, hf_model_type=hf_model_type, **named)
            self.hf_model_type = hf_model_type

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[Any]:  # noqa: ANN401
            """The outputs of a rollout, one for each row, in order; none when it earned nothing."""
            try:
                outputs, metrics = await _rolled_out(self, agent, sampling_params, row)
            except Exception:  # a fault of one rollout must not end its group
                log.exception("A rollout of %s failed.", row.get("id", row.get("uid", "a question")))
                return []
            timed = place.AgentLoopMetrics(**metrics)
            return [place.AgentLoopOutput(**output.fields(), metrics=timed) for output in outputs]

    return Loop


async def _rolled_out(
    loop: Any,  # noqa: ANN401 - a loop of verl
    agent: str,
    sampling: dict[str, Any],
    row: dict[str, Any],
) -> tuple[list[Output], dict[str, Any]]:
    rollout = prepare_rollout(loop, sampling, row)
    options, policy = rollout.options, rollout.policy
    rollout_result = await play(rollout.attempt, agent, policy, options, rollout.profile)
    step = int(row.get("global_steps", 0))
    outputs, faults = outputs_of(
        rollout_result, rollout.template.vocabulary, options.ggpo, policy.counted, step
    )
    record(rollout_result, options.records, agent=agent, step=step, rows=len(outputs), faults=faults)
    if not outputs:
        log.warning("A rollout of %s leaves its group: %s", rollout.attempt.case.uid, " ".join(faults))
    return outputs, _metrics(rollout_result, policy)


@dataclass(frozen=True, slots=True)
class PreparedRollout:
    """All that a rollout needs, before the first request to a server."""

    attempt: RolloutAttempt
    policy: RolloutPolicy
    options: VerlOptions
    profile: Profile
    template: ChatTemplate


def prepare_rollout(loop: Any, sampling: dict[str, Any], row: dict[str, Any]) -> PreparedRollout:  # noqa: ANN401
    """Build the case, the policy and the template of one rollout.

    Args:
        loop: An agent loop of verl.
        sampling: Sampling parameters of verl.
        row: A row of the data.

    Raises:
        SettingsError: If the row lacks its question, or the model is of no known family.
        ModelError: If the model has no vision tokens.
    """
    options = options_of(loop.config)
    profile = open_profile(options, loop.hf_model_type, str(loop.config.actor_rollout_ref.model.path))
    template = _template(loop, profile.visual_tokens)
    attempt = RolloutAttempt(case=case_of(row), sample=int(row.get("session_id", 0)))
    policy = RolloutPolicy(
        loop.server_manager,
        template,
        sampling,
        _room(loop.rollout_config, options),
        engine=str(loop.rollout_config.name),
        session=f"{attempt.sample}-{uuid.uuid4().hex}",
        priority=int(row.get("priority", 0)),
    )
    return PreparedRollout(attempt, policy, options, profile, template)


def _metrics(rollout_result: PlayedRollout, policy: RolloutPolicy) -> dict[str, Any]:
    """Verl's metrics of one rollout, in seconds."""
    counted = policy.counted
    return {
        "generate_sequences": counted.seconds,
        "tool_calls": max(0.0, rollout_result.rollout.seconds - counted.seconds),
        "num_preempted": counted.preempted,
    }


def _template(loop: Any, features: Any) -> ChatTemplate:  # noqa: ANN401
    return open_template(
        loop.processor, loop.tokenizer, features, dict(loop.apply_chat_template_kwargs or {})
    )


def _room(rollout: Any, options: VerlOptions) -> TokenBudget:  # noqa: ANN401 - verl's section `rollout`
    total = rollout.get("max_model_len") or rollout.prompt_length + rollout.response_length
    return TokenBudget(
        prompt=int(rollout.prompt_length),
        reply=min(options.reply_tokens, int(rollout.response_length)),
        total=int(total),
    )
