"""95 % intervals: how far a measure may be off, had other documents been asked about.

Questions about one document are not independent, so documents are drawn, each with all its questions, and
the measure is taken again of every draw (the cluster bootstrap). Drawing questions instead covers the truth
in some 80 % of cases where documents differ in how hard they are.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

MAX_DRAWN_NUMBERS = 1 << 20
"""Numbers drawn at once: a bound on memory."""
_FEW_KINDS, _DOCUMENTS_OF_A_KIND = 8, 16
"""Kinds of documents up to which kinds are drawn; or where so many documents are of a kind, on average."""


def draws(
    parts: Sequence[NDArray[np.float64]], *, resamples: int, seed: int = 0
) -> list[NDArray[np.float64]]:
    """Draw documents with replacement, and return the ratios of sums over them, for many measures at once.

    As many documents are drawn as there are. How often each of them was drawn is one row of a matrix, which
    all measures of as many documents share, so that a product takes the place of a draw for each. Documents
    that are of few kinds, with the same numbers, are drawn by kind (multinomial): the same distribution, and
    quick for thousands of documents of one question each. `scipy.stats.bootstrap` takes ten times as long.

    Documents stand in the order of their numbers, and each number of documents has draws of its own. So
    neither the order of questions nor names of documents nor what else is measured changes an interval, but
    for rounding.

    Each measure has a numerator and a denominator for each document, shape (G, 2), with G of its own, at
    least 1; for a mean, sum and count. Its result has shape (resamples,), with 0 where the documents of a
    draw have no denominator.
    """
    found: dict[int, NDArray[np.float64]] = {}
    alike: defaultdict[int, list[int]] = defaultdict(list)
    spread: dict[int, NDArray[np.float64]] = {}
    for at, part in enumerate(parts):
        kinds, counts = np.unique(part, axis=0, return_counts=True)
        if len(kinds) <= max(_FEW_KINDS, len(part) // _DOCUMENTS_OF_A_KIND):
            source, documents = np.random.default_rng(seed), int(counts.sum())
            rows = max(1, MAX_DRAWN_NUMBERS // len(kinds))
            sums = [
                source.multinomial(documents, counts / documents, min(rows, resamples - start)) @ kinds
                for start in range(0, resamples, rows)
            ]
            found[at] = _ratios(np.concatenate(sums))[:, 0]
        else:
            spread[at] = np.repeat(kinds, counts, axis=0)
            alike[len(part)].append(at)
    for documents, indices in alike.items():
        together = np.concatenate([spread[at] for at in indices], axis=1)
        drawn = [_ratios(often @ together) for often in _weights(documents, resamples, seed)]
        found |= zip(indices, np.concatenate(drawn).T, strict=True)
    return [found[at] for at in range(len(parts))]


def _weights(documents: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each document was drawn, shape (draws, documents), some draws at a time."""
    source = np.random.default_rng(seed)
    rows = max(1, MAX_DRAWN_NUMBERS // documents)
    for at in range(0, resamples, rows):
        some = min(rows, resamples - at)
        picks = source.integers(0, documents, (some, documents))
        picks += np.arange(some)[:, None] * documents
        often = np.bincount(picks.ravel(), minlength=some * documents)
        yield often.reshape(some, documents).astype(np.float64)


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide numerators by denominators, which alternate along the rows."""
    above, below = sums[:, ::2], sums[:, 1::2]
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


LEVEL = 0.95
"""Confidence of an interval."""
_NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)

RESAMPLES = 2_000
"""Draws for an interval."""
SHARE = (0.0, 1.0)
"""Limits of a measure between 0 and 1."""
DIFFERENCE = (-1.0, 1.0)
"""Limits of a difference of two such measures."""
FEW = 6
"""Documents below which an interval, or a test by document, says little."""


class IntervalMethod(StrEnum):
    """Method of an interval."""

    BOOTSTRAP = "bootstrap"
    """Documents were drawn."""
    WILSON = "wilson"
    """One document, or nothing that varies: Wilson's interval over the questions, whatever the documents."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float
    method: IntervalMethod
    documents: int
    """Number of documents; fewer than `FEW` say little."""

    @property
    def few(self) -> bool:
        """True if there were too few documents to say much about others."""
        return self.documents < FEW

    def as_dict(self) -> dict[str, float | str | int | bool]:
        """Return the JSON object of the interval: its fields, the name of the method, and `few`."""
        return asdict(self) | {"method": self.method.value, "few": self.few}


@dataclass(frozen=True, slots=True, eq=False)
class ClusteredSample:
    """Data of an interval: a mean over questions, or another ratio of sums over documents."""

    parts: NDArray[np.float64]
    """Numerator and denominator of each document, shape (documents, 2); for a mean, sum and count."""
    cases: int
    """Different questions, used where drawing documents is not informative."""
    limits: tuple[float, float] | None
    """Least and greatest possible value; None without limits."""
    only: float | None = None
    """The value, where all values are the same."""

    @property
    def estimate(self) -> float:
        """The ratio; 0 without a denominator."""
        above, below = (math.fsum(column) for column in self.parts.T)
        return above / below if below else 0.0


def sample_of(
    values: NDArray[np.float64],
    documents: NDArray[np.intp],
    *,
    questions: int | None = None,
    limits: tuple[float, float] | None = SHARE,
) -> ClusteredSample:
    """Make the sample of a mean; the arguments are those of `mean_interval`, with documents by number."""
    order = np.argsort(values, kind="stable")  # rounding must not depend on the order of the questions
    counts = np.bincount(documents)
    sums = np.zeros(len(counts))
    np.add.at(sums, documents[order], values[order])
    same = len(values) > 0 and bool(values[order[0]] == values[order[-1]])
    return ClusteredSample(
        np.stack([sums, counts.astype(np.float64)], axis=1)[counts > 0],
        len(values) if questions is None else questions,
        limits,
        float(values[0]) if same else None,
    )


def intervals(
    samples: Sequence[ClusteredSample], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval | None]:
    """Return the intervals of many samples, as of `mean_interval`: they share the draws, which is quick.

    Each sample has at least one document.
    """
    varied = [at for at, sample in enumerate(samples) if sample.only is None and len(sample.parts) > 1]
    drawn = draws([samples[at].parts for at in varied], resamples=resamples, seed=seed)
    found: dict[int, Interval] = {}
    for at, ratios in zip(varied, drawn, strict=True):
        if len(ratios) < 2 or np.ptp(ratios) <= 1e-12 * max(1.0, float(np.abs(ratios).max())):
            continue  # the draws do not differ
        documents, (least, most) = len(samples[at].parts), samples[at].limits or (-math.inf, math.inf)
        tail = NormalDist().cdf(-math.sqrt(documents / (documents - 1)) * student(documents - 1))
        low, high = (float(side) for side in np.quantile(ratios, [tail, 1 - tail]))
        found[at] = Interval(max(least, low), min(most, high), IntervalMethod.BOOTSTRAP, documents)
    return [found.get(at) or _undrawn(sample) for at, sample in enumerate(samples)]


def mean_interval(
    values: Sequence[float],
    documents: Sequence[Hashable],
    *,
    questions: int | None = None,
    limits: tuple[float, float] | None = SHARE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Return the interval of a mean over questions.

    Documents are drawn with replacement, and the mean is taken over the questions of the draw. Its quantiles
    are not those at 2.5 % and 97.5 % but at Φ(∓√(G/(G-1))·t), with the 97.5 % quantile t of Student's
    distribution with G-1 degrees of freedom: the expanded percentile interval (Hesterberg 2015, "What
    teachers should know about the bootstrap", The American Statistician 69:371), which is not too narrow
    when the G documents are few. It stays within the range of what was measured.

    Where drawing is not informative, questions take the place of documents: of one document, Wilson's
    interval; of values that are all the same, see `_undrawn`. Raises `ValueError` if the two are not equally
    long, or a value is not finite or beyond the limits.

    `questions` is the number of different questions, None where each value is of another one: several samples
    of a question say no more about other questions than one. `limits` are the least and greatest possible
    value. Returns None without a value; and where drawing is not informative for values without limits.

    >>> found = mean_interval([0.0] * 20, ["a", "b"] * 10)
    >>> found.low, round(found.high, 2), found.method.value
    (0.0, 0.16, 'wilson')
    """
    if len(values) != len(documents):
        raise ValueError(f"{len(values)} values, and documents of {len(documents)}")
    least, most = limits or (-math.inf, math.inf)
    for value in values:
        if not math.isfinite(value) or not least <= value <= most:
            raise ValueError(f"{value} is not a value between {least} and {most}")
    places = {name: at for at, name in enumerate(dict.fromkeys(documents))}
    sample = sample_of(
        np.asarray(values, np.float64),
        np.asarray([places[name] for name in documents], np.intp),
        questions=questions,
        limits=limits,
    )
    return intervals([sample], resamples=resamples, seed=seed)[0] if values else None


def wilson(share: float, cases: int) -> tuple[float, float]:
    """Return Wilson's score interval of a share, at 95 %.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22:209. For
    values between 0 and 1 with that mean it is too wide rather than too narrow. Raises `ValueError` if there
    are no cases, or the share is not between 0 and 1.

    >>> [round(side, 4) for side in wilson(0.5, 10)]
    [0.2366, 0.7634]
    """
    if cases < 1 or not 0 <= share <= 1:
        raise ValueError(f"{share} of {cases} is not a share")
    square = _NORMAL**2
    middle = share + square / (2 * cases)
    half = _NORMAL * math.sqrt(share * (1 - share) / cases + square / (4 * cases**2))
    # The sides are 0 and 1 exactly at a share of 0 and 1; rounding must not say otherwise.
    low = 0.0 if share == 0 else (middle - half) / (1 + square / cases)
    high = 1.0 if share == 1 else (middle + half) / (1 + square / cases)
    return max(0.0, low), min(1.0, high)


@lru_cache(maxsize=1024)
def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's distribution with at least one degree of freedom.

    >>> round(student(10), 3)
    2.228
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    special: Any = importlib.import_module("scipy.special")  # it ships no types
    return float(special.stdtrit(freedom, (1 + LEVEL) / 2))


def _undrawn(sample: ClusteredSample) -> Interval | None:
    """Return the interval where drawing documents is not informative; None without limits.

    Of one document it is Wilson's interval, stretched over the limits. Of values that are all the same, some
    share of others may have gone unseen, and have any value. That share is at most what Wilson's interval
    says of none among the cases. At 0 and at 1 this is Wilson's interval itself; of differences that are all
    0 it is the share of questions that may differ.
    """
    if sample.limits is None:
        return None
    least, most = sample.limits
    if sample.only is not None:
        unseen = wilson(0, sample.cases)[1]
        low, high = (sample.only + unseen * (side - sample.only) for side in (least, most))
    else:
        share = min(1.0, max(0.0, (sample.estimate - least) / (most - least)))
        low, high = (least + side * (most - least) for side in wilson(share, sample.cases))
    return Interval(low, high, IntervalMethod.WILSON, len(sample.parts))
