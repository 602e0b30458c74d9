"""What came of a run, in words: its answer, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.events import StopReason
from vrag.view.wording import STOPS

if TYPE_CHECKING:
    from vrag.view.story import Story

__all__ = ["ATTACHED", "OFFLINE", "Outcome", "outcome"]

ATTACHED = "A picture that came with the question"
OFFLINE = "extractive"
"""Name of the policy that quotes without a model, and must say so."""


class Outcome(NamedTuple):
    """How a run ended."""

    name: str
    """In a word or two."""
    mood: str
    """How good that is: `good`, `calm`, `fair` or `bad`."""
    text: str
    """The answer, or a sentence that says why there is none."""
    note: str = ""
    """What is to be known beside it."""


def outcome(story: Story) -> Outcome:
    """How a run ended, if it did."""
    return Outcome(
        *(STOPS[story.stop_reason] if story.stop_reason else ("Unfinished", "fair")), *_told(story)
    )


def _told(story: Story) -> tuple[str, str]:
    """Text and note."""
    if story.failure:
        return story.failure.message, f"The run ended with a {story.failure.boundary}."
    if story.answer is None:
        return "This run has no end: it was cut off, or it still goes on.", ""
    if story.answer.text is not None:
        quoted = "Quoted from the documents by the offline policy, not read by a model."
        return story.answer.text, quoted if story.settings.policy == OFFLINE else ""
    if story.stop_reason is StopReason.ABSTAINED:
        return "The agent found no answer in the documents that it can stand behind.", ""
    return "The run ended before the agent answered.", ""
