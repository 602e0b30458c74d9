"""The routes of the page viewer: the text of pages with its places, words in a document, original files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import quote

from cachetools import LRUCache
from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from vrag.agent.evidence import BoxSides
from vrag.errors import CollectionError
from vrag.index.collection import Collection
from vrag.index.source_file import OpenSource, SourceFault
from vrag.item_facts import decode_facts
from vrag.search.schema import NOT_BLANK
from vrag.search.searcher import Searcher
from vrag.server.collections.registry import DOCUMENT_PATTERN, CollectionSet
from vrag.server.http.background import ItemThreadPool
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.items import (
    CACHE,
    UNCHANGED,
    IfNoneMatch,
    ItemId,
    etag_of,
    file_response,
    find_item,
    is_known,
)
from vrag.server.viewer.page_lines import list_lines
from vrag.server.viewer.text_search import FoldedText, find_matches, fold_query
from vrag.types import item_id

DocumentId = Annotated[str, Path(pattern=DOCUMENT_PATTERN, description="Id of a document.")]
SearchText = Annotated[
    str,
    Query(
        max_length=200,
        pattern=NOT_BLANK,
        description="Words that follow each other. Case, accents, hyphens and line ends do not count.",
    ),
]
MAX_EXCERPTS = 500
"""Pages of a document of which an answer shows the words around the first match."""
MAX_MATCHES = 5000
"""Matches of one item whose places are listed."""
_EXCERPT_BEFORE, _EXCERPT_AFTER = 30, 60
"""Characters around a match."""
_KEPT_CHARACTERS = 64 * 2**20
"""Characters of documents that are kept in the form in which they are searched."""
PDF_POLICY = (
    "default-src 'none'; object-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""For a PDF file in the browser. No `sandbox`: some browsers show no PDF file under it, and nothing else than
their own viewer is ever opened, since the type is stated and not to be guessed."""
_FILE_CONTENT: dict[str, object] = {"application/pdf": {}, "application/octet-stream": {}}
_FILE: Responses = {
    200: {"content": _FILE_CONTENT, "description": "The file."},
    206: {"content": _FILE_CONTENT, "description": "The requested part."},
    304: UNCHANGED,
}
_GONE = "There is no such document."


class _Info(BaseModel):
    model_config = ConfigDict(frozen=True)


class LineInfo(_Info):
    """Words that stand one after the other."""

    words: list[tuple[str, str, float, float, float, float]] = Field(
        description="Each word, the text between it and the next one, and its left, top, right and bottom in "
        "fractions of the picture."
    )
    angle: int = Field(default=0, description="Degrees clockwise that it is turned: 0, 90, 180 or 270.")
    leftwards: bool = Field(default=False, description="Whether it is read from right to left.")


class PageTextInfo(_Info):
    """The words on the picture of an item, in reading order."""

    lines: list[LineInfo]


class MatchInfo(_Info):
    """A place where the words stand."""

    start: int = Field(ge=0, description="Where it begins in the text of the item.")
    end: int = Field(description="Where it ends.")
    boxes: list[BoxSides] = Field(
        description="Left, top, right and bottom in fractions of the picture, one for each line."
    )


class ItemMatches(_Info):
    """The places where the words stand in an item, in the order of its text."""

    matches: list[MatchInfo]


class PageMatches(_Info):
    """An item of a document in which the words stand."""

    id: str
    page: int = Field(ge=1, description="Position in its document, from 1.")
    page_label: str = Field(
        default="", description="The number that is printed on a page, where it is not its position."
    )
    matches: int = Field(ge=1, description="How often.")
    before: str = Field(default="", description="The text before the first of them.")
    match: str = Field(default="", description="The first of them, as it is written there.")
    after: str = Field(default="", description="The text after it.")


class DocumentMatches(_Info):
    """The items of a document in which the words stand, in order."""

    matches: int = Field(ge=0, description="How often in all.")
    pages: list[PageMatches]


def item_text_routes(searcher: Searcher, item_threads: ItemThreadPool) -> APIRouter:
    """Build `/items/{id}/words` and `/items/{id}/find`."""
    router = APIRouter(tags=["items"])
    refused = responses(404, 502, 503, 504)

    @router.get(
        "/items/{id}/words",
        summary="The words on the picture of an item",
        response_model=PageTextInfo,
        responses={304: UNCHANGED, **refused},
    )
    async def words(request: Request, id: ItemId, if_none_match: IfNoneMatch = None) -> Response:
        """The lines are in reading order. There are none where the text has no place on the picture."""

        def work() -> bytes:
            return page_text(searcher, id).model_dump_json(exclude_defaults=True).encode()

        content = await item_threads.run_for(request, work)
        headers = {"ETag": etag_of(content), "Cache-Control": CACHE}
        if is_known(headers["ETag"], if_none_match):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")

    @router.get("/items/{id}/find", summary="Find words in an item", responses=refused)
    async def find(request: Request, id: ItemId, text: SearchText) -> ItemMatches:
        """The first 5,000 places."""
        query = _fold(text)

        def work() -> ItemMatches:
            matches = find_matches(find_item(searcher, id), query)[:MAX_MATCHES]
            return ItemMatches(
                matches=[
                    MatchInfo(start=each.start, end=each.end, boxes=list(each.boxes)) for each in matches
                ]
            )

        return await item_threads.run_for(request, work)

    return router


def page_text(searcher: Searcher, id: str) -> PageTextInfo:
    """Return the words on the picture of an item. Raises `Refusal` if there is no such item (404)."""
    lines = list_lines(find_item(searcher, id))
    return PageTextInfo(
        lines=[
            LineInfo(
                words=[
                    (text, separator, round(x1, 5), round(y1, 5), round(x2, 5), round(y2, 5))
                    for text, separator, x1, y1, x2, y2 in line.words
                ],
                angle=line.angle,
                leftwards=line.leftwards,
            )
            for line in lines
        ]
    )


def document_file_routes(collections: CollectionSet, item_threads: ItemThreadPool) -> APIRouter:
    """Build `/documents/{id}/find` and `/documents/{id}/file`."""
    router = APIRouter(tags=["collections"])
    documents = DocumentTexts(collections)

    @router.get(
        "/documents/{id}/find",
        summary="Find words in a document",
        responses=responses(404, 409, 503, 504),
    )
    async def find(request: Request, id: DocumentId, text: SearchText) -> DocumentMatches:
        """The items with the words, and how often each has them. `/items/{id}/find` has their places."""
        query = _fold(text)
        return await item_threads.run_for(request, lambda: documents.find(id, query))

    @router.get(
        "/documents/{id}/file",
        summary="The original file of a document",
        response_class=Response,
        responses=_FILE | responses(404, 409, 416, 503, 504),
    )
    async def file(
        request: Request,
        id: DocumentId,
        range: Annotated[str | None, Header(max_length=1000)] = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """The file itself, as long as it is the one that was indexed. A browser opens PDF files at `#page=`.

        Files of all other types are downloads.
        """

        def work() -> Response:
            return _original(documents.collections_of(id), id, range, if_none_match)

        try:
            return await item_threads.run_for(request, work)
        except Refusal as refusal:
            if request.headers.get("sec-fetch-mode") != "navigate":
                raise
            return PlainTextResponse(f"{refusal.message} {refusal.hint}", refusal.status)  # for people

    return router


class _KnownText(NamedTuple):
    """An item of a document as it is searched."""

    id: str
    ordinal: int
    label: str
    text: str
    folded: FoldedText


class DocumentTexts:
    """The texts of the documents of a server, as they are searched. May be shared by threads.

    The first search of a document reads its texts; those of the last ones are kept, since a person searches
    the same document again.
    """

    def __init__(self, collections: CollectionSet) -> None:
        self._collections = collections
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[Collection, str, int], tuple[_KnownText, ...]] = LRUCache(
            _KEPT_CHARACTERS, getsizeof=lambda texts: sum(len(each.text) + 500 for each in texts)
        )
        """By collection, document and number of its items that could be made."""

    def collections_of(self, id: str) -> list[Collection]:
        """Return the collections that have a document. Raises `Refusal` if none has it (404)."""
        return [collection for collection, _ in self._places(id)]

    def find(self, id: str, query: str) -> DocumentMatches:
        """Find a folded query in a document. Raises `Refusal` if there is no such document (404)."""
        found: list[PageMatches] = []
        for each in self._texts(id):
            if count := each.folded.text.count(query):
                excerpt = _excerpt(each, query) if len(found) < MAX_EXCERPTS else ("", "", "")
                before, match, after = excerpt
                found.append(
                    PageMatches(
                        id=each.id,
                        page=each.ordinal,
                        page_label=each.label,
                        matches=count,
                        before=before,
                        match=match,
                        after=after,
                    )
                )
        return DocumentMatches(matches=sum(page.matches for page in found), pages=found)

    def _texts(self, id: str) -> tuple[_KnownText, ...]:
        collection, (items, made) = self._places(id)[0]
        key = collection, id, made
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        ids = [item_id(id, ordinal) for ordinal in range(1, items + 1)]
        rows = collection.store.find_items(ids, ("id", "ordinal", "text", "facts"))
        texts = tuple(
            _KnownText(
                row["id"],
                row["ordinal"],
                decode_facts(row["facts"]).label,
                row["text"],
                FoldedText(row["text"]),
            )
            for row in sorted(rows, key=lambda row: row["ordinal"])
        )
        with self._lock:
            if self._known.getsizeof(texts) <= self._known.maxsize:
                self._known[key] = texts
        return texts

    def _places(self, id: str) -> list[tuple[Collection, tuple[int, int]]]:
        """Return the collections that have a document, with the number of its items, and of those made."""
        if self._collections.absent:
            raise Refusal(409, self._collections.absent, "Look at documents there.")
        places: list[tuple[Collection, tuple[int, int]]] = []
        for each in self._collections.open_collections:
            try:
                files = each.collection.store.files("document = ?", [id])
            except CollectionError:
                if each in self._collections.open_collections:
                    raise
                continue  # it was deleted meanwhile
            served = [file for file in files if file.document.status.served]
            if served:
                places.append((each.collection, (served[0].document.items, served[0].rows)))
        if not places:
            raise Refusal(404, _GONE, "It may have been removed: reload the list.")
        return places


def _fold(text: str) -> str:
    """Fold the words of a request. Raises `Refusal` if nothing of them is compared (422)."""
    query = fold_query(text)
    if not query:
        raise Refusal(422, "There is nothing to look for in this text.", "Write letters or digits.")
    return query


def _excerpt(text: _KnownText, query: str) -> tuple[str, str, str]:
    """Return the text around the first match of a query that is there: before it, itself, after it."""
    match = next(iter(text.folded.matches(query)))
    parts = (
        text.text[max(0, match.start - _EXCERPT_BEFORE) : match.start],
        text.text[match.start : match.end],
        text.text[match.end : match.end + _EXCERPT_AFTER],
    )
    before, found, after = (_one_line(part) for part in parts)
    return before, found.strip(), after


def _one_line(text: str) -> str:
    """Replace each run of white space by a space."""
    inside = " ".join(text.split())
    return f"{' ' if text[:1].isspace() else ''}{inside}{' ' if inside and text[-1:].isspace() else ''}"


def _original(
    collections: Sequence[Collection], id: str, range_: str | None, if_none_match: str | None
) -> Response:
    """Send the file of a document from the first collection that has it. Raises `Refusal` otherwise (404)."""
    fault = SourceFault.ABSENT
    for collection in collections:
        source = collection.open_source(id)
        if isinstance(source, OpenSource):
            return _source_response(source, id, range_, if_none_match)
        fault = source
    hint = "Its pages are kept here. Put the file back, or add it again."
    raise Refusal(404, f"The original cannot be opened. {fault}", hint)


def _source_response(source: OpenSource, id: str, range_: str | None, if_none_match: str | None) -> Response:
    is_pdf = source.name.lower().endswith(".pdf") and b"%PDF-" in source.file.read(1024)
    disposition = "inline" if is_pdf else "attachment"
    headers = {
        "ETag": f'"{id}"',
        "Cache-Control": "private, no-cache",  # it may be gone
        "Content-Disposition": f"{disposition}; filename*=utf-8''{quote(_plain(source.name), safe='')}",
    }
    if is_pdf:
        headers["Content-Security-Policy"] = PDF_POLICY
    if is_known(headers["ETag"], if_none_match):
        source.file.close()
        return Response(status_code=304, headers=headers)
    media_type = "application/pdf" if is_pdf else "application/octet-stream"
    return file_response(source.file, range_, headers, media_type)


def _plain(name: str) -> str:
    """Return a file name without what no file name has: control characters, slashes, half characters."""
    return "".join("_" if ord(c) < 32 or c in "/\\\x7f" or "\ud800" <= c <= "\udfff" else c for c in name)
