"""A `Searcher` over HTTP: the client of `vrag serve`.

What a server sends is checked before it is used: a server may be wrong, old, or somebody else's. Nothing
is opened by a path that it names, and nothing it sends is larger than a limit. A server of the reference
names paths and nothing else: what lies there is looked for inside of a directory of ours (`local_items.py`).
"""

from __future__ import annotations

import hashlib
import io
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vrag.corpus.media import check_clip, clip_frames, on_disk, rgb
from vrag.errors import CorpusError, SearchError, ServerError
from vrag.search.connection import Connection, problem_of
from vrag.search.engine import check_search
from vrag.search.local_items import ImageRoot, page_of
from vrag.search.schema import (
    ID_PATTERN,
    MAX_HITS,
    MAX_QUERIES,
    ImageEntry,
    ItemInfo,
    OlderResponse,
    SearchRequest,
    SearchResponse,
    SearchResult,
    ServerInfo,
    TextEntry,
    VideoEntry,
)
from vrag.types import Hit, ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import httpx
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size
    from vrag.search.connection import HttpAnswer
    from vrag.search.schema import ImageFileEntry
    from vrag.types import Item, Query

__all__ = ["SearchClient"]

_JSON_BYTES = 64 * 1024 * 1024
_IMAGE_BYTES = 128 * 1024 * 1024
_IMAGE_PIXELS = 100_000_000
_CLIP_BYTES = 256 * 1024 * 1024
_INFO_BYTES = 64 * 1024
_ID = re.compile(ID_PATTERN)
_NO_RESULT = SearchResult(score=[], indice=[], data=[])
_NAMES_ONLY = "For a server that names files and no ids: --image-root DIR, the directory that holds them."


class SearchClient:
    """A searcher behind a server. May be shared by threads; close it, or use it in `with`.

    Against a server of the systems this one replaces it searches too, by the newer shape of `/search` or,
    where that is refused, by the older. Its hits bear file names in place of ids, and items and pictures
    cannot be had, unless `image_root` says where the files are: see `ImageRoot`. What it names and is not
    there can be found and not shown. Such a server does not say which version it searches; `version` is then
    a hash of its address and the directory, marked `unversioned-`: a replay cannot tell that it changed.

    Args:
        url: Of the server, with or without `/search` at its end.
        token: What the server asks for, if it does.
        timeout: Seconds to wait for each part of a response, and at most for all of its body.
        retries: How often a request is repeated when the server cannot be reached or says that it is busy.
            Other errors are final.
        backoff: Seconds before the first repetition; doubles, with jitter.
        transport: Replaces the network, in tests.
        image_root: The directory that holds the files which a server of the reference names.

    Raises:
        ServerError: If the address cannot be one.
        SettingsError: If `image_root` is no directory.
    """

    def __init__(
        self,
        url: str,
        *,
        image_root: Path | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.25,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(
            url, token=token, timeout=timeout, retries=retries, backoff=backoff, transport=transport
        )
        self._root = ImageRoot(image_root) if image_root is not None else None

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
        """Hash over what can be found; equal versions find the same, but for those marked `unversioned-`.

        Raises:
            ServerError: If the server cannot be reached, or does not tell and there is no `image_root`.
        """
        answer = self._connection.ask("GET", "/version", _INFO_BYTES)
        if answer.status == HTTPStatus.NOT_FOUND and self._root is not None:
            place = f"{self._connection.url}\0{self._root.directory}".encode(errors="surrogateescape")
            return f"unversioned-{hashlib.sha256(place).hexdigest()[:16]}"
        return self._told(answer).version

    @property
    def corpora(self) -> tuple[str, ...]:
        """The names of the collections that can be searched by themselves.

        Raises:
            ServerError: If the server cannot be reached or does not tell.
        """
        return tuple(self._told(self._connection.ask("GET", "/version", _INFO_BYTES)).corpora)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """For each query the best `top_k` items or fewer, best first.

        Queries with the same filters travel together.

        Raises:
            SearchError: If a query is empty or too long, or `top_k` not within 1 to 1000.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        check_search(queries, top_k)
        return [
            [
                self._hit(entry, score, row, rank)
                for rank, (entry, score, row) in enumerate(
                    zip(result.data, result.score, result.indice, strict=True), 1
                )
            ]
            for result in self.results(queries, top_k)
        ]

    def results(self, queries: Sequence[Query], top_k: int) -> list[SearchResult]:
        """The same as `search`, with the entries as the server sent them: paths, addresses, texts.

        Raises:
            SearchError, ServerError: As `search` does.
        """
        found = [_NO_RESULT] * len(queries)
        for places in _together(queries, max(1, min(MAX_QUERIES, MAX_HITS // top_k))):
            results = self._search([queries[place] for place in places], top_k)
            for place, result in zip(places, results, strict=True):
                found[place] = result
        return found

    def item(self, id: str) -> Item:
        """The item with this id.

        Raises:
            SearchError: If there is none.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        if self._root is not None and self._root.holds(id):
            return self._root.item(id)
        answer = self._about_item(id, "", {"words": "true"}, _JSON_BYTES)
        info = self._connection.parsed(answer, ItemInfo)
        if info.id != id:
            raise self._connection.unusable("it sent another item than was asked for")
        try:
            return info.as_item()
        except ValueError as error:
            raise self._connection.unusable(str(error)) from error

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """The picture of an item, RGB: in full, or with `least` as `Searcher.image` says.

        It travels in full: made smaller by the server it would be coded a second time.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its file below `image_root` is missing or damaged.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        from PIL import Image, UnidentifiedImageError

        if self._root is not None and self._root.holds(id):
            return self._root.image(id, least=least)
        answer = self._about_item(id, "/image", {}, _IMAGE_BYTES)
        try:
            with Image.open(io.BytesIO(answer.content), formats=("JPEG", "PNG")) as image:
                if image.width * image.height > _IMAGE_PIXELS:
                    raise self._connection.unusable(f"a picture has {image.width}×{image.height} pixels")
                return rgb(image, least)
        except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise self._connection.unusable(f"a picture cannot be opened: {error}") from error

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Frames of the clip that an item is, as `Searcher.frames` says.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its file below `image_root` is missing or damaged.
            MissingExtra: If PyAV is not installed.
            ServerError: If the server cannot be reached, or its answer not be used.
        """
        if self._root is not None and self._root.holds(id):
            return self._root.frames(id, fps=fps, most=most)
        item = self.item(id)
        if item.clip is None:
            raise SearchError(f"The item {id!r} has no frames: it is a {item.kind}.")
        answer = self._about_item(id, "/clip", {}, _CLIP_BYTES)
        try:
            with on_disk(io.BytesIO(answer.content)) as path:
                check_clip(path)
                return clip_frames(path, item.clip.start, fps=fps, most=most)
        except CorpusError as error:
            raise self._connection.unusable(f"a clip cannot be opened: {error}") from error

    def _told(self, answer: HttpAnswer) -> ServerInfo:
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ServerError(
                f"The server at {self._connection.url} does not say which version it searches.",
                f"Use vrag serve. {_NAMES_ONLY}",
            )
        return self._connection.parsed(answer, ServerInfo)

    def _search(self, queries: Sequence[Query], top_k: int) -> list[SearchResult]:
        """Of queries with the same filters."""
        first = queries[0]
        if first.corpora is not None and not first.corpora:
            return [_NO_RESULT] * len(queries)
        asked = _request(queries, top_k)
        body = asked.model_dump_json(exclude_defaults=True).encode()
        answer = self._connection.ask("POST", "/search", _JSON_BYTES, content=body)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            return self._search_older(queries, top_k)
        response = self._connection.parsed(answer, SearchResponse)
        if len(response.results) != len(queries):
            raise self._connection.unusable(f"{len(queries)} queries, {len(response.results)} results")
        for result in response.results:
            if not len(result.score) == len(result.indice) == len(result.data) <= top_k:
                raise self._connection.unusable("its lists are too long, or not of one length")
        return response.results

    def _search_older(self, queries: Sequence[Query], top_k: int) -> list[SearchResult]:
        """By the older shape: pictures without scores, ten at most; the score of a hit is 1 / its rank."""
        first = queries[0]
        if (first.documents, first.kinds, first.corpora) != (None, None, None):
            raise SearchError(f"The server at {self._connection.url} is too old to search a part only.")
        asked = {"queries": [query.text for query in queries]}
        answer = self._connection.ask("GET", "/search", _JSON_BYTES, params=asked)
        lists = self._connection.parsed(answer, OlderResponse).root
        if len(lists) != len(queries):
            raise self._connection.unusable(f"{len(queries)} queries, {len(lists)} results")
        return [_as_result(files[:top_k]) for files in lists]

    def _hit(self, entry: ImageEntry | VideoEntry | TextEntry, score: float, row: int, rank: int) -> Hit:
        hit = _hit(entry, score, row, rank)
        if entry.id is not None or self._root is None:
            return hit
        if isinstance(entry, TextEntry):
            own = self._root.remember(entry.file_path, entry.content)
        else:
            own = self._root.id_of(entry.file_path)
        return hit if own is None else self._root.hit_of(own, hit)

    def _about_item(self, id: str, part: str, params: dict[str, str], limit: int) -> HttpAnswer:
        if not _ID.fullmatch(id):
            raise SearchError(
                f"There is no item {id[:100]!r} at {self._connection.url}: that is not an id.", _NAMES_ONLY
            )
        answer = self._connection.ask("GET", f"/items/{id}{part}", limit, params=params)
        if answer.status == HTTPStatus.NOT_FOUND:
            problem = problem_of(answer.content)
            raise SearchError(problem.detail, problem.hint)
        self._connection.check(answer)
        return answer


def _as_result(files: Sequence[ImageFileEntry]) -> SearchResult:
    return SearchResult(
        score=[1 / rank for rank in range(1, len(files) + 1)],
        indice=[-1] * len(files),
        data=[ImageEntry(type="image", file_path=file.image_file) for file in files],
    )


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
    name, page = page_of(entry.file_path)
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
