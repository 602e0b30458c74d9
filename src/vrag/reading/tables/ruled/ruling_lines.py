"""Ruling lines of a page, found in its picture: drawn lines, and the borders of shaded areas.

A ruling line is a long straight edge between two brightnesses, whatever its colours are. A drawn line has two
edges close together, a shaded row has one at each of its sides: both become one `RulingLine`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

CONTRAST = 5
"""Difference in brightness, of 255, that makes an edge."""
LONGEST_SIDE = 2200
"""Pixels of the longer side; larger pictures are reduced."""
MAX_RUNS = 3000
"""Edges of one direction that are kept, the longest first: photographs have very many."""
MAX_EDGE_PIXELS = 400_000
"""Edge pixels of one direction beyond which only edges of `BUSY_FACTOR` times the length count."""
BUSY_FACTOR = 4
"""See `MAX_EDGE_PIXELS`."""
MAX_PAIRS = 4_000_000
"""Pairs of an edge and a word that are compared."""
JOIN_GAP = 6.0
"""Pixels between two edges of one line, along it."""
JOIN_DRIFT = 4.5
"""Pixels between two edges of one line, across it: the thickness of a line."""


class RulingLine(NamedTuple):
    """A horizontal or vertical line, in pixels of the page."""

    at: float
    """y of a horizontal line, x of a vertical one."""
    start: float
    end: float

    @property
    def length(self) -> float:
        """Extent along the line."""
        return self.end - self.start


class RulingLines(NamedTuple):
    """The ruling lines of a page."""

    horizontal: tuple[RulingLine, ...]
    """By y."""
    vertical: tuple[RulingLine, ...]
    """By x."""


def find_rules(
    picture: Image, width: float, height: float, words: NDArray[np.float64], length: float, slope: float
) -> RulingLines:
    """Find the ruling lines of a picture.

    Args:
        picture: The page, in any mode.
        width: Width of the page in the unit of the result.
        height: Height of the page in the unit of the result.
        words: Boxes of the words, shape (words, 4), before they are set straight: edges inside them are
            letters.
        length: Length of the shortest line.
        slope: y over x of lines of text: lines are set straight by it.
    """
    gray = picture.convert("L")
    factor = math.ceil(max(gray.size) / LONGEST_SIDE)
    if factor > 1:
        gray = gray.reduce(factor)
    pixels = np.minimum(np.asarray(gray, dtype=np.uint8), 255 - CONTRAST)
    if min(pixels.shape) < 8:
        return RulingLines((), ())
    scale = np.array([width / pixels.shape[1], height / pixels.shape[0]])
    shortest = max(8, round(length / float(scale[0])))
    along = _edges(pixels, shortest) * np.array([scale[1], scale[0], scale[0]])
    across = _edges(np.ascontiguousarray(pixels.T), shortest) * np.array([scale[0], scale[1], scale[1]])
    along = _outside_of_words(along, words)
    across = _outside_of_words(across, words[:, [1, 0, 3, 2]], stems=True)
    along[:, 0] -= slope * along[:, 1:].mean(axis=1)
    across[:, 0] += slope * across[:, 1:].mean(axis=1)
    return RulingLines(_join_edges(along), _join_edges(across))


def _edges(pixels: NDArray[np.uint8], length: int) -> NDArray[np.float64]:
    """Return the horizontal edges of at least a length: rows of y, first x, last x."""
    above, below = pixels[:-1], pixels[1:]
    found: list[NDArray[np.float64]] = []
    for bright, dark in ((above, below), (below, above)):
        long_edges = _erode(bright > dark + CONTRAST, length)
        extent = length
        if np.count_nonzero(long_edges) > MAX_EDGE_PIXELS:
            extent = length * BUSY_FACTOR
            long_edges = _erode(bright > dark + CONTRAST, extent)
        rows, columns = np.divmod(np.flatnonzero(long_edges), max(long_edges.shape[1], 1))
        if not len(rows):
            continue
        breaks = np.flatnonzero((np.diff(rows) != 0) | (np.diff(columns) != 1))
        first, last = np.concatenate([[0], breaks + 1]), np.concatenate([breaks, [len(rows) - 1]])
        runs = np.stack([rows[first] + 1, columns[first], columns[last] + extent], axis=1)
        found.append(runs.astype(np.float64))
    edges = np.concatenate(found) if found else np.zeros((0, 3))
    if len(edges) > MAX_RUNS:
        edges = edges[np.argsort(edges[:, 1] - edges[:, 2], kind="stable")[:MAX_RUNS]]
    return edges


def _erode(mask: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return where a run of at least `length` marks begins, in each row."""
    if mask.shape[1] < length:
        return np.zeros((mask.shape[0], 0), dtype=np.bool_)
    reach = 1
    while reach < length:
        step = min(reach, length - reach)
        mask = mask[:, :-step] & mask[:, step:]
        reach += step
    return mask


def _outside_of_words(
    edges: NDArray[np.float64], words: NDArray[np.float64], *, stems: bool = False
) -> NDArray[np.float64]:
    """Return the edges that are no strokes of letters: those that do not lie inside one word.

    Args:
        edges: The edges, as `_edges` returns them.
        words: The boxes of the words; sides along the edges are the second and the fourth.
        stems: True for vertical edges, which the first or last letter may have at the side of its word; a
            horizontal edge at the lower side of a word underlines it.
    """
    most = MAX_PAIRS // max(len(words), 1)
    if len(edges) > most:
        edges = edges[np.argsort(edges[:, 1] - edges[:, 2], kind="stable")[:most]]
    if not len(edges) or not len(words):
        return edges
    at, start, end = (edges[:, [column]] for column in range(3))
    margin = 0.1 * np.minimum(words[:, 2] - words[:, 0], words[:, 3] - words[:, 1])
    first, last = (-1.0, -1.0) if stems else (1.0, 0.5)
    inside = (words[:, 1] + first * margin < at) & (at < words[:, 3] - last * margin)
    inside &= (words[:, 0] - 3 * margin < start) & (end < words[:, 2] + 3 * margin)
    return edges[~inside.any(axis=1)]


def _join_edges(edges: NDArray[np.float64]) -> tuple[RulingLine, ...]:
    """Join the edges of each line; sort the lines by position."""
    lines: list[RulingLine] = []
    for band in _bands(edges[np.argsort(edges[:, 0], kind="stable")].tolist()):
        band.sort(key=lambda edge: edge[1])
        at, start, end, weight = 0.0, 0.0, -math.inf, 0.0
        for position, left, right in band:
            if left - end > JOIN_GAP and weight:
                lines.append(RulingLine(at / weight, start, end))
                weight = 0.0
            if not weight:
                at, start, end = 0.0, left, right
            at += position * (right - left)
            weight += right - left
            end = max(end, right)
        if weight:
            lines.append(RulingLine(at / weight, start, end))
    return tuple(sorted(lines))


def _bands(edges: Sequence[list[float]]) -> list[list[list[float]]]:
    """Group edges, sorted by position, that are no further apart than a line is thick."""
    bands: list[list[list[float]]] = []
    for edge in edges:
        if bands and edge[0] - bands[-1][0][0] <= JOIN_DRIFT:
            bands[-1].append(edge)
        else:
            bands.append([edge])
    return bands
