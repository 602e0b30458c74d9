"""Significance tests of the difference of two settings, by their differences question by question.

One test for every measure: were both settings the same, each difference could as well have had the other
sign (Fisher 1935, "The design of experiments"; for means of differences Smucker, Allan and Carterette 2007,
"A comparison of statistical significance tests for information retrieval evaluation"). Of the sums that all
signs give, p is the share that is farther from 0 than the sum found, and half of those as far: the mid-p.
Without the half a set with few differing questions could not be significant (Fagerland, Lydersen and Laake
2013, "The McNemar test for binary matched-pairs data", BMC Medical Research Methodology 13:91); with it the
share of false alarms at .05 is between .02 and .08 from 8 differing questions on.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

DRAWS = 9_999
"""Draws of signs where there are too many to go through all of them."""
MIN_UNITS = 5
"""Differing units below which no outcome could be significant at .05."""
_MAX_ENUMERATED = 14
"""Differing units up to which all signs are gone through."""
_MAX_SUM = 10_000
"""Sum of whole differences up to which the distribution of their sums is computed."""
_MAX_STEPS = 12
"""Equal steps of the smallest difference, of which the others are multiples too."""
_ROUNDING = 1e-9
"""Share of the greatest difference, or of their sum, that is taken for rounding."""
_MAX_DRAWN_SIGNS = 1 << 22
"""Signs drawn at once: a bound on memory."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The result of a test."""

    p: float
    """Probability of a difference as great or greater between settings that are the same; two-sided mid-p."""
    units: int
    """Questions or documents that differ; fewer than `MIN_UNITS` cannot be significant at .05."""
    exact: bool
    """True if all signs were considered; else `DRAWS` of them."""

    @property
    def too_few(self) -> bool:
        """True if so few differ that nothing could have been significant."""
        return self.units < MIN_UNITS

    def as_dict(self) -> dict[str, float | int | bool]:
        """Return the JSON object of the result: p, units, and whether it is exact and has too few units."""
        return {"p": self.p, "units": self.units, "exact": self.exact, "too_few": self.too_few}


def sign_flip(
    differences: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Significance:
    """Test whether the sum of the differences is 0 but for chance, by turning their signs.

    p is the share of signs that bring the sum farther from 0 than it is, on either side; signs that bring it
    as far count half (mid-p). All signs are considered where all units differ by as much (on right and wrong
    this is McNemar's test), where units differ by whole multiples of a step (as sums of right and wrong over
    documents do), and where 14 units or fewer differ. Else signs are drawn, from a seed that is made of
    `seed` and the differences without their signs: neither their order nor which setting is the first
    changes the result. `scipy.stats.permutation_test` has no mid-p and takes ten times as long.

    Args:
        differences: The value of one setting less that of the other, for each question.
        units: The unit of each difference, whose signs are turned together. With documents, the test asks
            whether the difference holds on other documents; with questions, whether there is one at all.
            None makes each difference a unit of its own.
        draws: Number of draws, where signs are drawn.
        seed: Seed of the draws.

    Raises:
        ValueError: If `differences` and `units` are not equally long, or a difference is not finite.

    >>> sign_flip([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, -1.0]).p
    0.125
    >>> sign_flip([0.0, 0.0]).p
    1.0
    """
    sums = np.array([math.fsum(cluster) for cluster in _clusters(differences, units)], np.float64)
    sums = sums[np.abs(sums) > _ROUNDING * max(map(abs, differences), default=0.0)]
    sizes = np.sort(np.abs(sums))
    observed = abs(math.fsum(sums))
    if not len(sizes):
        return Significance(1.0, 0, exact=True)
    if sizes[-1] - sizes[0] <= _ROUNDING * sizes[-1]:
        return Significance(_binomial(len(sizes), round(observed / float(sizes[-1]))), len(sizes), exact=True)
    step = _step(sizes)
    if step is not None:
        p = _counted(np.rint(sizes / step).astype(np.int64), round(observed / step))
        return Significance(p, len(sizes), exact=True)
    if len(sizes) <= _MAX_ENUMERATED:
        return Significance(_enumerated(sizes, observed), len(sizes), exact=True)
    return Significance(_drawn(sizes, observed, draws, seed), len(sizes), exact=False)


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Correct p values by name for the number of tests; in the given order, at most 1.

    Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
    6:65: of k values, the least times k, the next times k - 1 and so on, and never less than the one before.

    >>> holm({"f1": 0.04, "em": 0.01, "ndcg@5": 0.03})
    {'f1': 0.06, 'em': 0.03, 'ndcg@5': 0.06}
    """
    corrected: dict[str, float] = {}
    greatest = 0.0
    for rank, name in enumerate(sorted(values, key=lambda name: values[name])):
        greatest = max(greatest, min(1.0, (len(values) - rank) * values[name]))
        corrected[name] = greatest
    return {name: corrected[name] for name in values}


def detectable(differences: Sequence[float], units: Sequence[Hashable]) -> float | None:
    """Return the least true difference that would be found significant in 80 % of cases, with as much noise.

    (z.975 + z.80) standard errors, some 2.8; they are those of a mean over clusters, √(G/(G-1) Σ r²) / n,
    where r is what each of the G units adds to n times the mean (Miller 2024, arXiv 2411.00640). Raises
    `ValueError` if the two are not equally long, or a difference is not finite. None where it cannot be said:
    fewer than two units (documents or questions), or differences without noise.
    """
    clusters = _clusters(differences, units)
    if len(clusters) < 2:
        return None
    mean = math.fsum(differences) / len(differences)
    square = math.fsum((math.fsum(cluster) - mean * len(cluster)) ** 2 for cluster in clusters)
    error = math.sqrt(len(clusters) / (len(clusters) - 1) * square) / len(differences)
    normal = NormalDist()
    reach = (normal.inv_cdf(0.975) + normal.inv_cdf(0.8)) * error
    return reach if reach > _ROUNDING * max(map(abs, differences)) else None


def _clusters(differences: Sequence[float], units: Sequence[Hashable] | None) -> list[list[float]]:
    if units is not None and len(units) != len(differences):
        raise ValueError(f"{len(differences)} differences, and units of {len(units)}")
    if not all(map(math.isfinite, differences)):
        raise ValueError("a difference is not finite")
    if units is None:
        return [[difference] for difference in differences]
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for unit, difference in zip(units, differences, strict=True):
        found[unit].append(difference)
    return list(found.values())


def _binomial(units: int, observed: int) -> float:
    """Return the mid-p of a sum of signs, by whole numbers: exact at any size."""
    if not units:
        return 1.0
    ways, farther = 1, 0  # to choose the signs that are in the minority, from none on
    for minority in range((units - observed) // 2):
        farther += ways
        ways = ways * (units - minority) // (minority + 1)
    if not observed:
        return 1 - ways / 2 ** (units + 1)
    return (2 * farther + ways) / 2**units


def _step(sizes: NDArray[np.float64]) -> float | None:
    """Return a step of which all sizes are whole multiples, if there is one and all sums can be counted."""
    for parts in range(1, _MAX_STEPS + 1):
        step = float(sizes[0]) / parts
        multiples = sizes / step
        if multiples.sum() > _MAX_SUM:
            return None
        if np.allclose(multiples, np.rint(multiples), rtol=0, atol=_ROUNDING):
            return step
    return None


def _counted(sizes: NDArray[np.int64], observed: int) -> float:
    """Return the mid-p of whole sizes, by the distribution of the sum of those that have a plus.

    That sum T is s with the share of signs of which it is s; all signs together sum to 2T less all sizes.
    """
    shares = np.zeros(int(sizes.sum()) + 1)
    shares[0] = 1.0
    for size in map(int, sizes):
        without = shares / 2
        shares = without.copy()
        shares[size:] += without[:-size]
    reached = np.abs(2 * np.arange(len(shares)) - (len(shares) - 1))
    return min(1.0, float(shares[reached > observed].sum() + shares[reached == observed].sum() / 2))


def _enumerated(sizes: NDArray[np.float64], observed: float) -> float:
    """Return the mid-p by all signs; of each and its opposite, one."""
    signs = np.arange(1 << (len(sizes) - 1))[:, None] >> np.arange(len(sizes)) & 1
    farther, as_far = _beyond((2 * signs - 1) @ sizes, observed, sizes)
    return (farther + as_far / 2) / len(signs)


def _drawn(sizes: NDArray[np.float64], observed: float, draws: int, seed: int) -> float:
    """Return the mid-p by signs that are drawn; the observed signs count as one of the draws."""
    content = np.append(sizes, observed).tobytes() + str(seed).encode()
    source = np.random.default_rng(int.from_bytes(hashlib.sha256(content).digest()[:8], "big"))
    farther = as_far = 0
    rows = max(1, _MAX_DRAWN_SIGNS // len(sizes))
    for at in range(0, draws, rows):
        size = (min(rows, draws - at), len(sizes))
        bits = np.frombuffer(source.bytes(math.prod(size) // 8 + 1), np.uint8)
        signs = np.unpackbits(bits, count=math.prod(size)).reshape(size)
        more, same = _beyond(2 * (signs @ sizes) - sizes.sum(), observed, sizes)
        farther, as_far = farther + more, as_far + same
    return (farther + (as_far + 1) / 2) / (draws + 1)


def _beyond(sums: NDArray[np.float64], observed: float, sizes: NDArray[np.float64]) -> tuple[int, int]:
    """Count the sums that are farther from 0 than the observed one, and those that are as far."""
    rounding = _ROUNDING * float(sizes.sum())
    beyond = np.abs(sums) - observed
    return int((beyond > rounding).sum()), int((np.abs(beyond) <= rounding).sum())
