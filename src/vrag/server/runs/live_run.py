"""A run in progress: its events so far, and the followers that wait for the next."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.runs.run_result import RunResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from vrag.agent.events import Event


@dataclass(slots=True)
class LiveRun:
    """The events of one run, for any number of followers. For one event loop.

    Followers read from the list that the run is appended to, each at its own pace: a slow one misses
    nothing and holds up nobody.
    """

    client: str
    """The client that started it."""
    session: str = ""
    """The conversation that it continues; empty if it begins one."""
    id: str = ""
    """Empty until it is on disk."""
    events: list[Event] = field(default_factory=list["Event"])
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    outline: RunResult | None = None
    """None before the first event."""
    done: bool = False
    fault: BaseException | None = None
    """The error that prevented the first event."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: Event) -> None:
        """Add an event; its index in the list is its `seq`."""
        self.events.append(event)
        self.outline = self.outline.plus(event) if self.outline else RunResult.of([event])
        self._notify()

    def end(self, fault: BaseException | None = None) -> None:
        """Mark the run as over."""
        self.done, self.fault = True, fault
        self._notify()

    async def begun(self) -> RunResult:
        """Wait for the first event.

        Raises:
            BaseException: The error that prevented it.
        """
        while self.outline is None:
            if self.done:
                raise self.fault or RuntimeError("the run ended before its first event")
            await self._changed.wait()
        return self.outline

    async def follow(self, after: int) -> AsyncGenerator[Event, None]:
        """Yield the events after one of them, future ones included, until the run is over."""
        position = after + 1
        while True:
            changed = self._changed
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.done:
                return
            await changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
