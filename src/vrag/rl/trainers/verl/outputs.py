"""A scored rollout for verl: one output for each row, with its credit and all parts of its reward.

A rollout without a reward has none. That is how it leaves its group, also under verl's own estimators: a
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

    from vrag.rl.objectives.ggpo import GgpoOptions
    from vrag.rl.rows import Row, Vocabulary
    from vrag.rl.trainers.verl.rollout import PlayedRollout
    from vrag.rl.trainers.verl.rollout_policy import TokenCounter

CREDIT = "vrag"
"""Key of an output's `extra_fields` with the facts of its row."""
PARTS = ("retrieval", "answer", "pattern")


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The fields of one `AgentLoopOutput`, but for `metrics`."""

    prompt_ids: list[int]
    """All before the first token that the model sampled."""
    response_ids: list[int]
    response_mask: list[int]
    """1 where the model sampled the token, 0 in observations."""
    response_logprobs: list[float]
    images: list[Image]
    """In the order of their placeholders, in prompt and response."""
    reward_score: float
    num_turns: int
    extra_fields: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return them by verl's names, the same for every output: rows of a batch are stacked by them."""
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
    played: PlayedRollout,
    vocabulary: Vocabulary,
    options: GgpoOptions,
    counter: TokenCounter,
    step: int = 0,
) -> tuple[list[Output], list[str]]:
    """Make the outputs of one rollout, in order, and list why calls are not among them.

    Args:
        played: The rollout and its reward; without a reward there are no outputs.
        vocabulary: Of the model that sampled.
        options: The rules of the masks.
        counter: Of its calls.
        step: The training step, for replies whose server does not report the version of its weights.
    """
    rollout, reward, run = played.rollout, played.reward, played.rollout.trajectory
    if reward.total is None:
        return [], [reward.why or "There is no reward."]
    made = rows_of(rollout.events, rollout.files, vocabulary)
    credit = credit_of(rollout.events, rollout.attempt.case)
    masked = masks(credit, correct=reward.correct, options=options)
    # Numbers that verl averages: a missing part is 0 there, and None in the facts.
    parts = {name: float(reward.parts.get(name) or 0.0) for name in PARTS}
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
        segment = credit.segments[row.segment]
        row_credit = {"segment": row.segment, "masked": bool(masked[row.segment])}
        row_credit |= {"invalid": segment.invalid, "answers": segment.answers}
        extra_fields = shared | {CREDIT: row_credit | facts}
        outputs.append(_build_output(row, rollout.files, reward.total, 2 * counter.calls, extra_fields))
    return outputs, [f"Calls {', '.join(map(str, row.steps))}: {row.reason}" for row in made.dropped]


def _build_output(
    row: Row, files: Mapping[str, bytes], reward: float, turns: int, extra_fields: dict[str, Any]
) -> Output:
    first = int(row.own.argmax())
    return Output(
        prompt_ids=row.tokens[:first].tolist(),
        response_ids=row.tokens[first:].tolist(),
        response_mask=row.own[first:].astype(int).tolist(),
        response_logprobs=row.logprobs[first:].tolist(),
        images=[_open_image(files[f"{sha256}.jpg"]) for sha256 in row.images],
        reward_score=reward,
        num_turns=turns,
        extra_fields=extra_fields,
    )


def _open_image(jpeg: bytes) -> Image:
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return image.convert("RGB")
