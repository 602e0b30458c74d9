"""Names of documents: those that data says are looked up, and lead nowhere."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from document_sets import write_files
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.files.lookup import FileNames, check_name, filed, need_all, safe_name
from vrag.datasets.protocols import FileDocument, Hub
from vrag.errors import CaseError


@given(name=st.text(max_size=300))
def test_a_name_made_safe_is_a_file_name(name: str) -> None:
    assert check_name(safe_name(name), "a test") == safe_name(name)


@given(name=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=50))
def test_a_plain_name_is_safe_as_it_is(name: str) -> None:
    assert safe_name(f"{name}.pdf") == f"{name}.pdf"


@pytest.mark.parametrize("name", ["..", "a/b", "\\a", "a\x00", "", " ", "a\u202eb", "x" * 201, ".a", "a\n"])
def test_what_is_no_file_name_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(CaseError, match="row 7 names"):
        check_name(name, "row 7")


def test_files_are_found_as_they_are_spelled_or_else_alike(tmp_path: Path) -> None:
    write_files(tmp_path, "Café.pdf", "a.pdf", "x/A.PDF", "y/a.pdf")
    paths = [tmp_path / name for name in ("x/A.PDF", "a.pdf", "y/a.pdf", "Café.pdf", "gone.pdf")]
    files = FileNames(paths)

    assert files.get("a.pdf") == tmp_path / "a.pdf"
    assert files.get("A.pdf") == tmp_path / "x" / "A.PDF"
    assert files.get(unicodedata.normalize("NFD", "CAFÉ.pdf")) == tmp_path / "Café.pdf"
    assert files.get("gone.pdf") is files.get("../a.pdf") is None
    assert files.without(["a.pdf", "gone.pdf"]) == [tmp_path / "x" / "A.PDF", tmp_path / "Café.pdf"]
    assert list(filed(["b.pdf", "a.pdf"], files)) == [FileDocument("a.pdf", tmp_path / "a.pdf")]


def test_what_is_missing_is_counted_and_some_of_it_named(tmp_path: Path) -> None:
    names = [f"{number}.pdf" for number in range(8)]

    with pytest.raises(CaseError, match=r"lacks 8 of the 8 documents.*0\.pdf.*4\.pdf, …\. Get them from a/b"):
        need_all(names, FileNames[Path]([]), tmp_path, Hub(repo="a/b"))


def test_of_a_long_name_the_ending_stays() -> None:
    told = safe_name("年度报告" * 40 + ".pdf")
    assert told.endswith(".pdf")
    assert len(told.encode()) <= 180
