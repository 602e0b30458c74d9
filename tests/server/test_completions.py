"""The door for OpenAI's clients, asked by the official one over a socket."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from completions_client import QUESTION, client_of, extra, joined
from hosting import OFFER
from PIL import Image
from service_harness import Doors, doors, scripted

from vrag.agent.policy import Text
from vrag.agent.question import PreviousTurn
from vrag.server.openai import answers
from vrag.server.openai.request import find_model, model_cards

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("closing")


def picture(form: str = "PNG") -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (300, 200), "navy").save(buffer, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


class TestModels:
    def test_every_agent_stands_alone_and_with_every_model(self, client: openai.OpenAI) -> None:
        names = [model.id for model in client.models.list()]
        assert names[:2] == ["vrag", "vimrag"]
        assert sorted(names[2:]) == [
            f"{agent}/{model}" for agent in ("vimrag", "vrag") for model in ("scripted", "without-a-model")
        ]

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
        assert find_model("vimrag/a/b-7B", offer) == ("vimrag", "a/b-7B")
        assert "vimrag/a/b-7B" in {card.id for card in model_cards(offer, 0).data}

    def test_an_agent_can_be_asked_without_a_model(self) -> None:
        assert find_model("vrag/without-a-model", OFFER) == ("vrag", "")
        assert find_model("vrag", OFFER) == ("vrag", None)


class TestWhole:
    def test_the_answer_carries_markers_and_their_places(self, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        choice = done.choices[0]
        content = choice.message.content or ""
        assert choice.finish_reason == "stop"
        assert content.startswith("48,200 [1]")
        assert "**Sources**" in content
        assert "ferry.pdf, part of page 2" in content
        for number, annotation in enumerate(choice.message.annotations or (), 1):
            cited = annotation.url_citation
            assert content[cited.start_index : cited.end_index] == f"[{number}]"
            assert cited.title == "ferry.pdf, part of page 2"
            assert cited.url.endswith(f"?cite={number}")
            assert cited.url in content

    def test_boxes_and_run_come_along_as_data(self, served: Doors, client: openai.OpenAI) -> None:
        done = client.chat.completions.create(model="vrag", messages=QUESTION)
        part = extra(done.choices[0].message)["vrag"]
        assert part["stop_reason"] == "answered"
        first = part["evidence"][0]
        assert (first["number"], first["document"], first["page"]) == (1, "ferry.pdf", 2)
        assert all(0 <= side <= 1 for side in first["box"])
        run = httpx.get(f"{served.address}/runs/{part['run_id']}").json()
        known = {key: value for key, value in first.items() if key != "url"}
        assert known == run["evidence"][0]
        assert first["url"] == f"{served.address}/#/runs/{part['run_id']}?cite=1"

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
            asking = httpx.stream("POST", f"{opened.address}/v1/chat/completions", json=body, timeout=120)
            with asking as response:
                lines = response.iter_lines()
                while not next(lines).startswith(": beat"):
                    pass
                opened.policy.go.set()
                assert "data: [DONE]" in list(lines)
        assert beats


def with_quick_beats(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Beats come at once."""
    from vrag.server.runs.sse import with_beats

    used: list[float] = []

    def quick(events: Any) -> Any:  # noqa: ANN401
        used.append(0.02)
        return with_beats(events, 0.02)

    monkeypatch.setattr(answers, "with_beats", quick)
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
        assert started.history == (PreviousTurn("How many passengers?", "48,200"),)
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
