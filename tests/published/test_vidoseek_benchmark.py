"""ViDoSeek as the hub has it and as its code calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import taken, write_files, write_json

from vrag.datasets.protocols import FileDocument
from vrag.datasets.vidoseek import ViDoSeek
from vrag.errors import CaseError
from vrag.types import Case

if TYPE_CHECKING:
    from pathlib import Path

STEM = "0a1b" * 10


def example(number: object = f"{STEM}_2", **meta: object) -> dict[str, Any]:
    return {
        "uid": number,
        "query": "At what temperature?",
        "reference_answer": "195-205 Centigrade",
        "meta_info": {
            "file_name": f"{STEM}.pdf",
            "reference_page": [10, 11],
            "source_type": "text",
            "query_type": "single_hop",
            **meta,
        },
    }


def published(folder: Path, *examples: dict[str, Any], name: str = "vidoseek.json") -> Path:
    write_json(folder / name, {"examples": list(examples)})
    write_files(folder / "vidoseek_pdf_document", f"{STEM}.pdf", "distractor.pdf")
    return folder


@pytest.mark.parametrize("name", ["vidoseek.json", "rag_dataset.json", "ViDoSeek/rag_dataset.json"])
def test_questions_are_asked_of_the_whole_collection(tmp_path: Path, name: str) -> None:
    published(tmp_path, example(), name=name)
    pdfs = tmp_path / "vidoseek_pdf_document"
    write_files(tmp_path, "SlideVQA/pdf/deck.pdf", "__MACOSX/vidoseek_pdf_document/._distractor.pdf")

    opened = ViDoSeek().open(tmp_path)
    cases, documents = taken(opened)

    assert cases == [
        Case(
            uid=f"vidoseek-{STEM}_2",
            query="At what temperature?",
            reference_answer="195-205 Centigrade",
            file_name=f"{STEM}.pdf",
            reference_page=(10, 11),
            source_type=("Text",),
            query_type="Single-Hop",
            benchmark="vidoseek",
        )
    ]
    assert documents == [
        FileDocument(f"{STEM}.pdf", pdfs / f"{STEM}.pdf"),
        FileDocument("distractor.pdf", pdfs / "distractor.pdf"),
    ]
    assert set(opened.notes) == {
        "PDFs that no question names were taken as distractors (1): distractor.pdf.",
        "PDFs in other folders were left out (1): deck.pdf.",
    }


@pytest.mark.parametrize(
    ("spelled", "read"),
    [
        ("2d_layout", "Layout"),
        ("2D-Layout", "Layout"),
        ("Table", "Table"),
        ("chart", "Chart"),
        ("mixed", "mixed"),
    ],
)
def test_types_are_spelled_alike_wherever_they_come_from(tmp_path: Path, spelled: str, read: str) -> None:
    row = example(source_type=spelled, query_type="Multi-Hop")

    (case,) = ViDoSeek().open(published(tmp_path, row)).cases

    assert (case.source_type, case.query_type) == ((read,), "Multi-Hop")


def test_a_question_without_a_page_is_kept_and_told(tmp_path: Path) -> None:
    rows = [example(reference_page=[]), example("b", reference_page=[0]), example("c")]

    opened = ViDoSeek().open(published(tmp_path, *rows))

    assert [case.reference_page for case in opened.cases] == [(), (), (10, 11)]
    assert opened.notes[:2] == [
        f"Questions have no gold page and count for answers only (2): {STEM}_2, b.",
        "Questions had a gold page 0, which does not exist and was left out (1): b.",
    ]


def test_the_refined_slidevqa_that_comes_with_it_is_a_split(tmp_path: Path) -> None:
    published(tmp_path, example())
    row = example("17", file_name="deck.pdf", origin_query="What?")
    write_json(tmp_path / "slidevqa_refined.json", {"examples": [row]})
    write_files(tmp_path / "slidevqa_pdf_document", "deck.pdf")

    cases, documents = taken(ViDoSeek().open(tmp_path, "slidevqa_refined"))

    assert [case.uid for case in cases] == ["vidoseek-slidevqa_refined-17"]
    assert [source.name for source in documents] == ["deck.pdf"]


def test_missing_pdfs_are_named_with_what_to_unpack(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"1 of the 2 documents.*gone\.pdf.*[Uu]npack"):
        ViDoSeek().open(published(tmp_path, example(), example("b", file_name="gone.pdf")))
    with pytest.raises(CaseError, match=r"vidoseek\.json"):
        ViDoSeek().open(tmp_path / "vidoseek_pdf_document")


def test_a_pipe_is_no_pdf(tmp_path: Path) -> None:
    import os

    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes here")
    published(tmp_path, example())
    os.mkfifo(tmp_path / "vidoseek_pdf_document" / "pipe.pdf")

    assert [source.name for source in taken(ViDoSeek().open(tmp_path))[1]] == [
        f"{STEM}.pdf",
        "distractor.pdf",
    ]
