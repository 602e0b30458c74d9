"""M3DocVQA from files in its published shapes, with what is odd in them."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from vrag.cases import gold_documents
from vrag.datasets.m3docvqa import M3DocVQA
from vrag.datasets.protocols import FileDocument, StreamDocument
from vrag.errors import CaseError
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER, THIRD = (sign * 32 for sign in "abc")


def answer(value: object, kind: str = "string") -> dict[str, object]:
    return {
        "answer": value,
        "type": kind,
        "modality": "table",
        "text_instances": [],
        "table_indices": [[12, 1]],
        "image_instances": [],
    }


def asked(qid: str, *answers: object, gold: object = None) -> dict[str, Any]:
    """A line as published."""
    parts = [{"doc_id": ONE, "doc_part": "table"}, {"doc_id": OTHER, "doc_part": "image"}]
    return {
        "qid": qid,
        "question": "For which film did she sing?",
        "answers": [answer(each) for each in answers],
        "metadata": {"type": "Compose(TableQ,ImageListQ)", "modalities": ["image", "table"]},
        "supporting_context": parts if gold is None else gold,
    }


def folder_of(folder: Path, *lines: object, pdfs: tuple[str, ...] = (ONE, OTHER)) -> Path:
    for each in ("multimodalqa", "splits/pdfs_dev", "splits/pdfs_train"):
        (folder / each).mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "multimodalqa" / "MMQA_dev.jsonl").write_text(text, encoding="utf-8")
    for name in pdfs:
        (folder / "splits" / "pdfs_dev" / f"{name}.pdf").write_bytes(b"%PDF")
    (folder / "splits" / "pdfs_train" / f"{THIRD}.pdf").write_bytes(b"%PDF")
    return folder


def test_gold_are_documents_without_pages(tmp_path: Path) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", "Mask")))

    (case,) = opened.cases

    assert (case.uid, case.benchmark, case.references) == ("m3docvqa-q1", "m3docvqa", ("Mask",))
    assert (case.file_name, case.reference_page) == (f"{ONE}.pdf", ())
    assert gold_documents(case) == {f"{ONE}.pdf", f"{OTHER}.pdf"}
    assert case.source_type == ("Table", "Image")
    assert case.query_type == "Compose(TableQ,ImageListQ)"
    assert opened.notes == []


def test_all_pdfs_of_the_split_are_documents_and_none_of_another(tmp_path: Path) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", "Mask"), pdfs=(OTHER, ONE, "d" * 32)))

    assert [*opened.documents] == [
        FileDocument(f"{name}.pdf", tmp_path / "splits" / "pdfs_dev" / f"{name}.pdf")
        for name in (ONE, OTHER, "d" * 32)
    ]


def test_what_is_packed_is_read_as_it_is(tmp_path: Path) -> None:
    """MultiModalQA's repository has its questions in this form."""
    there = folder_of(tmp_path / "plain", asked("q1", "Mask"))
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "MMQA_dev.jsonl.gz").write_bytes(
        gzip.compress((there / "multimodalqa" / "MMQA_dev.jsonl").read_bytes())
    )
    with zipfile.ZipFile(packed / "pdfs_dev.zip", "w") as made:
        made.writestr(f"{ONE}.pdf", b"%PDF")
        made.writestr(f"pdfs_dev/{OTHER}.pdf", b"%PDF-1.7")

    opened, plain = M3DocVQA().open(packed), M3DocVQA().open(there)

    assert [*opened.cases] == [*plain.cases]
    assert [
        (one.name, b"".join(one.pieces())) for one in opened.documents if isinstance(one, StreamDocument)
    ] == [
        (f"{ONE}.pdf", b"%PDF"),
        (f"{OTHER}.pdf", b"%PDF-1.7"),
    ]
    assert opened.notes == []


def test_a_document_that_is_gold_for_two_parts_is_gold_once(tmp_path: Path) -> None:
    gold = [{"doc_id": ONE, "doc_part": part} for part in ("table", "text", "table")]
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", "Mask", gold=gold)))

    (case,) = opened.cases

    assert [each.document for each in case.gold] == [f"{ONE}.pdf"]
    assert case.source_type == ("Table", "Text")


@pytest.mark.parametrize(
    ("value", "references"),
    [
        (300.0, ("300", "300.0")),
        (-2.0, ("-2", "-2.0")),
        (5.014285714285714, ("5.014285714285714",)),
        (1974, ("1974",)),
        ("yes", ("yes",)),
    ],
)
def test_an_answer_may_be_a_number(tmp_path: Path, value: object, references: tuple[str, ...]) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", value)))

    (case,) = opened.cases

    assert case.references == references
    assert case.answer_format is AnswerFormat.UNKNOWN


def test_several_answers_are_one_list(tmp_path: Path) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", 'Ed "Big" Wood', 2.0)))

    (case,) = opened.cases

    assert case.references == ('["Ed \\"Big\\" Wood", "2"]', 'Ed "Big" Wood, 2')
    assert case.answer_format is AnswerFormat.LIST


def test_a_document_whose_pdf_is_missing_stays_gold_and_is_noted(tmp_path: Path) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q1", "Mask"), pdfs=(ONE,)))

    (case,) = opened.cases

    assert gold_documents(case) == {f"{ONE}.pdf", f"{OTHER}.pdf"}
    assert opened.notes == [f"Gold documents are missing and cannot be found (1): {OTHER}.pdf."]


def test_without_any_pdf_it_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no pdfs_dev/\*\.pdf"):
        M3DocVQA().open(folder_of(tmp_path, asked("q1", "Mask"), pdfs=()))


@pytest.mark.parametrize(
    "line",
    [
        {"qid": "t", "question": "?", "metadata": {}},  # as in the test set
        asked("q"),
        asked("q", math.nan),
        asked("q", None),
        asked("q", ["a"]),
        asked("q", "a", gold=[]),
        asked("q", "a", gold=["doc"]),
        asked("q", "a", gold=[{"doc_id": "../../secret", "doc_part": "text"}]),
        asked("q", "a", gold=[{"doc_id": ONE, "doc_part": "text"}, {"doc_id": "a/b", "doc_part": "text"}]),
        asked("q", "a", gold=[{"doc_id": ONE}]),
        asked("q", "a") | {"answers": ["a"]},
        3,
    ],
)
def test_a_line_that_is_not_as_published_is_refused_by_name(tmp_path: Path, line: object) -> None:
    opened = M3DocVQA().open(folder_of(tmp_path, asked("q0", "a"), line))

    with pytest.raises(CaseError, match=r"MMQA_dev\.jsonl, row 2") as refused:
        list(opened.cases)

    assert refused.value.hint


def test_packed_questions_that_came_in_part_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, asked("q1", "Mask"))
    (folder / "multimodalqa" / "MMQA_dev.jsonl").unlink()
    (folder / "MMQA_dev.jsonl.gz").write_bytes(gzip.compress(json.dumps(asked("q1", "Mask")).encode())[:-9])

    with pytest.raises(CaseError, match=r"MMQA_dev\.jsonl\.gz is not a complete gzip file.*Download"):
        list(M3DocVQA().open(tmp_path).cases)


def test_questions_that_are_missing_are_told_where_to_get(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no MMQA_dev\.jsonl.*bloomberg/m3docrag"):
        M3DocVQA().open(tmp_path)
