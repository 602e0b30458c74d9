"""Answers questions about documents by looking at them.

Documents become items (pages, clips, passages); items are searched; an agent searches, crops and answers with
evidence down to the rectangle::

    import vrag

    result = vrag.open("my-docs").ask("What is the single fare for a kayak?")
    print(result.answer, result.evidence)

Importing this package is light: no model, index engine or network is loaded before a session is opened.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than the rest of this module
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from vrag.agent.runs.run_result import RunResult
    from vrag.factory.session import Session
    from vrag.types import Document, Hit, Item, ItemKind, Query

__all__ = ["Document", "Hit", "Item", "ItemKind", "Query", "RunResult", "Session", "__version__", "open"]

__version__ = "0.2.0"

# Official builds of ONNX Runtime report their use to Microsoft unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def open(  # noqa: A001 - as in PIL and gzip
    *paths: str | PathLike[str],
    show_progress: bool = True,
    **settings: Any,  # noqa: ANN401 - of many types
) -> Session:
    """Open documents for search and questions; what is new or changed is indexed first.

    Args:
        paths: Files and folders. Questions are answered from their documents. Without paths, the collection
            of the settings is opened as it is.
        show_progress: Whether the progress of indexing is shown, in a terminal or a notebook.
        settings: Settings by name, as in docs/settings.md: `collection`, `model`, `base_url`, `agent`,
            `embedder`, …. They outweigh environment variables and settings files.

    Raises:
        SettingsError: If a setting is unknown or has a wrong value.
        CorpusError: If nothing under the paths can be read.
        CollectionError: If there are no paths and no collection, or it cannot be written.
        EmbedError: If the embedder of the collection cannot be loaded.
        ModelError: If the checkpoint of a local model cannot be opened.
    """
    from pathlib import Path

    from vrag.factory import progress
    from vrag.factory.session import open_documents
    from vrag.settings import load_settings

    report, places = load_settings(**settings), [Path(path) for path in paths]
    if not show_progress or not places:
        return open_documents(report, places)
    with progress.show_progress() as show:
        return open_documents(report, places, progress=show)


def __getattr__(name: str) -> object:
    """Import a type when it is asked for."""
    if name == "Session":
        from vrag.factory.session import Session

        return Session
    if name == "RunResult":
        from vrag.agent.runs.run_result import RunResult

        return RunResult
    if name in {"Document", "Hit", "Item", "ItemKind", "Query"}:
        from vrag import types

        return getattr(types, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
