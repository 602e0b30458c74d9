"""Ink that no word explains: parts of a page that look like text and hold no words of its layer.

Letters are small connected pieces of ink; several stand side by side and make words, and words make lines.
Rules, frames and photographs are larger or have no such order. What is found here may still be no text: it is
cheap, and only says where OCR is to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.corpus.pages.ink import load_opencv, reduce_picture, to_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vrag.corpus.pages.ink import Bounds, InkMap, Pixels

MIN_CONTRAST = 32
"""Levels of grey among neighbours from which a pixel is ink or its edge."""
CELL, MIN_CELLS = 8, 2
"""Side of a cell in pixels of the map (a 64-bit number has as many bytes), and cells with as many strokes as
letters have, below which nothing is looked for."""
AROUND = 6
"""Cells around the outermost of these in which letters are looked for too."""
MIN_DENSITY = 0.22
"""Share of a cell's pixels with steps of brightness: the side of a rule has 0.13, letters have 0.3."""
WORD_MARGIN = 0.25
"""Part of a word's height that its ink may reach beyond its box: accents, tails, boxes a little off."""
LETTER_SIDES = (3, 36)
"""Shortest and longest height of a letter in pixels of the map: 4 to 50 points at 144 pixels an inch."""
MIN_STROKES = 1.0
"""Steps of brightness per row of a word and by its length over its height: letters have two or more."""
LARGE_LETTERS = 4
"""Reduction of the map in which larger letters are looked for."""
MIN_LARGE_LETTERS = 3
"""Letters of a large word, which do not touch: bars, frames and the parts of a drawing are fewer pieces."""
GAP = 5
"""Pixels of the map by which letters are widened to join those of a word."""
MIN_FILL = 0.4
"""Share of a word's box with ink after that: thin curves have less."""
MIN_WORD_ASPECT = 1.6
"""Length over height of a word."""
MIN_PART_STROKES = 8
"""Strokes of the words of a part, from which it looks like text: four letters."""
MAX_GAP = 16
"""Pixels of the map between parts that are read together: half a word may lie between them."""
MAX_REGIONS = 12
"""Parts of a page beyond which it is read as a whole."""
PLAIN_LEVELS, MIN_PLAIN = 6, 0.4
"""Levels of grey around the most frequent one, and the share of pixels in them that makes a plain ground."""
WHOLE_PAGE = 0.6
"""Share of the page in parts to be read from which it is read as a whole."""


MAX_SHORT_NUMBER = 65_000
"""Pieces of ink beyond which their numbers take 32 bits."""


class PictureRegion(NamedTuple):
    """A part of a picture, in fractions of it."""

    left: float
    top: float
    right: float
    bottom: float


Part = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels of the map."""
WHOLE = PictureRegion(0.0, 0.0, 1.0, 1.0)


def find_unexplained(ink: InkMap, boxes: NDArray[np.float64]) -> list[PictureRegion]:
    """Return the parts of a page that look like text and lie outside of the boxes of words.

    Args:
        ink: The page.
        boxes: Left, top, right, bottom of each word that is seen, in fractions of the page.
    """
    between = _find_space_between(ink, boxes)
    dense = _find_dense_part(ink.steps & between)
    if dense is None:
        return []
    residue = _find_contrast(ink) & between
    left, top, right, bottom = dense
    parts: list[Part] = []
    letters = _keep_letters(residue, dense, LETTER_SIDES[0])
    if letters is not None:
        parts += _find_text_parts(letters, ink, LETTER_SIDES[0], 1, (left, top))
        residue[top:bottom, left:right] &= 1 - letters
    reduced = _reduce(residue)
    letters = _keep_letters(reduced, (0, 0, reduced.shape[1], reduced.shape[0]), 2 * LETTER_SIDES[0])
    if letters is not None:
        parts += _find_text_parts(letters, ink, 2 * LETTER_SIDES[0], LARGE_LETTERS)
    return _to_regions(parts, ink.size)


def has_unexplained(ink: InkMap, boxes: NDArray[np.float64]) -> bool:
    """Return whether strokes as dense as letters lie outside of the boxes of words, like text or not."""
    return _find_dense_part(ink.steps & _find_space_between(ink, boxes)) is not None


def is_plain(ink: InkMap, region: PictureRegion) -> bool:
    """Return whether a part of a page has one colour behind its ink, and not a photograph."""
    left, top, right, bottom = to_bounds(np.array([region]), ink.size)[0]
    counts = np.bincount(ink.grey[top:bottom, left:right].ravel(), minlength=256)
    near = np.convolve(counts, np.ones(2 * PLAIN_LEVELS + 1))
    return bool(near.max() >= MIN_PLAIN * counts.sum())


def _find_dense_part(strokes: Pixels) -> Part | None:
    """Return the part of a map where strokes that no word explains lie as dense as letters.

    None if there is none.
    """
    height, width = strokes.shape
    down, across = height // CELL, width // CELL
    if not (down and across):
        return None
    cells = strokes[: down * CELL, : across * CELL].reshape(down, CELL, across * CELL)
    sums = cells.sum(axis=1, dtype=np.uint8).view(np.uint64)
    # The product has the sum of the eight bytes of a number in its highest one.
    counts = (sums * np.uint64(0x0101010101010101)) >> np.uint64(56)
    rows, columns = np.nonzero(counts >= MIN_DENSITY * CELL * CELL)
    if len(rows) < MIN_CELLS:
        return None
    left, top = (CELL * max(0, int(cells.min()) - AROUND) for cells in (columns, rows))
    right, bottom = (CELL * (int(cells.max()) + 1 + AROUND) for cells in (columns, rows))
    return left, top, min(right, width), min(bottom, height)


def _find_places(ink: InkMap, boxes: NDArray[np.float64]) -> list[list[int]]:
    """Return the places of words in a map, with a margin: left, top, right, bottom."""
    if not len(boxes):
        return []
    margins = WORD_MARGIN * np.minimum(boxes[:, 3] - boxes[:, 1], boxes[:, 2] - boxes[:, 0])
    margins = np.maximum(margins[:, np.newaxis], 1.5 / np.array(ink.size))
    grown = np.concatenate((boxes[:, :2] - margins, boxes[:, 2:] + margins), axis=1)
    return to_bounds(grown, ink.size).tolist()


def _find_space_between(ink: InkMap, boxes: NDArray[np.float64]) -> Pixels:
    """Return a map with 0 in the places of words, and 1 between them."""
    between = np.ones_like(ink.steps)
    for left, top, right, bottom in _find_places(ink, boxes):
        between[top:bottom, left:right] = 0
    return between


def _find_contrast(ink: InkMap) -> Pixels:
    """Return 1 for each pixel of a map with ink, or at its edge."""
    cv2 = load_opencv()
    contrast = cv2.morphologyEx(ink.grey, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    return cv2.threshold(contrast, MIN_CONTRAST, 1, cv2.THRESH_BINARY)[1]


def _reduce(residue: Pixels) -> Pixels:
    """Return the residue in a smaller map."""
    cv2 = load_opencv()
    return cv2.threshold(reduce_picture(255 * residue, LARGE_LETTERS), 60, 1, cv2.THRESH_BINARY)[1]


def _find_text_parts(
    letters: Pixels, ink: InkMap, shortest: int, scale: int, origin: tuple[int, int] = (0, 0)
) -> list[Part]:
    """Return the parts of a map that look like text.

    Args:
        letters: Pieces of ink that may be letters.
        ink: The map.
        shortest: Height of the lowest letters, in pixels of `letters`.
        scale: Pixels of the map that make one of `letters`.
        origin: Left and top of `letters` in the map.
    """
    cv2 = load_opencv()
    left, top, right, bottom = _find_used_part(letters)
    used = letters[top:bottom, left:right]
    # Gaps between letters are closed sideways, and upwards for lines that run up or down.
    words: list[tuple[Part, float]] = []
    for kernel, is_upright in ((np.ones((1, GAP), np.uint8), False), (np.ones((GAP, 1), np.uint8), True)):
        joined = cv2.dilate(used, kernel)
        stats = _find_pieces(joined)[1][1:]
        found = _like_words(stats, shortest, is_upright=is_upright) + np.array((left, top) * 2)
        strokes = _count_strokes(found * scale + np.array(origin * 2), ink, is_upright=is_upright)
        words += zip(found[strokes > 0].tolist(), strokes[strokes > 0].tolist(), strict=True)
    if scale > 1:
        words = [word for word in words if _count_pieces(letters, word[0]) >= MIN_LARGE_LETTERS]
    if not words:
        return []
    canvas = np.zeros_like(letters)
    for (left, top, right, bottom), _ in words:
        margin = max(6, min(right - left, bottom - top))
        canvas[max(0, top - margin) : bottom + margin, max(0, left - margin) : right + margin] = 1
    labels, stats = _find_pieces(canvas)
    totals = np.zeros(len(stats))
    for (left, top, right, bottom), count in words:
        totals[labels[(top + bottom) // 2, (left + right) // 2]] += count
    parts = [
        (left, top, left + width, top + height)
        for (left, top, width, height, _), total in zip(stats[1:].tolist(), totals[1:], strict=True)
        if total >= MIN_PART_STROKES
    ]
    grown = [_grow(part, letters) for part in parts]
    x, y = origin
    return [
        (x + scale * left, y + scale * top, x + scale * right, y + scale * bottom)
        for left, top, right, bottom in grown
    ]


def _find_used_part(letters: Pixels) -> Part:
    """Return the part of a map with letters, and as much around them as they are widened."""
    columns, rows = (np.flatnonzero(letters.any(axis=axis)) for axis in (0, 1))
    left, top = (max(0, int(used[0]) - GAP) for used in (columns, rows))
    return left, top, int(columns[-1]) + GAP + 1, int(rows[-1]) + GAP + 1


def _find_pieces(pixels: Pixels) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """Return the number of the connected piece of each pixel, 0 for none, and statistics of each piece.

    Numbers of 16 bits take half the time. There are no more pieces than begins of ink in the rows.
    """
    cv2 = load_opencv()
    begins = np.count_nonzero(pixels[:, 1:] > pixels[:, :-1]) + np.count_nonzero(pixels[:, 0])
    kind = cv2.CV_16U if begins < MAX_SHORT_NUMBER else cv2.CV_32S
    found = cv2.connectedComponentsWithStatsWithAlgorithm(pixels, 8, kind, cv2.CCL_SPAGHETTI)
    return found[1], found[2]


def _count_pieces(letters: Pixels, word: Part) -> int:
    left, top, right, bottom = word
    return load_opencv().connectedComponents(letters[top:bottom, left:right])[0] - 1


def _grow(part: Part, letters: Pixels) -> Part:
    """Move the sides of a part outwards while letters lie just beyond them."""
    height, width = letters.shape
    left, top, right, bottom = part
    while True:
        before = (left, top, right, bottom)
        left = max(0, left - GAP) if letters[top:bottom, max(0, left - GAP) : left + 1].any() else left
        top = max(0, top - GAP) if letters[max(0, top - GAP) : top + 1, left:right].any() else top
        right = min(width, right + GAP) if letters[top:bottom, right - 1 : right + GAP].any() else right
        bottom = min(height, bottom + GAP) if letters[bottom - 1 : bottom + GAP, left:right].any() else bottom
        if before == (left, top, right, bottom):
            return before


def _keep_letters(residue: Pixels, part: Part, shortest: int) -> Pixels | None:
    """Return a part of the residue without what is too small or too large for a letter.

    Pieces of ink that reach beyond the part are left out: they may be of any size. None if nothing is left.
    """
    left, top, right, bottom = part
    labels, stats = _find_pieces(residue[top:bottom, left:right])
    width, height, area = stats[:, 2], stats[:, 3], stats[:, 4]
    longest = LETTER_SIDES[1]
    shorter, longer = np.minimum(width, height), np.maximum(width, height)
    # A word whose letters touch is one piece: several times as long as high, and with gaps within.
    kept = (longer >= shortest) & (2 * shorter >= shortest) & (area >= 2 * shortest)
    kept &= (shorter <= longest) & (longer <= 8 * longest)
    kept &= (longer <= longest) | ((shorter >= 2 * shortest) & (longer <= 12 * shorter))
    kept &= ((stats[:, 0] > 0) | (left == 0)) & ((stats[:, 1] > 0) | (top == 0))
    kept &= (stats[:, 0] + width < right - left) | (right == residue.shape[1])
    kept &= (stats[:, 1] + height < bottom - top) | (bottom == residue.shape[0])
    kept[0] = False
    if not kept.any():
        return None
    return kept.astype(np.uint8).take(labels)


def _count_strokes(bounds: Bounds, ink: InkMap, *, is_upright: bool) -> NDArray[np.float64]:
    """Return the strokes of each piece of joined ink; 0 where letters of its length have more."""
    width, height = bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]
    length, thickness = (height, width) if is_upright else (width, height)
    strokes = ink.sum_steps(bounds, 0 if is_upright else 1) / np.maximum(1, thickness)
    least = np.maximum(3, MIN_STROKES * length / np.maximum(1, thickness))
    return np.where(strokes >= least, strokes, 0)


def _like_words(stats: NDArray[np.int32], shortest: int, *, is_upright: bool) -> Bounds:
    """Return the bounds of the pieces of joined ink that are as long as words."""
    width, height = stats[:, 2], stats[:, 3]
    length, thickness = (height, width) if is_upright else (width, height)
    fill = stats[:, 4] / np.maximum(1, width * height)
    kept = (thickness > shortest) & (thickness <= LETTER_SIDES[1]) & (fill > MIN_FILL)
    kept &= length - (GAP - 1) >= MIN_WORD_ASPECT * thickness
    sides = stats[kept, :4].astype(np.int64)
    sides[:, 2:] += sides[:, :2]
    return sides


def _to_regions(parts: list[Part], size: tuple[int, int]) -> list[PictureRegion]:
    """Join parts that are close, and return them as fractions; all of the page where they are most of it."""
    width, height = size
    regions = [
        PictureRegion(left / width, top / height, min(1.0, right / width), min(1.0, bottom / height))
        for left, top, right, bottom in _join_close(parts)
    ]
    covered = sum((region.right - region.left) * (region.bottom - region.top) for region in regions)
    return [WHOLE] if covered > WHOLE_PAGE or len(regions) > MAX_REGIONS else regions


def _join_close(parts: list[Part]) -> list[Part]:
    joined: list[Part] = []
    for part in sorted(parts):
        current = part
        while close := [other for other in joined if _are_close(other, current)]:
            joined = [other for other in joined if other not in close]
            sides = list(zip(current, *close, strict=True))
            current = (min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3]))
        joined.append(current)
    return sorted(joined, key=lambda part: (part[1], part[0]))


def _are_close(first: Part, second: Part) -> bool:
    across = max(first[0], second[0]) - min(first[2], second[2])
    down = max(first[1], second[1]) - min(first[3], second[3])
    return max(across, down) < MAX_GAP
