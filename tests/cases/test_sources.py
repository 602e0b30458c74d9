"""Published data sets as they come: their page bases, their lists as text, their ways to be broken."""

from __future__ import annotations

import copy
import importlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.cases import SOURCES, open_cases
from vrag.cases.rows import read_rows
from vrag.cases.source import literal_list
from vrag.errors import CaseError, SettingsError
from vrag.geometry import Box
from vrag.types import AnswerFormat, Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

SLIDEVQA = {
    "deck_name": "budget-talk",
    "qa_id": 12,
    "question": "What is the sum?",
    "answer": "7",
    "arithmetic_expression": "3+4",
    "evidence_pages": [1, 20],
}
MMLONGBENCH = {
    "doc_id": "report.pdf",
    "doc_type": "Research report",
    "question": "Which colours?",
    "answer": "['red', 'blue']",
    "evidence_pages": "[3, 0, 5]",
    "evidence_sources": "['Chart', 'Table']",
    "answer_format": "List",
}
MMDOCIR: dict[str, Any] = {
    "doc_name": "report",
    "domain": "News",
    "page_indices": [0, 9],
    "layout_indices": [0, 90],
    "questions": [
        {
            "Q": "Where?",
            "A": "Orla",
            "type": "['Figure']",
            "page_id": [0, 4],
            "layout_mapping": [{"page": 4, "page_size": [600, 800], "bbox": [60, 80, 300, 900]}],
        }
    ],
}
HOTPOTQA: dict[str, Any] = {
    "_id": "5a8b57f25542995d1e6f1371",
    "question": "Were both American?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0]],
    "context": [["Ed Wood", ["He was …"]]],
}
SQUAD: dict[str, Any] = {
    "title": "Normandy",
    "paragraphs": [
        {
            "context": "The Normans …",
            "qas": [
                {"id": "1", "question": "Who?", "answers": [{"text": "Normans", "answer_start": 4}]},
                {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
            ],
        }
    ],
}
ROWS: dict[str, dict[str, Any]] = {
    "slidevqa": SLIDEVQA,
    "mmlongbench": MMLONGBENCH,
    "mmdocir": MMDOCIR,
    "hotpotqa": HOTPOTQA,
    "squad": SQUAD,
}


def read(path: Path, value: object, source: str | None = None) -> tuple[str, list[Case]]:
    """What a JSON file with this value is read as."""
    path.write_text(json.dumps(value), encoding="utf-8")
    found, cases = open_cases(path, source)
    return found.name, list(cases)


@pytest.mark.parametrize("name", ROWS)
def test_a_set_is_recognised_by_its_columns(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / "a.json", [ROWS[name]])[0] == name


def test_slidevqa_counts_pages_from_1(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", [SLIDEVQA])

    assert case == Case(
        uid="12",
        query="What is the sum?",
        reference_answer="7",
        file_name="budget-talk.pdf",
        reference_page=(1, 20),
        query_type="Multi-Hop",
    )


@pytest.mark.parametrize("pages", [[0], [21], ["3"], "[0]"])
def test_a_page_outside_of_a_deck_is_refused(tmp_path: Path, pages: object) -> None:
    with pytest.raises(CaseError, match="from 1 to 20"):
        read(tmp_path / "a.json", [SLIDEVQA | {"evidence_pages": pages}])


def test_the_pictures_of_a_deck_are_not_read_with_its_questions(tmp_path: Path) -> None:
    row = SLIDEVQA | {f"page_{page}": {"bytes": b"x" * 1000} for page in range(1, 21)}
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")

    (read_row,) = read_rows(tmp_path / "a.parquet")
    found, cases = open_cases(tmp_path / "a.parquet")

    assert read_row == SLIDEVQA
    assert found.name == "slidevqa"
    assert [case.uid for case in cases] == ["12"]


def test_mmlongbench_counts_pages_from_1_and_its_page_0_is_no_page(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", [MMLONGBENCH])

    assert case.reference_page == (3, 5)
    assert case.source_type == ("Chart", "Table")
    assert case.reference_answer == "['red', 'blue']"


def test_a_question_of_mmlongbench_without_an_answer_says_so(tmp_path: Path) -> None:
    row = MMLONGBENCH | {"answer": "Not answerable", "evidence_pages": "[]"}

    _, (case,) = read(tmp_path / "a.json", [row])

    assert (case.query_type, case.reference_page) == ("Unanswerable", ())


def test_a_question_without_an_answer_has_no_gold_page_whatever_its_row_says(tmp_path: Path) -> None:
    row = MMLONGBENCH | {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[10]"}

    _, (case,) = read(tmp_path / "a.json", [row])

    assert (case.answer_format, case.document_type) == (AnswerFormat.NONE, "Research report")
    assert case.reference_page == ()


def test_slidevqa_may_have_no_gold_page_and_may_say_what_reasoning_it_takes(tmp_path: Path) -> None:
    rows = [SLIDEVQA | {"evidence_pages": None}, SLIDEVQA | {"qa_id": "13", "reasoning_type": "Numerical"}]

    _, cases = read(tmp_path / "a.json", rows)

    assert [case.reference_page for case in cases] == [(), (1, 20)]
    assert [case.query_type for case in cases] == ["Single-Hop", "Numerical"]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('pathlib').Path('pwned').touch()",
        "[__import__('pathlib').Path('pwned').touch()]",
        "[3, ",
        "3",
        "",
        "{'a': 1}",
        "[" * 5_000,
        "[" + "1," * 10_000 + "]",
        "\x00",
    ],
)
def test_a_list_as_text_is_read_and_never_run(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CaseError, match="evidence_pages"):
        read(tmp_path / "a.json", [MMLONGBENCH | {"evidence_pages": text}])

    assert not (tmp_path / "pwned").exists()


@given(value=st.lists(st.integers() | st.text(max_size=9), max_size=9))
def test_a_list_comes_back_from_its_text_in_python(value: list[object]) -> None:
    assert literal_list({"pages": repr(value)}, "pages") == value


def test_mmdocir_counts_pages_from_0_and_its_boxes_become_fractions(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", MMDOCIR)

    assert case == Case(
        uid="mmdocir-0-0",
        query="Where?",
        reference_answer="Orla",
        file_name="report.pdf",
        reference_page=(1, 5),
        source_type=("Figure",),
        query_type="Multi-Hop",
        regions=(Region(5, Box.unit(0.1, 0.1, 0.5, 1.0)),),
        document_type="News",
    )


@pytest.mark.parametrize(
    "layout",
    [
        {"page": 0, "page_size": [0, 800], "bbox": [0, 0, 1, 1]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1, "1"]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1, 10**400]},
        {"page": -1, "page_size": [600, 800], "bbox": [0, 0, 1, 1]},
        {"page": 0},
        "here",
        None,
    ],
)
def test_a_box_that_cannot_be_placed_is_refused(tmp_path: Path, layout: object) -> None:
    question = MMDOCIR["questions"][0] | {"layout_mapping": [layout]}

    with pytest.raises(CaseError, match="row 1: A"):
        read(tmp_path / "a.json", [MMDOCIR | {"questions": [question]}])


def test_hotpotqa_names_its_supporting_articles_each_once(tmp_path: Path) -> None:
    facts = [*HOTPOTQA["supporting_facts"], ["Scott Derrickson", 1]]
    _, (case,) = read(tmp_path / "a.json", [HOTPOTQA | {"supporting_facts": facts}])

    assert (case.uid, case.file_name) == ("5a8b57f25542995d1e6f1371", "Scott Derrickson")
    assert (case.query_type, case.reference_page) == ("Multi-Hop", ())
    assert case.gold == (GoldPage("Scott Derrickson"), GoldPage("Ed Wood"))


def test_the_parquet_of_hotpotqa_reads_as_its_json(tmp_path: Path) -> None:
    facts = {"title": ["Scott Derrickson", "Ed Wood"], "sent_id": [0, 0]}
    row = {name: HOTPOTQA[name] for name in ("question", "answer")} | {
        "id": HOTPOTQA["_id"],
        "supporting_facts": facts,
    }
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")

    assert list(open_cases(tmp_path / "a.parquet")[1]) == read(tmp_path / "a.json", [HOTPOTQA])[1]


def test_squad_gives_the_first_answer_and_tells_what_has_none(tmp_path: Path) -> None:
    _, cases = read(tmp_path / "a.json", {"version": "v2.0", "data": [SQUAD]})

    assert [(case.reference_answer, case.query_type) for case in cases] == [
        ("Normans", "Single-Hop"),
        ("Not answerable", "Unanswerable"),
    ]
    assert {case.file_name for case in cases} == {"Normandy"}


def test_squad_gives_other_right_answers_each_once_and_never_a_plausible_one(tmp_path: Path) -> None:
    article = copy.deepcopy(SQUAD)
    one, other = article["paragraphs"][0]["qas"]
    one["answers"] = [{"text": text} for text in ("Normans", "the Normans", "Normans", "")]
    other["plausible_answers"] = [{"text": "the Normans", "answer_start": 0}]

    _, cases = read(tmp_path / "a.json", {"data": [article]})

    assert [case.references for case in cases] == [("Normans", "the Normans"), ("Not answerable",)]


def test_a_test_set_without_answers_is_no_set_of_questions_that_have_none(tmp_path: Path) -> None:
    hidden = {"context": "c", "qas": [{"id": "1", "question": "?"}]}

    with pytest.raises(CaseError, match="'answers' is no list"):
        read(tmp_path / "a.json", {"data": [{"title": "Normandy", "paragraphs": [hidden]}]})


def test_the_parquet_of_squad_reads_as_its_json(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "1",
            "title": "Normandy",
            "context": "…",
            "question": "Who?",
            "answers": {"text": ["Normans"]},
        },
        {"id": "2", "title": "Normandy", "context": "…", "question": "Why?", "answers": {"text": []}},
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")

    assert list(open_cases(tmp_path / "a.parquet")[1]) == read(tmp_path / "a.json", {"data": [SQUAD]})[1]


def test_json_lines_are_read_also_where_the_file_is_called_json(tmp_path: Path) -> None:
    lines = "".join(json.dumps(SLIDEVQA | {"qa_id": number}) + "\n\n" for number in range(3))
    for name in ("a.jsonl", "a.json"):
        (tmp_path / name).write_text(lines, encoding="utf-8")
        assert [case.uid for case in open_cases(tmp_path / name)[1]] == ["0", "1", "2"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no files for descriptors here")
def test_json_lines_are_read_out_of_a_pipe_which_gives_them_once() -> None:
    out, into = os.pipe()
    with os.fdopen(into, "w") as pipe:
        pipe.writelines(json.dumps(SLIDEVQA | {"qa_id": number}) + "\n" for number in range(3))
    try:
        assert [case.uid for case in open_cases(Path(f"/dev/fd/{out}"))[1]] == ["0", "1", "2"]
    finally:
        os.close(out)


def test_a_broken_line_is_named_and_what_stands_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(SLIDEVQA) + "\n{\n", encoding="utf-8")
    cases = open_cases(tmp_path / "a.jsonl")[1]

    assert next(cases).uid == "12"
    with pytest.raises(CaseError, match="line 2"):
        next(cases)


def test_the_row_to_blame_is_named(tmp_path: Path) -> None:
    broken = {name: value for name, value in SLIDEVQA.items() if name != "deck_name"}

    with pytest.raises(CaseError, match=r"a\.json, row 2: There is no 'deck_name'"):
        read(tmp_path / "a.json", [SLIDEVQA, broken])


def test_two_cases_with_one_uid_are_refused(tmp_path: Path) -> None:
    rows = [SLIDEVQA, SLIDEVQA | {"qa_id": 13}, SLIDEVQA]
    with pytest.raises(CaseError, match=r"a\.json, row 3: The uid '12' is that of row 1 too\. Take"):
        read(tmp_path / "a.json", rows)


def test_a_row_of_ours_that_lacks_a_field_says_which(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"query": "Who?", "meta_info": {}}]')
    with pytest.raises(CaseError, match=r"row 1\.uid: Field required"):
        list(open_cases(tmp_path / "a.json")[1])


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"", "not JSON"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" + b"9" * 5000 + b"]", "not JSON"),
        ("a.json", b'{"examples": 1}', "their columns: examples"),
        ("a.json", b"\xff\xfe", "UTF-8"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.json", b"[]", "no questions"),
        ("a.json", b"3", r"a\.json holds no list of cases"),
        ("a.json", b"[3]", r"a\.json, row 1 is no object"),
        ("a.json", b'[{"a": 1}]', "their columns: a"),
        ("a.jsonl", b"", "no questions"),
        ("a.jsonl", b"\xff", "UTF-8"),
        ("a.parquet", b"PAR1 no", "not a parquet"),
        ("a.parquet", b"", "not a parquet"),
        ("a.parquet", b"PAR1" + bytes(500) + b"PAR1", "not a parquet file, or damaged: .*[^ .]\\.$"),
        ("a.csv", b"a,b", r"\.csv, not in"),
        ("a", b"", "not JSON"),
    ],
)
def test_a_file_that_is_no_data_set_is_refused(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CaseError, match=why):
        open_cases(tmp_path / name)


@pytest.mark.parametrize("row", ["dataset", "squad", "slidevqa"])
def test_an_answer_that_is_not_a_number_is_missing_and_no_answer(tmp_path: Path, row: str) -> None:
    rows: dict[str, Mapping[str, object]] = {
        "dataset": {
            "uid": 1,
            "query": "?",
            "reference_answer": float("nan"),
            "meta_info": {"file_name": "a.pdf"},
        },
        "squad": {"title": float("nan"), "context": "c", "question": "?", "id": "1", "answers": []},
        "slidevqa": SLIDEVQA | {"answer": float("nan")},
    }
    (tmp_path / "a.json").write_text(json.dumps([rows[row]]))

    with pytest.raises(CaseError, match="row 1"):
        list(open_cases(tmp_path / "a.json")[1])


@pytest.mark.parametrize("row", ["dataset", "slidevqa"])
def test_an_answer_that_is_larger_than_any_float_is_a_number_all_the_same(tmp_path: Path, row: str) -> None:
    rows: dict[str, Mapping[str, object]] = {
        "dataset": {
            "uid": 1,
            "query": "?",
            "reference_answer": 10**400,
            "meta_info": {"file_name": "a.pdf"},
        },
        "slidevqa": SLIDEVQA | {"answer": 10**400},
    }

    _, (case,) = read(tmp_path / "a.json", [rows[row]])

    assert case.reference_answer == str(10**400)


@pytest.mark.parametrize("name", ["missing.json", "missing.parquet", "folder.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.json").mkdir()

    with pytest.raises(CaseError, match="cannot be read"):
        open_cases(tmp_path / name)


def test_a_damaged_parquet_is_refused_wherever_it_breaks(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist([SLIDEVQA] * 50), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for at in range(4, len(whole) - 8, 97):
        (tmp_path / "a.parquet").write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
        try:
            list(open_cases(tmp_path / "a.parquet")[1])
        except CaseError:
            continue


def test_an_unknown_source_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[{}]")

    with pytest.raises(SettingsError) as refused:
        open_cases(tmp_path / "a.json", "webqa")

    assert all(name in refused.value.hint for name in SOURCES)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Each place in a value, however deep, as its holder and its key."""
    if isinstance(value, dict):
        pairs = list(cast("dict[Any, Any]", value).items())
    else:
        pairs = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(ROWS)), data=st.data())
def test_any_value_in_any_column_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    row = copy.deepcopy(ROWS[name])
    holder, key = data.draw(st.sampled_from(list(_places(row))))
    holder[key] = data.draw(anything)

    try:
        _, cases = read(tmp_path / "a.json", [row], name)
    except CaseError:
        return

    assert all(case.query and case.file_name and min(case.reference_page, default=1) > 0 for case in cases)


@pytest.mark.parametrize("name", ["dataset", "vidoseek"])
def test_real_questions_are_read_in_full(name: str) -> None:
    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "mmlongbench-dev" / "rag_dataset.json"
    if not path.exists():
        pytest.skip("the data set for development is not here")

    cases = list(open_cases(path, name)[1])

    assert len(cases) == 159
    assert sum(case.query_type == "Unanswerable" for case in cases) == 29
    assert sum(len(case.regions) for case in cases) == 240


def test_a_list_of_what_no_list_may_hold_is_refused() -> None:
    with pytest.raises(CaseError, match="is no list"):
        literal_list({"pages": "[{[]: 1}]"}, "pages")
