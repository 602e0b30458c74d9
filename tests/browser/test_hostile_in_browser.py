"""What models and documents say stays text on the page, and the page's own rules hold."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import check_no_sideways, check_page_shown
from playwright.sync_api import expect

from vrag.errors import ModelError

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Page

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)></svg>"
MARKDOWN = "**bold** [click](javascript:alert(4)) ![x](https://example.invalid/x.png) `code`"
UGLY = f"{MARKUP} {MARKDOWN} {'w' * 400} \u202eevil\u202c \u0007\u001b[31m javascript:alert(5)"
SEEN = f"{MARKUP} {MARKDOWN}"
READ = "bold click (javascript:alert(4)) ![x](https://example.invalid/x.png) code"
"""The same, as an answer shows it: neither its links nor its pictures lead anywhere."""
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
"""
PAGES = ("#/", "#/documents", "#/runs/{vrag}", "#/runs/{vimrag}", "#/runs/{vimrag}?step=1")


def _call(name: str, /, **arguments: object) -> str:
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<think>{UGLY}</think>\n<tool_call>{call}</tool_call>"


VRAG = (f"<think>{UGLY}</think><search>{UGLY}</search>", f"<think>{UGLY}</think><answer>{UGLY}</answer>")
VIMRAG = (
    _call("add_search_node", id="ferry", parent_ids=["root"], query=UGLY),
    _call(
        "summarize_and_memorize",
        summarize=UGLY,
        memorize=[{"information_id": "Picture 1", "is_useful": True, "priority_score": 5}],
    ),
    _call("add_answer_node", parent_ids=["ferry"], answer=UGLY),
)


def _check_text_only(page: Page) -> None:
    """Nothing of it became an element, nothing widened the page."""
    main = page.locator("body")
    expect(main.locator("script, iframe, object, embed, base, [onerror], [onload]")).to_have_count(0)
    expect(main.locator("img[src='x'], img[src*='example.invalid'], a[href^='javascript:']")).to_have_count(0)
    check_no_sideways(page)


def _check_answer(page: Page) -> None:
    """Its markup and its links are text; emphasis may be shown as such."""
    expect(page.locator("#answer-text")).to_contain_text(MARKUP)
    expect(page.locator("#answer-text")).to_contain_text(READ)


@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_text_of_a_model_stays_text_everywhere(desk: Desk, visit: Opener, agent: str) -> None:
    run = desk.run(UGLY, *(VRAG if agent == "vrag" else VIMRAG), agent=agent)
    page = visit(f"{desk.address}/#/runs/{run}").page
    _check_answer(page)
    expect(page.locator("#question")).to_contain_text(SEEN)
    expect(page.locator("#past-runs")).to_contain_text(SEEN)
    _check_text_only(page)
    page.locator("#status").click()
    if agent == "vimrag":
        page.locator("[data-node='ferry']").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#node-panel")).to_contain_text(SEEN)
        page.keyboard.press("Escape")
        page.locator("#tab-steps").click()
    page.locator("#fold-steps").click()
    expect(page.locator("[data-step='1']")).to_contain_text(SEEN)
    _check_text_only(page)
    page.locator("[data-citation='1']").click()
    check_page_shown(page)
    _check_text_only(page)
    page.keyboard.press("Escape")
    page.locator("#report").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    _check_text_only(page)
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    _check_text_only(page)


def test_what_a_model_says_is_text_while_it_says_it(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.replies = VRAG
    opened = visit(desk.address)
    opened.ask(UGLY, agent="vrag", model="scripted")
    page = opened.page
    expect(page.locator("#stop")).to_be_visible()
    desk.answers.policy.go.set()
    _check_answer(page)
    expect(page.get_by_role("log")).to_contain_text(MARKUP)
    _check_text_only(page)


def test_a_fault_of_the_model_is_told_as_text(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.fault = ModelError(UGLY, "Start it.")
    desk.answers.policy.go.set()
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    expect(opened.page.locator("#answer")).to_have_attribute("data-reason", "model_error")
    expect(opened.page.locator("#answer")).to_contain_text(SEEN)
    _check_text_only(opened.page)


def test_the_page_breaks_none_of_its_own_rules(desk: Desk, visit: Opener) -> None:
    ids = {
        agent: desk.run(UGLY, *replies, agent=agent)
        for agent, replies in (("vrag", VRAG), ("vimrag", VIMRAG))
    }
    opened = visit("about:blank", base_url=desk.address)
    opened.address = desk.address
    page = opened.page
    page.add_init_script(VIOLATIONS)
    for place in PAGES:
        page.goto(f"{desk.address}/{place.format(**ids)}")
        page.reload()
        expect(page.locator("#starting, #unloaded")).to_have_count(0)  # the outline has a heading too
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.violations") == []


def test_the_policy_of_the_shell_allows_no_inline_code_and_no_other_site(desk: Desk, visit: Opener) -> None:
    response = httpx.get(desk.address)
    policy = dict(
        part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", response.text)
    opened = visit(desk.address)
    opened.expected.append("Content Security Policy|Trusted")
    page = opened.page
    expect(page.locator("#ask-box")).to_be_visible()
    ran = page.evaluate("""() => {
      const script = document.createElement("script");
      try { script.textContent = "window.ran = true"; document.body.append(script); } catch { }
      const frame = document.createElement("div");
      try { frame.innerHTML = "<b>markup</b>"; } catch { return [window.ran ?? false, "refused"]; }
      return [window.ran ?? false, frame.innerHTML];
    }""")
    assert ran == [False, "refused"]
