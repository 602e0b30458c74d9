"""How completions end: with an answer, without one, and when the client leaves."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from completions_client import PLACES, QUESTION, client_of, extra, joined, place
from hosting import SEARCH
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from server_harness import dial
from service_harness import doors, scripted

from vrag.agent.answers.conflicts import ConflictPlace, FoundConflict
from vrag.agent.events import (
    AnswerGiven,
    DocumentChoice,
    ModelRetried,
    RunSettings,
    RunStarted,
    StopReason,
    ThoughtDelta,
)
from vrag.agent.runs.run_result import RunResult
from vrag.errors import ModelError
from vrag.server.openai.reply import Reasoning, build_reply, plain_answer
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.evidence import Evidence


ABSTAIN = "<think>No.</think><answer>not answerable</answer>"

pytestmark = pytest.mark.usefixtures("closing")


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


class TestWaiting:
    @pytest.mark.parametrize("interface", ["chat", "responses"])
    def test_a_stream_has_its_position_among_its_thoughts_and_then_the_answer(
        self, tmp_path: Path, interface: str
    ) -> None:
        with doors(scripted(tmp_path, paced=True), ServerOptions(runs=1, drain_seconds=2)) as opened:
            httpx.post(f"{opened.address}/runs", json={"question": "First?"})
            client = client_of(opened.address)
            if interface == "chat":
                stream = client.chat.completions.create(model="vrag", messages=QUESTION, stream=True)
                thoughts = (extra(chunk.choices[0].delta).get("reasoning_content", "") for chunk in stream)
            else:
                events = client.responses.create(model="vrag", input="How many?", stream=True)
                thoughts = (getattr(event, "delta", "") for event in events)
            assert next(filter(None, thoughts)) == "Waiting: 1st in the queue\n\n"
            opened.policy.go.set()
            rest = "".join(thoughts)
            assert "Searching: ferry passengers" in rest
            assert "queue" not in rest

    def test_a_whole_answer_waits_and_has_no_position(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, paced=True), ServerOptions(runs=1, drain_seconds=2)) as opened:
            httpx.post(f"{opened.address}/runs", json={"question": "First?"})
            threading.Timer(0.5, opened.policy.go.set).start()
            done = client_of(opened.address).chat.completions.create(model="vrag", messages=QUESTION)
            message = done.choices[0].message
        assert (message.content or "").startswith("48,200")
        assert "queue" not in extra(message)["reasoning_content"]


class TestLeaving:
    @pytest.mark.parametrize("streams", [True, False])
    def test_leaving_gives_up_the_place_in_the_queue(self, tmp_path: Path, streams: bool) -> None:
        def states() -> list[str]:
            return [run["state"] for run in httpx.get(f"{opened.address}/runs").json()["runs"]]

        def wait_for(*wanted: str) -> None:
            deadline = time.monotonic() + 60
            while states() != [*wanted]:
                assert time.monotonic() < deadline, states()
                time.sleep(0.01)

        with doors(scripted(tmp_path, paced=True), ServerOptions(runs=1, drain_seconds=2)) as opened:
            httpx.post(f"{opened.address}/runs", json={"question": "First?"})
            with dial(opened.address) as connection:
                connection.sendall(_chat_request(stream=streams))
                wait_for("waiting", "running")
            wait_for("finished", "running")
            runs = httpx.get(f"{opened.address}/runs").json()["runs"]
            assert runs[0]["stop_reason"] == "cancelled"
            assert len(opened.policy.told) == 1

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
            with dial(opened.address) as connection:
                connection.sendall(_chat_request())
                deadline = time.monotonic() + 60
                while not httpx.get(f"{opened.address}/runs").json()["runs"]:
                    assert time.monotonic() < deadline, "the run never began"
                    time.sleep(0.01)
            assert self.ended(opened.address) == "cancelled"

    def test_a_stream_read_to_its_end_leaves_the_run_as_it_ended(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path)) as opened:
            list(
                client_of(opened.address).chat.completions.create(
                    model="vrag", messages=QUESTION, stream=True
                )
            )
            assert self.ended(opened.address) == "answered"


def _chat_request(**options: object) -> bytes:
    """A request as it is sent."""
    body = json.dumps({"model": "vrag", "messages": QUESTION, **options}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def outline(
    text: str | None, evidence: tuple[Evidence, ...], reason: StopReason, policy: str = "scripted"
) -> RunResult:
    head: Any = {"run_id": "1", "ts": 1.0}
    about = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl")
    start = RunStarted(**head, seq=0, step=0, question="?", settings=about, collection="")
    end = AnswerGiven(**head, seq=1, step=1, text=text, evidence=evidence, stop_reason=reason)
    return RunResult.of([start, end])


class TestReply:
    @given(text=st.text(min_size=1).filter(str.strip), places=PLACES)
    def test_an_answer_comes_back_as_it_was(self, text: str, places: tuple[Evidence, ...]) -> None:
        said = build_reply("1", outline(text, places, StopReason.ANSWERED), "/#/runs/1")
        if places and not re.search(r"\[\d+\]", text):
            assert plain_answer(said.content) == text.rstrip().replace("![", "!\\[")

    @given(text=st.text(min_size=1).filter(str.strip), places=PLACES)
    def test_every_annotation_covers_its_marker(self, text: str, places: tuple[Evidence, ...]) -> None:
        said = build_reply("1", outline(text, places, StopReason.ANSWERED), "/#/runs/1")
        assert len(said.annotations) == len(places)
        for number, one in enumerate(said.annotations, 1):
            cited = one.url_citation
            assert said.content[cited.start_index : cited.end_index] == f"[{number}]"
        assert len(said.vrag.evidence) == len(places)

    def test_what_was_only_looked_at_has_no_marker(self) -> None:
        page = place(page=2).model_copy(update={"item": "other", "box": (0.0, 0.0, 1.0, 1.0)})
        said = build_reply("1", outline("12", (place(), page), StopReason.ANSWERED), "/#/runs/1")
        assert said.answer == "12 [1]"
        assert "page 2" not in said.content
        assert ([one.page for one in said.vrag.looked_at], said.vrag.looked_at[0].number) == ([2], 2)

    def test_without_an_answer_all_that_was_looked_at_is_told(self) -> None:
        page = place(page=2).model_copy(update={"item": "other", "box": (0.0, 0.0, 1.0, 1.0)})
        said = build_reply("1", outline(None, (place(), page), StopReason.ABSTAINED), "/#/runs/1")
        assert "page 1" in said.sources
        assert "page 2" in said.sources

    def test_what_was_only_quoted_says_so_and_comes_back_without(self) -> None:
        said = build_reply(
            "1", outline("12 crowns", (place(),), StopReason.ANSWERED, "extractive"), "/#/runs/1"
        )
        assert "without a model" in said.content
        assert plain_answer(said.content) == "12 crowns"

    def test_what_others_said_is_left_alone(self) -> None:
        assert plain_answer("See [1] and [2]") == "See [1] and [2]"

    @pytest.mark.parametrize("reason", [StopReason.ABSTAINED, StopReason.OUT_OF_STEPS, StopReason.CANCELLED])
    def test_no_answer_is_none_in_the_history(self, reason: StopReason) -> None:
        said = build_reply("1", outline(None, (place(),), reason), "/#/runs/1")
        assert plain_answer(said.content) is None
        assert said.is_cut == (reason is StopReason.OUT_OF_STEPS)

    def test_names_of_documents_stay_text(self) -> None:
        name = "a](http://evil) ![x](http://evil/y.png) <img src=x>.pdf"
        said = build_reply("1", outline("Yes.", (place(name),), StopReason.ANSWERED), "/#/runs/1")
        line = said.content.rpartition("\n")[2]
        assert re.findall(r"(?<!\\)[\[\]<>]", line) == ["[", "]", "[", "]"]

    def test_no_answer_makes_a_client_fetch_a_picture(self) -> None:
        said = build_reply("1", outline("![x](http://evil/?q)", (), StopReason.ANSWERED), "")
        assert "![" not in said.content

    @pytest.mark.parametrize("before", ["", "> ", "- "])
    def test_no_answer_gives_its_markers_another_address(self, before: str) -> None:
        text = f"Yes.\n\n{before}[1]: http://evil/\n\nNo."
        said = build_reply("1", outline(text, (place(),), StopReason.ANSWERED), "/#/runs/1")
        links = re.findall('<a href="([^"]*)"', MarkdownIt().render(said.content))
        assert links == ["/#/runs/1?cite=1"]
        assert plain_answer(said.content) == text.replace("[1]:", "\\[1]:")

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


@pytest.mark.parametrize("text", ["It is 12 crowns.", None])
def test_the_documents_that_may_be_meant_and_that_disagree_are_told_and_taken_out_again(
    text: str | None,
) -> None:
    side = ConflictPlace(
        document="a.md", document_id="a", item="a-1", page=None, box=None, value="12", quote="It is 12."
    )
    conflict = FoundConflict(
        kind="number",
        subject="fare",
        attribute="",
        sides=(side, side.model_copy(update={"document": "*b*.md", "value": "14"})),
        newer=None,
    )
    choices = (DocumentChoice(document="a", name="a.md"), DocumentChoice(document="b", name="[b](x).md"))
    reason = StopReason.ABSTAINED if text is None else StopReason.ANSWERED
    run = replace(outline(text, (place(),), reason), conflicts=(conflict, conflict), choices=choices)
    said = build_reply("1", run, "/#/runs/1")

    assert said.vrag.choices == choices
    assert "\n\nThis may be about several documents: a.md, \\[b\\](x).md. Name one" in said.sources
    assert said.sources.count("- Two sources disagree: “12” in a.md, “14” in \\*b\\*.md.") == 2
    assert plain_answer(said.content) == text


def test_a_question_about_one_document_has_no_choice() -> None:
    said = build_reply("1", outline("12", (place(),), StopReason.ANSWERED), "/#/runs/1")
    assert said.vrag.choices == ()
    assert "several documents" not in said.content
