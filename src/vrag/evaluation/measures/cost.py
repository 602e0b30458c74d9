"""Measures of the conduct of a run, and of its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.actions import Flag
from vrag.agent.events import StopReason
from vrag.reward.parts import searches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.runs.run_result import RunResult

CONDUCT: Mapping[str, str] = {
    "answered": "share that came to an end with an answer, or an abstention",
    "abstained": "share that abstained",
    "invalid": "share of turns that were not carried out",
    "repaired": "share of turns that break the grammar and were carried out, since their meaning is clear",
    "turns": "calls of the model",
    "searches": "searches carried out",
    "crops": "crops carried out",
    "prompt_tokens": "tokens read, over all turns",
    "completion_tokens": "tokens written",
    "visual_tokens": "tokens of the pictures in all prompts",
    "pixels": "pixels of the pictures in all prompts",
    "seconds": "from the first call to the end, without waiting for a place",
    "model_seconds": "of those, waiting for the model",
    "cost": "in the currency of the prices",
}
"""Names and definitions."""

COUNTS = CONDUCT.keys() - {"answered", "abstained", "invalid", "repaired"}
"""Measures that are not shares, and can be more than 1."""


def conduct(run: RunResult) -> dict[str, float]:
    """Measure the conduct and the cost of a run, which may have failed, or have been cut off.

    - `answered` and `abstained` are measured of every run, 0 for one that failed.
    - `invalid` and `repaired` are of runs with a turn; no turn is both, unless the graph refused what was
      repaired. A reply that was not carried out is a turn, and no search and no crop.
    - Tokens, pixels, seconds and costs are sums over the turns: a picture counts in every prompt that holds
      it. Unknown ones are left out, and all of them for a run that had no turn.
    - `seconds` counts what turns took, as their events say: the same from the file of the run as at once.
    """
    ends = {
        "answered": float(run.stop_reason in {StopReason.ANSWERED, StopReason.ABSTAINED}),
        "abstained": float(run.stop_reason is StopReason.ABSTAINED),
    }
    return ends | _turns(run) | _costs(run) if run.steps else ends


def _turns(run: RunResult) -> dict[str, float]:
    return {
        "invalid": sum(step.invalid is not None for step in run.steps) / len(run.steps),
        "repaired": sum(Flag.REPAIRED in step.flags for step in run.steps) / len(run.steps),
        "turns": float(len(run.steps)),
        "searches": float(sum(map(searches, run.steps))),
        "crops": float(sum(step.crop is not None and step.invalid is None for step in run.steps)),
    }


def _costs(run: RunResult) -> dict[str, float]:
    usage = run.usage
    costs = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
    }
    if any(step.usage is not None for step in run.steps):
        costs |= {
            "visual_tokens": usage.visual_tokens,
            "pixels": usage.pixels,
            "seconds": usage.seconds,
            "model_seconds": usage.model_seconds,
        }
    return {name: float(value) for name, value in costs.items() if value is not None}
