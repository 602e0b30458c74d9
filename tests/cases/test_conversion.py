"""Cases to parquet and back: the columns that trainers read, and what the reference's converter left out."""

from __future__ import annotations

import importlib
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.cases import ParquetOptions, case_of, parquet_schema, write_cases, write_parquet
from vrag.cases.parquet import read_labels, read_types, write_labels, write_types
from vrag.datasets.registry import SOURCES, open_cases, with_distinct_ids
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import AnswerFormat, Case, GoldFact, Region

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

RAG = ParquetOptions()

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
made_cases = st.lists(
    st.builds(
        Case,
        uid=words,
        query=words,
        reference_answer=st.text(st.characters(codec="utf-8"), max_size=20),
        file_name=words,
        reference_page=st.lists(st.integers(1, 500), max_size=4, unique=True).map(tuple),
        source_type=st.lists(words | st.just("Nan") | st.just("a####b"), max_size=3).map(tuple),
        query_type=words | st.just("") | st.just("Nan"),
        document_type=words | st.just(""),
        answer_format=st.sampled_from(AnswerFormat),
    ),
    max_size=5,
    unique_by=lambda case: case.uid,
)


CASE = Case(
    uid="u1",
    query="How many?",
    reference_answer="84,210",
    file_name="a.pdf",
    reference_page=(3, 5),
    source_type=("Table", "Chart"),
    query_type="Multi-Hop",
)


def test_the_columns_are_those_of_the_contract(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [("rag", CASE)], RAG)

    written = parquet.read_schema(tmp_path / "a.parquet").remove_metadata()

    assert written == parquet_schema()
    pages = "list<element: int64>"
    region = "struct<page: int64, box: list<element: double>, document: string, annotator: string>"
    types = "source_type: list<element: string>, query_type: string, doc_type: string, answer_format: string"
    assert {field.name: str(field.type) for field in written} == {
        "id": "string",
        "prompt": "list<element: struct<role: string, content: string>>",
        "data_source": "string",
        "ability": "string",
        "reward_model": "struct<style: string, ground_truth: string>",
        "extra_info": "struct<split: string, index: int64, answer: string, question: string, "
        f"content_type: string, reason_type: string, file_name: string, reference_page: {pages}, "
        f"meta_info: struct<{types}>, regions: list<element: {region}>>",
        "file_name": "string",
        "reference_page": pages,
    }


def test_a_row_says_what_the_trainer_asks_for(tmp_path: Path) -> None:
    options = ParquetOptions(split="test", instruction="Search first.")
    write_parquet(tmp_path / "a.parquet", [("rag", CASE)], options)

    (row,) = parquet.read_table(tmp_path / "a.parquet").to_pylist()

    assert row == {
        "id": "u1",
        "prompt": [{"role": "user", "content": "Search first.\nHow many?"}],
        "data_source": "rag",
        "ability": "vqa",
        "reward_model": {"style": "rule", "ground_truth": "84,210"},
        "extra_info": {
            "split": "test",
            "index": 0,
            "answer": "84,210",
            "question": "How many?",
            "content_type": "Table####Chart",
            "reason_type": "Multi-Hop",
            "file_name": "a.pdf",
            "reference_page": [3, 5],
            "meta_info": {
                "source_type": ["Table", "Chart"],
                "query_type": "Multi-Hop",
                "doc_type": "",
                "answer_format": "",
            },
            "regions": [],
        },
        "file_name": "a.pdf",
        "reference_page": [3, 5],
    }


def test_a_case_without_pages_has_an_empty_list_and_no_null(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "a.parquet",
        [("rag", replace(CASE, reference_page=(), source_type=(), query_type=""))],
        RAG,
    )

    (row,) = parquet.read_table(tmp_path / "a.parquet").to_pylist()

    assert row["reference_page"] == row["extra_info"]["reference_page"] == []
    assert (row["extra_info"]["content_type"], row["extra_info"]["reason_type"]) == ("Nan", "Nan")


@settings(max_examples=40, deadline=None)
@given(
    cases=made_cases,
    data_source=st.sampled_from(["rag", "vidoseek", "slidevqa_train", "slidevqa_test", "mmlongdoc"]),
)
def test_cases_come_back_from_parquet_as_they_were(
    cases: list[Case], data_source: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "a.parquet"

    assert write_parquet(path, [(data_source, case) for case in cases], RAG) == len(cases)

    if cases:
        source, read = open_cases(path)
        assert source.name == "parquet"
        assert list(read) == cases


@settings(max_examples=40, deadline=None)
@given(cases=made_cases)
def test_cases_come_back_from_json_as_they_were(
    cases: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "a.json"

    assert write_cases(path, cases) == len(cases)

    if cases:
        assert list(open_cases(path)[1]) == cases


def test_gold_boxes_and_their_annotators_come_back(tmp_path: Path) -> None:
    box = Box.unit(0.1, 0.2, 0.5, 0.3)
    boxed = replace(CASE, regions=(Region(3, box), Region(5, box, "b.pdf", "2")))

    write_cases(tmp_path / "a.json", [boxed])
    write_parquet(tmp_path / "a.parquet", [("rag", boxed)], RAG)

    assert list(open_cases(tmp_path / "a.json")[1]) == [boxed]
    assert list(open_cases(tmp_path / "a.parquet")[1]) == [boxed]


def test_gold_facts_stay_in_json(tmp_path: Path) -> None:
    case = replace(CASE, facts=(GoldFact("Fennick has 97 households.", 3),))

    write_cases(tmp_path / "a.json", [case])

    assert list(open_cases(tmp_path / "a.json")[1]) == [case]


@given(labels=st.lists(words | st.sampled_from(["Nan", "[", '["a"]', "####", "a####", ""]), max_size=4))
def test_labels_come_back_whatever_they_are(labels: list[str]) -> None:
    assert read_labels(write_labels(labels)) == labels


def test_rows_are_written_in_groups_and_read_in_batches(tmp_path: Path) -> None:
    options = ParquetOptions(row_group=10)
    cases = (("rag", replace(CASE, uid=f"u{number}")) for number in range(25))

    assert write_parquet(tmp_path / "a.parquet", cases, options) == 25

    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)] == [10, 10, 5]
    assert file.read(["extra_info"]).to_pylist()[24]["extra_info"]["index"] == 24


def test_cases_are_written_while_they_come(tmp_path: Path) -> None:
    sizes: list[int] = []

    def slowly() -> Iterator[tuple[str, Case]]:
        for number in range(30):
            (unfinished,) = tmp_path.iterdir()
            sizes.append(unfinished.stat().st_size)
            yield "rag", replace(CASE, uid=f"u{number}", query=Random(number).randbytes(9_000).hex())

    write_parquet(tmp_path / "a.parquet", slowly(), ParquetOptions(row_group=10))

    assert sizes[25] > sizes[15] > sizes[5]


@pytest.mark.parametrize("failure", [CaseError("row 2 is not an object."), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_a_failure_midway_leaves_the_former_file(tmp_path: Path, name: str, failure: BaseException) -> None:
    target = tmp_path / name
    target.write_text("the former")

    def broken() -> Iterator[Case]:
        yield CASE
        raise failure

    def write() -> int:
        if name == "a.json":
            return write_cases(target, broken())
        return write_parquet(target, (("rag", case) for case in broken()), RAG)

    with pytest.raises(type(failure)):
        write()

    assert target.read_text() == "the former"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("place", ["missing/a.parquet", "folder.parquet"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder.parquet").mkdir()

    with pytest.raises(CaseError, match="cannot be written"):
        write_parquet(tmp_path / place, [("rag", CASE)], RAG)


def test_words_that_are_no_text_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    """As a shell hands them over that was given a byte which is no UTF-8."""
    with pytest.raises(CaseError, match="not text in UTF-8"):
        write_parquet(tmp_path / "a.parquet", [("rag", CASE)], ParquetOptions(split="\udcff"))

    assert not list(tmp_path.iterdir())


def test_the_references_own_parquet_is_read_though_columns_are_missing_at_the_top(tmp_path: Path) -> None:
    """Its converter takes `file_name` and `reference_page` out of the row that its trainer reads."""
    row = {
        "id": "7",
        "data_source": "mmlongdoc",
        "prompt": [{"role": "user", "content": "…"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "4"},
        "extra_info": {
            "split": "test",
            "index": 0,
            "answer": "4",
            "question": "How many?",
            "content_type": "Table####Chart",
            "reason_type": "Nan",
            "file_name": "a.pdf",
            "reference_page": [2, 0],
        },
    }
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")

    (read,) = open_cases(tmp_path / "a.parquet")[1]

    assert read == Case(
        uid="7",
        query="How many?",
        reference_answer="4",
        file_name="a.pdf",
        reference_page=(2,),
        source_type=("Table", "Chart"),
    )


def test_every_name_of_a_data_source_seen_in_the_reference_is_one_of_ours() -> None:
    ours = {source.data_source(split) for source in SOURCES.values() for split in ("train", "test")}

    assert {"slidevqa_train", "slidevqa_test", "mmlongdoc", "vidoseek", "rag"} <= ours


REFERENCE_TYPES: list[tuple[str, dict[str, Any], str, str]] = [
    # What the reference's hf_dataset_convert.py wrote, run as it is: data source, meta_info, its two columns.
    ("slidevqa_test", {"query_type": "Single-Hop_Single-Span"}, "SingleSpan", "SingleHop"),
    ("slidevqa_test", {"query_type": "Single-Hop_Multi-Span"}, "MultiSpan", "SingleHop"),
    ("slidevqa_test", {"query_type": "Multi-Hop_Non-Span"}, "NonSpan", "MultiHop"),
    ("mmlongdoc", {"source_type": ["Chart"], "doc_type": "Guidebook"}, "Chart", "Guidebook"),
    ("mmlongdoc", {"source_type": ["Table", "Chart"], "doc_type": "Plan"}, "Table####Chart", "Plan"),
    ("mmlongdoc", {"source_type": [], "doc_type": "Plan"}, "", "Plan"),
    ("vidoseek", {"source_type": "Text", "query_type": "Multi-Hop"}, "Text", "Multi-Hop"),
]


@pytest.mark.parametrize(("data_source", "meta", "content_type", "reason_type"), REFERENCE_TYPES)
def test_types_stand_where_the_reference_writes_them(
    data_source: str, meta: dict[str, Any], content_type: str, reason_type: str
) -> None:
    case = case_of(
        {"uid": "1", "query": "?", "reference_answer": "4", "meta_info": {"file_name": "a.pdf", **meta}}, "it"
    )

    assert write_types(case, data_source) == (content_type, reason_type)
    assert write_types(case, "slidevqa_train") == ("Nan", "Nan")
    row = {"file_name": "a.pdf", **read_types(content_type, reason_type, data_source)}
    again = case_of({"uid": "1", "query": "?", "reference_answer": "4", "meta_info": row}, "it")
    assert again == case


def test_ids_that_two_files_share_are_told_apart() -> None:
    one, other = CASE, replace(CASE, query="And how many here?")

    found = list(with_distinct_ids([("slidevqa_test", one), ("mmlongdoc", other)]))

    assert [case.uid for _, case in found] == ["u1", "mmlongdoc-u1"]
    with pytest.raises(CaseError, match="more than once in rag"):
        list(with_distinct_ids([("rag", one), ("rag", other), ("rag", other)]))
