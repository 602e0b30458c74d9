"""A run that is under way: its events so far, and whoever waits for the next."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.runs.run_result import RunResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from vrag.agent.events import Event

__all__ = ["LiveRun"]


@dataclass(slots=True)
class LiveRun:
    """The events of one run, for any number of followers. For one event loop.

    Followers read from the list that the run is appended to, each at its own pace: a slow one misses
    nothing and holds up nobody.
    """

    client: str
    """Who started it."""
    session: str = ""
    """The conversation that it goes on with; empty where it begins one."""
    id: str = ""
    """Empty until it is on disk."""
    events: list[Event] = field(default_factory=list["Event"])
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    outline: RunResult | None = None
    """None before the first event."""
    done: bool = False
    fault: BaseException | None = None
    """What kept it from its first event."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, event: Event) -> None:
        """Adds an event; its place in the list is its `seq`."""
        self.events.append(event)
        self.outline = self.outline.plus(event) if self.outline else RunResult.of([event])
        self._wake()

    def end(self, fault: BaseException | None = None) -> None:
        """Nothing comes any more."""
        self.done, self.fault = True, fault
        self._wake()

    async def begun(self) -> RunResult:
        """Waits for the first event.

        Raises:
            BaseException: What kept it from coming.
        """
        while self.outline is None:
            if self.done:
                raise self.fault or RuntimeError("the run ended before its first event")
            await self._news.wait()
        return self.outline

    async def follow(self, after: int) -> AsyncGenerator[Event, None]:
        """The events from one on, those to come included, until the run is over."""
        position = after + 1
        while True:
            news = self._news
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.done:
                return
            await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
