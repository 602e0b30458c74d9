"""The routes of the OpenAI interface: models and chat completions, whole or as a stream of chunks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, cast

from fastapi import APIRouter, Path, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from vrag.agent.events import Event
from vrag.agent.runs.run_meta import Via
from vrag.agent.runs.run_result import RunResult
from vrag.server.http.background import wait_for_client
from vrag.server.http.errors import Refusal, Responses, json_body, responses
from vrag.server.openai.draft_content import DraftContent
from vrag.server.openai.errors import ErrorBody, InvalidRequest, error_body, error_response
from vrag.server.openai.reply import (
    Chunk,
    ChunkChoice,
    ChunkDelta,
    Completion,
    CompletionChoice,
    CompletionMessage,
    Finish,
    Reasoning,
    build_reply,
    usage_of,
)
from vrag.server.openai.request import (
    ChatQuestion,
    CompletionRequest,
    ModelCard,
    ModelCards,
    find_model,
    model_cards,
    parse_request,
    read_question,
)
from vrag.server.runs.run_manager import RunManager, broken_off
from vrag.server.runs.sse import BEAT, STREAM_HEADERS, with_beats
from vrag.server.runs.user_runs import UserRuns, requester_of

_ANSWERS: Responses = {
    200: {
        "model": Completion,
        "content": {"text/event-stream": {}},
        "description": "The answer; with `stream`, chunks of it as server-sent events.",
    }
}


def openai_routes(manager: RunManager) -> APIRouter:
    """Build `/v1/models` and `/v1/chat/completions`. `ErrorShape` has to stand around the application."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    created = int(time.time())

    @router.get("/models", summary="Available models", responses=_errors(503))
    async def models() -> ModelCards:
        """Each agent is listed by itself and with each model it can use."""
        return model_cards(await manager.capabilities(), created)

    @router.get("/models/{id:path}", summary="A model", response_model=ModelCard, responses=_errors(404, 503))
    async def model(id: Annotated[str, Path(max_length=400)]) -> Response | ModelCard:
        """Describe a model; status 404 if the server does not have it."""
        offer = await manager.capabilities()
        try:
            find_model(id, offer)
        except InvalidRequest as invalid:
            return error_response(invalid)
        return ModelCard(id=id, created=created)

    @router.post(
        "/chat/completions",
        summary="Ask, as OpenAI's clients do",
        openapi_extra=json_body(_request_schema()),
        response_model=None,
        responses=_ANSWERS | _errors(404, 409, 429, 502, 503, 504),
    )
    async def complete(request: Request) -> Response:
        """The last message is the question; those before it are its conversation.

        A client that leaves stops its run.
        """
        offer = await manager.capabilities()

        def parse(body: bytes) -> tuple[CompletionRequest, ChatQuestion]:
            parsed = parse_request(body)
            return parsed, read_question(parsed, offer)

        try:
            body = await request.body()
            parsed, (run, history) = await manager.in_thread(lambda: parse(body))  # pictures make it long
        except InvalidRequest as invalid:
            return error_response(invalid)
        runs = UserRuns(manager, requester_of(request, Via.OPENAI))
        request.state.audit.note(collection=run.collection, question=run.question)
        summary = await runs.start(run, history=history)
        request.state.audit.note(run=summary.id)
        url = f"{request.base_url}#/runs/{summary.id}"
        answer = StartedAnswer(summary.id, parsed.model, int(time.time()), url)
        if parsed.stream:
            with_usage = parsed.stream_options is not None and bool(parsed.stream_options.include_usage)
            return ChunkStream(chunk_frames(runs, answer, with_usage=with_usage))
        return await _complete_response(runs, answer, request)

    return router


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """A run that was started for a request, and the common fields of its response."""

    run: str
    model: str
    """The name in the request."""
    created: int
    """Seconds since 1970."""
    url: str
    """Address of the run on this server's page."""

    @property
    def id(self) -> str:
        """The id of the response."""
        return f"chatcmpl-{self.run}"

    def delta_frame(self, delta: ChunkDelta, finish: Finish | None = None) -> bytes:
        """Encode a chunk that adds content."""
        return _frame(self._chunk(ChunkChoice(delta=delta, finish_reason=finish)))

    def usage_frame(self, outline: RunResult) -> bytes:
        """Encode the chunk with the usage, and nothing else."""
        return _frame(self._chunk().model_copy(update={"usage": usage_of(outline)}))

    def _chunk(self, *choices: ChunkChoice) -> Chunk:
        return Chunk(id=self.id, created=self.created, model=self.model, choices=choices)


async def _complete_response(runs: UserRuns, answer: StartedAnswer, request: Request) -> Response:
    """Build the response when the run has ended; the run is stopped if the client leaves."""
    reasoning, parts = Reasoning(), list[str]()

    async def collect(event: Event, _: RunResult) -> None:
        parts.append(reasoning.add(event))

    following = asyncio.ensure_future(runs.follow_to_end(answer.run, collect))
    try:
        outline = await wait_for_client(request, following, math.inf)
    except BaseException:
        await runs.stop(answer.run)
        raise
    try:
        reply = build_reply(answer.run, outline, answer.url)
    except Refusal as refusal:
        # OpenAI's clients repeat failed requests by themselves: that would be paid for again.
        return error_response(refusal, {"x-should-retry": "false"})
    message = CompletionMessage(
        content=reply.content,
        annotations=reply.annotations,
        reasoning_content="".join(parts).strip(),
        vrag=reply.vrag,
    )
    completion = Completion(
        id=answer.id,
        created=answer.created,
        model=answer.model,
        choices=(CompletionChoice(message=message, finish_reason="length" if reply.is_cut else "stop"),),
        usage=usage_of(outline),
    )
    return Response(completion.model_dump_json(), media_type="application/json")


class ChunkStream(StreamingResponse):
    """A streamed response; its frames are closed with it, however it ends."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(frames, 200, STREAM_HEADERS, "text/event-stream")
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, until it ends or the client leaves."""
        async with aclosing(self._frames):
            await super().__call__(scope, receive, send)


async def chunk_frames(
    runs: UserRuns, answer: StartedAnswer, *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield a run as chunks: thoughts, steps and answer as they come, then its evidence and the usage.

    Closed before the run has ended, it stops the run: nobody else waits for it.
    """
    outline: RunResult | None = None
    try:
        yield answer.delta_frame(ChunkDelta(role="assistant", content=""))
        reasoning, draft = Reasoning(), DraftContent()
        async with aclosing(with_beats(runs.follow(answer.run))) as events:
            async for event in events:
                if event is None:
                    yield BEAT
                    continue
                outline = RunResult.of([event]) if outline is None else outline.plus(event)
                thought, content = reasoning.add(event), draft.add(event)
                if thought or content:
                    yield answer.delta_frame(_delta(thought, content))
        if outline is None:
            raise broken_off()
        reply = build_reply(answer.run, outline, answer.url).after(draft.sent)
        for content in filter(None, (reply.answer[len(draft.sent) :], reply.sources)):
            yield answer.delta_frame(ChunkDelta(content=content))
        last = ChunkDelta(annotations=reply.annotations, vrag=reply.vrag)
        yield answer.delta_frame(last, "length" if reply.is_cut else "stop")
        if with_usage:
            yield answer.usage_frame(outline)
    except Refusal as refusal:
        yield _frame(error_body(refusal.status, str(refusal)))
    finally:
        if outline is None or outline.end is None:
            await runs.stop(answer.run)
    yield b"data: [DONE]\n\n"


def _delta(thought: str, content: str) -> ChunkDelta:
    """Return a piece of thought or of the answer; hardly ever both."""
    texts = {"reasoning_content": thought, "content": content}
    return ChunkDelta.model_validate({name: text for name, text in texts.items() if text})


def _frame(content: Chunk | ErrorBody) -> bytes:
    return f"data: {content.model_dump_json()}\n\n".encode()


def _errors(*statuses: int) -> Responses:
    """Describe these statuses, and those that every route of this interface has, for OpenAPI."""
    known = responses(*statuses, model=ErrorBody)
    return {400: {**known.pop(422), "description": "Part of the request is invalid."}, **known}


@cache
def _request_schema() -> dict[str, Any]:
    schema = CompletionRequest.model_json_schema()
    return _inline_references(schema, schema.pop("$defs"))


def _inline_references(schema: Any, parts: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Replace references to parts by the parts: the OpenAPI document has others under these names."""
    match schema:
        case {"$ref": str(name), **rest}:
            return {**_inline_references(parts[name.rpartition("/")[2]], parts), **rest}
        case dict():
            fields = cast("dict[str, Any]", schema)
            return {key: _inline_references(value, parts) for key, value in fields.items()}
        case list():
            return [_inline_references(value, parts) for value in cast("list[Any]", schema)]
        case _:
            return schema
