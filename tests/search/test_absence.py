"""Why nothing was found is said in terms of the documents that were searched."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import vrag
from vrag.search.absence import NOTHING_INDEXED, explain_absence


def explain(folder: Path, collection: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("VRAG_OCR", "never")
    session = vrag.open(folder, collection=str(collection))
    return explain_absence(session.collections.values(), session.scope)


def test_documents_without_such_words_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The ferry sails at noon.", "utf-8")
    (tmp_path / "docs" / "b.txt").write_text("The pier is closed.", "utf-8")
    said = explain(tmp_path / "docs", tmp_path / "c", monkeypatch)
    assert said == "In the 2 documents searched, no page has a word of the question."


def test_documents_without_text_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    Image.new("RGB", (80, 60), "navy").save(tmp_path / "docs" / "sea.png")
    said = explain(tmp_path / "docs", tmp_path / "c", monkeypatch)
    assert said == "1 document has no text, and OCR has read none: sea.png."
    (tmp_path / "docs" / "a.txt").write_text("The ferry sails at noon.", "utf-8")
    said = explain(tmp_path / "docs", tmp_path / "c", monkeypatch)
    assert said.endswith("1 document has no text: sea.png.")


def test_documents_that_failed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The ferry sails at noon.", "utf-8")
    (tmp_path / "docs" / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    session = vrag.open(tmp_path / "docs", collection=str(tmp_path / "c"))
    said = explain_absence(session.collections.values(), None)
    assert "1 document could not be searched: broken.pdf." in said


def test_an_empty_collection_says_what_to_do() -> None:
    assert explain_absence([], None) == NOTHING_INDEXED
