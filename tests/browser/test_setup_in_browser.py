"""Somebody without a model chooses one on the page: finds it, tests it, saves it, and is answered by it."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from browsing import NARROW, ask_by_key, check_no_sideways, new_question, served
from chat_server import Asked, ChatServer, Hang, Reply, Say
from grounding.seeing_server import Seeing
from model_servers import JsonServer, ollama
from playwright.sync_api import Error, expect
from test_accessibility_in_browser import check_axe

from vrag.doctor.endpoint import LocalServer
from vrag.factory.server import state_folder
from vrag.geometry import Space
from vrag.grounding.conventions import Convention
from vrag.server.http.users import TokenFile
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from browsing import Desk, Opener
    from playwright.sync_api import Page, Request, Route

MODEL = "qwen3-vl:8b"
KEY = "sk-a-secret-that-nobody-may-see-7f3a"
NO_SERVER = LocalServer("SGLang", "http://127.0.0.1:9/v1")


class Model(Seeing):
    """A model that sees, and answers every question of an agent in the same words."""

    def __init__(self, answer: str) -> None:
        super().__init__(Convention(Space.MILLE), factor=32)
        self.answer = answer

    def __call__(self, asked: Asked) -> Reply:
        if "<answer>" in asked.text:  # the instruction of an agent
            return Say(f"<think>I know.</think><answer>{self.answer}</answer>")
        return super().__call__(asked)


@contextmanager
def model(answer: str = "the kraken", key: str | None = None) -> Generator[ChatServer]:
    with ChatServer(Model(answer), models=(MODEL, "gpt-oss:20b"), key=key) as server:
        yield server


def setup_page(visit: Opener, desk: Desk, **how: object) -> Page:
    page = visit(f"{desk.address}/#/setup", **how).page
    expect(page.locator("#setup-current")).to_be_visible()
    return page


def fill(page: Page, address: str, name: str = MODEL, key: str = "") -> None:
    page.locator("#setup-server").select_option("address")
    page.locator("#setup-address").fill(address)
    page.locator("#setup-key").fill(key)
    page.locator("#setup-model").fill(name)


def expect_end(page: Page, words: str) -> None:
    """Waits for the end of a test, which asks a model some thirty questions."""
    expect(page.locator("#setup-test-end")).to_contain_text(words, timeout=120_000)


def ask(page: Page) -> None:
    ask_by_key(page, "Which ferry?")


def check(page: Page, name: str) -> str:
    return page.locator(f"#setup-checks [data-check='{name}']").get_attribute("data-status") or ""


def test_a_found_model_is_tested_saved_and_answers(place: Path, visit: Opener) -> None:
    with (
        model() as server,
        served(place, found=(NO_SERVER, LocalServer("vLLM", server.url)), models=()) as desk,
    ):
        page = visit(desk.address).page
        expect(page.locator("#no-model")).to_have_text(
            "Questions are answered without a model. Choose a model for full answers."
        )
        page.locator("#no-model a").click()
        expect(page.locator("#setup-current")).to_have_text("without a model")
        card = page.locator(".server-card")
        expect(card).to_have_count(1)
        expect(card).to_have_attribute("aria-label", "vLLM on this computer")
        expect(card).to_contain_text("Text only, cannot see pages: gpt-oss:20b")
        card.get_by_role("button", name=MODEL).click()
        expect(page.locator("#setup-address")).to_have_value(server.url)
        expect(page.locator("#setup-test")).to_be_focused()
        page.locator("#setup-test").click()
        expect_end(page, "This model can be used")
        names = ("endpoint", "model", "reply", "profile", "pictures", "picture cost", "coordinates")
        assert [check(page, name) for name in names] == ["ok", "warning", *["ok"] * 5]
        page.locator("#setup-save").click()
        expect(page.locator("#setup-current")).to_have_text(MODEL)
        new_question(page)
        expect(page.locator("#no-model")).to_have_count(0)
        ask(page)
        expect(page.locator("#answer-text")).to_contain_text("the kraken")


def test_a_model_is_told_as_saved_when_the_next_question_goes_to_it(place: Path, visit: Opener) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with model() as server, served(place, models=()) as desk:
        page = setup_page(visit, desk)
        fill(page, server.url)
        page.route("**/options", hold)
        with page.expect_request("**/options"):
            page.locator("#setup-save").click()
        expect(page.locator("#setup-current")).to_have_text("without a model")
        for route in held:
            route.continue_()
        expect(page.locator("#setup-current")).to_have_text(MODEL)
        new_question(page)
        expect(page.locator("#no-model")).to_have_count(0)
        ask_by_key(page, "Which ferry?")
        expect(page.locator("#answer-text")).to_contain_text("the kraken")


def test_the_link_in_the_sidebar_leads_there(desk: Desk, visit: Opener) -> None:
    page = visit(desk.address).page
    page.locator("#to-setup").click()
    expect(page).to_have_url(re.compile("#/setup$"))
    expect(page.locator("#to-setup")).to_have_attribute("data-here", "")
    expect(page.locator("#found-none")).to_contain_text("No model server answers on this computer")


def test_a_wrong_key_says_what_to_do_and_the_right_one_works(place: Path, visit: Opener) -> None:
    with model(key=KEY) as server, served(place, models=()) as desk:
        opened = visit(f"{desk.address}/#/setup")
        opened.expected.append("status of 502")  # the list of models, which the server refuses
        page = opened.page
        fill(page, server.url, key="wrong")
        expect(page.locator("#setup-model-hint")).to_contain_text("does not accept the key")
        page.locator("#setup-test").click()
        expect_end(page, "cannot be used yet")
        failed = page.locator("#setup-checks [data-check='model']")
        expect(failed).to_have_attribute("data-status", "failed")
        expect(failed).to_contain_text("The server does not accept the key: enter the key of this server")
        page.locator("#setup-key").fill(KEY)
        page.locator("#setup-key").blur()
        expect(page.locator("#setup-model-hint")).to_have_text("2 models to choose from.")
        page.locator("#setup-test").click()
        expect_end(page, "This model can be used")


def test_a_key_is_nowhere_once_it_is_saved(place: Path, visit: Opener) -> None:
    with model(key=KEY) as server, served(place, models=()) as desk:
        said: list[str] = []

        def note(request: Request) -> None:
            if "/events" in request.url:
                return
            with suppress(Error):  # the page was left before its answer was read
                response = request.response()
                if response is not None:
                    said.append(f"{response.all_headers()} {response.text()}")

        opened = visit("about:blank")
        opened.address = desk.address
        opened.expected.append("status of 502")  # the list of models, before the key was entered
        page = opened.page
        page.on("requestfinished", note)
        page.goto(f"{desk.address}/#/setup")
        fill(page, server.url, key=KEY)
        page.locator("#setup-save").click()
        expect(page.locator("#setup-chosen")).to_contain_text("key …7f3a")
        expect(page.locator("#setup-key")).to_have_value("")
        expect(page.locator("#setup-key-hint")).to_contain_text("A key is set (…7f3a)")
        page.reload()
        expect(page.locator("#setup-chosen")).to_contain_text("key …7f3a")
        new_question(page)
        ask(page)
        expect(page.locator("#answer-text")).to_contain_text("the kraken")
        kept = page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        fields = page.evaluate("[...document.querySelectorAll('input')].map((one) => one.value).join()")
        assert KEY[:12] not in f"{page.content()} {kept} {fields} {' '.join(said)}"
        assert len(said) > 8
        assert any("7f3a" in one for one in said)  # those that tell of the key are among them
    written = [path for path in place.rglob("*") if path.is_file() and KEY[:12].encode() in path.read_bytes()]
    assert written == []  # nor afterwards, when nothing is written any more
    kept = state_folder(desk.answers.settings).iterdir()
    assert not any(KEY[:12].encode() in path.read_bytes() for path in kept)  # it was for this browser alone


def test_one_browser_has_its_own_model_and_everyone_another(place: Path, visit: Opener) -> None:
    with model("mine") as mine, model("everyone's") as ours, served(place, models=()) as desk:
        first, second = setup_page(visit, desk), setup_page(visit, desk)
        fill(first, mine.url)
        first.locator("#setup-save").click()
        expect(first.locator("#setup-chosen [data-scope='session']")).to_contain_text(MODEL)
        second.reload()
        expect(second.locator("#setup-current")).to_have_text("without a model")
        fill(second, ours.url)
        second.get_by_role("radio", name="Everyone who uses this server").check()
        second.locator("#setup-save").click()
        expect(second.locator("#setup-chosen [data-scope='all']")).to_contain_text(MODEL)
        for page, answer in ((first, "mine"), (second, "everyone's")):
            new_question(page)
            ask(page)
            expect(page.locator("#answer-text")).to_contain_text(answer)
        first.locator("#to-setup").click()
        first.locator("#setup-remove-session").click()
        expect(first.locator("#setup-chosen [data-scope='session']")).to_have_count(0)
        new_question(first)
        ask(first)
        expect(first.locator("#answer-text")).to_contain_text("everyone's")
        first.locator("#to-setup").click()
        first.locator("#setup-remove-all").click()
        expect(first.locator("#setup-current")).to_have_text("without a model")


def test_a_test_that_hangs_is_stopped_by_its_button(place: Path, visit: Opener) -> None:
    begun = threading.Event()

    def hang(_: Asked) -> Reply:
        begun.set()
        return Hang()

    with ChatServer(hang, models=(MODEL,)) as server, served(place, models=()) as desk:
        page = setup_page(visit, desk)
        fill(page, server.url)
        page.locator("#setup-test").click()
        assert begun.wait(30)
        expect(page.locator("#setup-test")).to_have_text("Stop the test")
        expect(page.locator("#setup-checks [data-check='model']")).to_have_attribute("data-status", "warning")
        page.locator("#setup-test").click()
        expect(page.locator("#setup-test-end")).to_have_text("The test was stopped.")
        expect(page.locator("#setup-test")).to_have_text("Test")
        expect(page.locator("#setup-test")).to_be_focused()


def test_what_is_missing_is_said_at_its_field(place: Path, visit: Opener) -> None:
    with served(place, models=()) as desk:
        opened = visit(f"{desk.address}/#/setup")
        opened.expected.append("status of 422")
        page = opened.page
        page.locator("#setup-save").click()
        expect(page.locator("#setup-problem")).to_have_text("Choose a server.")
        expect(page.locator("#setup-server")).to_be_focused()
        page.locator("#setup-server").select_option("openai")
        expect(page.locator("#setup-key-hint")).to_contain_text("OpenAI requires a key")
        expect(page.locator("#setup-model-hint")).to_have_text("Enter the key to see the models.")
        page.locator("#setup-save").click()
        expect(page.locator("#setup-model")).to_be_focused()
        fill(page, "ftp://nowhere", MODEL)
        page.locator("#setup-save").click()
        expect(page.locator("#setup-problem")).to_contain_text("This is not the address of a server.")
        expect(page.locator("#setup-current")).to_have_text("without a model")


def test_a_text_only_model_is_named_before_it_is_tested(place: Path, visit: Opener) -> None:
    models = {"qwen3:8b": ("qwen3", False)}
    with (
        JsonServer(ollama(models)) as server,
        served(place, found=(LocalServer("Ollama", server.url, "ollama"),), models=()) as desk,
    ):
        page = setup_page(visit, desk)
        expect(page.locator(".server-card")).to_contain_text("None of its models sees pictures")
        fill(page, server.url, "qwen3:8b")
        page.locator("#setup-model").blur()
        expect(page.locator("#setup-model-hint")).to_contain_text("reads text only")


def test_options_of_this_browser_are_those_of_the_next_question(desk: Desk, visit: Opener) -> None:
    page = setup_page(visit, desk)
    page.locator("#choice-agent").select_option("vimrag")
    page.locator("#choice-crop_nodes").select_option("off")
    page.locator("#choice-verify").select_option("off")
    page.locator("#choice-max_steps").fill("7")
    page.locator("#choice-max_steps").blur()
    new_question(page)
    expect(page.locator("#options-button")).to_contain_text(
        "VimRAG · Without a model · 7 steps · Claims in doubt: Do not check"
    )
    page.locator("#options-button").click()
    expect(page.locator("#choice-agent")).to_have_value("vimrag")
    expect(page.locator("#choice-max_steps")).to_be_hidden()
    page.locator("#more-options").click()
    expect(page.locator("#choice-max_steps")).to_have_value("7")
    with page.expect_request("**/runs") as sent:
        ask(page)
    body: dict[str, Any] = sent.value.post_data_json or {}
    wanted = {"agent": "vimrag", "max_steps": 7, "crop_nodes": False, "verify": "off"}
    assert body | wanted == body


def test_the_page_tells_what_runs_now_and_leads_there(desk: Desk, visit: Opener) -> None:
    run = desk.post("Which ferry?", model="scripted")
    page = setup_page(visit, desk)
    entry = page.locator("#setup-runs li")
    expect(entry).to_contain_text("Which ferry?")
    expect(entry).to_contain_text("VRAG · scripted · since")
    expect(page.locator("#setup-collections li")).to_contain_text("samples")
    desk.answers.policy.go.set()
    expect(page.locator("#setup-idle")).to_be_visible()
    assert page.locator("#setup-runs").count() == 0
    assert run


@pytest.mark.parametrize("options", [ServerOptions(fixed_models=True, drain_seconds=2)])
def test_where_the_model_is_fixed_the_page_says_so_and_offers_nothing(
    place: Path, visit: Opener, options: ServerOptions
) -> None:
    with served(place, options, models=()) as desk:
        page = visit(desk.address).page
        expect(page.locator("#ask-box")).to_be_visible()
        expect(page.locator("#no-model")).to_have_count(0)
        page.locator("#to-setup").click()
        expect(page.locator("#setup-closed")).to_have_text(
            "The model of this server is set by its administrator."
        )
        expect(page.locator("#setup-form")).to_have_count(0)
        expect(page.locator("#choice-agent")).to_be_visible()
        check_axe(page, "fixed")


def test_without_rights_there_is_neither_an_address_nor_a_choice_for_everyone(
    place: Path, tmp_path: Path, visit: Opener
) -> None:
    users = TokenFile(tmp_path / "tokens.toml")
    token = users.add("bob")
    with served(place, ServerOptions(drain_seconds=2, tokens=users), models=()) as desk:
        opened = visit(desk.address)
        opened.expected.append("status of 401")
        page = opened.page
        page.locator("#token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#to-setup").click()
        expect(page.locator("#setup-server option")).to_have_count(6)
        expect(page.locator("#setup-server")).not_to_contain_text("address")
        expect(page.get_by_role("radio", name="Everyone")).to_have_count(0)
        expect(page.locator("#setup-found")).to_have_count(0)
        check_axe(page, "without rights")


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_grave_and_nothing_stands_out(
    place: Path, visit: Opener, size: dict[str, int] | None
) -> None:
    long = "x" * 60 + ":8b-" + "قطار" * 8
    how = {"viewport": size} if size else {}
    with (
        JsonServer(ollama({long: ("qwen3vl", True), "qwen3:8b": ("qwen3", False)})) as other,
        model() as server,
    ):
        found = (LocalServer("Ollama", other.url, "ollama"), LocalServer("vLLM", server.url))
        with served(place, found=found, models=()) as desk:
            page = setup_page(visit, desk, **how)
            expect(page.locator(".server-card")).to_have_count(2)
            check_axe(page, "found")
            page.locator(f".server-card[data-server='{server.url}'] button").click()
            page.locator("#setup-test").click()
            expect_end(page, "can be used")
            check_axe(page, "tested")
            page.locator("#setup-save").click()
            expect(page.locator("#setup-current")).to_have_text(MODEL)
            check_axe(page, "saved")
            check_no_sideways(page)
