"""The progress of indexing, shown to people: a bar on a terminal, a line in a notebook."""

from __future__ import annotations

import html
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.console import Console

    from vrag.index.manifest import IndexProgress

NOTEBOOK_SECONDS = 0.5
"""Time between two updates in a notebook."""
MIN_RATE = 0.05
"""Items per second that are shown; fewer would be 0.0."""
MAX_NAME_CHARS = 40
"""Characters of the name of a file that are shown."""


def describe_progress(progress: IndexProgress) -> str:
    """Return how far the indexing is, in one line; without a remaining time until it is known."""
    parts = [f"{progress.files_done}/{progress.files} files", f"{progress.items_done} items"]
    if progress.rate >= MIN_RATE:
        parts.append(f"{progress.rate:.1f}/s")
    if progress.remaining_seconds:
        parts.append(f"{duration(progress.remaining_seconds)} left")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Format a duration for people.

    >>> duration(75)
    '1 min 15 s'
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


@contextmanager
def index_bar(console: Console) -> Generator[Callable[[IndexProgress], None]]:
    """Show how far the indexing of documents is, as a bar at the foot of a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("Reading", total=None, state="")

    def report(progress: IndexProgress) -> None:
        name = "".join(c if c.isprintable() else " " for c in progress.current)[:MAX_NAME_CHARS]
        bar.update(
            task,
            description=Text(name).markup,
            completed=progress.share,
            total=1.0 if progress.items else None,
            state=describe_progress(progress),
        )

    with bar:
        yield report


@contextmanager
def show_progress() -> Generator[Callable[[IndexProgress], None] | None]:
    """Show how far the indexing of documents is to people who use Python; nothing where nobody looks."""
    if in_notebook():
        line = _NotebookLine()
        try:
            yield line.report
        except BaseException:
            line.close("Stopped")
            raise
        line.close("Finished")
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield None
        return
    with index_bar(console) as report:
        yield report


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class _NotebookLine:
    """A line below a cell that is replaced while files are indexed; nothing if none had to be."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = time.monotonic()
        self._last: IndexProgress | None = None

    def report(self, progress: IndexProgress) -> None:
        """Show how far the indexing is."""
        if not progress.files:
            return
        self._last = progress
        if time.monotonic() - self._shown >= NOTEBOOK_SECONDS:
            self._show(f"Indexing: {describe_progress(progress)}")

    def close(self, state: str) -> None:
        """Show what was indexed, after a word for how it ended."""
        if self._last is not None:
            failed = f", {self._last.failed} failed" if self._last.failed else ""
            files, items = self._last.files_done, self._last.items_done
            self._show(f"{state}: {files} of {self._last.files} files, {items} items{failed}.")

    def _show(self, text: str) -> None:
        display: Any = import_module("IPython.display").display
        self._shown = time.monotonic()
        bundle = {"text/plain": text, "text/html": f"<small>{html.escape(text)}</small>"}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
