"""Everybody can use the page: axe finds nothing grave, the keyboard reaches all, and what happens is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import axe_playwright_python
import httpx
import pytest
from browsing import KAYAK, NARROW, PASSENGERS, check_page_shown, until
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Page

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
RUN = """async () => {
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame); // for the colours
  return axe.run({resultTypes: ["violations"]});
}"""
GRAVE = {"serious", "critical"}
WATCH_HINT = """() => {
  const hint = document.querySelector(".escape-hint");
  window.hints = [];
  const note = () => hint.checkVisibility() && hints.push(hint.textContent);
  new MutationObserver(note).observe(hint, {childList: true});
}"""
"""Notes what the hint says: it does so for a second."""


def check_axe(page: Page, state: str) -> None:
    """No serious and no critical finding, by light and by dark."""
    page.evaluate(AXE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found: dict[str, Any] = page.evaluate(RUN)
        grave = [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]
        assert grave == [], f"{state}, {scheme}"


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_grave_while_a_question_is_asked_and_read(
    desk: Desk, visit: Opener, size: dict[str, int] | None
) -> None:
    opened = visit(desk.address, **({"viewport": size} if size else {}))
    page = opened.page
    expect(page.locator("#holds [data-document]").first).to_be_visible()
    check_axe(page, "empty")
    page.locator("#options-button").click()
    check_axe(page, "options")
    opened.ask("How many passengers?", agent="vrag", model="scripted")
    expect(page.locator("#stop")).to_be_visible()
    check_axe(page, "running")
    desk.answers.policy.go.set()
    expect(page.locator("#answer-text")).to_be_visible()
    check_axe(page, "answered by VRAG")
    page.locator("#status").click()
    expect(page.locator(".step").first).to_be_visible()
    check_axe(page, "steps")
    page.locator("[data-citation='1']").click()
    check_page_shown(page)
    check_axe(page, "viewer")


def test_axe_finds_nothing_grave_in_a_graph_and_its_replay(desk: Desk, visit: Opener) -> None:
    run = desk.run(KAYAK, agent="vimrag")
    page = visit(f"{desk.address}/#/runs/{run}").page
    expect(page.locator("#answer-text")).to_be_visible()
    check_axe(page, "answered by VimRAG")
    page.locator("#status").click()
    page.locator("#graph [data-node='search_1']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#node-panel")).to_be_visible()
    check_axe(page, "node")
    page.locator("#replay").click()
    expect(page.locator("#player")).to_be_visible()
    check_axe(page, "replay")


def test_axe_finds_nothing_grave_in_documents_dialogs_and_errors(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/#/documents")
    opened.expected.append("status of 404")
    page = opened.page
    expect(page.locator(".held-row").first).to_be_visible()
    page.locator("#upload-files").set_input_files({"name": "a.exe", "mimeType": "", "buffer": b"1"})
    expect(page.locator(".job")).to_be_visible()
    check_axe(page, "documents")
    page.locator("#new-collection").click()
    check_axe(page, "dialog")
    page.keyboard.press("Escape")
    page.goto(f"{desk.address}/#/runs/20200101-000000-000000-0000")
    expect(page.locator("#no-run")).to_be_visible()
    check_axe(page, "no such run")


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_grave_where_documents_are_chosen(
    desk: Desk, visit: Opener, size: dict[str, int] | None
) -> None:
    page = visit(f"{desk.address}/#/documents?words=2024", **({"viewport": size} if size else {})).page
    page.locator(".held-row input").first.check()
    expect(page.locator("#choice-bar")).to_be_visible()
    check_axe(page, "chosen rows")
    page.get_by_role("radio", name="Grid").check()
    check_axe(page, "grid")
    page.locator("#ask-chosen").click()
    expect(page.locator("#chosen")).to_be_visible()
    expect(page.locator(".example").first).to_be_visible()
    check_axe(page, "chosen documents")


def test_axe_finds_nothing_grave_at_the_door(guarded: Desk, visit: Opener) -> None:
    opened = visit(guarded.address)
    opened.expected.append("status of 401")
    page = opened.page
    expect(page.locator("#token")).to_be_visible()
    check_axe(page, "sign-in")
    page.locator("#token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-problem")).to_be_visible()
    check_axe(page, "wrong token")


def _tab_to(page: Page, selector: str, *, most: int = 60) -> None:
    """Presses Tab until this has the focus."""
    wanted = page.locator(selector).first
    for _ in range(most):
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{selector} is not reached by Tab")


def test_a_question_is_asked_and_its_evidence_seen_by_keys_alone(desk: Desk, visit: Opener) -> None:
    page = visit(desk.address).page
    expect(page.locator("#ask-box")).to_be_focused()
    _tab_to(page, "#options-button")
    page.keyboard.press("Enter")
    expect(page.locator("#choice-agent")).to_be_visible()
    _tab_to(page, "#choice-model")
    page.keyboard.press("Home")  # without a model
    page.keyboard.press("Escape")
    expect(page.locator("#options")).to_be_hidden()
    expect(page.locator("#options-button")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("/")  # a letter here: the focus is no field
    expect(page.locator("#ask-box")).to_be_focused()
    page.keyboard.type(PASSENGERS)
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")  # the evidence stays as it is
    _tab_to(page, "[data-citation='1']")
    page.keyboard.press("Enter")
    expect(page.locator("#viewer-title")).to_be_focused()
    expect(page.locator(".viewer-count")).to_have_text("of 8")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer-page")).to_have_value("4")
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    expect(page.locator("[data-citation='1']").first).to_be_focused()


def test_escape_pressed_twice_stops_a_run_and_its_end_is_told(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    page = opened.page
    expect(page.locator("#stop")).to_be_visible()
    log = page.get_by_role("log", name="Status messages")
    expect(log).to_have_attribute("aria-live", "polite")
    expect(log).to_contain_text("Asked")
    page.locator("#question").click()  # out of the field: there it would leave the field
    page.evaluate(WATCH_HINT)
    page.keyboard.press("Escape")
    until(page, "hints.includes('Press Esc again to stop.')")
    expect(page.get_by_text("Press Esc again to stop.")).to_be_hidden()  # it was one alone
    (run,) = desk.answers.store.ids()
    assert httpx.get(f"{desk.address}/runs/{run}").json()["state"] == "running"
    page.evaluate("""() => { for (let press = 0; press < 2; press++)
      document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true})); }""")
    expect(page.locator("#answer")).to_have_attribute("data-reason", "cancelled")
    expect(log).to_contain_text("Stopped")


def test_what_a_run_does_is_told_as_it_does_it(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    page = opened.page
    expect(page.locator("#stop")).to_be_visible()
    desk.answers.policy.go.set()
    log = page.get_by_role("log", name="Status messages")
    expect(log).to_contain_text("Searching ferry passengers")
    expect(log).to_contain_text("Answered: 48,200")


def test_who_wants_no_motion_gets_none(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address, reduced_motion="reduce")
    opened.ask("How many passengers?", model="scripted")
    expect(opened.page.locator("#stop")).to_be_visible()
    moving = opened.page.evaluate("""() => document.getAnimations().filter((one) => {
      const {duration, iterations} = one.effect.getComputedTiming();
      return one.playState === "running" && (duration > 50 || iterations === Infinity);
    }).length""")
    assert moving == 0
