"""ViDoRe v3 in its four tables: pages from 0, boxes in pixels, grades, six languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import IMAGE, cell, pa, pages_of, picture, taken, write_table

from vrag.cases import graded_pages
from vrag.datasets.vidore import ViDoReV3
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXTS = pa.list_(pa.string())
SIDES = pa.struct([(name, pa.int64()) for name in ("annotator", "x1", "x2", "y1", "y2")])  # in this order
CORPUS = pa.schema(
    [
        ("corpus_id", pa.int64()),
        ("image", IMAGE),
        ("doc_id", pa.string()),
        ("markdown", pa.string()),
        ("page_number_in_doc", pa.int64()),
    ]
)
QUERIES = pa.schema(
    [
        ("query_id", pa.int64()),
        ("query", pa.string()),
        ("language", pa.string()),
        ("query_types", TEXTS),
        ("query_format", pa.string()),
        ("content_type", TEXTS),
        ("raw_answers", TEXTS),
        ("query_generator", pa.string()),
        ("query_generation_pipeline", pa.string()),
        ("source_type", pa.string()),
        ("query_type_for_generation", pa.string()),
        ("answer", pa.string()),
    ]
)
QRELS = pa.schema(
    [
        ("query_id", pa.int64()),
        ("corpus_id", pa.int64()),
        ("score", pa.int64()),
        ("content_type", TEXTS),
        ("bounding_boxes", pa.list_(SIDES)),
    ]
)
METADATA = pa.schema([(name, pa.string()) for name in ("file_name", "doc_id", "url", "doc_type", "license")])

ANNUAL = [picture(shade, (200, 100)) for shade in (0, 80, 160)]
GUIDE = picture(40, (100, 400), "PNG")


def page(corpus_id: int, doc_id: str, number: int, data: bytes | None) -> dict[str, Any]:
    return {
        "corpus_id": corpus_id,
        "image": cell(data),
        "doc_id": doc_id,
        "markdown": "",
        "page_number_in_doc": number,
    }


def query(id: int, language: str = "english", **more: object) -> dict[str, Any]:
    return {
        "query_id": id,
        "query": "How much?",
        "language": language,
        "query_types": ["numerical", "multi-hop"],
        "query_format": "question",
        "content_type": ["Table", "N/A (If relevance score=0)"],
        "raw_answers": ["Seven", "About 7", "Seven."],
        "query_generator": "human",
        "query_generation_pipeline": None,
        "source_type": "summary",
        "query_type_for_generation": "numerical",
        "answer": "Seven",
        **more,
    }


def relevant(query_id: int, corpus_id: int, score: int = 1, *boxes: Sequence[int]) -> dict[str, Any]:
    """Boxes as x1, y1, x2, y2, each by another annotator."""
    drawn = [
        {"annotator": at, "x1": x1, "x2": x2, "y1": y1, "y2": y2} for at, (x1, y1, x2, y2) in enumerate(boxes)
    ]
    return {
        "query_id": query_id,
        "corpus_id": corpus_id,
        "score": score,
        "content_type": ["Table"],
        "bounding_boxes": drawn,
    }


PAGES = [
    page(0, "annual", 0, ANNUAL[0]),
    page(1, "annual", 1, ANNUAL[1]),
    page(2, "guide", 0, GUIDE),
    page(3, "annual", 2, ANNUAL[2]),
    page(4, "nobody-asks", 0, GUIDE),
]


def published(
    folder: Path,
    queries: Sequence[dict[str, Any]],
    qrels: Sequence[dict[str, Any]],
    pages: Sequence[dict[str, Any]] = PAGES,
) -> Path:
    for shard, part in enumerate((pages[:3], pages[3:])):
        write_table(folder / "corpus" / f"test-0000{shard}-of-00002.parquet", part, CORPUS, group=2)
    write_table(folder / "queries" / "test-00000-of-00001.parquet", queries, QUERIES)
    write_table(folder / "qrels" / "test-00000-of-00001.parquet", qrels, QRELS)
    rows = [
        {"doc_id": "annual", "doc_type": "Financial report"},
        {"doc_id": "guide", "doc_type": None},
        {"doc_id": "never-seen", "doc_type": "Law"},
    ]
    write_table(folder / "documents_metadata" / "test-00000-of-00001.parquet", rows, METADATA)
    return folder


def test_a_query_has_graded_pages_from_1_and_boxes_as_fractions(tmp_path: Path) -> None:
    qrels = [
        relevant(40, 2, 1, (25, 100, 75, 300)),
        relevant(40, 1, 2, (20, 10, 100, 60), (0, 0, 200, 100)),
    ]

    cases, _ = taken(ViDoReV3().open(published(tmp_path, [query(40)], qrels)))

    assert cases == [
        Case(
            uid="vidore_v3-40",
            query="How much?",
            reference_answer="Seven",
            file_name="annual.pdf",
            source_type=("Table",),
            query_type="numerical, multi-hop",
            regions=(
                Region(2, Box.unit(0.1, 0.1, 0.5, 0.6), annotator="0"),
                Region(2, Box.unit(0, 0, 1, 1), annotator="1"),
                Region(1, Box.unit(0.25, 0.25, 0.75, 0.75), "guide.pdf", "0"),
            ),
            gold=(GoldPage("annual.pdf", 2, 2), GoldPage("guide.pdf", 1, 1)),
            alternatives=("About 7", "Seven."),
            document_type="Financial report",
            benchmark="vidore_v3",
        )
    ]
    assert graded_pages(cases[0]) == {("annual.pdf", 2): 2, ("guide.pdf", 1): 1}


def test_the_document_of_a_query_is_that_of_its_most_relevant_page(tmp_path: Path) -> None:
    qrels = [relevant(0, 0), relevant(0, 2, 2), relevant(0, 1)]

    (case,) = ViDoReV3().open(published(tmp_path, [query(0)], qrels)).cases

    assert case.file_name == "guide.pdf"
    assert [(gold.document, gold.page) for gold in case.gold] == [
        ("guide.pdf", 1),
        ("annual.pdf", 1),
        ("annual.pdf", 2),
    ]


def test_the_whole_corpus_is_searched_and_its_pages_come_in_order(tmp_path: Path) -> None:
    opened = ViDoReV3().open(published(tmp_path, [query(0)], [relevant(0, 0)], PAGES[::-1]))

    documents = list(opened.documents)  # also before the cases

    assert {one.name: pages_of(one) for one in documents} == {
        "annual.pdf": ANNUAL,
        "guide.pdf": [GUIDE],
        "nobody-asks.pdf": [GUIDE],
    }


def test_queries_are_english_unless_another_language_is_asked_for(tmp_path: Path) -> None:
    queries = [query(0, "french"), query(1), query(2, "german"), query(3)]
    folder = published(tmp_path, queries, [relevant(id, 0) for id in (3, 2, 1, 0)])

    assert [case.uid for case in ViDoReV3().open(folder).cases] == ["vidore_v3-1", "vidore_v3-3"]
    assert [case.uid for case in ViDoReV3().open(folder, "French").cases] == ["vidore_v3-0"]
    with pytest.raises(CaseError, match=r"'dutch'.*english, french, german"):
        ViDoReV3().open(folder, "dutch")


def test_what_cannot_be_gold_is_left_out_and_told(tmp_path: Path) -> None:
    queries = [query(0), query(1), query(2)]
    qrels = [
        relevant(0, 0, 2, (-20, 50, 220, 90), (30, 10, 30, 60), (300, 10, 310, 20)),
        relevant(0, 0),
        relevant(0, 1, 0),
        relevant(0, 99),
        relevant(2, 4, 1, (0, 0, 1, 1)),
    ]
    pages = [*PAGES[:4], page(4, "lost", 1, b"no picture")]

    opened = ViDoReV3().open(published(tmp_path, queries, qrels, pages))
    cases, documents = taken(opened)

    assert [case.uid for case in cases] == ["vidore_v3-0", "vidore_v3-2"]
    assert cases[0].gold == (GoldPage("annual.pdf", 1, 2),)
    assert cases[0].regions == (Region(1, Box.unit(0, 0.5, 1, 0.9), annotator="0"),)
    assert (cases[1].gold, cases[1].regions) == ((GoldPage("lost.pdf", 2, 1),), ())
    assert opened.notes == [
        "Gold pages are there twice and count once (1): 0, page 0.",
        "Gold pages are not in the corpus and were left out (1): page 99.",
        "Queries have no gold page and were left out (1): query 1.",
        "Pages have no image, so that their boxes were left out (1): page 4.",
        "Questions had gold boxes without an area, which were left out (1): vidore_v3-0.",
    ]
    assert [pages_of(one) for one in documents if one.name == "lost.pdf"] == [[None]]


def test_several_sets_beside_one_another_are_told_apart(tmp_path: Path) -> None:
    for name in ("vidore_v3_hr", "vidore_v3_energy"):
        published(tmp_path / name, [query(0)], [relevant(0, 0)])

    cases, documents = taken(ViDoReV3().open(tmp_path))

    assert [case.uid for case in cases] == ["vidore_v3-energy-0", "vidore_v3-hr-0"]
    assert [case.file_name for case in cases] == ["energy-annual.pdf", "hr-annual.pdf"]
    assert len({source.name for source in documents}) == 6


def test_a_set_without_the_language_is_left_out_beside_one_that_has_it(tmp_path: Path) -> None:
    published(tmp_path / "vidore_v3_hr", [query(0)], [relevant(0, 0)])
    published(tmp_path / "vidore_v3_energy", [query(0, "french")], [relevant(0, 0)])

    opened = ViDoReV3().open(tmp_path, "french")
    cases, documents = taken(opened)

    assert [case.uid for case in cases] == ["vidore_v3-energy-0"]
    assert all(source.name.startswith("energy-") for source in documents)
    assert "Data sets have no queries in that language and were left out (1): hr." in opened.notes


@pytest.mark.parametrize("name", ["a/../../b", "a:b", ".a", "x" * 400, "v1.2", "", "a\nb"])
def test_any_id_of_a_document_becomes_a_plain_file_name(tmp_path: Path, name: str) -> None:
    folder = published(tmp_path / "set", [query(0)], [relevant(0, 0)], [page(0, name, 0, GUIDE)])

    cases, documents = taken(ViDoReV3().open(folder))

    assert cases[0].file_name == documents[0].name
    assert documents[0].name.endswith(".pdf")
    assert not set(documents[0].name) & set("/\\:\n")
    assert not documents[0].name.startswith(".")
    assert len(documents[0].name) < 200


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ([page(0, "a", -1, GUIDE)], "page_number_in_doc"),
        ([page(0, "a", 10**9, GUIDE)], "page_number_in_doc"),
        ([page(0, "a", 0, GUIDE), page(0, "a", 1, GUIDE)], "id 0"),
        ([page(0, "a", 0, GUIDE), page(1, "a", 0, GUIDE)], "page 1 of a.pdf"),
        ([page(0, "a/b", 0, GUIDE), page(1, "a:b", 0, GUIDE)], "page 1 of a_b.pdf"),
    ],
)
def test_a_corpus_that_is_not_as_published_is_refused(
    tmp_path: Path, pages: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(CaseError, match=rf"test-0000.*{told}"):
        list(ViDoReV3().open(published(tmp_path, [query(0)], [relevant(0, 0)], pages)).cases)


def test_a_missing_table_or_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"queries/.*vidore/vidore_v3"):
        ViDoReV3().open(tmp_path)
    folder = published(tmp_path, [query(0)], [relevant(0, 0)])
    write_table(
        folder / "qrels" / "test-00000-of-00001.parquet",
        [{"query_id": 0}],
        pa.schema([QRELS.field(0)]),
    )
    with pytest.raises(CaseError, match="no column 'corpus_id'"):
        list(ViDoReV3().open(folder).cases)
    (folder / "qrels" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(CaseError, match="qrels/test-"):
        ViDoReV3().open(folder)


def test_a_set_that_does_not_say_what_its_documents_are_is_read(tmp_path: Path) -> None:
    folder = published(tmp_path, [query(0, raw_answers=None, answer=None)], [relevant(0, 0)])
    (folder / "documents_metadata" / "test-00000-of-00001.parquet").unlink()

    (case,) = ViDoReV3().open(folder).cases

    assert (case.document_type, case.reference_answer, case.alternatives) == ("", "", ())
