"""The probability that an answer is right, from a few features of the best candidates of any source."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.features import SPAN_FEATURES
from vrag.reading.spans.span_context import Floats

BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A logistic regression over features of an answer."""

    names: tuple[str, ...]
    """Names of the features."""
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    slopes: NDArray[np.float64]
    intercept: float

    def probabilities(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the probability of each row of features, shape (n, f), to be right."""
        standard = (np.asarray(features, np.float64) - self.mean) / self.scale
        return _logistic(standard @ self.slopes + self.intercept)


class ReliabilityBin(NamedTuple):
    """The answers whose probability falls in one bin."""

    low: float
    high: float
    answers: int
    probability: float
    """Mean of the probabilities; 0 of no answer."""
    right: float
    """Share that is right; 0 of no answer."""


def fit_calibration(
    features: NDArray[np.floating[Any]],
    right: NDArray[np.floating[Any]],
    names: Sequence[str],
    penalty: float = 1.0,
) -> Calibration:
    """Fit the regression; `right` is 1 or 0, or a share in between, of each row.

    `penalty` weighs the squares of the slopes against the sum of the losses. Raises `ValueError` if there is
    no row.
    """
    rows, targets = np.asarray(features, np.float64), np.asarray(right, np.float64)
    if not len(rows):
        raise ValueError("no answers to fit a calibration to")
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1
    standard = (rows - mean) / scale

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = standard @ weights[1:] + weights[0]
        slope = _logistic(scores) - targets
        gradient = np.concatenate([[slope.sum()], standard.T @ slope + penalty * weights[1:]])
        value = np.logaddexp(0, scores).sum() - targets @ scores + penalty * (weights[1:] ** 2).sum() / 2
        return float(value), gradient

    optimize: Any = importlib.import_module("scipy.optimize")  # it ships no types
    found = optimize.minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B")
    weights: NDArray[np.float64] = np.asarray(found.x, np.float64)
    return Calibration(
        names=tuple(names), mean=mean, scale=scale, slopes=weights[1:], intercept=float(weights[0])
    )


def measure_reliability(
    probabilities: NDArray[np.floating[Any]], right: NDArray[np.floating[Any]]
) -> list[ReliabilityBin]:
    """Compare probabilities with shares of right answers, in ten bins of equal width."""
    numbers = np.clip((np.asarray(probabilities) * BINS).astype(int), 0, BINS - 1)
    bins: list[ReliabilityBin] = []
    for number in range(BINS):
        chosen = numbers == number
        count = int(chosen.sum())
        mean, share = (probabilities[chosen].mean(), right[chosen].mean()) if count else (0.0, 0.0)
        bins.append(ReliabilityBin(number / BINS, (number + 1) / BINS, count, float(mean), float(share)))
    return bins


def expected_error(bins: Sequence[ReliabilityBin]) -> float:
    """Return the mean distance between probability and share of right answers, weighted by count."""
    total = sum(one.answers for one in bins)
    return sum(one.answers * abs(one.probability - one.right) for one in bins) / max(total, 1)


def _logistic(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(scores, -60, 60)))


_COLUMNS = "sentence_cover", "outside", "agrees", "proximity", "inside_share", "head_sentence"
CONFIDENCE_FEATURES: tuple[str, ...] = ("score", "above_mean", "margin", "share", *_COLUMNS)
"""Names of the features of an answer."""


def confidence_features(
    features: Floats, scores: Floats, starts: NDArray[np.int32], ends: NDArray[np.int32], chosen: int
) -> NDArray[np.float64]:
    """Return the features of the chosen one of the candidates.

    Its score is the highest of the candidates that overlap it. The margin is the distance to the best
    candidate that does not.
    """
    apart = (starts >= ends[chosen]) | (ends <= starts[chosen])
    second = float(scores[apart].max()) if apart.any() else float(scores.min())
    top = float(scores[~apart].max())
    shares = np.exp(scores - scores.max())
    columns = [float(features[chosen, SPAN_FEATURES.index(name)]) for name in _COLUMNS]
    share = float(shares[~apart].sum() / shares.sum())
    return np.asarray([top, top - float(scores.mean()), top - second, share, *columns], np.float64)
