"""Lines, tables, JSON and errors on the terminal. Text from documents is never read as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vrag.cli.terminal.hints import add_location

if TYPE_CHECKING:
    from vrag.errors import VragError
    from vrag.index.build import AddReport
    from vrag.settings import Settings

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

MAX_PROBLEMS = 20
"""Files that could not be read, in one report."""


def plain(text: str, limit: int = 0) -> str:
    """Make text safe for a terminal: one line, no control characters, cut at `limit` characters if not 0."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if not limit or len(line) <= limit else f"{line[: limit - 1]}…"


def echo(*parts: str | tuple[str, str]) -> None:
    """Print a line; a part is text, or text with a style."""
    out.print(Text.assemble(*parts))


def warn(text: str) -> None:
    """Print a note on standard error."""
    err.print(Text.assemble(("Note: ", "yellow"), plain(text)))


def echo_problem(subject: str, detail: str) -> None:
    """Print what is wrong with something, as one line of a list."""
    echo(("  ! ", "yellow"), plain(subject, 80), f": {plain(detail, 300)}" if detail else "")


def print_json(value: object) -> None:
    """Print a JSON value; dataclasses become objects, paths become text."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=_json_value) + "\n")


def _json_value(value: object) -> Any:  # noqa: ANN401
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def print_result(value: object, render: Callable[[], None], *, as_json: bool) -> None:
    """Print the result of a command: as JSON for programs, or as text for people."""
    if as_json:
        print_json(value)
    else:
        render()


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; columns of numbers are aligned to the right."""
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


def print_error(error: VragError, status: int) -> int:
    """Print an error and its hint on standard error, with --json also as an object on standard output.

    Returns:
        The exit status `status`.
    """
    hint = add_location(error.hint)
    if "--json" in sys.argv:
        with suppress(OSError):  # the error may be that standard output cannot be written
            print_json({"failure": error.message, "hint": hint})
    err.print(Text.assemble(("Error: ", "bold red"), plain(error.message)))
    if hint:
        err.print(Text.assemble(("  → ", "bold"), plain(hint)))
    return status


def print_add_report(
    report: AddReport,
    settings: Settings | None = None,
    *,
    to: Console = err,
    quiet_when_unchanged: bool = False,
) -> None:
    """Print what indexing did, and up to `MAX_PROBLEMS` files that could not be read.

    Args:
        report: The result of indexing.
        settings: Settings of the collection, unless the command line names it.
        to: Console to print on.
        quiet_when_unchanged: Print nothing if nothing was new.
    """
    news = report.added or report.changed or report.problems or report.skipped
    if quiet_when_unchanged and not news:
        return
    to.print(
        f"Indexed {report.items} items: {report.added} files new, {report.changed} changed, "
        f"{report.unchanged} unchanged, {report.failed} failed ({duration(report.seconds)})."
    )
    problems = [(document.name, document.reason) for document in report.problems]
    problems += [(str(skipped.path), skipped.reason) for skipped in report.skipped]
    for name, reason in problems[:MAX_PROBLEMS]:
        to.print(Text.assemble(("  ! ", "yellow"), f"{plain(name, 80)}: {plain(reason, 300)}"))
    if (more := len(problems) - MAX_PROBLEMS) > 0:
        to.print(add_location(f"  … and {more} more: `vrag index add --json` lists all.", settings))


def duration(seconds: float) -> str:
    """Format a duration for people.

    >>> duration(75)
    '1 min 15 s'
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def relative_path(path: Path) -> str:
    """Return the path relative to the current folder if it is inside it, else unchanged."""
    try:
        return str(path.resolve().relative_to(path.cwd()))
    except ValueError:
        return str(path)
