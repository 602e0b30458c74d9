"""The routes that manage collections and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response as Plain

from vrag.errors import CollectionBusy
from vrag.search.schema import ProblemDetails
from vrag.server.collections.schema import (
    DOCUMENT_PATTERN,
    JOB_PATTERN,
    CollectionInfo,
    Collections,
    DocumentPages,
    Documents,
    Jobs,
    NewCollection,
    UploadJobInfo,
)
from vrag.server.http.errors import Refusal, responses
from vrag.server.http.timeouts import attend

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.server.collections.service import CollectionService
    from vrag.server.http.errors import Responses
    from vrag.server.http.timeouts import ItemThreadPool
    from vrag.server.options import ServerOptions

__all__ = ["library_routes"]

T = TypeVar("T")
_MEANINGS = {
    409: "Not here, or not now: the message says why.",
    415: "Files of this kind are not read, or it is not of the kind that its name says.",
    507: "There is no room for it.",
}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "The file itself, as it is.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class _Anything(Convertor[str]):
    """The rest of an address, whatever it holds: slashes, and line breaks, which `path` stops at."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())
CollectionName = Annotated[str, Path(min_length=1, max_length=200, description="Name of a collection.")]
DocumentId = Annotated[str, Path(pattern=DOCUMENT_PATTERN, description="Id of a document.")]
FileName = Annotated[str, Path(min_length=1, max_length=4096, description="Name of the file.")]


def library_routes(
    library: CollectionService, item_threads: ItemThreadPool, options: ServerOptions
) -> APIRouter:
    """`/collections`, their documents and jobs, and `/documents/{id}`.

    Args:
        library: What manages them.
        item_threads: Where reading waits.
        options: Time limits.
    """
    router = APIRouter(tags=["collections"])
    _add_collections(router, library, _reading(item_threads, options))
    _add_documents(router, library, _reading(item_threads, options), options)
    _add_uploads(router, library)
    return router


class _reading:  # noqa: N801 - called like a function
    """Reads at a desk, for a request."""

    def __init__(self, item_threads: ItemThreadPool, options: ServerOptions) -> None:
        self._item_threads = item_threads
        self._seconds = options.item_seconds

    async def __call__(self, request: Request, work: Callable[[], T]) -> T:
        return await attend(request, self._item_threads.run(work), self._seconds)


def _add_collections(router: APIRouter, library: CollectionService, read: _reading) -> None:
    @router.get("/collections", summary="The collections", responses=_refused(408, 413, 503, 504))
    async def collections(request: Request) -> Collections:
        """Those that the server has open; the first one is the one that runs are recorded with."""
        return await read(request, library.collections)

    @router.post(
        "/collections",
        status_code=201,
        summary="Make a collection",
        responses=_refused(408, 409, 413, 503),
    )
    async def create(asked: NewCollection) -> CollectionInfo:
        """Empty, and read and searched in the same way as the first one."""
        return await library.create(asked.name)

    @router.delete(
        "/collections/{name}",
        status_code=204,
        summary="Delete a collection",
        response_class=Plain,
        responses=_refused(404, 408, 409, 413, 503),
    )
    async def drop(name: CollectionName) -> Plain:
        """With all that was uploaded to it. Only those that were made here."""
        await library.drop(name)
        return Plain(status_code=204)


def _add_documents(
    router: APIRouter, library: CollectionService, read: _reading, options: ServerOptions
) -> None:
    @router.get(
        "/collections/{name}/documents",
        summary="The documents of a collection",
        responses=_refused(404, 408, 409, 413, 503, 504),
    )
    async def documents(
        request: Request,
        name: CollectionName,
        offset: Annotated[int, Query(ge=0, le=2**31, description="How many to pass over.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="How many to list at most.")] = 10_000,
    ) -> Documents:
        """By name, with what could not be read and why."""
        return await read(request, lambda: library.documents(name, offset, limit))

    @router.get(
        "/documents/{id}",
        summary="A document with its items",
        response_model_exclude_none=True,
        responses=_refused(404, 408, 409, 413, 503, 504),
    )
    async def document(request: Request, id: DocumentId) -> DocumentPages:
        """In the order of its pages."""
        return await read(request, lambda: library.document(id))

    @router.delete(
        "/collections/{name}/documents/{id}",
        status_code=204,
        summary="Remove a document",
        response_class=Plain,
        responses=_refused(404, 408, 409, 413, 503, 504),
    )
    async def remove(
        request: Request,
        name: CollectionName,
        id: DocumentId,
        file: Annotated[
            str | None,
            Query(
                max_length=4096, description="File name, where only one of several with this content goes."
            ),
        ] = None,
        folder: Annotated[
            str | None,
            Query(
                max_length=4096,
                description="Its `folder` from the list, where only one of several of this name goes.",
            ),
        ] = None,
    ) -> Plain:
        """An uploaded file is deleted; one that lies elsewhere stays there, and is only no longer found."""
        try:
            await attend(request, library.remove(name, id, file, folder), options.item_seconds)
        except CollectionBusy as error:
            raise Refusal(
                409, "Another process is writing to the collection.", "Come back when it has finished."
            ) from error
        return Plain(status_code=204)


def _add_uploads(router: APIRouter, library: CollectionService) -> None:
    @router.put(
        "/collections/{name}/documents/{filename:anything}",
        status_code=202,
        summary="Upload a document",
        openapi_extra=_BODY,
        responses=_refused(404, 408, 409, 413, 415, 503, 507),
    )
    async def upload(
        request: Request, response: Response, name: CollectionName, filename: FileName
    ) -> UploadJobInfo:
        """The body is the file: `curl -T FILE http://…/collections/NAME/documents/`.

        A file of the same name is replaced. The answer comes when the file is stored; it is indexed after
        that, and its job tells how far it has come.
        """
        job = await library.upload(name, filename, request.stream(), _length(request))
        response.headers["Location"] = f"/jobs/{job.id}"
        return job

    @router.get(
        "/collections/{name}/jobs", summary="Uploads of a collection", responses=_refused(404, 408, 409, 413)
    )
    async def jobs(name: CollectionName) -> Jobs:
        """Since the server started, the newest first."""
        return library.jobs(name)

    @router.get("/jobs/{id}", summary="How far an upload has come", responses=_refused(404, 408, 413))
    async def job(
        id: Annotated[str, Path(pattern=JOB_PATTERN, description="Id of a job, from its upload.")],
    ) -> UploadJobInfo:
        """Until the server starts anew."""
        return library.job(id)


def _refused(*statuses: int) -> Responses:
    """What OpenAPI says of these statuses."""
    known = responses(*(status for status in statuses if status not in _MEANINGS))
    ours: Responses = {
        status: {"model": ProblemDetails, "description": _MEANINGS[status]}
        for status in statuses
        if status in _MEANINGS
    }
    return known | ours


def _length(request: Request) -> int | None:
    """What the client says of the length of the body; nothing where it is no number."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None
