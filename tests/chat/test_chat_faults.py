"""What goes wrong with a model: what passes is repeated, what does not is told."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from asking import ASK, QUICK, TEXT, ask, client, error_of, heard, parts_of, reply_of
from chat_server import Asked, ChatServer, Cut, Hang, Raw, Refuse, Reply, Say
from model_servers import JsonServer

from vrag.chat import (
    ChatDelta,
    ChatOptions,
    ChatReply,
    ChatRetries,
    ChatRetry,
    ChatTimeouts,
    OpenAIChat,
)
from vrag.chat.errors import ErrorResponse, failure_of, seconds_asked
from vrag.chat.http_clients import Connections
from vrag.doctor import CheckStatus
from vrag.doctor.endpoint import check_address
from vrag.errors import ContextTooLong, ModelError, ServerError, SettingsError
from vrag.search.client import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator


CLOSED = b'data: {"choices": [{"delta": {"content": "<answer>yes</answer>"}}]}\n\n'
KEY = "sk-a-key-that-must-not-be-seen"


# Failures that pass


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Refuse(500, "out of memory"), "out of memory"),
        (Refuse(503, body=b"<html>bad gateway</html>"), "503"),
        (Refuse(429, "slow down", {"Retry-After": "0"}), "429"),
        (Refuse(408), "408"),
        (Refuse(409), "409"),
        (Refuse(425), "425"),
        (Cut(), "broke off"),
        (Say(TEXT, cut=3), "broke off"),
        (Say("", finish=None), "middle of a reply"),
        (Raw((CLOSED,), framed=False), "middle of a reply"),
        (Say("<answer>The fare is 1", finish=None), "middle of a reply"),
        (Say("<think>So.</think>", finish=None), "middle of a reply"),
        (Say(calls=(("search", '{"query": "fer'),), finish=None), "middle of a reply"),
        (Say(TEXT, finish="abort"), "abort"),
        (Say(TEXT, garbage=3), "no JSON"),
        (Say(TEXT, error=3), "the engine died"),
        (Say(TEXT, hang=3), "stopped writing"),
        (Hang(), "wrote nothing"),
        (Raw((b"data: [DONE]\n\n",)), "form of chat completions"),
        (Raw((b"data: 7\n\n",)), "no JSON object"),
        (Raw(()), "form of chat completions"),
    ],
)
def test_a_fault_that_passes_costs_one_retry_and_nothing_of_the_reply(fault: Reply, says: str) -> None:
    hangs = isinstance(fault, Hang) or (isinstance(fault, Say) and fault.hang is not None)
    timeouts = ChatTimeouts(first_token_seconds=2.0, token_seconds=2.0) if hangs else None
    with ChatServer([fault, Say(TEXT)]) as server:
        parts = ask(client(server, timeouts=timeouts))
        assert len(server.requests) == 2
    retries = [part for part in parts if isinstance(part, ChatRetry)]
    assert len(retries) == 1
    assert says in retries[0].reason
    assert 0 <= retries[0].seconds <= QUICK.longest_pause
    assert reply_of(parts).text == heard(parts, thought=False) == TEXT


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("quota exceeded", "quota exceeded."),
        ("boom!", "boom!"),
        ("Slow down.", "Slow down."),
        ("请稍后再试。", "请稍后再试。"),
    ],
)
def test_what_a_server_says_ends_before_anything_else_is_said(said: str, told: str) -> None:
    with ChatServer([Refuse(429, said, {"Retry-After": "0"}), Say(TEXT)]) as server:
        (retry,) = [part for part in ask(client(server)) if isinstance(part, ChatRetry)]
    assert f": {told}" in retry.reason
    assert f"{told}." not in retry.reason
    with ChatServer([Refuse(400, said)]) as server:
        assert error_of(client(server)).message.endswith(f": {told}")


def test_tries_are_bounded_and_then_the_last_failure_is_told() -> None:
    with ChatServer([Refuse(500, "out of memory")]) as server:
        error = error_of(client(server))
        assert len(server.requests) == 1 + QUICK.times
    assert "out of memory" in error.message


def test_pauses_are_drawn_below_a_bound_that_doubles() -> None:
    retries = ChatRetries(times=4, first_pause=0.05, longest_pause=0.15)
    seen: list[float] = []

    async def fail(address: str) -> None:
        async with aclosing(OpenAIChat(address, "scripted", retries=retries)) as chat:
            async for part in chat.stream(ASK):
                assert isinstance(part, ChatRetry)
                seen.append(part.seconds)

    with ChatServer([Refuse(500, "busy")]) as server, pytest.raises(ModelError, match="busy"):
        asyncio.run(fail(server.url))
    assert all(0 <= pause <= bound for pause, bound in zip(seen, (0.05, 0.1, 0.15, 0.15), strict=True))
    assert len(set(seen)) == 4


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_is_told_at_once_with_its_reason_first(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chat = OpenAIChat(f"{host}:{port}/v1", "m", retries=ChatRetries(times=4, first_pause=30))
    error = error_of(chat)
    assert error.message == f"Connection refused: no server listens at http://{host}:{port}/v1."
    assert error.hint == "Is it running?"


@pytest.mark.parametrize("header", ["Retry-After", "retry-after-ms"])
def test_a_server_is_left_alone_for_as_long_as_it_asks(header: str) -> None:
    asked = {"Retry-After": "1", "retry-after-ms": "700"}[header]
    with ChatServer([Refuse(429, headers={header: asked}), Say("yes")]) as server:
        begun = time.monotonic()
        parts = ask(client(server))
        took = time.monotonic() - begun
    wanted = {"Retry-After": 1.0, "retry-after-ms": 0.7}[header]
    assert any(isinstance(part, ChatRetry) and part.seconds >= wanted for part in parts)
    assert took >= wanted


def test_a_server_that_asks_for_too_long_is_given_up_at_once() -> None:
    with ChatServer([Refuse(429, headers={"Retry-After": "30"})]) as server:
        begun = time.monotonic()
        error = error_of(client(server))
        assert "429" in error.message
        assert "wait for 30 s" in error.hint
        assert "VRAG_MODEL_REQUESTS" in error.hint
        assert time.monotonic() - begun < 15
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "3", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
        ({}, 0.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float) -> None:
    assert seconds_asked(headers, now=100.0) == pytest.approx(seconds)


def test_429_pauses_every_run_of_the_client() -> None:
    """While one run is told to wait, the others do not call either."""
    arrivals: list[float] = []

    def script(asked: Asked) -> Say | Refuse:
        arrivals.append(time.monotonic())
        return Say("yes") if asked.index else Refuse(429, headers={"retry-after-ms": "500"})

    async def both(chat: OpenAIChat) -> None:
        async def late() -> None:
            await asyncio.sleep(0.15)
            await parts_of(chat)

        await asyncio.gather(parts_of(chat), late())

    with ChatServer(script) as server:
        asyncio.run(both(client(server)))
    assert len(arrivals) == 3
    assert min(arrivals[1:]) - arrivals[0] >= 0.45


def test_a_quota_that_is_used_up_is_not_waited_for() -> None:
    with ChatServer([Refuse(429, "You exceeded your current quota", code="insufficient_quota")]) as server:
        assert "account" in error_of(client(server)).hint
        assert len(server.requests) == 1


def test_after_the_model_has_stopped_a_fault_costs_only_the_usage() -> None:
    end = b'data: {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\n'
    with ChatServer([Raw((end, b"data: {broken\n\n"))]) as server:
        parts = ask(client(server))
        assert len(server.requests) == 1
    assert (reply_of(parts).text, reply_of(parts).tokens.prompt) == ("yes", None)


# Failures that do not


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 302])
def test_a_refusal_is_not_repeated(status: int) -> None:
    with ChatServer([Refuse(status, "it cannot be", {"Location": "http://192.0.2.1/"})]) as server:
        error = error_of(client(server))
        assert len(server.requests) == 1
    assert str(status) in error.message


def test_a_missing_key_is_asked_for_by_its_variable_and_a_wrong_one_is_never_shown() -> None:
    with ChatServer([Say("yes")], key="right") as server:
        missing = error_of(client(server, key_variable="MY_KEY"))
        wrong = error_of(client(server, api_key=KEY, key_variable="MY_KEY"))
        right = reply_of(ask(client(server, api_key=" right\n")))
    assert "No key" in missing.hint
    assert "MY_KEY" in missing.hint
    assert "does not accept the key" in wrong.hint
    assert right.text == "yes"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_a_server_that_repeats_the_key_does_not_make_us_show_it(status: int) -> None:
    with ChatServer([Refuse(status, f"your key {KEY} is bad")]) as server:
        chat = client(server, api_key=KEY, retries=ChatRetries(times=0))
        error = error_of(chat)
    chain = f"{error!r} {error} {error.__cause__!r} {error.__context__!r} {chat!r} {vars(error)}"
    assert KEY not in chain


def test_what_a_server_says_to_a_wrong_key_is_not_repeated_as_it_holds_parts_of_it() -> None:
    with ChatServer([Refuse(401, f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}")]) as server:
        error = error_of(client(server, api_key=KEY))
    assert KEY[:8] not in str(error)


def test_nor_is_it_repeated_when_the_list_of_models_is_asked_for() -> None:
    async def listed(chat: OpenAIChat) -> None:
        async with aclosing(chat):
            await chat.models()

    with ChatServer([Say("yes")], key=KEY) as server, pytest.raises(ModelError) as caught:
        asyncio.run(listed(client(server, api_key="wrong", key_variable="MY_KEY")))
    assert caught.value.message.endswith("answered 401 (Unauthorized).")
    assert "MY_KEY" in caught.value.hint


def test_a_name_that_nobody_knows_is_to_be_checked() -> None:
    chat = OpenAIChat("http://no-such-host.invalid/v1", "m", retries=ChatRetries(times=0))
    assert "Check the host name" in error_of(chat).hint


@pytest.mark.parametrize(
    "answer",
    [
        Raw((b'{"status": "fine"}',), "application/json"),
        Raw((b'"fine"',), "application/json"),
        Raw((), "application/json"),
        Raw((b"fine",), "text/plain"),
        Raw(()),
    ],
)
def test_what_is_not_in_the_form_of_chat_completions_is_asked_for_once_more_at_most(answer: Raw) -> None:
    with ChatServer([answer]) as server:
        error = error_of(client(server))
        assert len(server.requests) == 2
    assert error.message.endswith("did not answer in the form of chat completions.")
    assert "base URL" in error.hint


def test_an_error_in_the_stream_does_not_show_the_key() -> None:
    event = json.dumps({"error": f"bad key {KEY}"}).encode()
    with ChatServer([Raw((b"data: " + event + b"\n\n",))]) as server:
        assert KEY not in str(error_of(client(server, api_key=KEY, retries=ChatRetries(times=0))))


@pytest.mark.parametrize("key", [f"{KEY}\nX-Other: 1", "schlüssel-€", f"{KEY} {KEY}"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        OpenAIChat("http://localhost/v1", "m", api_key=key)
    assert key not in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_model_that_is_not_there_is_answered_with_those_that_are() -> None:
    with ChatServer([Say("yes")], models=("qwen", "llava")) as server:
        error = error_of(client(server))
    assert "does not exist" in error.message
    assert error.hint == "It offers: qwen, llava."


def test_an_address_without_v1_is_answered_with_a_hint() -> None:
    with ChatServer([Say("yes")]) as server:
        address = server.url.removesuffix("/v1")
        error = error_of(OpenAIChat(address, "scripted"))
    assert f"{address}/v1" in error.hint


def test_a_web_page_is_no_reply() -> None:
    with ChatServer([Raw((b"<html>Welcome</html>",), "text/html; charset=utf-8")]) as server:
        assert "web page" in error_of(client(server)).message
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "the request exceeds the available context size. try increasing the context size",
        "Range of input length should be [1, 98304]",
        "Your input exceeds the context window of this model.",
        "'max_tokens' or 'max_completion_tokens' is too large. The model's maximum context length is 100",
    ],
)
def test_a_conversation_that_does_not_fit_is_told_apart(message: str) -> None:
    with ChatServer([Refuse(400, message, code="invalid_request_error")]) as server:
        assert isinstance(error_of(client(server), ChatOptions(max_tokens=4096)), ContextTooLong)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        # vLLM
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens",
        "Prompt length of 16601 is longer than the maximum model length 10000.",
        # SGLang
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        "Requested token count exceeds the model's maximum context length of 262144 tokens.",
        "Multimodal prompt is too long after expanding multimodal tokens. After expanding 5192 => 6153.",
        # llama.cpp, and Ollama with it
        "request (18995 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "request (53192 tokens) exceeds context size (50176 tokens)",
        "input exceeds context length",
        # LM Studio
        "Trying to keep the first 10136 tokens when context the overflows.",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        # Gemini, Anthropic, Ark
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input length 203743 exceeds the maximum length 202752",
    ],
)
def test_the_words_of_other_servers_for_it_are_known(message: str) -> None:
    failure = failure_of(ErrorResponse(400, message), "http://x/v1")
    assert isinstance(failure, ContextTooLong)
    assert "longer than the model" in failure.message


@pytest.mark.parametrize(
    "message",
    [
        "At most 1 image(s) may be provided in one request.",
        "At most 12 images may be provided in one prompt.",
        "You set or defaulted to image=4 in --limit-mm-per-prompt, but passed 10 image items.",
        "Too many images in the request: 17",
    ],
)
def test_too_many_pictures_are_told_apart_with_what_to_do(message: str) -> None:
    failure = failure_of(ErrorResponse(400, message), "http://x/v1")
    assert isinstance(failure, ContextTooLong)
    assert "so many pictures" in failure.message


@pytest.mark.parametrize(
    "message",
    [
        "At most 0 image(s) may be provided in one prompt.",
        "max_tokens must be at least 1",
        "Invalid image: the length of its side exceeds the limit",
        "unknown field: context",
    ],
)
def test_other_complaints_are_no_matter_of_length(message: str) -> None:
    assert not isinstance(failure_of(ErrorResponse(400, message), "http://x/v1"), ContextTooLong)


@pytest.mark.parametrize(
    "reply",
    [
        Say("<answer>The ferry</answer>\n", finish=None),
        Say('{"verdict": "yes"}', finish=None),
        Say(calls=(("search", '{"query": "ferry"}'),), finish=None),
        Raw((CLOSED,)),
        Raw((CLOSED.rstrip(),)),
        Raw((CLOSED, b"data: [DONE]\n\n"), framed=False),
        Raw((b'{"choices": [{"message": {"content": "yes"}}]}',), "application/json"),
    ],
)
def test_a_reply_that_ends_properly_counts_although_the_server_does_not_say_why_it_ends(reply: Reply) -> None:
    with ChatServer([reply]) as server:
        parts = ask(client(server))
        assert len(server.requests) == 1
    whole = parts[-1]
    assert isinstance(whole, ChatReply)
    assert (bool(whole.text or whole.tool_calls), whole.finish) == (True, "")


def test_a_conversation_that_does_not_fit_is_told_apart_inside_a_stream() -> None:
    problem = {"error": {"message": "longer than the maximum model length of 4096", "code": 400}}
    with ChatServer([Raw((b"data: " + json.dumps(problem).encode() + b"\n\n",))]) as server:
        assert isinstance(error_of(client(server)), ContextTooLong)


@pytest.mark.parametrize(
    ("script", "timeouts", "setting"),
    [
        (Hang(), {"first_token_seconds": 0.2}, "VRAG_FIRST_TOKEN_SECONDS"),
        (Say(TEXT, first=5), {"first_token_seconds": 0.2}, "VRAG_FIRST_TOKEN_SECONDS"),
        (Say(TEXT, hang=2), {"token_seconds": 0.2}, "VRAG_TOKEN_SECONDS"),
        (Say(TEXT, pause=0.1), {"call_seconds": 0.35}, "VRAG_CALL_SECONDS"),
        (Raw((b": alive\n\n",) * 40, pause=0.1), {"first_token_seconds": 0.3}, "VRAG_FIRST_TOKEN_SECONDS"),
        (
            Raw((b'data: {"choices": []}\n\n',) * 40, pause=0.1),
            {"first_token_seconds": 0.3},
            "VRAG_FIRST_TOKEN_SECONDS",
        ),
    ],
)
def test_each_time_out_names_the_setting_to_raise(
    script: Reply, timeouts: dict[str, float], setting: str
) -> None:
    with ChatServer([script]) as server:
        begun = time.monotonic()
        error = error_of(client(server, timeouts=ChatTimeouts(**timeouts)))
        assert time.monotonic() - begun < 15
        assert len(server.requests) <= 2, "a time-out is tried again once at most"
    assert f"Raise {setting}" in error.hint


@pytest.mark.slow
def test_waiting_for_a_place_on_a_retry_does_not_count_against_the_call() -> None:
    """The first call fails, and waits behind the second, which takes longer than a call may."""

    def script(asked: Asked) -> Say | Refuse:
        slow = Say("yes", first=1.5)
        return slow if asked.index else Refuse(503, headers={"retry-after-ms": "200"})

    async def both(chat: OpenAIChat) -> list[str]:
        first = asyncio.create_task(parts_of(chat))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(parts_of(chat)) for _ in range(2)]
        return [reply_of(parts).text for parts in await asyncio.gather(first, *others)]

    with ChatServer(script) as server:
        retries = ChatRetries(times=1, first_pause=0.1)
        chat = client(server, concurrency=1, timeouts=ChatTimeouts(call_seconds=3.5), retries=retries)
        assert asyncio.run(asyncio.wait_for(both(chat), 60)) == ["yes"] * 3


@pytest.mark.slow
def test_a_slow_reader_is_not_taken_for_a_slow_server() -> None:
    async def read_slowly(chat: OpenAIChat) -> str:
        async with aclosing(chat), aclosing(chat.stream(ASK)) as parts:
            slowly: list[ChatDelta | ChatRetry | ChatReply] = []
            async for part in parts:
                slowly.append(part)
                await asyncio.sleep(0.6)
        return reply_of(slowly).text

    with ChatServer([Say("a b c", piece=2)]) as server:
        chat = client(server, timeouts=ChatTimeouts(token_seconds=0.5), retries=ChatRetries(times=0))
        assert asyncio.run(read_slowly(chat)) == "a b c"


@pytest.mark.parametrize("thought", [True, False])
def test_a_reply_that_does_not_end_is_cut_off(thought: bool) -> None:
    long = "word " * 1000
    with ChatServer([Say("" if thought else long, thought=long if thought else "")]) as server:
        error = error_of(client(server, max_characters=800))
        assert server.requests[0].done.wait(60)
        assert len(server.requests) == 1
    assert "800" in error.message


def test_a_line_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.chat.completion._MAX_LINE_BYTES", 10_000)
    with ChatServer([Raw((b"data: " + b"x" * 9_000, b"y" * 9_000))]) as server:
        assert "10,000 bytes" in error_of(client(server)).message


@pytest.mark.parametrize(
    "address",
    [
        "http://user:secret@localhost/v1",
        "http://user@localhost/v1",
        "example.org/v1",
        "ftp://localhost/v1",
        "http:///v1",
        "http://localhost:99999/v1",
        "http://localhost/v1?key=secret",
        "http://localhost/v1#x",
        "http://[::1",
        "http://xn--a/v1",
        "http://a b/v1",
        "http://a|b/v1",
        "",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        OpenAIChat(address, "m")
    assert "user:secret" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "address", ["http://[::1]:8002/v1", "http://under_score:8/v1", "https://bücher.de/v1", "http://10.0.0.1"]
)
def test_an_address_of_any_honest_form_is_taken(address: str) -> None:
    assert OpenAIChat(address, "m").base_url == address


@pytest.mark.parametrize("tail", ["", "/", "/chat/completions", "/chat/completions/"])
def test_an_address_is_taken_with_or_without_its_endpoint(tail: str) -> None:
    with ChatServer([Say("yes")]) as server:
        assert reply_of(ask(OpenAIChat(server.url + tail, "scripted"))).text == "yes"


@pytest.fixture
def plain() -> Iterator[str]:
    """Address of a server that speaks HTTP without TLS, called by `https`."""
    with JsonServer({"GET /v1/models": {"data": []}}) as server:
        yield server.url.replace("http:", "https:")


def test_a_server_without_tls_is_answered_with_its_address_at_once(plain: str) -> None:
    chat = OpenAIChat(plain, "any", retries=QUICK)
    with pytest.raises(ModelError) as told:
        ask(chat)
    assert told.value.hint.endswith(f"write {plain.replace('https:', 'http:')}")
    with pytest.raises(ModelError) as listed:
        asyncio.run(chat.models())
    assert listed.value.hint == told.value.hint


def test_the_same_is_said_of_a_search_server_and_by_the_doctor(plain: str) -> None:
    connection = Connection(
        plain.removesuffix("/v1"), token=None, timeout=5, retries=3, backoff=0.01, transport=None
    )
    with pytest.raises(ServerError) as told:
        connection.request("GET", "/search", 100)
    assert f"write {plain.removesuffix('/v1').replace('https:', 'http:')}" in told.value.hint
    check = check_address(plain, 5)
    assert check.status is CheckStatus.FAILED
    assert f"write {plain.replace('https:', 'http:')}" in check.hint
    assert check_address(plain.replace("https:", "http:"), 5).status is CheckStatus.OK


@pytest.mark.parametrize("proxy", ["unknown://proxy:1", "http://[::1"])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_that_cannot_be_used_is_told(
    monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str
) -> None:
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(SettingsError, match="proxy of the environment") as told:
        Connections("http://models.example/v1", None, 1.0, 1)
    assert variable in told.value.hint
    Connections("http://127.0.0.1:8000/v1", None, 1.0, 1)
