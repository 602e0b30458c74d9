"""The folder of a collection in which uploaded files lie, and how these stand to the manifest."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.index.plan import is_unchanged
from vrag.server.collections.file_types import SUFFIXES
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.server.collections.registry import OpenCollection
    from vrag.types import Document

__all__ = ["GONE", "UPLOADS", "files", "hide", "is_done", "lies_in", "moved", "show", "uploads_of"]

UPLOADS = "uploads"
"""Its name."""
GONE = ".gone"
"""How the name of a file ends that is being removed: `.NAME.gone`."""


def uploads_of(holding: OpenCollection) -> Path:
    """The folder of what was uploaded to a collection; it need not exist."""
    return holding.collection.directory / UPLOADS


def lies_in(path: str, folder: Path) -> bool:
    """Whether a path of the manifest is that of a file in this folder, whatever links lead there."""
    parent, name = os.path.split(path)
    if os.path.basename(parent) != folder.name or not name:  # noqa: PTH119 - cheap, for every row
        return False
    return parent == os.fspath(folder) or os.path.realpath(parent) == os.path.realpath(folder)


def files(folder: Path) -> list[Path]:
    """The uploaded files in it, sorted."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []
    return [folder / name for name in names if Path(name).suffix.lower() in SUFFIXES]


def is_done(path: Path, row: Document | None) -> bool:
    """Whether the manifest says all of an uploaded file."""
    return row is not None and row.status is not DocumentStatus.PENDING and is_unchanged(path, row)


def moved(
    rows: list[Document], own: dict[str, Document], there: dict[str, Path]
) -> dict[Path, list[Document]]:
    """Uploaded files that the manifest knows by other paths, where nothing is any more.

    Args:
        rows: The manifest.
        own: Those of its rows that are of files in the folder, by name.
        there: The files in the folder, by name.
    """
    found: dict[Path, list[Document]] = {}
    for row in rows:
        above = os.path.basename(os.path.dirname(row.path))  # noqa: PTH119, PTH120 - cheap, for every row
        known = above != UPLOADS or row.name not in there or row.name in own
        if not known and not os.path.lexists(row.path):
            found.setdefault(there[row.name], []).append(row)
    return found


def hide(paths: set[Path]) -> dict[Path, Path]:
    """Takes files out of sight; says where each of them is now. Those that are gone already are left out."""
    hidden: dict[Path, Path] = {}
    for path in sorted(paths):
        place = path.with_name(f".{path.name}{GONE}")
        with suppress(FileNotFoundError):
            path.replace(place)
            hidden[path] = place
    return hidden


def show(hidden: dict[Path, Path]) -> None:
    """Brings files back, but for those in whose place another one lies by now."""
    for path, place in hidden.items():
        with suppress(OSError):
            if not path.exists():
                place.replace(path)
