"""The direction in which the lines of a picture run, and its lines read in that direction.

A picture is read as it is; only where its lines do not read well, or are taller than wide, are a few of them
read in the other direction too, and the picture again if that reads better.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from cachetools import LRUCache

from vrag.corpus.ocr import MIN_SCORE, OcrLine, read_lines, read_strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.corpus.ocr import Bounds
    from vrag.corpus.pages.ink import Pixels

DOUBTFUL_SCORE = 0.85
"""Mean score of lines below which other directions are tried. Pages that stand upside down have less than
0.75, scans that are read well more than 0.9."""
MIN_GAIN = 0.1
"""Mean score by which another direction has to be better."""
SAMPLES = 3
"""Lines read in two directions each."""
MIN_ASPECT = 1.5
"""Length over width from which the direction of a line can be told; rapidocr turns lines from this."""
MIN_TURNED_LINES, MIN_TURNED_LETTERS = 2, 12
"""Lines and letters that run up or down on an upright page, from which they are read apart."""


KNOWN_READINGS = 64
"""Parts of pictures whose readings are kept, in each process."""


class PictureReading(NamedTuple):
    """The lines of a picture or a part of one, all in one direction."""

    lines: tuple[OcrLine, ...]
    """Those that read, with bounds in pixels of the picture as it would be if turned upright."""
    angle: int
    """Degrees clockwise by which the lines are turned in the picture; see `vrag.types.TurnedText`."""
    origin: tuple[int, int]
    """Left and top of the part in the picture."""
    size: tuple[int, int]
    """Width and height of the part in the picture."""

    def to_picture(self, bounds: Bounds) -> Bounds:
        """Convert bounds in the upright picture to those in the picture."""
        left, top, right, bottom = bounds
        width, height = self.size
        match self.angle:
            case 90:
                left, top, right, bottom = width - bottom, left, width - top, right
            case 180:
                left, top, right, bottom = width - right, height - bottom, width - left, height - top
            case 270:
                left, top, right, bottom = top, height - right, bottom, height - left
            case _:
                pass
        x, y = self.origin
        return left + x, top + y, right + x, bottom + y


_known_readings: LRUCache[tuple[tuple[int, ...], bytes], list[PictureReading]] = LRUCache(KNOWN_READINGS)


def read_directions(pixels: Pixels, origin: tuple[int, int] = (0, 0)) -> list[PictureReading]:
    """Read a picture, or a part of one that begins at `origin`, in the directions of its lines.

    What stands on many pages, such as the letters of a logo, is read once.
    """
    key = (pixels.shape, hashlib.blake2b(pixels.tobytes()).digest())
    readings = _known_readings.get(key)
    if readings is None:
        readings = _known_readings[key] = _read_directions(pixels)
    x, y = origin
    return [each._replace(origin=(each.origin[0] + x, each.origin[1] + y)) for each in readings]


def _read_directions(pixels: Pixels) -> list[PictureReading]:
    origin = (0, 0)
    size = (pixels.shape[1], pixels.shape[0])
    lines = read_lines(pixels)
    angle = _find_angle(pixels, lines)
    if angle:
        turned = read_lines(turn_upright(pixels, angle))
        if _mean_score(turned) >= _mean_score(lines) or _is_mostly_tall(lines):
            return [PictureReading(_readable(turned), angle, origin, size)]
        return [PictureReading(_readable(lines), 0, origin, size)]
    upright, tall = _split_directions(lines)
    readings = [PictureReading(_readable(upright), 0, origin, size)]
    if tall:
        left, top, right, bottom = _enclose(tall, size)
        readings.append(_read_sideways(pixels[top:bottom, left:right], (left, top)))
    return readings


def turn_upright(pixels: Pixels, angle: int) -> Pixels:
    """Turn a picture back whose lines are turned clockwise by `angle`."""
    return np.ascontiguousarray(np.rot90(pixels, angle // 90))


def _read_sideways(pixels: Pixels, origin: tuple[int, int]) -> PictureReading:
    """Read a part of a picture whose lines run up or down."""
    readings = {angle: read_lines(turn_upright(pixels, angle)) for angle in (90, 270)}
    best = max(readings, key=lambda angle: _mean_score(readings[angle]))
    return PictureReading(_readable(readings[best]), best, origin, (pixels.shape[1], pixels.shape[0]))


def _find_angle(pixels: Pixels, lines: Sequence[OcrLine]) -> int:
    """Return the angle at which most lines stand, by reading some of them in two directions."""
    is_tall = _is_mostly_tall(lines)
    if not is_tall and _mean_score(lines) >= DOUBTFUL_SCORE:
        return 0
    samples = [line for line in lines if _is_tall(line) if is_tall] or [
        line for line in lines if not is_tall and _is_wide(line)
    ]
    samples = sorted(_doubtful_lines(samples), key=_length, reverse=True)[:SAMPLES]
    if not samples:
        return 0
    scores = {
        angle: sum(read_strip(turn_upright(_cut(pixels, line), angle))[1] for line in samples) / len(samples)
        for angle in ((90, 270) if is_tall else (0, 180))
    }
    best = max(scores, key=lambda angle: scores[angle])
    if scores[best] < MIN_SCORE:
        return 0
    return best if is_tall or scores[best] >= scores[0] + MIN_GAIN else 0


def _doubtful_lines(lines: Sequence[OcrLine]) -> Sequence[OcrLine]:
    """Return the lines that do not read well if these are most; others may be typed on a turned scan."""
    doubtful = [line for line in lines if line.score < DOUBTFUL_SCORE]
    return doubtful if 2 * sum(map(_length, doubtful)) > sum(map(_length, lines)) else lines


def _split_directions(lines: Sequence[OcrLine]) -> tuple[list[OcrLine], list[OcrLine]]:
    """Split the lines of a page into those that run to the right and those that run up or down.

    The second are none if they are few, or have others between them.
    """
    tall = [line for line in lines if _is_tall(line)]
    letters = sum(len(line.text) for line in tall)
    if len(tall) < MIN_TURNED_LINES or letters < MIN_TURNED_LETTERS:
        return list(lines), []
    left, top, right, bottom = zip(*(line.bounds for line in tall), strict=True)
    region = (min(left), min(top), max(right), max(bottom))
    wide = [line for line in lines if not _is_tall(line)]
    if any(_holds(region, line.bounds) for line in wide if line.score >= MIN_SCORE and len(line.text) > 1):
        return list(lines), []
    return [line for line in wide if not _holds(region, line.bounds)], tall


def _holds(region: Bounds, bounds: Bounds) -> bool:
    """Return whether the centre of bounds lies in a region."""
    x, y = (bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def _enclose(lines: Sequence[OcrLine], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the part of a picture that holds lines, with a margin of half a line."""
    left, top, right, bottom = zip(*(line.bounds for line in lines), strict=True)
    margin = max(right[0] - left[0], 8.0) / 2
    return (
        int(max(0.0, min(left) - margin)),
        int(max(0.0, min(top) - margin)),
        int(min(size[0], max(right) + margin + 1)),
        int(min(size[1], max(bottom) + margin + 1)),
    )


def _cut(pixels: Pixels, line: OcrLine) -> Pixels:
    left, top, right, bottom = (round(side) for side in line.bounds)
    return pixels[max(0, top) : max(bottom, top + 1), max(0, left) : max(right, left + 1)]


def _sides(line: OcrLine) -> tuple[float, float]:
    left, top, right, bottom = line.bounds
    return right - left, bottom - top


def _length(line: OcrLine) -> float:
    return max(_sides(line))


def _is_tall(line: OcrLine) -> bool:
    width, height = _sides(line)
    return height >= MIN_ASPECT * width and len(line.text) > 1


def _is_wide(line: OcrLine) -> bool:
    width, height = _sides(line)
    return width >= MIN_ASPECT * height


def _is_mostly_tall(lines: Sequence[OcrLine]) -> bool:
    return 2 * sum(_length(line) for line in lines if _is_tall(line)) > sum(map(_length, lines))


def _mean_score(lines: Sequence[OcrLine]) -> float:
    """Return the mean score of lines by their length; 1 without lines, which leave no doubt."""
    total = sum(map(_length, lines))
    return sum(line.score * _length(line) for line in lines) / total if total else 1.0


def _readable(lines: Sequence[OcrLine]) -> tuple[OcrLine, ...]:
    return tuple(line for line in lines if line.score >= MIN_SCORE)
