"""The routes of items: their details, pictures, parts of pictures, and clips."""

from __future__ import annotations

import math
import mimetypes
import os
import re
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box
from vrag.search.schema import ID_PATTERN, ItemInfo
from vrag.server.http.background import wait_for_client
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.pictures import DAMAGED, cropped_picture, stored_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from vrag.search.searcher import Searcher
    from vrag.server.http.background import ItemThreadPool
    from vrag.server.item_files import ItemDetails, ItemFiles
    from vrag.server.options import ServerOptions
    from vrag.server.pictures import ServedPicture
    from vrag.types import Item

T = TypeVar("T")
ItemId = Annotated[str, Path(pattern=ID_PATTERN, description="Id of an item, from a search.")]
MaxPixels = Annotated[
    int | None,
    Query(ge=1, le=1_000_000_000, description="Maximum number of pixels; all if absent."),
]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]
_NO_ITEM = "Search again: a document that was changed or deleted takes its items with it."
_CACHE = "private, max-age=86400"
"""Ids are hashes of content: what a client has stays right."""
_UNCHANGED = {"description": "The client has it already."}
_PICTURE: Responses = {
    200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."},
    304: _UNCHANGED,
}
_CROP: Responses = {200: {"content": {"image/jpeg": {}}, "description": "The part."}, 304: _UNCHANGED}
_CLIP_CONTENT: dict[str, object] = {"video/*": {}, "application/octet-stream": {}}
_CLIP: Responses = {
    200: {"content": _CLIP_CONTENT, "description": "The clip."},
    206: {"content": _CLIP_CONTENT, "description": "The requested part."},
}
_VIDEO_TYPES = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/x-matroska"})
_CHUNK_BYTES = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def item_routes(
    searcher: Searcher, files: ItemFiles, item_threads: ItemThreadPool, options: ServerOptions
) -> APIRouter:
    """Build `/items/{id}`, its picture, parts of the picture, and its clip."""
    router = APIRouter(tags=["items"])
    refused = responses(404, 408, 413, 502, 503, 504)

    async def run_in_pool(request: Request, work: Callable[[], T]) -> T:
        return await wait_for_client(request, item_threads.run(work), options.item_seconds)

    @router.get("/items/{id}", summary="An item", response_model_exclude_none=True, responses=refused)
    async def item(
        request: Request,
        id: ItemId,
        words: Annotated[bool, Query(description="Whether to list its words with their boxes.")] = False,
    ) -> ItemInfo:
        """All that is known of an item besides its picture."""
        return await run_in_pool(request, lambda: ItemInfo.of(_find_item(searcher, id), words=words))

    @router.get(
        "/items/{id}/image",
        summary="The picture of an item",
        response_class=Response,
        responses=_PICTURE | refused,
    )
    async def image(
        request: Request, id: ItemId, max_pixels: MaxPixels = None, if_none_match: IfNoneMatch = None
    ) -> Response:
        """As it is stored, or scaled down: JPEG or PNG. Passages have none."""

        def work() -> ServedPicture:
            details = _find_details(files, id)
            if details.picture is None:
                _check_has_picture(_find_item(searcher, id))
            return stored_picture(searcher, id, details, max_pixels, if_none_match)

        return _picture_response(await run_in_pool(request, work))

    @router.get(
        "/items/{id}/crop",
        summary="A part of the picture of an item",
        response_class=Response,
        responses=_CROP | refused,
    )
    async def crop(
        request: Request,
        id: ItemId,
        box: Annotated[
            str,
            Query(max_length=200, description="x1,y1,x2,y2 in fractions of the picture, 0 to 1; half-open."),
        ],
        max_pixels: MaxPixels = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """As it is stored, rounded outwards to whole pixels: what an agent is given for this box."""
        region = _parse_box(box)

        def work() -> ServedPicture:
            found = _find_item(searcher, id)
            _check_has_picture(found)
            return cropped_picture(searcher, found, region, max_pixels, if_none_match)

        return _picture_response(await run_in_pool(request, work))

    @router.get(
        "/items/{id}/clip",
        summary="The video clip of an item",
        response_class=Response,
        responses=_CLIP | refused | responses(416),
    )
    async def clip(
        request: Request, id: ItemId, range: Annotated[str | None, Header(max_length=1000)] = None
    ) -> Response:
        """The whole clip, or the requested range: players seek by ranges."""
        return await run_in_pool(request, lambda: _clip_response(files, id, range))

    return router


def _find_item(searcher: Searcher, id: str) -> Item:
    try:
        return searcher.item(id)
    except SearchError as error:
        raise Refusal(404, f"There is no item {id}.", _NO_ITEM) from error


def _find_details(files: ItemFiles, id: str) -> ItemDetails:
    details = files.details([id]).get(id)
    if details is None:
        raise Refusal(404, f"There is no item {id}.", _NO_ITEM)
    return details


def _check_has_picture(item: Item) -> None:
    if item.size is None:
        raise Refusal(404, f"The item {item.id} has no picture: it is text.", f"Its text: /items/{item.id}")


def _picture_response(picture: ServedPicture) -> Response:
    headers = {"ETag": picture.etag, "Cache-Control": _CACHE}
    if picture.content is None:
        return Response(status_code=304, headers=headers)
    return Response(picture.content, headers=headers, media_type=picture.media_type)


def _parse_box(text: str) -> Box:
    try:
        x1, y1, x2, y2 = (float(side) for side in text.split(","))
    except ValueError:
        x1 = y1 = x2 = y2 = math.nan
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        hint = "Send box=x1,y1,x2,y2, such as box=0.1,0.2,0.5,0.6"
        raise Refusal(422, "The box is not four numbers.", hint)
    return Box.unit(x1, y1, x2, y2)


def _clip_response(files: ItemFiles, id: str, range_: str | None) -> Response:
    details = _find_details(files, id)
    if details.clip is None:
        raise Refusal(404, f"The item {id} has no clip here.", f"Its details: /items/{id}")
    media_type = mimetypes.guess_type(details.clip.name)[0] or ""
    try:
        file = details.clip.open()
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The clip of {id} cannot be opened.", DAMAGED) from error
    media_type = media_type if media_type in _VIDEO_TYPES else "application/octet-stream"
    return _file_response(file, media_type, {"Cache-Control": _CACHE}, range_)


def _file_response(
    file: BinaryIO, media_type: str, headers: Mapping[str, str], range_: str | None
) -> StreamingResponse:
    """Send a file or the part that a Range header asks for (RFC 9110, section 14); close the file.

    Raises:
        Refusal: If no byte of the file is in the range (416).
    """
    length = file.seek(0, os.SEEK_END)
    try:
        part = parse_range(range_, length)
    except Refusal:
        file.close()
        raise
    start, end = part or (0, length)
    file.seek(start)

    def chunks(left: int) -> Generator[bytes]:
        with file:
            while left > 0 and (chunk := file.read(min(_CHUNK_BYTES, left))):
                left -= len(chunk)
                yield chunk

    headers = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{length}"
    return StreamingResponse(chunks(end - start), 206 if part else 200, headers, media_type)


def parse_range(header: str | None, length: int) -> tuple[int, int] | None:
    """Return start and end of the requested part of a file of `length` bytes; None for the whole file.

    A header that is malformed, or has several ranges, requests the whole: a server may ignore it.

    Raises:
        Refusal: If no byte of the file is in the range (416).

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
