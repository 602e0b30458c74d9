"""SQuAD from its published JSON and the hub's parquet, with what is odd in them."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from vrag.cases import UNANSWERABLE, gold_documents
from vrag.datasets.files.documents import ParagraphDocument
from vrag.datasets.protocols import TextDocument
from vrag.datasets.squad import SQuAD
from vrag.errors import CaseError
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from pathlib import Path

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

NORMANS = "The Normans were the people who gave their name to Normandy."
RULE = "In 1066 they came to England, #1 of their lands."


def answered(id: str, *texts: str) -> dict[str, Any]:
    return {
        "id": id,
        "question": f"Who is {id}?",
        "answers": [{"text": text, "answer_start": 4} for text in texts],
        "is_impossible": False,
    }


def impossible(id: str) -> dict[str, Any]:
    return {
        "id": id,
        "question": f"Who is {id}?",
        "answers": [],
        "is_impossible": True,
        "plausible_answers": [{"text": "the Normans", "answer_start": 4}],
    }


def article(title: str, **paragraphs: list[dict[str, Any]]) -> dict[str, Any]:
    texts = {"normans": NORMANS, "rule": RULE}
    return {"title": title, "paragraphs": [{"context": texts[n], "qas": q} for n, q in paragraphs.items()]}


def folder_of(folder: Path, *articles: object, name: str = "dev-v2.0.json") -> Path:
    value = {"version": "v2.0", "data": articles}
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_gold_is_the_paragraph_and_not_the_article(tmp_path: Path) -> None:
    rows = article("Normans", normans=[answered("a", "Normans")], rule=[answered("b", "1066")])
    opened = SQuAD().open(folder_of(tmp_path, rows))

    one, other = opened.cases

    assert (one.uid, one.benchmark, one.reference_answer) == ("squad-a", "squad", "Normans")
    assert one.file_name == ParagraphDocument("Normans", NORMANS).name
    assert gold_documents(one) == {ParagraphDocument("Normans", NORMANS).name}
    assert gold_documents(other) == {ParagraphDocument("Normans", RULE).name}
    assert [document.name for document in opened.documents] == [one.file_name, other.file_name]


def test_all_right_answers_are_there_each_once(tmp_path: Path) -> None:
    texts = ("the Normans", "Normans", "the Normans", " ")
    opened = SQuAD().open(folder_of(tmp_path, article("N", normans=[answered("a", *texts)])))

    assert [case.references for case in opened.cases] == [("the Normans", "Normans")]


def test_a_plausible_answer_is_none(tmp_path: Path) -> None:
    opened = SQuAD().open(folder_of(tmp_path, article("N", normans=[impossible("a")])))

    (case,) = opened.cases

    assert case.references == (UNANSWERABLE,)
    assert case.answer_format is AnswerFormat.NONE
    assert case.file_name == ParagraphDocument("N", NORMANS).name
    assert (case.gold, case.query_type) == ((), "Unanswerable")


def test_a_title_is_read_as_people_write_it(tmp_path: Path) -> None:
    opened = SQuAD().open(folder_of(tmp_path, article("Beyonc%C3%A9_Knowles", rule=[])))

    (document,) = opened.documents

    assert document == TextDocument(
        ParagraphDocument("Beyoncé Knowles", RULE).name,
        "# Beyoncé Knowles\n\nIn 1066 they came to England, \\#1 of their lands.\n",
    )


def test_a_paragraph_that_is_there_twice_is_one_document(tmp_path: Path) -> None:
    rows = [article("N", normans=[answered("a", "x")]), article("N", normans=[answered("b", "x")])]
    opened = SQuAD().open(folder_of(tmp_path, *rows))

    assert len({case.file_name for case in opened.cases}) == 1
    assert len([*opened.documents]) == 1


def test_the_parquet_of_the_hub_reads_as_the_json(tmp_path: Path) -> None:
    questions = {
        NORMANS: [answered("a", "Normans", "the Normans"), impossible("b")],
        RULE: [answered("c", "1066")],
    }
    rows = [
        {
            "id": question["id"],
            "title": "Normans",
            "context": context,
            "question": question["question"],
            "answers": {
                "text": [each["text"] for each in question["answers"]],
                "answer_start": [each["answer_start"] for each in question["answers"]],
            },
        }
        for context, asked in questions.items()
        for question in asked
    ]
    (tmp_path / "hub" / "squad_v2").mkdir(parents=True)
    (tmp_path / "json").mkdir()
    target = tmp_path / "hub" / "squad_v2" / "validation-00000-of-00001.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), target)
    published = article("Normans", normans=questions[NORMANS], rule=questions[RULE])

    hub = SQuAD().open(tmp_path / "hub")
    json_files = SQuAD().open(folder_of(tmp_path / "json", published))

    assert [*hub.cases] == [*json_files.cases]
    assert [*hub.documents] == [*json_files.documents]


def test_version_2_is_taken_unless_the_other_is_asked_for(tmp_path: Path) -> None:
    folder_of(tmp_path, article("N", normans=[answered("new", "x")]))
    folder_of(tmp_path, article("N", normans=[answered("old", "x")]), name="dev-v1.1.json")
    both = [SQuAD().open(tmp_path), SQuAD().open(tmp_path, "dev-v1.1")]

    assert [[case.uid for case in opened.cases] for opened in both] == [["squad-new"], ["squad-old"]]
    assert [opened.notes[0] for opened in both] == [
        "The questions are those of dev-v2.0.",
        "The questions are those of dev-v1.1.",
    ]


def test_a_paragraph_without_words_is_no_document_and_noted(tmp_path: Path) -> None:
    row = {"title": "Dots", "paragraphs": [{"context": " … ", "qas": [answered("a", "x")]}]}
    opened = SQuAD().open(folder_of(tmp_path, row))

    assert len([*opened.cases]) == 1
    assert [*opened.documents] == []
    assert opened.notes[1:] == ["Paragraphs have no words and cannot be found (1): Dots."]


BROKEN: list[Any] = [
    {"title": "N", "paragraphs": "none"},
    {"title": "N", "paragraphs": [3]},
    {"title": "N", "paragraphs": [{"qas": []}]},
    {"title": "N", "paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "?"}]}]},  # hidden
    {"title": None, "paragraphs": []},
    {"title": "N", "paragraphs": [{"context": "c", "qas": [{"question": "?", "answers": []}]}]},
    "no object",
]


@pytest.mark.parametrize("row", BROKEN)
def test_an_article_that_is_not_as_published_is_refused_by_name(tmp_path: Path, row: object) -> None:
    opened = SQuAD().open(folder_of(tmp_path, article("N", normans=[]), row))

    with pytest.raises(CaseError, match=r"dev-v2\.0\.json, row 2") as refused:
        list(opened.cases)

    assert refused.value.hint


def test_files_that_are_missing_are_told_where_to_get(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no dev-v2\.0\.json") as refused:
        SQuAD().open(tmp_path)

    assert "rajpurkar/squad_v2" in refused.value.hint
