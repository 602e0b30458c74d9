"""A `Searcher` over HTTP: the client of `vrag serve`.

Responses are checked before they are used: a server may be wrong, old, or somebody else's. Nothing is
opened by a path that it names, and nothing it sends is larger than a limit. A server of the reference names
paths and nothing else: those files are looked up inside of a local directory (`local_items.py`).
"""

from __future__ import annotations

import hashlib
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

from vrag.chat.errors import is_refused, plain_http_hint, unreached_message
from vrag.chat.http_clients import checked_key
from vrag.corpus.media import check_clip, clip_frames, on_disk, rgb
from vrag.errors import CorpusError, SearchError, ServerError
from vrag.geometry import Space, draw_part
from vrag.providers import complete_address, hide_credentials, reachable, redact_key
from vrag.search import schema
from vrag.search.local_items import ImageRoot, page_of
from vrag.search.searcher import check_search
from vrag.types import Hit, ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from PIL.Image import Image
    from tenacity import RetryCallState

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.types import Item, Query

Model = TypeVar("Model", bound=BaseModel)

_PROBLEM_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 500
"""Characters of a server's message that an error repeats."""
_MAX_WAIT_SECONDS = 20.0
"""Longest Retry-After that is respected."""
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_START = "Start it: vrag serve --only search --port 8001"
_JSON_BYTES = 64 * 1024 * 1024
_IMAGE_BYTES = 128 * 1024 * 1024
_IMAGE_PIXELS = 100_000_000
_CLIP_BYTES = 256 * 1024 * 1024
_INFO_BYTES = 64 * 1024
_ID = re.compile(schema.ID_PATTERN)
_NO_RESULT = schema.SearchResult(score=[], indice=[], data=[])
_KINDS = {"image": ItemKind.PAGE, "video": ItemKind.CLIP, "text": ItemKind.PASSAGE}
_NAMES_ONLY = "For a server that names files and no ids: --image-root DIR, the directory that holds them."


class _RetryableError(Exception):
    """A failure that may be gone at the next try: the final error, and the seconds to wait before."""

    def __init__(self, error: ServerError, wait: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response, read to its end."""

    status: int
    content: bytes


class Connection:
    """A connection, with the arguments of `SearchClient`. May be shared by threads."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout: float,
        retries: int,
        backoff: float,
        transport: httpx.BaseTransport | None,
    ) -> None:
        self.url = _base(url)
        self._token = token = checked_key(token, "VRAG_SEARCH_KEY", "search server")
        self._timeout = timeout
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            limits=httpx.Limits(max_connections=64),
            trust_env=False,
            transport=transport,
        )
        self._exponential = wait_random_exponential(multiplier=backoff, max=_MAX_WAIT_SECONDS)
        self._stop = stop_after_attempt(retries + 1)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def request(self, method: str, path: str, limit: int, **arguments: Any) -> HttpAnswer:  # noqa: ANN401 - httpx's
        """Send a request, with retries, and return the response of at most `limit` bytes."""

        def wait(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            named = failure.wait if isinstance(failure, _RetryableError) else 0.0
            return min(_MAX_WAIT_SECONDS, named + self._exponential(state))

        retry = retry_if_exception_type(_RetryableError)
        try:
            return Retrying(retry=retry, wait=wait, stop=self._stop, reraise=True)(
                self._request_once, method, path, limit, arguments
            )
        except _RetryableError as failure:
            raise failure.error from failure.__cause__

    def _request_once(self, method: str, path: str, limit: int, arguments: dict[str, Any]) -> HttpAnswer:
        try:
            with self._client.stream(method, path, **arguments) as response:
                answer = self._read(response, limit)
                header = response.headers.get("retry-after", "")  # a date counts as 0
        except httpx.TimeoutException as error:
            failure = ServerError(
                f"The server at {self.url} took longer than {self._timeout:g} s.", "Increase timeout."
            )
            if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise _RetryableError(failure) from error
            raise failure from error  # it may still be at work: asking again would double that
        except httpx.TransportError as error:
            final = plain_http_hint(error, self.url) or (_START if is_refused(error) else "")
            unreached = ServerError(unreached_message(error, self.url), final or _START)
            raise (unreached if final else _RetryableError(unreached)) from error
        if answer.status in _BUSY:
            detail = self._problem(answer).detail
            busy = ServerError(f"The server at {self.url} is busy ({answer.status}): {detail}", "Try later.")
            raise _RetryableError(busy, float(header) if header.isascii() and header.isdigit() else 0.0)
        return answer

    def _read(self, response: httpx.Response, limit: int) -> HttpAnswer:
        """Read the body, unless it is too long or takes too long."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self.invalid("it is compressed, which was not requested")
        allowed = limit if response.status_code == HTTPStatus.OK else _PROBLEM_BYTES
        deadline = time.monotonic() + self._timeout
        parts: list[bytes] = []
        for part in response.iter_raw():
            allowed -= len(part)
            if allowed < 0:
                raise self.invalid(f"it is longer than {limit:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the body took too long")
            parts.append(part)
        return HttpAnswer(response.status_code, b"".join(parts))

    def parse(self, answer: HttpAnswer, model: type[Model]) -> Model:
        """Parse the content of a response as a model; raise the message of an error response."""
        self.check(answer)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))[:100]
            raise self.invalid(f"{place}: {fault['msg']}"[:_MAX_MESSAGE_CHARS]) from None

    def check(self, answer: HttpAnswer) -> None:
        """Raise the message of an error response as `ServerError`."""
        if answer.status == HTTPStatus.OK:
            return
        problem = self._problem(answer)
        hint = problem.hint
        if answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "Give the token that the server was started with: VRAG_SEARCH_KEY"
        raise ServerError(f"The server at {self.url} refused ({answer.status}): {problem.detail}", hint)

    def _problem(self, answer: HttpAnswer) -> schema.ProblemDetails:
        """Parse an error response; a token that the server repeats is left out."""
        return parse_problem(redact_key(answer.content.decode(errors="replace"), self._token).encode())

    def invalid(self, reason: str) -> ServerError:
        """Build the error for an invalid response."""
        return ServerError(
            f"The response of the server at {self.url} is invalid: {reason}.", "Is it a search server?"
        )


def _base(url: str) -> str:
    """Check the URL of a server and return its base."""
    if "@" in url:  # not repeated, since it may hold a password; httpx would send it as well
        raise ServerError(
            "The URL of the search server contains a user name.", "Give a token: VRAG_SEARCH_KEY"
        )
    url = complete_address(url)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        usable = usable and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise ServerError(
            f"{hide_credentials(url)[:200]!r} is not the URL of a server.",
            "Give a URL like http://localhost:8001",
        )
    return reachable(url).rstrip("/").removesuffix("/search")


def parse_problem(content: bytes) -> schema.ProblemDetails:
    """Parse an error response, made safe to show."""
    try:
        problem = schema.ProblemDetails.model_validate_json(content)
    except ValidationError:
        problem = schema.ProblemDetails(detail="It gave no reason.")
    return schema.ProblemDetails(detail=_line(problem.detail), hint=_line(problem.hint))


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_MESSAGE_CHARS]).strip()


class SearchClient:
    """A `Searcher` on a server. May be shared by threads; close it, or use it in `with`.

    It searches servers of the reference too, by the newer format of `/search` or, where that is refused, by
    the older. Their hits have file names in place of ids, and items and pictures are not available, unless
    `image_root` holds the files: see `ImageRoot`. A file that is not there can be found but not shown. Such a
    server has no version; `version` is then a hash of its address and the directory, marked `unversioned-`: a
    replay cannot detect that it changed.

    Args:
        url: The URL of the server, with or without `/search` at its end.
        token: The token of the server, if it requires one.
        timeout: Seconds to wait for each part of a response, and at most for all of its body.
        retries: How often a request is repeated when the server cannot be reached or is busy. Other errors
            are final.
        backoff: Seconds before the first repetition; doubles, with jitter.
        transport: Replaces the network, in tests.
        image_root: The directory that holds the files which a server of the reference names.
        parts: Whether the server may be asked to draw parts of pages from its files.

    Raises:
        ServerError: If the URL is not valid.
        SettingsError: If `image_root` is not a directory.
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
        parts: bool = True,
    ) -> None:
        self._connection = Connection(
            url, token=token, timeout=timeout, retries=retries, backoff=backoff, transport=transport
        )
        self._parts = parts
        self._root = ImageRoot(image_root) if image_root is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same, but for those marked `unversioned-`."""
        answer = self._connection.request("GET", "/version", _INFO_BYTES)
        if answer.status == HTTPStatus.NOT_FOUND and self._root is not None:
            place = f"{self._connection.url}\0{self._root.directory}".encode(errors="surrogateescape")
            return f"unversioned-{hashlib.sha256(place).hexdigest()[:16]}"
        return self._parse_info(answer).version

    @property
    def corpora(self) -> tuple[str, ...]:
        """The names of the collections that can be searched separately."""
        return tuple(self._parse_info(self._connection.request("GET", "/version", _INFO_BYTES)).corpora)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first.

        Queries with the same filters share a request. Raises `SearchError` if a query is empty or too long,
        or `top_k` not within 1 to 1000, and `ServerError` if the server cannot be reached, or its response is
        invalid.
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

    def results(self, queries: Sequence[Query], top_k: int) -> list[schema.SearchResult]:
        """Search as `search` does; return the entries as the server sent them: paths, addresses, texts."""
        results = [_NO_RESULT] * len(queries)
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, query in enumerate(queries):
            groups.setdefault((query.documents, query.kinds, query.corpora), []).append(number)
        size = max(1, min(schema.MAX_QUERIES, schema.MAX_HITS // top_k))
        for numbers in groups.values():
            for start in range(0, len(numbers), size):
                part = numbers[start : start + size]
                found = self._search([queries[number] for number in part], top_k)
                for number, result in zip(part, found, strict=True):
                    results[number] = result
        return results

    def item(self, id: str) -> Item:
        """Return an item as `ItemStore.item` describes; an unreachable server raises `ServerError`."""
        if self._root is not None and self._root.holds(id):
            return self._root.item(id)
        answer = self._request_item(id, "", {"words": "true"}, _JSON_BYTES)
        info = self._connection.parse(answer, schema.ItemInfo)
        if info.id != id:
            raise self._connection.invalid("it sent another item than requested")
        try:
            return info.as_item()
        except ValueError as error:
            raise self._connection.invalid(str(error)) from error

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return a picture as `ItemStore.image` describes.

        The server sends it in full: a smaller copy would be encoded a second time.
        """
        if self._root is not None and self._root.holds(id):
            return self._root.image(id, least=least)
        return self._decode(self._request_item(id, "/image", {}, _IMAGE_BYTES), least)

    def part(self, id: str, view: View) -> Image | None:
        """Have the server draw a part of a page as `ItemStore.part` describes; older servers draw none."""
        if not self._parts or (self._root is not None and self._root.holds(id)):
            return None
        box = ",".join(map(repr, view.convert(view.region, Space.UNIT).as_tuple()))
        params = {"box": box, "size": f"{view.shown.width}x{view.shown.height}"}
        try:
            drawn = self._decode(self._request_item(id, "/part", params, _IMAGE_BYTES))
        except SearchError:  # there is none, or whatever is wrong is wrong with the stored picture too
            return None
        if drawn.size != view.shown:
            raise self._connection.invalid("it drew a part in another size than requested")
        return draw_part(drawn, view)

    def _decode(self, answer: HttpAnswer, least: Size | None = None) -> Image:
        """Decode a picture that the server sent."""
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(answer.content), formats=("JPEG", "PNG")) as image:
                if image.width * image.height > _IMAGE_PIXELS:
                    raise self._connection.invalid(f"a picture has {image.width}×{image.height} pixels")
                return rgb(image, least)
        except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise self._connection.invalid(f"a picture cannot be opened: {error}") from error

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames as `ItemStore.frames` describes."""
        if self._root is not None and self._root.holds(id):
            return self._root.frames(id, fps=fps, most=most)
        item = self.item(id)
        if item.clip is None:
            raise SearchError(f"The item {id!r} has no frames: it is a {item.kind}.")
        answer = self._request_item(id, "/clip", {}, _CLIP_BYTES)
        try:
            with on_disk(io.BytesIO(answer.content)) as path:
                check_clip(path)
                return clip_frames(path, item.clip.start, fps=fps, most=most)
        except CorpusError as error:
            raise self._connection.invalid(f"a clip cannot be opened: {error}") from error

    def _parse_info(self, answer: HttpAnswer) -> schema.ServerInfo:
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ServerError(
                f"The server at {self._connection.url} does not report which version it searches.",
                f"Use vrag serve. {_NAMES_ONLY}",
            )
        return self._connection.parse(answer, schema.ServerInfo)

    def _search(self, queries: Sequence[Query], top_k: int) -> list[schema.SearchResult]:
        """Search for queries with the same filters."""
        first = queries[0]
        if first.corpora is not None and not first.corpora:
            return [_NO_RESULT] * len(queries)
        try:
            request = schema.SearchRequest(
                queries=[query.text for query in queries],
                top_k=top_k,
                search_corpus=None if first.corpora is None else sorted(first.corpora),
                documents=None if first.documents is None else sorted(first.documents),
                kinds=None if first.kinds is None else [kind.value for kind in sorted(first.kinds)],
            )
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            raise SearchError(f"The search cannot be sent: {fault['loc'][0]}: {fault['msg']}.") from error
        body = request.model_dump_json(exclude_defaults=True).encode()
        headers = {"Content-Type": "application/json"}
        answer = self._connection.request("POST", "/search", _JSON_BYTES, content=body, headers=headers)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            return self._search_older(queries, top_k)
        response = self._connection.parse(answer, schema.SearchResponse)
        if len(response.results) != len(queries):
            raise self._connection.invalid(f"{len(queries)} queries, {len(response.results)} results")
        for result in response.results:
            if not len(result.score) == len(result.indice) == len(result.data) <= top_k:
                raise self._connection.invalid("its lists are too long, or not of one length")
        return response.results

    def _search_older(self, queries: Sequence[Query], top_k: int) -> list[schema.SearchResult]:
        """Search by the older format: pictures without scores, ten at most; scores are 1 / rank."""
        first = queries[0]
        if (first.documents, first.kinds, first.corpora) != (None, None, None):
            raise SearchError(f"The server at {self._connection.url} is too old to search with filters.")
        params = {"queries": [query.text for query in queries]}
        answer = self._connection.request("GET", "/search", _JSON_BYTES, params=params)
        lists = self._connection.parse(answer, schema.OlderResponse).root
        if len(lists) != len(queries):
            raise self._connection.invalid(f"{len(queries)} queries, {len(lists)} results")
        return [
            schema.SearchResult(
                score=[1 / rank for rank in range(1, len(files) + 1)],
                indice=[-1] * len(files),
                data=[schema.ImageEntry(type="image", file_path=file.image_file) for file in files],
            )
            for files in (files[:top_k] for files in lists)
        ]

    def _hit(
        self,
        entry: schema.ImageEntry | schema.VideoEntry | schema.TextEntry,
        score: float,
        row: int,
        rank: int,
    ) -> Hit:
        name, page = page_of(entry.file_path)
        hit = Hit(
            item=entry.id or entry.file_path.replace("\\", "/").rsplit("/", 1)[-1],
            score=score,
            rank=rank,
            document=entry.document or "",
            document_name=entry.document_name or name,
            shown_name=entry.shown_name or "",
            ordinal=entry.page or page,
            kind=_KINDS[entry.type],
            row=row,
        )
        if entry.id is not None or self._root is None:
            return hit
        if isinstance(entry, schema.TextEntry):
            id = self._root.remember(entry.file_path, entry.content)
        else:
            id = self._root.id_of(entry.file_path)
        return hit if id is None else self._root.hit_of(id, hit)

    def _request_item(self, id: str, part: str, params: dict[str, str], limit: int) -> HttpAnswer:
        if not _ID.fullmatch(id):
            raise SearchError(
                f"There is no item {id[:100]!r} at {self._connection.url}: this is not an id.", _NAMES_ONLY
            )
        answer = self._connection.request("GET", f"/items/{id}{part}", limit, params=params)
        if answer.status == HTTPStatus.NOT_FOUND:
            problem = parse_problem(answer.content)
            raise SearchError(problem.detail, problem.hint)
        self._connection.check(answer)
        return answer
