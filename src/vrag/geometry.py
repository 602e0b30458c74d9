"""Boxes with their coordinate space, and the only code that resizes images or maps coordinates.

Five spaces exist. An *item* is the stored full-resolution picture of a page. The model is *shown*
a resized copy of the item or of a part of it. *Unit* coordinates are fractions of the item and are
what leaves the system as evidence. *Mille* coordinates are fractions of the shown picture in
thousandths, and *relative* ones are plain fractions of it: the conventions of some model families. A
`View` says which part of which item a shown picture is, and maps between the spaces. Maps are exact in
real numbers; rounding happens once, at the final cut of pixels.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
"""Pillow's names of the formats that are read. Some other readers start programs or are little tested."""
MAX_ASPECT = 200.0
"""Longest side over shortest side beyond which no model family accepts a picture."""


class Space(StrEnum):
    """The unit of the numbers of a box."""

    ITEM = "item"
    """Pixels of the stored item."""
    SHOWN = "shown"
    """Pixels of the picture the model was shown."""
    UNIT = "unit"
    """Fractions of the item, 0 to 1."""
    MILLE = "mille"
    """Thousandths of the picture the model was shown, 0 to 1000."""
    RELATIVE = "relative"
    """Fractions of the picture the model was shown, 0 to 1."""


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int

    @property
    def area(self) -> int:
        """Number of pixels."""
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Box:
    """A half-open rectangle, x1 ≤ x < x2 and y1 ≤ y < y2, in a stated coordinate space."""

    x1: float
    y1: float
    x2: float
    y2: float
    space: Space

    @classmethod
    def unit(cls, x1: float, y1: float, x2: float, y2: float) -> Box:
        """Create a box in fractions of its item."""
        return cls(x1, y1, x2, y2, Space.UNIT)

    @classmethod
    def around(cls, boxes: list[Box]) -> Box:
        """Return the smallest box that covers all of `boxes`, which share one space.

        Raises `ValueError` if `boxes` is empty or mixes spaces.
        """
        spaces = {box.space for box in boxes}
        if len(spaces) != 1:
            raise ValueError("boxes to be united must share one space and be at least one")
        return cls(
            min(b.x1 for b in boxes),
            min(b.y1 for b in boxes),
            max(b.x2 for b in boxes),
            max(b.y2 for b in boxes),
            spaces.pop(),
        )

    @property
    def width(self) -> float:
        """Extent along x; negative for an inverted box."""
        return self.x2 - self.x1

    @property
    def height(self) -> float:
        """Extent along y; negative for an inverted box."""
        return self.y2 - self.y1

    @property
    def area(self) -> float:
        """Area in square units of the space; 0 when the box is empty or inverted."""
        return max(self.width, 0.0) * max(self.height, 0.0)

    @property
    def center(self) -> tuple[float, float]:
        """The middle point, x and y."""
        return (self.x1 + self.x2) / 2, (self.y1 + self.y2) / 2

    def covers(self, x: float, y: float) -> bool:
        """Return whether the point lies inside."""
        return self.x1 <= x < self.x2 and self.y1 <= y < self.y2

    def intersect(self, other: Box) -> Box:
        """Return the common part; empty or inverted when there is none.

        Raises `ValueError` if the boxes live in different spaces.
        """
        if self.space is not other.space:
            raise ValueError(f"cannot intersect a box in {self.space} with one in {other.space}")
        return Box(
            max(self.x1, other.x1),
            max(self.y1, other.y1),
            min(self.x2, other.x2),
            min(self.y2, other.y2),
            self.space,
        )

    def grow(self, by: float) -> Box:
        """Return the box with `by` units more on each side."""
        return Box(self.x1 - by, self.y1 - by, self.x2 + by, self.y2 + by, self.space)

    def round_out(self, tolerance: float = 1e-6) -> Box:
        """Return the smallest box with whole-number sides that covers this one.

        A side within `tolerance` of a whole number counts as that number: a map to another space
        and back leaves errors around 1e-12, which must not cost a pixel.
        """
        return Box(
            math.floor(self.x1 + tolerance),
            math.floor(self.y1 + tolerance),
            math.ceil(self.x2 - tolerance),
            math.ceil(self.y2 - tolerance),
            self.space,
        )

    def as_tuple(self) -> tuple[float, float, float, float]:
        """Return (x1, y1, x2, y2), without the space."""
        return self.x1, self.y1, self.x2, self.y2


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two boxes in the same space, 0 when both are empty.

    >>> iou(Box.unit(0, 0, 1, 1), Box.unit(0.5, 0, 1, 1))
    0.5
    """
    common = a.intersect(b).area
    union = a.area + b.area - common
    return common / union if union > 0 else 0.0


def smart_resize(size: Size, *, factor: int, min_pixels: int, max_pixels: int) -> Size:
    """Return the size at which a Qwen-VL family model sees a picture of `size`.

    Both sides become multiples of `factor` and the area lies between the limits, with the
    proportions kept as far as that allows. This is the rule of the model family's own image
    processor, so that the size recorded is the size the model sees.

    Sizes are in pixels; `min_pixels` and `max_pixels` limit the area. `factor` is the number of pixels per
    visual token and side: 28 for Qwen2-VL and Qwen2.5-VL, 32 for Qwen3-VL. Raises `ValueError` if a side is
    under one pixel or over 200 times the other.

    >>> smart_resize(Size(1000, 1000), factor=28, min_pixels=200_704, max_pixels=401_408)
    Size(width=616, height=616)
    """
    if min(size) < 1 or max(size) / min(size) > MAX_ASPECT:
        raise ValueError(f"{size.width}×{size.height} pixels: no side may be 200 times the other")

    width, height = (round(side / factor) * factor for side in size)
    if width * height > max_pixels:
        shrink = math.sqrt(size.area / max_pixels)
        width, height = (max(factor, math.floor(side / shrink / factor) * factor) for side in size)
    elif width * height < min_pixels:
        stretch = math.sqrt(min_pixels / size.area)
        width, height = (math.ceil(side * stretch / factor) * factor for side in size)
    return Size(width, height)


NO_MARGIN = Size(0, 0)


@dataclass(frozen=True, slots=True)
class View:
    """The part of an item that a shown picture is.

    `region` is the part that was cut, in item pixels and with whole-number sides: what the pixels
    of the shown picture really are. Crops of crops therefore compose without a growing error.
    """

    item: Size
    """Size of the stored item in pixels."""
    region: Box
    """The part shown, in `Space.ITEM`."""
    shown: Size
    """Size in pixels at which the part is shown."""
    margin: Size = NO_MARGIN
    """White pixels added on the right and at the bottom, for a part smaller than a model accepts."""

    @property
    def canvas(self) -> Size:
        """Size of the whole picture that the model is given: `shown` and the margin."""
        return Size(self.shown.width + self.margin.width, self.shown.height + self.margin.height)

    @classmethod
    def whole(cls, item: Size, shown: Size) -> View:
        """Create the view of a complete item."""
        return cls(item, Box(0, 0, item.width, item.height, Space.ITEM), shown)

    def to_item(self, box: Box) -> Box:
        """Convert a box to item pixels, not clipped and not rounded."""
        x, y = self._scale(box.space)
        left, top = self._origin(box.space)
        return Box(left + box.x1 * x, top + box.y1 * y, left + box.x2 * x, top + box.y2 * y, Space.ITEM)

    def from_item(self, box: Box, space: Space) -> Box:
        """Convert a box in item pixels to `space`: the inverse of `to_item`."""
        if box.space is not Space.ITEM:
            raise ValueError(f"expected a box in item pixels, not in {box.space}")
        x, y = self._scale(space)
        left, top = self._origin(space)
        return Box((box.x1 - left) / x, (box.y1 - top) / y, (box.x2 - left) / x, (box.y2 - top) / y, space)

    def convert(self, box: Box, space: Space) -> Box:
        """Convert a box to another space of this view."""
        return box if box.space is space else self.from_item(self.to_item(box), space)

    def cut(self, box: Box, *, padding: float = 0.0) -> Box:
        """Return the region of the item to cut for a crop of this view.

        The box is mapped to item pixels, grown by `padding` item pixels, clipped to the part
        that is shown and rounded outwards. Only here do coordinates round. The box that is returned is empty
        when nothing remains, or when the numbers are not finite.
        """
        inside = self.to_item(box).grow(padding).intersect(self.region)
        if not all(math.isfinite(side) for side in inside.as_tuple()):
            return replace(self.region, x2=self.region.x1, y2=self.region.y1)
        return inside.round_out()

    def _scale(self, space: Space) -> tuple[float, float]:
        """Return the item pixels per unit of `space`, along x and y."""
        match space:
            case Space.ITEM:
                return 1.0, 1.0
            case Space.UNIT:
                return float(self.item.width), float(self.item.height)
            case Space.SHOWN:
                return self.region.width / self.shown.width, self.region.height / self.shown.height
            case Space.MILLE:
                x, y = self._scale(Space.RELATIVE)
                return x / 1000, y / 1000
            case Space.RELATIVE:
                x, y = self._scale(Space.SHOWN)
                return x * self.canvas.width, y * self.canvas.height

    def _origin(self, space: Space) -> tuple[float, float]:
        """Return the origin of `space`, in item pixels."""
        if space in {Space.ITEM, Space.UNIT}:
            return 0.0, 0.0
        return self.region.x1, self.region.y1


def draw_view(image: Image, view: View) -> Image:
    """Draw the picture of a view: the region cut from the item, resized once, on its canvas.

    The image is the stored item, RGB, of size `view.item`, or for a whole item a smaller copy. Raises
    `ValueError` if a part is to be cut from such a copy.
    """
    part = image
    if view.region.as_tuple() != (0, 0, *view.item):  # cut first: a filter would look beyond the edge
        if image.size != view.item:
            raise ValueError("a part is cut from the item in full")
        part = image.crop(tuple(int(side) for side in view.region.as_tuple()))  # pyright: ignore[reportArgumentType]
    return draw_part(part, view)


def draw_part(part: Image, view: View) -> Image:
    """Draw the picture of a view from a picture of its region in any size: resized once, on its canvas.

    Reduced with Hamming's window, which keeps letters sharp in two thirds of the time; enlarged with bicubic
    interpolation.
    """
    from PIL import Image as Images

    smaller = view.shown.area < part.width * part.height
    kernel = Images.Resampling.HAMMING if smaller else Images.Resampling.BICUBIC
    drawn = part.resize(view.shown, kernel, reducing_gap=2.0)
    if view.canvas == view.shown:
        return drawn
    canvas = Images.new("RGB", view.canvas, "white")
    canvas.paste(drawn)
    return canvas


def look_alike(first: Image, second: Image) -> bool:
    """Return whether two pictures of one size show the same, in whatever resolution they were drawn.

    Both are reduced to grey thumbnails. Their mean difference, by the mean deviation of a thumbnail from its
    own mean, was below 0.26 for 360 parts of real pages drawn from their files and enlarged from the stored
    pictures, and above 0.5 for 19 of 20 pairs of different parts; the others were blank.
    """
    import numpy as np
    from PIL import Image as Images

    if first.size != second.size:
        return False
    shrink = max(1.0, max(first.size) / _THUMBNAIL_SIDE)
    size = (max(1, round(first.width / shrink)), max(1, round(first.height / shrink)))
    a, b = (
        np.asarray(image.convert("L").resize(size, Images.Resampling.BOX), np.float64)
        for image in (first, second)
    )
    deviation = max(np.abs(a - a.mean()).mean(), np.abs(b - b.mean()).mean())
    return bool(np.abs(a - b).mean() <= _MAX_DIFFERENCE * (deviation + _GREY_FLOOR))


_THUMBNAIL_SIDE = 32
_MAX_DIFFERENCE = 0.4
_GREY_FLOOR = 2.0
"""Levels of grey added to the deviation, so that nearly blank parts are not told apart by their noise."""
JPEG_QUALITY = 90
"""Letters keep their edges; five times as fast as PNG, and a third of its size for scans and photographs."""


def encode_jpeg(image: Image) -> bytes:
    """Encode a picture as runs keep it and models receive it; the same pixels give the same bytes."""
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


def decode_jpeg(jpeg: bytes) -> Image:
    """Decode a JPEG file to RGB pixels."""
    from PIL import Image as Images

    with Images.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return image.convert("RGB")
