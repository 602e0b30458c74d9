"""The ways in which models write the four numbers of a box."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from vrag.geometry import Box, Size, Space, View, iou

__all__ = ["CONVENTIONS", "BoxSample", "Convention", "Numbers", "separates"]


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
    """What the four numbers of a box mean."""

    space: Space
    """Of the shown picture: `SHOWN`, `MILLE` or `RELATIVE`."""
    y_first: bool = False
    """Whether they are top, left, bottom, right rather than left, top, right, bottom."""

    def __str__(self) -> str:
        return f"{_NAMES[self.space]}, {'y' if self.y_first else 'x'} first"

    def read(self, numbers: Numbers, size: Size) -> Box:
        """The box that is meant, in fractions of a shown picture of `size`."""
        ordered = numbers.swapped if self.y_first else numbers
        return View.whole(size, size).convert(Box(*ordered, self.space), Space.UNIT)

    def write(self, box: Box, size: Size) -> Numbers:
        """The inverse of `read`; the box may be in any space of the picture."""
        numbers = Numbers(*View.whole(size, size).convert(box, self.space).as_tuple())
        return numbers.swapped if self.y_first else numbers


_NAMES = {
    Space.SHOWN: "pixels of the picture shown",
    Space.MILLE: "0 to 1000",
    Space.RELATIVE: "0 to 1",
}

CONVENTIONS = tuple(Convention(space, order) for order, space in product((False, True), _NAMES))
"""All that are told apart."""


@dataclass(frozen=True, slots=True)
class BoxSample:
    """A rectangle that was drawn, and what a model answered when asked where it is."""

    box: Box
    """As it was drawn, in pixels of the picture shown."""
    size: Size
    """Of that picture."""
    numbers: Numbers | None
    """The answer; None where there was none, or no box could be read in it."""

    @property
    def unit(self) -> Box:
        """The rectangle in fractions of the picture."""
        return View.whole(self.size, self.size).convert(self.box, Space.UNIT)


def separates(box: Box, size: Size, overlap: float) -> bool:
    """Whether a box tells all conventions apart: written in one and read in another, it overlaps little.

    A box on the diagonal of a square page is the same with x first and with y first, and on a page of
    1000 pixels a side thousandths are pixels.

    Args:
        box: In pixels of the picture shown.
        size: Of that picture.
        overlap: Intersection over union that a misread box may have with the true one, at most.
    """
    written = [(convention, convention.write(box, size)) for convention in CONVENTIONS]
    true = View.whole(size, size).convert(box, Space.UNIT)
    return all(
        iou(reader.read(numbers, size), true) <= overlap
        for writer, numbers in written
        for reader in CONVENTIONS
        if reader != writer
    )
