"""The outcome of a run and its progress, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.events import (
    ActionRequested,
    ContextShortened,
    CropRequested,
    ImageShown,
    InvalidAction,
    ModelRetried,
    PassageShown,
    RunFailed,
    SearchRequested,
    SearchReturned,
    StopReason,
)
from vrag.render.text_format import INTERRUPTED, NOTHING_QUOTED, RUNNING, STOPS, moment, printable

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.runs.run_result import RunResult

OFFLINE = "extractive"
"""Name of the policy that quotes without a model, and must say so."""
ATTACHED = "A picture that came with the question"
QUOTED = "Quoted from the documents by the offline policy, not read by a model."
UNQUOTED = "The offline policy found no words to quote as the answer: it cannot look, count or calculate."
"""Its abstentions: the answer may still be in the documents."""
A_MODEL = "A model could: name one with --model."
_MAX_LINE_CHARACTERS = 300


class OutcomeText(NamedTuple):
    """The outcome of a run."""

    name: str
    """A word or two."""
    mood: str
    """`good`, `calm`, `fair` or `bad`."""
    text: str
    """The answer, or a sentence that says why there is none."""
    note: str = ""
    """A remark about it."""


def outcome(result: RunResult, *, under_way: bool = False) -> OutcomeText:
    """The outcome of a run in words, or its state if it has not ended.

    Args:
        result: The run so far.
        under_way: Whether a process still adds events.
    """
    reason, offline = result.stop_reason, result.started.settings.policy == OFFLINE
    name, mood = STOPS[reason] if reason else RUNNING if under_way else INTERRUPTED
    note = ""
    if isinstance(result.end, RunFailed):
        text, note = result.end.message, f"The run ended with a {result.end.boundary}."
    elif result.end is None:
        state = "is still running" if under_way else "was interrupted when its process ended"
        text = f"This run {state}."
    elif result.answer is not None:
        text, note = result.answer, QUOTED if offline else ""
    elif reason is StopReason.ABSTAINED and offline:
        (name, mood), text, note = NOTHING_QUOTED, UNQUOTED, A_MODEL
    elif reason is StopReason.ABSTAINED:
        text = "The agent found no answer in the documents that it can support."
    else:
        text = "The run ended before the agent answered."
    return OutcomeText(name, mood, text, note)


def step_line(event: Event) -> str:  # noqa: PLR0911 - one flat case per event
    """An event of a run as a line of progress; empty for those without one, such as thoughts."""
    match event:
        case SearchRequested():
            return f"Searching: {one_line(event.query)}"
        case SearchReturned(hits=()):
            return "Nothing was found."
        case CropRequested():
            return "Looking closer."
        case ImageShown():
            at = "" if event.seconds is None else f", {moment(event.seconds)}"
            return f"Looking at {one_line(event.document)}, page {event.page}{at}"
        case PassageShown():
            return f"Reading {one_line(event.document)}, passage {event.page}"
        case ActionRequested():
            return f"{one_line(event.name)}: {one_line(event.text)}"
        case InvalidAction():
            return f"Not carried out: {one_line(event.reason)}"
        case ContextShortened():
            return f"Too long for the model; asked again without {one_line(', '.join(event.dropped))}"
        case ModelRetried():
            return f"Asking the model again: {one_line(event.reason)}"
        case _:
            return ""


def one_line(text: str) -> str:
    r"""Text of others on one line of bounded length, without what no terminal should be sent.

    >>> one_line("two\nlines\x1b[31m")
    'two lines\ufffd[31m'
    """
    line = " ".join(printable(text).split())
    return line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[: _MAX_LINE_CHARACTERS - 1]}…"
