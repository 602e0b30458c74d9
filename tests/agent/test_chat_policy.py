"""A language model as a policy: what it is told, and how its reply becomes one text."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from contextlib import aclosing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer, Refuse, Say
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.actions import Answer, Invalid, parse
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policy import (
    Delta,
    FinishReason,
    Message,
    Picture,
    Policy,
    Reply,
    Retry,
    Role,
    Sampled,
    Text,
    Tokens,
)
from vrag.agent.replies.call_parser import parse_call
from vrag.agent.replies.tool_calls import SearchNode
from vrag.chat import (
    ChatDelta,
    ChatImage,
    ChatOptions,
    ChatReply,
    ChatRetries,
    ChatRetry,
    OpenAIChat,
    ToolCall,
)
from vrag.errors import ContextTooLong, ModelError
from vrag.geometry import Size, View

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.chat import ChatMessage, ChatModel

Part = ChatDelta | ChatRetry | ChatReply


@dataclass
class ScriptedModel:
    """Streams the given parts, or raises: the one thing that a policy sees of a model."""

    parts: Sequence[Part | Exception]
    name: str = "tiny"
    heard: list[Sequence[ChatMessage]] = field(default_factory=list["Sequence[ChatMessage]"])
    closed: int = 0
    ended: bool = False

    async def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions | None = None
    ) -> AsyncGenerator[Part, None]:
        self.heard.append(messages)
        try:
            for part in self.parts:
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.ended = True

    async def aclose(self) -> None:
        self.closed += 1


QUESTION = (Message(Role.USER, (Text("Look."), Text("How many?"))),)


def told(policy: Policy, history: Sequence[Message] = QUESTION) -> list[Delta | Retry | Reply]:
    async def all_of_it() -> list[Delta | Retry | Reply]:
        return [part async for part in policy.reply(history)]

    return asyncio.run(all_of_it())


def reply_to(*parts: Part, **whole: Any) -> Reply:  # noqa: ANN401 - fields of the reply
    """The reply of a policy whose model says this, which must agree with its deltas."""
    deltas = [part for part in parts if isinstance(part, ChatDelta)]
    said: dict[str, Any] = {
        "text": "".join(delta.text for delta in deltas if not delta.thought),
        "thought": "".join(delta.text for delta in deltas if delta.thought),
    }
    *before, last = told(ChatPolicy(ScriptedModel([*parts, ChatReply(**(said | whole))])))
    assert isinstance(last, Reply)
    since = max((at for at, part in enumerate(before) if isinstance(part, Retry)), default=-1) + 1
    assert last.text == "".join(part.text for part in before[since:] if isinstance(part, Delta))
    assert all(part.text for part in before if isinstance(part, Delta))
    return last


def think(text: str) -> ChatDelta:
    return ChatDelta(text, thought=True)


def picture(colour: str) -> Picture:
    jpeg = f"the file of a {colour} picture".encode()
    size = Size(56, 56)
    digest = hashlib.sha256(jpeg).hexdigest()
    view = View.whole(size, size)
    return Picture(number=1, item="item", view=view, jpeg=jpeg, sha256=digest, crop=False)


def test_a_model_is_told_the_history_with_its_pictures_as_data_urls() -> None:
    red = picture("red")
    history = (
        Message(Role.SYSTEM, (Text("Be brief."),)),
        *QUESTION,
        Message(Role.ASSISTANT, (Text("<search>x</search>"),)),
        Message(Role.USER, (Text("Image 1:"), red)),
    )
    model = ScriptedModel([ChatReply(text="")])
    told(ChatPolicy(model), history)
    messages = model.heard[0]
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    image = messages[3].parts[1]
    assert isinstance(image, ChatImage)
    head, _, data = image.url.partition(",")
    assert head == "data:image/jpeg;base64"
    assert base64.b64decode(data) == red.jpeg


def test_a_picture_is_encoded_once_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[bytes] = []

    def b64encode(data: bytes) -> bytes:
        encoded.append(data)
        return base64.b64encode(data)

    monkeypatch.setattr("vrag.agent.policies.chat.base64", SimpleNamespace(b64encode=b64encode))
    monkeypatch.setattr("vrag.agent.policies.chat._MAX_CACHED_CHARS", 160)  # two of them
    policy = ChatPolicy(ScriptedModel([ChatReply(text="")]))
    red, blue, grey = (picture(colour) for colour in ("red", "blue", "grey"))
    for shown in (red, blue, red, red, grey, red, blue):
        told(policy, (Message(Role.USER, (shown,)),))
    assert encoded == [red.jpeg, blue.jpeg, grey.jpeg, blue.jpeg]


def test_a_thought_comes_first_between_its_tags() -> None:
    reply = reply_to(think("It is "), think("on page 2."), ChatDelta("\n\n"), ChatDelta("<answer>2</answer>"))
    assert reply.text == "<think>It is on page 2.</think>\n<answer>2</answer>"
    assert parse(reply.text).thought == "It is on page 2."
    assert parse(reply.text).action == Answer("2")


def test_a_reply_without_a_thought_is_left_as_it_is() -> None:
    text = " \n<think>hm</think>\n<answer>2</answer>\n"
    assert reply_to(*(ChatDelta(letter) for letter in text)).text == text
    assert reply_to(ChatDelta("\n")).text == "\n"


def test_a_thought_streams_as_it_comes() -> None:
    parts = [think("one "), think("two "), ChatDelta("<answer>2</answer>"), ChatReply(text="")]
    deltas = [part.text for part in told(ChatPolicy(ScriptedModel(parts))) if isinstance(part, Delta)]
    assert deltas == ["<think>one ", "two ", "</think>\n<answer>2</answer>"]


def test_a_model_that_writes_a_thought_of_its_own_too_keeps_both() -> None:
    reply = reply_to(think("first"), ChatDelta("<think>second</think><answer>2</answer>"))
    assert parse(reply.text).thought == "first\nsecond"
    assert parse(reply.text).action == Answer("2")


@given(
    st.lists(
        st.sampled_from(["a < b", "</think>", "<think>", "<answer>9</answer>", "</TH", "ink >", "<", ">"])
    ),
    st.integers(1, 5),
)
def test_a_thought_does_not_end_at_a_tag_that_it_mentions(words: list[str], size: int) -> None:
    thought = "".join(words)
    pieces = [think(thought[at : at + size]) for at in range(0, len(thought), size)]
    reply = reply_to(*pieces, ChatDelta("<answer>2</answer>"))
    assert parse(reply.text).action == Answer("2")


def test_a_thought_that_was_cut_off_stays_open() -> None:
    reply = reply_to(think("It is <"), finish="length")
    assert (reply.text, reply.finish) == ("<think>It is <", FinishReason.LENGTH)
    assert parse(reply.text).action == Invalid("The think block is never closed.")


def test_a_model_that_only_thinks_has_done_nothing() -> None:
    assert reply_to(think("It is on page 2.")).text == "<think>It is on page 2.</think>\n"


def test_a_thought_after_the_reply_has_begun_is_left_out() -> None:
    assert reply_to(ChatDelta("<answer>2</answer>"), think("done")).text == "<answer>2</answer>"


def test_a_native_tool_call_is_the_same_as_a_written_one() -> None:
    arguments = json.dumps({"id": "prices", "parent_ids": ["root"], "query": "ferry prices"})
    reply = reply_to(think("Look it up."), tool_calls=(ToolCall("1", "add_search_node", arguments),))
    turn = parse_call(reply.text)
    assert turn.action == SearchNode("prices", ("root",), "ferry prices")
    assert turn.thought == "Look it up."


def test_a_written_tool_call_wins_over_a_native_one() -> None:
    written = '<tool_call>{"name": "x", "arguments": {}}</tool_call>'
    assert reply_to(ChatDelta(written), tool_calls=(ToolCall("1", "y", "{}"),)).text == written


@pytest.mark.parametrize("inline", [False, True])
def test_a_thought_that_mentions_the_tag_of_a_tool_call_loses_no_native_one(inline: bool) -> None:
    thought = 'I could write <tool_call>{"name": "x"}</tool_call> or call it.'
    said = ChatDelta(f"<think>{thought}</think>\n") if inline else think(thought)
    arguments = json.dumps({"id": "prices", "parent_ids": ["root"], "query": "ferry prices"})
    turn = parse_call(reply_to(said, tool_calls=(ToolCall("1", "add_search_node", arguments),)).text)
    assert turn.action == SearchNode("prices", ("root",), "ferry prices")
    assert turn.thought == thought


def meant_by(arguments: str) -> object:
    """The JSON that it is, in the strict sense, else itself."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(arguments or "{}", parse_constant=refuse)
    except ValueError:
        return arguments


@given(
    st.text(max_size=30) | st.sampled_from(["{}", "", "[1]", "NaN", "</tool_call>", '{"a": "</tool_call>"}'])
)
def test_any_arguments_of_a_native_call_stay_inside_its_tags(arguments: str) -> None:
    text = reply_to(tool_calls=(ToolCall("1", "f", arguments),)).text
    text.encode()
    inner = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert "</tool_call>" not in inner
    call = json.loads(inner)
    assert call["name"] == "f"
    assert call["arguments"] == meant_by(arguments)


def test_arguments_with_half_a_surrogate_pair_can_be_written_down() -> None:
    reply_to(tool_calls=(ToolCall("1", "f", r'{"a": "\ud83d"}'),)).text.encode()


def test_what_came_before_a_retry_does_not_count() -> None:
    reply = reply_to(
        think("wro"),
        ChatDelta("<ans"),
        ChatRetry("it broke", 0.5),
        think("right"),
        ChatDelta("<answer>2</answer>"),
    )
    assert reply.text == "<think>right</think>\n<answer>2</answer>"


def test_a_reply_carries_its_cost_and_its_tokens() -> None:
    reply = reply_to(
        ChatDelta("yes"),
        tokens=Tokens(prompt=10, completion=2, cached=4),
        sampled=Sampled(prompt_ids=(1, 2), ids=(3,), logprobs=(-0.5,)),
    )
    assert (reply.tokens.prompt, reply.tokens.completion, reply.tokens.cached) == (10, 2, 4)
    assert reply.sampled == Sampled(prompt_ids=(1, 2), ids=(3,), logprobs=(-0.5,))


@pytest.mark.parametrize(
    ("finish", "meant"), [("stop", "stop"), ("length", "length"), ("tool_calls", "stop")]
)
def test_the_finish_is_told_in_our_words(finish: str, meant: str) -> None:
    assert reply_to(ChatDelta("yes"), finish=finish).finish == meant


def test_a_reply_that_was_withheld_or_never_came_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="filter"):
        reply_to(ChatDelta("I"), finish="content_filter")
    with pytest.raises(ModelError, match="without a reply"):
        told(ChatPolicy(ScriptedModel([ChatDelta("yes")])))


def test_errors_of_the_model_come_through() -> None:
    with pytest.raises(ContextTooLong):
        told(ChatPolicy(ScriptedModel([ContextTooLong("too long")])))


def test_giving_up_a_reply_gives_up_the_models() -> None:
    async def give_up(model: ScriptedModel) -> None:
        async with aclosing(ChatPolicy(model).reply(QUESTION)) as parts:
            await anext(parts)
        assert model.ended

    asyncio.run(give_up(ScriptedModel([ChatDelta("yes"), ChatReply(text="yes")])))


def test_a_run_file_learns_how_was_sampled_and_nothing_more() -> None:
    options = ChatOptions(temperature=0.0, max_tokens=512, stop=("</s>",), extra={"top_k": 20, "list": [1]})
    model: ChatModel = ScriptedModel([])
    policy: Policy = ChatPolicy(model, options)
    assert policy.name == "chat:tiny"
    assert ChatPolicy(model, name="mine").name == "mine"
    assert dict(policy.sampling) == {
        "model": "tiny",
        "temperature": 0.0,
        "max_tokens": 512,
        "stop": '["</s>"]',
        "top_k": 20,
    }


def test_closing_the_policy_closes_the_model_of_this_loop() -> None:
    model = ScriptedModel([])
    asyncio.run(ChatPolicy(model).aclose())
    assert model.closed == 1


def test_a_policy_over_a_real_server_survives_its_faults() -> None:
    said = Say("<search>ferry</search>", thought="Let me look.")
    red = picture("red")

    async def run(server: ChatServer) -> list[Delta | Retry | Reply]:
        retries = ChatRetries(first_pause=0.01)
        async with aclosing(ChatPolicy(OpenAIChat(server.url, "scripted", retries=retries))) as policy:
            history = (*QUESTION, Message(Role.USER, (red,)))
            return [part async for part in policy.reply(history)]

    with ChatServer([Refuse(500), Say("<search>fe", cut=1), said]) as server:
        parts = asyncio.run(run(server))
        assert [asked.images for asked in server.requests] == [server.requests[0].images] * 3
    assert sum(isinstance(part, Retry) for part in parts) == 2
    assert isinstance(parts[-1], Reply)
    assert parts[-1].text == "<think>Let me look.</think>\n<search>ferry</search>"
