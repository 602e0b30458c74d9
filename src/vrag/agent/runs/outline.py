"""What a list of runs tells of each: how it began, how it ended, what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vrag.agent.events import AnswerGiven, RunFailed, RunStarted, UsageReported
from vrag.agent.runs.trajectory import RunUsage
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.events import Event, StopReason

__all__ = ["OUTLINED", "RunOutline"]

OUTLINED = frozenset({"run_started", "usage", "answer", "run_failed"})
"""Types of the events that an outline is made of; of the others only the last one's time matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutline:
    """A run without its steps."""

    started: RunStarted
    end: AnswerGiven | RunFailed | None = None
    """None while the run goes on, or when it was cut off."""
    usage: RunUsage = field(default_factory=RunUsage)
    steps: int = 0
    """Model calls."""
    last: float = 0.0
    """When the last event happened, in seconds since 1970."""
    events: int = 0
    """How many there are."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunOutline:
        """The outline of the events of one run.

        Raises:
            RunError: If they do not begin with the start of a run.
        """
        rest = iter(events)
        started = next(rest, None)
        if not isinstance(started, RunStarted):
            raise RunError("These events hold no run: the first one must be run_started.")
        outline = cls(started=started, last=started.ts, events=1)
        for event in rest:
            outline = outline.plus(event)
        return outline

    def plus(self, event: Event) -> RunOutline:
        """The same, one event later."""
        later = replace(self, last=event.ts, events=event.seq + 1, steps=max(self.steps, event.step))
        match event:
            case UsageReported():
                return replace(later, usage=self.usage.plus(event))
            case AnswerGiven() | RunFailed():
                return replace(later, end=event)
            case _:
                return later

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it ended; None where it has not."""
        return self.end and self.end.stop_reason

    @property
    def answer(self) -> str | None:
        """What was answered, if anything."""
        return self.end.text if isinstance(self.end, AnswerGiven) else None

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return max(0.0, self.last - self.started.ts)
