"""The routes of items: details, pictures (stored, cropped, scaled down, drawn from files), and clips."""

from __future__ import annotations

import hashlib
import io
import math
import mimetypes
import os
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Header, Path, Query, Request
from PIL.Image import Image
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from vrag.agent.environment import fault_of
from vrag.errors import REPAIR_COMMAND, CollectionError, SearchError
from vrag.geometry import MAX_ASPECT, Box, Size, View, draw_view, smart_resize
from vrag.search.schema import ID_PATTERN, ItemInfo
from vrag.search.searcher import Searcher
from vrag.server.http.background import ItemThreadPool
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.item_files import ItemDetails, ItemFiles
from vrag.types import Item

ItemId = Annotated[str, Path(pattern=ID_PATTERN, description="Id of an item, from a search.")]
MaxPixels = Annotated[
    int | None, Query(ge=1, le=1_000_000_000, description="Maximum number of pixels; all if absent.")
]
CropBox = Annotated[
    str, Query(max_length=200, description="x1,y1,x2,y2 in fractions of the picture, 0 to 1; half-open.")
]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]
_NO_ITEM = "Search again: its document may have been changed or deleted."
CACHE = "private, max-age=86400"
"""Ids are hashes of content: what a client has stays right."""
UNCHANGED = {"description": "The client has it already."}
_PICTURE: Responses = {
    200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."},
    304: UNCHANGED,
}
_CROP: Responses = {200: {"content": {"image/jpeg": {}}, "description": "The part."}, 304: UNCHANGED}
_PART: Responses = {200: {"content": {"image/png": {}}, "description": "The part."}, 304: UNCHANGED}
_CLIP_CONTENT: dict[str, object] = {"video/*": {}, "application/octet-stream": {}}
_CLIP: Responses = {
    200: {"content": _CLIP_CONTENT, "description": "The clip."},
    206: {"content": _CLIP_CONTENT, "description": "The requested part."},
}
_VIDEO_TYPES = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/x-matroska"})
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
JPEG, PNG = "image/jpeg", "image/png"
_DAMAGED = f"The administrator of this server can repair the collection: {REPAIR_COMMAND}"
MAX_PART_PIXELS = 8_000_000
"""Pixels of a part that is drawn from a file: twice those of a large screen."""
_ENCODING_VERSION = b"1"
"""Changes when the same picture would be drawn or written otherwise: part of every ETag."""


def item_routes(searcher: Searcher, files: ItemFiles, item_threads: ItemThreadPool) -> APIRouter:
    """Build `/items/{id}`, its picture, parts of the picture, and its clip."""
    router = APIRouter(tags=["items"])
    refused = responses(404, 502, 503, 504)

    @router.get("/items/{id}", summary="An item", response_model_exclude_none=True, responses=refused)
    async def item(
        request: Request,
        id: ItemId,
        words: Annotated[bool, Query(description="Whether to list its words with their boxes.")] = False,
    ) -> ItemInfo:
        """Everything known about an item, except its picture."""
        return await item_threads.run_for(request, lambda: ItemInfo.of(find_item(searcher, id), words=words))

    @router.get(
        "/items/{id}/image",
        summary="The picture of an item",
        response_class=Response,
        responses=_PICTURE | refused,
    )
    async def image(
        request: Request, id: ItemId, max_pixels: MaxPixels = None, if_none_match: IfNoneMatch = None
    ) -> Response:
        """The stored picture, or a scaled-down one: JPEG or PNG. Passages have no picture."""

        def work() -> ServedPicture:
            details = _find_details(files, id)
            if details.picture is None:
                _check_has_picture(find_item(searcher, id))
            return _stored_picture(searcher, id, details, max_pixels, if_none_match)

        return _picture_response(await item_threads.run_for(request, work))

    @router.get(
        "/items/{id}/crop",
        summary="A part of the picture of an item",
        response_class=Response,
        responses=_CROP | refused,
    )
    async def crop(
        request: Request,
        id: ItemId,
        box: CropBox,
        max_pixels: MaxPixels = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """The part inside the box, rounded outwards to whole pixels. An agent gets the same picture."""
        region = _parse_box(box)

        def work() -> ServedPicture:
            found = find_item(searcher, id)
            _check_has_picture(found)
            return cropped_picture(searcher, found, region, max_pixels, if_none_match)

        return _picture_response(await item_threads.run_for(request, work))

    @router.get(
        "/items/{id}/part",
        summary="A part of a page, drawn from its file",
        response_class=Response,
        responses=_PART | refused,
    )
    async def part(
        request: Request,
        id: ItemId,
        box: CropBox,
        size: Annotated[
            str,
            Query(pattern=r"^\d{1,5}x\d{1,5}$", description="WIDTHxHEIGHT of the picture, in pixels."),
        ],
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """The part inside the box in any size, with the detail that the source file has: PNG.

        Refused (404) where the file is gone or no longer the one that was indexed, or is no PDF file: `crop`
        has the stored picture.
        """
        region = _parse_box(box)
        width, height = map(int, size.split("x"))

        def work() -> ServedPicture:
            found = find_item(searcher, id)
            _check_has_picture(found)
            return drawn_part(searcher, found, region, Size(width, height), if_none_match)

        return _picture_response(await item_threads.run_for(request, work))

    @router.get(
        "/items/{id}/clip",
        summary="The video clip of an item",
        response_class=Response,
        responses=_CLIP | refused | responses(416),
    )
    async def clip(
        request: Request, id: ItemId, range: Annotated[str | None, Header(max_length=1000)] = None
    ) -> Response:
        """The whole clip, or the requested range. Video players seek by range requests."""
        return await item_threads.run_for(request, lambda: _clip_response(files, id, range))

    return router


def find_item(searcher: Searcher, id: str) -> Item:
    """Return an item. Raises `Refusal` if there is none of this id (404)."""
    try:
        return searcher.item(id)
    except SearchError as error:
        raise Refusal(404, f"There is no page or passage {id}.", _NO_ITEM) from error


def _find_details(files: ItemFiles, id: str) -> ItemDetails:
    details = files.details([id]).get(id)
    if details is None:
        raise Refusal(404, f"There is no page or passage {id}.", _NO_ITEM)
    return details


def _check_has_picture(item: Item) -> None:
    if item.size is None:
        raise Refusal(404, "A passage of text has no picture.", "Show its text instead.")


def _parse_box(text: str) -> Box:
    try:
        x1, y1, x2, y2 = (float(side) for side in text.split(","))
    except ValueError:
        x1 = y1 = x2 = y2 = math.nan
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        hint = "Send box=x1,y1,x2,y2, such as box=0.1,0.2,0.5,0.6"
        raise Refusal(422, "The box is not four numbers.", hint)
    return Box.unit(x1, y1, x2, y2)


def _picture_response(picture: ServedPicture) -> Response:
    headers = {"ETag": picture.etag, "Cache-Control": CACHE}
    if picture.content is None:
        return Response(status_code=304, headers=headers)
    return Response(picture.content, headers=headers, media_type=picture.media_type)


def _clip_response(files: ItemFiles, id: str, range_: str | None) -> Response:
    """Send a clip or the part that a Range header asks for (RFC 9110, section 14).

    Raises `Refusal` if there is no clip (404), or no byte of it is in the range (416).
    """
    details = _find_details(files, id)
    if details.clip is None:
        raise Refusal(404, f"There is no clip of {id} here.", "Only parts of videos have one.")
    media_type = mimetypes.guess_type(details.clip.name)[0]
    media_type = media_type if media_type in _VIDEO_TYPES else "application/octet-stream"
    try:
        file = details.clip.open()
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The clip of {id} cannot be opened.", _DAMAGED) from error
    return file_response(file, range_, {"Cache-Control": CACHE}, media_type)


def file_response(file: BinaryIO, range_: str | None, headers: dict[str, str], media_type: str) -> Response:
    """Send an open file, or the part of it that a Range header asks for, and close it.

    Raises `Refusal` if no byte of it is in the range (416).
    """
    length = file.seek(0, os.SEEK_END)
    try:
        part = parse_range(range_, length)
    except Refusal:
        file.close()
        raise
    start, end = part or (0, length)
    file.seek(start)

    headers = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{length}"
    return _OpenFileResponse(file, end - start, 206 if part else 200, headers, media_type)


class _OpenFileResponse(StreamingResponse):
    """A response with the next bytes of an open file. Closes it, also for a client that leaves early."""

    def __init__(
        self, file: BinaryIO, length: int, status_code: int, headers: dict[str, str], media_type: str
    ) -> None:
        super().__init__(_read_chunks(file, length), status_code, headers, media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes."""
        with self._file:
            await super().__call__(scope, receive, send)


def _read_chunks(file: BinaryIO, length: int) -> Generator[bytes]:
    while length > 0 and (chunk := file.read(min(256 * 1024, length))):
        length -= len(chunk)
        yield chunk


def parse_range(header: str | None, length: int) -> tuple[int, int] | None:
    """Return start and end of the requested part of a file of `length` bytes; None for the whole file.

    A header that is malformed, or has several ranges, requests the whole: a server may ignore it. Raises
    `Refusal` if no byte of the file is in the range (416).

    >>> parse_range("bytes=2-3", 10), parse_range("bytes=7-", 10), parse_range("bytes=-4", 10)
    ((2, 4), (7, 10), (6, 10))
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else length, length)
        if last and int(last) < int(first):
            return None
    else:
        start, end = max(0, length - int(last)), length
    if start >= end:
        raise Refusal(416, f"The file has {length} bytes.", "Leave out the header Range.")
    return start, end


@dataclass(frozen=True, slots=True)
class ServedPicture:
    """A picture as it is sent."""

    etag: str
    media_type: str
    content: bytes | None
    """None when the client has it already."""


def _stored_picture(
    searcher: Searcher, id: str, details: ItemDetails, max_pixels: int | None, if_none_match: str | None
) -> ServedPicture:
    """Return the picture of an item: the stored bytes, or scaled down to `max_pixels` in the same format.

    Without a stored file here it goes as PNG, without loss. Ids are hashes of content: with the length of
    the file they identify it.

    Raises `Refusal` if there is no picture (404), or it cannot be made so small (422).
    """
    if details.picture is None:
        content = _encode(_scale(searcher.image(id), max_pixels), PNG)
        return _unless_known(etag_of(content), PNG, if_none_match, lambda: content)
    try:
        with details.picture.open() as file:
            media_type = PNG if file.read(8).startswith(b"\x89PNG") else JPEG
            length = file.seek(0, os.SEEK_END)

            def read() -> bytes:
                image = searcher.image(id) if max_pixels is not None else None
                if image is not None and image.width * image.height > (max_pixels or 0):
                    return _encode(_scale(image, max_pixels), media_type)
                file.seek(0)
                return file.read()

            etag = etag_of(f"{id} {length} {max_pixels}".encode())
            return _unless_known(etag, media_type, if_none_match, read)
    except OSError as error:
        raise Refusal(404, f"The picture of {id} is missing.", _DAMAGED) from error
    except CollectionError as error:
        raise Refusal(404, f"The picture of {id} cannot be opened.", _DAMAGED) from error


def cropped_picture(
    searcher: Searcher, item: Item, box: Box, max_pixels: int | None, if_none_match: str | None = None
) -> ServedPicture:
    """Return a part of an item's picture, cut as for an agent: JPEG, and never larger than it is stored.

    `box` is in fractions of the item; its part outside of the item is left out.

    Raises `Refusal` if there is no picture (404), or the box holds nothing of it (422).
    """
    region = _region(item, box)
    size = Size(int(region.width), int(region.height))
    shown = size if max_pixels is None or size.area <= max_pixels else _scaled_size(size, max_pixels)
    sides = ",".join(f"{side:.0f}" for side in region.as_tuple())
    full = item.size or size
    etag = etag_of(f"crop {item.id} {full.width}x{full.height} {sides} {shown.width}".encode())

    def draw() -> bytes:
        image = searcher.image(item.id)
        if image.size != full:
            raise CollectionError("The picture does not have the size that its item has.", _DAMAGED)
        return _encode(draw_view(image, View(full, region, shown)), JPEG)

    try:
        return _unless_known(etag, JPEG, if_none_match, draw)
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The picture of {item.id} cannot be opened.", _DAMAGED) from error


def drawn_part(
    searcher: Searcher, item: Item, box: Box, size: Size, if_none_match: str | None = None
) -> ServedPicture:
    """Return a part of a page drawn from its source file in this size, as an agent gets it: PNG.

    Raises `Refusal` if there is no such file any more (404), the box holds nothing of the page, or the size
    is none of a picture (422).
    """
    region = _region(item, box)
    if not (min(size) > 0 and size.area <= MAX_PART_PIXELS and max(size) <= MAX_ASPECT * min(size)):
        raise Refusal(
            422, f"A part cannot be {size.width}x{size.height} pixels.", f"Up to {MAX_PART_PIXELS:,} pixels."
        )
    sides = ",".join(f"{side:.0f}" for side in region.as_tuple())
    etag = etag_of(f"part {item.id} {item.size} {sides} {size}".encode())

    def draw() -> bytes:
        drawn = searcher.part(item.id, View(item.size or size, region, size))
        if drawn is None:
            raise Refusal(404, f"{item.id} cannot be drawn from its file.", "Show the page as it is stored.")
        return _encode(drawn, PNG)

    return _unless_known(etag, PNG, if_none_match, draw)


def _region(item: Item, box: Box) -> Box:
    """Return the part of an item that a box in fractions names; raise `Refusal` if nothing is in it (422)."""
    assert item.size is not None
    region = View.whole(item.size, item.size).cut(box)
    if fault := fault_of(region):
        raise Refusal(422, fault, "A box is x1,y1,x2,y2 in fractions of the picture, 0 to 1.")
    return region


def _unless_known(
    etag: str, media_type: str, if_none_match: str | None, content: Callable[[], bytes]
) -> ServedPicture:
    return ServedPicture(etag, media_type, None if is_known(etag, if_none_match) else content())


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Return whether a client that sent this header has the content of an ETag already."""
    return bool({tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")} & {etag, "*"})


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
        image.save(buffer, "JPEG", quality=90, subsampling=0)
    return buffer.getvalue()


def etag_of(content: bytes) -> str:
    """Return the ETag of content, or of what determines it."""
    return f'"{hashlib.sha256(_ENCODING_VERSION + content).hexdigest()[:32]}"'
