"""A run that goes on beside the page, which is drawn anew again and again meanwhile."""

from __future__ import annotations

import asyncio
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from vrag.errors import RunError, VragError
from vrag.factory.session import open_session
from vrag.render.run_page import render
from vrag.search.client import SearchClient

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.runs.run_store import RunLog, RunStore
    from vrag.settings import Settings

__all__ = ["Running"]


class Running:
    """A question that is being answered, or was."""

    def __init__(self, question: str, settings: Settings) -> None:
        self.question = question
        self.settings = settings
        self.events: list[Event] = []
        """What has happened so far."""
        self.fault: VragError | None = None
        """Why there is no run at all."""
        self._recording: RunLog | None = None
        self._runs: RunStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancel = asyncio.Event()
        self._thread = threading.Thread(target=self._work, name="vrag-demo", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return not self._thread.is_alive()

    @cached_property
    def page(self) -> bytes:
        """The run as one page, once it is over."""
        return render(self.events, self.picture).data

    def picture(self, sha256: str) -> bytes | None:
        """The JPEG file of a hash."""
        try:
            return (
                self._runs.read_file(self._recording.id, sha256) if self._runs and self._recording else None
            )
        except RunError:
            return None

    def stop(self) -> None:
        """Ends it at the next opportunity."""
        if self._loop is not None and not self.over:
            self._loop.call_soon_threadsafe(self._cancel.set)

    def wait(self, seconds: float) -> None:
        """Waits for its end, so long at most."""
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            asyncio.run(self._ask())
        except VragError as error:
            self.fault = error

    async def _ask(self) -> None:
        self._loop = asyncio.get_running_loop()
        bench = open_session(self.settings)
        agent = bench.agent()
        self._runs = bench.runs
        try:
            with self._runs.record() as self._recording:
                async for event in agent.arecord(self.question, self._recording, cancel=self._cancel):
                    self.events.append(event)
        finally:
            await agent.aclose()
            if isinstance(bench.searcher, SearchClient):
                bench.searcher.close()
