"""The bytes of pictures: as they are stored, cropped, or scaled down."""

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

JPEG, PNG = "image/jpeg", "image/png"
DAMAGED = "Where the server runs: vrag index verify --repair"
_JPEG_QUALITY = 90
_ENCODING_VERSION = b"1"
"""Changes when the same picture would be drawn or written otherwise: part of every ETag."""


@dataclass(frozen=True, slots=True)
class ServedPicture:
    """A picture as it is sent."""

    etag: str
    media_type: str
    content: bytes | None
    """None when the client has it already."""


def stored_picture(
    searcher: Searcher, id: str, details: ItemDetails, max_pixels: int | None, if_none_match: str | None
) -> ServedPicture:
    """Return the picture of an item: the stored bytes, or scaled down to `max_pixels` in the same format.

    Without a stored file here it goes as PNG, without loss.

    Raises:
        Refusal: If there is no picture (404), or it cannot be made so small (422).
    """
    if details.picture is None:
        content = _encode(_scale(searcher.image(id), max_pixels), PNG)
        return _unless_known(_etag(content), PNG, if_none_match, lambda: content)
    try:
        with details.picture.open() as file:
            return _file_picture(file, searcher, id, max_pixels, if_none_match)
    except OSError as error:
        raise Refusal(404, f"The picture of {id} is missing.", DAMAGED) from error
    except CollectionError as error:
        raise Refusal(404, f"The picture of {id} cannot be opened.", DAMAGED) from error


def cropped_picture(
    searcher: Searcher, item: Item, box: Box, max_pixels: int | None, if_none_match: str | None
) -> ServedPicture:
    """Return a part of an item's picture, cut as for an agent: JPEG, and never larger than it is stored.

    Args:
        searcher: Opens pictures.
        item: An item that has a picture.
        box: In fractions of the item; what of it lies outside is left out.
        max_pixels: Maximum number of pixels; None for all there are.
        if_none_match: The client's header.

    Raises:
        Refusal: If there is no picture (404), or the box holds nothing of it (422).
    """
    assert item.size is not None
    region = View.whole(item.size, item.size).cut(box)
    if fault := fault_of(region):
        raise Refusal(422, fault, "A box is x1,y1,x2,y2 in fractions of the picture, 0 to 1.")
    size = Size(int(region.width), int(region.height))
    shown = size if max_pixels is None or size.area <= max_pixels else _scaled_size(size, max_pixels)
    sides = ",".join(f"{side:.0f}" for side in region.as_tuple())
    etag = _etag(f"crop {item.id} {item.size.width}x{item.size.height} {sides} {shown.width}".encode())

    def content() -> bytes:
        image = searcher.image(item.id)
        if image.size != item.size:
            raise CollectionError("The picture does not have the size that its item has.", DAMAGED)
        return _encode(draw_view(image, View(item.size or size, region, shown)), JPEG)

    try:
        return _unless_known(etag, JPEG, if_none_match, content)
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The picture of {item.id} cannot be opened.", DAMAGED) from error


def _file_picture(
    file: BinaryIO, searcher: Searcher, id: str, max_pixels: int | None, if_none_match: str | None
) -> ServedPicture:
    """Return a stored picture. Ids are hashes of content: with the length of the file they identify it."""
    media_type = PNG if file.read(8).startswith(b"\x89PNG") else JPEG
    length = file.seek(0, os.SEEK_END)

    def content() -> bytes:
        image = searcher.image(id) if max_pixels is not None else None
        if image is not None and image.width * image.height > (max_pixels or 0):
            return _encode(_scale(image, max_pixels), media_type)
        file.seek(0)
        return file.read()

    etag = _etag(f"{id} {length} {max_pixels}".encode())
    return _unless_known(etag, media_type, if_none_match, content)


def _unless_known(
    etag: str, media_type: str, if_none_match: str | None, content: Callable[[], bytes]
) -> ServedPicture:
    tags = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
    return ServedPicture(etag, media_type, None if tags & {etag, "*"} else content())


def _scale(image: Image, max_pixels: int | None) -> Image:
    size = Size(*image.size)
    if max_pixels is None or size.area <= max_pixels:
        return image
    return draw_view(image, View.whole(size, _scaled_size(size, max_pixels)))


def _scaled_size(size: Size, max_pixels: int) -> Size:
    try:
        return smart_resize(size, factor=1, min_pixels=1, max_pixels=max_pixels)
    except ValueError as error:
        message = f"The picture cannot be made smaller: {error}."
        raise Refusal(422, message, "Leave out max_pixels.") from error


def _encode(image: Image, media_type: str) -> bytes:
    buffer = io.BytesIO()
    if media_type == PNG:
        image.save(buffer, "PNG", compress_level=1)
    else:
        image.save(buffer, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(_ENCODING_VERSION + content).hexdigest()[:32]}"'
