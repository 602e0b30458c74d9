"""A run that goes on while its readers come late, leave and come again, and while its server dies."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
from hosting import ANSWER, SEARCH
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Generator

    from browsing import Desk, Opener
    from playwright.sync_api import Page, Route

QUESTION = "How many passengers?"
TWICE = (SEARCH, SEARCH.replace("Where is it?", "Once more."), ANSWER)


def _open_steps(page: Page) -> None:
    """Opens all steps."""
    if page.locator("#status").get_attribute("aria-expanded") == "false":
        page.locator("#status").click()
    if page.locator("#fold-steps").inner_text() == "Open all":
        page.locator("#fold-steps").click()


def _check_whole(page: Page) -> None:
    """Each step stands there once, with what was thought in it once."""
    expect(page.locator("#answer-text")).to_contain_text("48,200")
    expect(page.locator(".run")).to_have_attribute("data-state", "ended")
    _open_steps(page)
    steps = page.locator("[data-step]")
    expect(steps).to_have_count(3)
    assert [step.get_attribute("data-step") for step in steps.all()] == ["1", "2", "3"]
    thoughts = [thought.inner_text() for thought in page.locator("[data-step] .thought").all()]
    assert thoughts == ["Where is it?", "Once more.", "There."]


def test_late_and_reloaded_readers_see_each_step_once(desk: Desk, visit: Opener) -> None:
    policy = desk.answers.policy
    policy.replies = TWICE
    opened = visit(desk.address)
    opened.ask(QUESTION, model="scripted")
    page = opened.page
    expect(page.locator("#stop")).to_be_visible()
    policy.release(1)
    expect(page.locator("[data-step='1']")).to_contain_text("ferry passengers")
    (run,) = desk.answers.store.ids()
    late = visit(f"{desk.address}/#/runs/{run}").page
    expect(late.locator("[data-step='1']")).to_contain_text("ferry passengers")
    expect(late.locator("#stop")).to_be_visible()
    page.reload()
    expect(page.locator("[data-step='1']")).to_contain_text("ferry passengers")
    policy.release(1)
    expect(page.locator("[data-step='2']")).to_contain_text("ferry passengers")
    page.reload()
    expect(page.locator("[data-step='2']")).to_contain_text("ferry passengers")
    policy.go.set()
    _check_whole(page)
    _check_whole(late)


def test_a_broken_stream_is_taken_up_where_it_broke(desk: Desk, visit: Opener) -> None:
    run = desk.run(QUESTION, *TWICE)
    stream = httpx.get(f"{desk.address}/runs/{run}/events").text
    asked: list[int] = []

    def answer(route: Route) -> None:
        asked.append(int(parse_qs(urlsplit(route.request.url).query)["after"][0]))
        parts = [
            stream[: len(stream) // 3],
            stream[: len(stream) * 2 // 3],
        ]  # the second tells the first again
        if len(asked) > len(parts):
            route.continue_()
        else:
            route.fulfill(body=parts[len(asked) - 1], content_type="text/event-stream")

    page = visit(desk.address).page
    page.route("**/events?*", answer)
    page.goto(f"{desk.address}/#/runs/{run}")
    page.locator("#status").click()
    _check_whole(page)
    expect(page.locator("#lost")).to_be_hidden()
    first, second, third = asked
    assert first == -1
    assert first < second < third


def test_a_run_that_was_stopped_by_another_ends_here_too(desk: Desk, visit: Opener) -> None:
    run = desk.post(QUESTION, model="scripted")
    page = visit(f"{desk.address}/#/runs/{run}").page
    other = visit(f"{desk.address}/#/runs/{run}").page
    expect(page.locator("#stop")).to_be_visible()
    other.locator("#stop").click()
    for one in (page, other):
        expect(one.locator("#answer")).to_have_attribute("data-reason", "cancelled")
        expect(one.locator("#stop")).to_be_hidden()
        expect(one.locator(f".entry[data-run='{run}']")).to_have_attribute("data-state", "stopped")


@contextmanager
def _process(place: Path, port: int = 0) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """A server that can be killed, and its address."""
    program = Path(__file__).with_name("killable.py")
    with subprocess.Popen(
        [sys.executable, program, place, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_a_killed_server_is_waited_for_and_its_run_is_told_as_cut_off(place: Path, visit: Opener) -> None:
    with _process(place) as (address, process):
        opened = visit(address)
        opened.expected += ["ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
        opened.ask(QUESTION, model="scripted")
        page = opened.page
        expect(page.locator("#stop")).to_be_visible()
        process.kill()
        process.wait(20)
        expect(page.locator("#lost")).to_contain_text("Trying again")
        expect(page.locator("#away")).to_contain_text("The server does not answer")
    with _process(place, urlsplit(address).port or 0):
        expect(page.locator("#answer")).to_have_attribute("data-reason", "interrupted", timeout=40_000)
        expect(page.locator("#answer")).to_contain_text("was interrupted")
        expect(page.locator("#lost")).to_be_hidden()
        expect(page.locator("#away")).to_be_hidden()
        expect(page.locator("#stop")).to_be_hidden()
        expect(page.locator(".entry")).to_have_attribute("data-state", "failed")
        page.get_by_role("button", name=re.compile("Ask again")).click()
        expect(page.locator("#ask-box")).to_be_focused()
