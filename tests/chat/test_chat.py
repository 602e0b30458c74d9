"""A model is asked, by one and by many at once, and given up."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from contextlib import aclosing
from typing import Any

import pytest
from asking import ASK, TEXT, ask, client, error_of, heard, parts_of, reply_of
from chat_server import Asked, ChatServer, Cut, Refuse, Reply, Say

from vrag.chat import (
    ChatDelta,
    ChatImage,
    ChatMessage,
    ChatOptions,
    ChatRetries,
    ChatRetry,
    ChatText,
    OpenAIChat,
    ServedModel,
    ThinkingSwitch,
    ToolCall,
)
from vrag.chat.http_clients import ConcurrencyLimit
from vrag.chat.messages import Sampled, Tokens, request_body
from vrag.chat.reply_builder import ReplyBuilder
from vrag.errors import ModelError

# What is asked, and what comes back


@pytest.mark.parametrize("streams", [True, False])
def test_a_reply_comes_whole_whether_or_not_the_server_streams(streams: bool) -> None:
    said = Say(TEXT, thought="Let me look.", calls=(("search", '{"query": "ferry"}'),), cached=40)
    with ChatServer([said], streams=streams) as server:
        parts = ask(client(server))
    reply = reply_of(parts)
    assert (reply.text, reply.thought) == (TEXT, "Let me look.")
    assert (heard(parts, thought=False), heard(parts, thought=True)) == (TEXT, "Let me look.")
    assert reply.tool_calls == (ToolCall("call_0", "search", '{"query": "ferry"}'),)
    assert reply.tokens == Tokens(prompt=100, completion=20, cached=40)
    assert (reply.finish, reply.model, reply.request) == ("stop", "scripted", "chatcmpl-0")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_found_in_the_field_of_each_server(field: str) -> None:
    with ChatServer([Say("yes", thought="hm, hm", thought_field=field)]) as server:
        assert reply_of(ask(client(server))).thought == "hm, hm"


def test_a_server_that_sends_a_thought_under_both_names_is_heard_once() -> None:
    chunk = {"choices": [{"delta": {"reasoning": "hm", "reasoning_content": "hm"}, "finish_reason": "stop"}]}
    draft = ReplyBuilder(100)
    assert draft.add(json.dumps(chunk).encode()) == [ChatDelta("hm", thought=True)]


def test_only_what_was_chosen_is_sent() -> None:
    with ChatServer([Say("yes")]) as server:
        ask(client(server))
        body = server.requests[0].body
    assert body == {
        "model": "scripted",
        "messages": [{"role": "user", "content": "How many passengers?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "authorization" not in server.requests[0].headers


def test_every_option_arrives_under_the_name_that_servers_know() -> None:
    tool: dict[str, Any] = {"type": "function", "function": {"name": "search", "parameters": {}}}
    options = ChatOptions(
        temperature=0.6,
        top_p=0.95,
        max_tokens=512,
        stop=("</s>",),
        seed=7,
        logprobs=True,
        token_ids=True,
        tools=(tool,),
        extra={"top_k": 20, "temperature": 2.0, "model": "another", "stream": False},
    )
    with ChatServer([Say("yes")]) as server:
        ask(client(server), options)
        body = server.requests[0].body
    expected = {
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 512,
        "stop": ["</s>"],
        "seed": 7,
        "top_k": 20,
    }
    expected |= {"logprobs": True, "return_token_ids": True, "tools": [tool]}
    expected |= {"model": "scripted", "stream": True}
    assert {name: body[name] for name in expected} == expected


SWITCHES = ("enable_thinking", "chat_template_kwargs", "reasoning_effort", "reasoning")


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (ChatOptions(), {}),
        (ChatOptions(thinking=False), {"enable_thinking": False}),
        (
            ChatOptions(thinking=True, thinking_switch=ThinkingSwitch.TEMPLATE),
            {"chat_template_kwargs": {"enable_thinking": True}},
        ),
        (
            ChatOptions(thinking=True, thinking_switch=ThinkingSwitch.BOTH),
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": True}},
        ),
        (
            ChatOptions(
                thinking=False,
                thinking_switch=ThinkingSwitch.TEMPLATE,
                extra={"chat_template_kwargs": {"x": 1}},
            ),
            {"chat_template_kwargs": {"x": 1, "enable_thinking": False}},
        ),
        (
            ChatOptions(thinking=False, thinking_switch=ThinkingSwitch.EFFORT),
            {"reasoning_effort": "none"},
        ),
        (
            ChatOptions(thinking=True, thinking_switch=ThinkingSwitch.EFFORT),
            {"reasoning_effort": "medium"},
        ),
        (
            ChatOptions(thinking=True, thinking_switch=ThinkingSwitch.REASONING),
            {"reasoning": {"enabled": True}},
        ),
    ],
)
def test_thinking_is_switched_where_the_server_looks_for_it(
    options: ChatOptions, sent: dict[str, Any]
) -> None:
    with ChatServer([Say("yes")]) as server:
        ask(client(server), options)
        body = server.requests[0].body
    found = {name: body[name] for name in SWITCHES if name in body}
    assert found == sent


def test_pictures_and_texts_keep_their_order() -> None:
    url = "data:image/jpeg;base64,AAAA"
    parts = (ChatText("Page 1:"), ChatImage(url), ChatText("and?"))
    with ChatServer([Say("yes")]) as server:
        asyncio.run(parts_of(client(server), messages=[ChatMessage("user", parts)]))
        content = server.requests[0].body["messages"][0]["content"]
    assert content == [
        {"type": "text", "text": "Page 1:"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "and?"},
    ]


def test_token_ids_and_log_probabilities_come_along_where_they_are_offered() -> None:
    said = Say("yes", prompt_ids=(1, 2, 3), ids=(9, 10), logprobs=(-0.5, -0.25))
    with ChatServer([said]) as server:
        asked = reply_of(ask(client(server), ChatOptions(token_ids=True, logprobs=True)))
        unasked = reply_of(ask(client(server)))
    assert asked.sampled == Sampled(prompt_ids=(1, 2, 3), ids=(9, 10), logprobs=(-0.5, -0.25))
    assert unasked.sampled == Sampled()


def test_what_a_server_refuses_to_tell_is_no_longer_asked_for() -> None:
    refuses = frozenset({"stream_options", "return_token_ids", "logprobs"})
    with ChatServer([Say("yes", ids=(1,))], refuses=refuses) as server:
        chat = client(server)
        options = ChatOptions(token_ids=True, logprobs=True, temperature=0.5)
        parts = ask(chat, options)
        first = len(server.requests)
        ask(chat, options)
        assert len(server.requests) == first + 1, "remembered: asked for once, and then no more"
        assert server.requests[-1].body.keys() == {"model", "messages", "stream", "temperature"}
    assert reply_of(parts).text == "yes"
    assert not any(isinstance(part, ChatRetry) for part in parts)


def test_a_server_that_names_no_field_loses_all_optional_ones_at_once() -> None:
    def script(asked: Asked) -> Say | Refuse:
        return Refuse(422, "extra fields not permitted") if "stream_options" in asked.body else Say("yes")

    with ChatServer(script) as server:
        assert reply_of(ask(client(server), ChatOptions(logprobs=True))).tokens.prompt is None
        assert len(server.requests) == 2


def test_a_refusal_that_has_another_reason_is_not_blamed_on_the_optional_fields() -> None:
    with ChatServer(
        lambda asked: Refuse(400, "the picture is damaged") if not asked.index else Say("yes")
    ) as server:
        chat = client(server)
        assert "the picture is damaged" in str(error_of(chat))
        ask(chat)
        assert "stream_options" in server.requests[-1].body


def test_max_tokens_goes_by_its_new_name_where_the_old_one_is_refused() -> None:
    def script(asked: Asked) -> Say | Refuse:
        refusal = Refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return refusal if "max_tokens" in asked.body else Say("yes")

    with ChatServer(script) as server:
        ask(client(server), ChatOptions(max_tokens=99))
        assert server.requests[-1].body["max_completion_tokens"] == 99


def test_openai_is_sent_the_new_name_from_the_beginning() -> None:
    messages = [ChatMessage("user", (ChatText("Hello"),))]
    chat = OpenAIChat("https://api.openai.com/v1", "gpt-5.1", api_key="k")
    sent = json.loads(request_body("gpt-5.1", messages, ChatOptions(max_tokens=9), chat.left_out))
    assert (sent.get("max_tokens"), sent["max_completion_tokens"]) == (None, 9)
    assert not OpenAIChat("http://localhost:8000/v1", "gpt-5.1").left_out


@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_sampling_of_which_a_model_has_one_value_is_left_out(name: str) -> None:
    def script(asked: Asked) -> Say | Refuse:
        said = f"Unsupported value: '{name}' does not support 0 with this model. Only the default (1) is."
        return Refuse(400, said) if name in asked.body else Say("yes")

    with ChatServer(script) as server:
        ask(client(server), ChatOptions(temperature=0, top_p=0.5))
        kept = {"temperature", "top_p"} & server.requests[-1].body.keys()
    assert kept == {"temperature", "top_p"} - {name}


def test_a_switch_for_thinking_that_the_server_refuses_is_an_error_not_left_out() -> None:
    with ChatServer([Say("yes")], refuses=frozenset({"enable_thinking"})) as server:
        error = error_of(client(server), ChatOptions(thinking=False))
    assert "thinking" in error.hint


def test_models_are_listed_with_their_context() -> None:
    async def models() -> tuple[ServedModel, ...]:
        async with aclosing(client(server)) as chat:
            return await chat.models()

    with ChatServer([Say("yes")], models=("a", "b")) as server:
        assert asyncio.run(models()) == (ServedModel("a", 4096), ServedModel("b", 4096))


# Many at once, and giving up


@pytest.mark.parametrize("way", ["close", "cancel"])
def test_whoever_gives_up_a_reply_ends_it_on_the_server_too(way: str) -> None:
    async def give_up(chat: OpenAIChat) -> None:
        async with aclosing(chat):
            if way == "cancel":
                task = asyncio.create_task(parts_of(chat))
                await asyncio.to_thread(server.wait_for, 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                async with aclosing(chat.stream(ASK)) as parts:
                    await anext(parts)
            assert await asyncio.to_thread(server.requests[0].gone.wait, 60)

    with ChatServer([Say("word " * 100, pause=0.2)]) as server:
        asyncio.run(give_up(client(server)))


def test_a_place_that_was_given_up_while_waiting_for_it_is_free_again() -> None:
    async def crowd(chat: OpenAIChat) -> None:
        tasks = [asyncio.create_task(parts_of(chat)) for _ in range(8)]
        await asyncio.sleep(0.1)
        for task in tasks[:7]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert reply_of(done[7]).text == "yes"  # pyright: ignore[reportArgumentType]

    with ChatServer([Say("yes", first=0.2)]) as server:
        asyncio.run(asyncio.wait_for(crowd(client(server, concurrency=1)), 30))


def test_threads_with_loops_of_their_own_share_one_client_and_its_places() -> None:
    replies: list[str] = []

    def run(number: int) -> None:
        asked = [ChatMessage("user", (ChatText(f"number {number}"),))]
        replies.append(reply_of(asyncio.run(parts_of(chat, messages=asked))).text)

    with ChatServer(lambda asked: Say(asked.question, first=0.02)) as server:
        chat = client(server, concurrency=3)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert server.peak <= 3
    assert sorted(replies) == sorted(f"number {number}" for number in range(12))


def test_64_calls_at_once_with_faults_all_end_and_none_gets_anothers_reply() -> None:
    def script(asked: Asked) -> Reply:
        faults = (
            None,
            Cut(),
            Refuse(500),
            Refuse(429, headers={"retry-after-ms": "20"}),
            Say("x" * 40, cut=2),
        )
        fault = faults[asked.index % 5]
        return fault if fault is not None and asked.index < 90 else Say(f"<{asked.question}>", first=0.3)

    async def crowd(chat: OpenAIChat) -> list[str | BaseException]:
        async def one(number: int) -> str:
            asked = [ChatMessage("user", (ChatText(f"number {number}"),))]
            parts = [part async for part in chat.stream(asked)]
            assert heard(parts, thought=False) == reply_of(parts).text
            return reply_of(parts).text

        async with aclosing(chat):
            return await asyncio.gather(*(one(number) for number in range(64)), return_exceptions=True)

    with ChatServer(script) as server:
        chat = client(server, retries=ChatRetries(times=8, first_pause=0.01, longest_pause=0.2))
        replies = asyncio.run(asyncio.wait_for(crowd(chat), 60))
        assert server.peak > 8
    assert replies == [f"<number {number}>" for number in range(64)]


def test_connections_are_kept_and_given_back() -> None:
    async def thrice(chat: OpenAIChat) -> None:
        for _ in range(3):
            assert reply_of([part async for part in chat.stream(ASK)]).text == "yes"
        await chat.aclose()
        await chat.aclose()
        assert reply_of([part async for part in chat.stream(ASK)]).text == "yes"
        await chat.aclose()

    with ChatServer([Say("yes")]) as server:
        asyncio.run(thrice(client(server)))
        assert server.connections == 2
    gc.collect()  # a connection that was left open would warn here


def test_closing_in_the_middle_of_another_call_does_not_disturb_it() -> None:
    async def both(chat: OpenAIChat) -> str:
        async with aclosing(chat.stream(ASK)) as parts:
            await anext(parts)
            await chat.aclose()
            return reply_of([part async for part in parts]).text

    with ChatServer([Say(TEXT, pause=0.01)]) as server:
        assert asyncio.run(both(client(server))) == TEXT
    gc.collect()


def test_a_server_killed_in_mid_reply_is_a_model_error() -> None:
    async def killed(chat: OpenAIChat, server: ChatServer) -> None:
        async with aclosing(chat), aclosing(chat.stream(ASK)) as parts:
            await anext(parts)
            server.stop()
            async for _ in parts:
                pass

    with (
        ChatServer([Say("word " * 100, pause=0.05)]) as server,
        pytest.raises(ModelError, match="Connection refused: no server listens at"),
    ):
        asyncio.run(asyncio.wait_for(killed(client(server), server), 60))


def test_a_gate_hands_places_on_in_order() -> None:
    async def order() -> list[int]:
        gate, entered = ConcurrencyLimit(1), list[int]()

        async def enter(number: int) -> None:
            async with gate.place():
                entered.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(enter(number) for number in range(5)))
        return entered

    assert asyncio.run(order()) == [0, 1, 2, 3, 4]


def test_a_gate_loses_no_place_to_one_who_leaves_as_it_is_handed_over() -> None:
    async def leave_late() -> None:
        gate = ConcurrencyLimit(1)

        async def enter() -> None:
            async with gate.place():
                pass

        async with gate.place():
            waiting = asyncio.create_task(enter())
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(2), gate.place():
            pass

    asyncio.run(leave_late())
