"""Lines, tables, JSON and errors on the terminal. Text from documents is never read as markup.

Commands in messages are completed so that they work as printed: about the same collection.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vrag.cli.terminal.last_collection import USED_LAST
from vrag.cli.terminal.process import mark_stop_reported
from vrag.factory.progress import duration
from vrag.settings import load_settings
from vrag.text.numerals import count
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.errors import VragError
    from vrag.index.build import AddReport
    from vrag.settings import Settings, SettingsReport


class TerminalConsole(Console):
    """A console that breaks lines at words on a terminal, indented like their beginning.

    Files and pipes get whole lines, for the programs that read them.
    """

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:  # noqa: ANN401
        """Print lines."""
        if soft_wrap is None and self.is_terminal:
            super().print(*map(_hang, objects), soft_wrap=False, **options)
        else:
            super().print(*objects, soft_wrap=soft_wrap is not False, **options)


def _hang(line: Any) -> Any:  # noqa: ANN401 - anything that rich prints
    """Return a text that begins with blanks as a block that is so far from the margin."""
    if not isinstance(line, Text) or "\n" in line.plain:
        return line
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[indent:], (0, 0, 0, indent), expand=False) if 0 < indent < len(line) else line


out = TerminalConsole(highlight=False)
err = TerminalConsole(stderr=True, highlight=False)

_FILE_WIDTH = 100_000
"""Columns of a file or a pipe, whose reader breaks lines where they have to be."""
_used_collection: list[str] = []
"""The collection that the command uses without an option; empty for that of the settings."""
MAX_PROBLEMS = 20
"""Files that could not be read, in one report."""
COMMAND = re.compile(
    r"vrag (?:(ask|report|runs (?:list|show|replay|export))"
    r"|search|index (?:add|status|verify|remove|prune|compact))(?= |`|\.|,|$)",
    re.MULTILINE,
)
"""Commands on a collection; those of the group also take the runs of a search server."""


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


def echo_stop(note: str) -> None:
    """Print that the command was stopped, and what is left of its work."""
    mark_stop_reported()
    err.print(Text(f"Stopped. {plain(note)}"))


def announce_collection(report: SettingsReport, note: str) -> None:
    """Print which collection a command uses that its line does not name; messages name it too."""
    settings = report.settings
    used = report.origins["collection"] == USED_LAST or report.origins["collections"] == USED_LAST
    _used_collection[:] = [_location(settings)[0]] if used else []
    if note:
        err.print(Text(plain(note), "dim"))


def echo_problem(subject: str, detail: str, *, minor: bool = False) -> None:
    """Print what is wrong with something, as one line of a list; `minor` for what is no defect."""
    mark = ("  - ", "dim") if minor else ("  ! ", "yellow")
    echo(mark, plain(subject, 80), f": {plain(detail, 300)}" if detail else "")


def print_json(value: object) -> None:
    """Print a JSON value; dataclasses become objects, sets become sorted lists, paths become text."""

    def default(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, frozenset):
            return sorted(cast("frozenset[str]", value))
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)

    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=default) + "\n")


def print_result(value: object, render: Callable[[], None], *, as_json: bool) -> None:
    """Print the result of a command: as JSON for programs, or as text for people."""
    if as_json:
        print_json(value)
    else:
        render()


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; columns of numbers are aligned to the right. Cells are broken on terminals only."""
    cells = [[plain(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        digits = (row[number].replace(".", "").replace(",", "") for row in cells)
        numeric = bool(cells) and all(map(str.isdigit, digits))
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else _FILE_WIDTH
    console = out if out.is_terminal else Console(file=out.file, highlight=False, width=width)
    console.print(table)


def print_error(error: VragError, status: int) -> int:
    """Print an error and its hint on standard error, with --json also on standard output; return `status`."""
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

    The collection is that of the settings, or the one on the command line.
    """
    news = report.added or report.changed or report.problems or report.skipped
    if quiet_when_unchanged and not news:
        return
    others = f"{report.changed} changed, {report.unchanged} unchanged, {report.failed} failed"
    to.print(
        f"Indexed {count(report.items, 'item')}: {count(report.added, 'file')} new, {others} "
        f"({duration(report.seconds)})."
    )
    if partial := sum(document.status is DocumentStatus.PARTIAL for document in report.problems):
        to.print(f"  Of {count(partial, 'file')}, a part is not read.")
    if report.copies:
        subject = "1 file has" if report.copies == 1 else f"{report.copies} files have"
        to.print(f"  {subject} content that is indexed already (copied or moved).")
    problems = [(document.name, document.reason) for document in report.problems]
    problems += [(str(skipped.path), skipped.reason) for skipped in report.skipped]
    for name, reason in problems[:MAX_PROBLEMS]:
        to.print(Text.assemble(("  ! ", "yellow"), f"{plain(name, 80)}: {plain(reason, 300)}"))
    if (more := len(problems) - MAX_PROBLEMS) > 0:
        to.print(add_location(f"  … and {more} more: `vrag index add --json` lists all.", settings))
    if report.problems:
        to.print(
            add_location(
                "  To read them again unchanged: `vrag index add --retry-failed` with the same paths.",
                settings,
            )
        )


def relative_path(path: Path) -> str:
    """Return the path relative to the current folder if it is inside it, else unchanged."""
    try:
        return str(path.resolve().relative_to(path.cwd()))
    except ValueError:
        return str(path)


def quote_argument(word: str) -> str:
    """Quote an argument of a command that is shown, for the shells of this system."""
    return subprocess.list2cmdline([word]) if sys.platform == "win32" else shlex.quote(word)


def add_location(text: str, settings: Settings | None = None) -> str:
    """Add the flags to the commands in a message that lead to the collection it is about.

    That is the collection of the settings, or the one on the command line. A message that names a collection
    already, or means the default one, is not changed.
    """
    if not COMMAND.search(text) or any(flag in text for flag in ("--collection", "--search-url")):
        return text
    if settings is None:
        collection = _flag_value("--collection", "-c") or next(iter(_used_collection), "")
        server = _flag_value("--search-url")
    else:
        default = _location(load_settings().settings)
        collection, server = _location(settings)
        if server:
            collection, server = "", server if server != default[1] else ""
        elif (collection, server) == default:
            collection = ""
    collection_flag = f" --collection {quote_argument(collection)}" if collection else ""
    run_flag = f" --search-url {quote_argument(server)}" if server else collection_flag
    return COMMAND.sub(lambda match: match[0] + (run_flag if match[1] else collection_flag), text)


def _flag_value(*names: str) -> str:
    """Return the value of an option on the command line, or an empty text."""
    line = sys.argv[1:]
    for word, following in zip(line, [*line, ""][1:], strict=True):
        if word in names:
            return following
        if word.startswith(f"{names[0]}="):
            return word.removeprefix(f"{names[0]}=")
    return ""


def _location(settings: Settings) -> tuple[str, str]:
    """Return the first collection and the search server; keys inside an address are masked."""
    shown = settings.model_dump(mode="json", include={"collection", "collections", "search_url"})
    return (shown["collections"] or [shown["collection"]])[0], shown["search_url"]
