"""The routes that search: both shapes of `/search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from vrag.search.schema import (
    MAX_QUERIES,
    OLDER_TOP_K,
    ImageFileEntry,
    QueryText,
    SearchRequest,
    SearchResponse,
)
from vrag.server.hit_json import newer, older
from vrag.server.http.errors import Refusal, responses
from vrag.server.http.timeouts import attend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.server.hit_json import ShownHit
    from vrag.server.options import ServerOptions
    from vrag.server.query_batcher import Batcher

__all__ = ["search_routes"]


def search_routes(batcher: Batcher, options: ServerOptions, corpora: Sequence[str]) -> APIRouter:
    """`POST /search` and `GET /search`.

    Args:
        batcher: What finds.
        options: Limits.
        corpora: Names that `search_corpus` may have.
    """
    router = APIRouter(tags=["search"])
    refused = responses(408, 413, 502, 503, 504)

    async def find(request: Request, asked: SearchRequest) -> list[list[ShownHit]]:
        _check(asked, options, corpora)
        work = batcher.search(asked.as_queries(), asked.top_k)
        return await attend(request, work, options.search_seconds)

    @router.post(
        "/search",
        summary="Search",
        openapi_extra=search_body(corpora),
        response_model=None,
        responses={
            200: {"model": SearchResponse | list[list[ImageFileEntry]], "description": "What was found."}
        }
        | refused,
    )
    async def search(request: Request) -> Response:
        """For each query the best `top_k` items, best first. Filters apply before the ranking.

        The body is read as JSON whatever Content-Type says. With `vrag_ret` the answer has the older shape.
        """
        asked = SearchRequest.model_validate_json(await request.body())
        found = await find(request, asked)
        return _json(older(found) if asked.vrag_ret else newer(found))

    @router.get(
        "/search",
        summary="Search for pictures, in the older shape",
        response_model=None,
        responses={200: {"model": list[list[ImageFileEntry]], "description": "What was found."}} | refused,
    )
    async def search_images(
        request: Request,
        queries: Annotated[
            list[QueryText],
            Query(min_length=1, max_length=MAX_QUERIES, description="What to look for; may be repeated."),
        ],
    ) -> Response:
        """For each query the names of the ten best pages, best first."""
        asked = SearchRequest(queries=queries, top_k=OLDER_TOP_K, vrag_ret=True)
        return _json(older(await find(request, asked)))

    return router


def search_body(corpora: Sequence[str]) -> dict[str, Any]:
    """What OpenAPI says of the body of a search: its model, and the names that are known now."""
    schema = SearchRequest.model_json_schema()
    names = {"type": "string", "enum": list(corpora)}
    several = {"type": "array", "items": names, "minItems": 1, "maxItems": 100}
    schema["properties"]["search_corpus"]["anyOf"] = [
        *([names, several] if corpora else []),
        {"type": "null"},
    ]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _check(asked: SearchRequest, options: ServerOptions, corpora: Sequence[str]) -> None:
    """What the model of a request cannot know.

    Raises:
        Refusal: If it asks for too much, or for a collection that is not there (422).
    """
    number = 1 if isinstance(asked.queries, str) else len(asked.queries)
    if number * asked.top_k > options.hits:
        raise Refusal(
            422,
            f"{number} queries times top_k {asked.top_k} is more than {options.hits:,} hits.",
            "Ask for less at a time.",
        )
    unknown = sorted((asked.corpora or frozenset[str]()).difference(corpora))
    if unknown:
        known = f"There are: {', '.join(corpora)}." if corpora else "This server has one, without a name."
        raise Refusal(422, f"There is no collection named {unknown[0][:100]!r}.", known)


def _json(content: object) -> Response:
    return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")
