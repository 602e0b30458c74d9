"""Users of each role in a browser: what they cannot do is not offered, and the page says why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import KAYAK, PATIENCE, PAUSE, ask_by_key, new_question, served
from dated_runs import DatedRuns
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.index.collection import Collection
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from browsing import Desk, Opener, Visit
    from playwright.sync_api import FilePayload, Page, Route

ASK, UPLOAD, MANAGE, ADMINISTER = UserRole
NOTE: FilePayload = {
    "name": "note.md",
    "mimeType": "text/markdown",
    "buffer": b"# Kayaks\n\nA kayak costs 4.20 crowns.",
}
DRAG = """([name, events]) => {
  const data = new DataTransfer();
  data.items.add(new File(["# Dropped"], name));
  for (const type of events) {
    const event = new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector("h1").dispatchEvent(event);
  }
}"""


@dataclass
class Roles:
    """A server with a user of each role, who bears its name."""

    desk: Desk
    file: TokenFile
    tokens: dict[UserRole, str]

    def enter(self, visit: Opener, role: UserRole, place: str = "") -> Visit:
        opened = visit(f"{self.desk.address}/{place}")
        opened.expected += ["status of 401", "status of 403"]
        opened.page.locator("#token").fill(self.tokens[role])
        opened.page.get_by_role("button", name="Sign in").click()
        expect(opened.page.locator("#who")).to_contain_text(role.value)
        return opened

    def client(self, role: UserRole) -> httpx.Client:
        return httpx.Client(
            base_url=self.desk.address, headers={"authorization": f"Bearer {self.tokens[role]}"}, timeout=30
        )


@pytest.fixture
def roles(place: Path, tmp_path: Path) -> Generator[Roles]:
    file = TokenFile(tmp_path / "tokens.toml")
    tokens = {role: file.add(role.value, role) for role in UserRole}
    with served(place, ServerOptions(drain_seconds=2, tokens=file)) as desk:
        yield Roles(desk, file, tokens)


def drop(page: Page, *events: str) -> None:
    page.evaluate(DRAG, ["dropped.md", list(events)])


def test_who_may_only_ask_is_offered_nothing_else_and_learns_why(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, ASK).page
    drop(page, "dragenter")
    expect(page.locator("#drop-frame")).to_contain_text("vrag tokens role ask upload")
    drop(page, "drop")
    expect(page.locator("#toasts")).to_contain_text("The files were not added.")
    expect(page.locator("#toasts")).to_contain_text("vrag tokens role ask upload")
    expect(page.locator("#add-documents")).to_be_hidden()
    expect(page.locator("#who")).to_have_attribute("title", re.compile("may ask$"))
    page.locator("#to-documents").click()
    expect(page.locator(".held-row").first).to_be_visible()
    for missing in ("#upload", "#upload-folder", "#new-collection", ".held-remove", "#remove-collection"):
        expect(page.locator(missing)).to_have_count(0)
    expect(page.locator(".documents")).to_contain_text("The administrator of this server can change this.")
    page.locator(".held-row input").first.check()
    expect(page.locator("#choice-bar")).to_be_visible()
    expect(page.locator("#choice-bar").get_by_role("button", name=re.compile("Remove"))).to_have_count(0)
    check_axe(page, "documents of somebody who may only ask")
    page.locator("#to-setup").click()
    expect(page.locator("#setup-current")).to_be_visible()
    for missing in ("#purge", "#setup-found", "input[value='all']"):
        expect(page.locator(missing)).to_have_count(0)
    new_question(page)
    ask_by_key(page, KAYAK)
    expect(page.locator("#answer-text").last).to_contain_text("4.20")


def test_uploads_of_others_are_seen_and_not_cancelled(roles: Roles, visit: Opener) -> None:
    with roles.client(UPLOAD) as client:
        client.put(
            f"/collections/{Collection.open(roles.desk.place).directory.name}/documents/broken.pdf",
            content=b"%PDF-1.7 nothing",
        ).raise_for_status()
    page = roles.enter(visit, ASK, "#/documents").page
    page.locator("#to-documents").click()
    row = page.locator(".job", has_text="broken.pdf")
    expect(row).to_be_visible()
    expect(row.locator(".job-cancel")).to_be_hidden()
    expect(row.locator(".job-retry")).to_be_hidden()


def test_who_may_upload_adds_and_removes_and_creates_no_collection(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, UPLOAD).page
    page.locator("#to-documents").click()
    expect(page.locator("#not-creatable")).to_contain_text("vrag tokens role upload manage")
    expect(page.locator("#new-collection")).to_have_count(0)
    page.locator("#upload-files").set_input_files(NOTE)
    row = page.locator(".held-row", has_text="note.md")
    expect(row).to_be_visible()
    row.locator(".held-remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_a_role_that_is_taken_away_holds_for_the_open_page(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, MANAGE).page
    page.locator("#to-documents").click()
    expect(page.locator("#new-collection")).to_be_visible()
    roles.file.set_role("manage", ASK)
    page.locator("#upload-files").set_input_files(NOTE)
    row = page.locator(".job", has_text="note.md")
    expect(row).to_contain_text("does not allow you to add")
    expect(page.locator(".documents")).to_contain_text("The administrator of this server can change this.")
    expect(page.locator("#toasts")).to_contain_text("You may now ask.")
    for missing in ("#upload", "#upload-folder", "#new-collection", ".held-remove", "#remove-collection"):
        expect(page.locator(missing)).to_have_count(0)
    expect(row).to_be_visible()
    expect(row.locator(".job-retry")).to_be_hidden()
    expect(page.locator("#who")).to_have_attribute("title", re.compile("may ask$"))


def test_a_refused_removal_shows_what_the_user_may_do_now(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, MANAGE).page
    page.locator("#to-documents").click()
    row = page.locator(".held-row").first
    row.locator("input").check()
    expect(page.locator("#remove-chosen")).to_be_visible()
    roles.file.set_role("manage", UPLOAD)
    page.locator("#new-collection").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("plans")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_contain_text("does not allow you to create or delete collections")
    expect(page.locator("#toasts")).to_contain_text("You may now ask and add documents.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#new-collection")).to_have_count(0)
    expect(page.locator("#not-creatable")).to_contain_text("vrag tokens role manage manage")
    expect(row.locator("input")).to_be_checked()
    page.locator("#toasts").get_by_role("button", name="Dismiss").click()  # it may cover what is below
    roles.file.set_role("manage", ASK)
    page.locator("#remove-chosen").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(page.locator("#toasts")).to_contain_text("You may now ask.")
    expect(page.locator("#remove-chosen")).to_have_count(0)
    expect(page.locator(".held-remove")).to_have_count(0)
    expect(row.locator("input")).to_be_checked()
    check_axe(page, "documents after the role was taken away")


def test_a_role_that_changes_while_the_page_learns_of_the_last_change_is_learnt(
    roles: Roles, visit: Opener
) -> None:
    page = roles.enter(visit, MANAGE).page
    page.locator("#to-documents").click()
    expect(page.locator("#new-collection")).to_be_visible()
    refuse = "window.dispatchEvent(new Event('vrag:forbidden'))"
    waiting: list[Route] = []
    page.route("**/options", lambda route: waiting.append(route), times=1)  # noqa: PLW0108 - it takes functions only
    roles.file.set_role("manage", UPLOAD)
    page.evaluate(refuse)
    expect(page.locator("#toasts")).to_contain_text("You may now ask and add documents.")
    roles.file.set_role("manage", ASK)
    page.evaluate(refuse)
    for _ in range(PATIENCE // PAUSE):
        if waiting:
            break
        page.wait_for_timeout(PAUSE)
    waiting[0].continue_()
    expect(page.locator("#toasts")).to_contain_text("You may now ask.")
    expect(page.locator("#toasts .toast")).to_have_count(1)


def test_settings_of_administrators_go_with_the_role(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, ADMINISTER, "#/setup").page
    page.locator("#to-setup").click()
    # Requests still under way would be refused after the change, and the form would go before the click.
    expect(page.locator("#found-none")).to_be_visible()
    expect(page.locator("#purge-kept")).to_contain_text("until somebody deletes them")
    roles.file.set_role("administer", MANAGE)
    page.locator("#purge-look").click()
    expect(page.locator("#toasts")).to_contain_text("does not allow you to administer")
    expect(page.locator("#purge")).to_have_count(0)
    expect(page.locator("#setup-current")).to_be_visible()
    expect(page.locator("#who")).to_have_attribute("title", re.compile("create collections$"))


def test_a_refusal_for_another_reason_leaves_the_page_as_it_is(roles: Roles, visit: Opener) -> None:
    page = roles.enter(visit, UPLOAD).page
    page.locator("#to-documents").click()
    expect(page.locator("#upload")).to_be_visible()
    with page.expect_response("**/session"):
        page.evaluate("window.dispatchEvent(new Event('vrag:forbidden'))")
    page.locator("#upload-files").set_input_files(NOTE)
    expect(page.locator(".held-row", has_text="note.md")).to_be_visible()
    expect(page.locator("#toasts")).to_have_count(0)


def test_an_administrator_deletes_old_questions(roles: Roles, visit: Opener) -> None:
    runs = DatedRuns(Collection.open(roles.desk.place).runs_dir)
    old, young = runs.add(40, "bob"), runs.add(2, "bob")
    page = roles.enter(visit, ADMINISTER, "#/setup").page
    page.locator("#to-setup").click()
    expect(page.locator(f".entry[data-run='{old}']")).to_be_visible()
    expect(page.locator("#purge-kept")).to_contain_text("until somebody deletes them")
    page.locator("#purge-owner").fill("nobody")
    page.locator("#purge-look").click()
    expect(page.locator("#toasts")).to_contain_text("No conversation is that old.")
    page.locator("#purge-owner").fill("bob")
    page.locator("#purge-look").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 question")
    check_axe(page, "asked whether to delete old questions")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("#toasts")).to_contain_text("Deleted: 1 question.")
    expect(page.locator(f".entry[data-run='{old}']")).to_have_count(0)
    expect(page.locator(f".entry[data-run='{young}']")).to_be_visible()
    assert not runs.store.has_run(old)
