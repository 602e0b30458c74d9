"""A data set of one's own: its questions, its PDFs, its pictures of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from document_sets import pages_of, picture, taken, write_files, write_json, write_lines, write_table

from vrag.corpus.formats.image_binding import bind_pages
from vrag.datasets.own import DatasetJson
from vrag.datasets.protocols import FileDocument
from vrag.errors import CaseError
from vrag.types import AnswerFormat

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "mmlongbench-dev"


def example(name: str = "report.pdf", answer: str = "Seven", **meta: object) -> dict[str, Any]:
    return {
        "uid": f"{name}_0",
        "query": "How many?",
        "reference_answer": answer,
        "meta_info": {"file_name": name, "reference_page": [2], **meta},
        "regions": [{"page": 2, "box": [0.1, 0.2, 0.5, 0.5]}],
    }


def own(folder: Path, *examples: dict[str, Any]) -> Path:
    write_json(folder / "rag_dataset.json", {"examples": list(examples)})
    return folder


def drawn(folder: Path, *names: str) -> dict[str, bytes]:
    """Pictures in `img/`."""
    (folder / "img").mkdir(parents=True, exist_ok=True)
    made = {name: picture(number * 10) for number, name in enumerate(names)}
    for name, data in made.items():
        (folder / "img" / name).write_bytes(data)
    return made


def test_everything_in_pdf_is_a_document_asked_about_or_not(tmp_path: Path) -> None:
    write_files(tmp_path / "pdf", "report.pdf", "other.pdf", "Thumbs.db", ".hidden.pdf", "deep/er.pdf")
    write_files(tmp_path, "elsewhere.pdf")

    cases, documents = taken(DatasetJson().open(own(tmp_path, example())))

    assert (cases[0].uid, cases[0].benchmark) == ("dataset-report.pdf_0", "dataset")
    assert documents == [
        FileDocument("report.pdf", tmp_path / "pdf" / "report.pdf"),
        FileDocument("er.pdf", tmp_path / "pdf" / "deep" / "er.pdf"),
        FileDocument("other.pdf", tmp_path / "pdf" / "other.pdf"),
    ]


def test_a_folder_above_that_is_called_pdf_does_not_matter(tmp_path: Path) -> None:
    folder = own(tmp_path / "pdf" / "img", example())
    write_files(folder, "pdf/report.pdf", "notes.txt")

    assert [one.name for one in taken(DatasetJson().open(folder))[1]] == ["report.pdf"]


def test_pictures_of_pages_become_the_document_they_are_of(tmp_path: Path) -> None:
    shown = drawn(tmp_path, "report_1.jpg", "report_3.jpg", "plan_1.png", "plan_2.jpeg", "cat_2024.jpg")

    opened = DatasetJson().open(own(tmp_path, example()))
    _, documents = taken(opened)

    assert [one.name for one in documents] == ["plan.pdf", "report.pdf", "cat_2024.jpg"]
    assert pages_of(documents[0]) == [shown["plan_1.png"], shown["plan_2.jpeg"]]
    assert pages_of(documents[1]) == [shown["report_1.jpg"], None, shown["report_3.jpg"]]
    assert any("report.pdf, page 2" in note for note in opened.notes)


def test_pictures_of_the_pages_of_a_pdf_are_not_there_twice(tmp_path: Path) -> None:
    write_files(tmp_path / "pdf", "report.pdf")
    drawn(tmp_path, "report_1.jpg", "report_2.jpg")

    assert [one.name for one in taken(DatasetJson().open(own(tmp_path, example())))[1]] == ["report.pdf"]


def test_a_picture_that_is_asked_about_is_a_document_of_its_own(tmp_path: Path) -> None:
    drawn(tmp_path, "cat_1.jpg", "cat_2.jpg")

    _, documents = taken(DatasetJson().open(own(tmp_path, example("cat_1.jpg"))))

    assert documents == [FileDocument(name, tmp_path / "img" / name) for name in ("cat_1.jpg", "cat_2.jpg")]


def test_what_cannot_be_answered_has_no_gold(tmp_path: Path) -> None:
    write_files(tmp_path / "pdf", "report.pdf")
    row = example(answer="Not answerable", answer_format="None", doc_type="Guidebook")

    opened = DatasetJson().open(own(tmp_path, row))
    (case,) = opened.cases

    assert (case.reference_page, case.regions) == ((), ())
    assert (case.answer_format, case.document_type) == (AnswerFormat.NONE, "Guidebook")
    assert len(opened.notes) == 1


def test_a_name_that_no_file_can_have_everywhere_is_made_one(tmp_path: Path) -> None:
    write_files(tmp_path / "pdf", "report.pdf", "What: now?.pdf")

    assert [one.name for one in taken(DatasetJson().open(own(tmp_path, example())))[1]] == [
        "report.pdf",
        "What_ now_.pdf",
    ]


@pytest.mark.parametrize("name", ["questions.json", "Fragen.jsonl", "q.ndjson", "q.parquet"])
def test_one_file_of_questions_at_the_top_has_its_documents_anywhere_below(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, "deep/er/report.pdf", "other.txt", "deep/data.json", ".hidden.json")
    if name.endswith("parquet"):
        write_table(tmp_path / name, [example()], None)
    elif name.endswith(".json"):
        write_json(tmp_path / name, [example()])
    else:
        write_lines(tmp_path / name, [example()])

    opened = DatasetJson().open(tmp_path)
    cases, documents = taken(opened)

    assert [(case.uid, case.reference_page) for case in cases] == [("dataset-report.pdf_0", (2,))]
    assert documents == [
        FileDocument("report.pdf", tmp_path / "deep" / "er" / "report.pdf"),
        FileDocument("data.json", tmp_path / "deep" / "data.json"),
        FileDocument("other.txt", tmp_path / "other.txt"),
    ]
    assert opened.title == f"{tmp_path.name} (your own questions)"


def test_of_files_of_one_name_the_first_is_taken_and_the_others_are_told(tmp_path: Path) -> None:
    write_files(tmp_path, "a/report.pdf", "b/report.pdf")
    write_json(tmp_path / "questions.json", [example()])

    opened = DatasetJson().open(tmp_path)

    assert taken(opened)[1] == [FileDocument("report.pdf", tmp_path / "a" / "report.pdf")]
    assert opened.notes == [
        (
            "Files have the name of one in another folder, and were left out (1): "
            "b/report.pdf (taken: a/report.pdf)."
        )
    ]


def test_a_gold_page_beyond_the_end_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "report.pdf").write_bytes(bind_pages([picture(), picture()]))
    drawn(tmp_path, "plan_1.jpg", "plan_2.jpg")
    box = [0.1, 0.2, 0.5, 0.5]
    rows = [
        example(reference_page=[2, 9]) | {"regions": [{"page": page, "box": box} for page in (2, 9)]},
        example(reference_page=[3]) | {"uid": "2"},
        example(reference_page=[2]) | {"uid": "3", "gold": [{"document": "plan.pdf", "page": 3}]},
    ]

    opened = DatasetJson().open(own(tmp_path, *rows))
    cases, documents = taken(opened)

    assert [case.reference_page for case in cases] == [(2,), (), ()]
    assert [[region.page for region in case.regions] for case in cases] == [[2], [2], [2]]
    assert cases[2].gold == ()
    (note,) = opened.notes
    assert note == (
        "Questions had a gold page beyond the end of the document, which was left out (3): "
        "dataset-report.pdf_0 (page 9 of 2), dataset-2 (page 3 of 2), dataset-3 (page 3 of 2)."
    )
    assert {one.name for one in documents} == {"report.pdf", "plan.pdf"}


def test_rows_and_files_that_hold_no_question_of_ones_own_show_its_form(tmp_path: Path) -> None:
    cases: list[tuple[list[dict[str, Any]], str]] = [
        ([], "holds no questions"),
        (
            [{"question": "How many?", "answer": "7"}],
            "row 1.*There is no query and no reference_answer and no meta",
        ),
        (
            [{"query": "?", "reference_answer": "7", "meta_info": {}}],
            "row 1.*There is no meta_info.file_name",
        ),
    ]
    for rows, message in cases:
        with pytest.raises(CaseError, match=rf'{message}.*A question: {{"query"') as refused:
            DatasetJson().open(own(tmp_path, *rows))
        assert "ownload" not in str(refused.value)


def test_a_path_in_ones_own_file_is_refused_with_the_name_alone(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"row 1 names.*not a file name.*Name the file alone: report\.pdf\."):
        DatasetJson().open(own(tmp_path, example("finance/2023/report.pdf")))


def test_a_question_without_words_is_dropped_and_told(tmp_path: Path) -> None:
    write_files(tmp_path / "pdf", "report.pdf")
    empty = example() | {"uid": "empty", "query": "  "}

    opened = DatasetJson().open(own(tmp_path, example(), empty))

    assert [case.uid for case in opened.cases] == ["dataset-report.pdf_0"]
    assert opened.notes == ["Questions are empty, and were dropped (1): empty."]


def test_a_file_that_is_called_as_ours_goes_first(tmp_path: Path) -> None:
    write_files(own(tmp_path, example()), "pdf/report.pdf", "elsewhere.pdf")
    write_json(tmp_path / "questions.json", ["not read"])

    assert [one.name for one in taken(DatasetJson().open(tmp_path))[1]] == ["report.pdf"]


def test_pages_as_pictures_are_found_anywhere_as_well(tmp_path: Path) -> None:
    shown = drawn(tmp_path / "scans", "report_1.jpg", "report_2.jpg")
    write_json(tmp_path / "questions.json", {"examples": [example()]})

    (document,) = taken(DatasetJson().open(tmp_path))[1]

    assert (document.name, pages_of(document)) == ("report.pdf", list(shown.values()))


@pytest.mark.parametrize(
    "made",
    [".preparing", "benchmark.json", "campaign.json", "collection.json", "conditions.json", "records.jsonl"],
)
def test_what_was_made_of_the_folder_is_not_asked_about(tmp_path: Path, made: str) -> None:
    write_files(tmp_path, "report.pdf", f"out/{made}", "out/documents/report.pdf", "out/report.html")
    write_json(tmp_path / "questions.json", [example()])

    documents = taken(DatasetJson().open(tmp_path))[1]

    assert documents == [FileDocument("report.pdf", tmp_path / "report.pdf")]


def test_files_that_may_all_be_questions_are_named(tmp_path: Path) -> None:
    for name in ("a.json", "b.jsonl"):
        write_json(tmp_path / name, [])
    with pytest.raises(CaseError, match=r"2 files that may be questions: 'a.json', 'b.jsonl'.*right one"):
        DatasetJson().open(tmp_path)


def test_missing_documents_and_questions_are_named(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "questions.json", [example()])
    with pytest.raises(CaseError, match=r"no rag_dataset\.json, nor.*It holds.*pdf/ or img/.*anywhere below"):
        DatasetJson().open(tmp_path)
    with pytest.raises(
        CaseError, match=r"1 of the 1 documents.*report\.pdf.*Put them.*pdf/ or img/"
    ) as refused:
        DatasetJson().open(own(tmp_path, example()))
    assert "Get" not in str(refused.value)
    with pytest.raises(CaseError, match=r"1 of the 1 documents.*report\.pdf"):
        DatasetJson().open(tmp_path / "deep")


@pytest.mark.parametrize(
    "region", [{"document": "../a.pdf", "page": 1, "box": [0, 0, 1, 1]}, {"page": 1, "box": [0, 0, 9, 1]}]
)
def test_a_row_that_is_no_case_is_named(tmp_path: Path, region: dict[str, Any]) -> None:
    with pytest.raises(CaseError, match="row 1"):
        DatasetJson().open(own(tmp_path, example() | {"regions": [region]}))


@pytest.mark.skipif(not REAL.is_dir(), reason="the data set for development is not here")
def test_real_questions_and_pdfs_are_found_in_full() -> None:
    opened = DatasetJson().open(REAL)
    cases, documents = taken(opened)

    assert (len(cases), len(documents)) == (159, 20)
    assert sum(case.answer_format is AnswerFormat.NONE for case in cases) == 29
    assert all(case.document_type for case in cases)
    assert not any(case.reference_page for case in cases if case.answer_format is AnswerFormat.NONE)
    assert {case.file_name for case in cases} == {source.name for source in documents}
