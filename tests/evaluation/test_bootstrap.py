"""Draws of documents, against a loop that draws them one by one, and values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vrag.evaluation.intervals import DIFFERENCE, draws, intervals, mean_interval, sample_of

SOURCE = np.random.default_rng(7)


def spread(documents: int) -> np.ndarray:
    """Sums and counts of documents of which no two are alike."""
    counts = SOURCE.integers(1, 9, documents)
    return np.stack([SOURCE.random(documents) * counts, counts], axis=1)


def one_by_one(parts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The cluster bootstrap as the books have it."""
    source = np.random.default_rng(seed)
    picks = [source.integers(0, len(parts), len(parts)) for _ in range(resamples)]
    return np.array([parts[one].sum(axis=0)[0] / parts[one].sum(axis=0)[1] for one in picks])


@pytest.mark.parametrize("documents", [9, 40, 300])
def test_draws_are_distributed_as_those_of_a_loop(documents: int) -> None:
    parts = spread(documents)
    (found,) = draws([parts], resamples=4000, seed=1)
    expected = one_by_one(parts, 4000, 99)
    assert found.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / 4000**0.5)
    for share in (0.025, 0.25, 0.75, 0.975):
        at = np.quantile(found, share)
        assert (expected <= at).mean() == pytest.approx(share, abs=0.025)


def test_kinds_of_documents_are_drawn_as_documents_are() -> None:
    """Of 9 kinds, 280 documents are drawn by kind and 140 one by one; σ/√G of a mean is by the book."""
    values = np.repeat(np.arange(9.0), [40, 20, 20, 15, 15, 12, 10, 5, 3])
    one_by_one = np.stack([values, np.ones(140)], axis=1)
    for parts in (np.repeat(one_by_one, 2, axis=0), one_by_one):
        (found,) = draws([parts], resamples=4000, seed=3)
        error = parts[:, 0].std() / len(parts) ** 0.5
        assert found.std() == pytest.approx(error, rel=0.05)
        assert found.mean() == pytest.approx(parts[:, 0].mean(), abs=4 * error / 4000**0.5)


def test_a_ratio_is_taken_anew_of_every_draw() -> None:
    """Document a: 1 of 1, document b: 1 of 3. The ratio of a draw is 1, 2/4 or 1/3, no mean of ratios."""
    (found,) = draws([np.array([[1.0, 1.0], [1.0, 3.0]])], resamples=100, seed=0)
    assert set(found.tolist()) == {1.0, 0.5, 1 / 3}


def test_a_draw_without_a_denominator_is_0() -> None:
    (found,) = draws([np.array([[2.0, 2.0], [0.0, 0.0]])], resamples=100, seed=0)
    assert set(found.tolist()) == {0.0, 1.0}


def test_what_else_is_measured_changes_no_draw() -> None:
    first, second, third = spread(30), spread(30), spread(31)
    (alone,) = draws([first], resamples=50, seed=5)
    together = draws([third, second, first[::-1]], resamples=50, seed=5)
    assert together[2] == pytest.approx(alone, rel=1e-12)
    assert [len(one) for one in together] == [50, 50, 50]


def test_another_seed_draws_others() -> None:
    parts = spread(30)
    once, again = (draws([parts], resamples=50, seed=seed)[0] for seed in (1, 1))
    assert (once == again).all()
    assert not (once == draws([parts], resamples=50, seed=2)[0]).all()


def test_draws_that_are_made_in_parts_are_as_many_as_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = spread(30)
    monkeypatch.setattr("vrag.evaluation.intervals.MAX_DRAWN_NUMBERS", 100)
    (found,) = draws([parts, spread(30)], resamples=47, seed=1)[:1]
    assert found.shape == (47,)
    assert len(set(found.tolist())) == 47
    assert found.mean() == pytest.approx(parts[:, 0].sum() / parts[:, 1].sum(), rel=0.2)


def test_many_intervals_are_those_of_each() -> None:
    values = [SOURCE.random(60), SOURCE.integers(0, 2, 60).astype(float), np.ones(60), -SOURCE.random(60)]
    documents = np.arange(60) % 17
    limits = [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), DIFFERENCE]
    samples = [sample_of(one, documents, limits=ends) for one, ends in zip(values, limits, strict=True)]
    found = intervals(samples, resamples=80)
    for one, ends, together in zip(values, limits, found, strict=True):
        alone = mean_interval(one.tolist(), documents.tolist(), limits=ends, resamples=80)
        assert together is not None
        assert alone is not None
        assert (together.low, together.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
        assert (together.method, together.documents) == (alone.method, alone.documents)
