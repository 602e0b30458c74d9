"""The report of a comparison: four cells, differences, and both runs of each question."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from reported import page_image, record, subject
from test_report_page import HOSTILE, Elements, uneven_tables

from vrag.evaluation.comparison import compare
from vrag.evaluation.record import CaseOutcome, CaseRecord
from vrag.evaluation.report import ComparisonPage, comparison_page
from vrag.evaluation.report.case_list import cell_of

CELLS = {
    (CaseOutcome.RIGHT, CaseOutcome.RIGHT): "both",
    (CaseOutcome.RIGHT, CaseOutcome.FAILED): "a",
    (CaseOutcome.ABSTAINED, CaseOutcome.RIGHT): "b",
    (CaseOutcome.WRONG, CaseOutcome.ABSTAINED): "neither",
    (CaseOutcome.UNJUDGED, CaseOutcome.RIGHT): None,
    (CaseOutcome.WRONG, CaseOutcome.UNJUDGED): None,
}


def both() -> tuple[list[CaseRecord], list[CaseRecord]]:
    """A pair of every two outcomes."""
    pairs = list(product(CaseOutcome, CaseOutcome))
    a, b = ([record(f"c{n}", pair[side]) for n, pair in enumerate(pairs)] for side in (0, 1))
    return a, b


def compared(
    a: list[CaseRecord],
    b: list[CaseRecord],
    **given: Any,  # noqa: ANN401 - as of `comparison_page`
) -> ComparisonPage:
    made = compare(a, b, names=("one", "two"), resamples=50)
    return comparison_page(made, a, b, made=0.0, **given)


@pytest.mark.parametrize(("outcomes", "cell"), CELLS.items())
def test_a_question_is_in_one_cell_if_both_have_a_verdict(
    outcomes: tuple[CaseOutcome, CaseOutcome], cell: str | None
) -> None:
    assert cell_of(*outcomes) == cell


def test_cells_are_those_of_the_comparison_and_each_is_linked_to_its_cases() -> None:
    a, b = both()
    page = compared(a, b)
    found = compare(a, b, resamples=50).as_dict()["cells"]
    assert page.cells == {
        "both": len(found["both"]),
        "a": len(found["only_a"]),
        "b": len(found["only_b"]),
        "neither": len(found["neither"]),
    }
    data = Elements(page.html).data
    for name, count in (*page.cells.items(), ("open", 9)):
        assert {"cell": name} in data["links"]
        assert sum((entry["cell"] or "open") == name for entry in data["entries"]) == count


def test_missing_verdicts_and_broken_runs_of_either_are_told() -> None:
    words = Elements(compared(*both()).html).words
    assert "Without a verdict: 5 of A, 5 of B" in words
    assert "Broke off: 5 runs of A, 5 of B" in words
    assert "With the missing verdicts the difference could lie anywhere" in words


def test_questions_that_only_one_has_are_counted_and_left_out() -> None:
    a, b = both()
    page = compared(a, b[:-2])
    assert len(page.entries) == len(b) - 2
    assert "2 questions only A has" in Elements(page.html).words


def test_the_difference_stands_with_its_interval_and_p_on_the_page_and_in_markdown() -> None:
    a = [record(f"c{n}", CaseOutcome.WRONG if n % 3 else CaseOutcome.RIGHT) for n in range(30)]
    page = compared(a, [record(f"c{n}") for n in range(30)])
    first = page.comparison.headline
    assert (first.a, first.b, first.questions) == (pytest.approx(1 / 3), 1.0, 30)
    for text in (Elements(page.html).words, page.markdown):
        assert "+0.667" in text
        assert "B − A" in text
        assert "B less A" not in text


def test_a_page_shows_what_each_of_the_two_predicted() -> None:
    other = record("c1", evidence=({"document": "ferry.pdf", "page": 2, "box": (0, 0, 0.5, 0.5)},))
    (entry,) = Elements(compared([record("c1")], [other], page_image=page_image).html).data["entries"]
    kinds = {sight["page"]: [box[0] for box in sight["boxes"]] for sight in entry["sights"]}
    assert kinds == {1: ["a", "gold"], 2: ["b"]}


def test_settings_that_differ_are_marked() -> None:
    page = compared(*both(), facts=({"Model": "x", "Judge": "j"}, {"Model": "y", "Judge": "j"}))
    assert page.html.count('class="differs"') == 1


def test_its_json_has_every_pair() -> None:
    a, b = both()
    written = json.loads(json.dumps(compared(a, b).as_dict()))
    assert [CaseRecord.model_validate(one) for pair in written["pairs"] for one in pair] == [
        one for pair in zip(a, b, strict=True) for one in pair
    ]


def test_hostile_names_stay_text() -> None:
    text = HOSTILE.encode("utf-8", "replace").decode()
    a, b = (
        [
            record(f"c{n}", measures={text: value}, subject=subject(f"c{n}", query_type=f"{text}{n % 2}"))
            for n in range(4)
        ]
        for value in (0.1, 0.2)
    )
    made = compare(a, b, names=(text, text), measures=(text,), by_group=(text,), resamples=50)
    made = replace(made, groups=(*made.groups, replace(made.groups[0], kind=text)))
    page = comparison_page(
        made, a, b, title=text, facts=({text: text}, {text: f"{text}2"}), notes=(text,), made=0.0
    )
    assert any("too few differ" in remark for remark in page.remarks)
    assert len(Elements(page.html).scripts) == 2
    assert "<script>document" not in page.html
    assert not re.search(r"(?<!\\)<", page.markdown)
    assert uneven_tables(page.markdown) == []


def test_what_is_alike_is_told_once() -> None:
    a = [record(f"c{n}") for n in range(4)]
    page = compared(a, a)
    assert page.remarks == ("The two do not differ on any question.",)
