"""Synthetic pages with coloured rectangles on which no two coordinate conventions agree."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.geometry import Box, Size, Space
from vrag.grounding.conventions import separates

if TYPE_CHECKING:
    from PIL import Image

    from vrag.model_profiles import Profile

SIZES = (Size(448, 672), Size(672, 448), Size(448, 896), Size(896, 448))
"""Page sizes: not square; multiples of 28 and of 32, so that no known family resizes them."""
COLORS = {
    "red": (214, 28, 28),
    "green": (20, 140, 50),
    "blue": (30, 70, 220),
    "yellow": (245, 215, 20),
    "purple": (130, 30, 160),
    "black": (15, 15, 15),
}
SIDE_RANGE = (0.18, 0.42)
"""Shortest and longest side of a rectangle, as a fraction of the page's side."""
MIN_GAP = 0.02
"""Minimum distance of rectangles from each other and from the border, as a fraction of the page's width."""
CONFUSION = 0.25
"""Maximum overlap of a rectangle with itself, written in one convention and read in another."""
MAX_TRIES = 500
"""Pages that are started before giving up."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle of one colour."""

    color: str
    box: Box
    """Its sides in pixels of the page, which is shown as it is; whole numbers."""


@dataclass(frozen=True, slots=True)
class ProbePage:
    """A page to draw."""

    size: Size
    rectangles: tuple[Rectangle, ...]
    """No two of one colour, none touching another."""


def make_pages(profile: Profile, *, each: int = 2, rectangles: int = 3, seed: int = 0) -> list[ProbePage]:
    """Make pages of four sizes, portrait and landscape.

    Args:
        profile: Profile of the model: pages have sizes that it does not resize.
        each: Number of pages of each size.
        rectangles: Number of rectangles per page; at most as many as there are colours.
        seed: Random seed.
    """
    chance = random.Random(seed)
    sizes = [profile.shown_size(size) for size in SIZES for _ in range(each)]
    return [ProbePage(size, _scatter(size, rectangles, chance)) for size in sizes]


def _scatter(size: Size, count: int, chance: random.Random) -> tuple[Rectangle, ...]:
    """Place rectangles apart from each other; start the page again if there is no room for the next."""
    colors = chance.sample(list(COLORS), count)
    for _ in range(MAX_TRIES):
        placed: list[Box] = []
        for _ in range(count * 40):
            box = _any_box(size, chance)
            if _keeps_apart(box, placed, size.width * MIN_GAP) and separates(box, size, CONFUSION):
                placed.append(box)
            if len(placed) == count:
                return tuple(map(Rectangle, colors, placed))
    raise ValueError(f"{count} rectangles do not fit on {size.width}×{size.height} pixels")


def _any_box(size: Size, chance: random.Random) -> Box:
    sides: list[int] = []
    starts: list[int] = []
    for length in size:
        side = round(length * chance.uniform(*SIDE_RANGE))
        sides.append(side)
        starts.append(chance.randint(round(length * MIN_GAP), round(length * (1 - MIN_GAP)) - side))
    (x, y), (width, height) = starts, sides
    return Box(x, y, x + width, y + height, Space.SHOWN)


def _keeps_apart(box: Box, others: list[Box], gap: float) -> bool:
    grown = box.grow(gap)
    return not any(grown.intersect(other).area for other in others)


def draw(page: ProbePage) -> Image.Image:
    """Draw the page."""
    from PIL import Image

    picture = Image.new("RGB", page.size, "white")
    for rectangle in page.rectangles:
        left, top, right, bottom = (round(side) for side in rectangle.box.as_tuple())
        picture.paste(COLORS[rectangle.color], (left, top, right, bottom))
    return picture
