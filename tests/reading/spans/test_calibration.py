"""The probability of answers: what it learns, and its reliability."""

from __future__ import annotations

import numpy as np
import pytest

from vrag.reading.spans.calibration import expected_error, fit_calibration, measure_reliability


def test_it_recovers_the_probabilities_that_made_the_answers() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(4000, 2))
    true = 1 / (1 + np.exp(-(2 * features[:, 0] - 0.5)))
    right = (random.random(4000) < true).astype(np.float64)

    found = fit_calibration(features, right, ("score", "noise")).probabilities(features)

    assert np.abs(found - true).mean() < 0.03
    assert expected_error(measure_reliability(found, right)) < 0.04


def test_bins_count_every_answer_once() -> None:
    probabilities = np.asarray([0.0, 0.05, 0.1, 0.95, 1.0])
    bins = measure_reliability(probabilities, np.asarray([0, 1, 0, 1, 1]))

    assert [one.answers for one in bins] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert bins[0].right == 0.5
    assert bins[9].right == 1


def test_no_answers_are_an_error() -> None:
    with pytest.raises(ValueError, match="no answers"):
        fit_calibration(np.zeros((0, 2)), np.zeros(0), ("a", "b"))
