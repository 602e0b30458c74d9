"""The door for OpenAI's clients, asked by the official one over a socket."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from doors_harness import Doors, doors, scripted
from hosting import ANSWER, OFFER, SEARCH
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from vrag.agent.events import AnswerGiven, ModelRetried, RunSettings, RunStarted, StopReason, ThoughtDelta
from vrag.agent.evidence import Evidence
from vrag.agent.outline import Outline
from vrag.agent.policy import Text
from vrag.agent.question import Exchange
from vrag.errors import ModelError
from vrag.server.completions.asking import CompletionRequest, read
from vrag.server.completions.errors import Unfit
from vrag.server.completions.models import cards_of, model_named
from vrag.server.completions.reply import Reasoning, plain_answer, reply_of
from vrag.server.options import ServerOptions
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from openai.types.chat import ChatCompletionChunk

QUESTION: Any = [{"role": "user", "content": "How many passengers?"}]
CROP = "<think>Closer.</think><bbox>[0, 0, 300, 200]</bbox>"
ABSTAIN = "<think>No.</think><answer>not answerable</answer>"


CLIENTS: list[openai.OpenAI] = []


def client_of(address: str, key: str = "none", retries: int = 0) -> openai.OpenAI:
    """The official client; closed when the test ends."""
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=retries, timeout=30)
    CLIENTS.append(client)
    return client


@pytest.fixture(autouse=True)
def closing() -> Generator[None]:
    yield
    while CLIENTS:
        CLIENTS.pop().close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Doors]:
    with doors(scripted(tmp_path_factory.mktemp("runs"), (SEARCH, CROP, ANSWER))) as opened:
        yield opened


@pytest.fixture
def client(served: Doors) -> openai.OpenAI:
    return client_of(served.address)


def picture(form: str = "PNG") -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (300, 200), "navy").save(buffer, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def extra(thing: Any) -> dict[str, Any]:  # noqa: ANN401
    """Fields that the client's type does not know."""
    return thing.model_extra or {}


class TestModels:
    def test_every_agent_stands_alone_and_with_every_model(self, client: openai.OpenAI) -> None:
        names = [model.id for model in client.models.list()]
        assert names[:2] == ["vrag", "vimrag"]
        assert sorted(names[2:]) == ["vimrag/offline", "vimrag/scripted", "vrag/offline", "vrag/scripted"]

    def test_every_listed_model_can_be_had(self, client: openai.OpenAI) -> None:
        for model in client.models.list():
            assert client.models.retrieve(model.id) == model

    def test_an_unknown_model_is_a_404_with_its_code(self, client: openai.OpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("gpt-9")
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="gpt-9", messages=QUESTION)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")

    def test_names_with_slashes_name_models(self) -> None:
        offer = OFFER.model_copy(update={"models": (OFFER.models[0].model_copy(update={"name": "a/b-7B"}),)})
        assert model_named("vimrag/a/b-7B", offer) == ("vimrag", "a/b-7B")
        assert "vimrag/a/b-7B" in {card.id for card in cards_of(offer, 0).data}

    def test_offline_is_the_policy_without_a_model(self) -> None:
        assert model_named("vrag/offline", OFFER) == ("vrag", "")
        assert model_named("vrag", OFFER) == ("vrag", None)


class TestWhole:
    def test_the_answer_carries_markers_and_their_places(self, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        choice = done.choices[0]
        content = choice.message.content or ""
        assert choice.finish_reason == "stop"
        assert content.startswith("48,200 [1]")
        assert "**Sources**" in content
        assert "ferry.pdf, page 2" in content
        for number, annotation in enumerate(choice.message.annotations or (), 1):
            cited = annotation.url_citation
            assert content[cited.start_index : cited.end_index] == f"[{number}]"
            assert cited.title == "ferry.pdf, page 2"
            assert cited.url in content

    def test_boxes_and_run_come_along_as_data(self, served: Doors, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        part = extra(done.choices[0].message)["vrag"]
        assert part["stop_reason"] == "answered"
        first = part["evidence"][0]
        assert (first["number"], first["document"], first["page"]) == (1, "ferry.pdf", 2)
        assert all(0 <= side <= 1 for side in first["box"])
        run = httpx.get(f"{served.address}/runs/{part['run_id']}").json()
        known = {key: value for key, value in first.items() if key not in {"number", "url"}}
        assert known == run["evidence"][0]
        assert first["url"] == f"{served.address}/#/runs/{part['run_id']}"

    def test_the_box_of_a_part_stands_in_the_text(self, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        box = extra(done.choices[0].message)["vrag"]["evidence"][0]["box"]
        assert f"box {', '.join(f'{side:.3f}' for side in box)}" in (done.choices[0].message.content or "")

    def test_thoughts_and_steps_are_told_apart_from_the_answer(self, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        told = extra(done.choices[0].message)["reasoning_content"]
        assert told.split("\n\n")[:3] == [
            "Where is it?",
            "Searching: ferry passengers",
            "Looking at ferry.pdf, page 2",
        ]

    def test_usage_is_whole(self, client: openai.OpenAI) -> None:
        usage = client.chat.completions.create(model="vrag", messages=QUESTION).usage
        assert usage is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert extra(usage)["vrag"]["visual_tokens"] > 0
        assert extra(usage)["vrag"]["steps"] == 3

    def test_the_asynchronous_client_is_served_alike(self, served: Doors) -> None:
        async def ask() -> str:
            address = f"{served.address}/v1"
            async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
                done = await client.chat.completions.create(model="vrag", messages=QUESTION)
                parts = await client.chat.completions.create(model="vrag", messages=QUESTION, stream=True)
                told = [part async for part in parts]
            return json.dumps([done.choices[0].message.content, joined(iter(told))])

        whole, streamed = json.loads(asyncio.run(ask()))
        assert strip_run(whole) == strip_run(streamed)


def joined(chunks: Iterator[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def strip_run(content: str) -> str:
    """A message without the id of its run."""
    return content.partition("**Sources**")[0]


class TestStream:
    def test_a_stream_says_what_the_whole_says(self, client: openai.OpenAI) -> None:
        whole = client.chat.completions.create(model="vrag", messages=QUESTION).choices[0].message
        chunks = list(client.chat.completions.create(model="vrag", messages=QUESTION, stream=True))
        assert strip_run(joined(iter(chunks))) == strip_run(whole.content or "")
        reasoning = "".join(extra(c.choices[0].delta).get("reasoning_content", "") for c in chunks)
        assert reasoning.strip() == extra(whole)["reasoning_content"]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert len({chunk.id for chunk in chunks}) == 1

    def test_the_last_chunk_ends_it_and_brings_the_citations(self, client: openai.OpenAI) -> None:
        chunks = list(client.chat.completions.create(model="vrag", messages=QUESTION, stream=True))
        reasons = [chunk.choices[0].finish_reason for chunk in chunks]
        assert reasons == [None] * (len(chunks) - 1) + ["stop"]
        last, content = extra(chunks[-1].choices[0].delta), joined(iter(chunks))
        cited = last["annotations"][0]["url_citation"]
        assert content[cited["start_index"] : cited["end_index"]] == "[1]"
        assert last["vrag"]["evidence"][0]["document"] == "ferry.pdf"

    def test_usage_comes_when_it_is_asked_for_in_a_chunk_of_its_own(self, client: openai.OpenAI) -> None:
        asked: Any = {"include_usage": True}
        *rest, last = client.chat.completions.create(
            model="vrag", messages=QUESTION, stream=True, stream_options=asked
        )
        assert last.choices == []
        assert last.usage is not None
        assert all(chunk.usage is None for chunk in rest)

    def test_it_is_plain_server_sent_events_ending_with_done(self, served: Doors) -> None:
        body = {"model": "vrag", "messages": QUESTION, "stream": True}
        response = httpx.post(f"{served.address}/v1/chat/completions", json=body)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.text.endswith("data: [DONE]\n\n")

    def test_a_silent_model_is_bridged_by_comments(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beats = with_quick_beats(monkeypatch)
        with doors(scripted(tmp_path, paced=True)) as opened:
            body = {"model": "vrag", "messages": QUESTION, "stream": True}
            asking = httpx.stream("POST", f"{opened.address}/v1/chat/completions", json=body, timeout=30)
            with asking as response:
                lines = response.iter_lines()
                while not next(lines).startswith(": beat"):
                    pass
                opened.policy.go.set()
                assert "data: [DONE]" in list(lines)
        assert beats


def with_quick_beats(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Beats come at once."""
    from vrag.server.completions import stream
    from vrag.server.runs.frames import with_beats

    used: list[float] = []

    def quick(events: Any) -> Any:  # noqa: ANN401
        used.append(0.02)
        return with_beats(events, 0.02)

    monkeypatch.setattr(stream, "with_beats", quick)
    return used


class TestConversation:
    def test_earlier_turns_become_history_and_the_system_is_not_obeyed(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        with doors(answering) as opened:
            first = client_of(opened.address).chat.completions.create(model="vrag", messages=QUESTION)
            turns: Any = [
                {"role": "system", "content": "Speak like a pirate."},
                *QUESTION,
                {"role": "assistant", "content": first.choices[0].message.content},
                {"role": "user", "content": [{"type": "text", "text": "And cars?"}]},
            ]
            client_of(opened.address).chat.completions.create(model="vrag", messages=turns)
            runs = httpx.get(f"{opened.address}/runs").json()["runs"]
        started = answering.store.read(runs[0]["id"]).started
        assert started.question == "And cars?"
        assert started.history == (Exchange("How many passengers?", "48,200"),)
        told = [
            part.text
            for history in answering.policy.told
            for message in history
            for part in message.parts
            if isinstance(part, Text)
        ]
        assert not any("pirate" in text for text in told)

    def test_pictures_of_the_question_reach_the_run(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": picture("PNG"), "detail": "high"}},
            {"type": "image_url", "image_url": {"url": picture("JPEG")}},
        ]
        with doors(answering) as opened:
            turns: Any = [{"role": "user", "content": parts}]
            client_of(opened.address).chat.completions.create(model="vrag", messages=turns)
            (run,) = httpx.get(f"{opened.address}/runs").json()["runs"]
        assert len(answering.store.read(run["id"]).started.attached) == 2

    def test_choices_of_ours_reach_the_agent(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        chosen = {"max_steps": 4, "top_k": 2, "thinking": "off", "documents": ["66657272792e7064"]}
        with doors(answering) as opened:
            client_of(opened.address).chat.completions.create(
                model="vrag/scripted", messages=QUESTION, extra_body={"vrag": chosen}
            )
        choice = answering.choices[-1]
        assert (choice.agent, choice.model) == ("vrag", "scripted")
        assert (choice.max_steps, choice.top_k, choice.thinking) == (4, 2, "off")
        assert choice.documents == {"66657272792e7064"}


class TestEnds:
    def test_abstention_is_a_sentence(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, (SEARCH, ABSTAIN))) as opened:
            done = client_of(opened.address).chat.completions.create(model="vrag", messages=QUESTION)
        assert extra(done.choices[0].message)["vrag"]["stop_reason"] == "abstained"
        assert done.choices[0].finish_reason == "stop"
        assert "found no answer" in (done.choices[0].message.content or "")
        assert done.choices[0].message.annotations == []

    def test_a_failed_model_is_an_error_and_not_asked_again_by_itself(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        answering.policy.fault = ModelError("The model is gone.", "Start it.")
        with doors(answering) as opened:
            patient = client_of(opened.address, retries=2)
            with pytest.raises(openai.InternalServerError, match="The model is gone") as caught:
                patient.chat.completions.create(model="vrag", messages=QUESTION)
            assert caught.value.status_code == 502
            assert len(httpx.get(f"{opened.address}/runs").json()["runs"]) == 1

    def test_in_a_stream_it_is_an_error_that_the_client_raises(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        answering.policy.fault = ModelError("The model is gone.", "Start it.")
        with (
            doors(answering) as opened,
            pytest.raises(openai.APIError, match="The model is gone"),
        ):
            list(
                client_of(opened.address).chat.completions.create(
                    model="vrag", messages=QUESTION, stream=True
                )
            )

    def test_a_run_that_somebody_stops_ends_as_a_message(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, paced=True)) as opened:
            stream = client_of(opened.address).chat.completions.create(
                model="vrag", messages=QUESTION, stream=True
            )
            run = next(stream).id.removeprefix("chatcmpl-")
            httpx.delete(f"{opened.address}/runs/{run}")
            assert "stopped" in joined(stream)


class TestLeaving:
    def ended(self, address: str) -> str:
        """Why the only run of a server ended."""
        for _ in range(2000):
            runs = httpx.get(f"{address}/runs").json()["runs"]
            if runs and runs[0]["state"] == "finished":
                return runs[0]["stop_reason"]
            time.sleep(0.01)
        raise AssertionError("the run never ended")

    def test_leaving_a_stream_stops_its_run(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, paced=True)) as opened:
            stream = client_of(opened.address).chat.completions.create(
                model="vrag", messages=QUESTION, stream=True
            )
            next(stream)
            stream.close()
            assert self.ended(opened.address) == "cancelled"

    def test_leaving_before_the_answer_stops_its_run(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, paced=True)) as opened:
            body = {"model": "vrag", "messages": QUESTION}
            url = f"{opened.address}/v1/chat/completions"

            with pytest.raises(httpx.ReadTimeout):
                httpx.post(url, json=body, timeout=1)
            assert self.ended(opened.address) == "cancelled"

    def test_a_stream_read_to_its_end_leaves_the_run_as_it_ended(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path)) as opened:
            list(
                client_of(opened.address).chat.completions.create(
                    model="vrag", messages=QUESTION, stream=True
                )
            )
            assert self.ended(opened.address) == "answered"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n"),
    ({"n": 0}, "n"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"role": "assistant", "content": "hi"}]}, "messages"),
    ({"messages": [{"role": "system", "content": "hi"}]}, "messages"),
    ({"messages": [*QUESTION, {"role": "assistant", "content": "hi"}]}, "messages"),
    ({"messages": [{"role": "tool", "content": "7", "tool_call_id": "1"}, *QUESTION]}, "messages"),
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
        response = httpx.post(f"{served.address}/v1/chat/completions", content=body)
        assert response.status_code == 400
        assert response.json()["error"]["message"]

    def test_the_body_is_read_whatever_curl_calls_it(self, served: Doors) -> None:
        body = json.dumps({"model": "vrag", "messages": QUESTION}).encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        response = httpx.post(f"{served.address}/v1/chat/completions", content=body, headers=form)
        assert response.status_code == 200

    def test_fields_that_mean_nothing_here_are_ignored(self, client: openai.OpenAI) -> None:
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
            tool_choice="auto",
            extra_body={"reasoning": {"effort": "high"}, "chat_template_kwargs": {}},
        )
        assert (done.choices[0].message.content or "").startswith("48,200")

    def test_unknown_paths_and_methods_answer_in_the_same_shape(self, served: Doors) -> None:
        for method, path, status in (("POST", "/v1/embeddings", 404), ("PUT", "/v1/models", 405)):
            response = httpx.request(method, served.address + path)
            assert response.status_code == status
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            assert int(response.headers["content-length"]) == len(response.content)

    def test_other_paths_keep_theirs(self, served: Doors) -> None:
        assert "detail" in httpx.get(f"{served.address}/runs/0").json()

    def test_too_many_runs_are_a_rate_limit(self, tmp_path: Path) -> None:
        options = ServerOptions(client_runs=1)
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
        "model": st.sampled_from(["vrag", "vimrag/offline", "vrag/"]) | JSON,
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
            asked = read(CompletionRequest.model_validate_json(json.dumps(body)), OFFER)
        except (ValidationError, Unfit):
            return
        assert asked.run.question.strip()

    @settings(max_examples=60)
    @given(body=BODIES | JSON)
    def test_no_body_makes_the_server_fail(self, served: Doors, body: Any) -> None:  # noqa: ANN401
        response = httpx.post(f"{served.address}/v1/chat/completions", content=json.dumps(body).encode())
        assert response.status_code in {200, 400, 404}


def outline(
    text: str | None, evidence: tuple[Evidence, ...], reason: StopReason, policy: str = "scripted"
) -> Outline:
    head: Any = {"run_id": "1", "ts": 1.0}
    about = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl")
    start = RunStarted(**head, seq=0, step=0, question="?", settings=about, collection="")
    end = AnswerGiven(**head, seq=1, step=1, text=text, evidence=evidence, stop_reason=reason)
    return Outline.of([start, end])


def place(document: str = "a.pdf", page: int = 1) -> Evidence:
    return Evidence(
        item=f"{'0' * 16}-{page}",
        document=document,
        document_id="0" * 64,
        page=page,
        kind=ItemKind.PAGE,
        box=(0.25, 0.0, 0.5, 1.0),
    )


PLACES = st.integers(0, 12).map(lambda number: tuple(place(page=page) for page in range(1, number + 1)))


class TestReply:
    @given(text=st.text(min_size=1).filter(str.strip), places=PLACES)
    def test_an_answer_comes_back_as_it_was(self, text: str, places: tuple[Evidence, ...]) -> None:
        said = reply_of("1", outline(text, places, StopReason.ANSWERED), "/#/runs/1")
        if places and not text.rstrip().endswith("]"):
            assert plain_answer(said.content) == text.rstrip().replace("![", "!\\[")

    @given(text=st.text(min_size=1).filter(str.strip), places=PLACES)
    def test_every_annotation_covers_its_marker(self, text: str, places: tuple[Evidence, ...]) -> None:
        said = reply_of("1", outline(text, places, StopReason.ANSWERED), "/#/runs/1")
        assert len(said.annotations) == min(len(places), 8)
        for number, one in enumerate(said.annotations, 1):
            cited = one.url_citation
            assert said.content[cited.start_index : cited.end_index] == f"[{number}]"
        assert len(said.vrag.evidence) == len(places)

    def test_what_was_only_looked_at_has_no_marker(self) -> None:
        page = place(page=2).model_copy(update={"item": "other", "box": (0.0, 0.0, 1.0, 1.0)})
        said = reply_of("1", outline("12", (place(), page), StopReason.ANSWERED), "/#/runs/1")
        assert said.answer == "12 [1]"
        assert "page 2" not in said.content
        assert ([one.page for one in said.vrag.looked_at], said.vrag.looked_at[0].number) == ([2], 2)

    def test_without_an_answer_all_that_was_looked_at_is_told(self) -> None:
        page = place(page=2).model_copy(update={"item": "other", "box": (0.0, 0.0, 1.0, 1.0)})
        said = reply_of("1", outline(None, (place(), page), StopReason.ABSTAINED), "/#/runs/1")
        assert "page 1" in said.sources
        assert "page 2" in said.sources

    def test_what_was_only_quoted_says_so_and_comes_back_without(self) -> None:
        said = reply_of("1", outline("12 crowns", (place(),), StopReason.ANSWERED, "extractive"), "/#/runs/1")
        assert "not read by a model" in said.content
        assert plain_answer(said.content) == "12 crowns"

    def test_what_others_said_is_left_alone(self) -> None:
        assert plain_answer("See [1] and [2]") == "See [1] and [2]"

    @pytest.mark.parametrize("reason", [StopReason.ABSTAINED, StopReason.OUT_OF_STEPS, StopReason.CANCELLED])
    def test_no_answer_is_none_in_the_history(self, reason: StopReason) -> None:
        said = reply_of("1", outline(None, (place(),), reason), "/#/runs/1")
        assert plain_answer(said.content) is None
        assert said.is_cut == (reason is StopReason.OUT_OF_STEPS)

    def test_names_of_documents_stay_text(self) -> None:
        name = "a](http://evil) ![x](http://evil/y.png) <img src=x>.pdf"
        said = reply_of("1", outline("Yes.", (place(name),), StopReason.ANSWERED), "/#/runs/1")
        line = said.content.rpartition("\n")[2]
        assert re.findall(r"(?<!\\)[\[\]<>]", line) == ["[", "]", "[", "]"]

    def test_no_answer_makes_a_client_fetch_a_picture(self) -> None:
        said = reply_of("1", outline("![x](http://evil/?q)", (), StopReason.ANSWERED), "")
        assert "![" not in said.content

    def test_a_retry_begins_on_a_new_line(self) -> None:
        head: Any = {"run_id": "1", "ts": 1.0, "seq": 1, "step": 1}
        reasoning = Reasoning()
        again = ModelRetried(**head, reason="Too slow.", seconds=0, partial="", chunks=())
        events = [ThoughtDelta(**head, text="Perh"), again, ThoughtDelta(**head, text="Perhaps")]
        told = "".join(map(reasoning.add, events))
        assert told == "Perh\n\nAsking the model again: Too slow.\n\nPerhaps"


def test_runs_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    with doors(scripted(tmp_path)) as opened:
        said: list[str] = []

        def ask() -> None:
            done = client_of(opened.address).chat.completions.create(model="vrag", messages=QUESTION)
            part = extra(done.choices[0].message)["vrag"]
            assert done.id == f"chatcmpl-{part['run_id']}"
            said.append(done.id)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(set(said)) == 6
