"""Past conversations: named, pinned, searched, filtered and deleted, by mouse and by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import KAYAK, NARROW, PASSENGERS, check_no_sideways
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe
from test_users_in_browser import open_actions

if TYPE_CHECKING:
    from browsing import Desk, Opener

LONG = "x" * 200


def test_a_conversation_is_renamed_in_its_place(desk: Desk, visit: Opener) -> None:
    run = desk.run(KAYAK)
    page = visit(f"{desk.address}/#/runs/{run}").page
    entry = page.locator(".entry")
    expect(entry).to_contain_text(KAYAK[:20])
    for key, title, shown in (
        ("Escape", "Not kept", KAYAK[:20]),
        ("Enter", "Prices <b>2024</b>", "Prices <b>2024</b>"),
        ("Enter", "سعر الكاياك", "سعر الكاياك"),
        ("Enter", LONG + "y", LONG),
        ("Enter", "  ", KAYAK[:20]),
    ):
        page.locator(".entry-row").hover()
        page.locator(".entry-more").click()
        page.get_by_role("menuitem", name="Rename").click()
        field = page.get_by_label("Title of the conversation")
        expect(field).to_be_focused()
        field.fill(title)
        field.press(key)
        expect(entry).to_contain_text(shown)
        expect(page.locator(".entry-more")).to_be_focused()
        check_no_sideways(page)
    page.reload()
    expect(entry).to_contain_text(KAYAK[:20])


def test_an_entry_stays_as_it_is_while_others_come(desk: Desk, visit: Opener) -> None:
    desk.run(KAYAK)
    page = visit(desk.address).page
    entry = page.locator(".entry")
    entry.evaluate("(link) => { link.kept = true; }")
    desk.run(PASSENGERS)
    page.evaluate("window.dispatchEvent(new Event('vrag:run'))")  # as when a run ends
    expect(entry).to_have_count(2)
    assert entry.last.evaluate("(link) => link.kept")


def test_what_is_pinned_stands_on_top_however_old(desk: Desk, visit: Opener) -> None:
    old = desk.run(KAYAK)
    for number in range(2):
        desk.run(f"{PASSENGERS} {number}")
    page = visit(desk.address).page
    expect(page.locator(".entry")).to_have_count(3)
    open_actions(page, KAYAK, "Pin")
    expect(page.locator(".day h2").first).to_have_text("Pinned")
    expect(page.locator(".entry").first).to_have_attribute("data-run", old)
    check_axe(page, "pinned")
    page.reload()
    expect(page.locator(".entry").first).to_have_attribute("data-run", old)
    open_actions(page, KAYAK, "Unpin")
    expect(page.locator(".entry").last).to_have_attribute("data-run", old)


def test_a_conversation_is_deleted_after_a_question(desk: Desk, visit: Opener) -> None:
    first = desk.run(KAYAK)
    desk.run("And for two days?", session=first)
    other = desk.run(PASSENGERS)
    opened = visit(f"{desk.address}/#/runs/{first}")
    opened.expected.append("status of 404")
    page = opened.page
    expect(page.locator("#answer-text").first).to_be_visible()
    open_actions(page, KAYAK, "Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 questions")
    check_axe(page, "asked whether to delete")
    dialog.get_by_role("button", name="Cancel").click()
    assert len(desk.answers.store.ids()) == 3
    open_actions(page, KAYAK, "Delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator(".entry")).to_have_count(1)
    expect(page.locator(".entry")).to_have_attribute("data-run", other)
    expect(page).to_have_url(f"{desk.address}/#/")
    assert desk.answers.store.ids() == [other]


def test_what_was_deleted_elsewhere_leaves_the_list(desk: Desk, visit: Opener) -> None:
    gone, stays = desk.run(KAYAK), desk.run(PASSENGERS)
    page = visit(desk.address).page
    expect(page.locator(".entry")).to_have_count(2)
    httpx.delete(f"{desk.address}/runs/{gone}", params={"remove": "run"}).raise_for_status()
    page.evaluate("window.dispatchEvent(new Event('vrag:run'))")  # as when a run ends
    expect(page.locator(".entry")).to_have_count(1)
    expect(page.locator(".entry")).to_have_attribute("data-run", stays)


def test_a_running_conversation_is_stopped_and_deleted(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.expected.append("status of 404")
    page = opened.page
    opened.ask("How many passengers?", agent="vrag", model="scripted")
    expect(page.locator("#stop")).to_be_visible()
    open_actions(page, "How many", "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("still running")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".entry")).to_have_count(0)
    expect(page).to_have_url(f"{desk.address}/#/")
    assert desk.answers.store.ids() == []


def test_runs_that_were_not_loaded_are_found_on_the_server(desk: Desk, visit: Opener) -> None:
    wanted = desk.run(KAYAK)
    desk.run(PASSENGERS)
    page = visit(f"{desk.address}/healthz").page  # of the same origin: the page comes when its routes are set
    page.route(
        "**/runs?limit=100&asker=people",
        lambda route: route.continue_(url=f"{desk.address}/runs?limit=1&asker=people"),
    )
    page.goto(desk.address)
    expect(page.locator(".entry")).to_have_count(1)
    page.locator("#search-runs").fill("KAYAK fare")
    expect(page.locator(f".entry[data-run='{wanted}']")).to_be_visible()
    expect(page.locator(".entry")).to_have_count(1)
    page.locator("#search-runs").fill("kayak zebra")
    expect(page.locator(".sidebar-empty")).to_contain_text("No question matches")
    page.locator("#search-runs").fill("")
    expect(page.locator(".entry")).to_have_count(2)


def test_runs_of_programs_stand_apart(desk: Desk, visit: Opener) -> None:
    own = desk.run(KAYAK)
    page = visit(desk.address).page
    expect(page.locator(".entry")).to_have_count(1)
    expect(page.locator("#askers")).to_be_hidden()
    headers = {"Origin": desk.address}
    program = httpx.post(f"{desk.address}/runs", json={"question": PASSENGERS}).json()["id"]
    page.evaluate("window.dispatchEvent(new Event('vrag:run'))")
    expect(page.locator("#asked-by-programs")).to_contain_text("1")
    expect(page.locator(".entry")).to_have_attribute("data-run", own)
    page.locator("#asked-by-programs").click()
    expect(page.locator(".entry")).to_have_attribute("data-run", program)
    expect(page.locator("#asked-by-programs")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#asked-by-programs")).to_be_focused()
    check_axe(page, "programs")
    asked = {"question": KAYAK, "agent": "vimrag"}
    graph = httpx.post(f"{desk.address}/runs", json=asked, headers=headers).json()["id"]
    page.locator("#asked-by-people").click()
    expect(page.locator(".entry")).to_have_count(2)
    page.locator("#filter-runs").click()
    page.locator("#filter-agent").select_option("vimrag")
    expect(page.locator(".entry")).to_have_count(1)
    expect(page.locator(".entry")).to_have_attribute("data-run", graph)


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_the_menu_is_used_by_the_keyboard(desk: Desk, visit: Opener, size: dict[str, int] | None) -> None:
    desk.run(KAYAK)
    page = visit(desk.address, **({"viewport": size} if size else {})).page
    if size:
        page.locator("#sidebar-open").click()
    entry, more, menu = page.locator(".entry"), page.locator(".entry-more"), page.get_by_role("menu")
    entry.focus()
    page.keyboard.press("Tab")
    expect(more).to_be_focused()
    expect(more).to_have_css("opacity", "1")
    page.keyboard.press("Enter")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    expect(more).to_have_attribute("aria-expanded", "true")
    check_axe(page, "menu")
    page.keyboard.press("End")
    expect(menu.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(menu.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(more).to_be_focused()
    expect(more).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#sidebar")).to_be_visible()  # Escape closed nothing else
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".day h2").first).to_have_text("Pinned")
    expect(more).to_be_focused()
