from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from stored_items import location_of

from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact
from vrag.index.shown_names import absolute_paths, is_below
from vrag.scratch import scratch_directory
from vrag.types import Document, DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.index.collection import Collection


def document(path: Path) -> Document:
    return Document(
        path=os.fspath(path), id="0" * 64, name=path.name, size=1, mtime_ns=1, status=DocumentStatus.READY
    )


def lies_under(path: str | Path, document: Document) -> bool:
    return any(is_below(folder, document) for folder in absolute_paths(path))


class TestLiesUnder:
    def test_a_file_itself_and_a_folder_above(self, tmp_path: Path) -> None:
        one = document(tmp_path / "a" / "deep" / "r.md")
        assert all(lies_under(path, one) for path in (one.path, tmp_path / "a", str(tmp_path), "/"))

    def test_no_namesake_and_no_like_beginning(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        here, there = document(tmp_path / "a" / "r.md"), document(tmp_path / "ab" / "r.md")
        (tmp_path / "a").mkdir()
        monkeypatch.chdir(tmp_path / "a")
        assert lies_under("r.md", here)
        assert not lies_under("r.md", there)
        assert not lies_under(".", there)
        assert not lies_under("0" * 64, here)

    def test_a_linked_folder_finds_the_documents_of_either_name(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "real")
        assert lies_under(link, document(tmp_path / "real" / "r.md"))
        assert lies_under(link, document(link / "r.md"))


def test_a_cache_that_another_process_builds_is_left_alone(collection: Collection) -> None:
    collection.cache_dir.mkdir()
    with scratch_directory(collection.cache_dir, hidden=True) as scratch:
        (scratch / "vectors").touch()
        compact(collection)
        assert verify(location_of(collection)).problems == ()
        assert (scratch / "vectors").exists()
