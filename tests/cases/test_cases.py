from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.cases import case_of, row_of
from vrag.datasets.registry import read_cases
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, Region

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def row(**changes: object) -> dict[str, Any]:
    """A whole case; None takes a field out."""
    whole = {
        "uid": "u1",
        "query": "What is the temperature?",
        "reference_answer": "195-205 Centigrade",
        "meta_info": {
            "file_name": "a.pdf",
            "reference_page": [10, 11],
            "source_type": "Text",
            "query_type": "Multi-Hop",
        },
    } | changes
    return {name: value for name, value in whole.items() if value is not None}


def meta(**changes: object) -> dict[str, Any]:
    return row(meta_info={"file_name": "a.pdf", **changes})


def parsed(value: Mapping[str, Any]) -> Case:
    return case_of(value, "case")


def test_the_seeds_own_example_is_read() -> None:
    assert parsed(row()) == Case(
        uid="u1",
        query="What is the temperature?",
        reference_answer="195-205 Centigrade",
        file_name="a.pdf",
        reference_page=(10, 11),
        source_type=("Text",),
        query_type="Multi-Hop",
    )


def test_a_box_slightly_beyond_its_page_is_cut_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row(uid="a"), row(uid="b", regions=[{"page": 2, "box": [-0.0004, 0.5, 0.5, 1.0003]}])]
    (tmp_path / "set.json").write_text(json.dumps(rows), encoding="utf-8")

    read = read_cases(tmp_path / "set.json")

    assert read[1].regions == (Region(2, Box.unit(0, 0.5, 0.5, 1)),)
    (record,) = caplog.records
    assert "set.json: gold boxes reach beyond their page, by 0.0004 of it" in record.getMessage()
    assert "Questions: 1; the first is 'b'" in record.getMessage()


def test_the_type_of_a_document_is_spelled_as_by_the_reference_and_read_in_both_spellings() -> None:
    case = parsed(meta(doc_type="Guidebook"))

    assert case.document_type == parsed(meta(document_type="Guidebook")).document_type == "Guidebook"
    assert row_of(case)["meta_info"]["doc_type"] == "Guidebook"


def test_examples_and_bare_lists_and_single_objects_are_the_same(tmp_path: Path) -> None:
    for value in ({"examples": [row()]}, [row()], row()):
        (tmp_path / "set.json").write_text(json.dumps(value), encoding="utf-8")
        assert read_cases(tmp_path / "set.json") == [parsed(row())]


@pytest.mark.parametrize(
    ("given_pages", "pages"),
    [([0], ()), ([0, 3], (3,)), ([3, 3, 1], (3, 1)), ("[3, 5]", (3, 5)), (7, (7,)), (None, ()), ("[]", ())],
)
def test_pages_are_read_in_all_their_forms_and_page_0_is_none(
    given_pages: object, pages: tuple[int, ...]
) -> None:
    assert parsed(meta(reference_page=given_pages)).reference_page == pages


@pytest.mark.parametrize(
    ("answer", "text"),
    [(12, "12"), (0.5, "0.5"), (["46", "27"], '["46", "27"]'), ("", ""), (["是"], '["是"]')],
)
def test_answers_that_are_numbers_or_lists_become_text(answer: object, text: str) -> None:
    assert parsed(row(reference_answer=answer)).reference_answer == text


def test_regions_are_read_with_their_corners_put_in_order() -> None:
    regions = [{"page": 2, "box": [0.5, 0.25, 0.1, 1]}, {"page": 0, "box": [0, 0, 1, 1]}]
    assert parsed(row(regions=regions)).regions == (Region(2, Box.unit(0.1, 0.25, 0.5, 1)),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "case.uid: Field required"),
        (row(query=None), "case.query: Field required"),
        (row(query=""), "case.query"),
        (row(query="\ud800"), "case.query"),
        (row(uid=True), "case.uid"),
        (row(reference_answer={"a": 1}), "case.reference_answer"),
        (row(meta_info="a.pdf"), "case.meta_info"),
        (row(meta_info={}), "case.meta_info.file_name: Field required"),
        (meta(reference_page=[-1]), "reference_page.0"),
        (meta(reference_page=["3"]), "reference_page.0"),
        (meta(reference_page=[True]), "reference_page.0"),
        (meta(reference_page="[3,"), "reference_page.0"),
        (meta(source_type=[3]), "source_type.0"),
        (row(regions=[{"page": 1, "box": [0, 0, 1]}]), "regions.0.box"),
        (row(regions=[{"page": 1, "box": [0, 0, 1, 2]}]), "regions.0.box.3"),
        (row(regions=[{"page": 1, "box": [0, 0, 1, 1.02]}]), "regions.0.box.3"),
        (
            row(regions=[{"page": 1, "box": [0, 0, 1, 1]}, {"page": 1, "box": [-0.02, 0, 1, 1]}]),
            "regions.1.box.0",
        ),
    ],
)
def test_bad_input_is_refused_with_its_place(value: Mapping[str, Any], message: str) -> None:
    with pytest.raises(CaseError, match=message):
        parsed(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "uid": JSON | st.just("u"),
        "query": JSON | st.just("q"),
        "reference_answer": JSON,
        "regions": JSON | st.lists(st.fixed_dictionaries({"page": st.integers(), "box": JSON})),
        "meta_info": JSON
        | st.fixed_dictionaries(
            {"file_name": st.just("a.pdf") | JSON},
            optional={
                "reference_page": JSON | st.lists(st.integers()),
                "source_type": JSON,
                "query_type": JSON,
            },
        ),
    },
)


@given(FIELDS)
def test_any_object_is_read_or_refused(value: Mapping[str, Any]) -> None:
    try:
        case = parsed(value)
    except CaseError:
        return
    assert parsed(row_of(case)) == case


@given(
    JSON
    | FIELDS
    | st.lists(FIELDS, max_size=3)
    | st.fixed_dictionaries({"examples": JSON | st.lists(FIELDS)})
)
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with suppress(CaseError):
        read_cases(path)


UNIT = st.floats(0, 1)
BOXES = st.tuples(UNIT, UNIT, UNIT, UNIT).map(
    lambda box: Box.unit(min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3]))
)
PAGE = st.integers(1, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
CASES = st.lists(
    st.builds(
        Case,
        uid=TEXT.filter(bool),
        query=TEXT.filter(bool),
        reference_answer=TEXT,
        file_name=TEXT.filter(bool),
        reference_page=st.lists(PAGE, unique=True).map(tuple),
        source_type=st.lists(TEXT).map(tuple),
        query_type=TEXT,
        regions=st.lists(st.builds(Region, PAGE, BOXES), max_size=3).map(tuple),
    ),
    max_size=3,
    unique_by=lambda case: case.uid,
)


@given(CASES)
def test_what_is_written_is_read_again(cases: list[Case]) -> None:
    assert [parsed(json.loads(json.dumps(row_of(case)))) for case in cases] == cases


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(json.dumps([row(query="温度是多少？")], ensure_ascii=False), encoding=encoding)
        assert read_cases(path)[0].query == "温度是多少？"
