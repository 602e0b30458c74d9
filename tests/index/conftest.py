"""A collection, a folder, and a conversion whose every step the tests decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_conversion import FakeConversion

from vrag.corpus import convert
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def conversion(monkeypatch: pytest.MonkeyPatch) -> FakeConversion:
    fake = FakeConversion()
    monkeypatch.setattr(convert, "convert_all", fake)
    return fake


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return Collection.create(tmp_path / "collection")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test puts the files to index."""
    path = tmp_path / "files"
    path.mkdir()
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where an imported collection is to lie."""
    return tmp_path / "collection"
