"""MMLongBench-Doc as its repository and the hub have it, with all that is odd in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import pa, taken, write_files, write_json, write_table

from vrag.datasets.mmlongbench import MMLongBench
from vrag.datasets.protocols import FileDocument
from vrag.errors import CaseError
from vrag.types import AnswerFormat, Case

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "doc_id doc_type question answer evidence_pages evidence_sources answer_format".split()


def row(pages: str = "[3, 5]", answer: str = "18.29%", **more: str) -> dict[str, str]:
    """Every column is a text."""
    return {
        "doc_id": "annual-review.pdf",
        "doc_type": "Research report / Introduction",
        "question": "What share?",
        "answer": answer,
        "evidence_pages": pages,
        "evidence_sources": "['Pure-text (Plain-text)', 'Table']",
        "answer_format": "Float",
        **more,
    }


def repository(folder: Path, *rows: dict[str, str]) -> Path:
    write_json(folder / "data" / "samples.json", rows)
    write_files(folder / "data" / "documents", "annual-review.pdf", "guide.pdf")
    return folder


def test_a_question_keeps_its_format_and_the_type_of_its_document(tmp_path: Path) -> None:
    opened = MMLongBench().open(repository(tmp_path, row()))

    assert taken(opened)[0] == [
        Case(
            uid="mmlongbench-0",
            query="What share?",
            reference_answer="18.29%",
            file_name="annual-review.pdf",
            reference_page=(3, 5),
            source_type=("Pure-text (Plain-text)", "Table"),
            query_type="Multi-Hop",
            answer_format=AnswerFormat.FLOAT,
            document_type="Research report / Introduction",
            benchmark="mmlongbench",
        )
    ]


def test_the_parquet_of_the_hub_gives_the_same_cases(tmp_path: Path) -> None:
    rows = [row(), row("[]", "Not answerable", answer_format="None"), row(doc_id="guide.pdf")]
    hub = tmp_path / "hub"
    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    write_table(hub / "data" / "train-00000-of-00001.parquet", rows, schema)
    write_files(hub / "documents", "annual-review.pdf", "guide.pdf")

    assert list(MMLongBench().open(hub).cases) == list(
        MMLongBench().open(repository(tmp_path / "github", *rows)).cases
    )


def test_what_is_no_gold_page_is_left_out_and_told(tmp_path: Path) -> None:
    rows = [
        row("[0]"),  # no such page
        row("[]", "0", answer_format="Int"),  # of the whole document
        row("[10]", "Not answerable", answer_format="None"),
        row("[7, 2, 7]"),
    ]

    opened = MMLongBench().open(repository(tmp_path, *rows))
    cases, _ = taken(opened)

    assert [case.reference_page for case in cases] == [(), (), (), (7, 2)]
    assert [case.query_type for case in cases[2:]] == ["Unanswerable", "Multi-Hop"]
    assert cases[2].answer_format is AnswerFormat.NONE
    assert opened.notes[:3] == [
        "Questions had a gold page 0, which does not exist and was left out (1): row 1.",
        "Questions with an answer have no gold page and count for answers only (2): row 1, row 2.",
        "Questions that cannot be answered had gold pages, which were left out (1): row 3.",
    ]


def test_a_question_that_is_there_twice_is_two_cases(tmp_path: Path) -> None:
    rows = [row(answer="46%"), row("[]", "Not answerable", answer_format="None")]

    assert [case.uid for case in MMLongBench().open(repository(tmp_path, *rows)).cases] == [
        "mmlongbench-0",
        "mmlongbench-1",
    ]


def test_pdfs_that_nobody_asks_about_are_left_out(tmp_path: Path) -> None:
    opened = MMLongBench().open(repository(tmp_path, row()))

    _, documents = taken(opened)

    assert documents == [
        FileDocument("annual-review.pdf", tmp_path / "data" / "documents" / "annual-review.pdf")
    ]
    assert "1 PDFs that no question names were left out." in opened.notes


def test_the_edition_is_told(tmp_path: Path) -> None:
    for name, count, told in (("a", 1_082, "paper"), ("b", 1_091, "hub"), ("c", 3, "no edition")):
        opened = MMLongBench().open(repository(tmp_path / name, *[row()] * count))
        assert any(note.startswith(f"{count:,} questions") and told in note for note in opened.notes)


@pytest.mark.parametrize("spelled", ["Annual-Review.PDF", "annual-review.pdf"])
def test_a_pdf_is_found_however_the_disk_spells_it(tmp_path: Path, spelled: str) -> None:
    write_json(tmp_path / "samples.json", [row()])
    write_files(tmp_path / "__MACOSX", "._annual-review.pdf")
    write_files(tmp_path / "deep" / "er", spelled)

    _, documents = taken(MMLongBench().open(tmp_path))

    assert documents == [FileDocument("annual-review.pdf", tmp_path / "deep" / "er" / spelled)]


@pytest.mark.parametrize(
    "name",
    ["../samples.json", "/etc/passwd", "a/b.pdf", "a\\b.pdf", "..", "a\nb.pdf", "", "x" * 300, ".a.pdf"],
)
def test_a_document_is_a_plain_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(CaseError, match="row 1"):
        MMLongBench().open(repository(tmp_path, row(doc_id=name)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"evidence_pages": "__import__('os').abort()"}, "evidence_pages"),
        ({"evidence_pages": "[3, "}, "evidence_pages"),
        ({"evidence_pages": "['a']"}, "reference_page"),
        ({"evidence_sources": "7"}, "evidence_sources"),
        ({"question": ""}, "query"),
        ({"doc_type": 7}, "document_type"),
        ({"answer": float("nan")}, "answer"),
        ({"question": "\ud800"}, "query"),
    ],
)
def test_a_row_that_is_not_as_published_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(CaseError, match=f"row 2.*{told}") as caught:
        MMLongBench().open(repository(tmp_path, row(), {**row(), **change}))
    assert caught.value.hint


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="row 1 is not a question of mmlongbench; its columns: doc_id"):
        MMLongBench().open(repository(tmp_path, {"doc_id": "annual-review.pdf"}))


def test_missing_files_are_named_with_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"samples\.json.*yubo2333/MMLongBench-Doc"):
        MMLongBench().open(tmp_path)
    with pytest.raises(CaseError, match=r"1 of the 2 documents that are asked about: gone\.pdf"):
        MMLongBench().open(repository(tmp_path, row(), row(doc_id="gone.pdf")))
    with pytest.raises(CaseError, match="is not a directory"):
        MMLongBench().open(tmp_path / "nowhere")
    with pytest.raises(CaseError, match="no split 'validation'"):
        MMLongBench().open(tmp_path, "validation")
    with pytest.raises(CaseError, match="no questions"):
        MMLongBench().open(repository(tmp_path))
