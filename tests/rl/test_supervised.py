# ruff: noqa: ANN401 - the libraries are not typed
"""Supervised training: rows in turn, learned by heart, stopped and gone on with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from test_update import rows
from tiny_world import metrics, opened, same, shared, tiny, weights

from vrag.errors import TrainingError
from vrag.rl.checkpoints import Checkpoints
from vrag.rl.metrics import FILE, MetricsFile
from vrag.rl.model import open_network
from vrag.rl.trainers.local import FOUND_MEASURE, SftOptions, SupervisedTrainer
from vrag.rl.update import UpdateOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from vrag.rl.model import TrainableModel

OPTIONS = SftOptions(steps=6, batch=3, save_every=2, update=UpdateOptions(lr=1e-2, warmup=3))


def teaching(
    folder: Path, options: SftOptions = OPTIONS, model: Path | None = None
) -> Generator[TrainableModel, None, None]:
    """Trains in a folder, from its last checkpoint on; yields the network after each step."""
    checkpoints = Checkpoints(folder)
    begun = checkpoints.begin(options.model_dump(mode="json"))
    network = open_network(begun.folder if begun else model or tiny(), device="cpu")
    made, files = rows(shared())
    with MetricsFile.open(folder / FILE, after=begun.step if begun else None) as file:
        trainer = SupervisedTrainer(network, made, files, options, checkpoints, file)
        for _ in trainer.train(begun):
            yield network


def taught(
    folder: Path, options: SftOptions = OPTIONS, after: Callable[[int], bool] = lambda _: False
) -> Any:
    """The weights at the end, or where it was stopped."""
    trained: TrainableModel | None = None
    for number, network in enumerate(teaching(folder, options), 1):
        trained = network
        if after(number):
            break
    return None if trained is None else weights(trained)


class TestTraining:
    def test_rows_are_learned_by_heart(self, tmp_path: Path) -> None:
        options = SftOptions(steps=40, batch=4, save_every=40, update=UpdateOptions(lr=1e-2, warmup=5))
        taught(tmp_path, options)
        losses = [line["loss"] for line in metrics(tmp_path / FILE)]
        assert losses[0] > 5
        assert losses[-1] < 0.05

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [1, 2, 3, 5])
    def test_one_that_stops_goes_on_bit_by_bit(self, stop: int, tmp_path: Path) -> None:
        """Also between two checkpoints. For a process that is killed see the trainer by reinforcement."""
        whole = taught(tmp_path / "whole")
        taught(tmp_path / "parts", after=lambda step: step == stop)
        assert same(taught(tmp_path / "parts"), whole)
        assert metrics(tmp_path / "parts" / FILE) == metrics(tmp_path / "whole" / FILE)
        steps = [line["step"] for line in metrics(tmp_path / "parts" / FILE)]
        assert steps == [1, 2, 3, 4, 5, 6]

    def test_one_with_adapters_goes_on_bit_by_bit(self, tmp_path: Path) -> None:
        options = OPTIONS.model_copy(update={"update": UpdateOptions(lr=1e-2, lora_rank=4)})
        whole = taught(tmp_path / "whole", options)
        taught(tmp_path / "parts", options, after=lambda step: step == 3)
        assert same(taught(tmp_path / "parts", options), whole)

    def test_one_that_is_done_is_done(self, tmp_path: Path) -> None:
        whole = taught(tmp_path)
        assert whole is not None
        assert taught(tmp_path) is None
        latest = Checkpoints(tmp_path).latest
        assert latest is not None
        assert latest.step == 6
        assert same(weights(open_network(latest.folder, device="cpu")), whole)

    def test_without_rows_there_is_nothing_to_learn(self, tmp_path: Path) -> None:
        with (
            MetricsFile.open(tmp_path / FILE, after=None) as file,
            pytest.raises(TrainingError, match="no rows"),
        ):
            SupervisedTrainer(opened(), [], {}, OPTIONS, Checkpoints(tmp_path), file)


class TestUntilFound:
    """The training ends by what was measured, and not by a number of steps."""

    OPTIONS = OPTIONS.model_copy(update={"evaluate_every": 2, "until_found": 0.9, "save_every": 100})

    def steps(
        self, folder: Path, found: dict[int, float], *, steps: int = 6, stop: int | None = None
    ) -> list[int]:
        """The steps that are made, where an evaluation finds what is told by its number."""
        options = self.OPTIONS.model_copy(update={"steps": steps})
        checkpoints = Checkpoints(folder)
        begun = checkpoints.begin({})
        network = open_network(begun.folder if begun else tiny(), device="cpu")
        made, files = rows(shared())
        done: list[int] = []

        def evaluate() -> dict[str, float]:
            return {FOUND_MEASURE: found[len(done) + 1 + (begun.step if begun else 0)]}

        with MetricsFile.open(folder / FILE, after=begun.step if begun else None) as file:
            trainer = SupervisedTrainer(network, made, files, options, checkpoints, file, evaluate)
            for step, _ in trainer.train(begun):
                done.append(step)
                if step == stop:
                    break
        return done

    def test_it_ends_where_it_is_reached(self, tmp_path: Path) -> None:
        assert self.steps(tmp_path, {2: 0.1, 4: 0.95}) == [1, 2, 3, 4]
        assert self.steps(tmp_path, {}) == [], "also for one that goes on"
        assert [line.get(FOUND_MEASURE) for line in metrics(tmp_path / FILE)] == [None, 0.1, None, 0.95]

    def test_where_it_is_not_reached_it_fails_and_more_steps_go_on(self, tmp_path: Path) -> None:
        with pytest.raises(TrainingError, match=r"After 3 steps .* find 20% .* 90% are wanted"):
            self.steps(tmp_path, {2: 0.1, 3: 0.2}, steps=3)
        with pytest.raises(TrainingError, match="After 3 steps"):
            self.steps(tmp_path, {}, steps=3)
        assert self.steps(tmp_path, {4: 1.0}, steps=6) == [4]

    def test_without_cases_nothing_can_be_reached(self, tmp_path: Path) -> None:
        made, files = rows(shared())
        with (
            MetricsFile.open(tmp_path / FILE, after=None) as file,
            pytest.raises(TrainingError, match="held-out"),
        ):
            SupervisedTrainer(opened(), made, files, self.OPTIONS, Checkpoints(tmp_path), file)


class TestOrder:
    def test_all_rows_take_turns(self, tmp_path: Path) -> None:
        """Each once a round, in another order each round, by the seed."""
        made, files = rows(shared(), 5)
        orders: list[list[int]] = []
        for seed in (0, 0, 1):
            options = SftOptions(steps=10, batch=4, seed=seed)
            with MetricsFile.open(tmp_path / FILE, after=None) as file:
                trainer = SupervisedTrainer(opened(), made, files, options, Checkpoints(tmp_path), file)
            drawn = [row for step in range(1, 11) for row in trainer._draw(step)]  # pyright: ignore[reportPrivateUsage]
            orders.append([next(at for at, one in enumerate(made) if one is row) for row in drawn])
        assert orders[0] == orders[1] != orders[2]
        rounds = [orders[0][at : at + 5] for at in range(0, 40, 5)]
        assert all(Counter(turn) == Counter(range(5)) for turn in rounds)
        assert len({tuple(turn) for turn in rounds}) > 1
