"""Several questions, asked one after the other or a few at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from vrag.cli import DONE, FAILED, STOPPED
from vrag.cli.terminal.console import err, plain, warn
from vrag.errors import VragError

if TYPE_CHECKING:
    from rich.status import Status

    from vrag.agent.agent import Agent
    from vrag.agent.events import Event
    from vrag.agent.runs.run_store import RunStore, StoredRun

__all__ = ["FinishedRuns", "ask_all"]

SHOWN = 70
"""Characters of a question in a line of progress."""


@dataclass
class FinishedRuns:
    """What came of the questions."""

    runs: list[StoredRun]
    """Those that came to an end, in the order of the questions."""
    left: list[str] = field(default_factory=list[str])
    """Questions that were not asked to their end."""
    stopped: bool = False
    """Whether somebody ended the work."""
    fault: BaseException | None = None
    """A fault of the program, to be raised once what is done is safe."""

    @property
    def status(self) -> int:
        """Of the process."""
        from vrag.agent.events import StopReason

        well = {StopReason.ANSWERED, StopReason.ABSTAINED}
        failed = self.left or any(run.result.stop_reason not in well for run in self.runs)
        return STOPPED if self.stopped else FAILED if failed else DONE


def ask_all(agent: Agent, store: RunStore, questions: list[str], jobs: int) -> FinishedRuns:
    """Asks questions, a few at once; a failure ends its own question alone.

    Ctrl-C ends those that are being asked, and what is done by then is returned.

    Args:
        agent: What answers.
        store: Where the runs are recorded.
        questions: What is asked.
        jobs: How many at once.
    """
    if err.is_terminal:
        with err.status("") as status:
            return asyncio.run(_Asking(agent, store, questions, status).all(jobs))
    return asyncio.run(_Asking(agent, store, questions).all(jobs))


@dataclass
class _Asking:
    """Questions that are being asked."""

    agent: Agent
    store: RunStore
    questions: list[str]
    status: Status | None = None
    """The line at the foot of a terminal."""
    cancel: asyncio.Event = field(default_factory=asyncio.Event)

    async def all(self, jobs: int) -> FinishedRuns:
        """Asks them; ends early, with what is done, when it is cancelled."""
        places = asyncio.Semaphore(jobs)
        tasks = [asyncio.create_task(self._turn(number, places)) for number in range(len(self.questions))]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:  # Ctrl-C
            self.cancel.set()
            await asyncio.wait(tasks)
        finally:
            await self.agent.aclose()
        faults = [fault for task in tasks if (fault := task.exception()) is not None]
        runs = [None if task.exception() else task.result() for task in tasks]
        left = [question for question, run in zip(self.questions, runs, strict=True) if run is None]
        return FinishedRuns(
            [run for run in runs if run], left, self.cancel.is_set(), next(iter(faults), None)
        )

    async def _turn(self, number: int, places: asyncio.Semaphore) -> StoredRun | None:
        """Asks a question when it is its turn; None when it did not come to its end."""
        async with places:
            if self.cancel.is_set():
                return None
            try:
                return await self._one(number)
            except VragError as error:
                warn(f"{self._place(number)} {error}")
                return None

    async def _one(self, number: int) -> StoredRun | None:
        from vrag.agent.events import StopReason
        from vrag.agent.runs.run_store import StoredRun

        events: list[Event] = []
        with self.store.record() as recording:
            async for event in self.agent.arecord(self.questions[number], recording, cancel=self.cancel):
                events.append(event)
                self._show(number, event)
        run = StoredRun(recording.id, recording.directory, tuple(events))
        self._tell(number, run)
        return None if run.result.stop_reason is StopReason.CANCELLED else run

    def _show(self, number: int, event: Event) -> None:
        """What is just done, at the foot of a terminal."""
        from vrag.render.outcome import step_line

        if self.status is not None and (line := step_line(event)):
            self.status.update(
                Text(f"[{number + 1}/{len(self.questions)}] {plain(line, err.width - 16)}", "dim")
            )

    def _tell(self, number: int, run: StoredRun) -> None:
        """How a question ended."""
        from vrag.render.outcome import outcome
        from vrag.render.text_format import seconds

        ended = outcome(run.result)
        style = {"good": "green", "bad": "red"}.get(ended.mood, "yellow")
        line = f"{self._place(number)} {plain(self.questions[number], SHOWN)} "
        err.print(Text.assemble(line, (ended.name, style), (f" ({seconds(run.result.seconds)})", "dim")))
        if ended.mood == "bad":
            err.print(Text(f"    {plain(ended.text)}", "dim"))

    def _place(self, number: int) -> str:
        return f"[{number + 1}/{len(self.questions)}]"
