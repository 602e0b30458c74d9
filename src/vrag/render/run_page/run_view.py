"""A run in chapters: what a page tells, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.events import (
    AnswerGiven,
    EventBase,
    GraphChanged,
    ImageShown,
    MemoryUpdated,
    ModelRetried,
    RunFailed,
    RunStarted,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.memory.memory_graph import Graph, Node
from vrag.agent.runs.run_store import RunState, RunStore
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.events import Event, RunSettings, StopReason
    from vrag.agent.runs.run_store import StoredRun

__all__ = ["RunView", "StepView"]

E = TypeVar("E", bound=EventBase)


@dataclass(frozen=True)
class StepView:
    """A step: one model call and what came of it."""

    number: int
    """0 for what came before the first call."""
    events: tuple[Event, ...]

    def all(self, kind: type[E]) -> tuple[E, ...]:
        """Its events of a kind, in order."""
        return tuple(event for event in self.events if isinstance(event, kind))

    def first(self, kind: type[E]) -> E | None:
        """Its first event of a kind."""
        return next(iter(self.all(kind)), None)

    @property
    def thought(self) -> str:
        """What was thought; of a step that was cut off, as far as it had come."""
        whole = self.first(ThoughtGiven)
        if whole is not None:
            return whole.text
        begun = ""
        for event in self.events:
            match event:
                case ThoughtDelta(text=text):
                    begun += text
                case ModelRetried():
                    begun = ""
                case _:
                    pass
        return begun

    @property
    def usage(self) -> UsageReported | None:
        """What it cost."""
        return self.first(UsageReported)


@dataclass(frozen=True)
class RunView:
    """A run, finished or not."""

    events: tuple[Event, ...]
    under_way: bool = False
    """Whether some process still adds to it."""

    @classmethod
    def of_run(cls, run: StoredRun) -> RunView:
        """The story of a run as it lies on disk.

        Raises:
            RunError: If its events do not begin with the start of a run.
        """
        if cls.of(run.events).stop_reason is not None:
            return cls.of(run.events)
        stored, state = RunStore(run.directory.parent).settled(run.directory.name)
        return replace(cls.of(stored.events), under_way=state is RunState.RUNNING)

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunView:
        """The story of the events of one run.

        Raises:
            RunError: If they do not begin with the start of a run.
        """
        told = tuple(events)
        if not told or not isinstance(told[0], RunStarted):
            raise RunError("These events hold no run: the first one must be run_started.")
        return cls(told)

    @property
    def started(self) -> RunStarted:
        """Its first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def settings(self) -> RunSettings:
        """What it was run with."""
        return self.started.settings

    @cached_property
    def step_views(self) -> tuple[StepView, ...]:
        """Its steps, in order; what belongs to none is left out."""
        steps = groupby((event for event in self.events if event.step), key=lambda event: event.step)
        return tuple(StepView(number, tuple(group)) for number, group in steps)

    @cached_property
    def pictures(self) -> tuple[ImageShown, ...]:
        """All pictures that the model was shown fresh, in order."""
        return self.all(ImageShown)

    @cached_property
    def graph(self) -> Graph | None:
        """The memory graph as it was last; None without one."""
        changes = self.all(GraphChanged)
        return changes[-1].graph if changes else None

    @property
    def memories(self) -> tuple[MemoryUpdated, ...]:
        """What was remembered, after each node that was completed."""
        return self.all(MemoryUpdated)

    @property
    def answer(self) -> AnswerGiven | None:
        """How it ended, if it ended without a failure."""
        return next(iter(self.all(AnswerGiven)), None)

    @property
    def failure(self) -> RunFailed | None:
        """How it ended, if it failed."""
        return next(iter(self.all(RunFailed)), None)

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it ended; None when it has no end."""
        end = self.answer or self.failure
        return end.stop_reason if end else None

    @property
    def seconds(self) -> float:
        """From its first event to its last."""
        return self.events[-1].ts - self.events[0].ts

    def all(self, kind: type[E]) -> tuple[E, ...]:
        """Events of a kind, in order."""
        return tuple(event for event in self.events if isinstance(event, kind))

    def node(self, id: str | None) -> Node | None:
        """A node of the graph as it was last."""
        nodes = self.graph.nodes if self.graph else ()
        return next((node for node in nodes if node.id == id), None)

    def seen_at(self, node: str, label: str, item: str = "") -> tuple[ImageShown, ...]:
        """The pictures that stand for an item of a node: by its label there, or by the item alone."""
        here = tuple(shown for shown in self.pictures if shown.node == node and shown.label == label)
        return here or tuple(shown for shown in self.pictures if item and shown.item == item)

    def page_of(self, item: str) -> ImageShown | None:
        """The picture of a whole item, where the model was shown one."""
        return next((shown for shown in self.pictures if shown.item == item and not shown.crop), None)
