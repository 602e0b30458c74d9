"""The routes that show items: what is known of them, their pictures, their clips."""

from __future__ import annotations

import math
import mimetypes
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box
from vrag.search.schema import ID_PATTERN, ItemInfo
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.http.ranges import send_file
from vrag.server.http.timeouts import attend
from vrag.server.pictures import DAMAGED, ServedPicture, crop_of, picture_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.search.searcher import Searcher
    from vrag.server.http.timeouts import ItemThreadPool
    from vrag.server.item_files import ItemDetails, ItemFiles
    from vrag.server.options import ServerOptions
    from vrag.types import Item

__all__ = ["item_routes"]

T = TypeVar("T")
ItemId = Annotated[str, Path(pattern=ID_PATTERN, description="Id of an item, from a search.")]
MaxPixels = Annotated[
    int | None,
    Query(ge=1, le=1_000_000_000, description="Pixels it may have at most; all when absent."),
]
_NO_ITEM = "Search again: a document that was changed or deleted takes its items with it."
_CACHE = "private, max-age=86400"
"""Ids are hashes of content: what a client has stays right."""
_PICTURE: Responses = {
    200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."},
    304: {"description": "The client has it already."},
}
_CROP: Responses = {
    200: {"content": {"image/jpeg": {}}, "description": "The part."},
    304: {"description": "The client has it already."},
}
_FILM: Responses = {
    200: {"content": {"video/*": {}, "application/octet-stream": {}}, "description": "The clip."},
    206: {"content": {"video/*": {}, "application/octet-stream": {}}, "description": "The part asked for."},
}
_VIDEO = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/x-matroska"})


def item_routes(
    searcher: Searcher, files: ItemFiles, item_threads: ItemThreadPool, options: ServerOptions
) -> APIRouter:
    """`/items/{id}`, its picture, parts of that, and its clip."""
    router = APIRouter(tags=["items"])
    refused = responses(404, 408, 413, 502, 503, 504)

    async def run_in_pool(request: Request, work: Callable[[], T]) -> T:
        return await attend(request, item_threads.run(work), options.item_seconds)

    @router.get("/items/{id}", summary="An item", response_model_exclude_none=True, responses=refused)
    async def item(
        request: Request,
        id: ItemId,
        words: Annotated[bool, Query(description="Whether to list its words with their boxes.")] = False,
    ) -> ItemInfo:
        """All that is known of an item besides its picture."""
        return await run_in_pool(request, lambda: ItemInfo.of(_item(searcher, id), words=words))

    @router.get(
        "/items/{id}/image",
        summary="The picture of an item",
        response_class=Response,
        responses=_PICTURE | refused,
    )
    async def image(
        request: Request,
        id: ItemId,
        max_pixels: MaxPixels = None,
        if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
    ) -> Response:
        """As it is stored, or drawn smaller: JPEG or PNG. Passages have none."""
        picture = await run_in_pool(request, lambda: _picture(searcher, files, id, max_pixels, if_none_match))
        return _sent(picture)

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
        if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
    ) -> Response:
        """As it is stored, rounded outwards to whole pixels: what an agent is given for this box."""
        sides = _box(box)
        part = await run_in_pool(request, lambda: _crop(searcher, id, sides, max_pixels, if_none_match))
        return _sent(part)

    @router.get(
        "/items/{id}/clip",
        summary="The stretch of video that an item is",
        response_class=Response,
        responses=_FILM | refused | responses(416),
    )
    async def clip(
        request: Request,
        id: ItemId,
        range: Annotated[str | None, Header(max_length=1000)] = None,
    ) -> Response:
        """Whole, or the range asked for: players seek by ranges."""
        return await run_in_pool(request, lambda: _clip(files, id, range))

    return router


def _sent(picture: ServedPicture) -> Response:
    headers = {"ETag": picture.etag, "Cache-Control": _CACHE}
    if picture.content is None:
        return Response(status_code=304, headers=headers)
    return Response(picture.content, headers=headers, media_type=picture.media_type)


def _box(sides: str) -> Box:
    """The box that a client names."""
    try:
        x1, y1, x2, y2 = (float(side) for side in sides.split(","))
    except ValueError:
        x1 = y1 = x2 = y2 = math.nan
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        raise Refusal(
            422, "The box is not four numbers.", "Send box=x1,y1,x2,y2, such as box=0.1,0.2,0.5,0.6"
        )
    return Box.unit(x1, y1, x2, y2)


def _crop(searcher: Searcher, id: str, box: Box, max_pixels: int | None, known: str | None) -> ServedPicture:
    item = _item(searcher, id)
    if item.size is None:
        raise Refusal(404, f"The item {id} has no picture: it is text.", f"Its text: /items/{id}")
    return crop_of(searcher, item, box, max_pixels, known)


def _item(searcher: Searcher, id: str) -> Item:
    try:
        return searcher.item(id)
    except SearchError as error:
        raise Refusal(404, f"There is no item {id}.", _NO_ITEM) from error


def _filed(files: ItemFiles, id: str) -> ItemDetails:
    filed = files.filed([id]).get(id)
    if filed is None:
        raise Refusal(404, f"There is no item {id}.", _NO_ITEM)
    return filed


def _picture(
    searcher: Searcher, files: ItemFiles, id: str, max_pixels: int | None, known: str | None
) -> ServedPicture:
    filed = _filed(files, id)
    if filed.picture is None and _item(searcher, id).size is None:
        raise Refusal(404, f"The item {id} has no picture: it is text.", f"Its text: /items/{id}")
    return picture_of(searcher, id, filed, max_pixels, known)


def _clip(files: ItemFiles, id: str, range_: str | None) -> Response:
    filed = _filed(files, id)
    if filed.clip is None:
        raise Refusal(404, f"The item {id} has no clip here.", f"What there is of it: /items/{id}")
    media_type = mimetypes.guess_type(filed.clip.name)[0] or ""
    try:
        file = filed.clip.open()
    except (OSError, CollectionError) as error:
        raise Refusal(404, f"The clip of {id} cannot be opened.", DAMAGED) from error
    headers = {"Cache-Control": _CACHE}
    return send_file(
        file, media_type if media_type in _VIDEO else "application/octet-stream", headers, range_
    )
