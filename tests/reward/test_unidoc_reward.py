"""UniDoc-RL's reward: equal to the numbers that its published code gave for 500 random runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from reward_runs import ToldJudge
from unidoc_runs import RUNS, draw_run

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import StopReason
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.errors import SettingsError
from vrag.geometry import Box
from vrag.model_profiles import PROFILES
from vrag.reward import UnidocReward, Verdict
from vrag.reward.combine import PRESETS, open_preset
from vrag.reward.unidoc import format_reward, region_reward, search_rounds, selection_reward
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case, Region

RECORDED = json.loads(Path(__file__).with_name("unidoc_rewards.json").read_text(encoding="utf-8"))
"""Written by `benchmarks/unidoc_reward.py`, by running `rm.py`."""
CASE = Case(
    uid="c",
    query="How many passengers?",
    reference_answer="48,200",
    file_name="ferry.pdf",
    reference_page=(2,),
    regions=(Region(2, Box.unit(0.1, 0.1, 0.5, 0.3)),),
)
SEARCH = "<think>Look.</think><search>ferry in 2024 passengers costs</search>"
SELECT = "<think>This.</think><select>1</select>"
ANSWER = "<think>Seen.</think><information>48,200.</information><answer>48,200</answer>"


def selecting_run(*replies: str) -> RunResult:
    """What the agent does with these replies, with the profile of UniDoc-RL."""
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=4, select=3))
    return Agent(ScriptedPolicy(replies), environment, VragMethod(), locate=False).run(CASE.query)


def test_each_part_is_that_of_the_published_code() -> None:
    """Where the format is 0, that code looks at no other part."""
    assert len(RECORDED["runs"]) == RUNS
    for seed, row in enumerate(RECORDED["runs"]):
        drawn, recorded = draw_run(seed), dict(zip(RECORDED["parts"], row, strict=True))
        reward = asyncio.run(UnidocReward(ToldJudge(Verdict(drawn.right))).score(drawn.case, drawn.run))
        assert reward.total == pytest.approx(recorded.pop("total"), abs=2e-6)
        assert reward.parts["unidoc_format"] == recorded["unidoc_format"]
        if recorded["unidoc_format"]:
            for part, value in recorded.items():
                assert reward.parts[part] == pytest.approx(value, abs=2e-6), (seed, part)


def test_the_recorded_runs_are_of_all_kinds() -> None:
    """So that equality says something: no column is the same for nearly all runs."""
    for at, part in enumerate(RECORDED["parts"]):
        values = [row[at] for row in RECORDED["runs"]]
        most = max(map(values.count, set(values)))
        assert most < 0.8 * RUNS, part


def test_a_run_of_the_agent_has_its_rounds() -> None:
    run = selecting_run(SEARCH, SELECT, ANSWER)
    (only,) = search_rounds(run)
    assert (len(only.candidates), only.selected, only.crops) == (2, only.candidates[0], ())
    assert format_reward(run) == 1


def test_the_page_that_is_selected_last_counts_and_the_first_where_none_is() -> None:
    pages = [str(image.page) for image in selecting_run(SEARCH, ANSWER).steps[0].shown]
    gold = pages.index("2") + 1
    other = "<think>No.</think><select>2</select>" if gold != 2 else "<think>No.</think><select>3</select>"
    right = f"<think>Yes.</think><select>{gold}</select>"
    assert selection_reward(CASE, selecting_run(SEARCH, other, right, ANSWER)) == 1
    assert selection_reward(CASE, selecting_run(SEARCH, right, other, ANSWER)) == 0
    assert selection_reward(CASE, selecting_run(SEARCH, ANSWER)) == (gold == 1)
    assert selection_reward(CASE, selecting_run(ANSWER)) == 0


def test_a_look_where_none_is_wanted_is_wrong() -> None:
    without = replace(CASE, regions=())
    looked = selecting_run(SEARCH, SELECT, "<think>In.</think><bbox>[50, 50, 300, 200]</bbox>", ANSWER)
    assert region_reward(without, selecting_run(SEARCH, SELECT, ANSWER)) == 1
    assert region_reward(without, looked) == 0


@pytest.mark.parametrize(
    ("replies", "form"),
    [
        ((SEARCH, SELECT, ANSWER), 1.0),
        ((SEARCH, ANSWER), 0.0),
        ((SELECT, ANSWER), 0.0),
        ((SEARCH, SELECT, "<think>.</think><answer>48,200</answer>"), 0.0),
        ((SEARCH, "<think>.</think><select>9</select>", ANSWER), 0.0),
        ((SEARCH, SELECT, *["<think>.</think><information>No.</information>"] * 8), 0.5),
    ],
)
def test_the_format_asks_for_what_was_carried_out(replies: tuple[str, ...], form: float) -> None:
    assert format_reward(selecting_run(*replies)) == form


def test_without_an_answer_the_other_parts_are_kept_and_nobody_is_asked() -> None:
    judge = ToldJudge()
    run = selecting_run(SEARCH, SELECT, *["<think>.</think><information>No.</information>"] * 8)
    assert run.stop_reason is StopReason.OUT_OF_STEPS
    reward = asyncio.run(UnidocReward(judge).score(CASE, run))
    assert reward.total is not None
    assert reward.total >= 0.05
    assert not judge.asked


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_pays_1_at_most_and_sums_to_1(name: str) -> None:
    scorer = open_preset(name, ToldJudge())
    assert sum(scorer.weights.by_part.values()) == pytest.approx(1)
    assert dict(scorer.weights.by_part) | dict(PRESETS[name]) == dict(scorer.weights.by_part)
    reward = asyncio.run(scorer.score(CASE, selecting_run(SEARCH, SELECT, ANSWER)))
    assert reward.total is not None
    assert 0 < reward.total <= 1


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(SettingsError, match=r"no reward preset 'unidok'"):
        open_preset("unidok", ToldJudge())
