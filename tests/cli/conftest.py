"""A person's folder with a collection, for commands that check, copy and restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `notes.md`, and with `collection`, which has it and is that of the settings."""
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    (tmp_path / "notes.md").write_text("# Ferry\n\nThe ferry carried 48,200 passengers.\n")
    assert run_vrag("index", "add", "notes.md", cwd=tmp_path).status == 0
    return tmp_path
