"""Published data sets as they come: told from each other, and refused where they are broken."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published_rows import ROWS, SLIDEVQA, read

from vrag.datasets.registry import SOURCES, open_cases
from vrag.errors import CaseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.mark.parametrize("name", ROWS)
def test_a_set_is_recognised_by_its_columns(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / "a.json", [ROWS[name]])[0] == name


def test_the_row_to_blame_is_named(tmp_path: Path) -> None:
    broken = {name: value for name, value in SLIDEVQA.items() if name != "deck_name"}

    with pytest.raises(CaseError, match=r"a\.json, row 2: There is no 'deck_name'"):
        read(tmp_path / "a.json", [SLIDEVQA, broken])


def test_two_cases_with_one_uid_are_refused(tmp_path: Path) -> None:
    rows = [SLIDEVQA, SLIDEVQA | {"qa_id": 13}, SLIDEVQA]
    with pytest.raises(CaseError, match=r"a\.json, row 3: The uid '12' is that of row 1 too\. Remove"):
        read(tmp_path / "a.json", rows)


def test_a_row_of_ours_that_lacks_a_field_says_which(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"query": "Who?", "meta_info": {}}]')
    with pytest.raises(
        CaseError, match=r"row 1: There is no reference_answer and no meta_info\.file_name\. A question: "
    ):
        list(open_cases(tmp_path / "a.json")[1])


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


def own(answer: object, **more: object) -> dict[str, object]:
    return {"uid": 1, "query": "?", "reference_answer": answer, "meta_info": {"file_name": "a.pdf"}, **more}


def test_a_list_of_answers_is_several_that_are_right(tmp_path: Path) -> None:
    rows = [own(["44", 45, "44"], alternatives=["forty-four"]), own(["x"], uid=2)]
    _, (several, one) = read(tmp_path / "a.json", rows)
    assert several.references == ("44", "45", "forty-four")
    assert one.references == ("x",)


def test_questions_without_uids_are_called_by_their_places(tmp_path: Path) -> None:
    rows = [own("a", uid=None), own("b"), own("c", uid=None)]
    assert [case.uid for case in read(tmp_path / "a.json", rows)[1]] == ["question-1", "1", "question-3"]


@pytest.mark.parametrize("answer", [[], [["44"]], ["44", None], [True], True, {"a": 1}, [float("nan")]])
def test_what_is_no_answer_is_refused(tmp_path: Path, answer: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps([own(answer)]))
    with pytest.raises(CaseError, match=r"row 1: reference_answer .* An answer is text or a number"):
        list(open_cases(tmp_path / "a.json")[1])


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


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
