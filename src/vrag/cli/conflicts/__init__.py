"""`vrag conflicts`: where documents disagree, found without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.options import parse_path
from vrag.cli.session import open_for_asking
from vrag.cli.terminal.console import echo, plain, print_json
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.last_collection import remember_collection
from vrag.cli.terminal.progress import count_progress
from vrag.factory.session import open_session
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.agent.answers.conflicts import FoundConflict

MAX_QUOTE_CHARS = 240
"""Characters of a statement that are printed."""


@common_options("paths", "collections", "as_json")
def conflicts(
    paths: list[Path] = typer.Argument(
        None,
        parser=parse_path,
        metavar="[PATHS...]",
        help="Files and folders to compare; without any, all documents of the collection.",
    ),
    collections: opt.CollectionsOption = None,
    ocr: opt.OcrOption = None,
    dpi: opt.DpiOption = None,
    workers: opt.WorkersOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List statements of the documents that disagree, both sides with their places.

    Two sentences or cells of tables conflict if they are about the same and have another number, date, name
    or unit, or if one denies the other. Other years, rounded numbers and other forms of a date are no
    conflicts. Which document is newer is shown, not which is right. No model is used.

    Exit status: 0 also if conflicts are found, 1 no document could be read, 2 wrong usage, 130 stopped.

    Examples:

      vrag conflicts ./contracts

      vrag conflicts --collection reports --json
    """
    flags = locals()
    if paths:
        session = open_for_asking(opt.load_flags(flags), paths)
        remember_collection(session.settings)
    else:
        report = opt.load_reading_flags(flags)
        session = open_session(report.settings, origins=report.origins)
    with count_progress("Comparing") as progress:
        found = session.conflicts(progress)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    for number, conflict in enumerate(found.conflicts, 1):
        _print_conflict(number, conflict)
    total = count(len(found.conflicts), "conflict") if found.conflicts else "No conflicts"
    echo((f"{total} in {count(found.documents, 'document')}.", "dim"))


def _print_conflict(number: int, conflict: FoundConflict) -> None:
    """Print what two sides are about, and below what each says, where, and when."""
    echo((f"{number:3}. ", "bold"), (plain(conflict.topic), "bold"), (f"  ({conflict.kind})", "dim"))
    values = [plain(side.value, 60) for side in conflict.sides]
    width = max(map(len, values)) if conflict.kind != "negation" else 0
    for at, side in enumerate(conflict.sides):
        shown = f"{values[at]:{width}}  " if width else ""
        facts = ", ".join(filter(None, (side.dated, *side.revision)))
        newer = "newer" if conflict.newer == at else ""
        note = "; ".join(filter(None, (plain(facts), newer)))
        echo(
            "     ",
            (shown, "yellow"),
            (plain(side.page_name), "magenta"),
            (f"  {note}" if note else "", "dim"),
        )
        echo("       ", (f"“{plain(side.quote, MAX_QUOTE_CHARS)}”", "dim"))
    echo("")
