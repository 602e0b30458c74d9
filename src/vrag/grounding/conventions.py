"""The coordinate convention of a model: the ways to write the four numbers of a box, and which one it uses.

The convention is determined from answers of the model. Every answer is read in every convention and compared
with the drawn rectangle, by intersection over union. A convention is accepted only if its overlap is good,
clearly better than that of every other, and better than if the same answers are permuted among the
rectangles: a model that guesses, or always answers the same box, has no convention.

If a server resizes a picture before the model sees it, the model answers in pixels of a picture that was
never sent. This is detected too: one scale per page size then fits all answers, measured on those that it
was not fitted to.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrag.geometry import Box, Size, Space, View, iou

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_BETWEEN = r"[\s,;()\[\]]+"
_FOUR = _BETWEEN.join([f"({_NUMBER})"] * 4)
MAX_REPLY_CHARS = 20_000
"""Characters at the end of a reply that are read."""
_LIST = re.compile(rf"[\[(]\s*{_FOUR}\s*[\])]")
_LOCATION = re.compile(r"<loc(\d{1,5})>" * 4)
_RUN = re.compile(rf"(?<![\w.]){_NUMBER}(?:{_BETWEEN}{_NUMBER})*")
_SIDES = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"))
Floats = NDArray[np.float64]
Key = TypeVar("Key")
MIN_ANSWERS = 8
"""Minimum number of answers with a box."""
MIN_SHARE = 1 / 3
"""Minimum share of questions that are answered with a box."""
MIN_OVERLAP = 0.5
"""Minimum median intersection over union of a convention: the usual threshold of detections."""
MIN_LEAD = 0.2
"""Minimum lead of its median. A drawn box that is misread overlaps by 0.25 at most."""
SIGNIFICANCE = 0.01
"""Maximum p of the tests."""
SHUFFLES = 999
"""Number of permutations of the test."""
MIN_GROUP = 3
"""Minimum answers on pages of one size that a scale is fitted to."""
SCALE_LEAD = 0.2
"""Minimum lead of a fitted scale over every convention, since it has more freedom."""
SAME_EXTENT = 0.05
"""Maximum relative difference of the ranges of different page sizes that count as equal."""


class Numbers(NamedTuple):
    """The four numbers of a box in the order in which a model wrote them."""

    a: float
    b: float
    c: float
    d: float

    @property
    def swapped(self) -> Numbers:
        """The same box with x and y exchanged."""
        return Numbers(self.b, self.a, self.d, self.c)


@dataclass(frozen=True, slots=True)
class Convention:
    """The meaning of the four numbers of a box."""

    space: Space
    """Space of the shown picture: `SHOWN`, `MILLE` or `RELATIVE`."""
    y_first: bool = False
    """True if the order is top, left, bottom, right instead of left, top, right, bottom."""

    def __str__(self) -> str:
        return f"{_NAMES[self.space]}, {'y' if self.y_first else 'x'} first"

    def read(self, numbers: Numbers, size: Size) -> Box:
        """Return the box in fractions of a shown picture of `size`."""
        ordered = numbers.swapped if self.y_first else numbers
        return View.whole(size, size).convert(Box(*ordered, self.space), Space.UNIT)

    def write(self, box: Box, size: Size) -> Numbers:
        """Return the numbers of a box in any space of the picture; the inverse of `read`."""
        numbers = Numbers(*View.whole(size, size).convert(box, self.space).as_tuple())
        return numbers.swapped if self.y_first else numbers


_NAMES = {Space.SHOWN: "pixels of the picture shown", Space.MILLE: "0 to 1000", Space.RELATIVE: "0 to 1"}
CONVENTIONS = tuple(Convention(space, order) for order, space in product((False, True), _NAMES))
"""All conventions that the measurement distinguishes."""


@dataclass(frozen=True, slots=True)
class BoxSample:
    """A drawn rectangle, and the answer of a model that was asked for it."""

    box: Box
    """The rectangle, in pixels of the shown picture."""
    size: Size
    """Size of the picture."""
    numbers: Numbers | None
    """The answer; None if there was none, or it has no box."""

    @property
    def unit(self) -> Box:
        """The rectangle in fractions of the picture."""
        return View.whole(self.size, self.size).convert(self.box, Space.UNIT)


def separates(box: Box, size: Size, overlap: float) -> bool:
    """Return whether a box distinguishes all conventions: misread in another one, it overlaps little.

    A box on the diagonal of a square page is the same with x first and with y first, and on a page of
    1000 pixels a side thousandths are pixels. The box is in pixels of the shown picture; `overlap` is the
    maximum intersection over union of a misread box with the true one.
    """
    written = [(convention, convention.write(box, size)) for convention in CONVENTIONS]
    true = View.whole(size, size).convert(box, Space.UNIT)
    return all(
        iou(reader.read(numbers, size), true) <= overlap
        for writer, numbers in written
        for reader in CONVENTIONS
        if reader != writer
    )


def parse_box(reply: str) -> Numbers | None:
    """Return the last box in a reply, if there is one.

    Accepted are lists (`[1, 2, 3, 4]`, alone, in a tag or as `bbox_2d` in JSON), pairs of points
    (`<box>(1,2),(3,4)</box>`), named sides (`"x1": 1, …`), location tokens (`<loc0001>…`), and four bare
    numbers. A think block is ignored. The numbers are in the order of the reply, or with x first if the sides
    are named; never an inverted or empty box.
    """
    text = reply[-MAX_REPLY_CHARS:].rpartition("</think>")[2]
    found = [match.groups() for form in (_LIST, _LOCATION) for match in form.finditer(text)]
    if not found and not (found := _named(text)):  # runs of exactly four numbers
        runs = (tuple(re.findall(_NUMBER, match.group())) for match in _RUN.finditer(text))
        found = [run for run in runs if len(run) == 4]
    boxes = (Numbers(*map(float, numbers)) for numbers in reversed(found))
    whole = (box for box in boxes if all(map(math.isfinite, box)))
    return next((box for box in whole if box.a < box.c and box.b < box.d), None)


def _named(text: str) -> list[tuple[str, ...]]:
    for names in _SIDES:
        values = [re.findall(rf"\b{name}\W{{1,4}}({_NUMBER})", text, re.IGNORECASE) for name in names]
        if all(values):
            return [tuple(found[-1] for found in values)]
    return []


@dataclass(frozen=True, slots=True)
class ConventionScore:
    """The fit of a convention to the answers."""

    convention: Convention
    overlap: float
    """Median intersection over union with the drawn rectangles."""
    error: float
    """Median error of a side, as a fraction of the page's side."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scale that fits the answers better than any convention."""

    y_first: bool
    overlap: float
    """Median intersection over union, of answers that the scale was not fitted to."""
    extents: Mapping[Size, tuple[float, float]]
    """The range of the answers' numbers along x and y, by page size."""

    @property
    def range(self) -> float | None:
        """The upper end of both axes if it is the same for all page sizes, else None."""
        reaches = [reach for extent in self.extents.values() for reach in extent]
        middle = statistics.median(reaches)
        alike = all(abs(reach - middle) <= SAME_EXTENT * middle for reach in reaches)
        return middle if alike else None

    @property
    def description(self) -> str:
        """The scale in a sentence."""
        order = "y" if self.y_first else "x"
        if self.range is not None:
            return f"The numbers run from 0 to about {self.range:.4g} on both sides, {order} first."
        size, (wide, high) = next(iter(self.extents.items()))
        return (
            f"The numbers are pixels of a picture that was not sent, {order} first: about "
            f"{wide:.0f}×{high:.0f} instead of {size.width}×{size.height}. The server resizes pictures."
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of a measurement."""

    asked: int
    answered: int
    """Number of answers with a box."""
    scores: tuple[ConventionScore, ...]
    """Scores of all conventions, best first; empty without answers."""
    chance: float
    """p of the best convention's overlap if answers were unrelated to questions, by a permutation test; 1
    without answers."""
    convention: Convention | None
    """The convention of the model; None if it is undecided."""
    scaled: Scaled | None
    """The scale that fits the numbers if no convention does, else None."""
    reason: str
    """The reason, for people."""


def measure(samples: Sequence[BoxSample], *, seed: int = 0) -> Measurement:
    """Determine the convention of the answers, or that it is undecided.

    The rectangles distinguish the conventions (`separates`), on pages of several sizes; `seed` is that of the
    permutation test.
    """
    answered = [sample for sample in samples if sample.numbers is not None]
    if not answered:
        return Measurement(len(samples), 0, (), 1.0, None, None, "No answer contains a box.")
    drawn = np.array([sample.unit.as_tuple() for sample in answered])
    read = {
        each: np.array([each.read(s.numbers, s.size).as_tuple() for s in answered if s.numbers])
        for each in CONVENTIONS
    }
    overlaps = {each: _overlaps(drawn, boxes) for each, boxes in read.items()}
    scores = [
        ConventionScore(
            each, float(np.median(overlaps[each].diagonal())), float(np.median(abs(read[each] - drawn)))
        )
        for each in CONVENTIONS
    ]
    scores.sort(key=lambda score: -score.overlap)
    verdict = _judge(overlaps, scores[0].convention, len(samples), seed)
    scaled = _fit_scale(answered, len(samples), seed)
    if scaled is not None and scaled.overlap < scores[0].overlap + SCALE_LEAD:
        scaled = None
    best, second = scores[:2]
    reason = verdict.doubt or (
        f"The overlap with the drawn rectangles is {best.overlap:.2f}; in the next best convention, "
        f"{second.convention}, it is {second.overlap:.2f}."
    )
    return Measurement(
        asked=len(samples),
        answered=len(answered),
        scores=tuple(scores),
        chance=verdict.chance,
        convention=None if verdict.doubt or scaled else scores[0].convention,
        scaled=scaled,
        reason=scaled.description if scaled else reason,
    )


class _Verdict(NamedTuple):
    doubt: str
    """The reason why the best is not good enough; empty if it is."""
    chance: float


def _judge(overlaps: Mapping[Key, Floats], best: Key, asked: int, seed: int) -> _Verdict:
    """Decide whether the best explanation is good, better than all others, and not due to chance.

    `overlaps` has the overlap of each drawn rectangle with each answer (n, n), by explanation; `asked` is the
    number of questions, those without an answer included.
    """
    own = overlaps[best].diagonal()
    others = [table.diagonal() for key, table in overlaps.items() if key != best]
    chance = _chance(overlaps[best], seed)
    lead = float(np.median(own)) - max(float(np.median(other)) for other in others)
    if len(own) < max(MIN_ANSWERS, asked * MIN_SHARE):
        return _Verdict(f"Only {len(own)} of {asked} answers contain a box.", chance)
    if np.median(own) < MIN_OVERLAP:
        return _Verdict(
            f"In the best convention, the overlap of the boxes is only {np.median(own):.2f} "
            f"({MIN_OVERLAP} is required): the model guesses, or cannot point.",
            chance,
        )
    if lead < MIN_LEAD or max(_sign_test(own, other) for other in others) > SIGNIFICANCE:
        return _Verdict(f"The best convention leads the next one by only {lead:.2f}.", chance)
    if chance > SIGNIFICANCE:
        return _Verdict(f"Permuted answers fit as well (p = {chance:.2f}).", chance)
    return _Verdict("", chance)


def _chance(overlaps: Floats, seed: int) -> float:
    """Return p that randomly permuted answers overlap in the mean as much as the true ones."""
    count = len(overlaps)
    permuted = np.random.default_rng(seed).permuted(np.tile(np.arange(count), (SHUFFLES, 1)), axis=1)
    means = overlaps[np.arange(count), permuted].mean(axis=1)
    reached = int((means >= overlaps.diagonal().mean() - 1e-12).sum())
    return (1 + reached) / (1 + SHUFFLES)


def _sign_test(first: Floats, second: Floats) -> float:
    """Return p that one of two equals wins as many comparisons as `first`, or more; ties are losses."""
    count, wins = len(first), int((first > second).sum())
    return sum(math.comb(count, number) for number in range(wins, count + 1)) / 2**count


def _overlaps(drawn: Floats, answered: Floats) -> Floats:
    """Return the IoU of every drawn box with every answered one: (n, 4), (n, 4) → (n, n)."""
    low = np.maximum(drawn[:, None, :2], answered[None, :, :2])
    high = np.minimum(drawn[:, None, 2:], answered[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (drawn, answered)]
    return common / np.maximum(areas[0][:, None] + areas[1][None, :] - common, 1e-12)


def _fit_scale(answered: Sequence[BoxSample], asked: int, seed: int) -> Scaled | None:
    """Return the scale that explains the answers, if one does."""
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
    """The range of the numbers on the page, along x and y, by all answers."""

    @classmethod
    def of(cls, group: Sequence[BoxSample], y_first: bool) -> Fit:
        """Fit a scale to the answers on pages of one size."""
        answers = [sample.numbers for sample in group if sample.numbers]
        numbers = np.array([numbers.swapped if y_first else numbers for numbers in answers])
        drawn = np.array([sample.unit.as_tuple() for sample in group])
        # The ratio of centres, and the median of those: a wild answer moves neither much.
        ratios = (numbers[:, :2] + numbers[:, 2:]) / (drawn[:, :2] + drawn[:, 2:])
        others = [np.median(np.delete(ratios, index, axis=0), axis=0) for index in range(len(group))]
        scales = np.maximum(np.array(others), 1e-9)
        x, y = np.median(ratios, axis=0)
        return cls(numbers / np.tile(scales, 2), (float(x), float(y)))
