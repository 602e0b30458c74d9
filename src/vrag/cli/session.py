"""Sessions that commands open, after they have indexed what is new, and the runs that they read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer

from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.cli.terminal.console import err, print_add_report, warn
from vrag.cli.terminal.progress import index_progress
from vrag.errors import RunError
from vrag.factory import indexing
from vrag.factory.families import open_family
from vrag.factory.indexing import IndexedDocuments
from vrag.factory.session import Session, open_documents, open_session
from vrag.settings import Settings, SettingsReport

NO_RUNS = "No questions have been asked yet."
NO_RUNS_HINT = 'Try: vrag ask ./my-documents "…"'


def index_documents(report: SettingsReport, paths: Sequence[Path]) -> tuple[Session, IndexedDocuments]:
    """Index new and changed files under the paths, and open a session that searches their collection."""
    print_added = partial(print_add_report, settings=report.settings, quiet_when_unchanged=True)
    with index_progress() as progress:
        indexed = indexing.index_documents(report, paths, progress=progress, on_added=print_added)
    settings = report.settings.model_copy(update={"collections": ()})  # the documents are in one collection
    return open_session(settings, indexed.embedder), indexed


def open_for_asking(report: SettingsReport, paths: list[Path]) -> Session:
    """Index what is new under the paths, and open a session for questions; wrong settings show first."""
    ask_about_family(report.settings)
    print_added = partial(print_add_report, settings=report.settings, quiet_when_unchanged=True)
    with index_progress() as progress:
        return open_documents(report, paths, progress=progress, on_added=print_added)


def ask_about_family(settings: Settings) -> None:
    """Ask on a terminal whether a model of an unknown family may be measured; elsewhere, do nothing.

    The answer is kept in the user's cache, by server and model.
    """
    if settings.model and sys.stdin.isatty() and err.is_terminal:
        open_family(settings, confirm=_confirm_measurement, quiet=True)


def _confirm_measurement(cost: str) -> bool:
    warn(cost)
    agreed = typer.confirm("Send them now?", default=True, err=True)
    if agreed:
        warn("The model is being measured, which takes up to two minutes.")
    return agreed


def read_run(store: RunStore, run: str) -> StoredRun:
    """Read a run by its id, the beginning of one, or `last`."""
    if run == "last" and not store.ids():
        raise RunError(NO_RUNS, NO_RUNS_HINT)
    try:
        return store.read(run)
    except RunError as error:
        raise RunError(error.message, error.hint or "Ask again.") from error
