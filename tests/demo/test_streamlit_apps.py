"""The seeds' two apps, driven as a person does: over a real search server and a real model server."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Say
from PIL import Image

from vrag.server.app import create_app
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.options import ServerOptions
from vrag.testing import MemorySearcher, page, tiny_corpus

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

if TYPE_CHECKING:
    from collections.abc import Generator

DEMO = Path(__file__).parents[2] / "demo"
pytestmark = pytest.mark.slow
APPS = pytest.mark.parametrize("app", ["app", "vimrag_app"])
QUESTION = "How many passengers did the ferry carry in 2024?"
SEARCH = "<think>Look.</think><search>ferry passengers</search>"
CROP = "<think>Closer.</think><bbox>[0, 0, 266, 120]</bbox>"
ANSWER = "<think>Seen.</think><answer>48,200</answer>"
ATTACK = (
    '"><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(1)>'
    "![x](http://127.0.0.1:9/y.png) [x](javascript:alert(1)) :red[x] $x$ # x ``` **x**"
)
READ = (
    "markdown",
    "caption",
    "title",
    "header",
    "subheader",
    "error",
    "warning",
    "info",
    "success",
    "metric",
)
"""Elements whose text is read as Markdown."""


@contextmanager
def searching(searcher: MemorySearcher) -> Generator[str]:
    """The address of a search server."""
    ready, options = threading.Event(), ServerOptions()
    server = make_server(create_app(searcher, options), options, ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert ready.wait(20)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/search"
        finally:
            server.should_exit = True
            thread.join(40)


@pytest.fixture(autouse=True)
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts back ``__main__``, which Streamlit replaces by the app: processes spawned later would run it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture(scope="module")
def search_url() -> Generator[str]:
    with searching(tiny_corpus()) as url:
        yield url


def opened(app: str) -> AppTest:
    """The page as it is when it is opened."""
    test = AppTest.from_file(str(DEMO / f"{app}.py"), default_timeout=120).run()
    assert not test.exception, test.exception
    return test


def field(test: AppTest, label: str) -> Any:  # noqa: ANN401 - any input
    inputs = (*test.text_input, *test.number_input, *test.toggle)
    return next(one for one in inputs if one.label == label)


def fill(test: AppTest, **values: object) -> None:
    for label, value in values.items():
        field(test, label.replace("_", " ")).set_value(value)


def ask(test: AppTest, question: str = QUESTION) -> AppTest:
    """Asks and waits for the end."""
    start(test, question)
    if "run" in test.session_state:
        test.session_state["run"].wait(30)
        assert test.session_state["run"].over
        test.run()
    assert not test.exception, test.exception
    return test


def start(test: AppTest, question: str = QUESTION) -> None:
    field(test, "Question").set_value(question)
    press(test, "Ask")


def press(test: AppTest, label: str) -> None:
    next(button for button in test.button if button.label == label).click()
    test.run()
    assert not test.exception, test.exception


def texts(test: AppTest) -> str:
    """All that stands on the page as plain text."""
    return "\n".join(str(one.value) for one in test.text)


def read_texts(test: AppTest) -> str:
    """All that Streamlit reads as Markdown."""
    told = [str(one.value) for kind in READ for one in getattr(test, kind)]
    told += [str(one.label) for one in (*test.metric, *test.button, *test.expander)]
    return "\n".join(told)


def badges(test: AppTest) -> list[str]:
    """What stands in coloured badges."""
    return [found[1] for one in test.markdown if (found := re.fullmatch(r":\w+-badge\[(.*)\]", one.value))]


def pictures(test: AppTest) -> list[Any]:
    return [picture for images in test.get("image") for picture in images.proto.imgs]


def svg_of(test: AppTest) -> str:
    import base64

    start = "data:image/svg+xml;base64,"
    (found,) = [one.url for one in pictures(test) if one.url.startswith(start)]
    return base64.b64decode(found.removeprefix(start)).decode()


def at_model(test: AppTest, server: ChatServer, search_url: str, **more: object) -> None:
    fill(test, Without_a_model=False)
    test.run()
    fill(test, Base_URL=server.url, Model="scripted", Search_URL=search_url, **more)


@APPS
def test_the_fields_and_what_stands_in_them_are_those_of_the_reference(app: str) -> None:
    test = opened(app)
    assert field(test, "Base URL").value == "https://dashscope.aliyuncs.com/compatible-mode/v1"
    assert field(test, "Search URL").value == "http://localhost:8001/search"
    assert field(test, "Model").value == "qwen3.5-plus"
    assert field(test, "API key").value == ""
    assert field(test, "API key").proto.type == field(test, "API key").proto.PASSWORD
    assert (field(test, "Max steps").value, field(test, "Top-k").value) == (20, 3)


@pytest.mark.parametrize(("variable", "without_model"), [("HOME", True), ("DASHSCOPE_API_KEY", False)])
def test_without_a_key_or_a_model_the_reader_answers(
    variable: str, without_model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x")
    assert field(opened("app"), "Without a model").value is without_model


@APPS
def test_without_a_model_a_question_is_answered_with_the_pictures_it_rests_on(
    app: str, search_url: str
) -> None:
    test = opened(app)
    fill(test, Search_URL=search_url)
    ask(test)
    assert "48,200" in texts(test)
    assert "ferry.pdf\nPage 2" in texts(test)
    assert badges(test) == ["Found on the page"]
    assert "Evidence" in [one.value for one in test.subheader]
    assert len(pictures(test)) >= 2
    assert test.get("download_button")
    assert {one.label for one in test.metric} >= {"Steps", "Searches", "Visual tokens", "Time"}


@pytest.mark.smoke
def test_vrag_shows_every_step_of_a_model(search_url: str) -> None:
    test = opened("app")
    with ChatServer(tuple(map(Say, (SEARCH, CROP, ANSWER)))) as server:
        at_model(test, server, search_url, **{"Max steps": 7, "Top-k": 2})
        ask(test)
    assert [one.value for one in test.markdown if "Step" in one.value] == [f"**Step {n}**" for n in (1, 2, 3)]
    for told in ("Look.", "Searching: ferry passengers", "2 hits.", "Closer.", "Looking closer.", "48,200"):
        assert told in texts(test)
    run = test.session_state["run"]
    assert (run.settings.max_steps, run.settings.hits) == (7, 2)


def test_vimrag_shows_its_graph(search_url: str) -> None:
    test = opened("vimrag_app")
    with ChatServer(with_a_graph) as server:
        at_model(test, server, search_url, Thinking=True)
        ask(test)
        assert server.requests[0].body["enable_thinking"] is True
    told = "".join(ET.fromstring(svg_of(test)).itertext())
    assert "ferry passengers" in told
    assert "48,200" in told
    assert "Memory graph" in [one.value for one in test.subheader]
    assert re.search(r"Memory: Picture 1 of n1 \([\d,]+ of [\d,]+ visual tokens\)\.", texts(test))


def test_stop_ends_a_run_that_waits_for_its_model(search_url: str) -> None:
    test = opened("app")
    with ChatServer((Hang(),)) as server:
        at_model(test, server, search_url)
        start(test)
        run = test.session_state["run"]
        while not run.events:
            run.wait(0.05)
        test.run()
        press(test, "Stop")
        run.wait(20)
        assert run.over
        test.run()
    assert "Stopped" in [one.value for one in test.warning]
    assert not [button for button in test.button if button.label == "Stop"]


def test_another_question_takes_the_place_of_the_one_before(search_url: str) -> None:
    test = opened("app")
    with ChatServer((Hang(),)) as server:
        at_model(test, server, search_url)
        start(test)
        first = test.session_state["run"]
        while not first.events:
            first.wait(0.05)
        start(test, "Another one?")
        second = test.session_state["run"]
        first.wait(20)
        assert (first.over, second.question) == (True, "Another one?")
        second.stop() if second.events else second.wait(1)
        while not second.over:
            second.stop()
            second.wait(0.1)


@APPS
@pytest.mark.parametrize("url", ["http://127.0.0.1:9/search", "nonsense", "http://[::1", "ftp://127.0.0.1"])
def test_a_search_server_that_is_not_there_is_named_with_what_starts_one(app: str, url: str) -> None:
    test = opened(app)
    fill(test, Search_URL=url)
    ask(test)
    assert test.error
    assert "./run_demo.sh search" in [one.value for one in test.code] or url == "ftp://127.0.0.1"
    assert url in texts(test)


@pytest.mark.parametrize("reply", [Refuse(401, f"who? {ATTACK}"), Say("Let me search for it."), Say(SEARCH)])
def test_a_model_that_fails_or_never_answers_is_told_of(reply: Say | Refuse, search_url: str) -> None:
    test = opened("app")
    with ChatServer(lambda _: reply) as server:
        at_model(test, server, search_url, Max_steps=2)
        ask(test)
    assert test.error or test.warning
    answers = [line for line in read_texts(test).splitlines() if "alert(1)" in line]
    assert len(answers) <= 1
    assert not set("<>[]`$#") & set(re.sub(r"\\.|`\$[^`]*\$`", "", "".join(answers))), "all of it is escaped"


def test_an_address_of_a_model_that_cannot_be_reached_is_an_error_on_the_page(
    search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAG_MODEL_RETRIES", "0")
    test = opened("app")
    fill(test, Without_a_model=False)
    test.run()
    fill(test, Base_URL="http://127.0.0.1:9/v1", Search_URL=search_url)
    ask(test)
    assert "Model failed" in [one.value for one in test.error]


def test_settings_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_MAX_STEPS", "many")
    test = opened("app")
    assert test.error
    assert "max_steps" in texts(test)


def test_an_empty_question_starts_nothing() -> None:
    test = ask(opened("app"), "  ")
    assert [one.value for one in test.warning] == ["The question is empty."]
    assert "run" not in test.session_state
    assert any("passengers" in button.label for button in test.button), "the example is still offered"


@APPS
def test_where_there_is_no_collection_the_page_says_what_makes_one(
    app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "none"))
    test = opened(app)
    fill(test, Search_URL="")
    ask(test)
    assert [one.value for one in test.error] == ["There is no answer."]
    assert "vrag index add" in texts(test)


def test_a_rectangle_is_drawn_around_the_part_and_the_rest_is_darker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DEMO), *sys.path])
    marked = importlib.import_module("marks").marked
    file = io.BytesIO()
    Image.new("RGB", (400, 200), (200, 200, 200)).save(file, "JPEG", quality=100)
    drawn = marked(file.getvalue(), (0.25, 0.25, 0.75, 0.75))
    assert drawn.size == (400, 200)
    inside, outside, edge = (drawn.getpixel(at) for at in ((101, 51), (20, 20), (98, 48)))
    assert min(inside) >= 195
    assert max(outside) <= 160
    assert edge == (240, 78, 35)


@pytest.mark.parametrize("box", [(0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 0.5)])
def test_a_rectangle_of_no_size_is_drawn_all_the_same(
    box: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(DEMO), *sys.path])
    file = io.BytesIO()
    Image.new("RGB", (40, 20)).save(file, "JPEG")
    assert importlib.import_module("marks").marked(file.getvalue(), box).size == (40, 20)


@APPS
def test_nothing_that_models_and_documents_say_is_alive(app: str) -> None:
    corpus = MemorySearcher((page(f"{ATTACK}.pdf", 1, f"ferry passengers\n{ATTACK}"),))
    think = f"<think>{ATTACK}</think>"
    script = (
        f"{think}<search>ferry {ATTACK}</search>",
        f"{think}<bbox>[0, 0, 400, 400]</bbox>",
        f"{think}<answer>{ATTACK}</answer>",
    )
    test = opened(app)
    with (
        searching(corpus) as url,
        ChatServer(with_attacks if app == "vimrag_app" else replies(script)) as server,
    ):
        at_model(test, server, url)
        ask(test, f"ferry {ATTACK}")
    assert texts(test).count("alert(1)") >= 5
    answers = [line for line in read_texts(test).splitlines() if "alert(1)" in line]
    assert len(answers) <= 1
    assert not set("<>[]`$#") & set(re.sub(r"\\.|`\$[^`]*\$`", "", "".join(answers))), "all of it is escaped"
    assert not any(one.allow_html for one in test.markdown)
    (style,) = test.get("html")
    assert re.fullmatch(r"<style>[^<>]*</style>", style.proto.body), "our own, and nothing of others"
    assert not test.get("iframe")
    for picture in pictures(test):
        assert picture.url.startswith(("data:image/svg+xml;base64,", "/mock/media/")), picture.url
        assert not picture.caption
    if app == "vimrag_app":
        tags = {one.tag.rpartition("}")[2] for one in ET.fromstring(svg_of(test)).iter()}
        assert tags <= {"svg", "style", "title", "a", "rect", "path", "text", "use"}


def test_the_owners_keys_are_not_sent_to_an_address_that_a_visitor_types(
    search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "VRAG_MODEL_KEY"):
        monkeypatch.setenv(name, "geheim")
    test = opened("app")
    with ChatServer(tuple(map(Say, (SEARCH, ANSWER)))) as server:
        at_model(test, server, search_url)
        ask(test)
        assert server.requests
        assert all("geheim" not in asked.headers.get("authorization", "") for asked in server.requests)


def test_the_owners_key_is_sent_where_the_owner_said(
    search_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(tuple(map(Say, (SEARCH, ANSWER)))) as server:
        monkeypatch.setenv("VRAG_BASE_URL", server.url)
        monkeypatch.setenv("VRAG_MODEL", "scripted")
        monkeypatch.setenv("VRAG_MODEL_KEY", "geheim")
        test = opened("app")
        fill(test, Search_URL=search_url)
        ask(test)
        assert server.requests[0].headers["authorization"] == "Bearer geheim"


def replies(script: tuple[str, ...]) -> Any:  # noqa: ANN401 - a script
    return tuple(map(Say, script))


def with_a_graph(asked: Asked) -> Say:
    return graph_script(asked, "ferry passengers", "It says 48,200.", "48,200")


def with_attacks(asked: Asked) -> Say:
    return graph_script(asked, f"ferry {ATTACK}", ATTACK, ATTACK)


def graph_script(asked: Asked, query: str, summary: str, answer: str) -> Say:
    """Searches, memorises the first picture, answers."""
    if '"summary"' in asked.text and '"n1"' in asked.text:
        return call(answer, "add_answer_node", parent_ids=["n1"], answer=answer)
    if asked.turn == 0:
        return call(answer, "add_search_node", id="n1", parent_ids=["root"], query=query)
    labels = [label for label in ("Text 1", "Picture 1", "Picture 2") if label in asked.text]
    memorize = [
        {"information_id": one, "is_useful": one == "Picture 1", "priority_score": 3} for one in labels
    ]
    return call(answer, "summarize_and_memorize", summarize=summary, memorize=memorize)


def call(thought: str, name: str, **arguments: object) -> Say:
    return Say("", thought=thought, calls=((name, json.dumps(arguments)),))
