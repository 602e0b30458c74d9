"""r_Pat: whether the run kept to the grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.actions import ABSTENTION
from vrag.agent.events import StopReason

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from vrag.agent.actions import Flag
    from vrag.agent.runs.trajectory import Trajectory, TrajectoryStep

__all__ = ["answer_of", "pattern_reward", "searched", "searches"]


def pattern_reward(run: Trajectory, *, tolerated: AbstractSet[Flag] = frozenset()) -> float:
    """1 for at least one search, one answer, and every turn by the grammar; else 0.

    The same for both agents: it asks what was carried out, not what the text looks like. The reference
    (VRAG-RL) searches the whole transcript for tags, and takes those of its own error message for the
    model's. A run ends with its first answer, so that one is all it can have; a second one in the same
    reply is dropped and flagged.

    Args:
        run: Of either agent.
        tolerated: Flags of a reply that cost nothing. By default each of them costs all: text after the
            action, which was dropped, and an action without a thought.
    """
    clean = all(step.invalid is None and not set(step.flags) - tolerated for step in run.steps)
    return float(clean and searched(run) and answer_of(run) is not None)


def searched(run: Trajectory) -> bool:
    """Whether a search was carried out: found nothing counts, refused does not."""
    return any(map(searches, run.steps))


def answer_of(run: Trajectory) -> str | None:
    """What the run answered; an abstention is an answer too, "Not answerable".

    None when it ended without one.
    """
    return ABSTENTION if run.stop_reason is StopReason.ABSTAINED else run.answer


def searches(step: TrajectoryStep) -> bool:
    """Whether a search was carried out in this step.

    An action of others has a query as well; what the graph refuses was announced before.
    """
    return step.query is not None and step.action is None and step.invalid is None
