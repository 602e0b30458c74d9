"""The report of the study: every figure with the runs it rests on, and what is missing said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.credit.__main__ import SHIPPED, main
from benchmarks.credit.pictures import reached_panel, study_svg
from benchmarks.credit.report import markdown, write_report
from benchmarks.credit.results import results_of
from benchmarks.credit.runner import beside
from benchmarks.credit.setting import Job, Setting, freeze, frozen, read_setting
from benchmarks.credit.statistics import Wait
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.credit.results import Results

SETTING = Setting(
    command=("train", "--out", "{out}", "--seed", "{seed}"),
    arms={"grpo": (), "ggpo": ("--graph",)},
    seeds=(1, 2, 3),
    threshold=0.6,
    budget_steps=40,
    evaluate_every=10,
    final=2,
)
COURSES = {
    ("grpo", 1): [0.1, 0.2, 0.4, 0.5],
    ("grpo", 2): [0.1, 0.4, 0.6, 0.6],
    ("grpo", 3): [0.2, 0.3, 0.5, 0.7],
    ("ggpo", 1): [0.3, 0.6, 0.8, 0.8],
    ("ggpo", 2): [0.2, 0.7, 0.7, 0.9],
    ("ggpo", 3): [0.6, 0.5, 0.8, 1.0],
}
"""Accuracy after 10, 20, 30 and 40 steps."""


def write(folder: Path, course: list[float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, float]] = []
    for index, value in enumerate(course, 1):
        lines += [{"step": 10 * index - 5, "reward": value}, {"step": 10 * index, "eval/accuracy": value}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    freeze(tmp_path, SETTING)
    for (arm, seed), course in COURSES.items():
        write(tmp_path / f"{arm}-{seed}", course)
    return tmp_path


def rows(text: str, title: str) -> dict[str, list[str]]:
    """The table below a heading; by the first cell, of two rows with the same the last one."""
    _, _, below = text.partition(f"## {title}\n")
    part, _, _ = below.partition("\n## ")
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def counted(folder: Path) -> Results:
    return results_of(folder, SETTING)


def test_arms_are_counted_as_by_hand(study: Path) -> None:
    grpo, ggpo = counted(study).arms
    assert grpo.waits == (Wait(40, reached=False), Wait(30, reached=True), Wait(40, reached=True))
    assert (grpo.reached, grpo.median, ggpo.median) == (2, 40, 20)
    assert ggpo.waits == (Wait(20, reached=True), Wait(20, reached=True), Wait(10, reached=True))
    assert grpo.restricted is not None
    assert grpo.restricted.value == pytest.approx(110 / 3)
    assert grpo.final is not None
    assert grpo.final.value == pytest.approx((0.45 + 0.6 + 0.6) / 3)


def test_differences_are_of_the_runs_of_one_seed(study: Path) -> None:
    (contrast,) = counted(study).contrasts
    assert (contrast.first, contrast.second, contrast.seeds) == ("ggpo", "grpo", (1, 2, 3))
    assert contrast.final is not None
    assert contrast.steps is not None
    assert contrast.final.by_seed == pytest.approx((0.35, 0.2, 0.3))
    assert contrast.steps.by_seed == (-20, -10, -30)
    assert (contrast.final.permutation, contrast.final.sign) == (0.25, 0.25)


def test_the_report_says_it_in_tables(study: Path) -> None:
    write_report(study)
    text = (study / "report.md").read_text()
    assert "All 6 runs are finished." in text
    assert rows(text, "Arms")["grpo"] == [
        *("3 of 3", "2 of 3", "40", "37 [30, 40]", "55.0 % [45.0 %, 60.0 %]"),
    ]
    assert rows(text, "Differences")["ggpo − grpo"] == [
        *("steps to the threshold", "3", "−20 [−30, −10]", "−20, −10, −30", "0.25", "0.25"),
    ]
    assert rows(text, "Runs")["grpo-1"] == ["finished, at step 40", "never", "45.0 %"]
    assert "with 3 pairs neither can be below 0.25" in text
    assert "```sh\ntrain --out '{out}' --seed '{seed}'\n```" in text
    assert "| ggpo | `--graph` |" in text


def test_missing_unfinished_and_damaged_runs_are_named_and_left_out_of_what_they_cannot_tell(
    study: Path,
) -> None:
    for child in (study / "ggpo-1").iterdir():
        child.unlink()
    (study / "ggpo-1").rmdir()
    write(study / "ggpo-2", COURSES["ggpo", 2][:2])
    (study / "grpo-3" / "metrics.jsonl").write_text("broken\n")
    (study / "ggpo-3" / "metrics.jsonl").unlink()
    text = markdown(counted(study))
    assert "**4 of 6 runs are not finished:** ggpo-1 (missing), ggpo-2 (unfinished, at step 20)" in text
    assert "grpo-3 (nothing to read: Line 1 of" in text
    assert rows(text, "Arms")["ggpo"][:4] == ["0 of 3", "1 of 1", "20", "20"]
    assert rows(text, "Runs")["ggpo-3"] == ["begun, no metrics", "–", "–"]
    assert rows(text, "Differences")["ggpo − grpo"] == ["–", "0", "–", "–", "–", "–"]


def test_an_unfinished_run_is_no_failure_yet(study: Path) -> None:
    write(study / "grpo-1", COURSES["grpo", 1][:1])
    write(study / "grpo-2", COURSES["grpo", 2][:2])
    grpo = counted(study).arms[0]
    assert (grpo.finished, grpo.reached, grpo.median) == (1, 1, 40)
    text = markdown(counted(study))
    assert rows(text, "Runs")["grpo-2"] == ["unfinished, at step 20", "not by 20", "–"]
    assert rows(text, "Arms")["grpo"][3] == "40"  # by Kaplan and Meier, without an interval


def test_a_training_that_stopped_early_is_finished_and_what_came_after_the_budget_does_not_count(
    study: Path,
) -> None:
    write(study / "grpo-1", [0.1, 0.2])
    (study / "runner").mkdir()
    beside(study, Job("grpo", 1), "json").write_text("{}")
    write(study / "grpo-2", [0.1, 0.1, 0.1, 0.3, 0.9])
    runs = {run.job: run for run in counted(study).runs}
    early, long = runs[Job("grpo", 1)], runs[Job("grpo", 2)]
    assert (early.state, early.final) == ("finished, at step 20", pytest.approx(0.15))
    assert (long.wait, long.final) == (Wait(40, reached=False), pytest.approx(0.2))
    grpo = counted(study).arms[0]
    assert grpo.restricted is not None
    assert grpo.restricted.value == 40  # never counts as the budget, wherever a run stopped


def test_the_picture_has_the_measure_first_with_its_threshold_and_a_band_of_each_arm(study: Path) -> None:
    write_report(study)
    svg = (study / "curves.svg").read_text()
    root = ET.fromstring(svg)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    names = [text for text in texts if text in {"Accuracy, held out", "Reward"}]
    assert names == ["Accuracy, held out", "Reward"]
    assert {"grpo", "ggpo"} <= set(texts)
    assert svg.count('id="goal"') == 1
    assert len(re.findall(r'id="band-[01]"', svg)) == 4
    assert {"60%", "90%"} <= set(texts)  # of the seeds at the last evaluation: 50, 60, 70 and 80, 90, 100


def test_counts_of_what_should_not_happen_are_in_the_picture_where_it_happened(study: Path) -> None:
    for counts, drawn in (({"failed": 0, "missing": 0}, []), ({"failed": 2, "missing": 0}, ["Failed"])):
        with (study / "grpo-1" / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps({"step": 40} | counts) + "\n")
        root = ET.fromstring(study_svg(counted(study)))
        texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert [text for text in texts if text in {"Failed", "Missing rewards"}] == drawn


def test_the_share_of_runs_at_the_threshold_rises_in_upright_steps(study: Path) -> None:
    """Of ggpo one of three at 10, all at 20; of grpo, one cut at 20, half at 30 and all at 40."""
    write(study / "grpo-1", COURSES["grpo", 1][:2])
    panel = reached_panel(counted(study))
    grpo, ggpo = (curve.points for curve in panel.curves)
    assert panel.title == "At the threshold"
    assert [y for _, y in ggpo] == pytest.approx([0, 0, 100 / 3, 100 / 3, 100, 100])
    assert [y for _, y in grpo] == pytest.approx([0, 0, 50, 50, 100, 100])
    for line in (grpo, ggpo):
        assert (line[1][0], line[3][0]) == (line[2][0], line[4][0])


def test_a_study_without_a_run_has_a_report_too(tmp_path: Path) -> None:
    freeze(tmp_path, SETTING)
    write_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "**6 of 6 runs are not finished:**" in text
    assert rows(text, "Arms")["grpo"] == ["0 of 3", "0 of 0", "–", "–", "–"]
    assert "nothing to draw yet" in (tmp_path / "curves.svg").read_text()


def test_a_folder_without_a_study_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "--report"]) == 2
    assert "There is no study in" in capsys.readouterr().err


def test_no_runs_at_once_are_refused_rather_than_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--parallel", "0"]) == 2
    assert "less than 1" in capsys.readouterr().err
    assert not (tmp_path / "study.json").exists()


def test_a_setting_is_frozen_and_only_how_many_runs_at_once_may_change(tmp_path: Path) -> None:
    freeze(tmp_path, SETTING)
    assert frozen(tmp_path) == SETTING
    freeze(tmp_path, replace(SETTING, parallel=3))
    for other in (
        replace(SETTING, threshold=0.7),
        replace(SETTING, seeds=(1, 2)),
        replace(SETTING, arms={"a": ()}),
    ):
        with pytest.raises(SettingsError, match="has begun with another setting"):
            freeze(tmp_path, other)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seeds": (1, 1)}, "one is there twice"),
        ({"seeds": ()}, "no seed"),
        ({"threshold": 60}, "between 0 and 1"),
        ({"budget_steps": 0}, "less than 1"),
        ({"arms": {}}, "arms have names"),
        ({"arms": {"../x": ()}}, "arms have names"),
        ({"command": ("train", "{out}")}, "no {seed}"),
        ({"command": ("train", "{out}", "{seed}", "{sead}")}, "nothing fills sead"),
        ({"contrasts": (("ggpo", "gspo"),)}, "no arm is called gspo"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(told)):
        replace(SETTING, **change)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"command": "train", "arms": {}}', '{"sead": 1}', "null"])
def test_a_file_that_is_no_setting_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(SettingsError, match="no setting of a study"):
        frozen(tmp_path)


def test_the_shipped_setting_is_the_study_of_three_arms_and_five_paired_seeds() -> None:
    setting = read_setting(SHIPPED)
    assert list(setting.arms) == ["grpo", "ggpo", "ggpo-permuted"]
    assert len(setting.seeds) == 5
    assert len(setting.jobs) == 15
    assert setting.pairs == (("ggpo", "grpo"), ("ggpo", "ggpo-permuted"))
