"""The conventions in which models write the four numbers of a box, and the reader of their replies."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from vrag.geometry import Box, Size, Space, View, iou

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_BETWEEN = r"[\s,;()\[\]]+"
_FOUR = _BETWEEN.join([f"({_NUMBER})"] * 4)
MAX_REPLY_CHARS = 20_000
"""Characters at the end of a reply that are read."""
_LIST = re.compile(rf"[\[(]\s*{_FOUR}\s*[\])]")
_LOCATION = re.compile(r"<loc(\d{1,5})>" * 4)
_RUN = re.compile(rf"(?<![\w.]){_NUMBER}(?:{_BETWEEN}{_NUMBER})*")
_SIDES = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"))


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


_NAMES = {
    Space.SHOWN: "pixels of the picture shown",
    Space.MILLE: "0 to 1000",
    Space.RELATIVE: "0 to 1",
}

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
    """Return the last value of each named side."""
    for names in _SIDES:
        values = [re.findall(rf"\b{name}\W{{1,4}}({_NUMBER})", text, re.IGNORECASE) for name in names]
        if all(values):
            return [tuple(found[-1] for found in values)]
    return []
