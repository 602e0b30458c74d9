"""Numbers, moments and reasons in words, alike on the whole page."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from vrag.agent.stop_reason import StopReason

if TYPE_CHECKING:
    from vrag.agent.evidence import BoxSides

__all__ = [
    "INTERRUPTED",
    "NOTHING_QUOTED",
    "RUNNING",
    "STOPS",
    "amount",
    "count",
    "moment",
    "money",
    "place",
    "seconds",
    "size",
    "span",
    "when",
]

STOPS = {
    StopReason.ANSWERED: ("Answered", "good"),
    StopReason.ABSTAINED: ("No answer in the documents", "calm"),
    StopReason.OUT_OF_STEPS: ("Out of steps", "fair"),
    StopReason.OUT_OF_TOKENS: ("Out of tokens", "fair"),
    StopReason.OUT_OF_BUDGET: ("Budget spent", "fair"),
    StopReason.CANCELLED: ("Stopped", "fair"),
    StopReason.MODEL_ERROR: ("Model failed", "bad"),
    StopReason.SEARCH_ERROR: ("Search failed", "bad"),
    StopReason.FAULT: ("Broke off", "bad"),
}
"""What each reason is called, and how good it is: `good`, `calm`, `fair` or `bad`."""
INTERRUPTED = ("Interrupted", "fair")
"""A run without an end, likewise."""
RUNNING = ("Running", "fair")
"""A run that still goes on, likewise."""
NOTHING_QUOTED = ("Nothing to quote", "calm")
"""A run in which the offline policy abstained, likewise."""


def amount(value: float | None) -> str:
    """A count with separators; a dash where it is unknown.

    >>> amount(12345), amount(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


def count(value: int, noun: str) -> str:
    """A count with its noun.

    >>> count(1, "step"), count(2, "search")
    ('1 step', '2 searches')
    """
    plural = "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{value:,} {noun}{'' if value == 1 else plural}"


def seconds(value: float) -> str:
    """A duration.

    >>> seconds(0.0312), seconds(7.25), seconds(83)
    ('0.03 s', '7.2 s', '1 min 23 s')
    """
    if not math.isfinite(value):
        return "–"
    if value >= 60:
        return f"{int(value) // 60} min {int(value) % 60} s"
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def moment(value: float) -> str:
    """A moment of a video.

    >>> moment(12), moment(75.5), moment(3723)
    ('0:12', '1:15.5', '1:02:03')
    """
    if not math.isfinite(value) or value < 0:
        return "–"
    tenths = round(value * 10)
    whole, rest = divmod(tenths, 10)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    clock = f"{hours}:{minute:02}:{second:02}" if hours else f"{minutes}:{second:02}"
    return f"{clock}.{rest}" if rest else clock


def span(value: tuple[float, float]) -> str:
    """A stretch of a video.

    >>> span((12, 30))
    '0:12–0:30'
    """
    return f"{moment(value[0])}–{moment(value[1])}" if value[0] != value[1] else moment(value[0])


def money(value: float | None) -> str:
    """A cost, in whatever currency; small ones with the digits that count.

    >>> money(1.5), money(0.00312), money(None)
    ('1.50', '0.0031', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:.2g}" if value >= 1e-4 else f"{value:.1e}"


def place(box: BoxSides) -> str:
    """A box as a model wrote it.

    >>> place((1.0, 2.5, 30.25, 4.0))
    '1, 2.5, 30.25, 4'
    """
    return ", ".join(f"{side:.6g}" for side in box)


def size(value: int) -> str:
    """A number of bytes.

    >>> size(1_234_567)
    '1.2 MB'
    """
    return f"{value / 1e6:.1f} MB" if value >= 100_000 else f"{value / 1e3:.0f} kB"


def when(value: float) -> str:
    """A moment of history, in UTC.

    >>> when(0)
    '1 January 1970, 00:00 UTC'
    """
    try:
        parts = time.gmtime(value)
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
    return f"{parts.tm_mday} {time.strftime('%B %Y, %H:%M', parts)} UTC"
