"""Runs side by side: what stands in which cell."""

from __future__ import annotations

import pytest

from vrag.errors import CaseError
from vrag.evaluation.paper_tables import ALL, LAYOUTS, PaperCell, joined, lay_out, lay_out_as
from vrag.evaluation.record import CaseOutcome, CaseRecord, Subject


def record(
    uid: str, outcome: str, benchmark: str = "a", kind: str = "single", **measures: float
) -> CaseRecord:
    subject = Subject(
        benchmark=benchmark,
        uid=uid,
        question="?",
        references=("x",),
        answerable=True,
        document="d.pdf",
        query_type=kind,
        source_type=("Text", "Table") if uid == "both" else ("Text",),
    )
    return CaseRecord(subject=subject, outcome=CaseOutcome(outcome), measures=measures)


GOOD = [record("1", "right"), record("2", "right", kind="multi"), record("3", "wrong", "b")]
POOR = [record("1", "failed"), record("2", "right", kind="multi"), record("3", "unjudged", "b")]


def test_each_cell_is_the_mean_of_its_questions() -> None:
    made = lay_out({"good": GOOD, "poor": POOR})
    assert made.columns == (("a", ""), ("b", ""), (ALL, ""))
    assert made.rows["good"] == (PaperCell(1.0, 2), PaperCell(0.0, 1), PaperCell(2 / 3, 3))
    assert made.rows["poor"] == (PaperCell(0.5, 2), PaperCell(None, 0), PaperCell(0.5, 2)), (
        "unjudged is left out, failed is 0"
    )


def test_what_failed_of_another_benchmark_is_not_measured_by_this_one_s_rule() -> None:
    asked = [record("1", "right", "mmlongbench", mmlongbench=1.0), record("2", "failed", "squad", em=0.0)]
    made = lay_out({"x": asked}, measure="mmlongbench")
    assert made.rows["x"] == (PaperCell(1.0, 1), PaperCell(None, 0), PaperCell(1.0, 1))


def test_columns_within_a_benchmark() -> None:
    made = lay_out({"good": GOOD}, by="query_type")
    assert made.columns == (("a", "multi"), ("a", "single"), ("b", "single"), (ALL, ""))
    assert made.heads == ("a multi", "a single", "b single", "all")
    made = lay_out({"x": [record("both", "right"), record("1", "wrong")]}, by="source_type")
    assert made.columns == (("a", "Table"), ("a", "Text"), (ALL, ""))
    assert made.heads == ("Table", "Text", "all"), "one benchmark need not be named"
    assert made.rows["x"] == (PaperCell(1.0, 1), PaperCell(0.5, 2), PaperCell(0.5, 2)), (
        "in both columns, once in all"
    )


def test_a_run_without_a_benchmark_has_an_empty_cell() -> None:
    made = lay_out({"good": GOOD, "part": GOOD[:1]})
    assert made.rows["part"][1] == PaperCell(None, 0)
    assert "| – |" in made.markdown


def test_markdown_is_in_percent_with_the_best_in_bold() -> None:
    lines = lay_out({"good": GOOD, "a|b": POOR}).markdown.splitlines()
    assert lines[0] == "|  | a | b | all |"
    assert lines[2] == "| good | **100.0** | **0.0** | **66.7** |"
    assert lines[3] == "| a\\|b | 50.0 | – | 50.0 |"


def test_nothing_is_best_where_all_are_alike() -> None:
    assert "**" not in lay_out({"one": POOR, "other": POOR}).markdown
    two = lay_out({"good": GOOD, "same": GOOD, "poor": POOR}).markdown.splitlines()
    assert [line.count("**100.0**") for line in two[2:]] == [1, 1, 0]


def test_amounts_are_told_as_they_are_and_no_best() -> None:
    made = lay_out(
        {"x": [record("1", "right", turns=4.0)], "y": [record("1", "right", turns=2.0)]}, measure="turns"
    )
    assert made.markdown.splitlines()[2:] == ["| x | 4.0 | 4.0 |", "| y | 2.0 | 2.0 |"]


@pytest.mark.parametrize(
    ("measure", "value", "told"),
    [("cost", 0.0031, "0.0031"), ("seconds", 0.04, "0.04 s"), ("visual_tokens", 7660.2, "7,660")],
)
def test_small_and_large_amounts_keep_the_digits_that_count(measure: str, value: float, told: str) -> None:
    made = lay_out({"x": [record("1", "right", "a", "single", **{measure: value})]}, measure=measure)
    assert made.cell_text(made.rows["x"][0]) == told


def test_unknown_columns_and_measures_are_refused() -> None:
    with pytest.raises(CaseError, match="no columns by 'colour'") as told:
        lay_out({"x": GOOD}, by="colour")
    assert "query_type" in (told.value.hint or "")
    with pytest.raises(CaseError, match="iou is not a measure of single questions"):
        lay_out({"x": GOOD}, measure="iou")


def asked(uid: str, outcome: str, query_type: str = "", sources: tuple[str, ...] = ()) -> CaseRecord:
    benchmark = uid.partition("-")[0]
    subject = Subject(
        benchmark=benchmark,
        uid=uid,
        question="?",
        references=("x",),
        answerable=True,
        document="d.pdf",
        query_type=query_type,
        source_type=sources,
    )
    return CaseRecord(subject=subject, outcome=CaseOutcome(outcome), measures={"turns": 2.0})


PAPERS = [
    asked("slidevqa-1", "right", "Single-hop"),
    asked("vidoseek-slidevqa_refined-17", "wrong", "Single-Hop"),
    asked("slidevqa-2", "right", "Multi-hop & Numerical"),
    asked("vidoseek-0a1b_2", "right", "Single-Hop"),
    asked("vidoseek-0a1b_3", "wrong", "multi_hop"),
    asked("mmlongbench-1", "right", sources=("Pure-text (Plain-text)", "Table")),
    asked("mmlongbench-2", "wrong", sources=("Generalized-text (Layout)",)),
    asked("mmlongbench-3", "wrong", sources=("Chart",)),
    asked("mmlongbench-4", "wrong"),
    asked("squad-1", "right"),
]


def test_the_table_of_vrag() -> None:
    made = lay_out_as({"x": PAPERS}, LAYOUTS["vrag"])
    assert made.heads == (
        *("SlideVQA Single-hop", "SlideVQA Multi-hop", "ViDoSeek Extraction", "ViDoSeek Logic"),
        *(f"MMLongBench {kind}" for kind in ("Text", "Table", "Chart", "Figure", "Layout")),
        "Overall",
    )
    assert made.rows["x"] == (
        *(PaperCell(0.5, 2), PaperCell(1.0, 1), PaperCell(1.0, 1), PaperCell(0.0, 1)),
        *(PaperCell(1.0, 1), PaperCell(1.0, 1), PaperCell(0.0, 1), PaperCell(None, 0), PaperCell(0.0, 1)),
        PaperCell(4 / 9, 9),  # without SQuAD's, with that of no kind
    )


def test_a_row_without_verdicts_on_a_whole_benchmark_has_no_overall() -> None:
    dark = [
        one.model_copy(update={"outcome": CaseOutcome.UNJUDGED})
        if one.subject.uid.startswith("vidoseek")
        else one
        for one in PAPERS
    ]
    made = lay_out_as({"whole": PAPERS, "dark": dark}, LAYOUTS["vrag"])
    assert made.rows["dark"][-1] == PaperCell(None, 0)
    assert made.rows["whole"][-1].n == 9


def test_the_table_of_vimrag() -> None:
    everything = [*PAPERS, *(asked(f"{name}-1", "right") for name in ("hotpotqa", "webqa", "lvbench"))]
    made = lay_out_as({"all": everything, "some": PAPERS}, LAYOUTS["vimrag"])
    assert made.heads == ("HotpotQA", "SQuAD", "WebQA", "SlideVQA", "MMLongBench", "LVBench", "Overall")
    whole, some = made.rows["all"], made.rows["some"]
    assert whole[:4] == (PaperCell(1.0, 1), PaperCell(1.0, 1), PaperCell(1.0, 1), PaperCell(2 / 3, 3))
    assert whole[-1] == PaperCell(7 / 11, 11), "ViDoSeek is not in it"
    assert some[-1] == PaperCell(None, 0), "a mean over fewer benchmarks is none to be compared"


def test_a_paper_s_table_of_other_questions_is_refused() -> None:
    with pytest.raises(CaseError, match="SlideVQA, ViDoSeek, MMLongBench"):
        lay_out_as({"x": GOOD}, LAYOUTS["vrag"])
    assert lay_out_as({"x": PAPERS}, LAYOUTS["vrag"], measure="turns").rows["x"][0] == PaperCell(2.0, 2)


def test_runs_of_one_name_are_joined_but_not_of_the_same_questions() -> None:
    made = joined([("x", PAPERS[:4]), ("y", PAPERS), ("x", PAPERS[4:])])
    assert made == {"x": PAPERS, "y": PAPERS}
    with pytest.raises(CaseError, match="called x both have slidevqa-1"):
        joined([("x", PAPERS), ("x", PAPERS[:1])])
