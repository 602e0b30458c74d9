"""Documents that a command indexes before it uses them, with a progress bar and a report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from vrag.cli.terminal.console import print_add_report
from vrag.cli.terminal.progress import index_progress

if TYPE_CHECKING:
    from vrag.embed.embedder import Embedder
    from vrag.factory import Session
    from vrag.settings import SettingsReport
    from vrag.types import Document


class SearchableDocuments(NamedTuple):
    """Documents that can be searched."""

    session: Session
    documents: list[Document]
    """The documents under the given paths; the collection may have others."""
    embedder: Embedder | None
    """The model of their vectors; None if only words are searched."""


def index_documents(report: SettingsReport, paths: Sequence[Path]) -> SearchableDocuments:
    """Index new and changed files under the paths, and open a session that searches them.

    Raises:
        CorpusError: If no file could be read.
        CollectionError: If the collection cannot be opened or created.
    """
    from vrag.factory import index_documents as index
    from vrag.factory import open_session

    print_added = partial(print_add_report, settings=report.settings, quiet_when_unchanged=True)
    with index_progress() as progress:
        indexed = index(report, paths, progress=progress, on_added=print_added)
    settings = report.settings.model_copy(update={"collections": ()})  # the documents are in one collection
    session = open_session(settings, indexed.embedder)
    return SearchableDocuments(session, indexed.documents, indexed.embedder)


def open_for_asking(report: SettingsReport, paths: list[Path]) -> Session:
    """Index what is new under the paths, and open a session for questions; wrong settings show first.

    Raises:
        VragError: If something cannot be opened or read.
    """
    from vrag.factory.session import open_documents

    if paths and report.settings.search_url:
        raise typer.BadParameter("A search server has its own documents. Leave out the paths or the server.")
    print_added = partial(print_add_report, settings=report.settings, quiet_when_unchanged=True)
    with index_progress() as progress:
        return open_documents(report, paths, progress=progress, on_added=print_added)
