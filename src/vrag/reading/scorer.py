"""A small network that scores the candidates for an answer by their features, and its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.integer[Any]]

_MOMENTS = 0.9, 0.999
"""Decay of the running means of gradients and of their squares (Adam: Kingma and Ba 2015)."""
_NEGLIGIBLE = 1e-9
"""Smaller gradients of a score are dropped: arithmetic with subnormal numbers takes ten times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateScorer:
    """A network with one hidden layer of rectified units beside a linear part.

    With `f` features and `h` hidden units; features are standardised first. Candidates may have codes too:
    rows of a table of weights, which are added to the score.
    """

    names: tuple[str, ...]
    """Names of the features, in the order of their columns."""
    mean: Floats
    """Shape (f,)."""
    scale: Floats
    """Shape (f,)."""
    linear: Floats
    """Shape (f,)."""
    hidden: Floats
    """Shape (f, h)."""
    bias: Floats
    """Shape (h,)."""
    output: Floats
    """Shape (h,)."""
    table: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """Weights of the codes, of any length."""

    def scores(self, features: NDArray[np.floating[Any]], codes: Codes | None = None) -> Floats:
        """Score candidates, given as rows of features of shape (n, f) and of codes; returns shape (n,)."""
        standard = (np.asarray(features, np.float32) - self.mean) / self.scale
        active = np.maximum(standard @ self.hidden + self.bias, 0)
        scores = standard @ self.linear + active @ self.output
        if codes is not None and len(self.table):
            scores += self.table[codes].sum(axis=1)
        return scores.astype(np.float32)

    def save(self, path: Path) -> None:
        """Write the weights as a NumPy archive."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if len(self.table):
            step = float(np.abs(self.table).max()) / 127 or 1.0
            arrays |= {"table": np.round(self.table / step).astype(np.int8), "step": np.float32(step)}
        np.savez_compressed(path, names=np.asarray(self.names), **arrays)

    @classmethod
    def load(cls, path: Path) -> CandidateScorer:
        """Read the weights that `save` wrote."""
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in _ARRAYS}
            if "table" in archive.files:
                arrays["table"] = archive["table"].astype(np.float32) * archive["step"]
            return cls(names=tuple(archive["names"].tolist()), **arrays)


_ARRAYS = "mean", "scale", "linear", "hidden", "bias", "output"


class Group(NamedTuple):
    """The candidates for one question."""

    features: Floats
    """Shape (n, f)."""
    gains: Floats
    """The worth of each candidate, 0 for wrong to 1 for right; shape (n,)."""
    codes: Codes | None = None
    """Rows of the table of weights, shape (n, c)."""
    offsets: Floats | None = None
    """Added to the scores in training, shape (n,): log(m) for a candidate that stands for m of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Options of the training of a scorer."""

    units: int = 64
    """Hidden units; 0 for a linear model."""
    epochs: int = 10
    batch: int = 32
    """Questions per step."""
    rate: float = 2e-3
    """Learning rate at the start; it falls linearly to 0."""
    decay: float = 1e-4
    """Weight decay, taken off beside the gradient's step."""
    seed: int = 0
    codes: int = 0
    """Rows of the table of weights of codes."""
    code_rate: float = 0.2
    """Learning rate of the table at the start."""
    code_decay: float = 1e-4
    """Weight decay of the table, taken off at each step."""


def train_scorer(groups: Sequence[Group], names: Sequence[str], options: TrainingOptions) -> CandidateScorer:
    """Train a scorer to give the right candidates of each question most of the probability.

    The loss of a question is listwise: -log Σ pᵢ·gᵢ over its candidates, where p is the softmax of the scores
    and g are the gains. Questions without a right candidate are left out. Raises `ValueError` if none is
    left.
    """
    usable = [group for group in groups if group.gains.max(initial=0) > 0]
    if not usable:
        raise ValueError("no question has a right candidate")
    random = np.random.default_rng(options.seed)
    mean, scale = _moments(usable)
    width, units = len(names), options.units
    weights = {
        "linear": np.zeros(width, np.float32),
        "hidden": random.normal(0, np.sqrt(2 / width), (width, units)).astype(np.float32),
        "bias": np.zeros(units, np.float32),
        "output": random.normal(0, 0.1, units).astype(np.float32),
    }
    adam, table = _Adam(weights, options.decay), _Table(options)
    steps = options.epochs * -(-len(usable) // options.batch)
    for _ in range(options.epochs):
        order: list[int] = random.permutation(len(usable)).tolist()
        for begin in range(0, len(usable), options.batch):
            batch = [usable[number] for number in order[begin : begin + options.batch]]
            features = (np.concatenate([group.features for group in batch]).astype(np.float32) - mean) / scale
            starts = np.cumsum([0, *(len(group.gains) for group in batch[:-1])])
            gains = np.concatenate([group.gains for group in batch])
            codes = _codes_of(batch) if options.codes else None
            left = 1 - adam.steps / steps
            found, slopes = gradients(
                weights, features, gains, starts, table.scores(codes) + _offsets_of(batch)
            )
            adam.step(found, options.rate * left)
            table.step(codes, slopes * len(batch), left)
    return CandidateScorer(names=tuple(names), mean=mean, scale=scale, table=table.weights, **weights)


def _codes_of(batch: Sequence[Group]) -> Codes:
    return np.concatenate([group.codes for group in batch if group.codes is not None])


def _offsets_of(batch: Sequence[Group]) -> Floats:
    zeros = (np.zeros(len(group.gains), np.float32) for group in batch)
    pairs = zip(batch, zeros, strict=True)
    return np.concatenate([zero if group.offsets is None else group.offsets for group, zero in pairs])


def _moments(groups: Sequence[Group]) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature, 1 where it never changes."""
    count = sum(len(group.gains) for group in groups)
    mean = sum(group.features.sum(axis=0, dtype=np.float64) for group in groups) / count
    squares = sum(((group.features - mean) ** 2).sum(axis=0) for group in groups)
    scale = np.sqrt(np.asarray(squares) / count)
    return np.asarray(mean, np.float32), np.where(scale < 1e-6, 1, scale).astype(np.float32)


def gradients(
    weights: dict[str, Floats],
    features: Floats,
    gains: Floats,
    starts: NDArray[np.int64],
    more: Floats | float = 0.0,
) -> tuple[dict[str, Floats], Floats]:
    """Return the gradients of the mean loss of a batch of questions, for the weights and for the scores.

    `features` are standardised, of shape (n, f); the candidates of question k are the rows from `starts[k]`
    on. `more` is added to the scores.
    """
    before = features @ weights["hidden"] + weights["bias"]
    active = np.maximum(before, 0)
    scores = features @ weights["linear"] + active @ weights["output"] + more
    lengths = np.diff([*starts, len(scores)])
    raised = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
    shares = raised / np.repeat(np.add.reduceat(raised, starts), lengths)
    right = np.maximum(np.repeat(np.add.reduceat(shares * gains, starts), lengths), 1e-12)
    slopes = (shares * (1 - gains / right) / len(starts)).astype(np.float32)
    slopes[np.abs(slopes) < _NEGLIGIBLE] = 0
    into_hidden = slopes[:, None] * weights["output"] * (before > 0)
    found = {
        "linear": features.T @ slopes,
        "hidden": features.T @ into_hidden,
        "bias": into_hidden.sum(axis=0),
        "output": active.T @ slopes,
    }
    return found, slopes


class _Table:
    """Weights of codes, learnt by AdaGrad (Duchi, Hazan and Singer 2011), since most codes are rare."""

    def __init__(self, options: TrainingOptions) -> None:
        self.weights = np.zeros(options.codes, np.float32)
        self._squares = np.ones(options.codes, np.float32)
        self._rate, self._decay = options.code_rate, options.code_decay

    def scores(self, codes: Codes | None) -> Floats | float:
        return 0.0 if codes is None else self.weights[codes].sum(axis=1)

    def step(self, codes: Codes | None, slopes: Floats, left: float) -> None:
        """Learn from the gradients of the scores; `left` is the part of the rate that is left."""
        if codes is None:
            return
        repeated = np.repeat(slopes, codes.shape[1])
        found = np.bincount(codes.ravel(), repeated, len(self.weights)).astype(np.float32)
        self._squares += found * found
        self.weights *= 1 - left * self._decay
        self.weights -= left * self._rate * found / np.sqrt(self._squares)


class _Adam:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); it changes the weights in place."""

    def __init__(self, weights: dict[str, Floats], decay: float) -> None:
        self._weights, self._decay = weights, decay
        self._means = {name: np.zeros_like(array) for name, array in weights.items()}
        self._squares = {name: np.zeros_like(array) for name, array in weights.items()}
        self.steps = 0

    def step(self, slopes: dict[str, Floats], rate: float) -> None:
        self.steps += 1
        first, second = _MOMENTS
        for name in self._weights:
            self._means[name] += (1 - first) * (slopes[name] - self._means[name])
            self._squares[name] += (1 - second) * (slopes[name] ** 2 - self._squares[name])
            mean = self._means[name] / (1 - first**self.steps)
            square = self._squares[name] / (1 - second**self.steps)
            change = mean / (np.sqrt(square) + 1e-8) + self._decay * self._weights[name]
            self._weights[name] -= rate * change
