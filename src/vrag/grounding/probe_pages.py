"""Synthetic pages with coloured rectangles, drawn so that no two coordinate conventions agree on them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.geometry import Box, Size, Space
from vrag.grounding.conventions import separates

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.model_profiles import Profile

__all__ = ["ProbePage", "Rectangle", "draw", "make_pages"]

SIZES = (Size(448, 672), Size(672, 448), Size(448, 896), Size(896, 448))
"""None is square. All sides are multiples of 28 and of 32, so that no known family resizes them."""
COLORS = {
    "red": (214, 28, 28),
    "green": (20, 140, 50),
    "blue": (30, 70, 220),
    "yellow": (245, 215, 20),
    "purple": (130, 30, 160),
    "black": (15, 15, 15),
}
SIDES = (0.18, 0.42)
"""Shortest and longest side of a rectangle, as a fraction of the page's."""
GAP = 0.02
"""Least distance of rectangles from each other and from the border, as a fraction of the page's width."""
CONFUSION = 0.25
"""Overlap that a rectangle may have with itself, written in one convention and read in another."""
TRIES = 500
"""Pages that are begun before there is held to be no room."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle of one colour."""

    color: str
    box: Box
    """In pixels of the page, which is shown as it is; whole numbers."""


@dataclass(frozen=True, slots=True)
class ProbePage:
    """A page to be drawn."""

    size: Size
    rectangles: tuple[Rectangle, ...]
    """No two of one colour, none touching another."""


def make_pages(profile: Profile, *, each: int = 2, rectangles: int = 3, seed: int = 0) -> list[ProbePage]:
    """Pages of four sizes, portrait and landscape.

    Args:
        profile: Of the family that is asked: pages have sizes that it shows as they are.
        each: Pages of each size.
        rectangles: On each page; at most as many as there are colours.
        seed: Equal seeds make equal pages.
    """
    chance = random.Random(seed)
    sizes = [profile.shown_size(size) for size in SIZES for _ in range(each)]
    return [ProbePage(size, _scatter(size, rectangles, chance)) for size in sizes]


def _scatter(size: Size, count: int, chance: random.Random) -> tuple[Rectangle, ...]:
    """Rectangles that keep apart; the page begins anew when there is no room for the next."""
    colors = chance.sample(list(COLORS), count)
    for _ in range(TRIES):
        placed: list[Box] = []
        for _ in range(count * 40):
            box = _any_box(size, chance)
            if _keeps_apart(box, placed, size.width * GAP) and separates(box, size, CONFUSION):
                placed.append(box)
            if len(placed) == count:
                return tuple(map(Rectangle, colors, placed))
    raise ValueError(f"{count} rectangles find no room on {size.width}×{size.height} pixels")


def _any_box(size: Size, chance: random.Random) -> Box:
    sides: list[int] = []
    starts: list[int] = []
    for length in size:
        side = round(length * chance.uniform(*SIDES))
        sides.append(side)
        starts.append(chance.randint(round(length * GAP), round(length * (1 - GAP)) - side))
    (x, y), (width, height) = starts, sides
    return Box(x, y, x + width, y + height, Space.SHOWN)


def _keeps_apart(box: Box, others: list[Box], gap: float) -> bool:
    grown = box.grow(gap)
    return not any(grown.intersect(other).area for other in others)


def draw(page: ProbePage) -> Image:
    """The page as a picture."""
    from PIL import Image as Images

    picture = Images.new("RGB", page.size, "white")
    for rectangle in page.rectangles:
        left, top, right, bottom = (round(side) for side in rectangle.box.as_tuple())
        picture.paste(COLORS[rectangle.color], (left, top, right, bottom))
    return picture
