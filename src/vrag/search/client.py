"""A `Searcher` over HTTP: the client of `vrag serve`.

What a server sends is checked before it is used: a server may be wrong, old, or somebody else's. Nothing
is opened by a path that it names, and nothing it sends is larger than a limit.
"""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from vrag.errors import SearchError, ServerError
from vrag.search.engine import check_search
from vrag.search.wire import (
    ID_PATTERN,
    MAX_HITS,
    MAX_QUERIES,
    ImageEntry,
    ItemInfo,
    Problem,
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

    from PIL.Image import Image
    from tenacity import RetryCallState

    from vrag.types import Item, Query

__all__ = ["SearchClient"]

Model = TypeVar("Model", bound=BaseModel)

_JSON_BYTES = 64 * 1024 * 1024
_IMAGE_BYTES = 128 * 1024 * 1024
_IMAGE_PIXELS = 100_000_000
_PROBLEM_BYTES = 64 * 1024
_MESSAGE = 500
"""Characters of a server's message that an error repeats."""
_LONGEST_WAIT = 20.0
"""Seconds that a Retry-After may ask for."""
_ID = re.compile(ID_PATTERN)
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_START = "Start it: vrag serve --only search --port 8001"


class _Passing(Exception):
    """A failure that may be gone at the next try.

    Args:
        error: What to raise when it is not.
        wait: Seconds that the server asks to wait.
    """

    def __init__(self, error: ServerError, wait: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    media_type: str
    content: bytes


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
        self._url = _base(url)
        self._timeout = timeout
        self._client = httpx.Client(
            base_url=self._url,
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            limits=httpx.Limits(max_connections=64),
            trust_env=False,
            transport=transport,
        )
        self._exponential = wait_random_exponential(multiplier=backoff, max=_LONGEST_WAIT)
        self._stop = stop_after_attempt(retries + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

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
        info = self._parsed(answer, ItemInfo)
        if info.id != id:
            raise self._unusable("it sent another item than was asked for")
        try:
            return info.as_item()
        except ValueError as error:
            raise self._unusable(str(error)) from error

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
                    raise self._unusable(f"a picture has {image.width}×{image.height} pixels")
                return image.convert("RGB")
        except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise self._unusable(f"a picture cannot be opened: {error}") from error

    def _info(self) -> ServerInfo:
        answer = self._ask("GET", "/version", _PROBLEM_BYTES)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ServerError(
                f"The server at {self._url} does not say which version it searches.", "Use vrag serve."
            )
        return self._parsed(answer, ServerInfo)

    def _search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Of queries with the same filters."""
        first = queries[0]
        if first.corpora is not None and not first.corpora:
            return [[] for _ in queries]
        asked = _request(queries, top_k)
        body = asked.model_dump_json(exclude_defaults=True).encode()
        answer = self._ask("POST", "/search", _JSON_BYTES, content=body)
        response = self._parsed(answer, SearchResponse)
        if len(response.results) != len(queries):
            raise self._unusable(f"{len(queries)} queries, {len(response.results)} results")
        for result in response.results:
            if not len(result.score) == len(result.indice) == len(result.data) <= top_k:
                raise self._unusable("its lists are too long, or not of one length")
        return [
            [
                _hit(entry, score, row, rank)
                for rank, (entry, score, row) in enumerate(
                    zip(result.data, result.score, result.indice, strict=True), 1
                )
            ]
            for result in response.results
        ]

    def _about_item(self, id: str, part: str, params: dict[str, str], limit: int) -> _Answer:
        if not _ID.fullmatch(id):
            raise SearchError(f"There is no item {id[:100]!r} at {self._url}: that is not an id.")
        answer = self._ask("GET", f"/items/{id}{part}", limit, params=params)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise SearchError(_problem(answer.content).detail)
        self._check(answer)
        return answer

    def _parsed(self, answer: _Answer, model: type[Model]) -> Model:
        self._check(answer)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))[:100]
            raise self._unusable(f"{place}: {fault['msg']}"[:_MESSAGE]) from None

    def _check(self, answer: _Answer) -> None:
        """Raises for an answer that is a refusal."""
        if answer.status == HTTPStatus.OK:
            return
        problem = _problem(answer.content)
        hint = problem.hint
        if answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "Give the client the token that the server was started with: VRAG_API_KEY"
        raise ServerError(f"The server at {self._url} refused ({answer.status}): {problem.detail}", hint)

    def _unusable(self, reason: str) -> ServerError:
        return ServerError(
            f"The answer of the server at {self._url} cannot be used: {reason}.", "Is it a search server?"
        )

    def _ask(self, method: str, path: str, limit: int, **request: Any) -> _Answer:  # noqa: ANN401 - httpx's
        """The answer to a request, repeated while it fails in passing."""
        retrying = Retrying(
            retry=retry_if_exception_type(_Passing), wait=self._wait, stop=self._stop, reraise=True
        )
        try:
            return retrying(self._once, method, path, limit, request)
        except _Passing as failure:
            raise failure.error from failure.__cause__

    def _wait(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.wait if isinstance(failure, _Passing) else 0.0
        return min(_LONGEST_WAIT, asked + self._exponential(state))

    def _once(self, method: str, path: str, limit: int, request: dict[str, Any]) -> _Answer:
        try:
            with self._client.stream(method, path, **request) as response:
                answer = self._read(response, limit)
                wait = _seconds(response.headers.get("retry-after"))
        except httpx.TimeoutException as error:
            failure = ServerError(
                f"The server at {self._url} took longer than {self._timeout:g} s.", "Wait longer: timeout=…"
            )
            if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise _Passing(failure) from error
            raise failure from error  # it may still be at work: asking again would double that
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise _Passing(
                ServerError(f"The server at {self._url} cannot be reached: {reason}.", _START)
            ) from error
        if answer.status in _BUSY:
            detail = _problem(answer.content).detail
            busy = ServerError(f"The server at {self._url} is busy ({answer.status}): {detail}", "Try later.")
            raise _Passing(busy, wait)
        return answer

    def _read(self, response: httpx.Response, limit: int) -> _Answer:
        """The body, as far as it is not longer than allowed and does not take too long."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self._unusable("it is compressed, which was not asked for")
        allowed = limit if response.status_code == HTTPStatus.OK else _PROBLEM_BYTES
        deadline = time.monotonic() + self._timeout
        parts: list[bytes] = []
        for part in response.iter_raw():
            allowed -= len(part)
            if allowed < 0:
                raise self._unusable(f"it is longer than {limit:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the body took too long")
            parts.append(part)
        return _Answer(response.status_code, response.headers.get("content-type", ""), b"".join(parts))


def _base(url: str) -> str:
    """The address of the server itself."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ServerError(f"{url[:200]!r} is not the address of a server.", "It begins with http://")
    return url.rstrip("/").removesuffix("/search")


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
    if stem and page.isascii() and page.isdigit() and 0 < int(page[:10]):
        return stem, int(page[:10])
    return name, 1


def _problem(content: bytes) -> Problem:
    """What a refusal says, made safe to show."""
    try:
        problem = Problem.model_validate_json(content)
    except ValidationError:
        problem = Problem(detail="It did not say why.")
    return Problem(detail=_line(problem.detail), hint=_line(problem.hint))


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MESSAGE]).strip()


def _seconds(header: str | None) -> float:
    """What Retry-After asks for, in seconds; a date counts as nothing."""
    return min(float(header), _LONGEST_WAIT) if header and header.isascii() and header.isdigit() else 0.0
