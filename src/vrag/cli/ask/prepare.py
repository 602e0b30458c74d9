"""Options and preparation of the commands that ask questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import add_progress, tell_report

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.factory import Session
    from vrag.settings import SettingsReport

__all__ = ["ImageRoot", "MaxSteps", "TopK", "open_for_asking"]

MaxSteps = typer.Option(
    None, "--max-steps", min=1, help="Model calls at most.", show_default="VRAG_MAX_STEPS, or the agent's own"
)
TopK = typer.Option(
    None,
    "--top-k",
    "-k",
    min=1,
    help="Hits that a search of the agent returns.",
    show_default="VRAG_HITS, or the agent's own",
)
ImageRoot = typer.Option(
    None,
    help="Folder of the pictures that a server of the reference names.",
    show_default="VRAG_IMAGE_ROOT",
)


def open_for_asking(report: SettingsReport, paths: list[Path]) -> Session:
    """Open a session; what is new under the paths is indexed first, with a progress bar and a report.

    Raises:
        VragError: If something cannot be opened or read.
    """
    from vrag.factory.session import open_documents

    if paths and report.settings.search_url:
        raise typer.BadParameter("A search server has its own documents: name no paths, or no server.")
    print_added = partial(tell_report, settings=report.settings, quiet_when_unchanged=True)
    with add_progress() as progress:
        return open_documents(report, paths, progress=progress, on_added=print_added)
