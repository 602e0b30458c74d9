"""The test of a model on the page: what each check says, for people who see no command line."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import TYPE_CHECKING, cast

import pytest
from chat_server import Asked, ChatServer, Hang, Raw, Refuse, Reply, Say
from grounding.seeing_server import Seeing
from model_servers import JsonServer, ollama, vllm
from setup_harness import MODEL, setup_server
from starlette.requests import ClientDisconnect
from test_collection_registry import collection

from vrag.doctor.endpoint import LocalServer
from vrag.doctor.inspector import PLAN, DoctorInspector, page_words
from vrag.geometry import Space
from vrag.grounding.conventions import Convention
from vrag.server.http.errors import Refusal
from vrag.server.http.users import User, UserRole
from vrag.server.options import ServerOptions
from vrag.server.setup.choices import ChosenModel, ModelChoices
from vrag.server.setup.routes import MAX_TESTS, ModelSetup, SetupService
from vrag.server.setup.servers import ModelServers
from vrag.server.state.sessions import BrowserSessions
from vrag.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any

    from setup_harness import Setup

    from vrag.server.setup.schema import CheckResult

NAMES = [check.name for check in PLAN]
TERMINAL = re.compile(r"VRAG_|--(?:base-url|model |seconds|coords|json)|vrag doctor|\bprofiles?\b|base URL")
"""Words of the terminal."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks")
    collection(folder / "all" / "first", "Whales sing at night.")
    return folder / "all" / "first"


@pytest.fixture
def setup(place: Path) -> Generator[Setup]:
    with setup_server(place, seconds=5) as setup:
        yield setup


def statuses(results: dict[str, Any]) -> str:
    return " ".join(results[name]["status"] for name in NAMES if name in results)


def words(results: dict[str, Any]) -> str:
    """Everything that is said, free of words of the terminal."""
    said = "\n".join(f"{result['message']} {result['hint']}" for result in results.values())
    assert not TERMINAL.search(said), said
    return said


def refusing_pictures(asked: Asked) -> Reply | None:
    return Refuse(400, f"{MODEL} is not a multimodal model") if asked.images else None


def test_a_model_that_sees_passes_every_check(setup: Setup) -> None:
    with ChatServer(Seeing(Convention(Space.MILLE), factor=32), models=(MODEL,)) as model:
        planned, results, end = setup.test(model.url)
    assert (planned, end) == (NAMES, "finished")
    assert statuses(results) == "ok warning ok ok ok ok ok"  # its context is short
    assert "The family qwen3-vl fits." in words(results)


def test_a_wrong_key_is_named_and_nothing_else_is_tried(setup: Setup) -> None:
    with ChatServer(Seeing(), models=(MODEL,), key="right") as model:
        _, results, _ = setup.test(model.url, key="wrong")
        _, without, _ = setup.test(model.url)
    assert statuses(results) == "ok failed skipped ok skipped skipped skipped"
    assert "does not accept the key: enter the key of this server under Settings" in words(results)
    assert "No key is set: enter the key of this server under Settings" in words(without)


def test_a_wrong_address_says_what_to_check(setup: Setup) -> None:
    _, results, _ = setup.test("http://127.0.0.1:9/v1")
    assert statuses(results) == "failed skipped skipped ok skipped skipped skipped"
    assert "Nothing answers at 127.0.0.1:9" in words(results)
    assert "check the address" in results["endpoint"]["hint"]


def test_a_model_that_is_not_there_leads_to_those_that_are(setup: Setup) -> None:
    with ChatServer(Seeing(), models=(MODEL, "other")) as model:
        _, results, _ = setup.test(model.url, "qwen3-vl:80b")
    assert results["model"]["hint"] == f"It lists {MODEL}."
    words(results)


def test_a_model_that_reads_text_alone_is_refused_with_what_to_choose(setup: Setup) -> None:
    with ChatServer(Seeing(Convention(Space.MILLE), spoil=refusing_pictures), models=(MODEL,)) as model:
        _, results, _ = setup.test(model.url)
    assert statuses(results) == "ok warning ok ok failed skipped skipped"
    assert "Choose a vision-language model." in words(results)


def test_a_model_that_points_elsewhere_leads_to_the_family_to_choose(setup: Setup) -> None:
    with ChatServer(Seeing(Convention(Space.MILLE, True), factor=28), models=(MODEL,)) as model:
        _, results, _ = setup.test(model.url)
        assert results["coordinates"]["hint"].startswith(
            "The family qwen3-vl reads them differently. Choose "
        )
        family = re.findall(r"Choose the family (\S+)", words(results))[-1]
        _, results, _ = setup.test(model.url, profile=family)
    assert results["coordinates"]["status"] == "ok"
    assert setup.test(model.url, profile="nonsense")[1]["model"]["status"] == "failed"


def test_a_web_page_in_place_of_a_list_says_that_the_address_is_wrong(setup: Setup) -> None:
    html = Raw((b"<!doctype html><title>Router</title>",), "text/html")
    with (
        ChatServer(lambda _: html, models=None) as model,
        JsonServer({"GET /v1/models": {"no": "list"}}) as web,
    ):
        _, results, _ = setup.test(web.url)
        assert "did not answer with a list of models. Is it the address of a model server?" in words(results)
        _, results, _ = setup.test(model.url, "default")
        words(results)


@pytest.mark.slow
def test_a_server_that_hangs_is_left_with_what_it_may_be(setup: Setup) -> None:
    with ChatServer(lambda _: Hang(), models=(MODEL,)) as model:
        _, results, end = setup.test(model.url)
    assert (statuses(results), end) == ("ok warning failed ok skipped skipped skipped", "finished")
    assert "It may still be loading the model: test again soon." in words(results)
    assert results["coordinates"]["message"] == "Not checked: “Pictures” comes first."


def test_a_test_ends_at_its_time_limit(place: Path) -> None:
    options = ServerOptions(test_seconds=0.5, drain_seconds=2)
    with (
        ChatServer(lambda _: Hang(), models=(MODEL,)) as model,
        setup_server(place, options, seconds=60) as setup,
    ):
        assert setup.test(model.url)[2] == "late"


def test_who_leaves_stops_the_test_and_its_requests(place: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def say(asked: Asked) -> Reply:
        if asked.images:
            begun.set()
            assert go.wait(30)
        return Say("red")

    with ChatServer(say, models=(MODEL,)) as model, setup_server(place) as setup:
        body = {"model": MODEL, "server": model.url}
        with setup.browser.stream("POST", "/setup/test", json=body) as answer:
            lines = answer.iter_lines()
            assert "checks" in json.loads(next(lines))
            assert begun.wait(30)
            with setup.other_browser() as other:
                assert other.post("/setup/test", json=body).status_code == 409
        go.set()
        elsewhere = {"model": MODEL, "server": "http://127.0.0.1:9/v1"}
        while setup.browser.post("/setup/test", json=elsewhere).status_code == 409:
            pass  # the thread of the first is about to end
        assert len([asked for asked in model.requests if asked.images]) == 1


def test_a_test_counts_before_its_response_begins_and_ends_with_one_that_never_does() -> None:
    class Waiting(DoctorInspector):
        def test(self, chosen: ChosenModel, stop: threading.Event) -> Generator[CheckResult]:
            assert chosen.model == MODEL
            assert stop.wait(30)
            yield from ()

    async def leave(_: object) -> None:
        raise OSError("The client has left.")

    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def begin() -> None:
        options = ServerOptions()
        sessions, absent = BrowserSessions(options), cast("Any", None)
        setup = ModelSetup(ModelServers(()), Waiting(Settings(), (), 5))
        choices = ModelChoices(sessions, options)
        service = SetupService(setup, choices, sessions, options, absent, absent)
        chosen, user = ChosenModel(MODEL, "http://127.0.0.1:9/v1"), User("", UserRole.ADMINISTER)
        begun = [service.begin_test(chosen, user, str(number)) for number in range(MAX_TESTS)]
        for client, status in (("0", 409), ("more", 503)):
            with pytest.raises(Refusal) as refusal:
                service.begin_test(chosen, user, client)
            assert refusal.value.status == status
        for response in begun:
            with pytest.raises(ClientDisconnect):
                await response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, leave)
        async with asyncio.timeout(30):
            while service.tests:  # noqa: ASYNC110 - the threads end it
                await asyncio.sleep(0.01)

    asyncio.run(begin())


def test_servers_on_this_machine_are_found_with_what_their_models_see(place: Path) -> None:
    models = {"qwen3:8b": ("qwen3", False), "qwen3-vl:8b": ("qwen3vl", True)}
    with JsonServer(ollama(models)) as first, JsonServer(vllm("eyes", "eyes")) as second:
        found = (
            LocalServer("vLLM", second.url),
            LocalServer("SGLang", "http://127.0.0.1:9/v1"),
            LocalServer("Ollama", first.url, "ollama"),
        )
        with setup_server(place, found=found) as setup:
            servers = setup.browser.get("/setup/servers").json()["servers"]
    assert servers == [
        {
            "title": "Ollama",
            "server": first.url,
            "models": [{"name": "qwen3-vl:8b", "sees": True}, {"name": "qwen3:8b", "sees": False}],
        },
        {"title": "vLLM", "server": second.url, "models": [{"name": "eyes", "sees": None}]},
    ]


def test_models_of_a_server_are_listed_those_that_see_first(setup: Setup) -> None:
    names = ("gpt-oss:20b", "qwen3-vl:8b", "mystery")
    with ChatServer(Seeing(), models=names, key="right") as model:
        listed = setup.browser.post("/setup/models", json={"server": model.url, "key": "right"})
        refused = setup.browser.post("/setup/models", json={"server": model.url, "key": "wrong"})
    assert [(one["name"], one["sees"]) for one in listed.json()["models"]] == [
        ("qwen3-vl:8b", True),
        ("mystery", None),
        ("gpt-oss:20b", False),
    ]
    assert refused.status_code == 502
    assert "does not accept the key" in refused.json()["hint"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Raise --seconds if it is only slow.", "It may still be loading the model: test again soon."),
        (
            "Unless the check of coordinates says otherwise: VRAG_PROFILE=qwen3-vl",
            "Unless the check of coordinates says otherwise, choose the family qwen3-vl.",
        ),
        (
            "Matching profiles: qwen3-vl; the next check tells which one. Then set VRAG_PROFILE.",
            "Matching families: qwen3-vl; the next check tells which one. Then choose that family.",
        ),
        (
            "Try again when the machine is less busy, or allow more time: --seconds",
            "Try again when the machine is less busy.",
        ),
        ("Check --base-url, or the DNS of this machine.", "Check the address, or the DNS of this machine."),
    ],
)
def test_words_of_the_terminal_are_replaced(text: str, said: str) -> None:
    assert page_words(text) == said
