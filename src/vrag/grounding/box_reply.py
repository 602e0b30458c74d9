"""Four numbers out of whatever a model wrote when it was asked for a box."""

from __future__ import annotations

import math
import re

from vrag.grounding.conventions import Numbers

__all__ = ["parse_box"]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_BETWEEN = r"[\s,;()\[\]]+"
_FOUR = _BETWEEN.join([f"({_NUMBER})"] * 4)
_LIMIT = 20_000
"""Characters of a reply that are looked at, from its end."""
_LIST = re.compile(rf"[\[(]\s*{_FOUR}\s*[\])]")
_LOCATION = re.compile(r"<loc(\d{1,5})>" * 4)
_RUN = re.compile(rf"(?<![\w.]){_NUMBER}(?:{_BETWEEN}{_NUMBER})*")
_SIDES = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"))


def parse_box(reply: str) -> Numbers | None:
    """The last box in a reply; None when there is none.

    Understood are lists (`[1, 2, 3, 4]`, alone, in a tag or as `bbox_2d` in JSON), pairs of points
    (`<box>(1,2),(3,4)</box>`), named sides (`"x1": 1, …`), location tokens (`<loc0001>…`), and four bare
    numbers. What stands in a think block does not count.

    Returns:
        The numbers in the order in which they stand, or with x first where they are named; never an
        inverted or empty box.
    """
    text = reply[-_LIMIT:].rpartition("</think>")[2]
    found = [match.groups() for form in (_LIST, _LOCATION) for match in form.finditer(text)]
    found = found or _named(text) or _runs(text)
    boxes = (_box([float(number) for number in numbers]) for numbers in reversed(found))
    return next((box for box in boxes if box), None)


def _named(text: str) -> list[tuple[str, ...]]:
    """Sides that are called by name: the last of each name."""
    for names in _SIDES:
        values = [re.findall(rf"\b{name}\W{{1,4}}({_NUMBER})", text, re.IGNORECASE) for name in names]
        if all(values):
            return [tuple(found[-1] for found in values)]
    return []


def _runs(text: str) -> list[tuple[str, ...]]:
    """Four numbers, no more and no fewer, with nothing but commas, brackets and blanks between."""
    runs = (tuple(re.findall(_NUMBER, match.group())) for match in _RUN.finditer(text))
    return [run for run in runs if len(run) == 4]


def _box(numbers: list[float]) -> Numbers | None:
    box = Numbers(*numbers)
    inverted = box.a >= box.c or box.b >= box.d
    return None if inverted or not all(map(math.isfinite, box)) else box
