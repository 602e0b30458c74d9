# ruff: noqa: ANN401 - the libraries are not typed
"""One step of the local trainer: each rollout and each row counts once, whatever fails, at its worth."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from test_local_trainer import OPTIONS, always, by_chance
from tiny_world import (
    ANSWER,
    DONE,
    NODE,
    NOTES,
    SEARCH,
    Counting,
    agents,
    cases,
    force,
    opened,
    same,
    weights,
)
from tiny_world import turns as by_turns

from vrag.agent.methods.vimrag import Vimrag
from vrag.rl import generation
from vrag.rl.advantages import group_advantages
from vrag.rl.checkpoints import Checkpoints
from vrag.rl.metrics import FILE, MetricsFile
from vrag.rl.rows import DroppedRow, RunRows, rows_of
from vrag.rl.trainers.local import LocalTrainer
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vrag.agent.agent import Agent
    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.agent.runs.run_result import RunResult
    from vrag.rl.generation import GeneratedReply, GenerationPrompt
    from vrag.rl.model import TrainableModel
    from vrag.types import Case


class Watched:
    """What a step of a trainer was made of."""

    def __init__(self, trainer: LocalTrainer) -> None:
        own = trainer._build_train_batch  # pyright: ignore[reportPrivateUsage]
        self.tried: Sequence[Any] = ()
        self.rows: Sequence[Any] = ()
        self.lesson: Any = None
        self.extra: dict[str, float] = {}

        def lesson(tried: Any, rows: Any, step: int) -> Any:
            self.tried, self.rows = tried, rows
            self.lesson, self.extra = own(tried, rows, step)
            return self.lesson, self.extra

        self.take = lesson


def stepped(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    network: TrainableModel | None = None,
    make: Callable[[Policy], Agent] | None = None,
    reward: Callable[[Case, RunResult], float | None] = by_chance,
    method: Method | None = None,
    limit: int = 2,
    **changes: Any,
) -> tuple[Watched, dict[str, float], Counting, TrainableModel]:
    """One step, watched."""
    network = network or opened()
    options = OPTIONS.model_copy(update={"steps": 1, **changes})
    scorer = Counting(reward)
    with MetricsFile.open(folder / FILE, after=None) as file:
        trainer = LocalTrainer(
            network,
            make or agents(network, method, limit),
            scorer,
            cases(3),
            [],
            options,
            Checkpoints(folder),
            file,
        )
        watched = Watched(trainer)

        def taken(_: LocalTrainer, *how: Any) -> Any:
            return watched.take(*how)

        monkeypatch.setattr(LocalTrainer, "_build_train_batch", taken)

        async def train() -> list[Any]:
            return [one async for one in trainer.train(None)]

        values = asyncio.run(train())[-1].values
    return watched, dict(values), scorer, network


class Failing:
    """Makes agents, and every third time it cannot."""

    def __init__(self, network: TrainableModel) -> None:
        self.make, self.count = agents(network, steps=2), 0

    def __call__(self, policy: Policy) -> Agent:
        self.count += 1
        if self.count % 3 == 0:
            raise RuntimeError("no agent today")
        return self.make(policy)


class Slow:
    """A searcher that takes longer for each query than for the one before."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(tiny_corpus(), name)

    def search(self, *how: Any) -> Any:
        self.asked += 1
        time.sleep(0.02 * self.asked)
        return tiny_corpus().search(*how)


def by_graph(network: TrainableModel, prompt: GenerationPrompt) -> list[int]:
    """A script of runs with two segments: a search with its notes, the answer."""
    text = "".join(message.text for message in prompt.messages)
    spoke = any(message.role == "assistant" for message in prompt.messages)
    told = NOTES if spoke else DONE if '"id":"n1"' in text else NODE
    return [*network.encode(told), network.checkpoint.tokenizer.eos_token_id]


class TestRollouts:
    @pytest.mark.parametrize("together", [True, False])
    @pytest.mark.parametrize("batch", [64, 4])
    def test_each_attempt_and_each_row_counts_once(
        self, together: bool, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where some fail: those have no reward, and leave their group."""
        network = opened()

        def reward(case: Case, run: RunResult) -> float | None:
            return None if run.failure else by_chance(case, run)

        watched, values, scorer, _ = stepped(
            tmp_path, monkeypatch, network=network, make=Failing(network), reward=reward,
            questions=3, together=together, batch=batch,
        )  # fmt: skip
        attempts = [(one.rollout.attempt.case.uid, one.rollout.attempt.sample) for one in watched.tried]
        assert len(attempts) == len(set(attempts)) == 9
        assert [sample for _, sample in attempts] == [0, 1, 2] * 3
        assert Counter(uid for uid, _ in scorer.asked) == {"c0": 3, "c1": 3, "c2": 3}
        assert (values["failed"], values["missing"]) == (3, 3)
        kept = [at for at, one in enumerate(watched.tried) if one.reward.total is not None]
        made = [row for at in kept for row in watched.rows[at].rows]
        assert [id(row) for row in watched.lesson.rows] == [id(row) for row in made]
        assert len(made) == len(kept) == 6 == watched.lesson.count
        totals = [np.nan if one.reward.total is None else one.reward.total for one in watched.tried]
        wanted = group_advantages(totals, [0, 0, 0, 1, 1, 1, 2, 2, 2])
        assert watched.lesson.advantages == pytest.approx(wanted[kept])
        assert np.abs(wanted[kept]).max() > 0.1
        tokens = [sum(int(row.own.sum()) for row in rows.rows) for rows in watched.rows]
        assert values["tokens"] == pytest.approx(sum(tokens) / 9)

    def test_where_nothing_has_a_reward_nothing_is_learned(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watched, values, _, network = stepped(tmp_path, monkeypatch, reward=always(None))
        assert watched.lesson.rows == []
        assert values["missing"] == 6
        assert "loss" not in values
        assert "reward" not in values
        assert same(weights(network), weights(opened()))

    @pytest.mark.parametrize("together", [True, False])
    def test_where_all_earn_the_same_nothing_is_learned(
        self, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watched, values, _, network = stepped(
            tmp_path, monkeypatch, reward=always(0.5), entropy=0.0, together=together
        )
        assert len(watched.lesson.rows) == 6
        assert values["grad_norm"] == 0.0
        assert same(weights(network), weights(opened()))

    def test_a_scorer_that_raises_ends_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(_: Case, run: RunResult) -> float:
            raise RuntimeError("no such scorer")

        with pytest.raises(RuntimeError, match="no such scorer"):
            stepped(tmp_path, monkeypatch, reward=broken)

    def test_graph_segments_have_credit_of_their_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two segments a run: the one that found the page is not blamed for a wrong answer."""
        force(monkeypatch, by_graph)
        turn = iter([1.0, 0.0, 0.0] * 2)
        how: dict[str, Any] = {"method": Vimrag(), "limit": 4, "max_tokens": 60, "algorithm": "ggpo"}
        watched, values, _, _ = stepped(tmp_path, monkeypatch, reward=lambda _case, _run: next(turn), **how)
        lesson = watched.lesson
        assert [row.segment for row in lesson.rows] == [0, 1] * 6
        assert lesson.units.tolist() == list(range(12))
        assert lesson.count == 12
        correct = [one.reward.correct for one in watched.tried]
        assert sorted(correct) == [False] * 4 + [True] * 2
        assert lesson.masked.tolist() == [mask for right in correct for mask in (not right, False)]
        assert values["masked"] == pytest.approx(4 / 12)

    def test_segments_of_a_run_are_one_unit_where_the_graph_says_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """GRPO: however many rows a run has, it counts once, and its tokens are of one mean."""
        force(monkeypatch, by_graph)
        how: dict[str, Any] = {"method": Vimrag(), "limit": 4, "max_tokens": 60, "algorithm": "grpo"}
        watched, *_ = stepped(tmp_path, monkeypatch, **how)
        assert [row.segment for row in watched.lesson.rows] == [0, 1] * 6
        assert watched.lesson.units.tolist() == [at // 2 for at in range(12)]
        assert watched.lesson.count == 6
        assert not watched.lesson.masked.any()

    @pytest.mark.parametrize("scale", [True, False])
    def test_a_run_without_rows_leaves_its_group(
        self, scale: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        number = count()

        def all_but_one(*told: Any) -> RunRows:
            made = rows_of(*told)
            return made if next(number) != 1 else RunRows((), (DroppedRow(0, (1,), "It is damaged."),))

        monkeypatch.setattr("vrag.rl.trainers.local.rows_of", all_but_one)
        watched, values, *_ = stepped(tmp_path, monkeypatch, scale=scale)
        totals = [one.reward.total for one in watched.tried]
        totals[1] = np.nan
        wanted = group_advantages(totals, [0, 0, 0, 1, 1, 1], scale=scale)
        kept = [0, 2, 3, 4, 5]
        assert watched.lesson.advantages == pytest.approx(wanted[kept])
        assert watched.lesson.count == 5
        assert values["dropped"] == 1

    def test_a_batch_waits_for_the_slowest_search(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Together: what is written at once does not depend on how long anything took."""
        network, sizes, write = opened(), list[int](), generation.write

        def watched(network: TrainableModel, prompts: Sequence[Any], *rest: Any) -> list[GeneratedReply]:
            sizes.append(len(prompts))
            return write(network, prompts, *rest)

        monkeypatch.setattr(generation, "write", watched)
        force(monkeypatch, by_turns(SEARCH, ANSWER))
        stepped(tmp_path, monkeypatch, network=network, make=agents(network, steps=2, searcher=Slow()),
                max_tokens=20)  # fmt: skip
        assert sizes == [6, 6]
