"""A small database, and functions that open it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from notes_database import open_notes

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from vrag.storage.database import Database


@pytest.fixture
def notes(tmp_path: Path) -> Generator[Database]:
    """An empty database of notes."""
    database = open_notes(tmp_path / "notes", create=True)
    yield database
    database.close()
