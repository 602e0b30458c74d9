"""The page says so where it cannot start: without JavaScript, and where a part of it does not arrive."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browsing import NARROW, WIDE, check_no_sideways
from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from browsing import Desk, Opener


def _blank(desk: Desk, visit: Opener, *expected: str) -> Page:
    opened = visit(f"{desk.address}/healthz")  # of the same origin: the page comes when its routes are set
    opened.expected.extend(expected)
    return opened.page


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_javascript_the_page_says_so_in_sight(
    desk: Desk, visit: Opener, size: dict[str, int], scheme: str
) -> None:
    page = visit(desk.address, java_script_enabled=False, viewport=size, color_scheme=scheme).page
    told = page.get_by_role("heading", name="This page needs JavaScript")
    expect(told).to_be_visible()
    expect(told).to_be_in_viewport()
    expect(page.locator("#starting")).to_be_hidden()
    expect(page.locator("#unloaded")).to_be_hidden()


def _cut(route: Route) -> None:
    route.abort()


def _absent(route: Route) -> None:
    route.fulfill(status=404, content_type="application/json", body="{}")


def _half(route: Route) -> None:
    script = route.fetch().text()
    route.fulfill(content_type="text/javascript", body=script[: len(script) // 2])


def _of_another_version(route: Route) -> None:
    """The shell of a server that has been replaced: it names files that are gone."""
    shell = re.sub(r"static/\w{16}/", "static/0123456789abcdef/", route.fetch().text())
    route.fulfill(content_type="text/html", body=shell)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        pytest.param("/static/*/app.js", _cut, id="the modules held back"),
        pytest.param("/static/*/app.js", _absent, id="the modules absent"),
        pytest.param("/static/*/app.js", _half, id="half of the modules"),
        pytest.param("/", _of_another_version, id="of another version"),
    ],
)
def test_a_script_that_does_not_arrive_whole_is_told_with_what_to_do(
    desk: Desk, visit: Opener, path: str, fault: Callable[[Route], None]
) -> None:
    page = _blank(desk, visit, "error", "failed")
    page.route(f"{desk.address}{path}", fault)
    page.goto(f"{desk.address}/#/documents")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("The page could not be loaded")
    expect(told).to_be_in_viewport()
    expect(page.locator("#starting")).to_be_hidden()
    check_no_sideways(page)
    page.unroute_all()
    page.locator("#load-again").click()
    expect(page.locator(".held-row").first).to_be_visible()  # where it was to go
    expect(page.locator("#unloaded")).to_have_count(0)


def test_where_all_scripts_are_held_back_the_page_says_so_after_a_while(desk: Desk, visit: Opener) -> None:
    page = _blank(desk, visit, "error", "failed")
    page.route("**/*.js", _cut)
    page.goto(desk.address)
    expect(page.get_by_text("Loading", exact=True)).to_be_visible()
    expect(page.get_by_text("If nothing more appears")).to_be_visible()


def test_what_stands_there_before_the_page_goes_when_it_starts(desk: Desk, visit: Opener) -> None:
    page = visit(desk.address).page
    expect(page.locator("#ask-box")).to_be_visible()
    expect(page.locator("#starting, #unloaded")).to_have_count(0)
