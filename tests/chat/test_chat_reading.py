"""Nothing that a server of models sends is trusted."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.chat import (
    ToolCall,
)
from vrag.chat.errors import ErrorResponse, RetryableError, failure_of
from vrag.chat.reply_builder import (
    EventReader,
    LineTooLong,
    MalformedChunk,
    ReplyBuilder,
    ReplyTooLong,
    StreamedError,
)

KEY = "sk-a-key-that-must-not-be-seen"

NONE: dict[str, st.SearchStrategy[Any]] = {}
"""Fields that are always there."""
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
deltas: st.SearchStrategy[Any] = st.fixed_dictionaries(
    NONE,
    optional={
        "content": json_values,
        "reasoning": json_values,
        "reasoning_content": json_values,
        "tool_calls": json_values
        | st.lists(
            st.fixed_dictionaries(
                NONE, optional={"index": json_values, "id": json_values, "function": json_values}
            ),
            max_size=3,
        ),
    },
)
chunks: st.SearchStrategy[Any] = st.fixed_dictionaries(
    NONE,
    optional={
        "choices": json_values
        | st.lists(
            st.fixed_dictionaries(
                NONE,
                optional={
                    "delta": deltas | json_values,
                    "index": json_values,
                    "finish_reason": json_values,
                    "token_ids": json_values,
                    "logprobs": json_values | st.fixed_dictionaries({"content": json_values}),
                },
            ),
            max_size=2,
        ),
        "usage": json_values
        | st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens"]), json_values),
        "prompt_token_ids": json_values,
        "id": json_values,
        "model": json_values,
    },
)


@given(st.lists(chunks | json_values, max_size=5))
def test_any_json_becomes_a_reply_of_the_right_types(sent: list[Any]) -> None:
    draft, told = ReplyBuilder(10_000), ""
    for chunk in sent:
        try:
            told += "".join(
                delta.text for delta in draft.add(json.dumps(chunk).encode()) if not delta.thought
            )
        except (MalformedChunk, StreamedError):
            continue
    reply = draft.reply()
    assert reply.text == told
    reply.text.encode()
    assert all(type(id) is int and id >= 0 for id in (*reply.sampled.ids, *reply.sampled.prompt_ids))
    assert all(type(one) is float and math.isfinite(one) for one in reply.sampled.logprobs)
    counts = (reply.tokens.prompt, reply.tokens.completion, reply.tokens.cached)
    assert all(count is None or (type(count) is int and count >= 0) for count in counts)
    assert all(isinstance(word, str) for word in (reply.finish, reply.model, reply.request))


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_malformed(data: bytes) -> None:
    with suppress(MalformedChunk, StreamedError, ReplyTooLong):
        ReplyBuilder(100).add(data)


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b'{"usage": 1e999}', b"NaN"]
)
def test_json_that_is_made_to_break_readers_does_not_break_this_one(data: bytes) -> None:
    with suppress(MalformedChunk):
        ReplyBuilder(100).add(data)


def test_half_a_surrogate_pair_becomes_text_that_can_be_written_down() -> None:
    draft = ReplyBuilder(100)
    draft.add(rb'{"choices": [{"delta": {"content": "a\ud83d", "reasoning": "\ude00\u00e9"}}]}')
    assert (draft.reply().text, draft.reply().thought) == ("a?", "?é")


def test_ids_of_which_one_is_none_are_given_up_as_a_whole() -> None:
    draft = ReplyBuilder(100)
    for ids in ([1, 2], [3, "4"], [5]):
        draft.add(json.dumps({"choices": [{"delta": {"content": "a"}, "token_ids": ids}]}).encode())
    assert draft.reply().sampled.ids == ()


def test_log_probabilities_that_do_not_match_the_ids_are_given_up() -> None:
    choice = {"delta": {"content": "a"}, "token_ids": [1, 2], "logprobs": {"content": [{"logprob": -1.0}]}}
    draft = ReplyBuilder(100)
    draft.add(json.dumps({"choices": [choice]}).encode())
    assert (draft.reply().sampled.ids, draft.reply().sampled.logprobs) == ((1, 2), ())


def test_tool_calls_are_put_together_from_pieces_numbered_or_not() -> None:
    pieces = [
        {"id": "a", "function": {"name": "search", "arguments": '{"q":'}},
        {"function": {"arguments": " 1}"}},
        {"id": "b", "function": {"name": "crop", "arguments": {"box": [1]}}},
    ]
    draft = ReplyBuilder(1000)
    for piece in pieces:
        draft.add(json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}).encode())
    assert draft.reply().tool_calls == (
        ToolCall("a", "search", '{"q": 1}'),
        ToolCall("b", "crop", '{"box": [1]}'),
    )


def test_tool_calls_without_end_are_cut_off() -> None:
    pieces = [{"index": index, "function": {"name": "f"}} for index in range(1000)]
    with pytest.raises(ReplyTooLong):
        ReplyBuilder(10_000).add(json.dumps({"choices": [{"delta": {"tool_calls": pieces}}]}).encode())


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1, max_size=12), max_size=6
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 9),
)
def test_events_are_the_same_however_the_stream_is_cut(texts: list[str], end: str, size: int) -> None:
    texts = [text for text in texts if text.strip() and not text.startswith(" ")]
    stream = "".join(f": note{end}data: {text}{end}{end}" for text in texts).encode()
    reader = EventReader(1000)
    found = [event for at in range(0, len(stream), size) for event in reader.feed(stream[at : at + size])]
    assert found + reader.finish() == [text.encode() for text in texts]


def test_an_event_without_a_line_end_is_read_at_the_end() -> None:
    reader = EventReader(100)
    assert reader.feed(b"data:1\nevent: x\nda") == [b"1"]
    assert reader.feed(b"ta: 2") == []
    assert reader.finish() == [b"2"]


def test_a_long_line_is_refused_however_it_comes() -> None:
    with pytest.raises(LineTooLong):
        EventReader(10).feed(b"data: 1234567")
    reader = EventReader(10)
    reader.feed(b"data: 12")
    with pytest.raises(LineTooLong):
        reader.feed(b"345")


@given(st.binary(max_size=200), st.integers(0, 999))
def test_any_answer_is_an_error_with_a_printable_message(body: bytes, status: int) -> None:
    failure = failure_of(ErrorResponse.of(status, body, KEY), "the server")
    message = str(failure.error if isinstance(failure, RetryableError) else failure)
    assert message.isprintable()
    assert len(message) < 900


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "no", "code": "bad", "type": "x"}}, "no [bad]"),
        ({"error": "model not found"}, "model not found"),
        ({"detail": "nothing here"}, "nothing here"),
        ({"object": "error", "message": "no", "code": 400}, "no"),
        ("plain\n\x1b[31mtext", "plain [31mtext"),
    ],
)
def test_errors_are_read_in_the_shape_of_each_server(body: object, said: str) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    assert ErrorResponse.of(400, data, None).message == said
