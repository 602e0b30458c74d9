"""Records the web page at work, for README.md and docs/tour.md: `python tools/make_recording.py`.

A real server over the sample documents and a real browser. In the recording a scripted model writes the
replies, so that its answer streams as that of a served model does; pages, search, checks and rectangles are
real. The pictures of the tour are made without a model. Needs Playwright and Chromium, and a Chinese font.
`--only film` and `--only tour` make a part.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.chat_server import Asked, ChatServer, Say  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, Page

expect.set_options(timeout=120_000)

IMAGES = ROOT / "docs" / "images"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
FILM_WIDTH, PICTURE_WIDTH = 1000, 1200
"""In pixels."""
FRAME_MS, LONGEST_MS, LAST_MS = 100, 2500, 4000
"""Least and most time of a frame, and that of the last one."""
COLOURS = 128
PASSENGERS = "How many passengers travelled on the line from Orla to Saltby in 2024?"
KAYAK = "What is the single fare for a kayak?"
FOLLOW_UP = "And in 2023?"
REPLIES = (
    "<think>The report has a table of the lines.</think><search>passengers Orla Saltby 2024</search>",
    "<think>Page 3 has Table 1. I enlarge it to read the numbers.</think><bbox>[97, 138, 903, 426]</bbox>",
    (
        "<think>The row Orla – Saltby has both years.</think>"
        "<answer>**84,210 passengers** travelled on the line from Orla to Saltby in 2024 [2]. "
        "In 2023 there were 86,040, so the change is −2.1 % [2].</answer>"
    ),
)


def scripted(asked: Asked) -> Say:
    """The replies of the recording, at the pace of a served model."""
    return Say(REPLIES[min(asked.turn, len(REPLIES) - 1)], piece=5, first=0.6, pause=0.07)


class Film:
    """What a page looks like as time goes by: a frame for each change that the browser draws."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._shots: list[tuple[float, bytes]] = []
        """Time in seconds, and the picture."""
        self._session: Any = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._take)
        self._session.send("Page.startScreencast", {"format": "png"})

    def _take(self, frame: Any) -> None:  # noqa: ANN401 - the protocol's
        self._shots.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def hold(self, milliseconds: int) -> None:
        """Lets time go by."""
        self._page.wait_for_timeout(milliseconds)

    def save(self, path: Path) -> None:
        """Writes a GIF with one palette for all frames, so that only what changes is stored.

        Frames come at most every `FRAME_MS`; where nothing changes for long, some of the time is left out.
        """
        self._session.send("Page.stopScreencast")
        ends = [time for time, _ in self._shots[1:]] + [self._shots[-1][0] + LAST_MS / 1000]
        frames: list[tuple[Image.Image, int]] = []
        due = 0.0
        for (time, shot), end in zip(self._shots, ends, strict=True):
            due += 1000 * (end - time)
            if due >= FRAME_MS:
                frames.append((_picture(shot, FILM_WIDTH), int(min(due, LONGEST_MS))))
                due = 0.0
        sheet = Image.new("RGB", (FILM_WIDTH, sum(frame.height for frame, _ in frames)))
        top = 0
        for frame, _ in frames:
            sheet.paste(frame, (0, top))
            top += frame.height
        palette = sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame, _ in frames]
        times = [milliseconds for _, milliseconds in frames]
        drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)


def main() -> None:
    """Makes the recording and the pictures of the tour."""
    parser = argparse.ArgumentParser(description="Record the web page.")
    parser.add_argument("--only", choices=("film", "tour"))
    only = parser.parse_args().only
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if only != "tour":
            with (
                ChatServer(scripted) as model,
                _demo("--model", "scripted", "--base-url", model.url) as address,
            ):
                record(browser, address)
        if only != "film":
            with _demo() as address:
                take_pictures(browser, address)
        browser.close()


@contextmanager
def _demo(*options: str) -> Generator[str]:
    """Serves the sample documents in a collection of their own; yields the address."""
    with tempfile.TemporaryDirectory() as home:
        line = [sys.executable, "-m", "vrag", "demo", "--port", "0", "--no-browser"]
        line += ["--collection", f"{home}/samples", *options]
        env = {
            **os.environ,
            "XDG_CONFIG_HOME": home,
            "XDG_STATE_HOME": home,
            "XDG_DATA_HOME": home,
            "VRAG_PROFILE": "qwen3-vl",
        }
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=env, cwd=home) as server:
            try:
                assert server.stdout is not None
                found = (re.search(r"http://[\w.:]+", text) for text in server.stdout)
                yield next(match[0] for match in found if match)
            finally:
                server.terminate()


def _opened(browser: Browser, address: str, **options: Any) -> Page:  # noqa: ANN401 - Playwright's
    """Opens a page whose pictures are as sharp as on a good screen."""
    options = {"viewport": WIDE, "color_scheme": "light", "device_scale_factor": 1.5} | options
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(60_000)
    page.goto(address)
    expect(page.locator("#ask-box")).to_be_visible()
    expect(page.locator("#holds [data-document]").first).to_be_visible()
    return page


def _picture(screenshot: bytes, width: int) -> Image.Image:
    """Makes a picture of a screenshot, at most so wide."""
    with Image.open(io.BytesIO(screenshot)) as shot:
        image = shot.convert("RGB")
    if image.width <= width:
        return image
    height = round(image.height * width / image.width)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def record(browser: Browser, address: str) -> None:
    """Asks a question, waits for the streamed answer, and presses a citation."""
    page = _opened(browser, address, device_scale_factor=1)
    film = Film(page)
    film.hold(900)
    page.locator("#ask-box").press_sequentially(PASSENGERS, delay=25)
    film.hold(400)
    page.locator("#ask-button").click()
    expect(page.locator(".replay")).to_be_visible()
    film.hold(2500)
    page.locator("[data-citation='1']").first.click()
    expect(page.locator("#viewer [data-box]").first).to_be_visible()
    film.hold(3000)
    film.save(IMAGES / "page.gif")
    page.context.close()


def take_pictures(browser: Browser, address: str) -> None:
    """Takes the pictures of docs/tour.md, in its order."""
    page = _opened(browser, address)
    _save(page, "ask")
    ask(page, PASSENGERS)
    _save(page, "answer")
    page.locator("[data-citation='1']").first.click()
    expect(page.locator("#viewer [data-box]").first).to_be_visible()
    page.wait_for_timeout(1500)
    _save(page, "viewer")
    page.keyboard.press("Escape")
    ask(page, FOLLOW_UP, turn=1)
    page.locator(".thread").evaluate("(thread) => { thread.scrollTop = 0; }")
    _save(page, "thread")
    page.locator("#report").click()
    expect(page.locator("dialog[open]")).to_be_visible()
    _save(page, "report")
    page.keyboard.press("Escape")
    page.goto(f"{address}/#/")
    page.locator("#options-button").click()
    page.locator("#choice-agent").select_option("vimrag")
    ask(page, KAYAK)
    page.locator("button.status").last.click()
    page.locator("#graph").scroll_into_view_if_needed()
    page.wait_for_timeout(800)
    _save(page, "graph")
    page.goto(f"{address}/#/documents")
    expect(page.locator(".held-row").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    _save(page, "documents")
    page.goto(f"{address}/#/setup")
    expect(page.locator("#setup-chosen")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("Looking for model servers")).to_be_hidden()
    _save(page, "settings")
    page.goto(f"{address}/#/")
    page.locator("#filter-runs").click()
    page.get_by_role("searchbox", name="Search past questions").fill("kayak")
    page.wait_for_timeout(1500)
    _save(page, "history")
    page.context.close()
    phone = _opened(browser, address, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    _save(phone, "phone")
    phone.context.close()


def ask(page: Page, question: str, turn: int = 0) -> None:
    """Asks a question and waits for its answer, the first or a later one of the conversation."""
    page.locator("#ask-box").fill(question)
    page.locator("#ask-button").click()
    expect(page.locator(".replay").nth(turn)).to_be_visible()
    page.wait_for_load_state("networkidle")


def _save(page: Page, name: str) -> None:
    picture = _picture(page.screenshot(), PICTURE_WIDTH).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"tour-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
