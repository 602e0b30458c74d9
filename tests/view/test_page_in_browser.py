"""The page in a real browser: drawn, still, silent, and as wide as the window."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from hostile import hostile, payload
from PIL import Image
from sample_runs import Telling, vimrag_run, vrag_run

from vrag.render.run_page import render

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
RUNS = pytest.mark.parametrize("run", [vrag_run, vimrag_run], ids=["vrag", "vimrag"])
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


class Site:
    """A server of some pages, which writes down what it is asked for."""

    def __init__(self, browser: Path) -> None:
        self.browser = browser
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                data = site.pages.get(self.path)
                self.send_response(404 if data is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def open(self, path: str, *options: str) -> str:
        """What a browser prints that opens a page of this site."""
        assert CHROMIUM is not None
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
        ]
        command += [
            f"--user-data-dir={self.browser}",
            "--virtual-time-budget=1500",
            *options,
            self.address + path,
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        return done.stdout.decode()

    def title(self, path: str) -> str:
        found = re.search(r"<title>(.*?)</title>", self.open(path, "--dump-dom"), re.DOTALL)
        return found[1] if found else ""


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    made = Site(tmp_path / "browser")
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


def html_of(told: Telling, attack: str = "") -> str:
    events = [hostile(event, attack) for event in told.events] if attack else told.events
    return render(events, told.files.get).html


@RUNS
@pytest.mark.parametrize("guarded", [True, False], ids=["policy", "no policy"])
def test_a_hostile_run_runs_nothing_and_fetches_nothing(
    run: Callable[[], Telling], site: Site, *, guarded: bool
) -> None:
    html = html_of(run(), payload(f"{site.address}/leak"))
    site.pages["/run"] = (html if guarded else POLICY.sub("", html, count=1)).encode()
    assert site.title("/run") not in {"", "PWNED"}
    assert site.asked == ["/run"]


def test_the_same_attacks_succeed_on_a_page_that_does_not_escape(site: Site) -> None:
    site.pages["/naive"] = f"<title>x</title><body>{payload(f'{site.address}/leak')}".encode(errors="replace")
    site.open("/naive", "--dump-dom")
    assert {path.split("?")[-1] for path in site.asked} >= {"script", "img", "css"}


def test_the_policy_alone_stops_the_same_attacks(site: Site) -> None:
    meta = POLICY.search(html_of(vrag_run()))
    assert meta is not None
    attack = payload(f"{site.address}/leak").split("<meta")[0]
    site.pages["/naive"] = f"<title>x</title>{meta[0]}<link rel=icon href=data:,><body>{attack}".encode(
        errors="replace"
    )
    assert site.title("/naive") == "x"
    assert site.asked == ["/naive"]


MEASURE = """<!doctype html><title>-</title><body style="margin:0">
<iframe src="/run" style="border:0;width:{width}px;height:900px"></iframe><script>
onload = () => {{
  const page = frames[0].document, root = page.documentElement;
  const boxes = [...page.querySelectorAll("button .picture")].filter(p => p.checkVisibility());
  const button = page.querySelector("figure button");
  button.click();
  const large = page.querySelector(":popover-open");
  document.title = JSON.stringify([
    root.scrollWidth, boxes.length, boxes.filter(b => b.getBoundingClientRect().width < 20).length,
    large !== null && large.getBoundingClientRect().height > 200,
    frames[0].performance.getEntriesByType("resource").filter(e => !e.name.startsWith("data:")).length,
    button.tabIndex,
  ]);
}};
</script>"""


@RUNS
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_is_as_wide_as_its_window_and_enlarges_its_pictures(
    run: Callable[[], Telling], width: int, site: Site
) -> None:
    site.pages["/run"] = html_of(run()).encode()
    site.pages["/"] = MEASURE.format(width=width).encode()
    wide, pictures, tiny, opens, fetched, tab = json.loads(site.title("/"))
    assert wide == width
    assert pictures >= 5
    assert (tiny, opens, fetched, tab) == (0, True, 0, 0)


def coloured(shot: Image.Image, colour: tuple[int, int, int]) -> int:
    """Pixels of about a colour."""
    small = shot.convert("RGB")
    counts = small.getcolors(small.width * small.height) or []
    return sum(n for n, seen in counts if max(abs(a - b) for a, b in zip(seen, colour, strict=True)) < 12)  # type: ignore[arg-type]


def shot(site: Site, html: str, tmp_path: Path) -> Image.Image:
    site.pages["/run"] = html.encode()
    site.open("/run", f"--screenshot={tmp_path / 'shot.png'}", "--window-size=1280,2600")
    return Image.open(io.BytesIO((tmp_path / "shot.png").read_bytes()))


def test_pictures_and_the_rectangles_over_them_are_drawn(site: Site, tmp_path: Path) -> None:
    told = vrag_run()
    whole = shot(site, html_of(told), tmp_path)
    without = shot(site, render(told.events, lambda _: None).html, tmp_path)
    bars, mark = (217, 122, 43), (240, 78, 35)
    assert coloured(whole, bars) > 20_000
    assert coloured(without, bars) < 100
    assert coloured(whole, mark) > 400 + coloured(without, mark)
