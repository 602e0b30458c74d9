"""What the door for OpenAI's clients refuses, and how it says so."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from completions_client import QUESTION, client_of
from hosting import OFFER
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from service_harness import Doors, doors, scripted

from vrag.agent.question import PreviousTurn
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.request import CompletionRequest, ResponseRequest, ignored_names, read_question
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("closing")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n"),
    ({"n": 0}, "n"),
    ({"function_call": {"name": "f"}}, "function_call"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
    ({"response_format": {"type": "grammar"}}, "response_format"),
    ({"response_format": "json"}, "response_format"),
    ({"logprobs": True}, "logprobs"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"role": "assistant", "content": "hi"}]}, "messages"),
    ({"messages": [{"role": "system", "content": "hi"}]}, "messages"),
    ({"messages": [*QUESTION, {"role": "assistant", "content": "hi"}]}, "messages"),
    ({"messages": [{"role": "tool", "content": "7", "tool_call_id": "1"}]}, "messages"),
    ({"messages": [{"role": "oracle", "content": "7"}, *QUESTION]}, "messages"),
    ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
    ({"messages": [{"role": "user", "content": "x" * 8001}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "messages"),
    ({"vrag": {"max_step": 3}}, "vrag.max_step"),
    ({"vrag": {"max_steps": 0}}, "vrag.max_steps"),
    ({"vrag": {"thinking": "perhaps"}}, "vrag.thinking"),
    ({"stream": "perhaps"}, "stream"),
    ({"model": None}, "model"),
]


class TestRefusals:
    @pytest.mark.parametrize(("change", "param"), BAD)
    def test_what_cannot_be_is_a_400_that_names_the_field(
        self, served: Doors, change: dict[str, Any], param: str
    ) -> None:
        body = {"model": "vrag", "messages": QUESTION, **change}
        response = httpx.post(f"{served.address}/v1/chat/completions", json=body)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["param"], error["type"]) == (param, "invalid_request_error")
        assert error["message"].endswith((".", "…"))

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1:1/picture.png",
            "https://example.org/picture.png",
            "file:///etc/passwd",
            "/etc/passwd",
            "",
            "data:text/html;base64,PGI+",
            "data:image/png;base64,!!!",
            "data:image/png,plain",
        ],
    )
    def test_no_picture_is_fetched(self, served: Doors, url: str) -> None:
        parts = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "vrag", "messages": [{"role": "user", "content": parts}]}
        response = httpx.post(f"{served.address}/v1/chat/completions", json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "messages")
        assert ("fetches nothing" in response.text) == (not url.startswith("data:"))

    def test_what_is_no_picture_after_all_is_a_400(self, served: Doors) -> None:
        url = f"data:image/png;base64,{base64.b64encode(b'no picture').decode()}"
        parts = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "vrag", "messages": [{"role": "user", "content": parts}]}
        response = httpx.post(f"{served.address}/v1/chat/completions", json=body)
        assert response.status_code == 400
        assert "error" in response.json()

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"\\ud800"', b"\xff\xfe", b"[" * 5000])
    def test_what_is_no_json_object_is_a_400(self, served: Doors, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        response = httpx.post(f"{served.address}/v1/chat/completions", content=body, headers=headers)
        assert response.status_code == 400
        assert response.json()["error"]["message"]

    def test_a_form_is_refused_in_the_shape_of_this_interface(self, served: Doors) -> None:
        body = json.dumps({"model": "vrag", "messages": QUESTION}).encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        response = httpx.post(f"{served.address}/v1/chat/completions", content=body, headers=form)
        assert response.status_code == 415
        assert "Content-Type: application/json" in response.json()["error"]["message"]

    def test_fields_that_mean_nothing_here_are_ignored_and_named_in_one_line(
        self, client: openai.OpenAI, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "vrag.server.openai")
        done = client.chat.completions.create(
            model="vrag",
            messages=QUESTION,
            temperature=0.2,
            top_p=0.5,
            max_completion_tokens=7,
            max_tokens=7,
            stop=["4"],
            user="somebody",
            seed=1,
            n=1,
            response_format={"type": "text"},
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
            tool_choice="auto",
            extra_body={
                "reasoning": {"effort": "high"},
                "functions": [{"name": "f"}],
                "a\nb": 1,
                "none": None,
            },
        )
        assert (done.choices[0].message.content or "").startswith("48,200")
        (line,) = [record.getMessage() for record in caplog.records if record.name == "vrag.server.openai"]
        named = "a?b, functions, max_completion_tokens, max_tokens, reasoning, seed, stop, temperature, tools"
        assert line == f"/v1/chat/completions: ignored: {named}, top_p, user"

    def test_the_log_names_a_few_ignored_fields(self) -> None:
        body: Any = {"model": "vrag", "messages": QUESTION, **{f"x{number:03}": 1 for number in range(1000)}}
        request = CompletionRequest.model_validate(body)
        names = ignored_names(request, request.turns, None)
        assert (len(names), names[0], names[-1]) == (21, "x000", "…")

    @pytest.mark.parametrize(
        ("id", "arguments", "answer"),
        [
            ("call_20261129-041736-815172-2305", {"answer": "48,200", "sources": []}, "48,200"),
            ("call_20261129-041736-815172-2305", {"reply": "48,200"}, "48,200"),
            ("call_20261129-041736-815172-2305", {"query": "fares"}, None),
            ("call_20261129-041736-815172-2305", ["answer"], None),
            ("call_abc", {"answer": "of another server"}, None),
            (7, {"answer": "x"}, None),
        ],
    )
    def test_an_answer_that_was_given_as_arguments_is_in_the_history(
        self, id: object, arguments: object, answer: str | None
    ) -> None:
        called = {"id": id, "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
        asked = {"role": "user", "content": "How many?"}
        messages = [
            asked,
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": id, "content": "kept"},
            {"role": "user", "content": "And in 2023?"},
        ]
        chat = CompletionRequest.model_validate({"model": "vrag", "messages": messages})
        item = {"type": "function_call", "call_id": id, "arguments": json.dumps(arguments)}
        response = ResponseRequest.model_validate({"model": "vrag", "input": [asked, item, messages[-1]]})
        for request in (chat, response):
            question = read_question(request, request.turns, OFFER)
            assert question.history == (PreviousTurn("How many?", answer),)

    def test_unknown_paths_and_methods_answer_in_the_same_shape(self, served: Doors) -> None:
        for method, path, status in (("POST", "/v1/embeddings", 404), ("PUT", "/v1/models", 405)):
            response = httpx.request(method, served.address + path)
            assert response.status_code == status
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            assert int(response.headers["content-length"]) == len(response.content)

    def test_other_paths_keep_theirs(self, served: Doors) -> None:
        assert "detail" in httpx.get(f"{served.address}/runs/0").json()

    def test_too_many_questions_are_a_rate_limit(self, tmp_path: Path) -> None:
        options = ServerOptions(client_runs=1, client_waiting_runs=0)
        with doors(scripted(tmp_path, paced=True), options) as opened:
            client = client_of(opened.address)
            with client.chat.completions.create(model="vrag", messages=QUESTION, stream=True) as stream:
                next(stream)
                with pytest.raises(openai.RateLimitError) as caught:
                    client.chat.completions.create(model="vrag", messages=QUESTION)
            assert caught.value.code == "rate_limit_exceeded"

    def test_a_wrong_token_is_told_as_the_client_expects(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path), ServerOptions(token="right")) as opened:
            with pytest.raises(openai.AuthenticationError) as caught:
                client_of(opened.address, "wrong").models.list()
            assert caught.value.code == "invalid_api_key"
            done = client_of(opened.address, "right").chat.completions.create(model="vrag", messages=QUESTION)
            assert (done.choices[0].message.content or "").startswith("48,200")

    def test_an_unknown_collection_is_a_400(self, tmp_path: Path) -> None:
        class Closed(type(scripted(tmp_path))):
            def agent(self, choice: Any) -> Any:  # noqa: ANN401
                from vrag.errors import SettingsError

                raise SettingsError(f"There is no collection {choice.collection!r}.", "There are: a.")

        with doors(Closed(tmp_path)) as opened, pytest.raises(openai.BadRequestError, match="There are: a"):
            client_of(opened.address).chat.completions.create(
                model="vrag", messages=QUESTION, extra_body={"vrag": {"collection": "b"}}
            )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image_url", "file"]) | JSON,
        "text": JSON,
        "image_url": JSON
        | st.fixed_dictionaries({"url": st.text(max_size=30).map("data:image/png;base64,".__add__)}),
    },
)
TURNS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]) | JSON,
        "content": st.text(max_size=30) | st.lists(PARTS, max_size=3) | JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["vrag", "vimrag/without-a-model", "vrag/"]) | JSON,
        "messages": st.lists(TURNS, max_size=4) | JSON,
        "n": JSON,
        "stream": JSON,
        "stream_options": JSON,
        "tools": JSON,
        "response_format": JSON,
        "modalities": JSON,
        "vrag": st.fixed_dictionaries(
            {}, optional={"top_k": JSON, "max_steps": JSON, "documents": JSON, "thinking": JSON}
        )
        | JSON,
    },
)


class TestAnyBody:
    @given(body=BODIES)
    def test_a_body_is_a_question_or_refused(self, body: dict[str, Any]) -> None:
        try:
            request = CompletionRequest.model_validate_json(json.dumps(body))
            asked = read_question(request, request.turns, OFFER)
        except (ValidationError, InvalidRequest):
            return
        assert asked.run.question.strip()

    @given(body=BODIES | JSON)
    def test_no_body_makes_the_server_fail(self, served: Doors, body: Any) -> None:  # noqa: ANN401
        response = httpx.post(f"{served.address}/v1/chat/completions", json=body)
        assert response.status_code in {200, 400, 404}
