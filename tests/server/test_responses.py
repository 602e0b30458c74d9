"""OpenAI's responses, asked for by the official client over a socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from completions_client import client_of, extra
from hosting import OFFER, SEARCH
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from service_harness import Doors, doors, scripted
from test_completions import picture, strip_run
from test_completions_refusals import JSON, PARTS

from vrag.agent.question import PreviousTurn
from vrag.errors import ModelError
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.request import ResponseRequest, read_question

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "How many passengers?"
ABSTAIN = "<think>No.</think><answer>not answerable</answer>"
pytestmark = pytest.mark.usefixtures("closing")


class Passengers(BaseModel):
    """What is asked for."""

    passengers: int


class Sourced(BaseModel):
    """An answer and its sources."""

    answer: str
    sources: list[str]


class Guess(BaseModel):
    """What no document says."""

    answer: str
    mood: str


def kinds(response: Any) -> list[str]:  # noqa: ANN401
    return [item.type for item in response.output]


class TestWhole:
    def test_it_says_what_a_completion_says(self, client: openai.OpenAI) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        message = client.chat.completions.create(model="vrag", messages=asked).choices[0].message
        response = client.responses.create(model="vrag", input=QUESTION)
        assert strip_run(response.output_text) == strip_run(message.content or "")
        assert (response.status, kinds(response)) == ("completed", ["reasoning", "message"])
        thoughts: Any = response.output[0]
        assert thoughts.summary[0].text == extra(message)["reasoning_content"]
        assert extra(response)["vrag"]["evidence"][0]["document"] == "ferry.pdf"
        assert response.usage is not None
        assert extra(response.usage)["vrag"]["steps"] == 3

    def test_annotations_cover_their_markers(self, client: openai.OpenAI) -> None:
        response = client.responses.create(model="vrag", input=QUESTION)
        part: Any = response.output[1]
        (text,) = part.content
        assert text.annotations
        for number, cited in enumerate(text.annotations, 1):
            assert text.text[cited.start_index : cited.end_index] == f"[{number}]"
            assert cited.url in text.text

    def test_the_input_may_be_a_conversation_with_pictures_and_calls_of_tools(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        turns: Any = [
            {"role": "developer", "content": "Speak like a pirate."},
            {"role": "user", "content": QUESTION},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "status": "completed",
                "content": [{"type": "output_text", "text": "48,200", "annotations": []}],
            },
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "7"},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "And this?"},
                    {"type": "input_image", "image_url": picture(), "detail": "auto"},
                ],
            },
        ]
        with doors(answering) as opened:
            client_of(opened.address).responses.create(model="vrag", input=turns)
            (run,) = httpx.get(f"{opened.address}/runs").json()["runs"]
        started = answering.store.read(run["id"]).started
        assert (started.question, len(started.attached)) == ("And this?", 1)
        assert started.history == (PreviousTurn(QUESTION, "48,200"),)

    def test_a_question_follows_an_earlier_response(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        with doors(answering) as opened:
            client = client_of(opened.address)
            first = client.responses.create(model="vrag", input=QUESTION)
            second = client.responses.create(model="vrag", input="And cars?", previous_response_id=first.id)
            third = client.responses.create(model="vrag", input="And dogs?", previous_response_id=second.id)
        assert third.previous_response_id == second.id
        started = answering.store.read(third.id.removeprefix("resp_")).started
        assert started.history == (PreviousTurn(QUESTION, "48,200"), PreviousTurn("And cars?", "48,200"))

    def test_a_side_question_is_answered_without_a_run(self, tmp_path: Path) -> None:
        prompt = "Provide a concise, 5-word-or-less title for the conversation.\n\nUser: How many?\nAI: 7"
        with doors(scripted(tmp_path)) as opened:
            response = client_of(opened.address).responses.create(model="vrag", input=prompt)
            assert httpx.get(f"{opened.address}/runs").json()["runs"] == []
        assert response.output_text == "How many"
        assert kinds(response) == ["message"]


class TestStream:
    def test_its_events_make_the_whole_response(self, client: openai.OpenAI) -> None:
        whole = client.responses.create(model="vrag", input=QUESTION)
        with client.responses.stream(model="vrag", input=QUESTION) as stream:
            events: list[Any] = list(stream)
            final = stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == final.output_text
        assert strip_run(text) == strip_run(whole.output_text)
        assert kinds(final) == kinds(whole)
        done: list[Any] = [event.item for event in events if event.type == "response.output_item.done"]
        output: list[Any] = list(final.output)
        assert [item.id for item in done] == [item.id for item in output]
        thoughts = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
        assert len(thoughts) > 3

    def test_a_failed_model_is_an_error_that_the_client_raises(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        answering.policy.fault = ModelError("The model is gone.", "Start it.")
        with doors(answering) as opened, pytest.raises(openai.APIError, match="The model is gone"):
            list(client_of(opened.address).responses.create(model="vrag", input=QUESTION, stream=True))


TOOL: Any = {
    "type": "function",
    "name": "respond",
    "parameters": Sourced.model_json_schema(),
    "strict": False,
}


class TestForms:
    """JSON where it was asked for, in both interfaces, whole and streamed."""

    def test_the_answer_is_put_into_a_schema(self, client: openai.OpenAI) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        done = client.chat.completions.parse(model="vrag", messages=asked, response_format=Passengers)
        parsed = client.responses.parse(model="vrag", input=QUESTION, text_format=Passengers).output_parsed
        assert parsed == done.choices[0].message.parsed == Passengers(passengers=48200)
        with client.responses.stream(model="vrag", input=QUESTION, text_format=Sourced) as stream:
            streamed = stream.get_final_response().output_parsed
        assert streamed == Sourced(answer="48,200", sources=["ferry.pdf, part of page 2"])

    @pytest.mark.parametrize("stream", [False, True])
    def test_any_object_has_the_answer_and_its_sources(self, client: openai.OpenAI, stream: bool) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        form: Any = {"type": "json_object"}
        done: Any = client.chat.completions.create(
            model="vrag", messages=asked, response_format=form, stream=stream
        )
        if stream:
            content = "".join(chunk.choices[0].delta.content or "" for chunk in done)
        else:
            content = done.choices[0].message.content
        answer = json.loads(content)
        assert (answer["answer"], answer["claims_in_doubt"]) == ("48,200", [])
        assert [(source["document"], source["page"]) for source in answer["sources"]] == [("ferry.pdf", 2)]

    def test_a_function_that_must_be_called_has_the_answer_as_its_arguments(
        self, client: openai.OpenAI
    ) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        tools: Any = [openai.pydantic_function_tool(Sourced)]
        done = client.chat.completions.create(
            model="vrag", messages=asked, tools=tools, tool_choice="required"
        )
        (call,) = list(done.choices[0].message.tool_calls or [])
        assert (done.choices[0].finish_reason, done.choices[0].message.content) == ("tool_calls", None)
        with client.chat.completions.stream(
            model="vrag", messages=asked, tools=tools, tool_choice="required"
        ) as stream:
            (streamed,) = list(stream.get_final_completion().choices[0].message.tool_calls or [])
        response: Any = client.responses.create(
            model="vrag", input=QUESTION, tools=[TOOL], tool_choice={"type": "function", "name": "respond"}
        )
        assert kinds(response) == ["reasoning", "function_call"]
        expected = {"answer": "48,200", "sources": ["ferry.pdf, part of page 2"]}
        called: Any = (call, streamed)
        assert [json.loads(each.function.arguments) for each in called] == [expected, expected]
        assert json.loads(response.output[1].arguments) == expected

    def test_no_answer_is_a_refusal_and_never_prose(self, tmp_path: Path) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        with doors(scripted(tmp_path, (SEARCH, ABSTAIN))) as opened:
            client = client_of(opened.address)
            message = (
                client.chat.completions.parse(model="vrag", messages=asked, response_format=Sourced)
                .choices[0]
                .message
            )
            response: Any = client.responses.parse(model="vrag", input=QUESTION, text_format=Sourced)
            free: Any = {"type": "json_object"}
            done = client.chat.completions.create(model="vrag", messages=asked, response_format=free)
        assert (message.content, message.parsed) == (None, None)
        assert "found no answer" in (message.refusal or "")
        assert response.output[-1].content[0].type == "refusal"
        assert json.loads(done.choices[0].message.content or "")["answer"] is None

    def test_an_answer_of_another_type_is_a_refusal_that_has_it(self, tmp_path: Path) -> None:
        asked: Any = [{"role": "user", "content": QUESTION}]
        with doors(scripted(tmp_path, (SEARCH, "<think>a</think><answer>many</answer>"))) as opened:
            client = client_of(opened.address)
            done = client.chat.completions.parse(model="vrag", messages=asked, response_format=Passengers)
        assert done.choices[0].message.content is None
        refusal = done.choices[0].message.refusal or ""
        assert "'passengers' is of the type 'integer', and the answer is not. It is: many [1]" in refusal

    def test_a_schema_without_a_place_is_refused_before_a_run(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path)) as opened:
            with pytest.raises(
                openai.BadRequestError, match="'mood', which an answer does not have"
            ) as caught:
                client_of(opened.address).responses.parse(model="vrag", input=QUESTION, text_format=Guess)
            assert httpx.get(f"{opened.address}/runs").json()["runs"] == []
        assert caught.value.param == "text.format"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": ""}, "input"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": [{"role": "assistant", "content": "hi"}]}, "input"),
    ({"input": [{"content": "hi"}]}, "input"),
    ({"input": [{"role": "user", "content": 5}]}, "input.0.content"),
    ({"input": [{"role": "user", "content": [{"text": "hi"}]}]}, "input.0.content.0.type"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "1"}]}]}, "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://a/b"}]}]}, "input"),
    ({"model": "gpt-9"}, "model"),
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "1"}}, "prompt"),
    ({"previous_response_id": "resp_0"}, "previous_response_id"),
    ({"previous_response_id": "resp_../../x"}, "previous_response_id"),
    ({"text": {"format": {"type": "grammar"}}}, "text.format"),
    ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ({"vrag": {"max_steps": 0}}, "vrag.max_steps"),
    ({"stream": "perhaps"}, "stream"),
]
INPUTS: st.SearchStrategy[Any] = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["message", "function_call", "item_reference"]) | JSON,
            "role": st.sampled_from(["user", "assistant", "tool"]) | JSON,
            "content": st.text(max_size=30) | st.lists(PARTS, max_size=3) | JSON,
        },
    ),
    max_size=4,
)


class TestRefusals:
    @pytest.mark.parametrize(("change", "param"), BAD)
    def test_what_cannot_be_names_the_field(self, served: Doors, change: dict[str, Any], param: str) -> None:
        body = {"model": "vrag", "input": QUESTION, **change}
        response = httpx.post(f"{served.address}/v1/responses", json=body)
        assert response.status_code == (404 if param == "model" else 400), response.text
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"] == param
        assert error["message"].endswith((".", "…"))

    @given(st.fixed_dictionaries({"model": st.just("vrag")}, optional={"input": INPUTS | JSON, "text": JSON}))
    def test_a_body_is_a_question_or_refused(self, body: dict[str, Any]) -> None:
        try:
            request = ResponseRequest.model_validate_json(json.dumps(body))
            request.check()
            asked = read_question(request, request.turns, OFFER)
        except (ValidationError, InvalidRequest):
            return
        assert asked.run.question.strip()
