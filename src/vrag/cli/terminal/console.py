"""What all commands print alike: tables, progress, complaints. Text of documents stays text."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from vrag.cli.terminal.hints import again
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from contextlib import AbstractContextManager

    from rich.status import Status

    from vrag.agent.events import Event
    from vrag.errors import VragError
    from vrag.index.build import AddReport
    from vrag.index.build import IndexProgress as BuildProgress
    from vrag.settings import Settings

__all__ = [
    "Agent",
    "BaseUrl",
    "Collection",
    "Collections",
    "Device",
    "DocumentInstruction",
    "Embedder",
    "Json",
    "Model",
    "Profile",
    "QueryInstruction",
    "RankBy",
    "SearchUrl",
    "VisualTokens",
    "Waiting",
    "add_progress",
    "complain",
    "emit_json",
    "model_writes",
    "named_path",
    "plain",
    "progress_line",
    "say",
    "search_settings",
    "show_table",
    "tell_report",
    "warn",
]

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Collection = typer.Option(
    None,
    "--collection",
    "-c",
    help="Directory of the collection, or the URL it is published under.",
    show_default="VRAG_COLLECTION",
)
Collections = typer.Option(
    None,
    "--collection",
    "-c",
    help="Directory or URL of a collection; repeated, they are searched together.",
    show_default="VRAG_COLLECTION",
)
Embedder = typer.Option(
    None,
    help="Model that makes vectors: a short name, `sentence:MODEL`, `gve:MODEL`, `qwen3-vl:MODEL`, "
    "`remote:MODEL@URL`.",
    show_default="the collection's own",
)
QueryInstruction = typer.Option(
    None,
    help="What Qwen3-VL-Embedding is asked to do with the query.",
    show_default="VRAG_EMBED_QUERY_INSTRUCTION, or the model's own",
)
DocumentInstruction = typer.Option(
    None,
    help="What Qwen3-VL-Embedding is asked to do with items; kept by the collection.",
    show_default="VRAG_EMBED_DOCUMENT_INSTRUCTION, or the model's own",
)
VisualTokens = typer.Option(
    None,
    min=0,
    help="Visual tokens of a page at most, for an embedder of many vectors; 0 for its own limit.",
    show_default="the collection's own, or 768",
)
Device = typer.Option(None, help="Where models run: cpu, cuda, cuda:1.", show_default="VRAG_DEVICE")
RankBy = typer.Option(
    None, "--ranking", help="Rank by `lexical`, `vector` or `auto`: both.", show_default="VRAG_RANKING"
)
Agent = typer.Option(
    None,
    help="`vrag`; `vimrag`, with a memory graph; or a baseline: `rag`, `react`.",
    show_default="VRAG_AGENT, or vrag",
)
Model = typer.Option(
    None,
    help="A served model by its name, `ollama:NAME`, `openrouter:NAME` …, or `local:PATH` of a checkpoint.",
    show_default="VRAG_MODEL, or the offline policy",
)
BaseUrl = typer.Option(
    None,
    help="Of the model's server: http://localhost:8002/v1",
    show_default="VRAG_BASE_URL, OPENAI_BASE_URL",
)
Profile = typer.Option(
    None,
    "--profile",
    help="Family of the model: how large its pictures are, and how it writes boxes.",
    show_default="VRAG_PROFILE, or found by its name, its server or measuring",
)
SearchUrl = typer.Option(
    None, help="Search server to use in place of a collection.", show_default="VRAG_SEARCH_URL"
)
Json = typer.Option(False, "--json", help="Print one JSON object for machines.")


def search_settings(
    collections: list[str] | None,
    ranking: str | None,
    embedder: str | None,
    query_instruction: str | None,
    device: str | None,
    reranker: str | None,
) -> Settings:
    """The settings with the flags that every command which searches takes."""
    return load_settings(
        collections=collections or None,
        ranking=ranking,
        embedder=embedder,
        embed_query_instruction=query_instruction,
        device=device,
        reranker=reranker,
    ).settings


def named_path(text: str) -> Path:
    """A path that was named: an empty one is a variable that was not set, not the current folder."""
    if not text:
        raise typer.BadParameter("The path is empty.")
    return Path(text)


def plain(text: str, limit: int = 0) -> str:
    """Text of a document made safe for a terminal: one line, no control characters.

    Args:
        text: Any text.
        limit: Characters after which it is cut with an ellipsis; 0 for no limit.
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if not limit or len(line) <= limit else f"{line[: limit - 1]}…"


class Waiting:
    """The line at the foot of a terminal while a run goes on: what is waited for, or a thought."""

    def __init__(self, model: str, status: Status | None = None) -> None:
        self._model = model
        self._status = status
        self._thought = ""
        self._acting = False
        self._since = time.monotonic()

    def follow(self, event: Event) -> None:
        """Takes an event of the run."""
        if event.type == "thought_delta":
            self._thought += event.text
            return
        self._thought = ""
        self._acting = event.type in _ACTING
        self._since = time.monotonic()

    def aside(self) -> AbstractContextManager[None]:
        """Clears the line, so that others can be printed; afterwards it is there again."""
        return nullcontext() if self._status is None else _cleared(self._status)

    def __rich__(self) -> Text:
        """The line; it is asked for some twelve times a second."""
        seconds = f"{time.monotonic() - self._since:.0f} s"
        waited = f"working, {seconds}" if self._acting else f"waiting for {self._model}, {seconds}"
        text = Text(plain(self._thought)[-100:] or plain(waited), "dim")
        text.truncate(max(err.width - 4, 1))
        return text


LOG_SECONDS = 30.0
"""Between two lines of progress where the output is no terminal."""
_ACTING = ("search_requested", "crop_requested", "action_requested")


@contextmanager
def _cleared(status: Status) -> Generator[None]:
    status.stop()
    try:
        yield
    finally:
        status.start()


@contextmanager
def model_writes(model: str, *, quiet: bool) -> Generator[Waiting]:
    """Shows on a terminal what is waited for and what a model is just thinking.

    Args:
        model: What it is called; empty for the offline policy.
        quiet: Show nothing.
    """
    model = model or "the offline policy"
    if quiet or not err.is_terminal:
        yield Waiting(model)
        return
    with err.status("") as status:
        waiting = Waiting(model, status)
        status.update(waiting)
        yield waiting


@contextmanager
def progress_line(*, quiet: bool = False) -> Generator[Callable[[str], None]]:
    """Gives what tells how far long work is, on the standard error stream.

    On a terminal that is a line at its foot; elsewhere one is printed every `LOG_SECONDS`.

    Args:
        quiet: Show nothing.
    """
    shown = time.monotonic()

    def printed(text: str) -> None:
        nonlocal shown
        if not quiet and time.monotonic() - shown > LOG_SECONDS:
            shown = time.monotonic()
            err.print(Text(text))

    if quiet or not err.is_terminal:
        yield printed
        return
    with err.status("") as status:
        yield lambda text: status.update(Text(text, "dim"))


def say(*parts: str | tuple[str, str]) -> None:
    """Prints a line; a part is text, or text with a style. Nothing in it is read as markup."""
    out.print(Text.assemble(*parts))


def warn(text: str) -> None:
    """Prints a line on the standard error stream."""
    err.print(Text.assemble(("Note: ", "yellow"), plain(text)))


def emit_json(value: dict[str, Any] | list[Any]) -> None:
    """Prints one JSON value."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def show_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Prints a table; columns that hold numbers only stand to the right."""
    cells = [[plain(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        numeric = bool(cells) and all(
            row[number].replace(".", "").replace(",", "").isdigit() for row in cells
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    out.print(table)


def complain(error: VragError, status: int) -> int:
    """Prints an error and what to do about it on the standard error stream; returns the exit status.

    Where JSON was asked for, standard output has the same as an object.
    """
    hint = again(error.hint)
    if "--json" in sys.argv:
        with suppress(OSError):  # the error may be that nothing can be written there
            emit_json({"failure": error.message, "hint": hint})
    err.print(Text.assemble(("Error: ", "bold red"), plain(error.message)))
    if hint:
        err.print(Text.assemble(("  → ", "bold"), plain(hint)))
    return status


@contextmanager
def add_progress() -> Generator[Callable[[BuildProgress], None]]:
    """A progress bar on the standard error stream; nothing where that is no terminal."""
    try:
        with _bar() as report:
            yield report
    except KeyboardInterrupt:
        err.print("\nStopped. What was finished is kept; the same command goes on from there.")
        raise


@contextmanager
def _bar() -> Generator[Callable[[BuildProgress], None]]:
    if not err.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("Reading", total=None, state="")

        def report(progress: BuildProgress) -> None:
            bar.update(
                task,
                description=plain(progress.current, 40),
                completed=progress.items_done,
                total=progress.items or None,
                state=_state(progress),
            )

        yield report


def _state(progress: BuildProgress) -> str:
    parts = [
        f"{progress.files_done}/{progress.files} files",
        f"{progress.items_done} items",
        f"{progress.rate:.1f}/s",
    ]
    if progress.remaining_seconds is not None:
        parts.append(f"{duration(progress.remaining_seconds)} left")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """A stretch of time for people.

    >>> duration(75)
    '1 min 15 s'
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def tell_report(
    report: AddReport,
    settings: Settings | None = None,
    *,
    to: Console = err,
    quiet_when_unchanged: bool = False,
) -> None:
    """Prints what an `add` did, on standard error unless told otherwise.

    Args:
        report: What it did.
        settings: Of the collection, where the command line does not name it.
        to: Where it is printed.
        quiet_when_unchanged: Print nothing when there was nothing new.
    """
    news = report.added or report.changed or report.problems or report.skipped
    if quiet_when_unchanged and not news:
        return
    to.print(
        f"Indexed {report.items} items: {report.added} files new, {report.changed} changed, "
        f"{report.unchanged} unchanged, {report.failed} failed ({duration(report.seconds)})."
    )
    lines = [(document.name, document.reason) for document in report.problems]
    lines += [(str(skipped.path), skipped.reason) for skipped in report.skipped]
    for name, reason in lines[:20]:
        to.print(Text.assemble(("  ! ", "yellow"), f"{plain(name, 80)}: {plain(reason, 300)}"))
    if len(lines) > 20:
        to.print(again(f"  … and {len(lines) - 20} more: `vrag index add --json` lists all.", settings))


def file_uri(path: Path) -> str:
    """The path as terminals print it: relative to the current folder when it lies below it."""
    try:
        return str(path.resolve().relative_to(path.cwd()))
    except ValueError:
        return str(path)
