"""Images of a report: small SVG charts (`charts.svg.jinja`), and small copies of pages and frames.

Pages and frames are there once, however many cases show them, within a number of bytes.
"""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from vrag.evaluation.report.labels import label_of, value_text
from vrag.render.axes import axis_of
from vrag.render.markup import environment, number
from vrag.render.text_format import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from markupsafe import Markup
    from PIL.Image import Image

    from vrag.evaluation.comparison import MetricComparison
    from vrag.evaluation.summary import Estimate
    from vrag.render.axes import Axis

_STRIP = (5.0, 111.0)
"""Left and right end of a drawing within a row of a table, in pixels."""
_BINS = 24
_MAX_POINTS = 3000
"""Points of a scatter; more are thinned out evenly."""
DEFAULT_BYTES = 24_000_000
"""Size of images in a page that a browser opens at once."""
MAX_BYTES = 500_000_000
"""Size above which browsers no longer read a page."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class PlotField(NamedTuple):
    """The field between the axes of a plot, in pixels from the upper left corner of the drawing."""

    left: float = 46.0
    top: float = 54.0
    width: float = 270.0
    height: float = 128.0

    def x(self, axis: Axis, value: float) -> float:
        """Return the place of a value of the horizontal axis."""
        return self.left + axis.place(value) * self.width

    def y(self, axis: Axis, value: float) -> float:
        """Return the place of a value of the vertical axis."""
        return self.top + (1 - axis.place(value)) * self.height


_FIELD = PlotField()


def interval_drawing(estimate: Estimate, text: str) -> Markup:
    """Draw a mean between 0 and 1 as a dot, its interval as a line; `text` is the same in words."""
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    return _chart("strip", text, _STRIP, *map(_place, (low, estimate.mean, high, 0.0)))


def difference_drawing(row: MetricComparison, reach: float, text: str) -> Markup:
    """Draw a difference as a dot left or right of none, its interval as a line; `text` is the same in words.

    The value at either end of the drawing is `reach`, above 0.
    """
    low, high = (row.interval.low, row.interval.high) if row.interval else (row.difference, row.difference)
    places = (_place(0.5 + 0.5 * end / reach) for end in (low, row.difference, high, 0.0))
    return _chart("strip", text, _STRIP, *places)


def shares_bar(counts: Mapping[str, int], kinds: Mapping[str, str], text: str) -> Markup:
    """Draw parts of a whole side by side, with their classes in `kinds`; `text` is the same in words."""
    scale = 1000 / max(sum(counts.values()), 1)
    begins = accumulate(counts.values(), initial=0)
    parts = [
        (begin * scale, found * scale, kinds[name], f"{found:,} {name}")
        for begin, (name, found) in zip(begins, counts.items(), strict=False)
        if found
    ]
    return _chart("shares", text, parts)


def histogram(name: str, values: Sequence[float]) -> Markup | None:
    """Draw how often a measure had which values; None without any.

    Values above the 99th percentile are counted with the last bar, so that one outlier does not press all
    others flat.
    """
    found = sorted(value for value in values if math.isfinite(value))
    if not found:
        return None
    top = found[-1 - len(found) // 100]
    axis, bins = _bins(found, min(0.0, found[0]), max(top, 1e-9))
    up = axis_of(0, max(bins), most=3, whole=True)
    middle = found[len(found) // 2]
    beyond = f", to {value_text(name, found[-1])}" if found[-1] > axis.high else ""
    wide, floor = _FIELD.width / len(bins), _FIELD.y(up, 0)
    bars = [
        (
            _FIELD.left + at * wide + 0.5,
            _FIELD.y(up, count),
            max(wide - 1, 0.5),
            floor - _FIELD.y(up, count),
            f"{count:,}",
        )
        for at, count in enumerate(bins)
        if count
    ]
    x = _FIELD.x(axis, min(max(middle, axis.low), axis.high))
    line = (f"M{number(x)} {number(_FIELD.top)}V{number(floor)}", "median")
    text = f"median {value_text(name, middle)}{beyond}"
    description = f"{label_of(name)} of {len(found)} questions, {text}"
    return _chart("plot", _title(name), text, description, _FIELD, axis, up, bars, [line], ())


def scatter(name: str, points: Sequence[tuple[float, float]]) -> Markup | None:
    """Draw a measure of the same questions in A, to the right, and B, upwards; None without any."""
    found = [point for point in points if all(map(math.isfinite, point))]
    if not found:
        return None
    found = found[:: max(1, len(found) // _MAX_POINTS)]
    least, most = min(map(min, found)), max(map(max, found))
    axis = axis_of(min(0.0, least), most, most=4)
    places = (f"M{number(_FIELD.x(axis, a))} {number(_FIELD.y(axis, b))}h0" for a, b in found)
    ends = axis.low, axis.high
    begin, end = (f"{number(_FIELD.x(axis, at))} {number(_FIELD.y(axis, at))}" for at in ends)
    lines = [(f"M{begin}L{end}", "alike"), ("".join(places), "points")]
    text = f"B more in {sum(b > a for a, b in found):,}, A more in {sum(b < a for a, b in found):,}"
    description = f"{label_of(name)} in A and B, {text}"
    return _chart("plot", _title(name), text, description, _FIELD, axis, axis, [], lines, ("A", "B"))


def _bins(found: Sequence[float], low: float, high: float) -> tuple[Axis, list[int]]:
    """Count values in equal stretches of an axis; whole numbers in a small range get one each."""
    if high - low <= _BINS and all(value == int(value) for value in found):
        axis = axis_of(low, high, most=5, whole=True)
        axis = replace(axis, low=axis.low - 0.5, high=axis.high + 0.5)
        bins = [0] * round(axis.high - axis.low)
    else:
        axis = axis_of(low, high, most=4)
        bins = [0] * _BINS
    for value in found:
        bins[min(max(int(axis.place(value) * len(bins)), 0), len(bins) - 1)] += 1
    return axis, bins


def _place(value: float) -> float:
    """Return a place along a strip, in pixels."""
    left, right = _STRIP
    return left + min(max(value, 0.0), 1.0) * (right - left)


def _title(name: str) -> str:
    return next(iter(wrapped(label_of(name), 22, 1)), "")


def _chart(macro: str, *arguments: object) -> Markup:
    charts = environment("vrag.evaluation.report").get_template("charts.svg.jinja")
    return getattr(charts.module, macro)(*arguments)


@dataclass
class Thumbnails:
    """The images of a report, while they are gathered."""

    side: int = 720
    """Longest side, in pixels; smaller images are not enlarged."""
    quality: int = 60
    """JPEG quality, 1 to 95."""
    most_bytes: int = DEFAULT_BYTES
    """Size of all images in the page; 0 for none at all."""
    evidence_only: bool = False
    """True if pages without evidence of an answer have no image."""
    pictures: list[str] = field(default_factory=list[str])
    """Data URLs of the images, by their numbers."""
    left: int = 0
    """Images without room; some of them may be unreadable."""
    full: bool = False
    """True if one did not fit. No other is made then, as making them takes the time."""
    bytes: int = 0
    """Characters of all data URLs."""
    _numbers: dict[Hashable, int | None] = field(default_factory=dict["Hashable", "int | None"])

    def number(self, key: Hashable, read: Callable[[], Image | None]) -> int | None:
        """Return the number of the image of a page or a frame; None where there is none, or no room.

        `read` returns the image, and is called once for each key.
        """
        if key in self._numbers or not self.most_bytes:
            return self._numbers.get(key)
        number = None
        if not self.full and (data := _jpeg(read, self.side, self.quality)):
            address = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
            self.full = self.bytes + len(address) > self.most_bytes
            if not self.full:
                number = len(self.pictures)
                self.bytes += len(address)
                self.pictures.append(address)
        self.left += self.full
        self._numbers[key] = number
        return number


def thumbnails_of(wanted: str) -> Thumbnails:
    """Parse the choice of images: `all`, `evidence` (pages of evidence only), `none`, or a size (`500k`).

    Raises `ValueError` if it is not one of these.

    >>> thumbnails_of("8 MB").most_bytes, thumbnails_of("none").most_bytes
    (8000000, 0)
    """
    word = wanted.strip().lower()
    if word == "evidence":
        return Thumbnails(evidence_only=True)
    if word in {"all", "none"}:
        return Thumbnails(most_bytes=MAX_BYTES if word == "all" else 0)
    if (found := _SIZE.fullmatch(word)) is None:
        raise ValueError(f"{wanted!r} is neither all, evidence nor none, nor a size such as 8MB")
    return Thumbnails(most_bytes=min(MAX_BYTES, int(float(found[1]) * _UNITS[found[2]])))


def _jpeg(read: Callable[[], Image | None], side: int, quality: int) -> bytes | None:
    """Return a small copy of an image; None where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            image = read()
            if image is None:
                return None
            small = image.convert("RGB")
            small.thumbnail((side, side))
            target = io.BytesIO()
            small.save(target, "JPEG", quality=quality, optimize=True)
    except (OSError, ValueError, SyntaxError, Warning):
        return None
    return target.getvalue()
