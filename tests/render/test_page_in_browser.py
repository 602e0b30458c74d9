"""The page in a real browser: drawn, still, silent, and as wide as the window."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from chromium import CHROMIUM
from hostile import hostile, payload
from PIL import Image
from playwright.sync_api import Browser, Page, Route, sync_playwright
from sample_runs import Telling, vimrag_run, vrag_run

from vrag.render.run_page import render

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]
RUNS = pytest.mark.parametrize("run", [vrag_run, vimrag_run], ids=["vrag", "vimrag"])
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
ADDRESS = "http://vrag.test"


class Site:
    """Pages as a browser shows them, with a record of every request; none leaves the browser."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.html = ""
        self.asked: list[str] = []
        page.route("**/*", self._answer)

    def _answer(self, route: Route) -> None:
        self.asked.append(route.request.url.removeprefix(ADDRESS))
        if route.request.url == f"{ADDRESS}/run":
            route.fulfill(body=self.html.encode(errors="replace"), content_type="text/html; charset=utf-8")
        else:
            route.fulfill(status=404)

    def title(self, html: str) -> str:
        """The title of a page when it has had time to run and fetch things."""
        self.html = html
        self.page.goto(f"{ADDRESS}/run", wait_until="load")
        self.page.wait_for_timeout(300)
        return self.page.title()


@pytest.fixture(scope="module")  # longer would leave its event loop to the tests of other folders
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def site(browser: Browser) -> Generator[Site]:
    with browser.new_page() as page:
        yield Site(page)


def html_of(told: Telling, attack: str = "") -> str:
    events = [hostile(event, attack) for event in told.events] if attack else told.events
    return render(events, told.files.get).html


@RUNS
@pytest.mark.parametrize("guarded", [True, False], ids=["policy", "no policy"])
def test_a_hostile_run_runs_nothing_and_fetches_nothing(
    run: Callable[[], Telling], site: Site, *, guarded: bool
) -> None:
    html = html_of(run(), payload(f"{ADDRESS}/leak"))
    assert site.title(html if guarded else POLICY.sub("", html, count=1)) not in {"", "PWNED"}
    assert site.asked == ["/run"]


def test_the_same_attacks_succeed_on_a_page_that_does_not_escape(site: Site) -> None:
    site.title(f"<title>x</title><body>{payload(f'{ADDRESS}/leak')}")
    assert {path.split("?")[-1] for path in site.asked} >= {"script", "img", "css"}


def test_the_policy_alone_stops_the_same_attacks(site: Site) -> None:
    meta = POLICY.search(html_of(vrag_run()))
    assert meta is not None
    attack = payload(f"{ADDRESS}/leak").split("<meta")[0]
    assert site.title(f"<title>x</title>{meta[0]}<link rel=icon href=data:,><body>{attack}") == "x"
    assert site.asked == ["/run"]


@RUNS
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_is_as_wide_as_its_window_and_enlarges_its_pictures(
    run: Callable[[], Telling], width: int, site: Site
) -> None:
    site.page.set_viewport_size({"width": width, "height": 900})
    site.title(html_of(run()))
    assert site.page.evaluate("document.documentElement.scrollWidth") == width
    pictures = site.page.locator("button .picture").filter(visible=True).all()
    widths = [box["width"] for picture in pictures if (box := picture.bounding_box())]
    assert len(widths) >= 5
    assert min(widths) >= 20
    button = site.page.locator("figure button").first
    button.focus()
    button.press("Enter")
    large = site.page.locator(":popover-open").bounding_box()
    assert large is not None
    assert large["height"] > 200
    assert site.asked == ["/run"]


def coloured(shot: Image.Image, colour: tuple[int, int, int]) -> int:
    """Pixels of about a colour."""
    small = shot.convert("RGB")
    counts = small.getcolors(small.width * small.height) or []
    return sum(n for n, seen in counts if max(abs(a - b) for a, b in zip(seen, colour, strict=True)) < 12)  # type: ignore[arg-type]


def shot(site: Site, html: str) -> Image.Image:
    site.page.set_viewport_size({"width": 1280, "height": 2600})
    site.title(html)
    return Image.open(io.BytesIO(site.page.screenshot()))


def test_pictures_and_the_rectangles_over_them_are_drawn(site: Site) -> None:
    told = vrag_run()
    whole = shot(site, html_of(told))
    without = shot(site, render(told.events, lambda _: None).html)
    bars, mark = (217, 122, 43), (240, 78, 35)
    assert coloured(whole, bars) > 20_000
    assert coloured(without, bars) < 100
    assert coloured(whole, mark) > 400 + coloured(without, mark)
