"""A server that asks for its token: the way in, the way out, and back in without losing anything."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from browsing import KAYAK, check_page_shown, served
from playwright.sync_api import expect

from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

    from browsing import Desk, Opener, Visit
    from playwright.sync_api import Page

TOKEN = "secret-token"
REFUSED = "status of 401"


def _sign_in(page: Page, token: str = TOKEN) -> None:
    page.locator("#token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def _signed_in(desk: Desk, visit: Opener, place: str = "") -> Visit:
    opened = visit(f"{desk.address}/{place}")
    _sign_in(opened.page)
    expect(opened.page.locator("#sidebar")).to_be_visible()
    return opened


def test_a_wrong_token_is_told_and_the_right_one_opens_all(guarded: Desk, visit: Opener) -> None:
    opened = visit(guarded.address)
    opened.expected.append(REFUSED)
    page = opened.page
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#token")).to_be_focused()
    expect(page.locator("#ask-box")).to_have_count(0)
    _sign_in(page, "wrong")
    expect(page.locator("#token-problem")).to_have_text("The token is wrong.")
    expect(page.locator("#token")).to_have_attribute("aria-invalid", "true")
    _sign_in(page)
    expect(page.locator("#ask-box")).to_be_visible()
    expect(page.locator("#sign-in")).to_have_count(0)

    opened.ask(KAYAK)  # the stream of events and the pictures need the session too
    expect(page.locator("#answer-text")).to_contain_text("4.20")
    page.locator("[data-citation='1']").click()
    check_page_shown(page)


def test_the_token_is_nowhere_in_the_browser(guarded: Desk, visit: Opener) -> None:
    page = _signed_in(guarded, visit).page
    expect(page.locator("#ask-box")).to_be_visible()
    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert TOKEN not in kept
    (cookie,) = page.context.cookies()
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Strict"
    assert TOKEN not in str(cookie)
    assert TOKEN not in page.content()


def test_who_signs_out_sees_nothing_more(guarded: Desk, visit: Opener) -> None:
    opened = _signed_in(guarded, visit)
    opened.expected.append(REFUSED)  # of pictures that were still on their way
    page = opened.page
    opened.ask(KAYAK)
    expect(page.locator("#answer-text")).to_be_visible()
    (cookie,) = page.context.cookies()
    page.locator("#ask-box").fill("Half a question")
    page.locator("#sign-out").click()
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#answer-text")).to_have_count(0)
    expect(page.get_by_text(KAYAK)).to_have_count(0)
    expect(page.get_by_text("4.20")).to_have_count(0)  # nor in what screen readers were told
    cookies = {cookie.get("name", ""): cookie.get("value", "")}
    assert (
        httpx.get(f"{guarded.address}/runs", cookies=cookies).status_code == 401
    )  # ended, not only forgotten
    page.reload()
    expect(page.locator("#sign-in")).to_be_visible()
    _sign_in(page)
    expect(page.locator("#answer-text")).to_be_visible()
    expect(page.locator("#ask-box")).to_have_value("")


def test_a_restart_signs_nobody_out(place: Path, visit: Opener) -> None:
    options = ServerOptions(drain_seconds=1, token=TOKEN)
    with served(place, options) as desk:
        opened = _signed_in(desk, visit)
        port = urlsplit(desk.address).port or 0
    opened.expected.append("ERR_CONNECTION")
    with served(place, options, port=port):
        opened.page.locator("#ask-box").fill(KAYAK)
        opened.page.locator("#ask-box").press("Enter")
        expect(opened.page.locator("#answer-text")).to_contain_text("4.20")
        expect(opened.page.locator("#sign-in")).to_have_count(0)


def test_an_ended_session_leads_back_to_the_question_that_was_typed(place: Path, visit: Opener) -> None:
    options = ServerOptions(drain_seconds=1, token=TOKEN)
    with served(place, options) as desk:
        opened = _signed_in(desk, visit)
        page = opened.page
        page.locator("#ask-box").fill(KAYAK)
        port = urlsplit(desk.address).port or 0
    opened.expected += [REFUSED, "ERR_CONNECTION"]
    with served(place, replace(options, token="another"), port=port):
        page.keyboard.press("Enter")  # the page may have signed out already, by a request of its own
        expect(page.locator("#sign-in")).to_contain_text("You were signed out")
        _sign_in(page, "another")
        expect(page.locator("#ask-box")).to_have_value(KAYAK)
        page.locator("#ask-box").press("Enter")
        expect(page.locator("#answer-text")).to_contain_text("4.20")


def test_a_link_to_a_step_leads_there_through_the_sign_in(guarded: Desk, visit: Opener) -> None:
    first = _signed_in(guarded, visit)
    first.ask(KAYAK, agent="vimrag")
    expect(first.page.locator("#answer-text")).to_be_visible()
    (run,) = guarded.answers.store.ids()
    page = _signed_in(guarded, visit, f"#/runs/{run}?step=1").page
    expect(page.locator("#player .player-status")).to_contain_text("Step 1 of")
    expect(page.locator("#graph [data-node]")).to_have_count(2)
    expect(page.locator("#answer")).to_be_hidden()
    expect(page).to_have_url(re.compile(rf"#/runs/{run}\?step=1$"))
