"""The reference of the HTTP interface in a browser: by its policy, by keyboard, on any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import NARROW, WIDE, check_no_sideways
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

if TYPE_CHECKING:
    from browsing import Desk, Opener


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_is_drawn_as_its_policy_allows_and_for_everybody(
    desk: Desk, visit: Opener, size: dict[str, int]
) -> None:
    page = visit(f"{desk.address}/docs", viewport=size).page  # complains of what the policy refuses
    expect(page.get_by_role("heading", name="HTTP interface")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.method')).borderRadius") == "4px"
    check_no_sideways(page)
    check_axe(page, "reference")
    page.get_by_role("link", name="POST /runs").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#post-runs")).to_be_in_viewport()
    check_no_sideways(page)
    page.get_by_role("link", name="Page", exact=True).click()
    expect(page.locator("#ask-box")).to_be_visible()


def test_the_settings_lead_to_it(desk: Desk, visit: Opener) -> None:
    page = visit(f"{desk.address}/#/setup").page
    page.get_by_role("link", name="HTTP interface").click()
    expect(page.get_by_role("heading", name="HTTP interface")).to_be_visible()
