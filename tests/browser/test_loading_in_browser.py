"""What stands there while the page loads, what it asks for, and what a browser keeps."""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from browsing import KAYAK, NARROW, WIDE, check_page_shown
from playwright.sync_api import Page, Request, Route, expect
from test_accessibility_in_browser import check_axe

if TYPE_CHECKING:
    from collections.abc import Generator

    from browsing import Desk, Opener

MIDDLE = {"width": 768, "height": 1024}
SPOTS = """() => [".ask h1", ".ask-lead", ".composer-box", ".composer textarea"].map((name) => {
  const { x, y, width, height } = document.querySelector(name).getBoundingClientRect();
  return [x, y, width, height];
})"""
SHIFT = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => resolve(list.getEntries().reduce((sum, { value }) => sum + value, 0)))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(0), 300);
})"""


def _blank(desk: Desk, visit: Opener, **how: object) -> Page:
    return visit(
        f"{desk.address}/healthz", **how
    ).page  # of the same origin: the page comes when its routes are set


@contextmanager
def _held(page: Page, address: str) -> Generator[None]:
    """Open the page while its modules do not arrive; they do at the end."""
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

    page.route("**/app.js", hold)
    with page.expect_request("**/app.js"):
        page.goto(address, wait_until="commit")
    expect(page.locator("body")).to_have_css("overflow", "hidden")  # the style sheet is there
    yield
    for route in routes:
        route.continue_()


def _open_whole(page: Page, address: str) -> None:
    """Open the page, and wait for the parts of it that are loaded ahead."""
    with ExitStack() as parts:
        for part in ("run-thread", "viewer-viewer", "documents-view", "setup-setup"):
            parts.enter_context(page.expect_request_finished(partial(_is_part, part)))
        page.goto(address)


def _is_part(part: str, request: Request) -> bool:
    return request.url.endswith(f"/{part}.js")


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW], ids=["wide", "middle", "narrow"])
@pytest.mark.parametrize("sidebar", ["open", "closed"])
def test_nothing_jumps_when_the_modules_arrive(
    desk: Desk, visit: Opener, size: dict[str, int], sidebar: str
) -> None:
    page = _blank(desk, visit, viewport=size)
    page.add_init_script(
        f"if (isSecureContext && origin !== 'null') localStorage.setItem('vrag.rail', '{sidebar}')"
    )
    with _held(page, desk.address):
        expect(page.locator("#first-box")).to_be_visible()
        before = page.evaluate(SPOTS)
    expect(page.locator("#ask-box")).to_be_visible()
    expect(page.locator("#first")).to_have_count(0)
    assert page.evaluate(SPOTS) == before
    assert page.evaluate(SHIFT) == 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_what_is_typed_meanwhile_is_kept_with_the_focus(
    desk: Desk, visit: Opener, size: dict[str, int]
) -> None:
    page = _blank(desk, visit, viewport=size, has_touch=size is NARROW, is_mobile=size is NARROW)
    with _held(page, desk.address):
        page.locator("#first-box").click()
        page.keyboard.type("What is the single fare")
    box = page.locator("#ask-box")
    expect(box).to_be_focused()
    expect(box).to_have_value("What is the single fare")
    page.keyboard.type(" for a kayak?")
    expect(box).to_have_value("What is the single fare for a kayak?")
    expect(page.locator("#ask-button")).to_be_enabled()


@pytest.mark.parametrize("hash", ["#/documents", "#/runs/20200101-000000-000000-0000"])
def test_other_places_do_not_begin_with_the_question_box(desk: Desk, visit: Opener, hash: str) -> None:
    opened = visit(f"{desk.address}/healthz")
    opened.expected.append("404")  # there is no such run
    page = opened.page
    with _held(page, f"{desk.address}/{hash}"):
        expect(page.get_by_text("Loading", exact=True)).to_be_visible()
        expect(page.locator("#first")).to_be_hidden()
    expect(page.locator("#first, #starting")).to_have_count(0)


def test_each_part_is_asked_for_once(desk: Desk, visit: Opener) -> None:
    """What is asked for before the modules arrive is used by them: the browser complains otherwise."""
    page = _blank(desk, visit)
    asked: Counter[str] = Counter()

    def note(request: Request) -> None:
        if "/questions?" not in request.url:  # these are asked for until they have been made
            asked[re.sub(r"\w{16}/", "", request.url.removeprefix(desk.address))] += 1

    page.on("request", note)
    page.goto(desk.address)
    expect(page.locator("#holds button").first).to_be_visible()
    expect(page.locator("#past-runs .sidebar-empty")).to_be_visible()
    page.wait_for_load_state("networkidle")
    files = {"/", "/static/start.js", "/static/page.css", "/static/app.js", "/static/icon.svg"}
    assert {*files, "/session", "/options", "/runs?limit=100&asker=people"} <= set(asked)
    assert set(asked.values()) == {1}
    assert len(asked) < 15


def test_a_browser_keeps_the_files_until_there_is_another_version(desk: Desk, visit: Opener) -> None:
    page = _blank(desk, visit)
    _open_whole(page, desk.address)
    expect(page.locator("#holds button").first).to_be_visible()
    page.goto("about:blank")
    with page.expect_response(f"{desk.address}/") as shell:
        page.goto(desk.address)
    expect(page.locator("#holds button").first).to_be_visible()
    sent = "performance.getEntriesByType('resource').map(({ name, transferSize }) => [name, transferSize])"
    sizes = {name: size for name, size in page.evaluate(sent) if "/static/" in name}
    assert len(sizes) >= 3
    assert set(sizes.values()) == {0}
    assert page.evaluate("performance.getEntriesByType('navigation')[0].transferSize") < 1000
    assert shell.value.ok


class TestToken:
    """A server that needs one."""

    def test_is_asked_for_without_requests_that_are_refused(self, guarded: Desk, visit: Opener) -> None:
        page = visit(guarded.address).page  # complains of refused ones
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.locator("#first, #sidebar, #toolbar").first).to_be_hidden()

    def test_that_was_not_given_keeps_the_outline_away(self, guarded: Desk, visit: Opener) -> None:
        page = visit(guarded.address).page
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        with _held(page, guarded.address):
            expect(page.get_by_text("Loading", exact=True)).to_be_visible()
            expect(page.locator("#first")).to_be_hidden()
            expect(page.locator("#sidebar")).to_be_hidden()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    def test_that_was_given_brings_it_back(self, guarded: Desk, visit: Opener) -> None:
        page = visit(guarded.address).page
        page.get_by_label("Token").fill("secret-token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#ask-box")).to_be_visible()
        with _held(page, guarded.address):
            expect(page.locator("#first-box")).to_be_visible()
        expect(page.locator("#ask-box")).to_be_visible()


def test_a_script_that_does_not_arrive_takes_the_outline_away(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/healthz")
    opened.expected += ["error", "failed"]
    page = opened.page
    page.route("**/app.js", lambda route: route.abort())
    page.goto(desk.address)
    expect(page.get_by_role("alert")).to_contain_text("The page could not be loaded")
    expect(page.locator("#first, #starting, #sidebar").first).to_be_hidden()
    assert threading.active_count() < 200


PLACES = {"run-thread": "#/runs/{run}", "documents-view": "#/documents", "setup-setup": "#/setup"}


@pytest.mark.parametrize("part", PLACES)
def test_a_part_that_does_not_arrive_is_told_and_the_page_can_be_loaded_again(
    desk: Desk, visit: Opener, part: str
) -> None:
    place = PLACES[part].format(run=desk.run(KAYAK))
    opened = visit(f"{desk.address}/healthz")
    opened.expected += ["failed", "Failed"]
    page = opened.page
    page.route(f"**/{part}.js", lambda route: route.abort())
    page.goto(f"{desk.address}/{place}")
    expect(page.get_by_role("heading", name="A part of the page could not be loaded.")).to_be_visible()
    check_axe(page, part)
    page.unroute_all()
    page.get_by_role("button", name="Load the page again").click()
    expect(page.locator("#answer-text, .held-row, #setup-chosen").first).to_be_visible()


def test_a_viewer_that_does_not_arrive_is_told(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/healthz")
    opened.expected += ["failed", "Failed"]
    page = opened.page
    page.route("**/viewer-viewer.js", lambda route: route.abort())
    page.goto(desk.address)
    page.locator("#holds [data-document]").first.click()
    expect(page.locator(".toast")).to_contain_text("A part of the page could not be loaded.")
    page.unroute_all()
    page.reload()
    page.locator("#holds [data-document]").first.click()
    check_page_shown(page)


def test_parts_are_loaded_ahead_when_there_is_nothing_else_to_do(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/healthz")
    opened.expected.append("DISCONNECTED")
    page = opened.page
    _open_whole(page, desk.address)
    page.context.set_offline(True)  # as if the server were another one now
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_text("The server does not answer.").first).to_be_visible()
    expect(page.get_by_text("A part of the page could not be loaded.")).to_have_count(0)
