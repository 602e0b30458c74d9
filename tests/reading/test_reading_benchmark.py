"""The benchmark that asks all questions of a data set, with each variant of the reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.grounding import Outcome, Place
from benchmarks.reading import Answered, figures_of, is_right, main, table_of
from vrag.geometry import Box
from vrag.reading.training.answer_measure import VARIANTS
from vrag.types import AnswerFormat, Case, Region

GOLD = Region(page=1, box=Box.unit(0.1, 0.1, 0.2, 0.2))
HIT, MISS = Place("a.pdf", 1, Box.unit(0.1, 0.1, 0.3, 0.3)), Place("a.pdf", 1, Box.unit(0.5, 0.5, 0.6, 0.6))


def make_case(kind: str = "Single-hop", form: AnswerFormat = AnswerFormat.TEXT) -> Case:
    regions = (GOLD,) if kind == "Single-hop" else ()
    return Case(
        uid="1", query="What?", reference_answer="84,210", file_name="a.pdf", query_type=kind,
        regions=regions, answer_format=form,
    )  # fmt: skip


def make_answered(case: Case, place: Place | None, *, answered: bool = True, right: bool = False) -> Answered:
    return Answered(Outcome(case, answered, place, ()), right, seconds=2.0)


def test_answers_are_counted_by_what_became_of_them() -> None:
    asked, void = make_case(), make_case("Unanswerable")
    row = figures_of(
        "all",
        [
            make_answered(asked, HIT, right=True),
            make_answered(asked, MISS),
            make_answered(asked, None),
            make_answered(asked, HIT, answered=False),
            make_answered(void, HIT),
            make_answered(void, None, answered=False),
        ],
    )

    assert (row.answerable, row.right, row.wrong, row.abstained) == (4, 1, 2, 1)
    assert (row.unanswerable, row.abstained_on_unanswerable) == (2, 1)
    assert (row.grounded, row.hits, row.seconds) == (4, 2, 2.0)
    assert table_of([row])[-1] == "| all | 1 of 4 | 2 | 25.0 % | 50.0 % | 50.0 % | 2.00 |"


@pytest.mark.parametrize(
    ("form", "answer", "right"),
    [
        (AnswerFormat.TEXT, "84,210", True),
        (AnswerFormat.TEXT, "84,211", True),  # six letters of seven
        (AnswerFormat.TEXT, "nothing", False),
        (AnswerFormat.TEXT, None, False),
        (AnswerFormat.INTEGER, "nothing", False),
        (AnswerFormat.UNKNOWN, "84,210", True),
    ],
)
def test_an_answer_is_right_by_the_rule_of_its_format(
    form: AnswerFormat, answer: str | None, right: bool
) -> None:
    assert is_right(make_case(form=form), answer) is right


def test_all_variants_answer_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "ferry.txt").write_text("The ferry Fulmar was launched in 1911.\n", "utf-8")
    meta = {"file_name": "ferry.txt", "reference_page": [1], "query_type": "Single-Hop"}
    example = {
        "uid": "1", "query": "When was the ferry Fulmar launched?", "reference_answer": "1911",
        "meta_info": meta,
    }  # fmt: skip
    dataset = tmp_path / "dataset.json"
    dataset.write_text(json.dumps({"examples": [example, example | {"uid": "2"}]}), "utf-8")
    flags = [str(dataset), "--docs", str(docs), "--collection", str(tmp_path / "index"), "--questions", "1"]

    main([*flags, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in rows] == [variant.name for variant in VARIANTS]
    found = {row["variant"]: row["right"] for row in rows}
    assert found["all"] == 1
    assert found["without running text"] == 0
    assert {row["answerable"] for row in rows} == {1}

    main(flags)
    assert capsys.readouterr().out.count("\n| ") == len(VARIANTS)


def test_a_model_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("The ferry.", "utf-8")
    dataset = tmp_path / "dataset.json"
    meta = {"file_name": "a.txt", "reference_page": [1]}
    example = {"uid": "1", "query": "What?", "reference_answer": "x", "meta_info": meta}
    dataset.write_text(json.dumps({"examples": [example]}), "utf-8")
    monkeypatch.setenv("VRAG_MODEL", "qwen3-vl")
    monkeypatch.setenv("VRAG_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(SystemExit, match="VRAG_MODEL"):
        main([str(dataset), "--docs", str(tmp_path / "a.txt"), "--collection", str(tmp_path / "index")])
