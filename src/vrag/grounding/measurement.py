"""In which coordinate convention a model answers boxes: a verdict from what it answered.

Every answer is read in every convention and compared with the rectangle that was drawn, by
intersection over union. A convention is named only if its overlap is good, clearly better than that
of every other, and better than the same answers give when they are dealt out to other rectangles: a
model that guesses, or always answers the same box, has no convention.

Servers that resize a picture before the model sees it make it answer in pixels of a picture that was
never sent. That shows too: one scale for each size of page then fits all answers, measured on those
that it was not fitted to.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrag.grounding.conventions import CONVENTIONS, Convention

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.geometry import Size
    from vrag.grounding.conventions import BoxSample

Floats = NDArray[np.float64]
Key = TypeVar("Key")

__all__ = ["ConventionScore", "Measurement", "Scaled", "measure"]

MIN_ANSWERS = 8
"""Fewer answers with a box decide nothing."""
MIN_SHARE = 1 / 3
"""Nor do answers to less than this share of the questions."""
MIN_OVERLAP = 0.5
"""Median intersection over union that a convention needs: the threshold at which detections count."""
MIN_LEAD = 0.2
"""Difference of medians by which it has to lead. A drawn box read wrongly overlaps by 0.25 at most."""
CHANCE = 0.01
"""Probability under which a result is not put down to chance."""
SHUFFLES = 999
"""Of the permutation test."""
MIN_GROUP = 3
"""Answers on pages of one size that a scale is fitted to, at least."""
SCALE_LEAD = 0.2
"""Difference of medians by which a fitted scale has to beat every convention: it has more freedom."""
SAME_EXTENT = 0.05
"""Relative difference within which pages of different sizes count as measured from 0 to one number."""


@dataclass(frozen=True, slots=True)
class ConventionScore:
    """How well a convention explains the answers."""

    convention: Convention
    overlap: float
    """Median intersection over union with the drawn rectangles."""
    error: float
    """Median distance of a side from where it was drawn, as a fraction of the page's side."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scale that explains the answers better than any convention."""

    y_first: bool
    overlap: float
    """Median intersection over union, of answers that were left out when the scale was fitted."""
    extents: Mapping[Size, tuple[float, float]]
    """By size of the page: how far the answers' numbers reach, along x and y."""

    @property
    def range(self) -> float | None:
        """The number up to which both sides are counted, when it is one for all sizes; else None."""
        reaches = [reach for extent in self.extents.values() for reach in extent]
        middle = statistics.median(reaches)
        alike = all(abs(reach - middle) <= SAME_EXTENT * middle for reach in reaches)
        return middle if alike else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What can be said about a model's boxes."""

    asked: int
    answered: int
    """Answers in which a box could be read."""
    scores: tuple[ConventionScore, ...]
    """Of every convention, best first; empty without answers."""
    chance: float
    """Probability that the best convention's overlap would come about if answers had nothing to do with
    questions, by a permutation test; 1 without answers."""
    convention: Convention | None
    """The model's; None when it cannot be decided."""
    scaled: Scaled | None
    """What the numbers count instead, when they fit no convention; else None."""
    reason: str
    """In words, for people."""


def measure(samples: Sequence[BoxSample], *, seed: int = 0) -> Measurement:
    """Decides in which convention the answers are written, or that it cannot be decided.

    Args:
        samples: Rectangles that separate the conventions (`separates`), on pages of several sizes.
        seed: For the permutation test.
    """
    answered = [sample for sample in samples if sample.numbers is not None]
    if not answered:
        return Measurement(len(samples), 0, (), 1.0, None, None, "No answer held a box.")
    drawn = np.array([sample.unit.as_tuple() for sample in answered])
    read = {one: _read(one, answered) for one in CONVENTIONS}
    overlaps = {one: _overlaps(drawn, boxes) for one, boxes in read.items()}
    scores = [
        ConventionScore(
            one, float(np.median(overlaps[one].diagonal())), float(np.median(abs(read[one] - drawn)))
        )
        for one in CONVENTIONS
    ]
    scores.sort(key=lambda score: -score.overlap)
    verdict = _judge(overlaps, scores[0].convention, len(samples), seed)
    scaled = _scaled(answered, len(samples), seed)
    if scaled is not None and scaled.overlap < scores[0].overlap + SCALE_LEAD:
        scaled = None
    return Measurement(
        asked=len(samples),
        answered=len(answered),
        scores=tuple(scores),
        chance=verdict.chance,
        convention=None if verdict.doubt or scaled else scores[0].convention,
        scaled=scaled,
        reason=_scale_in_words(scaled) if scaled else verdict.doubt or _lead_in_words(scores),
    )


class _Verdict(NamedTuple):
    doubt: str
    """Why the best is not good enough; empty when it is."""
    chance: float


def _judge(overlaps: Mapping[Key, Floats], best: Key, asked: int, seed: int) -> _Verdict:
    """Whether the best explanation of some answers is good, better than all others, and no chance.

    Args:
        overlaps: Of each explanation, (n, n): drawn rectangle by answer.
        best: The one in question.
        asked: Number of questions, those without an answer included.
        seed: For the permutation test.
    """
    own = overlaps[best].diagonal()
    others = [table.diagonal() for key, table in overlaps.items() if key != best]
    chance = _chance(overlaps[best], seed)
    lead = float(np.median(own)) - max(float(np.median(other)) for other in others)
    if len(own) < max(MIN_ANSWERS, asked * MIN_SHARE):
        return _Verdict(f"Only {len(own)} of {asked} answers held a box.", chance)
    if np.median(own) < MIN_OVERLAP:
        return _Verdict(
            f"Read in the best way, the boxes overlap what was drawn by {np.median(own):.2f} only "
            f"({MIN_OVERLAP} is needed): the model guesses, or cannot point.",
            chance,
        )
    if lead < MIN_LEAD or max(_sign_test(own, other) for other in others) > CHANCE:
        return _Verdict(f"The best way to read them leads the next by {lead:.2f} only.", chance)
    if chance > CHANCE:
        return _Verdict(f"Dealt out to other rectangles the answers fit as well (p = {chance:.2f}).", chance)
    return _Verdict("", chance)


def _chance(overlaps: Floats, seed: int) -> float:
    """Permutation test: how often answers dealt out at random overlap, in the mean, as the true ones do."""
    count = len(overlaps)
    dealt = np.random.default_rng(seed).permuted(np.tile(np.arange(count), (SHUFFLES, 1)), axis=1)
    means = overlaps[np.arange(count), dealt].mean(axis=1)
    reached = int((means >= overlaps.diagonal().mean() - 1e-12).sum())
    return (1 + reached) / (1 + SHUFFLES)


def _sign_test(ours: Floats, theirs: Floats) -> float:
    """Probability that one of two equals wins as many comparisons as `ours`, or more; ties are losses."""
    count, wins = len(ours), int((ours > theirs).sum())
    return sum(math.comb(count, number) for number in range(wins, count + 1)) / 2**count


def _read(convention: Convention, answered: Sequence[BoxSample]) -> Floats:
    """The answers, read in a convention: (n, 4), in fractions of their pages."""
    boxes = [convention.read(sample.numbers, sample.size) for sample in answered if sample.numbers]
    return np.array([box.as_tuple() for box in boxes])


def _overlaps(drawn: Floats, answered: Floats) -> Floats:
    """Intersection over union of every drawn box with every answered one: (n, 4), (n, 4) → (n, n)."""
    low = np.maximum(drawn[:, None, :2], answered[None, :, :2])
    high = np.minimum(drawn[:, None, 2:], answered[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (drawn, answered)]
    return common / np.maximum(areas[0][:, None] + areas[1][None, :] - common, 1e-12)


def _scaled(answered: Sequence[BoxSample], asked: int, seed: int) -> Scaled | None:
    """The scale that explains the answers, if one does."""
    by_size: dict[Size, list[BoxSample]] = {}
    for sample in answered:
        by_size.setdefault(sample.size, []).append(sample)
    groups = {size: group for size, group in by_size.items() if len(group) >= MIN_GROUP}
    if not groups:
        return None
    drawn = np.array([sample.unit.as_tuple() for group in groups.values() for sample in group])
    fits = {order: {size: Fit.of(group, order) for size, group in groups.items()} for order in (False, True)}
    overlaps = {
        order: _overlaps(drawn, np.concatenate([fit.read for fit in fitted.values()]))
        for order, fitted in fits.items()
    }
    best = max(overlaps, key=lambda order: float(np.median(overlaps[order].diagonal())))
    if _judge(overlaps, best, asked, seed).doubt:
        return None
    extents = {size: fit.extent for size, fit in fits[best].items()}
    return Scaled(best, float(np.median(overlaps[best].diagonal())), extents)


class Fit(NamedTuple):
    """The scale of answers on pages of one size."""

    read: Floats
    """The answers in fractions of the page, each by the scale of the others: (n, 4)."""
    extent: tuple[float, float]
    """How far numbers reach on the page, along x and y, by all answers."""

    @classmethod
    def of(cls, group: Sequence[BoxSample], y_first: bool) -> Fit:
        answers = [sample.numbers for sample in group if sample.numbers]
        numbers = np.array([one.swapped if y_first else one for one in answers])
        drawn = np.array([sample.unit.as_tuple() for sample in group])
        # The ratio of centres, and the median of those: a wild answer moves neither much.
        ratios = (numbers[:, :2] + numbers[:, 2:]) / (drawn[:, :2] + drawn[:, 2:])
        others = [np.median(np.delete(ratios, index, axis=0), axis=0) for index in range(len(group))]
        scales = np.maximum(np.array(others), 1e-9)
        x, y = np.median(ratios, axis=0)
        return cls(numbers / np.tile(scales, 2), (float(x), float(y)))


def _lead_in_words(scores: Sequence[ConventionScore]) -> str:
    best, second = scores[:2]
    return (
        f"The boxes overlap what was drawn by {best.overlap:.2f}; read as {second.convention}, the next "
        f"best way, by {second.overlap:.2f}."
    )


def _scale_in_words(scaled: Scaled) -> str:
    order = "y" if scaled.y_first else "x"
    if scaled.range is not None:
        return f"The numbers run from 0 to about {scaled.range:.4g} on both sides, {order} first."
    size, extent = next(iter(scaled.extents.items()))
    return (
        f"The numbers count pixels of a picture that was not sent, {order} first: of about "
        f"{extent[0]:.0f}×{extent[1]:.0f} where {size.width}×{size.height} were sent. The server resizes."
    )
