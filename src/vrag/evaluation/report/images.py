"""Images of a report: small SVG charts, and small copies of pages and frames.

Charts are drawn as shapes with the classes of the page, so that they are sharp, light or dark, and need no
script. Pages and frames are there once, however many cases show them, within a number of bytes.
"""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vrag.evaluation.report.labels import label_of, value_text
from vrag.render.axes import axis_of
from vrag.render.markup import element, number
from vrag.render.text_format import text_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup
    from PIL.Image import Image

    from vrag.evaluation.comparison import MetricComparison
    from vrag.evaluation.summary import Estimate
    from vrag.render.axes import Axis


_WIDE, _HIGH = 116.0, 18.0
"""Size of a drawing within a row of a table, in pixels."""
_PLOT_WIDE, _PLOT_HIGH, _LEFT, _FOOT, _TOP = 340.0, 220.0, 46.0, 38.0, 54.0
_ACROSS = _PLOT_WIDE - _LEFT - 24
"""Width of the field of a plot."""
_BINS = 24
_MAX_POINTS = 3000
"""Points of a scatter; more are thinned out evenly."""
DEFAULT_BYTES = 24_000_000
"""Size of images in a page that a browser opens at once."""
MAX_BYTES = 500_000_000
"""Size above which browsers no longer read a page."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def interval_drawing(estimate: Estimate, text: str) -> Markup:
    """Draw a mean between 0 and 1 as a dot, its interval as a line; `text` is the same in words."""
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    return _strip(text, _place(low), _place(estimate.mean), _place(high), 0.0)


def difference_drawing(row: MetricComparison, reach: float, text: str) -> Markup:
    """Draw a difference as a dot left or right of none, its interval as a line; `text` is the same in words.

    The value at either end of the drawing is `reach`, above 0.
    """
    ends = (row.interval.low, row.interval.high) if row.interval else (row.difference, row.difference)
    low, middle, high = (_place(0.5 + 0.5 * value / reach) for value in (ends[0], row.difference, ends[1]))
    return _strip(text, low, middle, high, 0.5)


def shares_bar(counts: Mapping[str, int], kinds: Mapping[str, str], text: str) -> Markup:
    """Draw parts of a whole side by side, with their classes in `kinds`; `text` is the same in words."""
    whole = max(sum(counts.values()), 1)
    x, parts = 0.0, list["Markup"]()
    for name, found in counts.items():
        wide = 1000 * found / whole
        if wide:
            parts.append(
                element(
                    "rect",
                    element("title", f"{found:,} {name}"),
                    x=x,
                    y=0,
                    width=wide,
                    height=10,
                    class_=kinds[name],
                )
            )
        x += wide
    return element(
        "svg",
        element("title", text),
        *parts,
        viewBox="0 0 1000 10",
        preserveAspectRatio="none",
        role="img",
        class_="shares",
    )


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
    wide = _ACROSS / len(bins)
    bars = (
        element(
            "rect",
            element("title", f"{count:,}"),
            x=_LEFT + index * wide + 0.5,
            y=_down(up, count),
            width=max(wide - 1, 0.5),
            height=max(_down(up, 0) - _down(up, count), 0),
            class_="pile",
        )
        for index, count in enumerate(bins)
        if count
    )
    x = _LEFT + min(max(axis.place(middle), 0), 1) * _ACROSS
    line = element("path", d=f"M{number(x)} {number(_TOP)}V{number(_down(up, 0))}", class_="median")
    text = f"median {value_text(name, middle)}{beyond}"
    return _plot(
        label_of(name), text, (*bars, line), axis, up, f"{label_of(name)} of {len(found)} questions, {text}"
    )


def scatter(name: str, points: Sequence[tuple[float, float]]) -> Markup | None:
    """Draw a measure of the same questions in A, to the right, and B, upwards; None without any."""
    found = [point for point in points if all(map(math.isfinite, point))]
    if not found:
        return None
    found = found[:: max(1, len(found) // _MAX_POINTS)]
    least, most = min(map(min, found)), max(map(max, found))
    axis = axis_of(min(0.0, least), most, most=4)
    places = (f"M{number(_LEFT + axis.place(a) * _ACROSS)} {number(_down(axis, b))}h0" for a, b in found)
    corner = f"M{number(_LEFT)} {number(_down(axis, axis.low))}L{number(_LEFT + _ACROSS)} {number(_TOP)}"
    drawn = (element("path", d=corner, class_="alike"), element("path", d="".join(places), class_="points"))
    above, below = sum(b > a for a, b in found), sum(b < a for a, b in found)
    text = f"B more in {above:,}, A more in {below:,}"
    return _plot(label_of(name), text, drawn, axis, axis, f"{label_of(name)} in A and B, {text}", ("A", "B"))


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
    return 5 + min(max(value, 0.0), 1.0) * (_WIDE - 10)


def _strip(text: str, low: float, middle: float, high: float, none: float) -> Markup:
    half = _HIGH / 2
    return element(
        "svg",
        element("title", text),
        element("path", d=f"M5 {number(half)}H{number(_WIDE - 5)}", class_="rail"),
        element("path", d=f"M{number(_place(none))} 2v{number(_HIGH - 4)}", class_="none"),
        element("path", d=f"M{number(low)} {number(half)}H{number(high)}", class_="whisker"),
        element("path", d=f"M{number(middle)} {number(half)}h0", class_="spot"),
        viewBox=f"0 0 {number(_WIDE)} {number(_HIGH)}",
        width=_WIDE,
        height=_HIGH,
        role="img",
        class_="strip-plot",
    )


def _down(axis: Axis, value: float) -> float:
    return _TOP + (1 - axis.place(value)) * (_PLOT_HIGH - _TOP - _FOOT)


def _plot(
    title: str,
    text: str,
    drawn: Iterable[Markup],
    across: Axis,
    up: Axis,
    description: str,
    names: tuple[str, str] = ("", ""),
) -> Markup:
    right = _PLOT_WIDE - 14 - 11 * text_width(names[0])
    axis_names = (
        element("text", names[0], x=right, y=_PLOT_HIGH - 6, class_="axis"),
        element("text", names[1], x=_LEFT - 8, y=_TOP - 8 + 3, class_="axis up"),
    )
    return element(
        "svg",
        element("title", description),
        element("text", next(iter(wrapped(title, 22, 1)), ""), x=14, y=20, class_="name"),
        element("text", text, x=14, y=35, class_="told"),
        *_grid(across, up),
        *drawn,
        *(axis_names if all(names) else ()),
        viewBox=f"0 0 {number(_PLOT_WIDE)} {number(_PLOT_HIGH)}",
        role="img",
        class_="plot",
    )


def _grid(across: Axis, up: Axis) -> Iterator[Markup]:
    for tick, label in zip(up.ticks, up.labels, strict=True):
        y = _down(up, tick)
        kind = "base" if tick == up.low else "grid"
        yield element("path", d=f"M{number(_LEFT)} {number(y)}h{number(_ACROSS)}", class_=kind)
        yield element("text", label, x=_LEFT - 8, y=y + 3.8, class_="tick up")
    bottom = _down(up, up.low)
    for tick, label in zip(across.ticks, across.labels, strict=True):
        x = _LEFT + across.place(tick) * _ACROSS
        yield element("path", d=f"M{number(x)} {number(bottom)}v4", class_="base")
        yield element("text", label, x=x, y=bottom + 17, class_="tick")


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
