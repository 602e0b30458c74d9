"""Words of lines that do not run to the right, as if the picture were turned so that they do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.geometry import Box, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.types import Item, Word

Sides = tuple[float, float, float, float]
"""x1, y1, x2, y2 in fractions of a picture."""


def turn_upright(sides: Sides, angle: int) -> Sides:
    """Return a rectangle on the picture after it was turned back by an angle.

    Args:
        sides: The rectangle.
        angle: Degrees clockwise, a multiple of 90.

    >>> turn_upright((0.0, 0.25, 0.5, 1.0), 90)
    (0.25, 0.5, 1.0, 1.0)
    >>> turn_upright(turn_upright((0.25, 0.5, 0.5, 0.75), 270), 90)
    (0.25, 0.5, 0.5, 0.75)
    """
    x1, y1, x2, y2 = sides
    match angle % 360:
        case 90:
            return y1, 1 - x2, y2, 1 - x1
        case 180:
            return 1 - x2, 1 - y2, 1 - x1, 1 - y1
        case 270:
            return 1 - y2, x1, 1 - y1, x2
        case _:
            return sides


def list_angles(item: Item, words: Sequence[tuple[int, int]]) -> list[int]:
    """Return the angle of each range of the text, in order: degrees clockwise, 0 if it runs to the right."""
    angles: list[int] = []
    turned = item.facts.turned
    at = 0
    for start, _ in words:
        while at < len(turned) and turned[at].end <= start:
            at += 1
        angles.append(turned[at].angle % 360 if at < len(turned) and turned[at].start <= start else 0)
    return angles


@dataclass(frozen=True, slots=True)
class UprightView:
    """An item turned so that some of its lines run to the right, with the words of these lines alone."""

    item: Item
    angle: int
    """Degrees clockwise by which these lines are turned on the picture."""

    def turn_picture(self, picture: Image) -> Image:
        """Return the picture of the item, turned likewise."""
        from PIL.Image import Transpose

        if not self.angle:
            return picture
        turns = {90: Transpose.ROTATE_90, 180: Transpose.ROTATE_180, 270: Transpose.ROTATE_270}
        return picture.transpose(turns[self.angle])

    def on_picture(self, box: Box) -> Box:
        """Return a rectangle of the view as it is on the picture of the item."""
        return Box.unit(*turn_upright(box.as_tuple(), 360 - self.angle)) if self.angle else box


def list_views(item: Item) -> list[UprightView]:
    """Return an item once for each direction of its lines, those that run to the right first."""
    if not item.facts.turned:
        return [UprightView(item, 0)]
    words: dict[int, list[Word]] = {0: []}
    angles = list_angles(item, [(word.start, word.end) for word in item.words])
    for word, angle in zip(item.words, angles, strict=True):
        words.setdefault(angle, []).append(word)
    return [_make_view(item, words[angle], angle) for angle in sorted(words)]


def _make_view(item: Item, words: Sequence[Word], angle: int) -> UprightView:
    turned = [
        replace(word, box=Box.unit(*turn_upright(word.box.as_tuple(), angle))) if angle else word
        for word in words
    ]
    size = item.size
    if size is not None and angle % 180:
        size = Size(size.height, size.width)
    return UprightView(replace(item, words=tuple(turned), size=size), angle)
