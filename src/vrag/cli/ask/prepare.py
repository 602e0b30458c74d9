"""What every command does that asks: look at paths and settings, index what is new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import add_progress, tell_report, warn
from vrag.cli.terminal.paths import nothing_read

if TYPE_CHECKING:
    from vrag.embed.embedder import Embedder
    from vrag.factory import IndexJob, Session
    from vrag.settings import Settings, SettingsReport

__all__ = ["ImageRoot", "MaxSteps", "TopK", "open_for_asking"]

TRIES, PAUSE_SECONDS = 10, 0.2
"""While another process makes the collection."""

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


def open_for_asking(report: SettingsReport, paths: list[Path]) -> tuple[Session, frozenset[str] | None]:
    """What answers questions, and the ids of the documents it may look at; None for all.

    What is new under the paths is indexed first; a wrong setting shows before that.

    Raises:
        VragError: If something cannot be opened or read.
    """
    from vrag.factory import open_workbench

    if paths and report.settings.search_url:
        raise typer.BadParameter("A search server has its own documents: name no paths, or no server.")
    _check(report.settings)
    documents, embedder = _index(report, paths) if paths else (None, None)
    settings = report.settings
    if paths:  # what was just indexed lies in one collection
        settings = settings.model_copy(update={"collections": ()})
    return open_workbench(settings, embedder), documents


def _check(settings: Settings) -> None:
    """Opens what can be opened of the agent, so that a wrong setting shows before anything is indexed."""
    from vrag.agent.tool_plugins import load_extensions
    from vrag.factory import LOCAL, open_chat, open_method, open_profile

    local = settings.model.startswith(LOCAL)
    if settings.profile != "auto":  # a family that has to be guessed is told of once, later
        open_profile(settings)
    if local:
        open_profile(settings.model_copy(update={"profile": "auto"}))  # opens the checkpoint
    open_method(settings)
    load_extensions(settings.actions)
    if settings.model and not local:
        open_chat(settings)


def _index(report: SettingsReport, paths: list[Path]) -> tuple[frozenset[str], Embedder | None]:
    """Indexes what is new; the ids of the documents that the paths name, and what made their vectors."""
    from vrag.errors import CollectionBusy
    from vrag.factory import documents_under
    from vrag.index.build import add

    opened, options, embedder = _open(report)
    try:
        with add_progress() as progress:
            done = add(opened, paths, options, embedder=embedder, progress=progress)
        tell_report(done, report.settings, quiet_when_unchanged=True)
    except CollectionBusy as busy:
        warn(f"{busy.message} What is new has to wait; answering from what is indexed.")
    documents = frozenset(document.id for document in documents_under(opened, paths))
    if not documents:
        raise nothing_read(paths)
    return documents, embedder


def _open(report: SettingsReport) -> IndexJob:
    """The collection to add to; one that another process is just making is waited for.

    Raises:
        CollectionError: If it cannot be opened or made, or the other process takes too long.
    """
    from vrag.errors import CollectionBusy, CollectionError
    from vrag.factory import open_for_adding

    for _ in range(TRIES):
        there = _made(report.settings)
        try:
            return open_for_adding(report)
        except CollectionBusy:
            time.sleep(PAUSE_SECONDS)
        except CollectionError:
            if there or not _made(report.settings):
                raise
    raise CollectionError("Another process is just making this collection.", "Try again.")


def _made(settings: Settings) -> bool:
    from vrag.index.collection_json import CollectionHeader

    return CollectionHeader.read(Path(settings.collection)) is not None
