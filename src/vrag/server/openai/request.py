"""Requests of the OpenAI interface: the models that they name, and the questions that they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.question import PreviousTurn
from vrag.chat.messages import ChatImage, ChatMessage, ChatPart, ChatText
from vrag.server.http.errors import FrozenModel, fault_message, located_fault
from vrag.server.openai.answer_format import ALIASES, JsonForm, read_format
from vrag.server.openai.chat_tasks import ChatTask, find_task, own_words
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.reply import plain_answer
from vrag.server.runs.schema import Capabilities, RunOptions, RunRequest, at_most

NAME_WITHOUT_MODEL = "without-a-model"
"""Name of the policy without a model in this interface."""
_IGNORED_ROLES = frozenset({"system", "developer"})
"""Roles whose messages are accepted and not obeyed: an agent follows its own instruction."""
_TOOL_ROLES = frozenset({"tool", "function"})
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_IMAGE_TYPES = frozenset({"image_url", "input_image"})
_MAX_NAMES, _MAX_NAME_CHARS = 20, 40
"""Ignored fields that the log names."""
_OWN_CALL = re.compile(r"call_\d{8}-\d{6}-[0-9a-f-]+")
"""Ids of the calls by which this server gives answers: they hold the id of a run."""
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

    type: str = Field(description="`text` or `image_url`; also `input_text`, `input_image`.")
    text: str | None = None
    image_url: ImageUrl | str | None = None


class RequestTurn(_OpenModel):
    """A message."""

    role: str = Field(
        description="`user` or `assistant`; messages of `system`, `developer` and `tool` are ignored."
    )
    content: Annotated[str | tuple[RequestPart, ...] | None, at_most(_MAX_PARTS)] = None
    tool_calls: Any = None


class StreamOptions(_OpenModel):
    """Options of a stream."""

    include_usage: bool | None = Field(
        default=None, description="Whether a last chunk has the usage, and nothing else."
    )


class VragOptions(RunOptions):
    """Options without a field in OpenAI's interface. The server's settings are the defaults."""


class ClientRequest(_OpenModel):
    """The fields that the requests of both interfaces have. Others are accepted, and ignored."""

    model_config = ConfigDict(frozen=True, extra="allow")

    model: str = Field(description="One of GET /v1/models.")
    stream: bool | None = None
    tools: Any = Field(default=None, description="Tools of the client: an agent has its own and calls none.")
    tool_choice: Any = Field(
        default=None, description="If it demands a function, its arguments are the answer, where they fit it."
    )
    vrag: VragOptions = VragOptions()


class CompletionRequest(ClientRequest):
    """A chat completion request. Other fields, such as `temperature` and `max_tokens`, are ignored."""

    turns_field: ClassVar = "messages"

    messages: Annotated[tuple[RequestTurn, ...], at_most(_MAX_TURNS)] = Field(
        min_length=1, description="The conversation; the last message of the user is the question."
    )
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, description="1: there is one answer.")
    function_call: Any = None
    response_format: Any = Field(
        default=None, description="`text`, `json_object`, or `json_schema` with a field for the answer."
    )
    logprobs: Any = None
    modalities: Any = None

    def check(self) -> None:
        """Raise `InvalidRequest` if an option would change the answer and is not supported."""
        _refuse(
            n=self.n not in {None, 1} and "There is one answer to a question.",
            function_call=isinstance(self.function_call, dict)
            and "Functions are called by tools and tool_choice.",
            logprobs=self.logprobs and "Answers come from several model calls and have no log-probabilities.",
            modalities=self.modalities not in (None, ["text"]) and "Answers are text.",
        )

    @property
    def form(self) -> JsonForm | None:
        """The form of the answer; None for text. Raises `InvalidRequest` if it is not known."""
        return read_format(self.response_format, self.tools, self.tool_choice, "response_format")

    @property
    def turns(self) -> tuple[RequestTurn, ...]:
        """The messages."""
        return self.messages


class InputItem(_OpenModel):
    """A message, or a call of a tool, its result, or a thought, which are ignored."""

    type: str = "message"
    role: str = ""
    content: Annotated[str | tuple[RequestPart, ...] | None, at_most(_MAX_PARTS)] = None
    call_id: Any = Field(default=None, description="Id of the call of a function.")
    arguments: Any = Field(default=None, description="Its arguments, as JSON.")

    @property
    def turn(self) -> RequestTurn:
        """The message; what tools did is a message of `tool`."""
        if self.type == "function_call":
            call = {"id": self.call_id, "function": {"arguments": self.arguments}}
            return RequestTurn(role="assistant", tool_calls=[call])
        return RequestTurn(role=self.role if self.type == "message" else "tool", content=self.content)


class TextOptions(_OpenModel):
    """Options of the text of an answer."""

    format: Any = Field(
        default=None, description="`text`, `json_object`, or `json_schema` with a field for the answer."
    )


class ResponseRequest(ClientRequest):
    """A request for a response. Other fields, such as `instructions` and `store`, are ignored."""

    turns_field: ClassVar = "input"

    input: Annotated[str | tuple[InputItem, ...], at_most(_MAX_TURNS)] = Field(
        min_length=1, description="The question, or the conversation that ends with it."
    )
    previous_response_id: str | None = Field(
        default=None,
        max_length=100,
        description="A response that the question follows, with its conversation.",
    )
    text: TextOptions | None = None
    background: Any = None
    conversation: Any = None
    prompt: Any = None

    def check(self) -> None:
        """Raise `InvalidRequest` if an option would change the answer and is not supported."""
        _refuse(
            background=self.background and "An answer is sent in the response or its stream.",
            conversation=self.conversation and "Conversations are continued by previous_response_id.",
            prompt=self.prompt and "The question is in the input.",
        )
        if not isinstance(self.input, str) and any(item.type == "item_reference" for item in self.input):
            hint = "Send the message itself, or previous_response_id."
            raise InvalidRequest("References to items are not supported.", hint, param="input")

    @property
    def form(self) -> JsonForm | None:
        """The form of the answer; None for text. Raises `InvalidRequest` if it is not known."""
        wanted = self.text.format if self.text else None
        return read_format(wanted, self.tools, self.tool_choice, "text.format")

    @property
    def turns(self) -> tuple[RequestTurn, ...]:
        """The messages of the input; what tools did stands among them as messages of `tool`."""
        if isinstance(self.input, str):
            return (RequestTurn(role="user", content=self.input),)
        return tuple(item.turn for item in self.input)


def _refuse(**reasons: Any) -> None:  # noqa: ANN401 - a text, or what is false
    """Raise `InvalidRequest` for the first field that has a reason."""
    for name, reason in reasons.items():
        if reason:
            raise InvalidRequest(str(reason), f"Leave out {name}.", param=name, code="unsupported_parameter")


AnyRequest: TypeAlias = CompletionRequest | ResponseRequest


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
            names.setdefault(
                f"{agent.name}/{model.name or NAME_WITHOUT_MODEL}", NamedAgent(agent.name, model.name)
            )
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


def parse_request(body: bytes, kind: type[AnyRequest]) -> AnyRequest:
    """Parse the body of a request. Raises `InvalidRequest` if it is not one."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        fault = max(
            faults, key=lambda each: len(each["loc"])
        )  # of a field with several types, the most specific
        names = [part for part in fault["loc"] if isinstance(part, int) or part.isidentifier()]
        place, message = located_fault({**fault, "loc": [name for name in names if name != "str"]})
        raise InvalidRequest(message, param=place) from error


def read_task(turns: Sequence[RequestTurn]) -> ChatTask | None:
    """Return the side question of a chat program that a request is, if it is one."""
    if any(turn.role not in _IGNORED_ROLES | {"user"} for turn in turns):
        return None
    instructions = [_text(_parts(turn)) for turn in turns if turn.role in _IGNORED_ROLES]
    return find_task("\n".join(instructions), [_text(_parts(turn)) for turn in turns if turn.role == "user"])


def read_question(request: ClientRequest, turns: Sequence[RequestTurn], offer: Capabilities) -> ChatQuestion:
    """Read the question, its conversation and the agent; `offer` is what the server has.

    Raises `InvalidRequest` if there is no such model, or no question.
    """
    agent, model = find_model(request.model, offer)
    conversation = [_chat_message(turn) for turn in turns if not _is_ignored(turn)]
    if not conversation or conversation[-1].role != "user":
        raise InvalidRequest(
            "The last message is not the user's.", "End with the question.", param="messages"
        )
    *earlier, last = conversation
    images = [part.url for part in last.parts if isinstance(part, ChatImage)]
    if any(url[:5].casefold() != "data:" for url in images):
        hint = "This server fetches nothing: send the picture itself, as data:image/png;base64,…"
        raise InvalidRequest("A picture is not a data URL.", hint, param="messages")
    fields = {
        **request.vrag.model_dump(),
        "question": own_words(_text(last.parts)),
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


def ignored_names(request: ClientRequest, turns: Sequence[RequestTurn], form: JsonForm | None) -> list[str]:
    """Return the names of what a request has and nothing is done with, such as `temperature`."""
    names = [name for name, value in (request.model_extra or {}).items() if value is not None]
    names += ["tools"] if request.tools and not (form and form.function) else []
    roles = dict.fromkeys("tool" if turn.tool_calls else turn.role for turn in turns if _is_ignored(turn))
    names += [f"messages of {role}" for role in roles]
    shown = [re.sub(r"[^\w. -]", "?", name[:_MAX_NAME_CHARS]) for name in names[:_MAX_NAMES]]
    return sorted(shown) + (["…"] if len(names) > _MAX_NAMES else [])


def _is_ignored(turn: RequestTurn) -> bool:
    """Return whether a message has no part in the conversation: instructions, and the calls of tools."""
    if turn.role == "assistant" and turn.tool_calls:
        return _called_answer(turn) is None
    return turn.role in _IGNORED_ROLES | _TOOL_ROLES


def _called_answer(turn: RequestTurn) -> str | None:
    """Return the answer that this server gave as the arguments of a function; None for other calls."""
    with suppress(KeyError, TypeError, ValueError):  # what another server may have written
        [call] = turn.tool_calls
        arguments: Any = json.loads(call["function"]["arguments"])
        answer = next((arguments[name] for name in ALIASES["answer"] if name in arguments), None)
        if _OWN_CALL.fullmatch(call["id"]) and isinstance(answer, str) and answer.strip():
            return answer
    return None


def _chat_message(turn: RequestTurn) -> ChatMessage:
    """Read a message. Raises `InvalidRequest` if its role, or the type of a part, is not supported."""
    if turn.role not in {"user", "assistant"}:
        message = f"Messages of the role {turn.role[:20]!r} are not supported."
        raise InvalidRequest(message, "Send those of user and assistant.", param="messages")
    if (answer := _called_answer(turn)) is not None:
        return ChatMessage("assistant", (ChatText(answer),))
    return ChatMessage("user" if turn.role == "user" else "assistant", _parts(turn))


def _parts(turn: RequestTurn) -> tuple[ChatPart, ...]:
    """Read the parts of a message; of others than the user, only texts."""
    if not isinstance(turn.content, tuple):
        return (ChatText(turn.content or ""),)
    parts: list[ChatPart] = []
    for part in turn.content:
        if part.type in _TEXT_TYPES:
            parts.append(ChatText(part.text or ""))
        elif part.type in _IMAGE_TYPES:
            url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
            parts.append(ChatImage(url or ""))
        elif part.type != "refusal" and turn.role == "user":
            message = f"Parts of the type {part.type[:30]!r} are not supported in a message."
            raise InvalidRequest(message, "Send text and image_url.", param="messages")
    return tuple(parts)


def _text(parts: Sequence[ChatPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, ChatText) and part.text)


def _history(messages: Sequence[ChatMessage]) -> tuple[PreviousTurn, ...]:
    """Pair questions with their answers; assistant messages before any question are left out."""
    history: list[PreviousTurn] = []
    for message in messages:
        text = _text(message.parts)
        if message.role == "user":
            history.append(PreviousTurn(text, None))
        elif history:
            answers = filter(None, (history[-1].answer, plain_answer(text)))
            history[-1] = PreviousTurn(history[-1].question, "\n".join(answers) or None)
    return tuple(turn for turn in history if turn.question.strip())
