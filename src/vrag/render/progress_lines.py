"""What an agent does, one line an event: for programs that show a run as text while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)
from vrag.render.html import printable
from vrag.render.text_format import moment

if TYPE_CHECKING:
    from vrag.agent.events import Event

__all__ = ["one_line", "step_line"]

CHARACTERS = 300
"""Of what a model or a document said, in a line."""


def step_line(event: Event) -> str:  # noqa: PLR0911 - one flat case per event
    """What an event tells of the work; empty for those that tell nothing, thoughts among them."""
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
    return line if len(line) <= CHARACTERS else f"{line[: CHARACTERS - 1]}…"
