"""A chat completion request becomes a question, its conversation, and a choice of agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.question import PreviousTurn
from vrag.server.http.value_errors import fault_message
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.models import model_named
from vrag.server.openai.reply import plain_answer
from vrag.server.runs.schema import DOCUMENTS, MAX_HITS, MAX_STEPS, RunRequest, Thinking, at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.server.runs.schema import Capabilities

__all__ = [
    "ChatQuestion",
    "CompletionRequest",
    "ImageUrl",
    "RequestPart",
    "RequestTurn",
    "StreamOptions",
    "VragOptions",
    "read",
]

_UNHEARD = frozenset({"system", "developer"})
"""Roles whose messages are taken and not obeyed: what governs an agent is its own instruction."""
_TURNS, _PARTS = 10_000, 1000
"""Messages of a conversation, and parts of a message."""
_NO_FETCHING = "This server fetches nothing: send the picture itself, as data:image/png;base64,…"


class _Open(BaseModel):
    """Other fields are ignored, as servers of this interface do."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ImageUrl(_Open):
    """A picture."""

    url: str = Field(description="A data URL of a JPEG, PNG or WebP file. No address is ever fetched.")


class RequestPart(_Open):
    """A part of a message."""

    type: str = Field(description="`text` or `image_url`.")
    text: str | None = None
    image_url: ImageUrl | str | None = None


class RequestTurn(_Open):
    """A message."""

    role: str = Field(description="`user` or `assistant`; what `system` and `developer` say is not obeyed.")
    content: Annotated[str | tuple[RequestPart, ...] | None, at_most(_PARTS)] = None


class StreamOptions(_Open):
    """What a stream holds."""

    include_usage: bool | None = Field(
        default=None, description="Whether the last chunk tells what was used, and holds nothing else."
    )


class VragOptions(BaseModel):
    """Choices that OpenAI's fields have no place for. What is left out is as the server's settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collection: str | None = Field(default=None, description="Where to look; all collections when absent.")
    documents: Annotated[tuple[str, ...] | None, at_most(DOCUMENTS)] = Field(
        default=None, description="Ids of the documents to look at; all when absent."
    )
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS, description="Model calls at most.")
    top_k: int | None = Field(default=None, ge=1, le=MAX_HITS, description="Hits of a search.")
    thinking: Thinking | None = Field(
        default=None, description="Whether the model thinks apart from its reply."
    )


class CompletionRequest(_Open):
    """The fields that matter here. Others, such as `temperature` and `max_tokens`, are ignored."""

    model: str = Field(description="One of GET /v1/models.")
    messages: Annotated[tuple[RequestTurn, ...], at_most(_TURNS)] = Field(
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
    """A request as a run host takes it."""

    run: RunRequest
    history: tuple[PreviousTurn, ...]


def read(request: CompletionRequest, offer: Capabilities) -> ChatQuestion:
    """What is asked.

    Args:
        request: As it came.
        offer: What may be asked for.

    Raises:
        Unfit: If it asks for what cannot be.
    """
    _check(request)
    agent, model = model_named(request.model, offer)
    *before, last = _heard(request.messages)
    question, images = _text(last, "the question"), _images(last)
    try:
        run = RunRequest.model_validate(
            {
                **request.vrag.model_dump(),
                "question": question,
                "agent": agent,
                "model": model,
                "images": images,
            }
        )
    except ValidationError as error:
        raise _unfit(error) from error
    return ChatQuestion(run, _history(before))


def _check(request: CompletionRequest) -> None:
    """Refuses what would change the answer and cannot be had."""
    refused = {
        "n": request.n not in {None, 1},
        "tools": bool(request.tools),
        "functions": bool(request.functions),
        "response_format": request.response_format not in (None, {"type": "text"}),
        "logprobs": bool(request.logprobs),
        "modalities": request.modalities not in (None, ["text"]),
    }
    reasons = {
        "n": "There is one answer to a question.",
        "tools": "An agent takes its own actions and no tools of a client.",
        "functions": "An agent takes its own actions and no functions of a client.",
        "response_format": "Answers are text; a form for them cannot be asked for.",
        "logprobs": "An answer comes of several model calls: it has no log-probabilities.",
        "modalities": "Answers are text.",
    }
    for name, is_refused in refused.items():
        if is_refused:
            raise InvalidRequest(
                reasons[name], f"Leave out {name}.", param=name, code="unsupported_parameter"
            )


def _heard(turns: Sequence[RequestTurn]) -> list[RequestTurn]:
    """The messages of user and assistant; the last one is the user's.

    Raises:
        Unfit: If it is not, or there are messages of other roles.
    """
    heard = [turn for turn in turns if turn.role not in _UNHEARD]
    for turn in heard:
        if turn.role not in {"user", "assistant"}:
            raise InvalidRequest(
                f"Messages of the role {turn.role[:20]!r} cannot be used.",
                "Send those of user and assistant.",
                param="messages",
            )
    if not heard or heard[-1].role != "user":
        raise InvalidRequest(
            "The last message is not the user's.", "End with the question.", param="messages"
        )
    return heard


def _history(turns: Sequence[RequestTurn]) -> tuple[PreviousTurn, ...]:
    """Questions with what was answered; what an assistant said before any question is left out."""
    exchanges: list[PreviousTurn] = []
    for turn in turns:
        text = _text(turn, "a message")
        if turn.role == "user":
            exchanges.append(PreviousTurn(text, None))
        elif exchanges:
            said = filter(None, (exchanges[-1].answer, plain_answer(text)))
            exchanges[-1] = PreviousTurn(exchanges[-1].question, "\n".join(said) or None)
    return tuple(exchange for exchange in exchanges if exchange.question.strip())


def _text(turn: RequestTurn, what: str) -> str:
    """The text of a message, its parts joined by lines.

    Raises:
        Unfit: If it has parts that are neither text nor picture.
    """
    if not isinstance(turn.content, tuple):
        return turn.content or ""
    for part in turn.content:
        if part.type not in {"text", "image_url", "refusal"}:
            raise InvalidRequest(
                f"Parts of the type {part.type[:30]!r} cannot be used in {what}.",
                "Send text and image_url.",
                param="messages",
            )
    return "\n".join(part.text for part in turn.content if part.text and part.type == "text")


def _images(turn: RequestTurn) -> list[str]:
    """The data URLs of the pictures of a message.

    Raises:
        Unfit: If one is an address, or there is none where one should be.
    """
    if not isinstance(turn.content, tuple):
        return []
    return [_data_url(part) for part in turn.content if part.type == "image_url"]


def _data_url(part: RequestPart) -> str:
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if not url[:5].casefold() == "data:":
        raise InvalidRequest("A picture is not a data URL.", _NO_FETCHING, param="messages")
    return f"data:{url[5:]}"


def _unfit(error: ValidationError) -> InvalidRequest:
    """What the model of a run does not take, told of the field that it came from."""
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    message = fault_message(fault)
    match name:
        case "question":
            return InvalidRequest(f"The question cannot be used. {message}.", param="messages")
        case "images":
            return InvalidRequest(f"The pictures cannot be used. {message}.", param="messages")
        case _:
            return InvalidRequest(f"{name} cannot be used. {message}.", param=f"vrag.{name}")
