"""The bytes of pictures: as they are stored, or drawn smaller."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from vrag.agent.environment import fault_of
from vrag.errors import CollectionError
from vrag.geometry import Box, Size, View, draw_view, smart_resize
from vrag.server.http.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image

    from vrag.search.searcher import Searcher
    from vrag.server.item_files import ItemDetails
    from vrag.types import Item

__all__ = ["DAMAGED", "ServedPicture", "crop_of", "picture_of"]

JPEG, PNG = "image/jpeg", "image/png"
DAMAGED = "Where the server runs: vrag index verify --repair"
_QUALITY = 90
_RULE = b"1"
"""Changes when the same picture would be drawn or written otherwise: part of every ETag."""


@dataclass(frozen=True, slots=True)
class ServedPicture:
    """A picture as it is sent."""

    etag: str
    media_type: str
    content: bytes | None
    """None when the client has it already."""


def picture_of(
    searcher: Searcher, id: str, filed: ItemDetails, max_pixels: int | None, known: str | None
) -> ServedPicture:
    """The picture of an item: the stored bytes, or drawn smaller in the same format.

    Args:
        searcher: What opens pictures.
        id: Of an item that has a picture.
        filed: Its stored file, if it has one here; else the picture goes as PNG, without loss.
        max_pixels: Pixels it may have; None for all it has.
        known: The client's If-None-Match.

    Raises:
        Refusal: If there is no picture (404), or none of so few pixels (422).
    """
    if filed.picture is None:
        image = searcher.image(id)
        shown = _resized(image, max_pixels)
        content = _png(shown)
        return _unless_known(_etag(content), PNG, known, lambda: content)
    try:
        with filed.picture.open() as file:
            return _of_file(file, searcher, id, max_pixels, known)
    except OSError as error:
        raise Refusal(404, f"The picture of {id} is missing.", DAMAGED) from error
    except CollectionError as error:
        raise Refusal(404, f"The picture of {id} cannot be opened.", DAMAGED) from error


def crop_of(
    searcher: Searcher, item: Item, box: Box, max_pixels: int | None, known: str | None
) -> ServedPicture:
    """A part of the picture of an item, cut as for an agent: JPEG, and never larger than it is stored.

    Args:
        searcher: What opens pictures.
        item: One that has a picture.
        box: In fractions of the item; what of it lies outside is left out.
        max_pixels: Pixels it may have; None for all there are.
        known: The client's If-None-Match.

    Raises:
        Refusal: If there is no picture (404), or nothing to see of it in the box (422).
    """
    assert item.size is not None
    region = View.whole(item.size, item.size).cut(box)
    if fault := fault_of(region):
        raise Refusal(422, fault, "A box is x1,y1,x2,y2 in fractions of the picture, 0 to 1.")
    size = Size(int(region.width), int(region.height))
    shown = size if max_pixels is None or size.area <= max_pixels else _smaller(size, max_pixels)
    sides = ",".join(f"{side:.0f}" for side in region.as_tuple())
    etag = _etag(f"crop {item.id} {item.size.width}x{item.size.height} {sides} {shown.width}".encode())

    def content() -> bytes:
        image = searcher.image(item.id)
        if image.size != item.size:
            raise CollectionError("The picture has another size than it should.", DAMAGED)
        return _jpeg(draw_view(image, View(item.size or size, region, shown)))

    try:
        return _unless_known(etag, JPEG, known, content)
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The picture of {item.id} cannot be opened.", DAMAGED) from error


def _of_file(
    file: BinaryIO, searcher: Searcher, id: str, max_pixels: int | None, known: str | None
) -> ServedPicture:
    """Ids are hashes of content: with the length of the file they tell one stored picture from another."""
    head = file.read(8)
    media_type = PNG if head.startswith(b"\x89PNG") else JPEG
    length = file.seek(0, os.SEEK_END)
    etag = _etag(f"{id} {length} {max_pixels}".encode())

    def content() -> bytes:
        shown = searcher.image(id) if max_pixels is not None else None
        if shown is not None and shown.width * shown.height > (max_pixels or 0):
            small = _resized(shown, max_pixels)
            return _png(small) if media_type == PNG else _jpeg(small)
        file.seek(0)
        return file.read()

    return _unless_known(etag, media_type, known, content)


def _unless_known(
    etag: str, media_type: str, known: str | None, content: Callable[[], bytes]
) -> ServedPicture:
    tags = {tag.strip().removeprefix("W/") for tag in (known or "").split(",")}
    return ServedPicture(etag, media_type, None if tags & {etag, "*"} else content())


def _resized(image: Image, max_pixels: int | None) -> Image:
    """The picture with `max_pixels` at most, in its proportions."""
    size = Size(*image.size)
    if max_pixels is None or size.area <= max_pixels:
        return image
    return draw_view(image, View.whole(size, _smaller(size, max_pixels)))


def _smaller(size: Size, max_pixels: int) -> Size:
    """The size with `max_pixels` at most, in the same proportions."""
    try:
        return smart_resize(size, factor=1, min_pixels=1, max_pixels=max_pixels)
    except ValueError as error:
        raise Refusal(
            422, f"The picture cannot be made smaller: {error}.", "Leave out max_pixels."
        ) from error


def _png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _jpeg(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_QUALITY, subsampling=0)
    return buffer.getvalue()


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(_RULE + content).hexdigest()[:32]}"'
