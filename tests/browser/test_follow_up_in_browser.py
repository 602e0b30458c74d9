"""A follow-up goes where its run went, and there is room to read while a page is looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import KAYAK, PASSENGERS, check_page_shown, new_question
from hosting import ANSWER, SEARCH
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Page, Route


def _chosen(page: Page) -> dict[str, str]:
    if not page.locator("#options").is_visible():
        page.locator("#options-button").click()
    return {key: page.locator(f"#choice-{key}").input_value() for key in ("agent", "model", "collection")}


def test_a_follow_up_is_asked_as_its_run_was_and_a_new_question_as_was_chosen(
    desk: Desk, visit: Opener
) -> None:
    opened = visit(desk.address)
    opened.ask(KAYAK, agent="vrag", model="", collection="samples")
    page = opened.page
    expect(page.locator("#answer-text")).to_be_visible()
    kept = page.evaluate("localStorage.getItem('vrag.options')")
    assert json.loads(kept) == {"collection": "samples"}  # the rest is as the server has it

    run = desk.run(PASSENGERS, agent="vimrag")
    page.goto(f"{desk.address}/#/runs/{run}")
    expect(page.locator("#answer-text")).to_be_visible()
    expect(page.locator("#options-button")).to_contain_text("VimRAG")
    assert _chosen(page) == {"agent": "vimrag", "model": "", "collection": ""}
    opened.ask("And to Hessel?")
    expect(page.locator("#question")).to_have_text("And to Hessel?")
    expect(page.locator("#answer")).to_be_visible()
    newest = httpx.get(f"{desk.address}/runs").json()["runs"][0]
    assert (newest["agent"], newest["session"], newest["collection"]) == ("vimrag", run, None)

    assert _chosen(page)["agent"] == "vimrag"
    page.locator("#choice-agent").select_option("vrag")  # for this conversation alone
    assert page.evaluate("localStorage.getItem('vrag.options')") == kept
    new_question(page)
    assert _chosen(page) == {"agent": "vrag", "model": "", "collection": "samples"}


def test_a_follow_up_goes_to_the_model_of_its_run_while_it_is_offered(desk: Desk, visit: Opener) -> None:
    run = desk.run("How many passengers?", SEARCH, ANSWER)
    page = visit(f"{desk.address}/#/runs/{run}").page
    expect(page.locator("#answer-text")).to_be_visible()
    assert _chosen(page)["model"] == "scripted"

    def without_it(route: Route) -> None:
        offer = route.fetch().json()
        offer["models"] = [one for one in offer["models"] if one["name"] != "scripted"]
        route.fulfill(json=offer)

    page.route("**/options", without_it)
    page.reload()
    expect(page.locator("#answer-text")).to_be_visible()
    assert _chosen(page)["model"] == ""


@pytest.mark.parametrize("width", [1100, 1200, 1440, 1600])
def test_a_run_has_room_beside_the_viewer(desk: Desk, visit: Opener, width: int) -> None:
    run = desk.run(PASSENGERS)
    page = visit(f"{desk.address}/#/runs/{run}", viewport={"width": width, "height": 800}).page
    sidebar = page.locator("#sidebar")
    expect(sidebar).to_be_visible()
    page.locator("[data-citation='1']").first.click()
    check_page_shown(page)
    box = page.locator("#main").bounding_box()
    assert box is not None
    assert box["width"] >= 540
    if width < 1500:
        expect(sidebar).to_be_hidden()
        page.locator("#sidebar-open").click()  # whoever wants it has it
        expect(sidebar).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    expect(sidebar).to_be_visible()


def test_a_sidebar_that_was_closed_stays_closed_after_the_viewer(desk: Desk, visit: Opener) -> None:
    run = desk.run(PASSENGERS)
    page = visit(f"{desk.address}/#/runs/{run}").page
    page.locator("#sidebar-close").click()
    page.locator("[data-citation='1']").first.click()
    check_page_shown(page)
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    expect(page.locator("#sidebar")).to_be_hidden()


def test_the_sidebar_closes_while_a_run_is_still_loading(desk: Desk, visit: Opener) -> None:
    run = desk.run(PASSENGERS)
    page = visit(f"{desk.address}/healthz").page  # of the same origin: the page comes when its routes are set
    held: list[Route] = []
    page.route("**/runs**", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the function
    page.goto(f"{desk.address}/#/runs/{run}")
    page.locator("#sidebar-close").click()
    expect(page.locator("#sidebar")).to_be_hidden()
    assert held
    page.unroute_all()  # lets them go on
    expect(page.locator("#answer-text")).to_be_visible()
