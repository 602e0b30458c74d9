"""Lines and words of pages as OCR reads them, for the second reading of claims.

They are drawn like the crops of an agent: from the source file, as long as its bytes are those that were
indexed, or else from the stored picture. Strips of one page are cut out of one drawing where that is not
larger than they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from vrag.corpus.ocr import read_strip
from vrag.errors import VragError
from vrag.geometry import Box, Size, Space, View, draw_view
from vrag.reading.verification.second_reading import Strip, StripText

if TYPE_CHECKING:
    from vrag.search.searcher import ItemStore
    from vrag.types import Item

MARGIN = 0.25
"""White around a line, in heights of it."""
MAX_PIXELS, MAX_SIDE = 8_000_000, 8_000
"""The size of a drawing."""
MIN_USED = 0.04
"""Share of a drawing that its strips must fill; otherwise each is drawn by itself."""
MIN_SIDE = 4
"""Pixels of the stored picture below which a strip shows nothing."""
CACHE_SIZE = 4096
"""Strips."""
_Pixels: TypeAlias = NDArray[np.uint8]
_READ: LRUCache[tuple[str, Size, Strip, int], StripText] = LRUCache(CACHE_SIZE)
_LOCK = Lock()
"""Held for the cache, and while OCR reads: a server answers several questions at once."""


@dataclass(frozen=True, slots=True)
class PageStrips:
    """Reads strips of the items of a collection."""

    items: ItemStore

    def read(self, item: Item, strips: Sequence[Strip], height: int) -> list[StripText | None]:
        """Read parts of the picture of an item; see `StripReader`."""
        size = item.size
        if size is None:
            return [None] * len(strips)
        keys = [(item.id, size, strip, height) for strip in strips]
        with _LOCK:
            known = {key: _READ[key] for key in keys if key in _READ}
        missing = {key: strip for key, strip in zip(keys, strips, strict=True) if key not in known}
        try:
            drawn = self._draw(item, size, list(missing.values()), height)
            for key, pixels in zip(missing, drawn, strict=True):
                if pixels is not None:
                    with _LOCK:
                        _READ[key] = known[key] = StripText(*read_strip(pixels))
        except (VragError, ValueError, OSError):  # the strips that were read count
            pass
        return [known.get(key) for key in keys]

    def _draw(self, item: Item, size: Size, strips: Sequence[Strip], height: int) -> list[_Pixels | None]:
        """Draw strips upright: together, or each by itself where there is much between them."""
        whole = View.whole(size, size)
        regions = [_region_of(whole, strip) for strip in strips]
        usable = [region for region in regions if min(region.width, region.height) >= MIN_SIDE]
        if not usable:
            return [None] * len(strips)
        scale = height / float(np.median([_line_height(whole, strip) for strip in strips]))
        around = _around(usable)
        used = sum(region.area for region in usable)
        is_small = (
            around.area * scale * scale <= MAX_PIXELS and max(around.width, around.height) * scale <= MAX_SIDE
        )
        draw = partial(self._draw_region, item, size)
        if len(usable) > 1 and is_small and used >= MIN_USED * around.area:
            picture = draw(around, scale)
            pieces = [_cut(picture, region, around) for region in regions]
        else:
            scales = [height / _line_height(whole, strip) for strip in strips]
            pieces = [
                draw(region, own) if min(region.width, region.height) >= MIN_SIDE else None
                for region, own in zip(regions, scales, strict=True)
            ]
        return [
            None if piece is None else np.ascontiguousarray(np.rot90(piece, strip.angle // 90 % 4))
            for piece, strip in zip(pieces, strips, strict=True)
        ]

    def _draw_region(self, item: Item, size: Size, region: Box, scale: float) -> _Pixels:
        """Draw a part of an item, enlarged or reduced by `scale`, within the limits."""
        most = min(math.sqrt(MAX_PIXELS / region.area), MAX_SIDE / max(region.width, region.height))
        scale = min(scale, most)
        shown = Size(max(round(region.width * scale), 1), max(round(region.height * scale), 1))
        view = View(size, region, shown)
        drawn = self.items.part(item.id, view) if scale > 1 else None
        return np.asarray(drawn if drawn is not None else draw_view(self.items.image(item.id), view))


def _line_height(whole: View, strip: Strip) -> float:
    """Return the height of the line of a strip, in pixels of the item."""
    box = whole.convert(strip.box, Space.ITEM)
    return max(box.width if strip.angle % 180 else box.height, 1.0)


def _region_of(whole: View, strip: Strip) -> Box:
    """Return a strip with its margin, in whole pixels of the item."""
    return whole.cut(strip.box, padding=MARGIN * _line_height(whole, strip))


def _around(regions: Sequence[Box]) -> Box:
    return Box(
        min(region.x1 for region in regions),
        min(region.y1 for region in regions),
        max(region.x2 for region in regions),
        max(region.y2 for region in regions),
        Space.ITEM,
    )


def _cut(picture: _Pixels, region: Box, around: Box) -> _Pixels | None:
    """Return the part of a drawing that shows a region; None for one without pixels."""
    x, y = picture.shape[1] / around.width, picture.shape[0] / around.height
    left, right = round((region.x1 - around.x1) * x), round((region.x2 - around.x1) * x)
    top, bottom = round((region.y1 - around.y1) * y), round((region.y2 - around.y1) * y)
    part = picture[top:bottom, left:right]
    return part if min(part.shape[:2]) > 0 else None
