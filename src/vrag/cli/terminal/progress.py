"""Progress of long work on standard error, and what Ctrl-C leaves of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from vrag.cli.terminal.console import echo_stop, err, plain, warn
from vrag.factory.progress import describe_progress, index_bar

if TYPE_CHECKING:
    from rich.status import Status

    from vrag.agent.events import Event
    from vrag.index.manifest import IndexProgress
    from vrag.rollouts.rollout_store import RolloutJob

FLOWING = frozenset({"thought_delta", "answer_delta", "answer_cited"})
"""Types of events that come while the model writes."""
LOG_SECONDS = 30.0
"""Time between two lines of progress if standard error is not a terminal."""
RESUME_NOTE = "Finished work is kept. Run the same command again to continue."


@contextmanager
def note_on_interrupt(note: str) -> Generator[None]:
    """On Ctrl-C print what is left of the work, and let it end the command."""
    try:
        yield
    except KeyboardInterrupt:
        echo_stop(note)
        raise


def warn_of_early_end(job: RolloutJob, noun: str, hint: str) -> None:
    """Print that the rollouts were stopped, or given up after many failures, and what to do."""
    if job.stopped:
        echo_stop(RESUME_NOTE)
    if job.given_up:
        warn(f"Given up: the last {job.failures_in_a_row} {noun} failed. {hint}")


class ModelStatus:
    """The last lines of a terminal during a run: what it waits for, the current thought, or the answer."""

    def __init__(self, model: str, status: Status | None = None) -> None:
        self._model = model
        self._status = status
        self._thought = ""
        self._answer = ""
        """The answer as far as it is written; it stays until it is given or does not count."""
        self._acting = False
        self._since = time.monotonic()

    @property
    def is_shown(self) -> bool:
        """True on a terminal."""
        return self._status is not None

    def follow(self, event: Event) -> None:
        """Update the lines with an event of the run."""
        if event.type == "thought_delta":
            self._thought += event.text
        elif event.type == "answer_delta":
            self._answer += event.text
        if event.type in FLOWING:
            return
        self._thought = ""
        if event.type not in {"model_called", "thought", "usage"}:
            self._answer = ""
        self._acting = event.type in {"search_requested", "crop_requested", "action_requested"}
        self._since = time.monotonic()

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Hide the line while other lines are printed."""
        if self._status is None:
            yield
            return
        self._status.stop()
        try:
            yield
        finally:
            self._status.start()

    def __rich__(self) -> Text:
        """Render the lines; rich calls this about twelve times a second."""
        if self._answer:
            return self._render_answer()
        seconds = f"{time.monotonic() - self._since:.0f} s"
        state = f"working, {seconds}" if self._acting else f"waiting for {self._model}, {seconds}"
        text = Text(plain(self._thought)[-100:] or plain(state), "dim")
        text.truncate(max(err.width - 4, 1))
        return text

    def _render_answer(self) -> Text:
        """Render the end of the answer, as much as there is room for."""
        text = Text.assemble(("Answer: ", "bold green"), plain(self._answer))
        lines = text.wrap(err, max(err.width - 4, 1))
        return Text("\n").join(lines[-max(err.height - 3, 1) :])


@contextmanager
def model_status(model: str, *, quiet: bool) -> Generator[ModelStatus]:
    """Show on a terminal what a run is waiting for; `model` is empty without a model."""
    model = model or "the reader"
    if quiet or not err.is_terminal:
        yield ModelStatus(model)
        return
    with err.status("") as status:
        model_line = ModelStatus(model, status)
        status.update(model_line)
        yield model_line


@contextmanager
def progress_line(*, quiet: bool = False) -> Generator[Callable[[str], None]]:
    """Yield a function that shows how far the work is: at the foot of a terminal, or every `LOG_SECONDS`."""
    shown = time.monotonic()

    def log(text: str) -> None:
        nonlocal shown
        if not quiet and time.monotonic() - shown > LOG_SECONDS:
            shown = time.monotonic()
            err.print(Text(text))

    if quiet or not err.is_terminal:
        yield log
        return
    with err.status("") as status:
        yield lambda text: status.update(Text(text, "dim"))


@contextmanager
def index_progress() -> Generator[Callable[[IndexProgress], None]]:
    """Show how far the indexing of documents is: a bar on a terminal, else a line every `LOG_SECONDS`."""
    shown, begun = time.monotonic(), False

    def log(progress: IndexProgress) -> None:
        nonlocal shown
        if time.monotonic() - shown > LOG_SECONDS:
            shown = time.monotonic()
            err.print(Text(f"Indexing: {describe_progress(progress)}"))

    try:
        with index_bar(err) if err.is_terminal else nullcontext(log) as show:

            def report(progress: IndexProgress) -> None:
                nonlocal begun
                begun = True
                show(progress)

            yield report
    except KeyboardInterrupt:
        if begun:
            echo_stop(RESUME_NOTE)
        raise


@contextmanager
def count_progress(verb: str) -> Generator[Callable[[str, int, int], None]]:
    """Show how many of some things are done: a bar on a terminal, else a line every `LOG_SECONDS`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task(verb, total=None)
    shown = time.monotonic()

    def report(what: str, done: int, total: int) -> None:
        nonlocal shown
        if err.is_terminal:
            bar.update(task, description=f"{verb} {what}", completed=done, total=total)
        elif time.monotonic() - shown > LOG_SECONDS:
            shown = time.monotonic()
            err.print(Text(f"{verb} {what}: {done} of {total}"))

    with bar:
        yield report
