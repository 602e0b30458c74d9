"""Requests of the OpenAI interface: the models that they name, and the questions that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.question import PreviousTurn
from vrag.chat.messages import ChatImage, ChatMessage, ChatPart, ChatText
from vrag.server.http.errors import FrozenModel, fault_message, located_fault
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.reply import plain_answer
from vrag.server.runs.schema import Capabilities, RunOptions, RunRequest, at_most

OFFLINE = "offline"
"""Name of the policy without a model in this interface."""
_IGNORED_ROLES = frozenset({"system", "developer"})
"""Roles whose messages are accepted and not obeyed: an agent follows its own instruction."""
_MAX_TURNS, _MAX_PARTS = 10_000, 1000
"""Messages of a conversation, and parts of a message."""


class ModelCard(FrozenModel):
    """A model that a request may name: an agent, alone or with the model that writes its replies."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When the server was started, in seconds since 1970.")
    owned_by: Literal["vrag"] = "vrag"


class ModelCards(FrozenModel):
    """All models."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]


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


class VragOptions(RunOptions):
    """Options without a field in OpenAI's interface. The server's settings are the defaults."""


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
    """Look up a model name. Raises `InvalidRequest` if there is no model of that name (404)."""
    found = _model_names(offer).get(name)
    if found is None:
        message, hint = f"The model {name[:100]!r} does not exist.", "GET /v1/models lists those that do."
        raise InvalidRequest(message, hint, param="model", code="model_not_found", status=404)
    return found


def parse_request(body: bytes) -> CompletionRequest:
    """Parse the body of a request. Raises `InvalidRequest` if it is not one."""
    try:
        return CompletionRequest.model_validate_json(body)
    except ValidationError as error:
        place, message = located_fault(error.errors(include_input=False, include_url=False)[0])
        raise InvalidRequest(message, param=place) from error


def read_question(request: CompletionRequest, offer: Capabilities) -> ChatQuestion:
    """Read the question, its conversation and the agent; `offer` is what the server has."""
    _check_unsupported(request)
    agent, model = find_model(request.model, offer)
    conversation = [_chat_message(turn) for turn in request.messages if turn.role not in _IGNORED_ROLES]
    if not conversation or conversation[-1].role != "user":
        message = "The last message is not the user's."
        raise InvalidRequest(message, "End with the question.", param="messages")
    *earlier, last = conversation
    images = [part.url for part in last.parts if isinstance(part, ChatImage)]
    if any(url[:5].casefold() != "data:" for url in images):
        hint = "This server fetches nothing: send the picture itself, as data:image/png;base64,…"
        raise InvalidRequest("A picture is not a data URL.", hint, param="messages")
    fields = {
        **request.vrag.model_dump(),
        "question": _text(last),
        "agent": agent,
        "model": model,
        "images": [f"data:{url[5:]}" for url in images],
    }
    try:
        run = RunRequest.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        subject = "The pictures" if fault["loc"][:1] == ("images",) else "The question"
        message = f"{subject} cannot be used. {fault_message(fault)}."
        raise InvalidRequest(message, param="messages") from error
    return ChatQuestion(run, _history(earlier))


def _check_unsupported(request: CompletionRequest) -> None:
    no_tools = "An agent has its own actions and uses no {} of a client."
    unsupported = {
        "n": (request.n not in {None, 1}, "There is one answer to a question."),
        "tools": (bool(request.tools), no_tools.format("tools")),
        "functions": (bool(request.functions), no_tools.format("functions")),
        "response_format": (
            request.response_format not in (None, {"type": "text"}),
            "Answers are text; no other format is supported.",
        ),
        "logprobs": (
            bool(request.logprobs),
            "Answers come from several model calls and have no log-probabilities.",
        ),
        "modalities": (request.modalities not in (None, ["text"]), "Answers are text."),
    }
    for name, (is_set, reason) in unsupported.items():
        if is_set:
            raise InvalidRequest(reason, f"Leave out {name}.", param=name, code="unsupported_parameter")


def _chat_message(turn: RequestTurn) -> ChatMessage:
    """Read a message. Raises `InvalidRequest` if its role, or the type of a part, is not supported."""
    if turn.role not in {"user", "assistant"}:
        message = f"Messages of the role {turn.role[:20]!r} are not supported."
        raise InvalidRequest(message, "Send those of user and assistant.", param="messages")
    role = "user" if turn.role == "user" else "assistant"
    if not isinstance(turn.content, tuple):
        return ChatMessage(role, (ChatText(turn.content or ""),))
    parts: list[ChatPart] = []
    for part in turn.content:
        if part.type == "text":
            parts.append(ChatText(part.text or ""))
        elif part.type == "image_url":
            url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
            parts.append(ChatImage(url or ""))
        elif part.type != "refusal":
            message = f"Parts of the type {part.type[:30]!r} are not supported in a message."
            raise InvalidRequest(message, "Send text and image_url.", param="messages")
    return ChatMessage(role, tuple(parts))


def _text(message: ChatMessage) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, ChatText) and part.text)


def _history(messages: Sequence[ChatMessage]) -> tuple[PreviousTurn, ...]:
    """Pair questions with their answers; assistant messages before any question are left out."""
    history: list[PreviousTurn] = []
    for message in messages:
        text = _text(message)
        if message.role == "user":
            history.append(PreviousTurn(text, None))
        elif history:
            answers = filter(None, (history[-1].answer, plain_answer(text)))
            history[-1] = PreviousTurn(history[-1].question, "\n".join(answers) or None)
    return tuple(turn for turn in history if turn.question.strip())
