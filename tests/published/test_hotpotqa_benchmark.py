"""HotpotQA from its published JSON and the hub's parquet, with what is odd in them."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from vrag.cases import gold_documents
from vrag.datasets.files.documents import ParagraphDocument
from vrag.datasets.hotpotqa import HotpotQA
from vrag.datasets.protocols import TextDocument
from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

DERRICKSON: list[Any] = [
    "Scott Derrickson",
    ["Scott Derrickson is a director.", " He lives in Los Angeles."],
]
WOOD: list[Any] = ["Ed Wood", ["Edward Davis Wood Jr. was an American filmmaker."]]
OTHER_WOOD: list[Any] = ["Ed Wood", ["Ed Wood is a film of 1994."]]
DISTRACTOR: list[Any] = ["AC/DC", ["AC/DC are a band."]]
DISTRACTORS = "hotpot_dev_distractor_v1.json"
FULLWIKI = "hotpot_dev_fullwiki_v1.json"


def asked(id: str, *context: list[Any], **changed: object) -> dict[str, Any]:
    """A question as published."""
    return {
        "_id": id,
        "question": "Were both of the same nationality?",
        "answer": "yes",
        "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0], ["Scott Derrickson", 1]],
        "context": list(context),
        "type": "comparison",
        "level": "hard",
    } | changed


def folder_of(folder: Path, *rows: object, name: str = DISTRACTORS) -> Path:
    (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return folder


def name_of(paragraph: list[Any]) -> str:
    return ParagraphDocument(paragraph[0], "".join(paragraph[1])).name


def test_both_paragraphs_are_gold_each_once(tmp_path: Path) -> None:
    opened = HotpotQA().open(folder_of(tmp_path, asked("5a8b", WOOD, DISTRACTOR, DERRICKSON)))

    (case,) = opened.cases

    assert (case.uid, case.benchmark, case.query_type) == ("hotpotqa-5a8b", "hotpotqa", "comparison")
    assert case.reference_answer == "yes"
    assert case.file_name == name_of(DERRICKSON)
    assert [gold.document for gold in case.gold] == [name_of(DERRICKSON), name_of(WOOD)]
    assert gold_documents(case) == {name_of(DERRICKSON), name_of(WOOD)}
    assert opened.notes == []


def test_a_paragraph_is_a_document_under_its_title_and_sentences_are_joined_as_they_are(
    tmp_path: Path,
) -> None:
    opened = HotpotQA().open(folder_of(tmp_path, asked("1", DERRICKSON, WOOD)))

    first, _ = opened.documents

    assert first == TextDocument(
        name_of(DERRICKSON),
        "# Scott Derrickson\n\nScott Derrickson is a director. He lives in Los Angeles.\n",
    )


def test_a_paragraph_of_several_questions_is_one_document_and_another_text_another(tmp_path: Path) -> None:
    rows = [asked("1", DERRICKSON, WOOD, DISTRACTOR), asked("2", DISTRACTOR, OTHER_WOOD, DERRICKSON)]
    opened = HotpotQA().open(folder_of(tmp_path, *rows))

    cases = [*opened.cases]
    names = [document.name for document in opened.documents]

    assert names == [name_of(each) for each in (DERRICKSON, WOOD, DISTRACTOR, OTHER_WOOD)]
    assert [case.gold[1].document for case in cases] == [name_of(WOOD), name_of(OTHER_WOOD)]
    assert all(case.file_name in names for case in cases)


def test_gold_that_another_question_brings_along_is_that_paragraph(tmp_path: Path) -> None:
    rows = [asked("1", DERRICKSON), asked("2", WOOD, DERRICKSON)]
    opened = HotpotQA().open(folder_of(tmp_path, *rows, name=FULLWIKI))

    assert [case.gold[1].document for case in opened.cases] == [name_of(WOOD)] * 2
    assert opened.notes == ["The questions are those of fullwiki."]


def test_gold_that_no_question_brings_along_stays_gold_and_is_noted(tmp_path: Path) -> None:
    opened = HotpotQA().open(folder_of(tmp_path, asked("1", DERRICKSON), name=FULLWIKI), "fullwiki")

    (case,) = opened.cases

    assert [gold.document for gold in case.gold] == [name_of(DERRICKSON), "Ed Wood.md"]
    assert opened.notes == ["Gold paragraphs come with no question and cannot be found (1): Ed Wood."]


def test_a_sentence_beyond_the_end_of_its_paragraph_does_no_harm(tmp_path: Path) -> None:
    facts = [["Scott Derrickson", 99], ["Ed Wood", 0]]
    opened = HotpotQA().open(folder_of(tmp_path, asked("1", DERRICKSON, WOOD, supporting_facts=facts)))

    assert len(next(iter(opened.cases)).gold) == 2


@pytest.mark.parametrize("layout", ["distractor/validation-{}.parquet", "distractor/validation/{}.parquet"])
def test_the_parquet_of_the_hub_reads_as_the_json(tmp_path: Path, layout: str) -> None:
    published = [asked("1", DERRICKSON, WOOD), asked("2", WOOD, DISTRACTOR, DERRICKSON)]
    rows = [
        {name: row[name] for name in ("question", "answer", "type", "level")}
        | {
            "id": row["_id"],
            "supporting_facts": {
                "title": [title for title, _ in row["supporting_facts"]],
                "sent_id": [sentence for _, sentence in row["supporting_facts"]],
            },
            "context": {
                "title": [title for title, _ in row["context"]],
                "sentences": [sentences for _, sentences in row["context"]],
            },
        }
        for row in published
    ]
    (tmp_path / "json").mkdir()
    for number, row in enumerate(rows):  # in two shards
        path = tmp_path / "hub" / layout.format(f"{number:05}-of-00002")
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist([row]), path)

    hub, json_files = (
        HotpotQA().open(tmp_path / "hub"),
        HotpotQA().open(folder_of(tmp_path / "json", *published)),
    )

    assert [*hub.cases] == [*json_files.cases]
    assert [*hub.documents] == [*json_files.documents]


@pytest.mark.parametrize(
    "row",
    [
        {"_id": "1", "question": "?", "context": [DERRICKSON]},  # as in the test set
        asked("1", DERRICKSON, answer=None),
        asked("1", context=None),
        asked("1", context=[["Ed Wood"]]),
        asked("1", context=[["Ed Wood", [1]]]),
        asked("1", context=[[None, ["text"]]]),
        asked("1", context={"title": ["Ed Wood"], "sentences": []}),
        asked("1", DERRICKSON, supporting_facts=[]),
        "no object",
    ],
)
def test_a_row_that_is_not_as_published_is_refused_by_name(tmp_path: Path, row: object) -> None:
    opened = HotpotQA().open(folder_of(tmp_path, asked("0", WOOD, DERRICKSON), row))

    with pytest.raises(CaseError, match=r"hotpot_dev_distractor_v1\.json, row 2") as refused:
        list(opened.cases)

    assert refused.value.hint


def test_the_test_split_is_refused_as_its_answers_are_not_public(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no split 'test' with answers") as refused:
        HotpotQA().open(folder_of(tmp_path, asked("1", WOOD)), "test")

    assert refused.value.hint == "Those that can be asked: distractor, fullwiki, train."


def test_files_that_are_missing_are_told_where_to_get(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="hotpot_dev_fullwiki_v1") as refused:
        HotpotQA().open(folder_of(tmp_path, asked("1", WOOD)), "fullwiki")

    assert "hotpotqa/hotpot_qa" in refused.value.hint
