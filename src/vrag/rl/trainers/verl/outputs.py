"""A scored rollout as verl takes it: one output for each row, with its credit and all parts of its reward.

A rollout without a reward gives none. That is how it leaves its group, also under verl's own estimators: a
session without outputs does not appear in the batch.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.rl.objectives.credit import credit_of
from vrag.rl.objectives.ggpo import masks
from vrag.rl.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PIL.Image import Image

    from vrag.rl.objectives.ggpo import GgpoOptions, Segment
    from vrag.rl.rows import Row, Vocabulary
    from vrag.rl.trainers.verl.rollout import PlayedRollout
    from vrag.rl.trainers.verl.rollout_policy import TokenCounter

__all__ = ["CREDIT", "Output", "outputs_of"]

CREDIT = "vrag"
"""Where an output's `extra_fields` say what its row is."""
PARTS = ("retrieval", "answer", "pattern")


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The fields of one `AgentLoopOutput`, but for `metrics`."""

    prompt_ids: list[int]
    """All before the first token that the model sampled."""
    response_ids: list[int]
    response_mask: list[int]
    """1 where the model sampled the token, 0 where it was told it."""
    response_logprobs: list[float]
    images: list[Image]
    """In the order of their placeholders, in prompt and response."""
    reward_score: float
    num_turns: int
    extra_fields: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """By the names of verl. Every output has the same: rows of a batch are stacked by them."""
        return {
            "prompt_ids": self.prompt_ids,
            "response_ids": self.response_ids,
            "response_mask": self.response_mask,
            "response_logprobs": self.response_logprobs,
            "multi_modal_data": {"images": self.images} if self.images else {},
            "reward_score": self.reward_score,
            "num_turns": self.num_turns,
            "extra_fields": self.extra_fields,
        }


def outputs_of(
    rollout_result: PlayedRollout,
    vocabulary: Vocabulary,
    options: GgpoOptions,
    counted: TokenCounter,
    step: int = 0,
) -> tuple[list[Output], list[str]]:
    """The outputs of one rollout, in order, and why calls are not among them.

    Args:
        rollout_result: The rollout and its reward; without a reward there are no outputs.
        vocabulary: Of the model that sampled.
        options: Which segments of it have no gradient.
        counted: What its calls took.
        step: The training step, for replies whose server does not tell the version of its weights.
    """
    rollout, reward = rollout_result.rollout, rollout_result.reward
    if reward.total is None:
        return [], [reward.why or "There is no reward."]
    made = rows_of(rollout.events, rollout.files, vocabulary)
    credit = credit_of(rollout.events, rollout.attempt.case)
    masked = masks(credit, correct=reward.correct, options=options)
    shared: dict[str, Any] = {
        "reward_extra_info": _measured(rollout_result),
        "turn_scores": [],
        "tool_rewards": [],
        "min_global_steps": min(counted.steps, default=step),
        "max_global_steps": max(counted.steps, default=step),
    }
    turns = 2 * counted.calls
    outputs = [
        _output(
            row,
            rollout.files,
            reward.total,
            turns,
            shared
            | {
                CREDIT: _credit(row, credit.segments[row.segment], bool(masked[row.segment]))
                | _told(rollout_result)
            },
        )
        for row in made.rows
    ]
    return outputs, [f"Calls {', '.join(map(str, one.steps))}: {one.reason}" for one in made.dropped]


def _output(
    row: Row, files: Mapping[str, bytes], reward: float, turns: int, extra_fields: dict[str, Any]
) -> Output:
    first = int(row.own.argmax())
    return Output(
        prompt_ids=row.tokens[:first].tolist(),
        response_ids=row.tokens[first:].tolist(),
        response_mask=row.own[first:].astype(int).tolist(),
        response_logprobs=row.logprobs[first:].tolist(),
        images=[_image(files[f"{sha256}.jpg"]) for sha256 in row.images],
        reward_score=reward,
        num_turns=turns,
        extra_fields=extra_fields,
    )


def _credit(row: Row, segment: Segment, masked: bool) -> dict[str, Any]:
    """What the advantage of a row needs to know; see `vrag.rl.trainers.verl.credit`."""
    return {"segment": row.segment, "masked": masked, "invalid": segment.invalid, "answers": segment.answers}


def _told(rollout_result: PlayedRollout) -> dict[str, Any]:
    """All that is known of the reward, for those who look at rollouts that verl dumps."""
    run = rollout_result.rollout.trajectory
    return {
        "case": rollout_result.rollout.attempt.case.uid,
        "answer": run.answer,
        **rollout_result.reward.as_dict(),
    }


def _measured(rollout_result: PlayedRollout) -> dict[str, float]:
    """Numbers that verl averages; a part that is missing is 0 there, and None in what `_told` keeps."""
    reward = rollout_result.reward
    parts = {name: float(reward.parts.get(name) or 0.0) for name in PARTS}
    return {"acc": float(reward.correct is True), **parts}


def _image(jpeg: bytes) -> Image:
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return image.convert("RGB")
