"""Texts of pages, reports and terminals: outcomes, lines of progress, numbers, times, places, line widths."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from vrag.agent import events
from vrag.agent.events import Event, StopReason
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import ResultKind, RunResult, is_whole
from vrag.types import ItemKind

STOPS = {
    StopReason.ANSWERED: ("Answered", "good"),
    StopReason.ABSTAINED: ("No answer in the documents", "calm"),
    StopReason.OUT_OF_STEPS: ("Out of steps", "fair"),
    StopReason.OUT_OF_TOKENS: ("Out of tokens", "fair"),
    StopReason.OUT_OF_BUDGET: ("Budget spent", "fair"),
    StopReason.CANCELLED: ("Stopped", "fair"),
    StopReason.MODEL_ERROR: ("Model failed", "bad"),
    StopReason.SEARCH_ERROR: ("Search failed", "bad"),
    StopReason.FAULT: ("Internal error", "bad"),
}
"""Name and mood of each stop reason; the mood is `good`, `calm`, `fair` or `bad`."""
INTERRUPTED = ("Interrupted", "fair")
"""Name and mood of a run without an end."""
RUNNING = ("Running", "fair")
"""Name and mood of a running run."""
FOUND_ON_PAGE = ("Found on the page", "calm")
"""Name and mood of an answer without a model."""
PLACES = ("Places to look", "calm")
"""Name and mood of a run without a model that has no answer, but places."""
NOTHING = ("Nothing found", "calm")
"""Name and mood of a run without a model that has neither."""
WITHDRAWN = ("Answer withdrawn", "calm")
"""Name and mood of a run whose answer was withdrawn, since its evidence does not support it."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that HTML does not allow or no encoding can represent, without line feeds and tabs."""
_NARROW = frozenset("iIjl|.,:;'!()[]{}/\\`· ")
_BROAD = frozenset("mwMW@%—…")
_MAX_LINE_CHARACTERS = 300
"""Length of a line of progress, the ellipsis of a longer one included."""
ATTACHED = "A picture that came with the question"
A_MODEL = "A model that sees pictures could find one."


def printable(text: str) -> str:
    """Return text with a replacement character for each one that no page can hold."""
    return _CONTROL.sub("\ufffd", text)


def amount(value: float | None) -> str:
    """Format a count with separators; a dash if it is unknown.

    >>> amount(12345), amount(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


def seconds(value: float) -> str:
    """Format a duration in seconds.

    >>> seconds(0.0312), seconds(7.25), seconds(83)
    ('0.03 s', '7.2 s', '1 min 23 s')
    """
    if not math.isfinite(value):
        return "–"
    if value >= 60:
        return f"{int(value) // 60} min {int(value) % 60} s"
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def moment(value: float) -> str:
    """Format a moment of a video.

    >>> moment(12), moment(75.5), moment(3723)
    ('0:12', '1:15.5', '1:02:03')
    """
    if not math.isfinite(value) or value < 0:
        return "–"
    tenths = round(value * 10)
    whole, rest = divmod(tenths, 10)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    clock = f"{hours}:{minute:02}:{second:02}" if hours else f"{minutes}:{second:02}"
    return f"{clock}.{rest}" if rest else clock


def span(value: tuple[float, float]) -> str:
    """Format a stretch of a video.

    >>> span((12, 30))
    '0:12–0:30'
    """
    return f"{moment(value[0])}–{moment(value[1])}" if value[0] != value[1] else moment(value[0])


def money(value: float | None) -> str:
    """Format a cost in any currency; small ones with two significant digits.

    >>> money(1.5), money(0.00312), money(None)
    ('1.50', '0.0031', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:.2g}" if value >= 1e-4 else f"{value:.1e}"


def ordinal(number: int) -> str:
    """Return a number from 1 as an ordinal.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    suffix = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def place(box: BoxSides) -> str:
    """Format a box, as a model wrote it.

    >>> place((1.0, 2.5, 30.25, 4.0))
    '1, 2.5, 30.25, 4'
    """
    return ", ".join(f"{side:.6g}" for side in box)


def size(value: int) -> str:
    """Format a number of bytes.

    >>> size(1_234_567)
    '1.2 MB'
    """
    return f"{value / 1e6:.1f} MB" if value >= 100_000 else f"{value / 1e3:.0f} kB"


def when(value: float) -> str:
    """Format a date and time in UTC.

    >>> when(0)
    '1 January 1970, 00:00 UTC'
    """
    try:
        parts = time.gmtime(value)
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
    return f"{parts.tm_mday} {time.strftime('%B %Y, %H:%M', parts)} UTC"


def where(evidence: Evidence) -> str:
    """Return the page of a piece of evidence, or its stretch of a video."""
    if evidence.seconds is not None:
        return f"{span(evidence.seconds)} in the video"
    return evidence.page_name[0].upper() + evidence.page_name[1:]


def place_name(evidence: Evidence) -> str:
    """Return the place of a piece of evidence within a sentence: `page 3`, `part of page 3`, `passage 2`."""
    is_part = evidence.kind is ItemKind.PAGE and evidence.box is not None and not is_whole(evidence.box)
    return f"{'part of ' if is_part else ''}{_lower_first(where(evidence))}"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def extent(evidence: Evidence) -> str:
    """Return the page or stretch of a piece of evidence, with its cells or its box in percent of the page."""
    box = evidence.box
    if evidence.cells:
        return f"{where(evidence)}, {evidence.cells}"
    if box is None or not all(map(math.isfinite, box)) or is_whole(box):
        return where(evidence)
    left, top, right, bottom = (f"{100 * side:.0f}" for side in box)
    return f"{where(evidence)}, {left}–{right} % across, {top}–{bottom} % down"


def list_places(evidence: Iterable[Evidence]) -> str:
    """Return the items of evidence on one line, document by document."""
    places: dict[tuple[str, str], list[str]] = {}
    for entry in evidence:
        places.setdefault((entry.document_id, entry.document), []).append(_lower_first(where(entry)))
    return "; ".join(f"{name}, {', '.join(inside)}" for (_, name), inside in places.items())


def text_width(text: str) -> float:
    """Return the width of a line in ems, a little more than common sans-serif fonts need."""
    return sum(map(_advance, text))


def wrapped(text: str, ems: float, lines: int) -> list[str]:
    """Break text into `lines` at most, `ems` wide; an ellipsis ends the last one if the text does not fit.

    >>> wrapped("one two three four", 5.0, 2)
    ['one two', 'three…']
    """
    broken: list[str] = []
    line = ""
    for word in _words(" ".join(text.split())[: 1 + int(8 * ems * lines)], ems):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer) > ems:
            broken.append(line)
            line = word
        else:
            line = longer
        if len(broken) >= lines:
            last = broken[-1]
            while last and text_width(last) + _advance("…") > ems:
                last = last[:-1]
            return [*broken[:-1], last.rstrip() + "…"]
    return [*broken, line] if line else broken


def _advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.02
    if character in _NARROW:
        return 0.32
    return 0.92 if character in _BROAD else 0.7 if character.isupper() else 0.57


def _words(text: str, ems: float) -> list[str]:
    """Return the words of a text; those longer than a line are broken."""
    words: list[str] = []
    for word in text.split(" "):
        piece = ""
        for character in word:
            if piece and text_width(piece) + _advance(character) > ems:
                words.append(piece)
                piece = ""
            piece += character
        words += [piece] if piece else []
    return words


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
    reading: tuple[str, ...] = ()
    """The computation of a short answer, and its sentence or row."""


def outcome(result: RunResult, *, under_way: bool = False) -> OutcomeText:
    """Describe the outcome of a run; without an end its state, `under_way` or interrupted."""
    reason = result.stop_reason
    name, mood = STOPS[reason] if reason else RUNNING if under_way else INTERRUPTED
    note = ""
    if isinstance(result.end, events.RunFailed):
        note = f"The run ended with a {result.end.boundary}."
    elif result.answer is not None:
        if result.is_without_model:
            name, mood = FOUND_ON_PAGE
    elif result.withdrawn is not None:
        name, mood = WITHDRAWN
    elif reason is StopReason.ABSTAINED and result.is_without_model:
        has_places = result.kind is ResultKind.PLACES
        (name, mood), note = PLACES if has_places else NOTHING, A_MODEL
    text = result.unanswered(under_way=under_way) if result.answer is None else result.answer
    reading = result.reading
    read = () if reading is None else tuple(filter(None, (reading.arithmetic, reading.context)))
    return OutcomeText(name, mood, text, note, read)


def step_line(event: Event) -> str:  # noqa: C901, PLR0911 - one flat case per event
    """Format an event of a run as a line of progress; empty for those without one, such as thoughts."""
    match event:
        case events.SearchRequested():
            verb = "The next hits for" if event.continued else "Searching"
            return f"{verb}: {one_line(event.query)}"
        case events.SearchReturned(hits=()):
            return "Nothing was found."
        case events.CropRequested():
            return "Looking closer."
        case events.ImageShown():
            at = "" if event.seconds is None else f", {moment(event.seconds)}"
            return f"Looking at {one_line(event.document)}, page {event.page}{at}"
        case events.PassageShown():
            return f"Reading {one_line(event.document)}, passage {event.page}"
        case events.ActionRequested():
            return f"{one_line(event.name)}: {one_line(event.text)}"
        case events.InvalidAction():
            return f"Not carried out: {one_line(event.reason)}"
        case events.ContextShortened():
            return f"Too long for the model; asked again without {one_line(', '.join(event.dropped))}"
        case events.AnswerDoubted() if event.conflicts:
            return "Documents that were shown disagree; asking the model again"
        case events.AnswerDoubted():
            return "The evidence does not support all of the answer; asking the model again"
        case events.ModelRetried():
            return f"Asking the model again: {one_line(event.reason)}"
        case _:
            return ""


def one_line(text: str) -> str:
    r"""Format text of others on one line of bounded length, without what no terminal should be sent.

    >>> one_line("two\nlines\x1b[31m")
    'two lines\ufffd[31m'
    """
    line = " ".join(printable(text).split())
    return line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[: _MAX_LINE_CHARACTERS - 1]}…"
