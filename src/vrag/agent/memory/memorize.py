"""The review of results: the items that a node remembers, as the model rates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from vrag.agent.memory.memory_graph import RememberedItem
from vrag.agent.replies.tool_calls import Memorize, Note

UNREVIEWED_PRIORITY = 3
"""The middle of 1 to 5: nobody has said whether an unreviewed item is worth more or less than another."""
_TENTH = 0.05
"""Half of what a time is rounded to when a frame is shown: a time copied from there is always this near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result of the pending node, as the model was shown it."""

    label: str
    """`Text 1`, `Picture 3`, `Video 1`."""
    item: str
    """Id of the item."""
    region: tuple[float, float, float, float] | None = None
    """The part of the item that was shown, in item pixels; None for the whole."""
    seconds: tuple[float, ...] = ()
    """Of a clip: when the frames shown are seen, in seconds of its video, ascending."""

    @property
    def visual(self) -> bool:
        """Whether it can be remembered: a text lives on in the summary only."""
        return not self.label.startswith("Text")


@dataclass(frozen=True, slots=True)
class Review:
    """The reviewed results."""

    memory: tuple[RememberedItem, ...]
    """One for every visual result, useful or not, in their order."""
    reports: tuple[str, ...] = ()
    """Requests about frames that could not be met; one sentence each."""


def reviewed(call: Memorize, results: Sequence[Result]) -> Review:
    """Return the items that the model wants remembered.

    A time that it names stands for the frame next to it. A useful video of which it names no frame that was
    shown keeps all of them, to be thinned by its share of the memory: dropping what was called useful for
    want of a number would lose more.
    """
    notes = {note.information: note for note in call.notes}
    memory: list[RememberedItem] = []
    reports: list[str] = []
    for position, result in enumerate(results):
        if result.visual:
            note = notes[result.label]
            seconds, faults = _frames(note, result)
            reports += faults
            memory.append(_memo(result, position, note, seconds))
    return Review(tuple(memory), tuple(reports))


def unreviewed(results: Sequence[Result]) -> tuple[RememberedItem, ...]:
    """Return all visual results, of a node from which the model answered without a word about them."""
    return tuple(
        RememberedItem(
            label=result.label,
            item=result.item,
            position=position,
            priority=UNREVIEWED_PRIORITY,
            region=result.region,
            seconds=result.seconds,
            reviewed=False,
        )
        for position, result in enumerate(results)
        if result.visual
    )


def nearest_frames(
    named: Sequence[float], shown: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the frames that are meant by times, and the times that mean none.

    A time means the nearest frame, the earlier one of two, unless that is more than half a step away: half
    the widest gap between neighbours, or half a second where there is one frame.

    >>> nearest_frames([12.3, 99.0], [10.0, 11.0, 12.0, 13.0])
    ((12.0,), (99.0,))
    """
    gaps = [after - before for before, after in pairwise(shown)]
    reach = max(max(gaps, default=1.0) / 2, _TENTH) + 1e-6
    meant: set[float] = set()
    missed: list[float] = []
    for time in named:
        nearest = min(shown, key=lambda frame: abs(frame - time), default=None)
        if nearest is None or abs(nearest - time) > reach:
            missed.append(time)
        else:
            meant.add(nearest)
    return tuple(sorted(meant)), tuple(missed)


def _frames(note: Note, result: Result) -> tuple[tuple[float, ...], list[str]]:
    """Return the frames to remember of a result, and what there is to report of those named."""
    if not note.useful or not result.seconds:
        return (), []
    meant, missed = nearest_frames(note.timestamps, result.seconds)
    reports = [f"{result.label}: no frame was shown at {time:g} seconds." for time in missed]
    if meant:
        return meant, reports
    return result.seconds, [*reports, f"{result.label}: no frame of it was named; all are remembered."]


def _memo(result: Result, position: int, note: Note, seconds: tuple[float, ...]) -> RememberedItem:
    return RememberedItem(
        label=result.label,
        item=result.item,
        position=position,
        useful=note.useful,
        priority=note.priority,
        region=result.region,
        seconds=seconds,
    )
