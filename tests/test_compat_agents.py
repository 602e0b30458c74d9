"""The agents under their old names: over a real model server and a real search server."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import threading
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Refuse, Say
from PIL import Image

from vrag.compat import VRAG, VimRAG
from vrag.errors import ModelError, SearchError, SettingsError
from vrag.factory.instructions import Instruction
from vrag.search.client import SearchClient
from vrag.server.app import create_app
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from vrag.search.schema import SearchResult
    from vrag.types import Query

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
        assert steps[0] == ("think", "Look.", "<think>Look.</think>")
        tag = "<search>ferry passengers</search>"
        assert steps[1] == ("search", "ferry passengers", tag)
        shown = steps[2][1]
        assert isinstance(shown, Image.Image)
        assert (shown.size, steps[2][2]) == ((532, 728), tag)
        assert steps[4] == ("bbox", "[0, 0, 266, 120]", "<bbox>[0, 0, 266, 120]</bbox>")
        crop, boxed = steps[5][1:]
        assert crop.width > crop.height
        assert boxed.size == (532, 728)
        assert boxed.getpixel((263, 60)) == (160, 32, 240)
        assert boxed.getpixel((400, 400)) != (160, 32, 240)
        assert answer == ("answer", "48,200", "<answer>48,200</answer>")

    def test_without_a_generator_it_gives_the_answer_alone(self, search_url: str) -> None:
        with model(SEARCH, ANSWER) as server:
            agent = VRAG(server.url, search_url, generator=False, api_key="EMPTY", model_name="scripted")
            assert agent.run("How many?") == "48,200"

    def test_after_the_last_action_the_answer_is_demanded_in_one_more_call(self, search_url: str) -> None:
        with model(SEARCH) as server:
            agent = VRAG(server.url, search_url, generator=False, model_name="scripted")
            agent.max_steps = 2
            assert agent.run("?") == ""
            assert [len(asked.images) for asked in server.requests] == [0, 1, 2]
            assert ["last turn" in asked.text for asked in server.requests] == [False, False, True]

    def test_a_run_without_an_answer_ends_with_empty_texts(self, search_url: str) -> None:
        with model(SEARCH) as server:
            agent = VRAG(server.url, search_url, model_name="scripted")
            agent.max_steps = 1
            assert ended(agent.run("?")) == ("answer", "", "")

    def test_an_abstention_is_told_as_the_model_put_it(self, search_url: str) -> None:
        with model("<think>No.</think><answer>Not answerable.</answer>") as server:
            assert (
                VRAG(server.url, search_url, generator=False, model_name="scripted").run("?")
                == "Not answerable."
            )

    def test_a_released_checkpoint_is_shown_bare_pictures_and_its_own_instruction(
        self, search_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The question in its place, then pictures alone, at the end the words of the file."""
        own = Instruction(instruction="Be brief. Question: {question}\n", answer_now="Answer, please.")
        file = tmp_path / "own.toml"
        file.write_text(own.as_toml())
        monkeypatch.setenv("VRAG_INSTRUCTION", str(file))
        with model(SEARCH, CROP, ANSWER) as server:
            agent = VRAG(server.url, search_url, False, model_name="scripted", profile="vrag-rl")
            agent.max_steps = 2
            assert agent.run("How many?") == "48,200"
            first, *rest = server.requests[-1].body["messages"]
        assert first == {"role": "user", "content": "Be brief. Question: How many?\n"}
        observed = [message["content"] for message in rest if message["role"] == "user"]
        assert [[part["type"] for part in parts] for parts in observed] == [
            ["image_url"],
            ["image_url", "text"],
        ]
        assert observed[-1][-1]["text"] == "Answer, please."

    def test_a_key_that_is_not_accepted_is_named_as_the_argument(self, search_url: str) -> None:
        with ChatServer([Say(ANSWER)], key="right") as server:
            agent = VRAG(server.url, search_url, model_name="scripted", api_key="wrong", generator=False)
            with pytest.raises(ModelError, match="The server does not accept the key: api_key"):
                agent.run("?")

    def test_failures_are_raised(self, search_url: str) -> None:
        with ChatServer((Refuse(401, "who are you?"),)) as server:
            agent = VRAG(server.url, search_url, generator=False, model_name="scripted")
            with pytest.raises(ModelError, match="401"):
                agent.run("?")
        with model(SEARCH) as server:
            agent = VRAG(server.url, "http://127.0.0.1:9/search", generator=False, model_name="scripted")
            with pytest.raises(SearchError, match="Connection refused"):
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


@pytest.mark.parametrize("sample", ["What is shore power?", {}, {"query": ""}, {"query": 7}])
def test_what_is_no_question_is_refused_with_the_form_that_run_takes(sample: Any) -> None:  # noqa: ANN401
    agent = VimRAG("http://localhost:1/v1", "http://localhost:1/search", "qwen3-vl", "k")
    with pytest.raises(ValueError, match='"query"'):
        next(agent.run(sample))


def ended(run: Generator[tuple[str, Any, Any], None, tuple[str, Any, Any]] | str) -> tuple[str, Any, Any]:
    """What a run returns at its end."""
    assert not isinstance(run, str)
    while True:
        try:
            next(run)
        except StopIteration as stop:
            return stop.value


SEARCH_NODE = {"id": "n1", "parent_ids": ["root"], "query": "ferry passengers"}
LABELS = ("Text 1", "Picture 1", "Picture 2")


def memorize(*useful: str, labels: Sequence[str] = LABELS) -> str:
    """A call that keeps some of the results."""
    notes: list[dict[str, object]] = [
        {
            "information_id": label,
            "is_useful": label in useful,
            "key_timestamp": list[float](),
            "priority_score": 5 if label in useful else 1,
        }
        for label in labels
    ]
    return call("summarize_and_memorize", summarize="It says 48,200.", memorize=notes)


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class TestVimrag:
    @pytest.mark.parametrize("chosen", [None, "1"])
    def test_it_has_the_tools_of_the_reference_unless_the_user_chose_crop_nodes(
        self, search_url: str, monkeypatch: pytest.MonkeyPatch, chosen: str | None
    ) -> None:
        if chosen is not None:
            monkeypatch.setenv("VRAG_CROP_NODES", chosen)
        with ChatServer((Say(call("add_answer_node", parent_ids=["root"], answer="48,200")),)) as server:
            list(VimRAG(server.url, search_url, "scripted").run({"query": "How many passengers?"}))
        (asked,) = server.requests
        assert ("add_crop_node" in str(asked.body["messages"])) is (chosen is not None)

    def test_it_yields_the_events_of_the_reference_in_chunks_as_they_are_written(
        self, search_url: str
    ) -> None:
        replies = (
            Say(call("add_search_node", **SEARCH_NODE), thought="Look it up.", piece=4),
            Say(memorize("Picture 1"), thought="Found."),
            Say(call("add_answer_node", parent_ids=["n1"], answer="48,200")),
        )
        sample: dict[str, Any] = {"query": "How many passengers?"}
        with ChatServer(replies) as server:
            events = list(VimRAG(server.url, search_url, "scripted").run(sample))
        assert [(kind, len(list(group))) for kind, group in groupby(event["event"] for event in events)] == [
            ("think", 3),
            ("content", -(-len(replies[0].text) // 4)),
            ("search", 1),
            ("search_done", 1),
            ("think", 1),
            ("content", -(-len(replies[1].text) // 8)),
            ("memorize", 1),
            ("content", -(-len(replies[2].text) // 8)),
            ("answer", 1),
        ]
        assert [event["content"] for event in events[:3]] == ["Look", " it ", "up."]
        written = "".join(event["content"] for event in events if event["event"] == "content")
        assert written == "".join(reply.text for reply in replies)
        by_kind = {event["event"]: event for event in events}
        assert by_kind["search"] == {"event": "search", "query": "ferry passengers", "node_id": "n1"}
        results = by_kind["search_done"]["results"]
        assert results.keys() == {"score", "indice", "data"}
        assert [entry["type"] for entry in results["data"]] == ["image", "image", "text"]
        assert results["data"][0]["file_path"].endswith("ferry_2.jpg")
        assert by_kind["memorize"] == {"event": "memorize", "summary": "It says 48,200.", "left_out": []}
        assert by_kind["answer"]["content"] == "48,200"
        assert by_kind["answer"]["sample"] is sample
        assert [one["page"] for one in by_kind["answer"]["evidence"]] == [2]
        assert json.dumps(events)

    def test_the_sample_has_the_keys_and_shapes_of_the_reference(self, search_url: str) -> None:
        sample: dict[str, Any] = {"query": "How many passengers?"}
        with model(
            call("add_search_node", **SEARCH_NODE),
            memorize("Picture 1"),
            call("add_answer_node", parent_ids=["n1"], answer="48,200"),
        ) as server:
            events = list(VimRAG(server.url, search_url, "scripted").run(sample))
        assert sample.keys() == {
            "query", "trajectory", "search_results", "graph", "generate", "generate_times",
        }  # fmt: skip
        assert sample["graph"] == [
            {"id": "root", "name": "Question", "content": "How many passengers?"},
            {**SEARCH_NODE, "summary": "It says 48,200."},
            {"id": "answer", "parent_ids": ["n1"]},
        ]
        assert (sample["generate"], sample["generate_times"]) == ("48,200", 2)
        assert sample["search_results"] == [
            event["results"] for event in events if event["event"] == "search_done"
        ]
        first, second = sample["trajectory"]
        assert [message["role"] for message in first] == ["system", "user", "assistant", "user", "assistant"]
        assert [message["role"] for message in second] == ["system", "user", "assistant"]
        kinds = [part["type"] for part in first[3]["content"]]
        assert kinds.count("image") == 2
        remembered = next(part for part in second[1]["content"] if part["type"] == "image")
        assert remembered["image"].startswith("data:image/jpeg;base64,")
        assert second[-1]["content"] == call("add_answer_node", parent_ids=["n1"], answer="48,200")

    def test_what_cannot_be_read_is_an_error_and_the_run_goes_on(self, search_url: str) -> None:
        sample: dict[str, Any] = {"query": "?"}
        with model(
            "I do not know what to do.",
            call("add_search_node", **SEARCH_NODE),
            call("add_search_node", id="n2", parent_ids=["root"], query="too early"),
            call("add_answer_node", parent_ids=["n1"], answer="48,200"),
        ) as server:
            events = list(VimRAG(server.url, search_url, "scripted").run(sample))
        kinds = [event["event"] for event in events if event["event"] != "content"]
        assert kinds == ["error", "search", "search_done", "error", "answer"]
        assert sample["generate_times"] == 1
        assert sample["graph"][1] == SEARCH_NODE, "answered before it was summarised"

    def test_without_an_answer_the_last_event_says_so(self, search_url: str) -> None:
        sample: dict[str, Any] = {"query": "?"}
        with model('<tool_call>{"name":') as server:
            agent = VimRAG(server.url, search_url, "scripted", max_steps=2)
            events = [event for event in agent.run(sample) if event["event"] != "content"]
            assert len(server.requests) == 2
        assert [event["event"] for event in events] == ["error", "error", "max_steps"]
        assert sample == {"query": "?"}

    def test_an_abstention_is_an_answer_in_the_words_of_the_model(self, search_url: str) -> None:
        with model(call("add_answer_node", parent_ids=["root"], answer="Not answerable.")) as server:
            *_, last = VimRAG(server.url, search_url, "scripted").run({"query": "?"})
        assert (last["event"], last["content"]) == ("answer", "Not answerable.")

    def test_a_failure_is_the_last_event(self, search_url: str) -> None:
        with ChatServer((Refuse(404, "no such model"),)) as server:
            *_, last = VimRAG(server.url, search_url, "scripted", "key").run({"query": "?"})
        assert last["event"] == "error"
        assert "no such model" in last["content"]

    def test_native_tool_calls_come_as_content_in_one_piece(self, search_url: str) -> None:
        native = Say("", calls=(("add_answer_node", '{"parent_ids": ["root"], "answer": "5"}'),))
        with ChatServer((native,)) as server:
            first, *_, last = VimRAG(server.url, search_url, "scripted").run({"query": "?"})
        assert first["event"] == "content"
        assert "add_answer_node" in first["content"]
        assert last["content"] == "5"

    @pytest.mark.parametrize(
        ("thinking", "sampling"),
        [(True, {"temperature": 0.6, "top_p": 0.95}), (False, {"temperature": 0.0, "top_p": None})],
    )
    def test_thinking_and_sampling_are_those_of_the_reference(
        self, search_url: str, thinking: bool, sampling: dict[str, float | None]
    ) -> None:
        with model(call("add_answer_node", parent_ids=["root"], answer="5")) as server:
            agent = VimRAG(server.url, search_url, "scripted", "secret", enable_thinking=thinking)
            list(agent.run({"query": "?"}))
            (asked,) = server.requests
        assert asked.body["chat_template_kwargs"] == {"enable_thinking": thinking}
        assert "enable_thinking" not in asked.body
        assert {name: asked.body.get(name) for name in sampling} == sampling
        assert (asked.body["max_tokens"], asked.body["stream"]) == (4096, True)
        assert asked.headers["authorization"] == "Bearer secret"

    def test_the_limits_are_those_of_the_reference(self, search_url: str) -> None:
        """In the order of its arguments: pictures, frames, memory, results, steps."""
        with model(
            call("add_search_node", **SEARCH_NODE),
            memorize("Picture 1", labels=LABELS[1:2]),
            call("add_answer_node", parent_ids=["n1"], answer="5"),
        ) as server:
            agent = VimRAG(server.url, search_url, "scripted", "k", 300_000, 200_000, 250_000, 1, 7, False)
            assert (agent.max_mem_steps, agent.max_steps) == (7, 7)
            list(agent.run({"query": "?"}))
            searched, remembered = (pixels(asked) for asked in server.requests[1:])
        assert len(searched) == len(remembered) == 1
        assert 250_000 < searched[0] <= 300_000
        assert 200_000 < remembered[0] <= 250_000

    def test_older_names_of_arguments_are_understood(self, search_url: str) -> None:
        agent = VimRAG("http://localhost:1/v1", search_url, "m", max_steps=5, top_k=4)
        assert agent.max_mem_steps == 5
        agent.max_steps = 6
        assert agent.max_mem_steps == 6

    def test_concurrent_runs_of_an_agent_have_results_of_their_own(
        self, search_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of the same query, which the server answers differently the second time."""
        answered = threading.Semaphore(0)
        count = itertools.count(1)

        def results(client: SearchClient, queries: Sequence[Query], top_k: int) -> list[SearchResult]:
            number = float(next(count))
            found = [
                result.model_copy(update={"score": [number] * len(result.data)})
                for result in from_server(client, queries, top_k)
            ]
            answered.release()
            return found

        def reply(asked: Asked) -> Say:
            if asked.turn == 0 and "n1" not in asked.text:
                return Say(call("add_search_node", **SEARCH_NODE))
            return Say(call("add_answer_node", parent_ids=["n1"], answer="48,200"))

        from_server = SearchClient.results
        monkeypatch.setattr(SearchClient, "results", results)
        with ChatServer(reply) as server:
            agent = VimRAG(server.url, search_url, "scripted")
            first = agent.run({"query": "?"})
            begun = list(itertools.takewhile(lambda event: event["event"] != "search", first))
            assert begun
            assert answered.acquire(timeout=120)
            second = list(agent.run({"query": "?"}))
            rest = list(first)
        for number, events in ((1.0, rest), (2.0, second)):
            (done,) = (event for event in events if event["event"] == "search_done")
            assert set(done["results"]["score"]) == {number}

    def test_an_empty_question_is_refused(self, search_url: str) -> None:
        with pytest.raises(ValueError, match="query"):
            list(VimRAG("http://localhost:1/v1", search_url, "m").run({"query": " "}))

    def test_an_argument_in_its_older_place_is_refused(self, search_url: str) -> None:
        with pytest.raises(SettingsError, match="number of pixels"):
            VimRAG("http://localhost:1/v1", search_url, "m", "k", True)
        with pytest.raises(SettingsError, match="image_pixels"):
            VimRAG("http://localhost:1/v1", search_url, "m", max_pixels_image=0)

    def test_a_run_that_is_left_ends_at_once(self, search_url: str) -> None:
        with ChatServer((Say("I am thinking about it", piece=1, hang=4),)) as server:
            run = VimRAG(server.url, search_url, "scripted").run({"query": "?"})
            assert next(run) == {"event": "content", "content": "I"}
            run.close()
            assert server.requests[0].gone.wait(60), "the reply would go on for a minute and a half"


def pixels(asked: Asked) -> list[int]:
    """Of every picture in a call."""
    found: list[int] = []
    for url in asked.images:
        with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
            found.append(image.width * image.height)
    return found
