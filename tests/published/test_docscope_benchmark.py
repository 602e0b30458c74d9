"""DocScope in its published form: boxes in pixels at 144 dpi, facts by their evidence, two splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import taken, write_json
from hypothesis import given
from hypothesis import strategies as st
from pypdfium2 import PdfDocument

from vrag.cases import UNANSWERABLE
from vrag.datasets.docscope import BoxLabel, DocScope, box_label, page_scores
from vrag.datasets.protocols import FileDocument
from vrag.datasets.registry import open_cases
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, GoldFact, Region

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LETTER = (612.0, 792.0)
"""Points; at 144 dpi 1224 by 1584 pixels."""
NONE = set[int]()


def evidence(
    id: str = "e1", page: int = 1, bbox: Sequence[float] = (122.4, 158.4, 612, 792)
) -> dict[str, Any]:
    return {"local_id": id, "page": page, "bbox": list(bbox), "element_type": "table"}


def fact(text: str = "Fennick has 97 households.", of: str = "e1") -> dict[str, Any]:
    return {"local_id": "f1", "evidence_local_id": of, "text_description": text}


def row(id: str = "doc::q1", **more: object) -> dict[str, Any]:
    return {
        "id": id,
        "split": "test",
        "question": "How many households signed?",
        "answer": {"answer_text": "97", "is_answerable": True},
        "pdf": {"doc_id_str": "urnuuid0"},
        "evidences": [evidence()],
        "facts": [fact()],
        "extract_class": "class1",
        **more,
    }


def published(folder: Path, *rows: dict[str, Any], pages: int = 2) -> Path:
    write_json(folder / "benchmark.json", list(rows))
    (folder / "pdfs").mkdir()
    for name in {value["pdf"]["doc_id_str"] for value in rows} | {"spare"}:
        pdf: Any = PdfDocument.new()
        for _ in range(pages):
            pdf.new_page(*LETTER)
        pdf.save(folder / "pdfs" / f"{name}.pdf")
    return folder


def test_boxes_are_fractions_and_facts_have_the_page_of_their_evidence(tmp_path: Path) -> None:
    second = evidence("e2", 2, (0, 0, 1224, 1584))
    opened = DocScope().open(
        published(
            tmp_path,
            row(
                evidences=[evidence(), second],
                facts=[fact(), fact("Orla has 12.", "e2")],
                extract_class="class2",
            ),
        )
    )
    cases, documents = taken(opened)

    assert cases == [
        Case(
            uid="docscope-doc::q1",
            query="How many households signed?",
            reference_answer="97",
            file_name="urnuuid0.pdf",
            reference_page=(1, 2),
            source_type=("table",),
            query_type="Comparison",
            regions=(
                Region(1, Box.unit(122.4 / 1224, 158.4 / 1584, 0.5, 0.5)),
                Region(2, Box.unit(0, 0, 1, 1)),
            ),
            facts=(GoldFact("Fennick has 97 households.", 1), GoldFact("Orla has 12.", 2)),
            benchmark="docscope",
        )
    ]
    assert documents == [FileDocument("urnuuid0.pdf", tmp_path / "pdfs" / "urnuuid0.pdf")]
    assert opened.notes == ["1 PDFs that no question of this split names were left out."]


def test_the_splits_are_asked_apart(tmp_path: Path) -> None:
    folder = published(tmp_path, row(), row("doc::q2", split="dev"))

    assert [case.uid for case in DocScope().open(folder).cases] == ["docscope-doc::q1"]
    assert [case.uid for case in DocScope().open(folder, "dev").cases] == ["docscope-dev-doc::q2"]
    with pytest.raises(CaseError, match="no split 'train'"):
        DocScope().open(folder, "train")


def test_what_cannot_be_answered_has_no_gold(tmp_path: Path) -> None:
    asked = row(answer={"answer_text": "Unanswerable", "is_answerable": False})
    (case,) = DocScope().open(published(tmp_path, asked)).cases

    assert (case.reference_answer, case.reference_page, case.regions) == (UNANSWERABLE, (), ())


def test_boxes_beyond_their_page_are_cut_and_on_other_pages_left_out(tmp_path: Path) -> None:
    asked = row(evidences=[evidence(bbox=(0, 0, 1300, 792)), evidence("e2", 9)])
    opened = DocScope().open(published(tmp_path, asked))
    (case,) = opened.cases

    assert case.regions == (Region(1, Box.unit(0, 0, 1, 0.5)),)
    assert "Questions have gold boxes that reached beyond the page and were cut (1): doc::q1." in opened.notes
    assert "Questions have gold boxes on pages that their document lacks (1): doc::q1." in opened.notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evidences": [evidence(page=0)]}, "A page is a number from 1, not 0"),
        ({"evidences": [evidence(bbox=(1, 2, 3))]}, "A piece of evidence has no box"),
        ({"answer": "97"}, "'answer' is not an object"),
        ({"pdf": {"doc_id_str": "../up"}}, "not a file name"),
    ],
)
def test_rows_that_are_not_as_published_are_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = published(tmp_path, row())
    write_json(folder / "benchmark.json", [row() | changes])
    with pytest.raises(CaseError, match=message):
        DocScope().open(folder)


def test_absent_files_are_named_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"holds no benchmark\.json") as raised:
        DocScope().open(tmp_path)
    assert "MiliLab/DocScope" in raised.value.hint


def test_rows_are_recognised_and_converted_without_boxes(tmp_path: Path) -> None:
    source, cases = open_cases(write_json(tmp_path / "benchmark.json", [row()]))
    (case,) = cases

    assert source.name == "docscope"
    assert (case.reference_page, case.regions, len(case.facts)) == ((1,), (), 1)


@pytest.mark.parametrize(
    ("cited", "gold", "expected"),
    [  # by the published page_prf, run on the same sets
        ({51, 53}, {51, 53}, (1, 1, 1)),
        ({51, 60}, {51, 53}, (0.5, 0.5, 0.5)),
        ({51}, {51, 53}, (1, 0.5, 2 / 3)),
        ({1, 2, 3, 4}, {2}, (0.25, 1, 0.4)),
        ({7}, {8}, (0, 0, 0)),
        (NONE, {8}, (1, 0, 0)),
        ({7}, NONE, (0, 1, 0)),
        (NONE, NONE, (1, 1, 1)),
    ],
)
def test_pages_are_scored_as_published(
    cited: set[int], gold: set[int], expected: tuple[float, float, float]
) -> None:
    assert page_scores(cited, gold) == pytest.approx(expected)


GOLD = Box.unit(0.2, 0.2, 0.6, 0.4)


@pytest.mark.parametrize(
    ("cited", "label"),
    [
        ([Box.unit(0, 0, 1, 1)], BoxLabel.COVERED),  # larger boxes cost nothing
        ([GOLD], BoxLabel.COVERED),
        ([Box.unit(0.2, 0.2, 0.57, 0.4)], BoxLabel.COVERED),  # 92 %
        ([Box.unit(0.2, 0.2, 0.4, 0.4), Box.unit(0.4, 0.2, 0.6, 0.4)], BoxLabel.COVERED),  # together
        ([Box.unit(0.2, 0.2, 0.5, 0.4)], BoxLabel.IMPRECISE),  # 75 %
        ([Box.unit(0.58, 0.2, 0.9, 0.4)], BoxLabel.NOT_COVERED),  # 5 %
        ([Box.unit(0.6, 0.4, 0.9, 0.9)], BoxLabel.NOT_COVERED),  # touches at a corner
        ([], BoxLabel.NOT_COVERED),
    ],
)
def test_gold_boxes_have_the_labels_of_the_published_prompt(cited: list[Box], label: BoxLabel) -> None:
    assert box_label(GOLD, cited) is label


@given(st.sets(st.integers(1, 6)), st.sets(st.integers(1, 6)))
def test_scores_of_pages_are_shares(cited: set[int], gold: set[int]) -> None:
    precision, recall, f1 = page_scores(cited, gold)
    assert all(0 <= score <= 1 for score in (precision, recall, f1))
    assert (f1 == 1) == (cited == gold)
    if cited and gold and cited & gold:
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
