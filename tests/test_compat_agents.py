"""The agents under their old names: over a real model server and a real search server."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Refuse, Say
from PIL import Image

from vrag.compat import VRAG, VimRAG
from vrag.errors import ModelError, SearchError, SettingsError
from vrag.server.app import create_app
from vrag.server.options import ServerOptions
from vrag.server.running import listen, make_server
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

SEARCH = "<think>Look.</think><search>ferry passengers</search>"
CROP = "<think>Closer.</think><bbox>[0, 0, 266, 120]</bbox>"
ANSWER = "<think>Seen.</think><answer>48,200</answer>"


@pytest.fixture(scope="module")
def search_url() -> Generator[str]:
    """Of a search server over the tiny corpus."""
    with searching(ServerOptions()) as url:
        yield url


@contextlib.contextmanager
def searching(options: ServerOptions) -> Generator[str]:
    """The address of one."""
    ready = threading.Event()
    server = make_server(create_app(tiny_corpus(), options), options, ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert ready.wait(20)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/search"
        finally:
            server.should_exit = True
            thread.join(40)


@contextlib.contextmanager
def model(*replies: str) -> Generator[ChatServer]:
    with ChatServer(tuple(Say(reply) for reply in replies)) as server:
        yield server


class TestVrag:
    def test_it_yields_what_the_demo_shows_and_returns_the_answer(self, search_url: str) -> None:
        with model(SEARCH, CROP, ANSWER) as server:
            run = VRAG(server.url.replace("127.0.0.1", "0.0.0.0"), search_url, model_name="scripted").run("?")
            assert not isinstance(run, str)
            steps: list[tuple[str, Any, Any]] = []
            while True:
                try:
                    steps.append(next(run))
                except StopIteration as stop:
                    answer = stop.value
                    break
        assert [kind for kind, _, _ in steps] == [
            "think", "search", "search_image", "think", "bbox", "crop_image", "think",
        ]  # fmt: skip
        assert steps[1] == ("search", "ferry passengers", SEARCH)
        shown, page = steps[2][1:]
        assert isinstance(shown, Image.Image)
        assert (shown.size, page.size) == ((532, 728), (1000, 1400))
        assert steps[4][1] == "[0, 0, 266, 120]"
        crop, boxed = steps[5][1:]
        assert crop.width > crop.height
        assert boxed.size == (532, 728)
        assert boxed.getpixel((263, 60)) == (160, 32, 240)
        assert boxed.getpixel((400, 400)) != (160, 32, 240)
        assert answer == ("answer", "48,200", ANSWER)

    def test_without_a_generator_it_gives_the_answer_alone(self, search_url: str) -> None:
        with model(SEARCH, ANSWER) as server:
            agent = VRAG(server.url, search_url, generator=False, api_key="EMPTY", model_name="scripted")
            assert agent.run("How many?") == "48,200"

    def test_the_number_of_steps_is_an_attribute_and_a_run_without_an_answer_gives_none(
        self, search_url: str
    ) -> None:
        with model(SEARCH) as server:
            agent = VRAG(server.url, search_url, generator=False, model_name="scripted")
            agent.max_steps = 2
            assert agent.run("?") == ""
            assert len(server.requests) == 2

    def test_an_abstention_is_told_as_the_model_put_it(self, search_url: str) -> None:
        with model("<think>No.</think><answer>Not answerable.</answer>") as server:
            assert (
                VRAG(server.url, search_url, generator=False, model_name="scripted").run("?")
                == "Not answerable."
            )

    def test_failures_are_raised(self, search_url: str) -> None:
        with ChatServer((Refuse(401, "who are you?"),)) as server:
            agent = VRAG(server.url, search_url, generator=False, model_name="scripted")
            with pytest.raises(ModelError, match="401"):
                agent.run("?")
        with model(SEARCH) as server:
            agent = VRAG(server.url, "http://127.0.0.1:9/search", generator=False, model_name="scripted")
            with pytest.raises(SearchError, match="cannot be reached"):
                agent.run("?")


def test_the_search_server_is_asked_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the token, and with the folder of its pictures where the caller names none."""
    with searching(ServerOptions(token="geheim")) as url, model(SEARCH, ANSWER) as server:
        monkeypatch.setenv("VRAG_SEARCH_KEY", "geheim")
        assert VRAG(server.url, url, generator=False, model_name="scripted").run("?") == "48,200"
    monkeypatch.setenv("VRAG_IMAGE_ROOT", "no/such/folder")
    with pytest.raises(SettingsError, match="no/such/folder"):
        VRAG("http://localhost:1/v1", "http://localhost:1", model_name="scripted")
    with pytest.raises(SettingsError, match="another/one"):
        VimRAG("http://localhost:1/v1", "http://localhost:1", "m", "k", image_root="another/one")


class TestVimrag:
    def test_it_yields_dictionaries_the_answer_among_them(self, search_url: str) -> None:
        with ChatServer(think_and_call) as server:
            agent = VimRAG(server.url, search_url, "scripted", "key", enable_thinking=True)
            events = list(agent.run({"query": "How many passengers?"}))
            bodies = [asked.body for asked in server.requests]
        assert all(event.keys() >= {"event", "content"} for event in events)
        by_kind = {event["event"]: event["content"] for event in events}
        assert by_kind["answer"] == "48,200"
        assert by_kind["search"] == "ferry passengers"
        assert "ferry.pdf_2" in by_kind["search_result"]
        assert [node["kind"] for node in by_kind["graph"]] == ["root", "search", "answer"]
        assert [entry["label"] for entry in by_kind["memory"]] == ["Picture 1"]
        assert json.dumps(events)
        assert bodies[0]["enable_thinking"] is True
        assert bodies[0]["temperature"] == 0.6

    def test_a_failure_is_an_event(self, search_url: str) -> None:
        with ChatServer((Refuse(404, "no such model"),)) as server:
            *_, last = VimRAG(server.url, search_url, "scripted", "key").run({"query": "?"})
        assert last["event"] == "error"


def think_and_call(asked: Asked) -> Say:
    """Searches, memorises the first picture, answers."""
    if '"summary":"It' in asked.text:
        return call("add_answer_node", parent_ids=["n1"], answer="48,200")
    if asked.turn == 0:
        return call("add_search_node", id="n1", parent_ids=["root"], query="ferry passengers")
    labels = [label for label in ("Text 1", "Picture 1", "Picture 2") if f"{label}" in asked.text]
    return call(
        "summarize_and_memorize", summarize="It says 48,200.", memorize=[note(one, labels) for one in labels]
    )


def note(label: str, labels: Sequence[str]) -> dict[str, object]:
    useful = label == next(one for one in labels if one.startswith("Picture"))
    return {"information_id": label, "is_useful": useful, "priority_score": 5 if useful else 1}


def call(name: str, **arguments: object) -> Say:
    return Say("", thought="Let me see.", calls=((name, json.dumps(arguments)),))
