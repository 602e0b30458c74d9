"""Several questions, asked one after the other or a few at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from vrag.cli.terminal.console import err, plain, warn
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.errors import VragError

if TYPE_CHECKING:
    from rich.status import Status

    from vrag.agent.agent import Agent
    from vrag.agent.events import Event
    from vrag.agent.runs.run_store import RunStore, StoredRun

MAX_QUESTION_CHARS = 70
"""Characters of a question in a line of progress."""


@dataclass
class FinishedRuns:
    """The runs of the questions."""

    runs: list[StoredRun]
    """Runs that came to an end, in the order of the questions."""
    unfinished: list[str] = field(default_factory=list[str])
    """Questions without a finished run."""
    stopped: bool = False
    """True if the user stopped the work."""
    error: BaseException | None = None
    """A bug of the program, to be raised once the finished runs are safe."""

    @property
    def status(self) -> int:
        """The exit status of the process."""
        from vrag.agent.events import StopReason

        good = {StopReason.ANSWERED, StopReason.ABSTAINED}
        failed = self.unfinished or any(run.result.stop_reason not in good for run in self.runs)
        return STOPPED if self.stopped else FAILED if failed else DONE


def ask_all(agent: Agent, store: RunStore, questions: list[str], jobs: int) -> FinishedRuns:
    """Ask questions, `jobs` at a time, and record the runs; a failure ends its own question only.

    Ctrl-C ends the questions in progress, and the runs that are finished are returned.
    """
    if err.is_terminal:
        with err.status("") as status:
            return asyncio.run(_Batch(agent, store, questions, status).ask(jobs))
    return asyncio.run(_Batch(agent, store, questions).ask(jobs))


@dataclass
class _Batch:
    """Questions in progress."""

    agent: Agent
    store: RunStore
    questions: list[str]
    status: Status | None = None
    """The line at the foot of a terminal."""
    cancel: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, jobs: int) -> FinishedRuns:
        """Ask all; on Ctrl-C return what is finished."""
        slots = asyncio.Semaphore(jobs)
        tasks = [asyncio.create_task(self._ask_in_turn(n, slots)) for n in range(len(self.questions))]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:  # Ctrl-C
            self.cancel.set()
            await asyncio.wait(tasks)
        finally:
            await self.agent.aclose()
        errors = [error for task in tasks if (error := task.exception()) is not None]
        runs = [None if task.exception() else task.result() for task in tasks]
        unfinished = [question for question, run in zip(self.questions, runs, strict=True) if run is None]
        finished = [run for run in runs if run]
        return FinishedRuns(finished, unfinished, self.cancel.is_set(), next(iter(errors), None))

    async def _ask_in_turn(self, number: int, slots: asyncio.Semaphore) -> StoredRun | None:
        """Ask a question when a slot is free; None if it did not finish."""
        async with slots:
            if self.cancel.is_set():
                return None
            try:
                return await self._ask_one(number)
            except VragError as error:
                warn(f"{self._label(number)} {error}")
                return None

    async def _ask_one(self, number: int) -> StoredRun | None:
        from vrag.agent.events import StopReason
        from vrag.agent.runs.run_store import StoredRun
        from vrag.render.outcome import step_line

        events: list[Event] = []
        with self.store.record() as recording:
            async for event in self.agent.arecord(self.questions[number], recording, cancel=self.cancel):
                events.append(event)
                if self.status is not None and (line := step_line(event)):
                    self.status.update(Text(f"{self._label(number)} {plain(line, err.width - 16)}", "dim"))
        run = StoredRun(recording.id, recording.directory, tuple(events))
        self._print_outcome(number, run)
        return None if run.result.stop_reason is StopReason.CANCELLED else run

    def _print_outcome(self, number: int, run: StoredRun) -> None:
        from vrag.render.outcome import outcome
        from vrag.render.text_format import seconds

        ended = outcome(run.result)
        style = {"good": "green", "bad": "red"}.get(ended.mood, "yellow")
        line = f"{self._label(number)} {plain(self.questions[number], MAX_QUESTION_CHARS)} "
        err.print(Text.assemble(line, (ended.name, style), (f" ({seconds(run.result.seconds)})", "dim")))
        if ended.mood == "bad":
            err.print(Text(f"    {plain(ended.text)}", "dim"))

    def _label(self, number: int) -> str:
        return f"[{number + 1}/{len(self.questions)}]"
