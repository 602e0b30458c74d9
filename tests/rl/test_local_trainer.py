# ruff: noqa: ANN401 - the libraries are not typed
"""The trainer by reinforcement: repeatable, stopped at any moment, nothing lost or twice; and it learns."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import test_supervised
from pydantic import ValidationError
from tiny_world import (
    WORDS,
    Counting,
    agents,
    cases,
    first_words,
    metrics,
    opened,
    recorded,
    same,
    tiny,
    torch,
    weights,
)

from vrag.agent.runs.run_store import RunStore
from vrag.errors import ModelError, TrainingError
from vrag.rl import batched_policy
from vrag.rl.checkpoints import Checkpoints
from vrag.rl.kept_rollouts import MEGABYTE, KeptRollouts, read_kept_rollouts, read_kept_run
from vrag.rl.metrics import FILE, MetricsFile
from vrag.rl.model import open_network
from vrag.rl.sft_dataset import sft_rows
from vrag.rl.tiny import TinyOptions, make_tiny
from vrag.rl.trainers.local import LocalTrainer, RlOptions
from vrag.rl.update import UpdateOptions, Updates

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from vrag.agent.runs.run_result import RunResult
    from vrag.rl.trainers.local import StepResult
    from vrag.types import Case

OPTIONS = RlOptions(
    steps=6, questions=2, group=3, max_tokens=6, entropy=0.01, evaluate_every=3, save_every=2,
    keep_every=2, update=UpdateOptions(lr=1e-2, warmup=2),
)  # fmt: skip


def by_chance(_: Case, run: RunResult) -> float:
    """A reward for whatever was said: another for other words."""
    said = "".join(step.reply for step in run.steps)
    return hashlib.sha256(said.encode()).digest()[0] / 255


def always(reward: float | None) -> Callable[[Case, RunResult], float | None]:
    """The same for all."""
    return lambda _case, _run: reward


async def training(
    folder: Path,
    options: RlOptions = OPTIONS,
    *,
    reward: Callable[[Case, RunResult], float | None] = by_chance,
    model: Path | None = None,
) -> AsyncGenerator[tuple[LocalTrainer, StepResult], None]:
    """Trains in a folder, from its last checkpoint on; yields the trainer with each step."""
    checkpoints = Checkpoints(folder)
    begun = checkpoints.begin(options.model_dump(mode="json"))
    network = open_network(begun.folder if begun else model or tiny(), device="cpu")
    after = begun.step if begun else None
    kept = KeptRollouts.open(folder, after=after, max_bytes=MEGABYTE)
    with MetricsFile.open(folder / FILE, after=after) as file:
        trainer = LocalTrainer(
            network,
            agents(network, steps=2),
            Counting(reward),
            cases(3),
            cases(1),
            options,
            checkpoints,
            file,
            kept=kept,
        )
        async with aclosing(trainer.train(begun)) as steps:
            async for step in steps:
                yield trainer, step


def trained(folder: Path, options: RlOptions = OPTIONS, *, stop: int | None = None, **more: Any) -> Any:
    """The weights at the end, or after the step at which it was stopped; None where nothing was left."""

    async def train() -> Any:
        last: LocalTrainer | None = None
        async with aclosing(training(folder, options, **more)) as steps:
            async for trainer, step in steps:
                last = trainer
                if step.step == stop:
                    break
        return None if last is None else weights(last.network)

    return asyncio.run(train())


def rollouts(folder: Path) -> list[dict[str, Any]]:
    """The kept rollouts, each with its replies; without what differs from one time to the next."""
    entries = read_kept_rollouts(folder)
    assert set(RunStore(folder / "rollouts" / "runs").ids()) == {entry.rollout.run for entry in entries}
    lines = [entry.model_dump(exclude={"rollout": {"run", "seconds"}}) for entry in entries]
    replies = [[step.reply for step in read_kept_run(folder, entry).result.steps] for entry in entries]
    return [line | {"replies": said} for line, said in zip(lines, replies, strict=True)]


def optimizer(folder: Path) -> dict[str, Any]:
    latest = Checkpoints(folder).latest
    assert latest is not None
    state = torch().load(latest.folder / "optimizer.pt", weights_only=True)["state"]
    return {f"{number} {name}": value for number, one in state.items() for name, value in one.items()}


def child(folder: Path) -> None:
    """Trains in both ways by turns, until it is killed. Run in a process of its own."""
    make_tiny(folder / "tiny", list(WORDS), TinyOptions(hidden=32, vision_hidden=32))
    torch().set_num_threads(1)
    tempfile.tempdir = str(folder)  # who is killed does not tidy up
    supervised = test_supervised.teaching(folder / "sft", model=folder / "tiny")

    async def train() -> None:
        async with aclosing(training(folder / "rl", model=folder / "tiny")) as steps:
            async for _ in steps:
                next(supervised, None)

    asyncio.run(train())
    time.sleep(600)  # on a fast machine it may be done before it is killed; it is killed all the same


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A training that nobody stopped: its folder, and its weights at the end."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, trained(folder)


class TestStoppedAndGoneOnWith:
    def test_repeats_bit_by_bit(self, whole: tuple[Path, Any], tmp_path: Path) -> None:
        assert same(trained(tmp_path), whole[1])
        assert metrics(tmp_path / FILE) == metrics(whole[0] / FILE)
        assert not same(whole[1], weights(opened())), "it did change something"
        assert not same(trained(tmp_path / "b", OPTIONS.model_copy(update={"seed": 1}), stop=2), whole[1])

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [0, 1, 3, 4])
    def test_goes_on_bit_by_bit(self, stop: int, whole: tuple[Path, Any], tmp_path: Path) -> None:
        trained(tmp_path, stop=stop)
        assert same(trained(tmp_path), whole[1])
        assert metrics(tmp_path / FILE) == metrics(whole[0] / FILE)
        assert same(optimizer(tmp_path), optimizer(whole[0]))
        steps = [line["step"] for line in metrics(tmp_path / FILE)]
        assert steps == [0, 1, 2, 3, 4, 5, 6]
        assert rollouts(tmp_path) == rollouts(whole[0])

    @pytest.mark.slow
    def test_a_process_that_is_killed_loses_nothing(self, whole: tuple[Path, Any], tmp_path: Path) -> None:
        """SIGKILL at a random moment, in both trainers; another process goes on."""
        code = "import pathlib, sys; from test_local_trainer import child; child(pathlib.Path(sys.argv[1]))"
        tests = Path(__file__).parents[1]
        places = os.pathsep.join([str(tests / "rl"), str(tests), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": places}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        chance = random.Random()
        wanted, kept = chance.randint(1, 4), tmp_path / "rl" / FILE
        try:
            until = time.monotonic() + 120
            while time.monotonic() < until and process.poll() is None:
                if kept.is_file() and kept.read_bytes().count(b"\n") > wanted:
                    break
                time.sleep(0.002)
            time.sleep(chance.random() * 0.15)
        finally:
            process.send_signal(signal.SIGKILL)
            _, told = process.communicate()
        assert process.returncode == -signal.SIGKILL, told.decode()[-2000:]
        own, others = ({p.name: p.read_bytes() for p in at.iterdir()} for at in (tiny(), tmp_path / "tiny"))
        assert own == others, "in any process, the same seed gives the same checkpoint"
        assert same(trained(tmp_path / "rl"), whole[1])
        assert metrics(tmp_path / "rl" / FILE) == metrics(whole[0] / FILE)
        assert same(optimizer(tmp_path / "rl"), optimizer(whole[0]))
        assert rollouts(tmp_path / "rl") == rollouts(whole[0])
        done = test_supervised.taught(tmp_path / "sft")
        assert done is None or same(done, test_supervised.taught(tmp_path / "other"))

    def test_rollouts_of_some_steps_are_kept(self, whole: tuple[Path, Any]) -> None:
        kept = [
            (line["step"], line["held_out"], line["group"], line["sample"]) for line in rollouts(whole[0])
        ]
        made = [
            (step, False, group, sample) for step in (2, 4, 6) for group in (0, 1) for sample in (0, 1, 2)
        ]
        assert kept == [(0, True, 0, 0), *made[:12], *made[12:], (6, True, 0, 0)]
        assert all(
            line["reward"]["parts"] == {"pattern": line["reward"]["total"]} for line in rollouts(whole[0])
        )

    def test_one_that_is_done_is_done(self, whole: tuple[Path, Any]) -> None:
        before = metrics(whole[0] / FILE)
        assert trained(whole[0]) is None
        assert metrics(whole[0] / FILE) == before

    def test_other_settings_are_refused(self, whole: tuple[Path, Any]) -> None:
        with pytest.raises(TrainingError, match="other settings: group, seed"):
            trained(whole[0], OPTIONS.model_copy(update={"seed": 2, "group": 4}))

    def test_ends_early_where_it_is_good_enough(self, tmp_path: Path) -> None:
        options = OPTIONS.model_copy(update={"stop_at": 0.9, "evaluate_every": 1, "save_every": 100})
        trained(tmp_path, options, reward=always(1.0))
        lines = metrics(tmp_path / FILE)
        assert [line["step"] for line in lines] == [0, 1]
        assert lines[-1]["eval/accuracy"] == 1.0
        assert [entry.step for entry in read_kept_rollouts(tmp_path)] == [0, *[1] * 7], "the last one is kept"
        assert trained(tmp_path, options) is None, "and stays so"


class TestSpeed:
    def test_tokens_of_a_second_are_those_that_were_made(self, tmp_path: Path) -> None:
        trained(tmp_path, OPTIONS.model_copy(update={"entropy": 0.0}), reward=always(1.0), stop=1)
        line = json.loads((tmp_path / FILE).read_text().splitlines()[-1])
        rolled, updated = (line[f"tokens_per_second/{part}"] for part in ("rollouts", "update"))
        assert rolled * line["seconds/rollouts"] == pytest.approx(6 * line["tokens"])
        assert (line["skipped"], updated) == (1.0, 0.0), "all alike: there is nothing to compute"
        assert "computed" not in line
        trained(tmp_path / "other", stop=1)
        line = json.loads((tmp_path / "other" / FILE).read_text().splitlines()[-1])
        assert line["tokens_per_second/update"] * line["seconds/update"] > 6 * line["tokens"]


class TestFaults:
    def test_what_cannot_be_written_ends_the_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else all rollouts of all steps would fail, and it would go on to its end."""

        def full(*_: Any) -> Any:
            raise torch().OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(batched_policy, "write", full)
        with pytest.raises(ModelError, match="not enough memory for the rollouts") as told:
            trained(tmp_path)
        assert "--batch" in (told.value.hint or "")

        def broken(*_: Any) -> Any:
            raise RuntimeError("an operation does not have a deterministic implementation")

        monkeypatch.setattr(batched_policy, "write", broken)
        with pytest.raises(RuntimeError, match="deterministic"):
            trained(tmp_path / "other")


class TestQuestions:
    def test_all_take_turns(self, tmp_path: Path) -> None:
        network = opened()
        drawn: list[list[str]] = []
        for seed in (0, 0, 1):
            options = OPTIONS.model_copy(update={"questions": 4, "seed": seed})
            with MetricsFile.open(tmp_path / FILE, after=None) as file:
                trainer = LocalTrainer(
                    network,
                    agents(network),
                    Counting(by_chance),
                    cases(5),
                    [],
                    options,
                    Checkpoints(tmp_path),
                    file,
                )
            steps = [trainer._draw(step) for step in range(1, 11)]  # pyright: ignore[reportPrivateUsage]
            drawn.append([case.uid for step in steps for case in step])
        assert drawn[0] == drawn[1] != drawn[2]
        rounds = [tuple(drawn[0][at : at + 5]) for at in range(0, 40, 5)]
        assert all(len(set(turn)) == 5 for turn in rounds)
        assert len(set(rounds)) > 1


class TestOptions:
    def test_what_cannot_be_is_refused(self, tmp_path: Path) -> None:
        for wrong in ({"algorithm": "ppo"}, {"group": 1}, {"temperature": 0}, {"stop_at": 2}, {"step": 1}):
            with pytest.raises(ValidationError):
                RlOptions(**wrong)  # pyright: ignore[reportArgumentType]
        network = opened()
        with MetricsFile.open(tmp_path / FILE, after=None) as file:
            shared_parts = (Checkpoints(tmp_path), file)
            with pytest.raises(TrainingError, match="no cases"):
                LocalTrainer(network, agents(network), Counting(by_chance), [], [], OPTIONS, *shared_parts)
            diverging = OPTIONS.model_copy(update={"kl": 0.1})
            with pytest.raises(TrainingError, match="reference model"):
                LocalTrainer(
                    network, agents(network), Counting(by_chance), cases(1), [], diverging, *shared_parts
                )

    def test_the_masks_are_those_of_the_algorithm(self) -> None:
        plain, graph, control = (
            RlOptions(algorithm=name).credit for name in ("grpo", "ggpo", "ggpo-permuted")
        )
        assert (plain.dead_ends, plain.evidence, plain.permute) == (False, False, False)
        assert (graph.dead_ends, graph.evidence, graph.permute) == (True, True, False)
        assert (control.dead_ends, control.evidence, control.permute) == (True, True, True)


class TestLearning:
    def test_a_word_that_is_rewarded_is_said(self, tmp_path: Path) -> None:
        """Taught to say one of four words; paid for one of them."""
        network = opened()
        words = [f"<answer>{word}</answer>" for word in ("red", "blue", "green", "grey")]
        made = [
            sft_rows(network, one.events, one.files) for one in (recorded(network, w, steps=1) for w in words)
        ]
        teacher = Updates(network, UpdateOptions(lr=1e-2, warmup=3))
        for _ in range(25):
            teacher.learn([row for one in made for row in one.rows], {})
        network.save(tmp_path / "taught")

        def paid(_: Case, run: RunResult) -> float:
            return float("blue" in first_words(run))

        options = RlOptions(
            steps=60, questions=1, group=16, max_tokens=6, evaluate_every=100, save_every=100,
            scale=False, update=UpdateOptions(lr=5e-3),
        )  # fmt: skip
        trained(tmp_path / "run", options, reward=paid, model=tmp_path / "taught")
        rewards = [line["reward"] for line in metrics(tmp_path / "run" / FILE) if "reward" in line]
        assert np.mean(rewards[:4]) < 0.5
        assert np.mean(rewards[-4:]) > 0.8
