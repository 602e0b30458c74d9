"""What came of a run, in words: its answer, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.events import StopReason
from vrag.view.wording import INTERRUPTED, NOTHING_QUOTED, RUNNING, STOPS

if TYPE_CHECKING:
    from vrag.view.story import Story

__all__ = ["ATTACHED", "A_MODEL", "OFFLINE", "QUOTED", "UNQUOTED", "Outcome", "outcome"]

ATTACHED = "A picture that came with the question"
OFFLINE = "extractive"
"""Name of the policy that quotes without a model, and must say so."""
QUOTED = "Quoted from the documents by the offline policy, not read by a model."
UNQUOTED = "The offline policy found no words to quote as the answer: it cannot look, count or calculate."
"""Of its abstentions: what it cannot say may well stand in the documents."""
A_MODEL = "A model could: name one with --model."


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
    return Outcome(*_named(story), *_told(story))


def _named(story: Story) -> tuple[str, str]:
    """Name and mood."""
    if _is_unquoted(story):
        return NOTHING_QUOTED
    if story.stop_reason:
        return STOPS[story.stop_reason]
    return RUNNING if story.under_way else INTERRUPTED


def _is_unquoted(story: Story) -> bool:
    """Whether the offline policy abstained."""
    return story.stop_reason is StopReason.ABSTAINED and story.settings.policy == OFFLINE


def _told(story: Story) -> tuple[str, str]:
    """Text and note."""
    if story.failure:
        return story.failure.message, f"The run ended with a {story.failure.boundary}."
    if story.answer is None:
        ended = "it still goes on" if story.under_way else "it was cut off when its process ended"
        return f"This run has no end: {ended}.", ""
    if story.answer.text is not None:
        return story.answer.text, QUOTED if story.settings.policy == OFFLINE else ""
    if _is_unquoted(story):
        return UNQUOTED, A_MODEL
    if story.stop_reason is StopReason.ABSTAINED:
        return "The agent found no answer in the documents that it can stand behind.", ""
    return "The run ended before the agent answered.", ""
