"""The ink test: a word is seen if its box in the picture of the page holds the contrast of letters.

Letters have upright strokes, a few for each: sideways steps of brightness are counted. The edge of a bar, a
rule or a table has steps in one place at most, so that what lies under it has none.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from vrag.corpus.pages.placed_text import PlacedText

    Pixels = NDArray[np.uint8]
    """Rows of a picture: grey, RGB or RGBX."""
    Bounds = NDArray[np.int64]
    """Left, top, right, bottom in whole pixels, a row for each box: the last two are not part of it."""

REDUCTION = 2
"""Pixels of the picture, in each direction, that make one of the map."""
MIN_STEP = 10
"""Levels of grey between two pixels from which they count as a step of brightness. White letters on light
grey (#eee) have 17."""
MIN_STROKES = 0.3
"""Steps per letter and row below which a word is looked at again in the full picture. Of 90,000 words of
reports, one in a thousand has fewer than 0.85; words that nobody sees have none."""
MIN_FAINT_STEP = 5
"""The same as `MIN_STEP` in the full picture, in any of its colours."""
MIN_FAINT_STROKES = 0.2
MIN_EDGE, MAX_EDGE = 2, 3
"""Pixels at both ends of a word in which the edge of a bar may lie, at most as many as a letter is wide."""
MIN_LETTER_WIDTH = 4
"""Pixels of a letter on average, below which what lies between these edges is a small part of a word."""
LEVEL_LETTERS = frozenset("一二三亖ーｰㅡᅳـ")
"""Letters of level strokes alone."""
MAX_COUNTED = 1 << 19
"""Pixels of words that are looked at in one pass."""
MIN_RULED_HEIGHT, MIN_RULE_CONTRAST = 10, 60
"""Height of a word in pixels, and levels of grey between it and its ground, from which a rule is sought."""
RULE_PLACE, MIN_RULE_SHARE, MAX_RULE_THICKNESS = (0.25, 0.62), 0.97, 0.25
"""Parts of a word's height between which a rule strikes it out, part of its width that the rule crosses at
least, and its thickness in heights of the word."""
RULE_LEVEL = 0.65
"""Part of the contrast up to which a pixel is part of a rule: thin ones of scans are grey."""
RULE_RISES = (0, -1, 1, -2, 2, -3, 3)
"""Pixels by which a rule may rise over the length of a word: scans are slanted."""
MAX_RULE_AHEAD, MAX_RULE_BEHIND = 1.0, 2.0
"""Length of such a rule before its first word and behind its last one, in heights of a word."""
MIN_SIDE = 0.75
"""Pixels of a box's shorter side below which its letters are no letters any more."""


class InkMap:
    """The steps of brightness in a picture of a page."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels
        self.grey = _to_grey(reduce_picture(pixels, REDUCTION))
        self.steps = find_steps(self.grey)
        """1 for each pixel that differs from the one to its right."""
        self._sideways = load_opencv().integral(self.steps)

    @cached_property
    def _down(self) -> NDArray[np.int32]:
        """Cumulative sums of the steps between a pixel and the one below it."""
        return load_opencv().integral(find_steps(self.grey, axis=0))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the map in its own pixels."""
        return self.grey.shape[1], self.grey.shape[0]

    def find_seen(self, layer: PlacedText) -> NDArray[np.bool_]:
        """Return for each word of a text whether it is seen, by its box.

        Words of punctuation alone, or of letters without upright strokes, are as those before and after them:
        hidden only if both are.
        """
        words, boxes = layer.words, layer.boxes
        if not words:
            return np.ones(0, np.bool_)
        letters = np.array([word.end - word.start for word in words])
        turned = _find_turned(layer)
        seen = self._count_strokes(boxes, letters, turned) >= MIN_STROKES
        # The ink of a whole word may be in a row or two of pixels.
        sides = (boxes[:, 2:] - boxes[:, :2]) * (self.pixels.shape[1], self.pixels.shape[0])
        seen &= (sides.min(axis=1) >= MIN_SIDE) | (letters == 1)
        doubtful = np.flatnonzero(~seen)
        texts = (layer.text[words[at].start : words[at].end] for at in doubtful.tolist())
        counts = np.fromiter(map(_count_upright, texts), np.int64, len(doubtful))
        # Punctuation does not count: dots lead to a number.
        faint, marks = doubtful[counts > 0], doubtful[counts == 0].tolist()
        seen[faint] = self._find_faint(boxes[faint], counts[counts > 0], turned[faint])
        for index in marks:
            around = [neighbour for neighbour in (index - 1, index + 1) if 0 <= neighbour < len(words)]
            seen[index] = not around or bool(seen[around].any())
        return seen

    def sum_steps(self, bounds: Bounds, axis: int) -> NDArray[np.int64]:
        """Return the steps of brightness within boxes of the map: sideways (axis 1) or down (0)."""
        return _sum_inside(self._sideways if axis else self._down, bounds)

    def _count_strokes(
        self, boxes: NDArray[np.float64], letters: NDArray[np.int64], is_turned: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the steps of brightness per letter and row; of lines that run up or down, per column.

        Those are known by the text (`is_turned`), or by the boxes of their words.
        """
        sides = (boxes[:, 2:] - boxes[:, :2]) * self.size
        high = (sides[:, 1] > 1.5 * sides[:, 0]) & (letters > 1)
        turned = high | is_turned
        bounds = to_bounds(_middle(boxes, turned), self.size)
        bounds[:, 1] -= is_turned & ~high
        bounds[:, 3] += is_turned & ~high
        long_words = (letters > 2) & ~turned
        # Edges of a bar lie at the ends of its words, and strokes of a single letter at the ends of its box.
        bounds[:, 0] += np.where(long_words, 1, -1)
        bounds[:, 2] += np.where(long_words, -1, 1)
        _fit(bounds, self.size)
        width, height = bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]
        strokes = _sum_inside(self._sideways, bounds) / (height * letters)
        if turned.any():
            strokes[turned] = (_sum_inside(self._down, bounds) / (width * letters))[turned]
        return strokes

    def _find_faint(
        self, boxes: NDArray[np.float64], letters: NDArray[np.int64], is_turned: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return for each word whether it has strokes in the full picture, however faint their colour."""
        size = (self.pixels.shape[1], self.pixels.shape[0])
        sides = (boxes[:, 2:] - boxes[:, :2]) * size
        turned = is_turned | ((sides[:, 1] > 1.5 * sides[:, 0]) & (letters > 1))
        bounds = to_bounds(_middle(boxes, turned), size)
        bounds[:, :2] -= np.stack((~turned, turned), axis=1)
        bounds[:, 2:] += np.stack((~turned, turned), axis=1)
        _fit(bounds, size)
        is_drawn = sides.min(axis=1, initial=np.inf) >= MIN_SIDE
        seen = np.zeros(len(boxes), np.bool_)
        level, upright = np.flatnonzero(is_drawn & ~turned), np.flatnonzero(is_drawn & turned)
        seen[level] = _have_strokes(self.pixels, bounds[level], letters[level])
        sideways = bounds[upright][:, [1, 0, 3, 2]]
        seen[upright] = _have_strokes(self.pixels.swapaxes(0, 1), sideways, letters[upright])
        return seen


def _have_strokes(pixels: Pixels, bounds: Bounds, letters: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each word of level lines whether it has as many strokes, however faint, as its letters."""
    left, top, right, bottom = bounds.T
    widths, heights = right - left - 1, bottom - top
    edges = np.where(letters > 2, np.clip(widths // letters, MIN_EDGE, MAX_EDGE), 0)
    inner = np.maximum(widths - 2 * edges, 0)
    strokes = _count_faint_steps(pixels, np.stack((left + edges, top, inner, heights), axis=1))
    # Of letters of a point or two, the edges are most.
    is_narrow = widths < MIN_LETTER_WIDTH * letters
    share = np.where(is_narrow, inner / np.maximum(widths, 1), 1.0)
    return (strokes > 0) & (strokes >= MIN_FAINT_STROKES * share * letters * heights)


def _count_faint_steps(pixels: Pixels, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Count the pixels that differ from the next one in places: rows of left, top, width and height."""
    counts = np.zeros(len(places))
    ends = np.cumsum(places[:, 2] * places[:, 3])
    cuts = np.searchsorted(ends, np.arange(MAX_COUNTED, ends[-1] if len(ends) else 0, MAX_COUNTED))
    for part in np.split(np.arange(len(places)), cuts):
        left, top, widths, heights = places[part].T
        sizes = widths * heights
        place = np.repeat(np.arange(len(part)), sizes)
        down, across = np.divmod(
            np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes), widths[place]
        )
        rows, columns = top[place] + down, left[place] + across
        one, other = pixels[rows, columns], pixels[rows, columns + 1]
        steps = np.maximum(one, other) - np.minimum(one, other)
        if steps.ndim == 2:
            steps = steps[:, :3].max(axis=1)
        counts[part] = np.bincount(place, steps >= MIN_FAINT_STEP, minlength=len(part))
    return counts


def _find_turned(layer: PlacedText) -> NDArray[np.bool_]:
    """Return for each word whether its line runs up or down."""
    parts = [(part.start, part.end) for part in layer.turned if part.angle % 180]
    if not parts:
        return np.zeros(len(layer.words), np.bool_)
    begins, ends = np.array(parts).T
    starts = np.array([word.start for word in layer.words])
    part = np.searchsorted(begins, starts, "right") - 1
    return (part >= 0) & (starts < ends[part])


def _count_upright(word: str) -> int:
    """Count the letters and digits of a word that have upright strokes."""
    return sum(letter.isalnum() and letter not in LEVEL_LETTERS for letter in word)


def _middle(boxes: NDArray[np.float64], turned: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the middle half of the lines of words, where all letters have strokes.

    What covers a word may leave the tails of its letters.
    """
    quarters = (boxes[:, 2:] - boxes[:, :2]) / 4
    quarters[turned, 1] = 0
    quarters[~turned, 0] = 0
    return np.concatenate((boxes[:, :2] + quarters, boxes[:, 2:] - quarters), axis=1)


def to_bounds(boxes: NDArray[np.float64], size: tuple[int, int]) -> Bounds:
    """Grow boxes, in fractions of a picture of this size, to whole pixels: one at least."""
    scaled = boxes * np.array(size * 2)
    bounds = np.concatenate((np.floor(scaled[:, :2]), np.ceil(scaled[:, 2:])), axis=1).astype(np.int64)
    _fit(bounds, size)
    return bounds


def _fit(bounds: Bounds, size: tuple[int, int]) -> None:
    """Move sides of boxes into the picture, so that each has a pixel at least."""
    limit = np.array(size)
    bounds[:, :2] = np.clip(bounds[:, :2], 0, limit - 1)
    bounds[:, 2:] = np.clip(bounds[:, 2:], bounds[:, :2] + 1, limit)


def _sum_inside(sums: NDArray[np.int32], bounds: Bounds) -> NDArray[np.int64]:
    """Return the sum within each box, by the cumulative sums of a picture."""
    left, top, right, bottom = bounds.T
    return (sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]).astype(np.int64)


def reduce_picture(pixels: Pixels, factor: int) -> Pixels:
    """Return a picture with one pixel for each square of `factor` × `factor`, with their mean.

    Rows and columns that are left over at the right and the bottom are left out: OpenCV takes ten times as
    long where a pixel does not end with a square.
    """
    height, width = pixels.shape[0] // factor, pixels.shape[1] // factor
    if not (height and width):
        return pixels[:1, :1]
    whole = pixels[: height * factor, : width * factor]
    return load_opencv().resize(whole, (width, height), interpolation=load_opencv().INTER_AREA)


def find_steps(grey: Pixels, axis: int = 1) -> Pixels:
    """Return 1 for each pixel that differs from the one to its right (axis 1) or below it (0)."""
    cv2 = load_opencv()
    steps = np.empty_like(grey)
    if axis:
        steps[:, -1] = 0
        cv2.absdiff(grey[:, :-1], grey[:, 1:], steps[:, :-1])
    else:
        steps[-1] = 0
        cv2.absdiff(grey[:-1], grey[1:], steps[:-1])
    return cv2.threshold(steps, MIN_STEP, 1, cv2.THRESH_BINARY, steps)[1]


@cache
def load_opencv() -> ModuleType:
    """Import OpenCV, which takes a moment, and have it use one thread: pages are read in many processes."""
    import cv2

    cv2.setNumThreads(1)
    return cv2


def _to_grey(pixels: Pixels) -> Pixels:
    if pixels.ndim == 2:
        return pixels
    cv2 = load_opencv()
    return cv2.cvtColor(pixels, cv2.COLOR_RGBA2GRAY if pixels.shape[2] == 4 else cv2.COLOR_RGB2GRAY)


def find_struck_words(pixels: Pixels, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each word of a level line whether a rule is drawn through the middle of its letters.

    A rule through the words of a picture crosses whole words, and ends with the first and last of them: a
    line of a table goes on, and an underline stands lower. Of 54,000 words of reports, none is taken for
    a struck one.

    Args:
        pixels: The picture.
        boxes: Left, top, right, bottom of the words, in fractions of it.
    """
    grey = _to_grey(pixels)
    bounds = to_bounds(boxes, (grey.shape[1], grey.shape[0]))
    struck = np.zeros(len(bounds), np.bool_)
    middles = (bounds[:, 0] + bounds[:, 2]) / 2
    for word in bounds:
        rule = _find_rule(grey, word.tolist())
        if rule is None:
            continue
        left, right = rule
        crossed = (left <= middles) & (middles <= right)
        height = int(word[3] - word[1])
        begin, end = bounds[crossed, 0].min(initial=word[0]), bounds[crossed, 2].max(initial=word[2])
        if begin - left <= MAX_RULE_AHEAD * height and right - end <= MAX_RULE_BEHIND * height:
            struck |= crossed
    return struck


def _find_rule(grey: Pixels, word: Sequence[int]) -> tuple[int, int] | None:
    """Return the left and right end of a thin rule through the middle of a word; None if there is none."""
    left, top, right, bottom = word
    height, width = bottom - top, right - left
    part = grey[top:bottom, left:right]
    if height < MIN_RULED_HEIGHT or width < height or int(np.ptp(part)) < MIN_RULE_CONTRAST:
        return None
    level = int(part.min()) + RULE_LEVEL * int(np.ptp(part))
    dark = part < level
    columns = np.arange(width)
    for rise in RULE_RISES:
        rows = np.arange(height)[:, np.newaxis] + np.round(rise * (columns / width - 0.5)).astype(np.int64)
        shares = dark[np.clip(rows, 0, height - 1), columns].mean(axis=1)
        is_rule = shares >= MIN_RULE_SHARE
        found = np.flatnonzero(is_rule)
        first, last = (int(found[0]), int(found[-1])) if len(found) else (0, height)
        is_level = RULE_PLACE[0] * height <= first and last < RULE_PLACE[1] * height
        if is_level and last - first < max(2, MAX_RULE_THICKNESS * height):
            return _follow_rule(grey[top + first - 2 : top + last + 3] < level, left, right)
    return None


def _follow_rule(dark: NDArray[np.bool_], left: int, right: int) -> tuple[int, int]:
    """Return the ends of a rule in the rows around it, beyond a word whose sides are given."""
    is_blank: NDArray[np.bool_] = np.logical_not(dark.any(axis=0))
    before, behind = np.flatnonzero(is_blank[:left]), np.flatnonzero(is_blank[right:])
    begin = int(before[-1]) + 1 if len(before) else 0
    return begin, right + int(behind[0]) if len(behind) else dark.shape[1]
