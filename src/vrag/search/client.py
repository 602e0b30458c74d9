"""A `Searcher` over HTTP: the client of `vrag serve`.

What a server sends is checked before it is used: a server may be wrong, old, or somebody else's. Nothing
is opened by a path that it names, and nothing it sends is larger than a limit.
"""

from __future__ import annotations

import io
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vrag.errors import SearchError, ServerError
from vrag.search.connection import Connection, problem_of
from vrag.search.engine import check_search
from vrag.search.wire import (
    ID_PATTERN,
    MAX_HITS,
    MAX_QUERIES,
    ImageEntry,
    ItemInfo,
    SearchRequest,
    SearchResponse,
    ServerInfo,
    TextEntry,
    VideoEntry,
)
from vrag.types import Hit, ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    import httpx
    from PIL.Image import Image

    from vrag.search.connection import Answer
    from vrag.types import Item, Query

__all__ = ["SearchClient"]

_JSON_BYTES = 64 * 1024 * 1024
_IMAGE_BYTES = 128 * 1024 * 1024
_IMAGE_PIXELS = 100_000_000
_INFO_BYTES = 64 * 1024
_ID = re.compile(ID_PATTERN)


class SearchClient:
    """A searcher behind a server. May be shared by threads; close it, or use it in `with`.

    Against a server of the systems this one replaces it searches too; its hits then bear file names in
    place of ids, and items and pictures cannot be had.

    Args:
        url: Of the server, with or without `/search` at its end.
        token: What the server asks for, if it does.
        timeout: Seconds to wait for each part of a response, and at most for all of its body.
        retries: How often a request is repeated when the server cannot be reached or says that it is busy.
            Other errors are final.
        backoff: Seconds before the first repetition; doubles, with jitter.
        transport: Replaces the network, in tests.

    Raises:
        ServerError: If the address cannot be one.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.25,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(
            url, token=token, timeout=timeout, retries=retries, backoff=backoff, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connection.close()

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same.

        Raises:
            ServerError: If the server cannot be reached or does not tell.
        """
        return self._info().version

    @property
    def corpora(self) -> tuple[str, ...]:
        """The names of the collections that can be searched by themselves.

        Raises:
            ServerError: If the server cannot be reached or does not tell.
        """
        return tuple(self._info().corpora)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first.

        Queries with the same filters travel together.

        Raises:
            SearchError: If a query is empty or too long, or `top_k` not within 1 to 1000.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        check_search(queries, top_k)
        found: list[list[Hit]] = [[] for _ in queries]
        for places in _together(queries, max(1, min(MAX_QUERIES, MAX_HITS // top_k))):
            hits = self._search([queries[place] for place in places], top_k)
            for place, its in zip(places, hits, strict=True):
                found[place] = its
        return found

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        answer = self._about_item(id, "", {"words": "true"}, _JSON_BYTES)
        info = self._connection.parsed(answer, ItemInfo)
        if info.id != id:
            raise self._connection.unusable("it sent another item than was asked for")
        try:
            return info.as_item()
        except ValueError as error:
            raise self._connection.unusable(str(error)) from error

    def image(self, id: str) -> Image:
        """The picture of an item, RGB, in full.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        from PIL import Image, UnidentifiedImageError

        answer = self._about_item(id, "/image", {}, _IMAGE_BYTES)
        try:
            with Image.open(io.BytesIO(answer.content), formats=("JPEG", "PNG")) as image:
                if image.width * image.height > _IMAGE_PIXELS:
                    raise self._connection.unusable(f"a picture has {image.width}×{image.height} pixels")
                return image.convert("RGB")
        except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise self._connection.unusable(f"a picture cannot be opened: {error}") from error

    def _info(self) -> ServerInfo:
        answer = self._connection.ask("GET", "/version", _INFO_BYTES)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ServerError(
                f"The server at {self._connection.url} does not say which version it searches.",
                "Use vrag serve.",
            )
        return self._connection.parsed(answer, ServerInfo)

    def _search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Of queries with the same filters."""
        first = queries[0]
        if first.corpora is not None and not first.corpora:
            return [[] for _ in queries]
        asked = _request(queries, top_k)
        body = asked.model_dump_json(exclude_defaults=True).encode()
        answer = self._connection.ask("POST", "/search", _JSON_BYTES, content=body)
        response = self._connection.parsed(answer, SearchResponse)
        if len(response.results) != len(queries):
            raise self._connection.unusable(f"{len(queries)} queries, {len(response.results)} results")
        for result in response.results:
            if not len(result.score) == len(result.indice) == len(result.data) <= top_k:
                raise self._connection.unusable("its lists are too long, or not of one length")
        return [
            [
                _hit(entry, score, row, rank)
                for rank, (entry, score, row) in enumerate(
                    zip(result.data, result.score, result.indice, strict=True), 1
                )
            ]
            for result in response.results
        ]

    def _about_item(self, id: str, part: str, params: dict[str, str], limit: int) -> Answer:
        if not _ID.fullmatch(id):
            raise SearchError(f"There is no item {id[:100]!r} at {self._connection.url}: that is not an id.")
        answer = self._connection.ask("GET", f"/items/{id}{part}", limit, params=params)
        if answer.status == HTTPStatus.NOT_FOUND:
            problem = problem_of(answer.content)
            raise SearchError(problem.detail, problem.hint)
        self._connection.check(answer)
        return answer


def _request(queries: Sequence[Query], top_k: int) -> SearchRequest:
    first = queries[0]
    try:
        return SearchRequest(
            queries=[query.text for query in queries],
            top_k=top_k,
            search_corpus=None if first.corpora is None else sorted(first.corpora),
            documents=None if first.documents is None else sorted(first.documents),
            kinds=None if first.kinds is None else [kind.value for kind in sorted(first.kinds)],
        )
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise SearchError(f"The search cannot be sent: {fault['loc'][0]}: {fault['msg']}.") from error


def _together(queries: Sequence[Query], most: int) -> Iterator[list[int]]:
    """Places of queries that can share a request: with the same filters, and `most` of them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, query in enumerate(queries):
        groups.setdefault((query.documents, query.kinds, query.corpora), []).append(place)
    for places in groups.values():
        for start in range(0, len(places), most):
            yield places[start : start + most]


def _hit(entry: ImageEntry | VideoEntry | TextEntry, score: float, row: int, rank: int) -> Hit:
    kinds = {"image": ItemKind.PAGE, "video": ItemKind.CLIP, "text": ItemKind.PASSAGE}
    name, page = _from_path(entry.file_path)
    return Hit(
        item=entry.id or entry.file_path.replace("\\", "/").rsplit("/", 1)[-1],
        score=score,
        rank=rank,
        document=entry.document or "",
        document_name=entry.document_name or name,
        ordinal=entry.page or page,
        kind=kinds[entry.type],
        row=row,
    )


def _from_path(path: str) -> tuple[str, int]:
    """Document and page by the name of a file: `<stem>_<page>.jpg`; page 1 when it does not tell.

    >>> _from_path("corpus/img/report_12.jpg")
    ('report', 12)
    """
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    stem, _, page = name.rsplit(".", 1)[0].rpartition("_")
    if stem and page.isascii() and page.isdigit() and int(page[:10]) > 0:
        return stem, int(page[:10])
    return name, 1
