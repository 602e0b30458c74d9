"""A telephone and a tablet: nothing stands out of the window, and all can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import KAYAK, NARROW, PASSENGERS, check_no_sideways, check_spot
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browsing import Desk, Opener

SIZES = [
    pytest.param({"width": 360, "height": 740}, id="telephone"),
    pytest.param({"width": 768, "height": 1024}, id="tablet"),
]
OUTSIDE = """() => [...document.querySelectorAll("button, a, input, select, textarea")].filter((one) => {
  if (!one.checkVisibility({visibilityProperty: true}) || one.closest("[inert], .hidden-text")) return false;
  for (let box = one.parentElement; box; box = box.parentElement)
    if (/auto|scroll|hidden/.test(getComputedStyle(box).overflowX)) return false; // it scrolls, and may
  const {left, right, width} = one.getBoundingClientRect();
  return width > 0 && (left < -1 || right > innerWidth + 1);
}).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("size", SIZES)
def test_a_question_is_asked_and_its_evidence_seen(desk: Desk, visit: Opener, size: dict[str, int]) -> None:
    opened = visit(desk.address, viewport=size, has_touch=True)
    page = opened.page
    expect(page.locator("#holds [data-document]").first).to_be_visible()
    check_no_sideways(page)
    opened.ask(PASSENGERS, agent="vrag")
    expect(page.locator("#answer-text")).to_contain_text("84,210")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    check_no_sideways(page)
    assert page.evaluate(OUTSIDE) == []
    page.locator("[data-citation='1']").first.tap()
    (run,) = desk.answers.store.ids()
    box = desk.answers.store.read(run).result.evidence[0].box
    assert box is not None
    check_spot(page, box)
    check_no_sideways(page)
    assert page.evaluate("document.getElementById('app').inert")  # a sheet: nothing behind it is reached
    expect(page.locator(".viewer-count")).to_have_text("of 8")
    for _ in range(4):
        page.get_by_role("button", name="Larger (+)").tap()
    check_spot(page, box)
    page.locator("#viewer-close").tap()
    expect(page.locator("#viewer")).to_be_hidden()
    assert not page.evaluate("document.getElementById('app').inert")


@pytest.mark.parametrize("size", SIZES)
def test_the_list_of_runs_opens_as_a_drawer_and_leads_to_a_run(
    desk: Desk, visit: Opener, size: dict[str, int]
) -> None:
    run = desk.run(KAYAK, agent="vimrag")
    page = visit(desk.address, viewport=size, has_touch=True).page
    sidebar = page.locator("#sidebar")
    expect(page.locator("#sidebar-open")).to_be_visible()
    expect(sidebar).not_to_be_in_viewport()
    page.locator("#sidebar-open").tap()
    expect(sidebar).to_be_in_viewport()
    expect(page.locator("#sidebar-close")).to_be_focused()
    check_no_sideways(page)
    page.keyboard.press("Escape")
    expect(sidebar).not_to_be_in_viewport()
    expect(page.locator("#sidebar-open")).to_be_focused()
    page.locator("#sidebar-open").tap()
    page.locator(f".entry[data-run='{run}']").tap()
    expect(page.locator("#answer-text")).to_contain_text("4.20")
    expect(sidebar).not_to_be_in_viewport()
    check_no_sideways(page)
    assert page.evaluate(OUTSIDE) == []
    page.locator("#replay").tap()
    expect(page.locator("#player")).to_be_visible()
    check_no_sideways(page)
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("size", SIZES)
def test_documents_and_their_dialogs_fit(desk: Desk, visit: Opener, size: dict[str, int]) -> None:
    page = visit(f"{desk.address}/#/documents", viewport=size, has_touch=True).page
    expect(page.locator(".held-row").first).to_be_visible()
    check_no_sideways(page)
    assert page.evaluate(OUTSIDE) == []
    page.locator(".held-remove").first.tap()
    expect(page.get_by_role("dialog")).to_be_in_viewport(ratio=1)
    check_no_sideways(page)


@pytest.mark.parametrize("size", [*SIZES, pytest.param(NARROW, id="large telephone")])
def test_the_first_page_shows_what_can_be_asked_and_says_what_an_upload_does(
    desk: Desk, visit: Opener, size: dict[str, int]
) -> None:
    page = visit(desk.address, viewport=size, has_touch=True, is_mobile=True).page
    expect(page.locator("#ask-box")).to_be_in_viewport(ratio=1)
    expect(page.locator("#ask-box")).not_to_be_focused()  # a keyboard would cover half of the page
    first = page.locator("#holds [data-document]").first
    expect(first).to_be_in_viewport(ratio=1)
    assert first.evaluate("(button) => button.offsetHeight") >= 40
    assert page.locator("#ask-box").evaluate("(box) => parseFloat(getComputedStyle(box).fontSize)") >= 16
    check_no_sideways(page)
    told = page.locator("#add-documents")
    expect(told).to_contain_text("stored on this server")
    told.get_by_role("link").tap()
    expect(page.get_by_role("heading", name="Documents", exact=True)).to_be_visible()
