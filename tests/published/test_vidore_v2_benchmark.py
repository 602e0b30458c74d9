"""ViDoRe v2 in its three tables: hyphens, no page numbers, answers beside the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import IMAGE, cell, pa, pages_of, picture, taken, write_table

from vrag.datasets.vidore import ViDoReV2
from vrag.errors import CaseError
from vrag.types import Case, GoldPage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CORPUS = pa.schema([("corpus-id", pa.int64()), ("image", IMAGE)])
QUERIES = pa.schema([("query-id", pa.int64()), ("query", pa.string()), ("language", pa.string())])
QRELS = pa.schema(
    [("query-id", pa.int64()), ("corpus-id", pa.int64()), ("score", pa.float64()), ("answer", pa.string())]
)
SLIDES = [picture(shade) for shade in (0, 90, 180)]


def relevant(
    query_id: int, corpus_id: int, answer: str | None = "Seven", score: float | None = 1.0
) -> dict[str, Any]:
    return {"query-id": query_id, "corpus-id": corpus_id, "score": score, "answer": answer}


def query(id: int, language: str = "english") -> dict[str, Any]:
    return {
        "query-id": id,
        "query": "Combien ?" if language == "french" else "How many?",
        "language": language,
    }


def published(
    folder: Path,
    queries: Sequence[dict[str, Any]],
    qrels: Sequence[dict[str, Any]],
    *,
    documents: Sequence[str] = (),
    language: bool = True,
) -> Path:
    rows: list[dict[str, Any]] = [{"corpus-id": at, "image": cell(data)} for at, data in enumerate(SLIDES)]
    for row, document in zip(rows, documents, strict=False):
        row["doc-id"] = document
    schema = CORPUS.append(pa.field("doc-id", pa.string())) if documents else CORPUS
    write_table(folder / "corpus" / "test-00000-of-00001.parquet", rows, schema, group=2)
    spoken = QUERIES if language else QUERIES.remove(2)
    write_table(folder / "queries" / "test-00000-of-00001.parquet", queries, spoken)
    write_table(folder / "qrels" / "test-00000-of-00001.parquet", qrels, QRELS)
    return folder


def test_answers_come_from_beside_the_pages_and_any_is_right(tmp_path: Path) -> None:
    qrels = [relevant(3, 2), relevant(3, 0, None, 2.0), relevant(3, 1, " 7 "), relevant(4, 0), relevant(5, 1)]
    queries = [query(3), query(4, "french"), query(5)]

    cases, documents = taken(ViDoReV2().open(published(tmp_path / "esg_reports_v2", queries, qrels)))

    assert cases[0] == Case(
        uid="vidore_v2-3",
        query="How many?",
        reference_answer="7",
        file_name="esg_reports_v2-0.pdf",
        gold=(
            GoldPage("esg_reports_v2-0.pdf", 1, 2),
            GoldPage("esg_reports_v2-1.pdf", 1, 1),
            GoldPage("esg_reports_v2-2.pdf", 1, 1),
        ),
        alternatives=("Seven",),
        benchmark="vidore_v2",
    )
    assert [case.uid for case in cases] == ["vidore_v2-3", "vidore_v2-5"]
    assert [(one.name, pages_of(one)) for one in documents] == [
        (f"esg_reports_v2-{at}.pdf", [data]) for at, data in enumerate(SLIDES)
    ]


def test_where_documents_are_named_rows_are_their_pages_in_order(tmp_path: Path) -> None:
    folder = published(tmp_path, [query(0)], [relevant(0, 2)], documents=["a", "b", "a"])

    cases, documents = taken(ViDoReV2().open(folder))

    assert cases[0].gold == (GoldPage("a.pdf", 2),)
    assert {one.name: pages_of(one) for one in documents} == {"a.pdf": SLIDES[::2], "b.pdf": SLIDES[1:2]}


def test_the_set_that_people_labelled_says_no_language_and_is_english(tmp_path: Path) -> None:
    folder = published(tmp_path, [query(0)], [relevant(0, 2)], language=False)

    assert len(list(ViDoReV2().open(folder, "english").cases)) == 1
    with pytest.raises(CaseError, match="there are: english"):
        ViDoReV2().open(folder, "french")


def test_an_answer_that_stands_beside_several_pages_is_one_answer(tmp_path: Path) -> None:
    qrels = [relevant(0, at) for at in range(3)]

    (case,) = ViDoReV2().open(published(tmp_path, [query(0)], qrels)).cases

    assert case.references == ("Seven",)


def test_a_query_without_an_answer_counts_for_retrieval_only(tmp_path: Path) -> None:
    opened = ViDoReV2().open(published(tmp_path, [query(0)], [relevant(0, 2, None), relevant(0, 1, " ")]))

    (case,) = opened.cases

    assert (case.reference_answer, case.alternatives, len(case.gold)) == ("", (), 2)
    assert opened.notes == ["Queries have no answer and count for retrieval only (1): query 0."]


@pytest.mark.parametrize("score", [0.5, float("nan"), float("inf"), 101.0, None])
def test_a_relevance_is_a_whole_number(tmp_path: Path, score: float | None) -> None:
    with pytest.raises(CaseError, match="'score' is a whole number"):
        list(ViDoReV2().open(published(tmp_path, [query(0)], [relevant(0, 2, score=score)])).cases)


def test_a_page_that_is_not_relevant_is_no_gold(tmp_path: Path) -> None:
    qrels = [relevant(0, 2, score=0.0), relevant(0, 1), relevant(0, 0, score=-1.0)]

    (case,) = ViDoReV2().open(published(tmp_path, [query(0)], qrels)).cases

    assert [gold.relevance for gold in case.gold] == [1]


def test_the_two_sets_of_one_corpus_keep_apart(tmp_path: Path) -> None:
    for name in ("esg_reports_v2", "esg_reports_human_labeled_v2"):
        published(tmp_path / name, [query(0)], [relevant(0, 0)], documents=["a", "a", "b"])

    cases, documents = taken(ViDoReV2().open(tmp_path))

    assert [case.uid for case in cases] == [
        "vidore_v2-esg_reports_human_labeled_v2-0",
        "vidore_v2-esg_reports_v2-0",
    ]
    assert len({source.name for source in documents}) == 4
