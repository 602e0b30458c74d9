"""The results of the newest node of a memory graph, and their review.

The model sees the results until it summarises them; the review keeps of them what it rates as useful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from vrag.agent.environment import Environment
from vrag.agent.evidence import EvidenceCandidate, passage_evidence, picture_evidence
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.memory.memory_graph import RememberedItem
from vrag.agent.memory.pixel_budget import Placed, Visual, fit_fresh
from vrag.agent.policy import Part, Picture, Text
from vrag.agent.prompts import prompt
from vrag.agent.replies.tool_calls import Memorize
from vrag.agent.runs.event_log import EventLog
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Size, View
from vrag.types import Item, ItemKind

if TYPE_CHECKING:
    from PIL.Image import Image

UNREVIEWED_PRIORITY = 3
"""The middle of 1 to 5: the model has not rated an unreviewed item."""
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
    """The moments of the frames shown of a clip, in seconds of its video, ascending."""

    @property
    def visual(self) -> bool:
        """True if it can be remembered: a text lives on in the summary only."""
        return not self.label.startswith("Text")

    def remembered(self, position: int, **rating: Any) -> RememberedItem:  # noqa: ANN401 - fields of the item
        """Return the result as an item of memory, with its rating."""
        return RememberedItem(
            label=self.label, item=self.item, position=position, region=self.region, **rating
        )


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
        if not result.visual:
            continue
        note = notes[result.label]
        seconds: tuple[float, ...] = ()
        if note.useful and result.seconds:
            seconds, missed = nearest_frames(note.timestamps, result.seconds)
            reports += [f"{result.label}: no frame was shown at {time:g} seconds." for time in missed]
            if not seconds:
                seconds = result.seconds
                reports.append(f"{result.label}: no frame of it was named; all are remembered.")
        memory.append(
            result.remembered(position, useful=note.useful, priority=note.priority, seconds=seconds)
        )
    return Review(tuple(memory), tuple(reports))


def unreviewed(results: Sequence[Result]) -> tuple[RememberedItem, ...]:
    """Return all visual results, of a node from which the model answered without a word about them."""
    visual = ((position, result) for position, result in enumerate(results) if result.visual)
    return tuple(
        result.remembered(position, priority=UNREVIEWED_PRIORITY, seconds=result.seconds, reviewed=False)
        for position, result in visual
    )


def nearest_frames(
    named: Sequence[float], shown: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the frames that times mean, and the times that mean none.

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


@dataclass(slots=True)
class Results:
    """Texts, then pictures, then videos, each with a label: `Text 1`, `Picture 1`, `Video 1`."""

    environment: Environment
    options: MemoryOptions
    node: str = ""
    listed: list[Result] = field(default_factory=list[Result])
    """The results, in the order shown."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The texts, by label."""
    shown: dict[str, tuple[Picture, ...]] = field(default_factory=dict[str, tuple[Picture, ...]])
    """The pictures of each result, by label; of a video its frames."""
    natives: dict[str, Size] = field(default_factory=dict[str, Size])
    """Size of each item, or of the frames of a clip, in pixels."""
    frames: dict[str, dict[float, Image]] = field(default_factory=dict[str, "dict[float, Image]"])
    """The frames of each clip, by their moments."""
    opened: dict[str, Item] = field(default_factory=dict[str, "Item"])
    """The items that could be opened, by id."""
    damaged: tuple[str, ...] = ()
    """The reason something that was found is not shown."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all results, in order."""
        return tuple(result.label for result in self.listed)

    @property
    def items(self) -> tuple[str, ...]:
        """Ids of the items shown."""
        return tuple(result.item for result in self.listed if result.item)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All pictures, frames included."""
        return tuple(picture for pictures in self.shown.values() for picture in pictures)

    def gather(self, node: str, ids: Sequence[str], texts: Sequence[str] = ()) -> None:
        """Open the items of a search or a tool, as far as they can be opened and there is room for them.

        `damaged` says what cannot be opened while the search still works. Raises `SearchError` or
        `CollectionError` if the search fails.
        """
        self.node = node
        for id in dict.fromkeys(ids):
            try:
                self.opened[id] = self.environment.item(id)
            except (SearchError, CollectionError) as error:
                self._add_damaged(error)
        items = list(self.opened.values())
        for item in items:
            if item.kind is ItemKind.PASSAGE or item.size is None:
                self._add_text(item.text, item.id)
        for text in texts:
            self._add_text(text, "")

        pages = [item for item in items if item.size is not None and item.kind is ItemKind.PAGE]
        visuals = [
            (item, Visual(f"Picture {number}", item.size))
            for number, item in enumerate(pages, 1)
            if item.size is not None
        ]
        visuals += self._open_clips(items)
        plan = fit_fresh([visual for _, visual in visuals], self.options, self.environment.profile)
        shown = {placed.entry.label: placed for placed in plan.shown}
        for item, visual in visuals:
            if visual.label in shown:
                self._show(item, shown[visual.label])
        for lost in plan.dropped:
            extent = "shown in part" if lost.entry.label in shown else "not shown"
            self.damaged += (f"{lost.entry.label} is {extent}: {lost.reason}",)

    def enlarge(self, node: str, item: str, source: View, region: Box) -> None:
        """Show a part of an item closer.

        Raises `SearchError` or `CollectionError` if it cannot be opened.
        """
        self.node = node
        self.opened[item] = self.environment.item(item)
        picture = self.environment.closer(item, source, region)
        self.natives[item] = source.item
        self.shown["Picture 1"] = (picture,)
        part = None if region == View.whole(source.item, source.item).region else region.as_tuple()
        self.listed.append(Result(label="Picture 1", item=item, region=part))

    def parts(self) -> list[Part]:
        """Return the message about the results, with the request to summarise them."""
        if not self.listed:
            return [Text(prompt("results_nothing.md"))]
        parts: list[Part] = [Text(prompt("results_head.md", node=self.environment.material(self.node)))]
        for result in self.listed:
            if result.label in self.texts:
                number = result.label.rpartition(" ")[2]
                text = self.environment.material(self.texts[result.label])
                quoted = prompt("passage.md", number=number, text=text)
                parts.append(Text(quoted, result.item or None, result.label))
            else:
                parts.append(Text(prompt("results_picture.md", label=result.label), label=result.label))
                parts += frame_parts(self.shown[result.label])
                if result.region is None and (tables := self.environment.tables(self.opened[result.item])):
                    parts.append(Text(prompt("tables.md", text=tables)))
        return [*parts, Text(prompt("results_request.md", labels=", ".join(self.labels)))]

    def add_events(self, log: EventLog) -> None:
        """Add the events of what was shown."""
        tokens = self.environment.profile.visual_tokens
        for result in (result for result in self.listed if result.item):
            item = self.opened[result.item]
            for picture in self.shown.get(result.label, ()):
                log.add_image(picture, item, tokens(picture.view.canvas), label=result.label, node=self.node)
            if result.label in self.texts:
                log.add_passage(item, label=result.label, node=self.node)

    def evidence(self, label: str, memory_item: RememberedItem | None) -> tuple[EvidenceCandidate, ...]:
        """Return one of the results as evidence; nothing for a text that is no item."""
        result = next(result for result in self.listed if result.label == label)
        if not result.item:
            return ()
        item, name = self.opened[result.item], f"{self.node}, {label}"
        if label in self.texts:
            return (passage_evidence(item, name, node=self.node),)
        pictures = self.shown[label]
        kept = memory_item.seconds if memory_item and memory_item.reviewed else ()
        first = next((p for p in pictures if p.seconds in kept), pictures[0])
        sampling = None if first.seconds is None else (self.options.fps, self.options.frames)
        span = (min(kept), max(kept)) if kept else None
        return (picture_evidence(first, item, name, node=self.node, seconds=span, sampling=sampling),)

    def _add_damaged(self, error: SearchError | CollectionError) -> None:
        self.damaged += (self.environment.unopened(error),)

    def _add_text(self, text: str, item: str) -> None:
        label = f"Text {len(self.texts) + 1}"
        self.texts[label] = text
        self.listed.append(Result(label=label, item=item))

    def _open_clips(self, items: Sequence[Item]) -> list[tuple[Item, Visual]]:
        visuals: list[tuple[Item, Visual]] = []
        for item in (item for item in items if item.kind is ItemKind.CLIP):
            try:
                frames = self.environment.frames(item.id, fps=self.options.fps, most=self.options.frames)
            except (SearchError, CollectionError) as error:
                self._add_damaged(error)
                continue
            self.frames[item.id] = dict(frames)
            size = Size(*frames[0][1].size)
            moments = tuple(seconds for seconds, _ in frames)
            visuals.append((item, Visual(f"Video {len(visuals) + 1}", size, moments)))
        return visuals

    def _show(self, item: Item, placed: Placed[Visual]) -> None:
        size, margin = placed.fitted.shown, placed.fitted.margin
        frames = self.frames.get(item.id)
        try:
            if frames is None:
                pictures = (self.environment.whole(item, shown=size, margin=margin),)
            else:
                frame = self.environment.frame
                pictures = tuple(frame(item.id, frames[at], at, size, margin) for at in placed.seconds)
        except (SearchError, CollectionError) as error:
            self._add_damaged(error)
            return
        self.shown[placed.entry.label] = pictures
        self.natives[item.id] = placed.entry.native
        self.listed.append(Result(label=placed.entry.label, item=item.id, seconds=placed.seconds))


def frame_parts(pictures: Sequence[Picture]) -> list[Part]:
    """Return pictures, each frame of a video after its moment."""
    parts: list[Part] = []
    for picture in pictures:
        if picture.seconds is not None:
            parts.append(Text(prompt("frame.md", seconds=f"{picture.seconds:.1f}")))
        parts.append(picture)
    return parts
