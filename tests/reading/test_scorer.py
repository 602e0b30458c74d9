"""The scorer of candidates: its gradients, what it learns, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vrag.reading.scorer import CandidateScorer, Group, TrainingOptions, gradients, train_scorer

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

NAMES = ("first", "second", "constant")


def questions(count: int, seed: int) -> list[Group]:
    """Of five candidates one is right: the one whose two features have the same sign."""
    random = np.random.default_rng(seed)
    groups: list[Group] = []
    for _ in range(count):
        signs = random.choice([-1, 1], 5)
        right = random.integers(5)
        others = -signs
        others[right] = signs[right]
        sizes = random.uniform(0.5, 1.5, (5, 2))
        features = np.column_stack([signs * sizes[:, 0], others * sizes[:, 1], np.ones(5)])
        groups.append(Group(features.astype(np.float32), np.eye(5, dtype=np.float32)[right]))
    return groups


def share_right(scorer: CandidateScorer, groups: list[Group]) -> float:
    return float(np.mean([group.gains[scorer.scores(group.features).argmax()] for group in groups]))


def test_it_learns_what_no_linear_model_can() -> None:
    train, test = questions(300, seed=0), questions(200, seed=1)
    network = train_scorer(train, NAMES, TrainingOptions(units=16, epochs=20, rate=0.01))
    line = train_scorer(train, NAMES, TrainingOptions(units=0, epochs=20, rate=0.01))
    assert share_right(network, test) > 0.95
    assert share_right(line, test) < 0.7


def test_the_same_seed_gives_the_same_weights() -> None:
    first, same, other = (
        train_scorer(questions(20, 0), NAMES, TrainingOptions(units=4, epochs=2, seed=seed))
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first.hidden, same.hidden)
    assert not np.array_equal(first.hidden, other.hidden)


def loss(weights: dict[str, NDArray[np.float32]], batch: list[Group]) -> float:
    """The mean of -log Σ p·g, written out question by question."""
    total = 0.0
    for group in batch:
        active = np.maximum(group.features @ weights["hidden"] + weights["bias"], 0)
        raised = np.exp(group.features @ weights["linear"] + active @ weights["output"])
        total -= float(np.log((raised / raised.sum() * group.gains).sum()))
    return total / len(batch)


@pytest.mark.parametrize("name", ["linear", "hidden", "bias", "output"])
def test_gradients_are_those_of_the_loss(name: str) -> None:
    random = np.random.default_rng(0)
    batch = [
        Group(random.normal(size=(n, 3)), random.uniform(0, 1, n))  # pyright: ignore[reportArgumentType]
        for n in (4, 1, 6)
    ]
    shapes = {"linear": 3, "hidden": (3, 5), "bias": 5, "output": 5}
    weights = {key: random.normal(size=shape) for key, shape in shapes.items()}
    stacked = np.concatenate([group.features for group in batch]), np.concatenate([g.gains for g in batch])
    found, _ = gradients(weights, *stacked, np.asarray([0, 4, 5]))  # pyright: ignore[reportArgumentType]
    slopes = found[name]

    flat = weights[name].reshape(-1)
    for place in range(len(flat)):
        kept, step = flat[place], 1e-5
        flat[place] = kept + step
        above = loss(weights, batch)  # pyright: ignore[reportArgumentType]
        flat[place] = kept - step
        below = loss(weights, batch)  # pyright: ignore[reportArgumentType]
        flat[place] = kept
        assert slopes.reshape(-1)[place] == pytest.approx((above - below) / (2 * step), abs=1e-4)


def test_a_file_gives_the_same_scores(tmp_path: Path) -> None:
    scorer = train_scorer(questions(20, 0), NAMES, TrainingOptions(units=4, epochs=2))
    scorer.save(tmp_path / "weights.npz")
    again = CandidateScorer.load(tmp_path / "weights.npz")
    features = questions(1, 5)[0].features
    assert again.names == NAMES
    assert np.array_equal(again.scores(features), scorer.scores(features))


def test_without_a_right_candidate_nothing_can_be_learnt() -> None:
    with pytest.raises(ValueError, match="no question"):
        train_scorer([Group(np.ones((2, 3), np.float32), np.zeros(2, np.float32))], NAMES, TrainingOptions())


def test_it_learns_weights_of_codes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    groups: list[Group] = []
    for _ in range(200):
        codes = random.integers(1, 50, (4, 3))
        right = int(random.integers(4))
        codes[right, 0] = 0
        gains = np.eye(4, dtype=np.float32)[right]
        groups.append(Group(np.zeros((4, 3), np.float32), gains, codes))
    scorer = train_scorer(groups, NAMES, TrainingOptions(units=2, epochs=5, codes=50))
    scorer.save(tmp_path / "scorer.npz")
    again = CandidateScorer.load(tmp_path / "scorer.npz")
    for each in (scorer, again):
        assert all(each.scores(g.features, g.codes).argmax() == g.gains.argmax() for g in groups)
    np.testing.assert_allclose(again.table, scorer.table, atol=float(np.abs(scorer.table).max()) / 127)


def test_candidates_count_as_often_as_their_offsets_say() -> None:
    groups = questions(20, seed=0)
    absent = [
        group._replace(offsets=np.where(group.gains > 0, 0, -60).astype(np.float32)) for group in groups
    ]
    options = TrainingOptions(units=0, epochs=2)

    plain, alone = (train_scorer(found, NAMES, options).linear for found in (groups, absent))

    assert np.abs(plain).max() > 1e-3
    assert not alone.any()
