"""Two people in two browsers: each sees their own conversations, and what the other shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import KAYAK, PASSENGERS, served
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.errors import ModelError
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from browsing import Desk, Opener, Visit
    from playwright.sync_api import Page

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
REFUSED = ["status of 404", "status of 401"]


@dataclass
class Office:
    """A server with users, and their tokens."""

    desk: Desk
    tokens: dict[str, str]
    file: TokenFile

    def enter(self, visit: Opener, name: str, place: str = "") -> Visit:
        """A browser in which a user is signed in."""
        opened = visit(f"{self.desk.address}/{place}", **CLIPBOARD)
        opened.expected += REFUSED
        opened.page.locator("#token").fill(self.tokens[name])
        opened.page.get_by_role("button", name="Sign in").click()
        expect(opened.page.locator("#who")).to_contain_text(name)
        return opened


@pytest.fixture
def office(place: Path, tmp_path: Path) -> Generator[Office]:
    file = TokenFile(tmp_path / "tokens.toml")
    tokens = {
        name: file.add(name, UserRole.ADMINISTER if name == "carol" else UserRole.MANAGE)
        for name in ("alice", "bob", "carol")
    }
    with served(place, ServerOptions(drain_seconds=2, tokens=file)) as desk:
        yield Office(desk, tokens, file)


def asked(opened: Visit, question: str) -> str:
    """Asks, and waits for the answer; the address of the run. Its entry is not drawn anew then."""
    opened.ask(question)
    expect(opened.page.locator("#answer-text").last).to_be_visible()
    expect(opened.page.locator(".entry[aria-current]")).to_have_attribute("data-state", "answered")
    expect(opened.page).to_have_url(re.compile("#/runs/"))
    return opened.page.url


def open_actions(page: Page, title: str, action: str) -> None:
    entry = page.locator(".entry-row", has_text=title)
    entry.hover()
    entry.locator(".entry-more").click()
    page.get_by_role("menuitem", name=action).click()


def test_each_sees_their_own_conversations_and_an_administrator_all(office: Office, visit: Opener) -> None:
    alice, bob = office.enter(visit, "alice"), office.enter(visit, "bob")
    address = asked(alice, KAYAK)
    asked(bob, PASSENGERS)
    expect(alice.page.locator(".entry")).to_have_count(1)
    expect(bob.page.locator(".entry")).to_have_count(1)
    expect(bob.page.locator("#past-runs")).not_to_contain_text(KAYAK)
    bob.page.goto(address)
    expect(bob.page.locator("#no-run")).to_contain_text("Question not found")
    expect(bob.page.get_by_text(KAYAK)).to_have_count(0)

    carol = office.enter(visit, "carol")
    expect(carol.page.locator(".entry")).to_have_count(2)
    expect(carol.page.locator(".entry", has_text=KAYAK)).to_contain_text("alice")
    carol.page.locator("#filter-runs").click()
    carol.page.locator("#filter-owner").select_option("bob")
    expect(carol.page.locator(".entry")).to_have_count(1)
    expect(carol.page.locator(".entry")).to_contain_text(PASSENGERS[:20])
    check_axe(carol.page, "filtered by user")


def test_a_link_offers_to_share_and_opens_for_others_until_that_ends(office: Office, visit: Opener) -> None:
    alice, bob = office.enter(visit, "alice"), office.enter(visit, "bob")
    address = asked(alice, KAYAK)
    alice.page.locator("#share").click()
    check_axe(alice.page, "asked whether to share")
    alice.page.get_by_role("button", name="Share and copy").click()
    expect(alice.page.locator("#toasts")).to_contain_text("Every user of this server can open it")
    assert alice.page.evaluate("navigator.clipboard.readText()") == address
    expect(alice.page.locator(".entry")).to_contain_text("shared")

    bob.page.goto(address)
    expect(bob.page.locator("#answer-text").last).to_contain_text("4.20")
    expect(bob.page.locator(".entry")).to_have_count(0)  # it is not his
    bob.page.locator("#ask-box").fill("And for two days?")
    expect(bob.page.locator("#ask-button")).to_be_disabled()
    expect(bob.page.locator("#ask-button")).to_have_attribute("title", re.compile("Another user"))
    alice.page.locator("#share").click()  # what was told before has gone by now, or stands above
    alice.page.get_by_role("button", name="Stop sharing").last.click()
    expect(alice.page.locator("#toasts")).to_contain_text("Not shared any more")
    expect(alice.page.locator(".entry")).not_to_contain_text("shared")
    bob.page.reload()
    expect(bob.page.locator("#no-run")).to_be_visible()


def test_another_users_run_is_only_read(office: Office, visit: Opener) -> None:
    alice, bob = office.enter(visit, "alice"), office.enter(visit, "bob")
    policy = office.desk.answers.policy
    policy.replies, policy.fault = (), ModelError("The model is away.")
    headers = {"authorization": f"Bearer {office.tokens['alice']}"}
    with httpx.Client(base_url=office.desk.address, headers=headers) as client:
        run = client.post("/runs", json={"question": KAYAK, "model": "scripted"}).json()["id"]
        assert client.patch(f"/runs/{run}", json={"shared": True}).is_success
    for reader in (bob, alice):
        reader.page.goto(f"{office.desk.address}/#/runs/{run}")
        expect(reader.page.locator("#status")).to_be_visible()
    expect(alice.page.locator("#stop")).to_be_visible()
    expect(bob.page.locator("#stop")).to_be_hidden()
    bob.page.keyboard.press("Escape")
    expect(bob.page.locator(".escape-hint")).to_be_empty()
    policy.go.set()
    expect(alice.page.locator("#answer .ask-again")).to_be_visible()
    expect(bob.page.locator("#answer")).to_contain_text("The model is away.")
    expect(bob.page.locator("#answer .answer-actions")).to_have_count(0)


def test_a_link_is_copied_without_sharing(office: Office, visit: Opener) -> None:
    alice = office.enter(visit, "alice")
    address = asked(alice, KAYAK)
    open_actions(alice.page, KAYAK, "Copy link")
    alice.page.get_by_role("button", name="Copy only").click()
    expect(alice.page.locator("#toasts")).to_contain_text("Only you and administrators")
    assert alice.page.evaluate("navigator.clipboard.readText()") == address
    expect(alice.page.locator(".entry")).not_to_contain_text("shared")


def test_a_user_who_is_removed_is_signed_out(office: Office, visit: Opener) -> None:
    alice = office.enter(visit, "alice")
    asked(alice, KAYAK)
    alice.page.locator("#ask-box").fill("And now?")
    office.file.remove("alice")
    alice.page.keyboard.press("Enter")  # the page may have signed out already, by a request of its own
    expect(alice.page.locator("#sign-in")).to_contain_text("You were signed out")
    expect(alice.page.get_by_text(KAYAK)).to_have_count(0)
    headers = {"authorization": f"Bearer {office.tokens['alice']}"}
    assert httpx.get(f"{office.desk.address}/runs", headers=headers).status_code == 401
