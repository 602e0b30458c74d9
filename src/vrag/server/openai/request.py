"""Requests of the OpenAI interface: the models that they name, and the questions that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.question import PreviousTurn
from vrag.server.http.errors import fault_message
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.reply import plain_answer
from vrag.server.openai.schema import ModelCard, ModelCards
from vrag.server.runs.schema import MAX_DOCUMENTS, MAX_HITS, MAX_STEPS, RunRequest, Thinking, at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.server.runs.schema import Capabilities

OFFLINE = "offline"
"""Name of the policy without a model in this interface."""
_MAX_NAME_CHARS = 100
"""Characters of an unknown name that are repeated."""
_IGNORED_ROLES = frozenset({"system", "developer"})
"""Roles whose messages are accepted and not obeyed: an agent follows its own instruction."""
_MAX_TURNS, _MAX_PARTS = 10_000, 1000
"""Messages of a conversation, and parts of a message."""
_NO_FETCHING = "This server fetches nothing: send the picture itself, as data:image/png;base64,…"


class _OpenModel(BaseModel):
    """A model that ignores other fields, as servers of this interface do."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ImageUrl(_OpenModel):
    """A picture."""

    url: str = Field(description="A data URL of a JPEG, PNG or WebP file. No address is ever fetched.")


class RequestPart(_OpenModel):
    """A part of a message."""

    type: str = Field(description="`text` or `image_url`.")
    text: str | None = None
    image_url: ImageUrl | str | None = None


class RequestTurn(_OpenModel):
    """A message."""

    role: str = Field(
        description="`user` or `assistant`; messages of `system` and `developer` are not obeyed."
    )
    content: Annotated[str | tuple[RequestPart, ...] | None, at_most(_MAX_PARTS)] = None


class StreamOptions(_OpenModel):
    """Options of a stream."""

    include_usage: bool | None = Field(
        default=None, description="Whether a last chunk has the usage, and nothing else."
    )


class VragOptions(BaseModel):
    """Options without a field in OpenAI's interface. The server's settings are the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collection: str | None = Field(default=None, description="The collection to search; all if absent.")
    documents: Annotated[tuple[str, ...] | None, at_most(MAX_DOCUMENTS)] = Field(
        default=None, description="Ids of the documents to search; all if absent."
    )
    max_steps: int | None = Field(
        default=None, ge=1, le=MAX_STEPS, description="Maximum number of model calls."
    )
    top_k: int | None = Field(default=None, ge=1, le=MAX_HITS, description="Hits per search.")
    thinking: Thinking | None = Field(default=None, description="Whether the model thinks before its reply.")


class CompletionRequest(_OpenModel):
    """A chat completion request. Other fields, such as `temperature` and `max_tokens`, are ignored."""

    model: str = Field(description="One of GET /v1/models.")
    messages: Annotated[tuple[RequestTurn, ...], at_most(_MAX_TURNS)] = Field(
        min_length=1, description="The conversation; the last message is the question."
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, description="1: there is one answer.")
    tools: Any = None
    functions: Any = None
    response_format: Any = None
    logprobs: Any = None
    modalities: Any = None
    vrag: VragOptions = VragOptions()


class ChatQuestion(NamedTuple):
    """The run that a request starts."""

    run: RunRequest
    history: tuple[PreviousTurn, ...]


class NamedAgent(NamedTuple):
    """The agent and model that a model name stands for, as in a `RunRequest`."""

    agent: str
    model: str | None
    """None for the server's default."""


def _model_names(offer: Capabilities) -> dict[str, NamedAgent]:
    """Return all names, the agents alone first."""
    names = {agent.name: NamedAgent(agent.name, None) for agent in offer.agents}
    for agent in offer.agents:
        for model in offer.models:
            names.setdefault(f"{agent.name}/{model.name or OFFLINE}", NamedAgent(agent.name, model.name))
    return names


def model_cards(offer: Capabilities, created: int) -> ModelCards:
    """List every model that a request may name."""
    return ModelCards(data=tuple(ModelCard(id=name, created=created) for name in _model_names(offer)))


def find_model(name: str, offer: Capabilities) -> NamedAgent:
    """Look up a model name.

    Raises:
        InvalidRequest: If there is no model of that name (404).
    """
    found = _model_names(offer).get(name)
    if found is None:
        raise InvalidRequest(
            f"The model {name[:_MAX_NAME_CHARS]!r} does not exist.",
            "GET /v1/models lists those that do.",
            param="model",
            code="model_not_found",
            status=404,
        )
    return found


def parse_request(body: bytes) -> CompletionRequest:
    """Parse the body of a request.

    Raises:
        InvalidRequest: If it is not one.
    """
    try:
        return CompletionRequest.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part)[:40] for part in fault["loc"])
        message = fault_message(fault)
        raise InvalidRequest(f"{place}: {message}." if place else f"{message}.", param=place) from error


def read_question(request: CompletionRequest, offer: Capabilities) -> ChatQuestion:
    """Read the question, its conversation and the agent; `offer` is what the server has.

    Raises:
        InvalidRequest: If the request cannot be fulfilled.
    """
    _check_unsupported(request)
    agent, model = find_model(request.model, offer)
    *earlier, last = _conversation(request.messages)
    fields = {
        **request.vrag.model_dump(),
        "question": _text(last, "the question"),
        "agent": agent,
        "model": model,
        "images": _images(last),
    }
    try:
        run = RunRequest.model_validate(fields)
    except ValidationError as error:
        raise _invalid_run(error) from error
    return ChatQuestion(run, _history(earlier))


def _check_unsupported(request: CompletionRequest) -> None:
    """Refuse options that would change the answer and are not supported."""
    unsupported = {
        "n": (request.n not in {None, 1}, "There is one answer to a question."),
        "tools": (bool(request.tools), "An agent has its own actions and uses no tools of a client."),
        "functions": (
            bool(request.functions),
            "An agent has its own actions and uses no functions of a client.",
        ),
        "response_format": (
            request.response_format not in (None, {"type": "text"}),
            "Answers are text; no other format is supported.",
        ),
        "logprobs": (
            bool(request.logprobs),
            "An answer comes from several model calls: it has no log-probabilities.",
        ),
        "modalities": (request.modalities not in (None, ["text"]), "Answers are text."),
    }
    for name, (is_set, reason) in unsupported.items():
        if is_set:
            raise InvalidRequest(reason, f"Leave out {name}.", param=name, code="unsupported_parameter")


def _conversation(turns: Sequence[RequestTurn]) -> list[RequestTurn]:
    """Return the messages of user and assistant; the last one is the user's.

    Raises:
        InvalidRequest: If it is not, or there are messages of other roles.
    """
    conversation = [turn for turn in turns if turn.role not in _IGNORED_ROLES]
    for turn in conversation:
        if turn.role not in {"user", "assistant"}:
            message = f"Messages of the role {turn.role[:20]!r} are not supported."
            raise InvalidRequest(message, "Send those of user and assistant.", param="messages")
    if not conversation or conversation[-1].role != "user":
        message = "The last message is not the user's."
        raise InvalidRequest(message, "End with the question.", param="messages")
    return conversation


def _history(turns: Sequence[RequestTurn]) -> tuple[PreviousTurn, ...]:
    """Pair questions with their answers; assistant messages before any question are left out."""
    history: list[PreviousTurn] = []
    for turn in turns:
        text = _text(turn, "a message")
        if turn.role == "user":
            history.append(PreviousTurn(text, None))
        elif history:
            answers = filter(None, (history[-1].answer, plain_answer(text)))
            history[-1] = PreviousTurn(history[-1].question, "\n".join(answers) or None)
    return tuple(turn for turn in history if turn.question.strip())


def _text(turn: RequestTurn, place: str) -> str:
    """Join the text parts of a message by lines.

    Raises:
        InvalidRequest: If it has parts that are neither text nor picture.
    """
    if not isinstance(turn.content, tuple):
        return turn.content or ""
    for part in turn.content:
        if part.type not in {"text", "image_url", "refusal"}:
            message = f"Parts of the type {part.type[:30]!r} are not supported in {place}."
            raise InvalidRequest(message, "Send text and image_url.", param="messages")
    return "\n".join(part.text for part in turn.content if part.text and part.type == "text")


def _images(turn: RequestTurn) -> list[str]:
    """Return the data URLs of the pictures of a message.

    Raises:
        InvalidRequest: If one is an address, or there is none where one should be.
    """
    if not isinstance(turn.content, tuple):
        return []
    urls: list[str] = []
    for part in turn.content:
        if part.type != "image_url":
            continue
        url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
        if url[:5].casefold() != "data:":
            raise InvalidRequest("A picture is not a data URL.", _NO_FETCHING, param="messages")
        urls.append(f"data:{url[5:]}")
    return urls


def _invalid_run(error: ValidationError) -> InvalidRequest:
    """Explain an invalid run by the field of the request that it came from."""
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    subject, param = {
        "question": ("The question", "messages"),
        "images": ("The pictures", "messages"),
    }.get(name, (name, f"vrag.{name}"))
    return InvalidRequest(f"{subject} cannot be used. {fault_message(fault)}.", param=param)
