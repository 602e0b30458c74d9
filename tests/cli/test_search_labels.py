"""Hits of a search name the number that is printed on their page, where it is not its position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag
from corpus.test_pdf_facts import book

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_hits_have_the_printed_number_of_their_page(tmp_path: Path) -> None:
    (tmp_path / "book.pdf").write_bytes(book("0 << /S /r >> 2 << /S /D >>"))
    assert run_vrag("index", "add", "book.pdf", "--ocr", "never", cwd=tmp_path).status == 0

    shown = run_vrag("search", "words", cwd=tmp_path).out
    hits = run_vrag("search", "words", "--json", cwd=tmp_path).json["hits"]

    assert "page 3 (printed 1)" in shown
    assert "page 1 (printed i)" in shown
    assert {hit["ordinal"]: hit["page_label"] for hit in hits} == {1: "i", 2: "ii", 3: "1", 4: "2"}


def test_a_number_that_is_the_position_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "book.pdf").write_bytes(book("0 << /S /D >>"))
    assert run_vrag("index", "add", "book.pdf", "--ocr", "never", cwd=tmp_path).status == 0

    assert "printed" not in run_vrag("search", "words", cwd=tmp_path).out
    assert not any(
        "page_label" in hit for hit in run_vrag("search", "words", "--json", cwd=tmp_path).json["hits"]
    )
