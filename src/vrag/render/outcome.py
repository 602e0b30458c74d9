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
    SearchRequested,
    SearchReturned,
    StopReason,
)
from vrag.render.html import printable
from vrag.render.run_view import OFFLINE
from vrag.render.text_format import INTERRUPTED, NOTHING_QUOTED, RUNNING, STOPS, moment

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.render.run_view import RunView

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


def outcome(run: RunView) -> OutcomeText:
    """The outcome of a run, or its state if it has not ended."""
    ended = run.stop_reason
    unquoted = ended is StopReason.ABSTAINED and run.settings.policy == OFFLINE
    name, mood = STOPS[ended] if ended else RUNNING if run.under_way else INTERRUPTED
    if run.failure:
        text, note = run.failure.message, f"The run ended with a {run.failure.boundary}."
    elif run.answer is None:
        state = "it still goes on" if run.under_way else "it was cut off when its process ended"
        text, note = f"This run has no end: {state}.", ""
    elif run.answer.text is not None:
        text, note = run.answer.text, QUOTED if run.settings.policy == OFFLINE else ""
    elif unquoted:
        (name, mood), text, note = NOTHING_QUOTED, UNQUOTED, A_MODEL
    elif ended is StopReason.ABSTAINED:
        text, note = "The agent found no answer in the documents that it can stand behind.", ""
    else:
        text, note = "The run ended before the agent answered.", ""
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
