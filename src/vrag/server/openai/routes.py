"""The routes that OpenAI's clients ask."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import APIRouter, Path, Request
from pydantic import ValidationError
from starlette.responses import Response

from vrag.agent.runs.run_result import RunResult
from vrag.server.http.errors import Refusal, responses
from vrag.server.http.timeouts import attend
from vrag.server.http.value_errors import fault_message
from vrag.server.openai.errors import InvalidRequest, answer_error
from vrag.server.openai.models import cards_of, model_named
from vrag.server.openai.reply import Reasoning, reply_of, usage_of
from vrag.server.openai.request import ChatQuestion, CompletionRequest, read
from vrag.server.openai.schema import (
    Completion,
    CompletionChoice,
    CompletionMessage,
    ErrorBody,
    ModelCard,
    ModelCards,
)
from vrag.server.openai.stream import ChunkStream, Watched, frames, stop

if TYPE_CHECKING:
    from vrag.server.http.errors import Responses
    from vrag.server.runs.agent_provider import AgentProvider
    from vrag.server.runs.run_manager import RunManager
    from vrag.server.runs.schema import Capabilities

__all__ = ["completions_routes"]


def completions_routes(host: RunManager, answering: AgentProvider) -> APIRouter:
    """`/v1/models` and `/v1/chat/completions`. `ErrorShape` has to stand around the application.

    Args:
        host: Runs what is asked.
        answering: Knows what may be asked for.
    """
    router = APIRouter(prefix="/v1", tags=["openai"])
    created = int(time.time())

    @router.get("/models", summary="Models that may be named", responses=_errors(503))
    async def models() -> ModelCards:
        """Each agent, alone or with one of the models that write its replies."""
        return cards_of(await host.look(lambda: answering.offer), created)

    @router.get("/models/{id:path}", summary="A model", response_model=ModelCard, responses=_errors(404, 503))
    async def model(id: Annotated[str, Path(max_length=400)]) -> Response | ModelCard:
        """Whether it may be named."""
        offer = await host.look(lambda: answering.offer)
        try:
            model_named(id, offer)
        except InvalidRequest as unfit:
            return answer_error(unfit)
        return ModelCard(id=id, created=created)

    @router.post(
        "/chat/completions",
        summary="Ask, as OpenAI's clients do",
        openapi_extra=_body(),
        response_model=None,
        responses=_ANSWERS | _errors(404, 409, 413, 429, 502, 503, 504),
    )
    async def complete(request: Request) -> Response:
        """The last message is the question; those before it are its conversation.

        The body is read as JSON whatever Content-Type says. A client that leaves stops its run.
        """
        offer = await host.look(lambda: answering.offer)
        try:
            body = await request.body()
            asked, (run, history) = await host.look(lambda: _read(body, offer))
        except InvalidRequest as unfit:
            return answer_error(unfit)
        begun = await host.start(run, client=getattr(request.state, "client", ""), history=history)
        watched = Watched(begun.id, asked.model, int(time.time()), f"{request.base_url}#/runs/{begun.id}")
        if asked.stream:
            with_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
            return ChunkStream(frames(host, watched, with_usage=with_usage))
        return await _whole(host, watched, request)

    return router


def _read(body: bytes, offer: Capabilities) -> tuple[CompletionRequest, ChatQuestion]:
    """A request, and the question that it is. For a thread: pictures make it long."""
    asked = _parsed(body)
    return asked, read(asked, offer)


def _parsed(body: bytes) -> CompletionRequest:
    """The body of a request.

    Raises:
        Unfit: If it is none.
    """
    try:
        return CompletionRequest.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part)[:40] for part in fault["loc"])
        message = fault_message(fault)
        raise InvalidRequest(f"{place}: {message}." if place else f"{message}.", param=place) from error


async def _whole(host: RunManager, watched: Watched, request: Request) -> Response:
    """The response when the run has ended.

    Raises:
        ClientLeft: If the client left first; the run is stopped.
        Refusal: If the run never began.
    """
    work = asyncio.ensure_future(_followed(host, watched.run))
    try:
        outline, reasoning = await attend(request, work, math.inf)
    except BaseException:
        await stop(host, watched.run)
        raise
    try:
        reply = reply_of(watched.run, outline, watched.url)
    except Refusal as failed:
        return answer_error(failed, _ONCE)
    message = CompletionMessage(
        content=reply.content, annotations=reply.annotations, reasoning_content=reasoning, vrag=reply.vrag
    )
    completion = Completion(
        id=watched.id,
        created=watched.created,
        model=watched.model,
        choices=(CompletionChoice(message=message, finish_reason="length" if reply.is_cut else "stop"),),
        usage=usage_of(outline),
    )
    return Response(completion.model_dump_json(), media_type="application/json")


async def _followed(host: RunManager, run: str) -> tuple[RunResult, str]:
    """A run when it has ended, with its thoughts and steps."""
    outline: RunResult | None = None
    reasoning, parts = Reasoning(), list[str]()
    async with aclosing(host.follow(run)) as events:
        async for event in events:
            outline = RunResult.of([event]) if outline is None else outline.plus(event)
            parts.append(reasoning.add(event))
    if outline is None:
        raise Refusal(500, "The run broke off.", "Ask again.")
    return outline, "".join(parts).strip()


_ONCE = {"x-should-retry": "false"}
"""OpenAI's clients ask again by themselves after a failure: that would be paid for again."""
_ANSWERS: Responses = {
    200: {
        "model": Completion,
        "content": {"text/event-stream": {}},
        "description": "The answer; with `stream`, chunks of it as server-sent events.",
    }
}


def _errors(*statuses: int) -> Responses:
    """What OpenAI says of these statuses, and of those that every route of this door has."""
    known = responses(408, *statuses)
    del known[422]
    told = {400: {"description": "Something in the request cannot be used."}, **known}
    return {status: {**answer, "model": ErrorBody} for status, answer in sorted(told.items(), key=str)}


def _body() -> dict[str, Any]:
    """What OpenAPI says of the body of a question."""
    schema = CompletionRequest.model_json_schema()
    parts: dict[str, Any] = schema.pop("$defs")
    content = {"application/json": {"schema": _whole_schema(schema, parts)}}
    return {"requestBody": {"required": True, "content": content}}


def _whole_schema(schema: Any, parts: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """A schema with its parts in the place of what refers to them: OpenAPI has others under these names."""
    match schema:
        case {"$ref": str(name), **rest}:
            return {**_whole_schema(parts[name.rpartition("/")[2]], parts), **rest}
        case dict():
            return {key: _whole_schema(value, parts) for key, value in cast("dict[str, Any]", schema).items()}
        case list():
            return [_whole_schema(value, parts) for value in cast("list[Any]", schema)]
        case _:
            return schema
