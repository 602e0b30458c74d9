"""Kept rollouts: ordinary runs with their rewards, within a size, and listed so that they tell something."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stored_events import read_events, write_events
from typer.testing import CliRunner

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import create_app
from vrag.errors import RunError, VragError
from vrag.model_profiles import profile_named
from vrag.reward.reward import Reward
from vrag.rl.kept_rollouts import (
    MAX_HELD_OUT,
    KeptRollouts,
    find_changes,
    find_rollout,
    rank_rollouts,
    read_kept_rollouts,
    read_kept_run,
)
from vrag.rollouts.rollout import Rollout, RolloutAttempt, attempts_of, roll_out
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer.testing import Result

app = create_app()
SEARCH = "<think>Where?</think><search>ferry passengers</search>"
CROP = "<think>Closer.</think><bbox>[0, 0, 500, 150]</bbox>"
ANSWER = "<think>There.</think><answer>48,200 [1]</answer>"
LARGE = 10**9


def case(number: int) -> Case:
    return Case(
        uid=f"c{number}",
        query=f"How many ferry passengers, {number}?",
        reference_answer="48,200",
        file_name="ferry.pdf",
        reference_page=(2,),
    )


def scored(
    rewards: Sequence[Sequence[float | None]], replies: tuple[str, ...] = (SEARCH, CROP, ANSWER)
) -> list[tuple[Rollout, Reward]]:
    """Rollouts of as many questions, with these rewards."""
    environment = Environment(tiny_corpus(), profile_named("qwen3-vl"))
    attempts = [one for n, group in enumerate(rewards) for one in attempts_of([case(n)], len(group))]

    async def roll() -> dict[tuple[str, int], Rollout]:
        made = roll_out(attempts, lambda _: Agent(ScriptedPolicy(replies), environment, VragMethod()))
        return {rollout.attempt.key: rollout async for rollout in made}

    rollouts = asyncio.run(roll())
    totals = [total for group in rewards for total in group]
    return [
        (rollouts[attempt.key], Reward(total=total, parts={"answer": total, "length": 0.5}, correct=None))
        for attempt, total in zip(attempts, totals, strict=True)
    ]


def kept_in(folder: Path, steps: Sequence[int] = (20, 40), size: int = LARGE) -> KeptRollouts:
    kept = KeptRollouts.open(folder, after=None, max_bytes=size)
    for number, step in enumerate(steps):
        kept.keep(step, scored([[0.1, 0.2], [0.5, 0.9 - number / 2]]))
    return kept


def runs(folder: Path) -> set[str]:
    return set(RunStore(folder / "rollouts" / "runs").ids())


class TestKeeping:
    def test_they_are_runs_as_any_other(self, tmp_path: Path) -> None:
        kept_in(tmp_path)
        store = RunStore(tmp_path / "rollouts" / "runs")
        assert len(store.ids()) == 8
        for entry in read_kept_rollouts(tmp_path):
            run, state = store.settled(entry.rollout.run or "")
            assert (run.started.question, run.result.answer) == (entry.rollout.question, "48,200")
            assert all(run.read_file(shown.sha256) for step in run.result.steps for shown in step.shown)
            assert list(differences(run.events, list(replay(run, tiny_corpus())))) == []
            assert store.meta(run.id).title == f"{entry.name}: {entry.rollout.question}"
            assert state == "finished"

    def test_a_picture_lies_on_disk_once_for_all_rollouts_of_a_step(self, tmp_path: Path) -> None:
        kept_in(tmp_path, [20])
        store = RunStore(tmp_path / "rollouts" / "runs")
        pictures = [name for run in store.ids() for name in store.file_names(run) if name.endswith(".jpg")]
        assert (len(pictures), len(set(pictures))) == (12, 3)

    @pytest.mark.parametrize(
        ("after", "left"), [(None, []), (10, []), (20, [20]), (40, [20, 40]), (50, [20, 40])]
    )
    def test_steps_that_are_made_again_are_removed(
        self, after: int | None, left: list[int], tmp_path: Path
    ) -> None:
        kept_in(tmp_path)
        kept = KeptRollouts.open(tmp_path, after=after, max_bytes=LARGE)
        assert sorted({entry.step for entry in kept.entries}) == left
        assert runs(tmp_path) == {entry.rollout.run for entry in kept.entries}

    def test_what_a_killed_process_left_is_removed(self, tmp_path: Path) -> None:
        kept = kept_in(tmp_path)
        known = runs(tmp_path)
        lines = (tmp_path / "rollouts" / "rewards.jsonl").read_bytes()
        kept.keep(60, scored([[0.1, 0.2]]))
        (tmp_path / "rollouts" / "rewards.jsonl").write_bytes(lines)  # it died before the lines were there
        assert runs(tmp_path) > known
        KeptRollouts.open(tmp_path, after=59, max_bytes=LARGE)
        assert runs(tmp_path) == known

    def test_beyond_its_size_it_loses_steps_evenly_but_not_the_first_or_the_last(
        self, tmp_path: Path
    ) -> None:
        one = kept_in(tmp_path / "one", [20])
        size = one._measure(20, one.entries)  # pyright: ignore[reportPrivateUsage]
        kept = kept_in(tmp_path / "all", range(20, 200, 20), size=int(size * 3.5))
        steps = sorted({entry.step for entry in kept.entries})
        assert (steps[0], steps[-1], len(steps)) == (20, 180, 3)
        assert runs(tmp_path / "all") == {entry.rollout.run for entry in kept.entries}

    def test_the_steps_that_are_left_are_spread_evenly(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def measure(*_: object) -> int:
            return 1

        monkeypatch.setattr(KeptRollouts, "_measure", measure)
        entry = kept_in(tmp_path, [1]).entries[0]
        kept = KeptRollouts(tmp_path, 5, [])
        for step in range(1, 41):
            entries = [*kept.entries, entry.model_copy(update={"step": step})]
            kept.entries = kept._thin_out(entries)  # pyright: ignore[reportPrivateUsage]
        steps = [entry.step for entry in kept.entries]
        gaps = [after - before for before, after in pairwise(steps)]
        assert (steps[0], steps[-1], len(steps)) == (1, 40, 5)
        assert max(gaps) <= 2 * min(gaps)

    def test_one_step_takes_half_of_the_size_and_whole_groups(self, tmp_path: Path) -> None:
        kept = KeptRollouts.open(tmp_path, after=None, max_bytes=1)
        kept.keep(1, scored([[0.1, 0.2], [0.3, 0.4]]))
        assert [(entry.group, entry.sample) for entry in kept.entries] == [(0, 0), (0, 1)]

    def test_of_an_evaluation_the_first_are_kept(self, tmp_path: Path) -> None:
        kept = KeptRollouts.open(tmp_path, after=None, max_bytes=LARGE)
        kept.keep(0, scored([[0.5]] * (MAX_HELD_OUT + 2)), held_out=True)
        assert [entry.name for entry in kept.entries] == [f"0/held-out-{n}.0" for n in range(MAX_HELD_OUT)]

    def test_a_question_that_comes_twice_in_a_step_is_two_groups(self, tmp_path: Path) -> None:
        kept = KeptRollouts.open(tmp_path, after=None, max_bytes=LARGE)
        first = scored([[0.5, 0.5]])
        kept.keep(1, [*first, *scored([[0.6, 0.6]])])
        assert [entry.name for entry in kept.entries] == ["1/0.0", "1/0.1", "1/1.0", "1/1.1"]

    def test_one_that_failed_before_its_first_event_is_a_line_without_a_run(self, tmp_path: Path) -> None:
        attempt = RolloutAttempt(case=case(0), sample=0)
        failed = Rollout(attempt=attempt, events=(), files={}, failure="ModelError: gone", seconds=0.1)
        kept = KeptRollouts.open(tmp_path, after=None, max_bytes=LARGE)
        kept.keep(1, [(failed, Reward(total=None))])
        (entry,) = read_kept_rollouts(tmp_path)
        with pytest.raises(RunError, match="failed at once: ModelError: gone"):
            read_kept_run(tmp_path, entry)


class TestReading:
    def test_the_worst_and_the_best_are_of_different_questions(self, tmp_path: Path) -> None:
        entries = [entry for entry in kept_in(tmp_path).entries if entry.step == 20]
        assert [entry.name for entry in rank_rollouts(entries)] == ["20/0.0", "20/1.0"]
        assert [entry.name for entry in rank_rollouts(entries, best=True)] == ["20/1.1", "20/0.1"]
        assert [entry.name for entry in rank_rollouts(entries, "unknown")] == []

    def test_the_question_that_changed_most_comes_first(self, tmp_path: Path) -> None:
        first, second = find_changes(kept_in(tmp_path).entries)
        assert first.rewards == pytest.approx((0.7, 0.45))
        assert second.rewards == pytest.approx((0.15, 0.15))

    def test_one_without_a_reward_is_in_no_list(self, tmp_path: Path) -> None:
        kept = KeptRollouts.open(tmp_path, after=None, max_bytes=LARGE)
        for step in (1, 2):
            kept.keep(step, scored([[None, None]]))
        assert rank_rollouts(kept.entries) == []
        assert find_changes(kept.entries) == []

    def test_one_is_found_by_its_name_or_its_run(self, tmp_path: Path) -> None:
        entries = kept_in(tmp_path).entries
        assert find_rollout(entries, "40/1.0").name == "40/1.0"
        assert find_rollout(entries, entries[3].rollout.run or "") == entries[3]
        for name in ("", "40/1.9", "2"):
            with pytest.raises(RunError, match=r"the name|begin with"):
                find_rollout(entries, name)


def invoke(*line: object) -> Result:
    return CliRunner().invoke(app, ["train", "show", *map(str, line)])


def refusal(*line: object) -> str:
    result = invoke(*line)
    assert result.exit_code != 0
    assert isinstance(result.exception, VragError | SystemExit), repr(result.exception)
    return " ".join(f"{result.exception} {getattr(result.exception, 'hint', '')} {result.output}".split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that kept two steps and an evaluation."""
    folder = tmp_path_factory.mktemp("trained")
    kept_in(folder).keep(40, scored([[0.5]]), held_out=True)
    return folder


class TestCommand:
    def test_it_lists_the_worst_the_best_and_the_most_changed(self, folder: Path) -> None:
        result = invoke(folder)
        assert result.exit_code == 0, (result.output, result.exception)
        lines = [line.split() for line in result.output.splitlines()]
        assert result.output.startswith("8 rollouts of 2 steps are kept.")
        assert ["reward", "0.42", "0.30"] in lines
        starts = {line[0]: n for n, line in enumerate(lines) if line[:1] in (["Worst,"], ["Best,"])}
        worst, best = (lines[starts[word] + 2][:3] for word in ("Worst,", "Best,"))
        assert [worst, best] == [["40/0.0", "0.10", "0.10"], ["40/1.0", "0.50", "0.50"]]
        (changed,) = (line for line in lines if "20/1.1" in line)
        assert changed[-6:] == ["20/1.1", "0.70", "48,200", "40/1.0", "0.45", "48,200"]

    def test_it_says_all_that_in_json(self, folder: Path) -> None:
        told = json.loads(invoke(folder, "--step", 20, "--part", "answer", "-n", 1, "--json").output)
        assert (told["step"], told["steps"]) == (20, [20, 40])
        assert [[one["name"] for one in told[name]] for name in ("worst", "best")] == [["20/0.0"], ["20/1.1"]]
        assert [one["name"] for one in told["changed"][0]["last"]["rollouts"]] == ["40/1.0", "40/1.1"]
        held_out = json.loads(invoke(folder, "--held-out", "--json").output)
        assert [one["name"] for one in held_out["best"]] == ["40/held-out-0.0"]

    def test_it_opens_one_with_its_pictures_and_rewards(self, folder: Path, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        result = invoke(folder, "40/1.0", "--out", page)
        assert result.exit_code == 0, (result.output, result.exception)
        assert "Reward: 0.50 (answer 0.50, length 0.50)" in result.output
        assert "search  ferry passengers" in result.output
        html = page.read_text()
        assert "<dt>reward: length</dt><dd>0.50</dd>" in html
        assert html.count("data:image/jpeg") >= 2

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (("--step", 30), "Step 30 is not kept. Kept are: 20, 40."),
            (("--part", "beauty"), "no part 'beauty'."),
            (("--out", "page.html"), "Name the rollout"),
            (("40/1.0", "--step", 20), "for lists: leave them out"),
            (("40/7.0",), "No kept rollout has the name '40/7.0'"),
            (("20",), "rollouts begin with '20'"),
            (("40/1.0", "--out", "page.txt"), "ends in .html"),
        ],
    )
    def test_what_cannot_be_shown_is_refused(self, line: tuple[object, ...], said: str, folder: Path) -> None:
        assert said in refusal(folder, *line)

    def test_a_folder_without_kept_rollouts_says_how_to_keep_some(self, tmp_path: Path) -> None:
        assert "has no kept rollouts. Give the output folder of vrag train local rl" in refusal(tmp_path)
        assert "is not a folder" in refusal(tmp_path / "none")

    def test_a_damaged_one_is_named(self, folder: Path, tmp_path: Path) -> None:
        shutil.copytree(folder, tmp_path / "copy")
        entry = read_kept_rollouts(tmp_path / "copy")[0]
        store, run = RunStore(tmp_path / "copy" / "rollouts" / "runs"), entry.rollout.run or ""
        write_events(store, run, [*read_events(store, run)[:-1], b"{}"])
        assert "cannot be read" in refusal(tmp_path / "copy", entry.name)
        store.delete(run)
        assert f"The run of the rollout {entry.name} is missing" in refusal(tmp_path / "copy", entry.name)
        lines = tmp_path / "copy" / "rollouts" / "rewards.jsonl"
        lines.write_text("{}\n" + lines.read_text())
        assert "Line 1 of" in refusal(tmp_path / "copy")

    def test_the_commands_of_runs_open_them(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VRAG_RUNS_DIR", str(folder / "rollouts" / "runs"))
        listed = json.loads(CliRunner().invoke(app, ["runs", "list", "--json"]).output)
        assert {one["title"].partition(":")[0] for one in listed} == {
            entry.name for entry in read_kept_rollouts(folder)
        }
