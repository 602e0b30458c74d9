"""The routes of collections, their documents and uploads."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response as Plain

from vrag.errors import CollectionBusy
from vrag.server.collections import registry
from vrag.server.collections.jobs import Jobs, UploadJobInfo
from vrag.server.collections.questions import SuggestedQuestions
from vrag.server.collections.service import CollectionService
from vrag.server.http.audit_log import AuditAction
from vrag.server.http.background import ItemThreadPool, wait_for_client
from vrag.server.http.errors import Refusal, responses
from vrag.server.http.roles import missing_role
from vrag.server.http.root_path import own_address
from vrag.server.http.users import User, UserRole
from vrag.server.options import ServerOptions

_BODY = {
    "requestBody": {
        "required": True,
        "description": "The content of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class _AnyText(Convertor[str]):
    """The rest of a path, with slashes, and with line breaks, at which `path` stops."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _AnyText())
CollectionName = Annotated[str, Path(min_length=1, max_length=200, description="Name of a collection.")]
DocumentId = Annotated[str, Path(pattern=registry.DOCUMENT_PATTERN, description="Id of a document.")]
FileName = Annotated[str, Path(min_length=1, max_length=4096, description="Name of the file.")]


OneName = Annotated[
    str | None,
    Query(max_length=4096, description="File name, to mean only one of several files with this content."),
]
OneFolder = Annotated[
    str | None,
    Query(
        max_length=4096, description="Its `folder` from the list, to mean only one of several of this name."
    ),
]
JobId = Annotated[str, Path(pattern=registry.JOB_PATTERN, description="Id of a job, from its upload.")]


def collection_routes(  # noqa: C901, PLR0915 - one per route
    service: CollectionService, item_threads: ItemThreadPool, options: ServerOptions
) -> APIRouter:
    """Build `/collections`, their documents and jobs, and `/documents/{id}`."""
    router = APIRouter(tags=["collections"])

    @router.get("/collections", summary="The collections", responses=responses(503, 504))
    async def collections(request: Request) -> registry.Collections:
        """List the open collections, as the user may change them. Runs are recorded in the first one."""
        listing = await item_threads.run_for(request, service.collections)
        return _as_allowed(listing, request.state.user)

    @router.post(
        "/collections",
        status_code=201,
        summary="Create a collection",
        responses=responses(409, 503),
    )
    async def create(request: Request, collection: registry.NewCollection) -> registry.CollectionInfo:
        """The new collection is empty. It is indexed and searched with the settings of the first one."""
        request.state.audit.note(collection=collection.name)
        await request.state.audit.begin()
        return await service.create(collection.name)

    @router.delete(
        "/collections/{name}",
        status_code=204,
        summary="Delete a collection",
        response_class=Plain,
        responses=responses(404, 409, 503),
    )
    async def drop(name: CollectionName) -> Plain:
        """Its uploads are deleted too. Only collections created through the server can be deleted."""
        await service.drop(name)
        return Plain(status_code=204)

    @router.get(
        "/collections/{name}/documents",
        summary="The documents of a collection",
        responses=responses(404, 409, 503, 504),
    )
    async def documents(
        request: Request,
        name: CollectionName,
        offset: Annotated[int, Query(ge=0, le=2**31, description="Number of documents to skip.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number.")] = 10_000,
    ) -> registry.Documents:
        """The documents are sorted by name. Each one lists the problems of its conversion."""
        return await item_threads.run_for(request, lambda: service.documents(name, offset, limit))

    @router.get(
        "/collections/{name}/questions",
        summary="Suggested questions",
        responses=responses(404, 409, 503, 504),
    )
    async def questions(
        request: Request,
        name: CollectionName,
        document: Annotated[
            str | None,
            Query(pattern=registry.DOCUMENT_PATTERN, description="Id of a document; all if absent."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=50, description="Maximum number.")] = 6,
    ) -> SuggestedQuestions:
        """Questions that the documents answer, the newest documents first, as far as they are made already.

        Asking for them has missing ones made, in the background, while no file is read and no run is active.
        """
        return await item_threads.run_for(request, lambda: service.questions(name, document, limit))

    @router.get(
        "/documents/{id}",
        summary="A document with its items",
        response_model_exclude_none=True,
        responses=responses(404, 409, 503, 504),
    )
    async def document(request: Request, id: DocumentId) -> registry.DocumentPages:
        """The items are sorted by their position in the document."""
        return await item_threads.run_for(request, lambda: service.document(id))

    @router.delete(
        "/collections/{name}/documents/{id}",
        status_code=204,
        summary="Remove a document",
        response_class=Plain,
        responses=responses(404, 409, 503, 504),
    )
    async def remove(
        request: Request,
        name: CollectionName,
        id: DocumentId,
        file: OneName = None,
        folder: OneFolder = None,
    ) -> Plain:
        """An uploaded file is deleted. A file in another folder is kept, but no longer found by searches."""
        request.state.audit.note(file=file)
        try:
            await wait_for_client(request, service.remove(name, id, file, folder), options.item_seconds)
        except CollectionBusy as error:
            message = "Another process is writing to the collection."
            raise Refusal(409, message, "Try again when it has finished.") from error
        return Plain(status_code=204)

    @router.post(
        "/collections/{name}/documents/{id}/retry",
        status_code=202,
        summary="Read a document again",
        responses=responses(404, 409, 503),
    )
    async def retry(
        request: Request,
        name: CollectionName,
        id: DocumentId,
        file: OneName = None,
        folder: OneFolder = None,
    ) -> UploadJobInfo:
        """For a document of which nothing, or not everything, could be read. Its job shows the progress."""
        job = await service.retry(name, id, file, folder)
        request.state.audit.note(file=job.file, job=job.id)
        return job

    @router.put(
        "/collections/{name}/documents/{filename:anything}",
        status_code=202,
        summary="Upload a document",
        openapi_extra=_BODY,
        responses=responses(404, 409, 415, 503, 507),
    )
    async def upload(
        request: Request, response: Response, name: CollectionName, filename: FileName
    ) -> UploadJobInfo:
        """The body is the file: `curl -T FILE http://…/collections/NAME/documents/`.

        A file of the same name is replaced. The response comes when the file is stored; it is indexed after
        that, and its job shows the progress.
        """
        stated = request.headers.get("content-length", "")
        length = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 20 else None
        if service.has_upload(name, filename):
            request.state.audit.note(action=AuditAction.REPLACE)
        job = await service.upload(name, filename, request.stream(), length)
        request.state.audit.note(file=job.file, document=job.document, job=job.id)
        response.headers["Location"] = own_address(request, f"/jobs/{job.id}")
        return job

    @router.get("/collections/{name}/jobs", summary="Uploads of a collection", responses=responses(404, 409))
    async def jobs(
        name: CollectionName,
        open: Annotated[bool, Query(description="Whether to list only those that have not ended.")] = False,
    ) -> Jobs:
        """List the jobs of the last days, newest first."""
        return service.jobs(name, only_open=open)

    @router.get("/jobs/{id}", summary="The progress of an upload", responses=responses(404))
    async def job(id: JobId) -> UploadJobInfo:
        """A job is known for a week after its end, and longer while the server runs."""
        return service.job(id)

    @router.delete(
        "/jobs/{id}",
        status_code=204,
        summary="Cancel an upload",
        response_class=Plain,
        responses=responses(404, 409, 503, 504),
    )
    async def cancel(request: Request, id: JobId) -> Plain:
        """The file, and what was read of it, are deleted. A document that it was to replace stays."""
        job = service.job(id)
        request.state.audit.note(collection=job.collection, file=job.file, document=job.document)
        try:
            await wait_for_client(request, asyncio.ensure_future(service.cancel(id)), options.item_seconds)
        except CollectionBusy as error:
            message = "Another process is writing to the collection."
            raise Refusal(409, message, "Try again when it has finished.") from error
        return Plain(status_code=204)

    return router


def _as_allowed(listing: registry.Collections, user: User) -> registry.Collections:
    """Return the collections as a user may change them, with the reasons for what the user may not."""
    if not (not_creatable := missing_role(user, UserRole.MANAGE)):
        return listing
    not_writable = missing_role(user, UserRole.UPLOAD)

    def allowed(info: registry.CollectionInfo) -> registry.CollectionInfo:
        changes: dict[str, bool | str] = {"removable": False}
        if not_writable:
            changes |= {"writable": False} | ({"reason": not_writable} if info.readable else {})
        return info.model_copy(update=changes)

    collections = list(map(allowed, listing.collections))
    changes = {"collections": collections, "creatable": False, "not_creatable": not_creatable}
    return listing.model_copy(update=changes)
