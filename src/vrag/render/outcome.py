"""What came of a run, in words: its answer, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.events import StopReason
from vrag.render.text_format import INTERRUPTED, NOTHING_QUOTED, RUNNING, STOPS

if TYPE_CHECKING:
    from vrag.render.run_page.run_view import RunView

__all__ = ["ATTACHED", "A_MODEL", "OFFLINE", "QUOTED", "UNQUOTED", "OutcomeText", "outcome"]

ATTACHED = "A picture that came with the question"
OFFLINE = "extractive"
"""Name of the policy that quotes without a model, and must say so."""
QUOTED = "Quoted from the documents by the offline policy, not read by a model."
UNQUOTED = "The offline policy found no words to quote as the answer: it cannot look, count or calculate."
"""Of its abstentions: what it cannot say may well stand in the documents."""
A_MODEL = "A model could: name one with --model."


class OutcomeText(NamedTuple):
    """How a run ended."""

    name: str
    """In a word or two."""
    mood: str
    """How good that is: `good`, `calm`, `fair` or `bad`."""
    text: str
    """The answer, or a sentence that says why there is none."""
    note: str = ""
    """What is to be known beside it."""


def outcome(run_view: RunView) -> OutcomeText:
    """How a run ended, if it did."""
    return OutcomeText(*_named(run_view), *_told(run_view))


def _named(run_view: RunView) -> tuple[str, str]:
    """Name and mood."""
    if _is_unquoted(run_view):
        return NOTHING_QUOTED
    if run_view.stop_reason:
        return STOPS[run_view.stop_reason]
    return RUNNING if run_view.under_way else INTERRUPTED


def _is_unquoted(run_view: RunView) -> bool:
    """Whether the offline policy abstained."""
    return run_view.stop_reason is StopReason.ABSTAINED and run_view.settings.policy == OFFLINE


def _told(run_view: RunView) -> tuple[str, str]:
    """Text and note."""
    if run_view.failure:
        return run_view.failure.message, f"The run ended with a {run_view.failure.boundary}."
    if run_view.answer is None:
        ended = "it still goes on" if run_view.under_way else "it was cut off when its process ended"
        return f"This run has no end: {ended}.", ""
    if run_view.answer.text is not None:
        return run_view.answer.text, QUOTED if run_view.settings.policy == OFFLINE else ""
    if _is_unquoted(run_view):
        return UNQUOTED, A_MODEL
    if run_view.stop_reason is StopReason.ABSTAINED:
        return "The agent found no answer in the documents that it can stand behind.", ""
    return "The run ended before the agent answered.", ""
