"""The page below a path, behind a proxy that strips it and says nothing of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import KAYAK
from playwright.sync_api import expect
from prefix_proxy import below

if TYPE_CHECKING:
    from collections.abc import Generator

    from browsing import Desk, Opener


@pytest.fixture
def proxy(desk: Desk) -> Generator[str]:
    with below({"/docs": desk.address}) as address:
        yield f"{address}/docs/"


def test_a_question_its_citation_and_its_link_work_below_a_path(proxy: str, visit: Opener) -> None:
    opened = visit(proxy)
    opened.ask(KAYAK)
    opened.page.locator(".evidence-button").first.click()
    picture = opened.page.locator('#viewer img[src^="items/"]').first
    expect(picture).to_be_visible()
    link = opened.page.url
    assert re.match(re.escape(proxy) + r"#/runs/[\w-]+", link)

    deep = visit(link.split("?")[0])
    expect(deep.page.locator(".evidence-button").first).to_be_visible()
    for address in deep.page.evaluate(
        "[...document.querySelectorAll('[src], a[href]')].map(e => e.src || e.href)"
    ):
        assert address.startswith((proxy, "blob:", "data:")), address
    reference = deep.page.evaluate("new URL('docs', document.baseURI).href")
    assert httpx.get(reference).status_code == 200
