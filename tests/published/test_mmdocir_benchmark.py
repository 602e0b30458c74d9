"""MMDocIR as published: pages from 0, boxes in points, documents as PDFs or as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import pa, pages_of, picture, taken, write_files, write_lines, write_table

from vrag.datasets.mmdocir import MMDocIR
from vrag.datasets.protocols import FileDocument
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, Region

if TYPE_CHECKING:
    from pathlib import Path

PAGES = pa.schema(
    [
        ("doc_name", pa.string()),
        ("domain", pa.string()),
        ("passage_id", pa.string()),
        ("image_path", pa.string()),
        ("image_binary", pa.binary()),
        ("ocr_text", pa.string()),
        ("vlm_text", pa.string()),
    ]
)


def layout(page: int = 4, bbox: tuple[float, ...] = (366, 198, 514, 396)) -> dict[str, Any]:
    return {"page": page, "page_size": [612.0, 792.0], "bbox": list(bbox)}


def question(**more: object) -> dict[str, Any]:
    return {
        "Q": "More or less?",
        "A": "Less",
        "page_id": [4],
        "type": "['Table', 'Chart']",
        "layout_mapping": [layout()],
        **more,
    }


def document(*questions: dict[str, Any], name: str = "annual-review.pdf") -> dict[str, Any]:
    return {
        "doc_name": name,
        "domain": "Research report / Introduction",
        "page_indices": [24, 46],
        "layout_indices": [273, 425],
        "questions": list(questions),
    }


def published(folder: Path, *documents: dict[str, Any]) -> Path:
    write_lines(folder / "dataset" / "MMDocIR_annotations.jsonl", documents)
    write_files(folder / "doc_pdfs", *(row["doc_name"] for row in documents), "spare.pdf")
    return folder


def page_row(number: str, data: bytes | None, name: str = "annual-review.pdf") -> dict[str, Any]:
    return {"doc_name": name, "domain": "News", "passage_id": number, "image_binary": data}


def test_pages_are_counted_from_1_and_boxes_are_fractions(tmp_path: Path) -> None:
    opened = MMDocIR().open(published(tmp_path, document(question())))
    cases, documents = taken(opened)

    assert cases == [
        Case(
            uid="mmdocir-0-0",
            query="More or less?",
            reference_answer="Less",
            file_name="annual-review.pdf",
            reference_page=(5,),
            source_type=("Table", "Chart"),
            query_type="Single-Hop",
            regions=(Region(5, Box.unit(366 / 612, 0.25, 514 / 612, 0.5)),),
            document_type="Research report / Introduction",
            benchmark="mmdocir",
        )
    ]
    assert documents == [FileDocument("annual-review.pdf", tmp_path / "doc_pdfs" / "annual-review.pdf")]
    assert opened.notes == ["1 PDFs that no question names were left out."]


def test_the_type_is_a_list_or_a_word(tmp_path: Path) -> None:
    kinds = ("['Figure', 'Table']", "[]", "multimodal-t", "una-web")
    rows = document(*(question(type=kind) for kind in kinds))

    assert [case.source_type for case in MMDocIR().open(published(tmp_path, rows)).cases] == [
        ("Figure", "Table"),
        (),
        ("multimodal-t",),
        ("una-web",),
    ]


def test_what_is_odd_in_the_file_is_kept_or_mended_and_told(tmp_path: Path) -> None:
    rows = document(
        question(layout_mapping=[layout(), layout(bbox=(300, 100, 300, 450))]),  # no width
        question(A=""),
        question(page_id=[10], layout_mapping=[layout(page=9)]),
        question(layout_mapping=[layout(bbox=(0, 396, 612, 800))]),  # out of the page
        question(page_id=[22, 23]),  # 23 pages
        question(page_id=[22], layout_mapping=[layout(page=22)]),
    )

    opened = MMDocIR().open(published(tmp_path, rows))
    cases, _ = taken(opened)

    assert [len(case.regions) for case in cases] == [1, 1, 1, 1, 1, 1]
    assert cases[1].reference_answer == ""
    assert (cases[2].reference_page, cases[2].regions[0].page) == ((11,), 10)
    assert cases[3].regions[0].box == Box.unit(0, 0.5, 1, 1)
    assert cases[4].reference_page == (23, 24)
    told = {note.rsplit(":", 1)[0]: note.rsplit("mmdocir-0-", 1)[-1] for note in opened.notes if ":" in note}
    assert told == {
        "Questions had gold boxes without an area, which were left out (1)": "0.",
        "Questions have an empty answer (1)": "1.",
        "Questions have gold boxes on other pages than their gold pages (2)": "4.",
        "Questions have gold boxes that reached beyond the page and were cut (1)": "3.",
        "Questions have gold pages beyond the end of their document (1)": "4.",
    }


def test_documents_are_pictures_where_pdfs_are_missing(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "MMDocIR_annotations.jsonl", [document(question(page_id=[1])), document(name="b.pdf")]
    )
    shades = [picture(shade) for shade in (0, 50, 100)]
    rows = [
        page_row("10", shades[2]),  # as text, 10 comes before 2
        page_row("0", shades[0]),
        page_row("1", shades[1]),
        page_row("2", None),
        page_row("0", shades[0], "spare.pdf"),
    ]
    write_table(
        tmp_path / "MMDocIR_pages.parquet", [*rows, page_row("0", shades[1], "b.pdf")], PAGES, group=2
    )

    opened = MMDocIR().open(tmp_path)
    _, documents = taken(opened)

    assert [one.name for one in documents] == ["annual-review.pdf"]  # nobody asks about b.pdf
    assert pages_of(documents[0]) == [*shades[:2], *[None] * 8, shades[2]]
    assert "2 documents that no question names were left out." in opened.notes
    assert any("annual-review.pdf, page 3" in note for note in opened.notes)


@pytest.mark.parametrize("number", ["-1", "one", "", "1.5", "999999", "9" * 5_000])
def test_a_page_that_has_no_number_is_refused(tmp_path: Path, number: str) -> None:
    write_lines(tmp_path / "MMDocIR_annotations.jsonl", [document(question())])
    write_table(tmp_path / "MMDocIR_pages.parquet", [page_row(number, picture())], PAGES)

    with pytest.raises(CaseError, match=r"MMDocIR_pages\.parquet.*passage_id"):
        taken(MMDocIR().open(tmp_path))


def test_a_document_without_pictures_is_missing(tmp_path: Path) -> None:
    write_lines(tmp_path / "MMDocIR_annotations.jsonl", [document(question())])
    write_table(tmp_path / "MMDocIR_pages.parquet", [page_row("0", picture(), "other.pdf")], PAGES)
    (tmp_path / "doc_pdfs.zip").write_bytes(b"no archive, and not looked into")

    with pytest.raises(CaseError, match=r"lacks 1 of the 1 documents.*annual-review\.pdf"):
        taken(MMDocIR().open(tmp_path))


def test_without_pdfs_and_pictures_the_hint_says_where_they_are(tmp_path: Path) -> None:
    write_lines(tmp_path / "MMDocIR_annotations.jsonl", [document(question())])

    with pytest.raises(CaseError, match=r"annual-review\.pdf.*doc_pdfs\.rar"):
        MMDocIR().open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"page_id": [-1]},
        {"page_id": "[4]"},
        {"page_id": [4.5]},
        {"layout_mapping": [layout(bbox=(1, 2, 3))]},
        {"layout_mapping": [{"page": 1, "page_size": [0, 1], "bbox": [0, 0, 1, 1]}]},
        {"layout_mapping": [layout(bbox=(0, 0, float("nan"), 1))]},
        {"layout_mapping": ["box"]},
        {"Q": None},
    ],
)
def test_a_question_that_is_not_as_published_is_named_by_its_row(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(CaseError, match="row 2"):
        MMDocIR().open(published(tmp_path, document(question()), document(question(**change), name="b.pdf")))
