"""The routes of the OpenAI interfaces: models, chat completions and responses."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, cast

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from vrag.agent.events import Event
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_meta import Via
from vrag.agent.runs.run_result import RunResult
from vrag.server.http.background import wait_for_client
from vrag.server.http.errors import Refusal, Responses, json_body, responses
from vrag.server.openai.answer_format import JsonForm
from vrag.server.openai.answers import FinishedAnswer, PieceStream, StartedAnswer, answer_task
from vrag.server.openai.chat_tasks import ChatTask
from vrag.server.openai.completions import Completion, CompletionWriter
from vrag.server.openai.errors import ErrorBody, InvalidRequest, error_response
from vrag.server.openai.reply import Reasoning
from vrag.server.openai.request import (
    AnyRequest,
    ChatQuestion,
    CompletionRequest,
    ModelCard,
    ModelCards,
    ResponseRequest,
    find_model,
    ignored_names,
    model_cards,
    parse_request,
    read_question,
    read_task,
)
from vrag.server.openai.responses import ResponseObject, ResponseWriter
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.schema import RUN_ID, Capabilities
from vrag.server.runs.sse import STREAM_HEADERS
from vrag.server.runs.user_runs import UserRuns, requester_of

log = logging.getLogger("vrag.server.openai")
Suggest = Callable[[str | None], Sequence[str]]
"""Returns questions that the documents of a collection answer, or of all; blocks."""


def openai_routes(manager: RunManager, suggest: Suggest = lambda _: ()) -> APIRouter:
    """Build the routes below `/v1`. `ErrorShape` has to stand around the application."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    created = int(time.time())
    answerer = RequestAnswerer(manager, suggest)

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
        openapi_extra=json_body(_request_schema(CompletionRequest)),
        response_model=None,
        responses=_answers(Completion) | _errors(404, 409, 429, 502, 503, 504),
    )
    async def complete(request: Request) -> Response:
        """The last message is the question; those before it are its conversation.

        A client that leaves stops its run.
        """
        return await answerer.respond(request, CompletionRequest)

    @router.post(
        "/responses",
        summary="Ask, as OpenAI's clients do by its newer interface",
        openapi_extra=json_body(_request_schema(ResponseRequest)),
        response_model=None,
        responses=_answers(ResponseObject) | _errors(404, 409, 429, 502, 503, 504),
    )
    async def respond(request: Request) -> Response:
        """The last message of the input is the question; a client that leaves stops its run."""
        return await answerer.respond(request, ResponseRequest)

    return router


class AnswerWriter(Protocol):
    """The protocol of what writes an answer in the form of an interface."""

    def write(self, answer: FinishedAnswer, thoughts: str) -> BaseModel:
        """Return the whole response."""
        ...

    def frames(self, pieces: PieceStream) -> AsyncGenerator[bytes, None]:
        """Yield a stream of server-sent events; a `Refusal` becomes one."""
        ...


class _ReadRequest(NamedTuple):
    """A question, with the form in which a request wants the answer."""

    request: AnyRequest
    subject: ChatQuestion | ChatTask
    form: JsonForm | None


@dataclass(frozen=True, slots=True)
class RequestAnswerer:
    """Answers the requests of both interfaces."""

    manager: RunManager
    suggest: Suggest

    async def respond(self, request: Request, kind: type[AnyRequest]) -> Response:
        """Answer a request; an invalid one by an error."""
        offer = await self.manager.capabilities()
        try:
            body = await request.body()
            read = await self.manager.in_thread(lambda: _read(body, kind, offer))  # pictures make it long
            ignored = ignored_names(read.request, read.request.turns, read.form)
            if ignored:
                log.info("%s: ignored: %s", request.url.path, ", ".join(ignored))
            if isinstance(read.subject, ChatTask):
                return await self._answer_task(read, read.subject)
            return await self._answer_question(request, read, read.subject)
        except InvalidRequest as invalid:
            return error_response(invalid)

    async def _answer_task(self, read: _ReadRequest, task: ChatTask) -> Response:
        suggestions: Sequence[str] = ()
        if task.needs_suggestions:
            suggestions = await self.manager.in_thread(lambda: self.suggest(read.request.vrag.collection))
        answer = answer_task(task, read.form, suggestions)
        writer = _writer(read.request, secrets.token_hex(12))

        async def pieces() -> PieceStream:
            yield answer

        return FrameStream(writer.frames(pieces())) if read.request.stream else _whole(writer, answer)

    async def _answer_question(
        self, request: Request, read: _ReadRequest, question: ChatQuestion
    ) -> Response:
        runs = UserRuns(self.manager, requester_of(request, Via.OPENAI))
        run, history = question
        if isinstance(read.request, ResponseRequest) and read.request.previous_response_id:
            history = (*await _conversation(runs, read.request.previous_response_id), *history)
        request.state.audit.note(collection=run.collection, question=run.question)
        summary = await runs.start(run, history=history)
        request.state.audit.note(run=summary.id)
        answer = StartedAnswer(summary.id, f"{request.base_url}#/runs/{summary.id}", read.form)
        writer = _writer(read.request, summary.id)
        if read.request.stream:
            return FrameStream(
                writer.frames(answer.follow(runs)), partial(_stop_unfinished, runs, summary.id)
            )
        return await _wait_for_answer(runs, answer, writer, request)


def _read(body: bytes, kind: type[AnyRequest], offer: Capabilities) -> _ReadRequest:
    """Read the body of a request. Raises `InvalidRequest`."""
    request = parse_request(body, kind)
    find_model(request.model, offer)
    request.check()
    form = request.form
    try:
        task = read_task(request.turns)
        if task is None and form is not None:
            form.check()
        return _ReadRequest(request, task or read_question(request, request.turns, offer), form)
    except InvalidRequest as invalid:
        if invalid.param == "messages":
            invalid.param = request.turns_field
        raise


def _writer(request: AnyRequest, id: str) -> AnswerWriter:
    created = int(time.time())
    if isinstance(request, CompletionRequest):
        with_usage = bool(request.stream_options and request.stream_options.include_usage)
        return CompletionWriter(id, request.model, created, with_usage)
    return ResponseWriter(id, request.model, created, request.previous_response_id)


async def _conversation(runs: UserRuns, response: str) -> tuple[PreviousTurn, ...]:
    """Return the conversation that ends with an earlier response. Raises `InvalidRequest`."""
    run = response.removeprefix("resp_")
    try:
        if re.fullmatch(RUN_ID, run):
            return (await runs.stored(run)).conversation
    except Refusal as refusal:
        if refusal.status not in {403, 404}:
            raise
    hint = "It may have been deleted: send the conversation itself in the input."
    param, code = "previous_response_id", "previous_response_not_found"
    raise InvalidRequest("There is no such response.", hint, param=param, code=code)


def _whole(writer: AnswerWriter, answer: FinishedAnswer, thoughts: str = "") -> Response:
    return Response(writer.write(answer, thoughts).model_dump_json(), media_type="application/json")


async def _wait_for_answer(
    runs: UserRuns, answer: StartedAnswer, writer: AnswerWriter, request: Request
) -> Response:
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
        return _whole(writer, answer.finish(outline), "".join(parts).strip())
    except Refusal as refusal:
        # OpenAI's clients repeat failed requests by themselves: that would be paid for again.
        return error_response(refusal, {"x-should-retry": "false"})


async def _stop_unfinished(runs: UserRuns, run: str) -> None:
    """Stop a run that has not ended: nobody else waits for it."""
    if run in runs.manager.live:
        await runs.stop(run)


async def _do_nothing() -> None:
    return


class FrameStream(StreamingResponse):
    """A streamed response; its frames are closed with it, however it ends, and then `on_end` is awaited."""

    def __init__(
        self, frames: AsyncGenerator[bytes, None], on_end: Callable[[], Awaitable[None]] = _do_nothing
    ) -> None:
        super().__init__(frames, 200, STREAM_HEADERS, "text/event-stream")
        self._frames = frames
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, until it ends or the client leaves."""
        try:
            async with aclosing(self._frames):
                await super().__call__(scope, receive, send)
        finally:
            await self._on_end()


def _answers(model: type[BaseModel]) -> Responses:
    description = "The answer; with `stream`, pieces of it as server-sent events."
    return {200: {"model": model, "content": {"text/event-stream": {}}, "description": description}}


def _errors(*statuses: int) -> Responses:
    """Describe these statuses, and those that every route of this interface has, for OpenAPI."""
    known = responses(*statuses, model=ErrorBody)
    return {400: {**known.pop(422), "description": "Part of the request is invalid."}, **known}


def _request_schema(kind: type[BaseModel]) -> dict[str, Any]:
    schema = kind.model_json_schema()
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
